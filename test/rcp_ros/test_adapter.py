"""The adapter of a robot with a bridge: what it reads, and how its actions become goals."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.rcp import (
    AdapterDisconnectedError,
    AdapterError,
    NotSupportedError,
    ParameterError,
    RCPError,
    RCPErrorCode,
    TCPPosition,
)
from robot_mcp_kit.rcp.bridged import BridgeAdapter
from robot_mcp_kit.rcp.guarded import Waiting
from robot_mcp_kit.safety.audit import MemoryTrail
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.readings import Description, JointFacts
from robot_mcp_kit.skills.signals import OutputResult
from robot_mcp_kit.testing.eventually import assert_eventually

from .rig import HOME, TEMPLATE, Rig, rigged

DEGREES = {name: math.degrees(value) for name, value in HOME.items()}
HERE = TCPPosition(500.0, 100.0, 800.0, 0.0, math.degrees(0.3), 0.0)
ASKER = Requester("client-1", "rcp")
MOVED = SimpleNamespace(
    error_code=SimpleNamespace(val=1, message="", source=""),
    planned_trajectory=None,
    executed_trajectory=None,
    planning_time=0.1,
)


def _arm_goal(rig: Rig) -> dict[str, Any]:
    (goal,) = rig.ports["move_action"].goals
    fields: dict[str, Any] = goal.fields
    return fields["request"]


async def _moved(rig: Rig, doing: Any) -> dict[str, Any]:
    """Let the arm's server take and finish the one goal that comes."""
    task = asyncio.ensure_future(doing)
    goal = await asyncio.wait_for(rig.ports["move_action"].next_goal(), 10)
    goal.finish(GoalStatus.SUCCEEDED, MOVED)
    told: dict[str, Any] = await asyncio.wait_for(task, 10)
    return told


async def _running_programs(rig: Rig) -> list[Any] | None:
    programs = await rig.adapter.get_programs()
    return programs if programs[0].running else None


# -- reading -----------------------------------------------------------------------------------------------


async def test_joints_are_told_in_the_controllers_order_and_in_degrees() -> None:
    """R14 R15: limits of the description, narrowed by the file's."""
    async with rigged() as rig:
        joints = await rig.adapter.get_joints()
        assert [joint.name for joint in joints] == list(HOME)
        assert {joint.name: joint.position_deg for joint in joints} == pytest.approx(DEGREES, rel=1e-12)
        pan, _, elbow, *_ = joints
        # The file says -2.9 .. 2.9 and -0.2 .. 2.7 and 1 rad/s, the description -2.5 .. 2.5 and 1.2.
        assert (pan.min_deg, pan.max_deg) == pytest.approx((math.degrees(-2.5), math.degrees(2.5)))
        assert (elbow.min_deg, elbow.max_deg) == pytest.approx((math.degrees(-0.2), math.degrees(2.5)))
        assert pan.max_speed_deg_s == pytest.approx(math.degrees(1.0))
        identity = await rig.adapter.discover()
        assert identity.joint_count == len(joints) == 6
        assert [limit.name for limit in identity.joint_limits] == list(HOME)


async def test_a_robot_without_an_arm_entry_is_told_by_its_description() -> None:
    """R15: sliding joints are millimetres; a joint that the topic does not tell is not one."""
    async with rigged("robot: {name: bare}\n") as rig:
        rig.readings.positions = {"finger": 0.02, "waist": 0.5}
        rig.readings.described = Description(
            "lathe",
            {
                "waist": JointFacts(False, None, None, None),
                "finger": JointFacts(True, 0.0, 0.08, 0.2),
                "gone": JointFacts(False, 0.0, 1.0, 1.0),
            },
        )
        waist, finger = await rig.adapter.get_joints()
        assert (waist.name, waist.min_deg, waist.max_deg) == ("waist", -360.0, 360.0)
        assert (finger.position_deg, finger.max_deg, finger.max_speed_deg_s) == pytest.approx(
            (20.0, 80.0, 200.0)
        )
        assert (await rig.adapter.discover()).model == "lathe"


