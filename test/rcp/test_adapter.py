"""What the adapter class does by itself, and the context of a robot that answers only in part."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import pytest

from robot_mcp_kit import rcp
from robot_mcp_kit.rcp.context import collect_context
from robot_mcp_kit.rcp.guarded import Executed
from robot_mcp_kit.rcp.models import SIGNAL_TYPES
from robot_mcp_kit.safety import risk
from robot_mcp_kit.testing.clock import FakeClock

from .probe import MODEL, Probe, Rig

TEN = (
    "connect",
    "disconnect",
    "is_connected",
    "discover",
    "capabilities",
    "get_joints",
    "get_tcp",
    "get_io",
    "get_programs",
    "get_tools",
)
SOURCES = {
    "identity": "discover",
    "joints": "get_joints",
    "tcp": "get_tcp",
    "io": "get_io",
    "programs": "get_programs",
    "tools": "get_tools",
}


class Bare(rcp.RCPAdapter):
    """The ten and nothing else."""

    connect = Probe.connect
    disconnect = Probe.disconnect
    is_connected = Probe.is_connected
    capabilities = Probe.capabilities
    discover = Probe.discover
    get_joints = Probe.get_joints
    get_tcp = Probe.get_tcp
    get_io = Probe.get_io
    get_programs = Probe.get_programs
    get_tools = Probe.get_tools


def bare() -> Bare:
    made = Bare()
    made.connected = True  # type: ignore[attr-defined]
    return made


def test_risk_levels_are_those_of_the_safety_layer() -> None:
    """R1, R2, R3: one table, which nobody can change."""
    assert rcp.ACTION_RISK is risk.ACTION_RISK
    assert rcp.PROHIBITED_ACTIONS is risk.PROHIBITED_ACTIONS
    assert rcp.RiskLevel is risk.RiskLevel
    assert rcp.ACTION_RISK["upload_program"] == "GUARDED"
    assert rcp.ACTION_RISK["move_to"] == "RESTRICTED"
    assert "override_safety" in rcp.PROHIBITED_ACTIONS
    assert not rcp.PROHIBITED_ACTIONS & set(rcp.ACTION_RISK)
    with pytest.raises(TypeError):
        rcp.ACTION_RISK["jog"] = rcp.RiskLevel.SAFE  # type: ignore[index]


def test_the_table_is_the_protocols_own(sdk: Any) -> None:
    """R1: every action of its SDK with its level, and no other level for any."""
    assert (
        dict(sdk.ACTION_RISK).items() <= {name: str(level) for name, level in rcp.ACTION_RISK.items()}.items()
    )
    assert sdk.PROHIBITED_ACTIONS == rcp.PROHIBITED_ACTIONS


def test_signal_kinds_are_those_of_the_skills_file() -> None:
    """R8: one list of kinds."""
    from typing import get_args

    from robot_mcp_kit.skills.config.signals import SignalKind

    assert frozenset(get_args(SignalKind)) == SIGNAL_TYPES


@pytest.mark.parametrize("method", TEN)
def test_an_adapter_without_one_of_the_ten_cannot_be_made(method: str) -> None:
    """R9."""
    kept = {name: getattr(Bare, name) for name in TEN if name != method}
    incomplete = type("Incomplete", (rcp.RCPAdapter,), kept)
    with pytest.raises(TypeError, match=method):
        incomplete()


def test_the_ten_are_enough() -> None:
    """R9."""
    assert set(rcp.RCPAdapter.__abstractmethods__) == set(TEN)
    assert isinstance(bare(), rcp.RCPAdapter)


async def test_what_is_not_written_has_a_default_that_does_nothing() -> None:
    """R10."""
    adapter = bare()
    assert await adapter.get_program_code("weld") == ""
    upload = await adapter.upload_program("weld", "x")
    assert (upload.success, bool(upload.message)) == (False, True)
    tcp, joints = await adapter.capture_position()
    assert (tcp.x, joints[0].name) == (1.0, "J1")
    assert await adapter.verify_interlocks() == (True, "")
    assert await adapter.read_controller_map() == {"status": "not_supported"}
    assert adapter.subscribe(["io_changed"]) is None


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("stop", ()),
        ("set_io", ("DO_1", 1)),
        ("modify_tool_data", (rcp.ToolData("t"),)),
        ("enable_freedrive", ()),
        ("disable_freedrive", ()),
        ("test_device", ("DO_1", 10.0)),
        ("move_to", (rcp.TCPPosition(0, 0, 0, 0, 0, 0),)),
        ("jog", ("J1", 1, 0.1)),
        ("home", ()),
        ("start_program", ("weld",)),
        ("calibrate_hand_eye", ([],)),
        ("validate_program", ("x",)),
    ],
)
async def test_what_is_not_written_is_said_to_be_not_supported(
    method: str, arguments: tuple[Any, ...]
) -> None:
    """R10: also for programs that are not checked; the protocol's own SDK would call them valid."""
    with pytest.raises(rcp.NotSupportedError) as caught:
        await getattr(bare(), method)(*arguments)
    assert isinstance(caught.value, NotImplementedError)
    assert caught.value.code is rcp.RCPErrorCode.ACTION_NOT_SUPPORTED


