"""The simulated robot: its geometry against itself, its time against the clock, its programs."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.rcp import (
    AdapterBusyError,
    AdapterError,
    HardwareError,
    JointState,
    RCPError,
    TCPPosition,
    ToolData,
)
from robot_mcp_kit.rcp.rotation import ROLL_PITCH_YAW_DEG
from robot_mcp_kit.rcp.simulated import SimulatedAdapter, kinematics
from robot_mcp_kit.rcp.simulated.programs import parse
from robot_mcp_kit.rcp.simulated.robot import HOME_DEG, LIMITS_DEG, MAX_SPEED_DEG_S
from robot_mcp_kit.testing.clock import FakeClock, settle

LIMITS = [(math.radians(low), math.radians(high)) for low, high in LIMITS_DEG]
ANGLES = st.tuples(*(st.floats(low, high) for low, high in LIMITS))
TOOLS = st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(0, 200))
PICK = TCPPosition(600.0, 0.0, 300.0, 180.0, 0.0, 0.0)


@pytest.fixture
async def robot() -> SimulatedAdapter:
    clock = FakeClock(100.0)
    made = SimulatedAdapter(clock=clock, wall=clock.wall)
    await made.connect({})
    return made


def clock_of(robot: SimulatedAdapter) -> FakeClock:
    clock = robot._clock
    assert isinstance(clock, FakeClock)
    return clock


@settings(max_examples=150, deadline=None)
@given(joints=ANGLES, tool=TOOLS)
def test_going_back_and_forth_ends_at_the_same_place(joints: Any, tool: Any) -> None:
    """R14: to 1e-6 mm and 1e-7 rad, for any pose and tool, by joints within their limits."""
    place, turned = kinematics.forward(joints, tool)
    found = kinematics.inverse(place, turned, joints, LIMITS, tool)
    again, turned_again = kinematics.forward(found, tool)
    assert math.dist(place, again) < 1e-6
    for row in range(3):
        assert turned_again[row] == pytest.approx(turned[row], abs=1e-7)
    assert all(low - 1e-9 <= one <= high + 1e-9 for one, (low, high) in zip(found, LIMITS, strict=True))


@settings(max_examples=150, deadline=None)
@given(angles=st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1)))
def test_rotations_are_read_as_they_were_made(angles: tuple[float, float, float]) -> None:
    """R16."""
    read = kinematics.to_rpy(kinematics.from_rpy(*angles))
    assert all(abs(a - b) < 1e-7 for a, b in zip(read, angles, strict=True))


def test_the_arm_is_as_long_as_it_says() -> None:
    """R14: against lengths that are added by hand."""
    straight, _ = kinematics.forward([0.0] * 6, (0.0, 0.0, 100.0))
    assert straight == pytest.approx((450 + 450 + 80 + 100, 0.0, 400.0))
    upright, _ = kinematics.forward([0.0, math.pi / 2, 0.0, 0.0, 0.0, 0.0])
    assert upright == pytest.approx((0.0, 0.0, 400 + 450 + 450 + 80))
    bent, _ = kinematics.forward([math.pi / 2, math.pi / 2, -math.pi / 2, 0.0, -math.pi / 2, 0.0])
    assert bent == pytest.approx((0.0, 450.0, 400 + 450 - 80), abs=1e-9)
    with pytest.raises(kinematics.UnreachableError):
        kinematics.inverse((5000.0, 0.0, 0.0), kinematics.from_rpy(0, 0, 0), [0.0] * 6, LIMITS)


async def test_a_motion_takes_the_time_of_its_slowest_joint(robot: SimulatedAdapter) -> None:
    """R14: and the joints are where the clock says in between."""
    clock = clock_of(robot)
    moving = asyncio.ensure_future(robot.jog("J1", 1, 0.5))
    await settle()
    takes_s = 0.5 * 5.0 / (MAX_SPEED_DEG_S[0] * 0.5)
    await clock.advance(takes_s / 2)
    assert (await robot.get_joints())[0].position_deg == pytest.approx(1.25)
    assert not moving.done()
    await clock.advance(takes_s / 2 + 1e-6)
    assert (await moving)["success"] is True
    assert (await robot.get_joints())[0].position_deg == pytest.approx(2.5)


async def test_it_moves_where_it_is_told_and_says_so(robot: SimulatedAdapter) -> None:
    """R14."""
    moving = asyncio.ensure_future(robot.move_to(PICK))
    await clock_of(robot).advance(10.0)
    answer = await moving
    assert answer["drift_mm"] < 1e-6
    tcp = await robot.get_tcp()
    assert (tcp.x, tcp.y, tcp.z) == pytest.approx((600.0, 0.0, 300.0), abs=1e-6)
    joints = [math.radians(joint.position_deg) for joint in await robot.get_joints()]
    assert math.dist(kinematics.forward(joints, (0.0, 0.0, 120.0))[0], (tcp.x, tcp.y, tcp.z)) < 1e-9
    assert robot.rotation_convention() == ROLL_PITCH_YAW_DEG


@pytest.mark.parametrize("axis", ["X", "Y", "Z", "RX", "RY", "RZ"])
async def test_a_cartesian_jog_moves_that_axis_alone(axis: str, robot: SimulatedAdapter) -> None:
    """R31."""
    going = asyncio.ensure_future(robot.move_to(TCPPosition(500.0, 100.0, 400.0, 170.0, 10.0, 20.0)))
    await clock_of(robot).advance(10.0)
    await going
    before = await robot.get_tcp()
    jogging = asyncio.ensure_future(robot.jog(axis, -1, 0.5))
    await clock_of(robot).advance(10.0)
    await jogging
    after = await robot.get_tcp()
    for name in ("x", "y", "z", "rx", "ry", "rz"):
        expected = (-2.5 if name.startswith("r") else -10.0) if name == axis.lower() else 0.0
        assert getattr(after, name) - getattr(before, name) == pytest.approx(expected, abs=1e-6)


async def test_a_stop_holds_it_where_it_is(robot: SimulatedAdapter) -> None:
    """R28."""
    clock = clock_of(robot)
    moving = asyncio.ensure_future(robot.move_to(TCPPosition(0.0, -600.0, 300.0, 180.0, 0.0, 90.0)))
    await clock.advance(0.3)
    await robot.stop()
    with pytest.raises(AdapterError, match="stopped"):
        await moving
    stopped = await robot.get_joints()
    await clock.advance(5.0)
    assert await robot.get_joints() == stopped
    assert [joint.position_deg for joint in stopped] != list(HOME_DEG)


async def test_two_motions_at_once_are_one_too_many(robot: SimulatedAdapter) -> None:
    """R28."""
    going = asyncio.ensure_future(robot.move_to(PICK))
    await settle()
    for another in (robot.home, lambda: robot.start_program("pick"), robot.enable_freedrive):
        with pytest.raises(AdapterBusyError, match="move_to"):
            await another()
    await clock_of(robot).advance(10.0)
    assert (await going)["success"] is True


async def test_it_goes_nowhere_that_it_cannot(robot: SimulatedAdapter) -> None:
    """R30, R31."""
    with pytest.raises(AdapterError, match="cannot bring its tool"):
        await robot.move_to(TCPPosition(2000.0, 0.0, 500.0, 180.0, 0.0, 0.0))
    robot._motion = type(robot._motion)(clock_of(robot), [169.0, *HOME_DEG[1:]], MAX_SPEED_DEG_S)
    with pytest.raises(HardwareError, match="J1"):
        await robot.jog("J1", 1, 1.0)


async def test_a_program_runs_line_by_line_and_tells_of_it(robot: SimulatedAdapter) -> None:
    """R47."""
    stream = robot.subscribe(["program_state", "io_changed"])
    assert stream is not None
    listening = aiter(stream)
    running = asyncio.ensure_future(robot.start_program("pick"))
    await settle()
    assert (await anext(listening)).data == {"name": "pick", "running": True}
    assert [program.running for program in await robot.get_programs()] == [True]
    assert (await robot.upload_program("pick", "home")).success is False
    await clock_of(robot).advance(20.0)
    assert (await running)["success"] is True
    assert (await anext(listening)).data == {"signal": "gripper", "value": 1.0}
    assert (await anext(listening)).data == {"name": "pick", "running": False}
    signals = {signal.name: signal.value for signal in (await robot.get_io()).signals}
    assert (signals["gripper"], signals["gripper_closed"]) == (1.0, 1.0)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_a_stop_ends_a_program_in_the_middle(robot: SimulatedAdapter) -> None:
    """R28."""
    assert (await robot.upload_program("long", "wait 100\nset lamp 1")).success
    running = asyncio.ensure_future(robot.start_program("long"))
    await clock_of(robot).advance(1.0)
    await robot.stop()
    with pytest.raises(AdapterError, match="stopped"):
        await running
    assert not any(signal.value for signal in (await robot.get_io()).signals if signal.name == "lamp")


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("fly 1", "line 1: fly is no instruction"),
        ("home\nmovej 1 2", "line 2: movej needs 6 numbers"),
        ("set door_closed 1", "no output"),
        ("set lamp on", "no number"),
        ("wait nan", "no finite number"),
        ("wait -1", "wait needs"),
        ("set lamp", "set needs"),
    ],
)
async def test_a_wrong_program_is_named_by_line_and_not_taken(
    code: str, word: str, robot: SimulatedAdapter
) -> None:
    """R10."""
    told = await robot.validate_program(code)
    assert told["valid"] is False
    assert word in told["errors"][0]
    assert (await robot.upload_program("new", code)).success is False
    assert "new" not in [program.name for program in await robot.get_programs()]
    assert parse("# nothing", frozenset())[2] == ["the program does nothing"]


async def test_the_door_and_leading_by_hand_are_interlocks(robot: SimulatedAdapter) -> None:
    """R23."""
    assert await robot.verify_interlocks() == (True, "")
    robot.set_input("door_closed", 0)
    assert await robot.verify_interlocks() == (False, "the safety door is open")
    robot.set_input("door_closed", 1)
    await robot.enable_freedrive()
    assert (await robot.verify_interlocks())[0] is False
    await robot.disable_freedrive()
    assert (await robot.verify_interlocks())[0] is True
    with pytest.raises(ValueError, match="set_io"):
        robot.set_input("lamp", 1)


async def test_a_device_is_pulsed_once_and_its_switch_is_read(robot: SimulatedAdapter) -> None:
    """R8."""
    testing = asyncio.ensure_future(robot.test_device("gripper", 500.0, "gripper_closed"))
    await clock_of(robot).advance(1.0)
    assert (await testing)["read_back"] == 1
    assert {one.name: one.value for one in (await robot.get_io()).signals}["gripper"] == 0


async def test_another_tool_is_another_tcp(robot: SimulatedAdapter) -> None:
    """R14."""
    before = await robot.get_tcp()
    await robot.modify_tool_data(ToolData("gripper", 0.0, 0.0, 170.0, 1.0))
    after = await robot.get_tcp()
    assert math.dist((before.x, before.y, before.z), (after.x, after.y, after.z)) == pytest.approx(50.0)


async def test_without_connection_it_knows_nothing(robot: SimulatedAdapter) -> None:
    """R11."""
    await robot.disconnect()
    for read in (robot.get_joints, robot.get_tcp, robot.get_io, robot.discover):
        with pytest.raises(RCPError):
            await read()
    assert isinstance((await _joints_again(robot))[0], JointState)


async def _joints_again(robot: SimulatedAdapter) -> list[JointState]:
    await robot.connect({})
    return await robot.get_joints()