async def test_identity_comes_from_the_file_and_the_description() -> None:
    async with rigged() as rig:
        identity = await rig.adapter.discover()
        assert (identity.manufacturer, identity.model, identity.serial, identity.reach_mm) == (
            "robot-mcp-kit",
            "flat_robot",
            "SIM-1",
            1300.0,
        )
        rig.readings.described = None
        assert (await rig.adapter.discover()).model == "demo_robot"


async def test_the_tool_is_told_in_millimetres_by_the_files_convention() -> None:
    """R14 R16."""
    async with rigged() as rig:
        tcp = await rig.adapter.get_tcp()
        assert (tcp.x, tcp.y, tcp.z, tcp.rx, tcp.ry, tcp.rz) == pytest.approx(
            (HERE.x, HERE.y, HERE.z, HERE.rx, HERE.ry, HERE.rz), abs=1e-9
        )
        convention = rig.adapter.rotation_convention()
        assert (convention.kind, convention.unit, convention.order) == ("euler_extrinsic", "deg", "XYZ")


async def test_signals_programs_and_tools_are_told() -> None:
    async with rigged() as rig:
        signals = {one.name: (one.signal_type, one.value) for one in (await rig.adapter.get_io()).signals}
        assert signals == {
            "DI_dock_contact": ("digital_input", 0.0),
            "AI_charge": ("analog_input", 0.85),
            "DO_lamp": ("digital_output", 1.0),
            "AO_fan": ("analog_output", 0.25),
        }
        names = [program.name for program in await rig.adapter.get_programs()]
        assert {"reach_out", "navigate_to", "dock", "gripper"} <= set(names)
        (tool,) = await rig.adapter.get_tools()
        assert (tool.name, tool.mass_kg) == ("gripper", 0.4)


@pytest.mark.parametrize("part", ["joints", "tcp", "io", "identity"])
async def test_each_source_dies_alone(part: str) -> None:
    """R13: the context answers, and says what is missing and why."""
    async with rigged() as rig:
        robot = rig.robot()
        whole = await robot.context()
        assert whole.missing == {}
        dead = {
            "joints": {"positions": None},
            "tcp": {"pose": None},
            "io": {"signals": {}},
            "identity": {"described": None, "positions": None},
        }[part]
        for name, value in dead.items():
            setattr(rig.readings, name, value)
        report = await robot.context()
        # The file names the arm's joints, so nobody misses the description's.
        expected = {"joints"} if part == "identity" else {part}
        assert set(report.missing) == expected
        assert "nothing was heard on" in " ".join(report.missing.values())
        block = report.to_prompt_block()
        assert f"Not available: {next(iter(expected))} (" in block
        assert ("Current TCP" in block) == (part != "tcp")


async def test_a_single_silent_signal_is_named_and_takes_no_other_with_it() -> None:
    """R13."""
    async with rigged() as rig:
        del rig.readings.signals["DO_lamp"]
        report = await rig.robot().context()
        assert [one.name for one in report.context.io.signals] == ["DI_dock_contact", "AI_charge", "AO_fan"]
        assert report.missing == {"io.DO_lamp": "nothing was heard on DO_lamp yet"}


async def test_nothing_is_known_and_the_context_still_answers() -> None:
    """R13: all sources at once."""
    async with rigged("robot: {name: bare}\nio:\n  DI: {kind: digital_input, topic: t}\n") as rig:
        rig.readings.positions = rig.readings.described = rig.readings.pose = None
        report = await rig.robot().context()
        assert set(report.missing) == {"identity", "joints", "tcp", "io"}
        assert report.context.programs == []


async def test_a_joint_that_was_not_heard_is_named() -> None:
    async with rigged() as rig:
        assert rig.readings.positions is not None
        del rig.readings.positions["elbow_joint"]
        with pytest.raises(AdapterError, match="no position was heard of elbow_joint"):
            await rig.adapter.get_joints()