async def test_a_program_is_compared_with_the_controllers() -> None:
    """R43: an adapter without program text has an empty one there."""
    probe = Probe()
    assert await probe.diff_program("weld", "MoveJ p1\nMoveL p2\nWait") == {
        "controller_code": "MoveJ p1\nMoveL p9",
        "added": 1,
        "removed": 0,
        "changed": 1,
    }
    assert (await bare().diff_program("weld", "a\nb"))["added"] == 2


async def test_a_call_that_needs_the_controller_says_that_it_is_not_connected() -> None:
    """R11."""
    probe = Probe()
    await probe.disconnect()
    with pytest.raises(rcp.AdapterDisconnectedError) as caught:
        probe.require_connected()
    assert caught.value.code == 4001


# -- the context --------------------------------------------------------------------------------------------


async def test_the_context_has_every_source() -> None:
    """R13."""
    probe = Probe()
    report = await collect_context(probe)
    assert report.missing == {}
    assert report.context == rcp.RobotContext(
        await probe.discover(),
        await probe.get_tcp(),
        await probe.get_joints(),
        await probe.get_io(),
        await probe.get_programs(),
        await probe.get_tools(),
    )
    assert await probe.get_context() == report.context


@pytest.mark.parametrize("part", list(SOURCES))
@pytest.mark.parametrize("how", ["raises", "hangs", "nonsense", "none"])
async def test_the_context_goes_without_a_source_that_fails_and_says_which(
    part: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R13: whether it raises, takes for ever or answers something else."""
    clock, probe = FakeClock(), Probe()

    async def fails() -> Any:
        if how == "raises":
            raise ConnectionError("the bus is off")
        if how == "hangs":
            await asyncio.Event().wait()
        return None if how == "none" else [object()]

    setattr(probe, SOURCES[part], fails)
    collecting = asyncio.ensure_future(collect_context(probe, clock=clock))
    await clock.advance(2.5)
    report = await collecting
    assert set(report.missing) == {part}
    assert getattr(report.context, part) == getattr(rcp.RobotContext(), part)
    others = set(SOURCES) - {part}
    assert all(getattr(report.context, other) for other in others)
    assert part in caplog.text
    assert f"  Not available: {part} (" in report.to_prompt_block()
    assert caplog.records[0].levelno == logging.WARNING


async def test_with_every_source_dead_there_is_still_an_answer() -> None:
    """R13."""
    probe = Probe()

    async def dead() -> Any:
        raise OSError("power off")

    for method in SOURCES.values():
        setattr(probe, method, dead)
    report = await collect_context(probe)
    assert report.context == rcp.RobotContext()
    assert set(report.missing) == set(SOURCES)
    assert report.context.to_prompt_block() == ""
    assert len(report.to_prompt_block().splitlines()) == 1 + len(SOURCES)


async def test_collecting_can_be_cancelled() -> None:
    """R13: only failures of a source are outlived."""
    probe = Probe()
    probe.get_tcp = asyncio.Event().wait  # type: ignore[method-assign, assignment]
    collecting = asyncio.ensure_future(collect_context(probe, clock=FakeClock()))
    for _ in range(10):
        await asyncio.sleep(0)
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting


async def test_joints_keep_the_controllers_order_and_names(rig: Rig) -> None:
    """R15."""
    names = ["axis_b", "axis_a", "E1", "J6"]

    async def joints() -> list[rcp.JointState]:
        return [rcp.JointState(name, 0.0) for name in names]

    rig.adapter.get_joints = joints
    rig.adapter.identity.joint_count = len(names)
    assert [joint["name"] for joint in await rig.robot.read("robot://joints")] == names
    captured = await rig.robot.request("capture_position", {}, MODEL)
    assert isinstance(captured, Executed)
    assert [joint["name"] for joint in captured.result["joints"]] == names
    assert (await rig.robot.discover()).joint_count == len(names)


async def test_a_number_that_is_none_leaves_as_null(rig: Rig) -> None:
    """R13: JSON has no NaN."""

    async def lost() -> rcp.TCPPosition:
        return rcp.TCPPosition(float("nan"), 1.0, 2.0, float("inf"), 0.0, 0.0)

    rig.adapter.get_tcp = lost
    tcp = await rig.robot.read("robot://tcp")
    assert (tcp["x"], tcp["y"], tcp["rx"]) == (None, 1.0, None)


def test_the_sdk_imports_neither_ros_nor_mcp_nor_a_web_library() -> None:
    """R9: an adapter's author installs the base package."""
    code = (
        "import sys, robot_mcp_kit.rcp, robot_mcp_kit.rcp.simulated\n"
        "found = {'rclpy', 'mcp', 'yaml', 'websockets', 'starlette', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