async def test_without_a_connection_nothing_is_read_or_started() -> None:
    """R11."""
    async with rigged() as rig:
        await rig.adapter.disconnect()
        await rig.adapter.disconnect()
        assert not rig.adapter.is_connected()
        for call in (rig.adapter.discover(), rig.adapter.get_joints(), rig.adapter.home()):
            with pytest.raises(AdapterDisconnectedError):
                await call
        assert rig.sent == 0


# -- acting ------------------------------------------------------------------------------------------------


async def test_move_to_is_a_goal_of_the_arms_skill_in_metres() -> None:
    """R14: the pose that is sent is the one that was asked for."""
    async with rigged() as rig:
        told = await _moved(rig, rig.adapter.move_to(TCPPosition(600.0, -50.0, 700.0, 0.0, 0.0, 90.0)))
        assert told["success"] is True
        (constraints,) = _arm_goal(rig)["goal_constraints"]
        place = constraints["position_constraints"][0]
        point = place["constraint_region"]["primitive_poses"][0]["position"]
        assert (point["x"], point["y"], point["z"]) == pytest.approx((0.6, -0.05, 0.7), rel=1e-12)
        assert place["header"]["frame_id"] == "base_link"
        turned = constraints["orientation_constraints"][0]["orientation"]
        assert (turned["z"], turned["w"]) == pytest.approx((math.sqrt(0.5), math.sqrt(0.5)))


@pytest.mark.parametrize(
    ("axis", "direction", "joint", "speed", "step_deg"),
    [("J1", 1, "shoulder_pan_joint", 1.0, 5.0), ("J3", -1, "elbow_joint", 0.5, -2.5)],
)
async def test_a_jog_of_a_joint_is_one_step_from_where_it_is(
    axis: str, direction: int, joint: str, speed: float, step_deg: float
) -> None:
    """R31: speed 10 deg/s at most, for half a second."""
    async with rigged() as rig:
        await _moved(rig, rig.adapter.jog(axis, direction, speed))
        request = _arm_goal(rig)
        goal = {
            one["joint_name"]: one["position"] for one in request["goal_constraints"][0]["joint_constraints"]
        }
        wanted = {**HOME, joint: HOME[joint] + math.radians(step_deg)}
        assert goal == pytest.approx(wanted, abs=1e-12)
        assert request["max_velocity_scaling_factor"] == pytest.approx(math.radians(10.0) * speed / 1.0)


async def test_a_jog_of_the_tool_moves_along_one_axis_and_keeps_the_rest() -> None:
    async with rigged() as rig:
        await _moved(rig, rig.adapter.jog("Z", -1, 1.0))
        (constraints,) = _arm_goal(rig)["goal_constraints"]
        region = constraints["position_constraints"][0]["constraint_region"]
        point = region["primitive_poses"][0]["position"]
        assert (point["x"], point["y"], point["z"]) == pytest.approx((0.5, 0.1, 0.775))
        turned = constraints["orientation_constraints"][0]["orientation"]
        assert turned["y"] == pytest.approx(math.sin(0.15))


async def test_a_jog_turns_the_tool_about_an_axis_of_the_base() -> None:
    async with rigged() as rig:
        await _moved(rig, rig.adapter.jog("RZ", 1, 1.0))
        (constraints,) = _arm_goal(rig)["goal_constraints"]
        q = constraints["orientation_constraints"][0]["orientation"]
        # First the tilt of before, then five degrees about z.
        half, tilt = math.radians(2.5), 0.15
        assert (q["x"], q["y"], q["z"], q["w"]) == pytest.approx(
            (
                -math.sin(half) * math.sin(tilt),
                math.cos(half) * math.sin(tilt),
                math.sin(half) * math.cos(tilt),
                math.cos(half) * math.cos(tilt),
            )
        )


async def test_home_and_programs_are_goals_of_skills() -> None:
    async with rigged() as rig:
        assert (await _moved(rig, rig.adapter.home()))["success"] is True
    async with rigged() as rig:
        doing = asyncio.ensure_future(rig.adapter.start_program("reach_out"))
        goal = await rig.ports["move_action"].next_goal()
        first, second, *others = await assert_eventually(lambda: _running_programs(rig))
        assert {first.name, second.name} == {"reach_out", "move_arm"}
        assert (first.loaded, first.paused) == (True, False)
        assert not any(program.loaded for program in others)
        goal.finish(GoalStatus.SUCCEEDED, MOVED)
        assert (await doing)["success"] is True
        assert not any(program.running for program in await rig.adapter.get_programs())


async def test_a_motion_that_fails_is_told_with_its_code() -> None:
    async with rigged() as rig:
        doing = asyncio.ensure_future(rig.adapter.home())
        goal = await rig.ports["move_action"].next_goal()
        failed = SimpleNamespace(error_code=SimpleNamespace(val=-31, message="", source=""))
        goal.finish(GoalStatus.ABORTED, failed)
        told = await doing
        assert told["success"] is False
        assert told["error_code"].startswith("MOVEIT")


GOOD_POSE: dict[str, Any] = {"x": 600.0, "y": 0.0, "z": 700.0, "rx": 0.0, "ry": 0.0, "rz": 0.0}
NAN, INF = float("nan"), float("inf")
BAD_POSES: list[dict[str, Any]] = [
    *({key: value for key, value in GOOD_POSE.items() if key != gone} for gone in GOOD_POSE),
    *({**GOOD_POSE, axis: bad} for axis in GOOD_POSE for bad in (NAN, INF, -INF)),
    *({**GOOD_POSE, "x": bad} for bad in ("600", True, None, [600.0], {"mm": 600.0}, 10**400)),
    {**GOOD_POSE, "x": 1300.1, "z": 0.0},
    {**GOOD_POSE, "z": -1e9},
    {**GOOD_POSE, "rx": 360.5},
    {**GOOD_POSE, "X": 600.0},
    {**GOOD_POSE, "speed": 1.0},
    {},
]
GOOD_JOG: dict[str, Any] = {"axis": "J1", "direction": 1, "speed": 0.5}
BAD_JOGS: list[dict[str, Any]] = [
    *({key: value for key, value in GOOD_JOG.items() if key != gone} for gone in GOOD_JOG),
    *({**GOOD_JOG, "axis": bad} for bad in ("J0", "J7", "j1", "J1 ", "Ｊ１", "Ј1", "", "A", None, 1, ["J1"])),
    *({**GOOD_JOG, "direction": bad} for bad in (0, 2, -2, 1.0, True, "1", "+", NAN, None)),
    *({**GOOD_JOG, "speed": bad} for bad in (0, 0.0, -0.5, 1.0001, 100, NAN, INF, "0.5", True, None)),
    {**GOOD_JOG, "distance": 5.0},
]


@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        *(("move_to", bad) for bad in BAD_POSES),
        *(("jog", bad) for bad in BAD_JOGS),
        ("home", {"target": "ready"}),
        ("start_program", {"module": "navigate_to"}),
        ("start_program", {"module": "reach_out", "target": "home"}),
        ("start_program", {"module": "gone"}),
        ("start_program", {"module": ""}),
        ("set_io", {"signal": "DO_lamp", "value": 0.5}),
        ("set_io", {"signal": "DO_lamp", "value": NAN}),
        ("set_io", {"signal": "AO_fan", "value": 1.1}),
        ("set_io", {"signal": "DI_dock_contact", "value": 1.0}),
        ("set_io", {"signal": "DO_lamp"}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_wrong_parameter_never_becomes_a_goal(action: str, parameters: dict[str, Any]) -> None:
    """R30 R31 R8: missing, NaN, out of range, disguised; counted at the action servers."""
    async with rigged() as rig:
        with pytest.raises(RCPError) as caught:
            rig.adapter.begin_action(action, parameters)
        assert caught.value.code in (RCPErrorCode.INVALID_PARAMS, RCPErrorCode.SAFETY_VIOLATION)
        with pytest.raises(RCPError):
            await rig.robot().request(action, parameters, ASKER)
        assert rig.sent == 0
        assert rig.manager.list() == []


async def test_a_jog_beyond_the_joints_range_does_not_move() -> None:
    """R31: the elbow stands a step before the description's limit."""
    async with rigged() as rig:
        assert rig.readings.positions is not None
        rig.readings.positions["elbow_joint"] = 2.49
        with pytest.raises(
            ParameterError, match=r"axis: elbow_joint is at 142\.67 deg.*would leave its range"
        ):
            await rig.adapter.jog("J3", 1, 1.0)
        assert rig.sent == 0


@pytest.mark.parametrize(("axis", "gone"), [("J2", "positions"), ("X", "pose")])
async def test_a_jog_from_an_unknown_place_does_not_move(axis: str, gone: str) -> None:
    async with rigged() as rig:
        setattr(rig.readings, gone, None)
        with pytest.raises(AdapterError, match="a jog begins where the robot is"):
            await rig.adapter.jog(axis, 1, 1.0)
        assert rig.sent == 0


async def test_a_step_that_the_arm_would_not_make_is_refused() -> None:
    """MoveIt calls a goal within its tolerance met, and moves nothing."""
    async with rigged() as rig:
        with pytest.raises(ParameterError, match="nothing would move"):
            await rig.adapter.jog("X", 1, 0.1)
        assert rig.sent == 0


async def test_where_nobody_knows_the_reach_move_to_is_refused() -> None:
    """R30: neither a reach nor a workspace."""
    async with rigged(reach_mm=0.0) as rig:
        with pytest.raises(ParameterError, match="neither reach_mm nor a box_mm"):
            await rig.adapter.move_to(HERE)
        assert rig.sent == 0


async def test_an_output_is_set_and_one_that_does_not_follow_is_an_error() -> None:
    async with rigged() as rig:
        port = rig.ports["set_output"]
        doing = asyncio.ensure_future(rig.adapter.set_io("DO_lamp", 1))
        goal = await port.next_goal()
        assert goal.fields == {"signal": "DO_lamp", "value": 1.0}
        goal.finish(GoalStatus.SUCCEEDED, OutputResult(1.0))
        await doing
        doing = asyncio.ensure_future(rig.adapter.set_io("AO_fan", 0.5))
        goal = await port.next_goal(2)
        goal.finish(GoalStatus.ABORTED, OutputResult(0.0))
        with pytest.raises(AdapterError, match="its state is 0"):
            await doing


async def test_an_action_that_the_robot_does_not_have_is_not_offered() -> None:
    """R12."""
    async with rigged("robot: {name: bare}\n") as rig:
        assert rig.adapter.actions.offered == {"stop"}
        assert rig.adapter.capabilities().execute is False
        with pytest.raises(NotSupportedError, match="does not offer move_to"):
            await rig.adapter.move_to(HERE)


async def test_stop_ends_a_motion_that_somebody_waits_for() -> None:
    """R28."""
    async with rigged() as rig:
        doing = asyncio.ensure_future(rig.adapter.home())
        await rig.ports["move_action"].next_goal()
        await asyncio.wait_for(rig.adapter.stop(), 10)
        told = await asyncio.wait_for(doing, 10)
        assert (told["success"], rig.ports["move_action"].requests("cancel") != []) == (False, True)


async def test_a_motion_that_nobody_waits_for_any_more_is_stopped() -> None:
    async with rigged() as rig:
        doing = asyncio.ensure_future(rig.adapter.home())
        goal = await rig.ports["move_action"].next_goal()
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
        await asyncio.wait_for(asyncio.shield(goal.result), 10)
        assert rig.ports["move_action"].requests("cancel") == [goal.goal_id]


# -- approvals, interlocks, the trail ----------------------------------------------------------------------


async def test_an_action_waits_for_one_person_once_and_runs_what_was_asked() -> None:
    """R18 R19 R37: the request of the protocol and the goal are the same request."""
    async with rigged(approve=False) as rig:
        robot = rig.robot()
        waiting = await asyncio.wait_for(robot.request("Home", {}, ASKER), 10)
        assert isinstance(waiting, Waiting)
        assert rig.sent == 0
        assert waiting.audit_id
        (pending,) = rig.bridge.guard.desk.pending()
        assert pending.requester == ASKER
        rig.bridge.guard.decide(pending.token, True, Approver("Ada", "operator"))
        goal = await asyncio.wait_for(rig.ports["move_action"].next_goal(), 10)
        goal.finish(GoalStatus.SUCCEEDED, MOVED)
        executed = await asyncio.wait_for(waiting.outcome, 10)
        assert executed.audit_id == waiting.audit_id
        assert executed.result["success"] is True
        assert rig.sent == 1
        assert rig.bridge.guard.desk.pending() == []


async def test_a_rejected_action_is_rejected_and_moves_nothing() -> None:
    """R29 R32: nor can the one that asked approve it."""
    async with rigged(approve=False) as rig:
        waiting = await rig.robot().request("move_to", GOOD_POSE, ASKER)
        assert isinstance(waiting, Waiting)
        with pytest.raises(Exception, match="cannot be decided by the one that made it"):
            rig.bridge.guard.decide(waiting.pending.token, True, Approver("me", "rcp"))
        rig.bridge.guard.decide(waiting.pending.token, False, Approver("Ada", "operator"), "too close")
        with pytest.raises(RCPError) as caught:
            await asyncio.wait_for(waiting.outcome, 10)
        assert caught.value.code is RCPErrorCode.APPROVAL_REJECTED
        assert caught.value.data["result"] == "rejected"
        assert "too close" in caught.value.message
        assert rig.sent == 0


async def test_a_request_that_is_taken_back_ends() -> None:
    """R33."""
    async with rigged(approve=False) as rig:
        robot = rig.robot()
        waiting = await robot.request("jog", GOOD_JOG, ASKER)
        assert isinstance(waiting, Waiting)
        assert not robot.withdraw(waiting.token, Requester("client-2", "rcp"))
        assert robot.withdraw(waiting.token, ASKER)
        with pytest.raises(RCPError):
            await asyncio.wait_for(waiting.outcome, 10)
        assert rig.sent == 0


async def test_a_latched_emergency_stop_refuses_and_is_told_as_an_interlock() -> None:
    async with rigged() as rig:
        rig.bridge.guard.latch("button", "test")
        assert await rig.adapter.verify_interlocks() == (
            False,
            "the emergency stop is latched: button (test)",
        )
        with pytest.raises(RCPError) as caught:
            await rig.robot().request("home", {}, ASKER)
        assert caught.value.code is RCPErrorCode.SAFETY_VIOLATION
        assert rig.sent == 0


@pytest.mark.parametrize("name", ["override_safety", "Override-Safety", "оverride_safety", "disable  estop"])
async def test_what_is_prohibited_stays_prohibited(name: str) -> None:
    """R5 R27."""
    async with rigged() as rig:
        with pytest.raises(RCPError) as caught:
            await rig.robot().request(name, {}, ASKER)
        assert caught.value.code is RCPErrorCode.ACTION_PROHIBITED
        assert rig.sent == 0


async def test_the_goal_of_an_action_is_in_the_trail_with_who_asked() -> None:
    """R34 R37."""
    async with rigged() as rig:
        robot = rig.robot()
        doing = asyncio.ensure_future(robot.request("home", {}, ASKER))
        goal = await asyncio.wait_for(rig.ports["move_action"].next_goal(), 10)
        goal.finish(GoalStatus.SUCCEEDED, MOVED)
        executed = await asyncio.wait_for(doing, 10)
        assert not isinstance(executed, Waiting)
        trail = rig.bridge.guard.trail
        assert isinstance(trail, MemoryTrail)
        mine = [line for line in trail.records if line.get("request") == executed.audit_id]
        assert [line["event"] for line in mine] == ["requested", "decided", "started", "finished"]
        assert mine[0]["requester"]["surface"] == "rcp"


# -- events ------------------------------------------------------------------------------------------------


async def _next(events: Any) -> Any:
    return await asyncio.wait_for(anext(events), 10)


async def test_changes_are_told_on_the_channels_that_were_asked_for() -> None:
    """R47 R48."""
    async with rigged() as rig:
        robot = rig.robot()
        events = robot.events(["io_changed", "position"])
        assert events is not None
        first = asyncio.ensure_future(_next(events))
        await assert_eventually(lambda: rig.readings.looks > 0)
        rig.readings.signals["DI_dock_contact"] = 1.0
        event = await first
        assert (event.channel, event.data) == ("io_changed", {"signal": "DI_dock_contact", "value": 1.0})
        assert event.timestamp > 1.7e12
        assert rig.readings.positions is not None
        rig.readings.positions = {**rig.readings.positions, "elbow_joint": 2.3}
        event = await _next(events)
        assert event.channel == "position_changed"
        assert event.data["joints_deg"]["elbow_joint"] == pytest.approx(math.degrees(2.3))
        await events.aclose()


async def test_programs_and_the_emergency_stop_are_told() -> None:
    async with rigged() as rig:
        robot = rig.robot()
        events = robot.events(["program_state", "safety"])
        assert events is not None
        first = asyncio.ensure_future(_next(events))
        # The stream listens once it is waited for; this is where that begins.
        await assert_eventually(lambda: len(rig.bridge.guard.latch_listeners) > 1)
        doing = asyncio.ensure_future(rig.adapter.home())
        event = await first
        assert (event.channel, event.data["program"], event.data["state"]) == (
            "program_state",
            "move_arm",
            "running",
        )
        rig.bridge.guard.latch("button", "test")
        while event.channel != "safety":
            event = await _next(events)
        assert event.data["emergency_stop"] is True
        assert (await asyncio.wait_for(doing, 10))["success"] is False
        await events.aclose()


def test_the_adapter_writes_every_method_that_it_must() -> None:
    """R9."""
    assert not BridgeAdapter.__abstractmethods__


async def test_a_jog_straight_to_the_controller_takes_exactly_its_step_time() -> None:
    """R31: ten degrees a second at most, half a second; only joints, for nothing plans the tool's way."""
    text = TEMPLATE.read_text(encoding="utf-8")
    head, tail = text.split("  follow_joint_trajectory:\n")
    text = f"{head}  follow_joint_trajectory:\n{tail.replace('enabled: false', 'enabled: true', 1)}"
    text = text.replace("  jog:\n", "  jog:\n    skill: follow_joint_trajectory\n")
    async with rigged(text) as rig:
        assert rig.adapter.motion_limits().jog_axes == ("J1", "J2", "J3", "J4", "J5", "J6")
        with pytest.raises(ParameterError, match="axis"):
            await rig.adapter.jog("X", 1, 1.0)
        doing = asyncio.ensure_future(rig.adapter.jog("J2", 1, 0.8))
        goal = await asyncio.wait_for(rig.ports["arm_controller/follow_joint_trajectory"].next_goal(), 10)
        (point,) = goal.fields["trajectory"]["points"]
        assert point["time_from_start"] == {"sec": 0, "nanosec": 500_000_000}
        at = dict(zip(goal.fields["trajectory"]["joint_names"], point["positions"], strict=True))
        assert at == pytest.approx({**HOME, "shoulder_lift_joint": -1.9 + math.radians(4.0)}, abs=1e-12)
        goal.finish(GoalStatus.SUCCEEDED, SimpleNamespace(error_code=0, error_string=""))
        assert (await asyncio.wait_for(doing, 10))["success"] is True
        assert rig.ports["move_action"].goals == []
