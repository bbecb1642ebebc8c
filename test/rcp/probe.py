"""An adapter that only notes what it was told to do, and a rig around it: real guard, fake clock."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from robot_mcp_kit.rcp import (
    AdapterCapabilities,
    AdapterError,
    AuditEntry,
    IOSignal,
    IOState,
    JointState,
    MotionLimits,
    ProgramInfo,
    RCPAdapter,
    RCPEvent,
    RobotIdentity,
    TCPPosition,
    ToolData,
    UploadResult,
)
from robot_mcp_kit.rcp.auditing import audit_entries
from robot_mcp_kit.rcp.guarded import Executed, GuardedRobot, Waiting
from robot_mcp_kit.safety.assemble import build_guard, plain_parts
from robot_mcp_kit.safety.audit_verify import records
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.risk import RiskLevel
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import StandingApprovalSection
from robot_mcp_kit.testing import FakeClock, assert_eventually

KEY = "a key of twenty chars"
ANN = Approver("ann", "operator")
MODEL = Requester("connection-1", "rcp", "some model")
OTHER = Requester("connection-2", "rcp", "another model")
SIX = {"x": 100.0, "y": 0.0, "z": 300.0, "rx": 180.0, "ry": 0.0, "rz": 0.0}
GOOD: dict[str, dict[str, Any]] = {
    "upload_program": {"module": "weld", "code": "MoveJ p1\nMoveL p2"},
    "set_io": {"signal": "DO_1", "value": 1},
    "modify_tool_data": {
        "tool": {"name": "torch", "tcp_x": 0.0, "tcp_y": 0.0, "tcp_z": 90.0, "mass_kg": 1.0}
    },
    "enable_freedrive": {},
    "test_device": {"output": "DO_1", "pulse_ms": 50.0, "read_back": "DI_1"},
    "move_to": SIX,
    "start_program": {"module": "weld"},
    "jog": {"axis": "J1", "direction": 1, "speed": 0.5},
    "home": {},
    "vision.calibrate_hand_eye": {"poses": [SIX]},
}
"""Parameters that are right, for every action that a person has to approve."""
RESTRICTED = ("move_to", "start_program", "jog", "home", "vision.calibrate_hand_eye")


class Probe(RCPAdapter):
    """Notes calls; what they do is up to the test."""

    def __init__(self) -> None:
        self.connected = True
        self.can = AdapterCapabilities(
            validate=True, deploy=True, execute=True, events=["io"], streaming=True
        )
        self.limits = MotionLimits()
        self.identity = RobotIdentity("ABB", "IRB 6700", "IRC5", "6.1", "12345", reach_mm=2650.0)
        self.code = {"weld": "MoveJ p1\nMoveL p9"}
        self.calls: list[tuple[Any, ...]] = []
        """Everything that would have moved, set or changed something."""
        self.stops = 0
        self.asked_interlocks = 0
        self.interlocks: Callable[[], Awaitable[Any]] = self._all_well
        self.doing: Callable[[], Awaitable[Any]] = self._done

    async def _all_well(self) -> tuple[bool, str]:
        return True, ""

    async def _done(self) -> dict[str, Any]:
        return {"success": True, "message": "done"}

    async def _act(self, *call: Any) -> Any:
        self.calls.append(call)
        return await self.doing()

    async def connect(self, config: dict[str, Any]) -> None:
        self.connected = True

    async def disconnect(self) -> None:
        self.connected = False

    def is_connected(self) -> bool:
        return self.connected

    async def discover(self) -> RobotIdentity:
        return self.identity

    def capabilities(self) -> AdapterCapabilities:
        return self.can

    def motion_limits(self) -> MotionLimits:
        return self.limits

    async def get_joints(self) -> list[JointState]:
        return [JointState("J1", 10.0, -170.0, 170.0)]

    async def get_tcp(self) -> TCPPosition:
        return TCPPosition(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)

    async def get_io(self) -> IOState:
        return IOState(
            [
                IOSignal("DI_1", "digital_input", 1),
                IOSignal("DO_1", "digital_output", 0),
                IOSignal("AI_1", "analog_input", 0.5),
                IOSignal("AO_1", "analog_output", 0.5),
            ]
        )

    async def get_programs(self) -> list[ProgramInfo]:
        return [ProgramInfo("weld", loaded=True)]

    async def get_tools(self) -> list[ToolData]:
        return [ToolData("torch")]

    async def get_program_code(self, module: str) -> str:
        return self.code.get(module, "")

    async def verify_interlocks(self) -> Any:
        self.asked_interlocks += 1
        return await self.interlocks()

    async def validate_program(self, code: str) -> dict[str, Any]:
        return {"valid": True, "errors": [], "warnings": []}

    async def stop(self) -> None:
        self.stops += 1

    async def disable_freedrive(self) -> dict[str, Any]:
        return {"success": True}

    async def upload_program(self, module: str, code: str) -> UploadResult:
        await self._act("upload_program", module, code)
        return UploadResult(True, "stored")

    async def set_io(self, signal: str, value: float) -> None:
        await self._act("set_io", signal, value)

    async def modify_tool_data(self, tool: ToolData) -> dict[str, Any]:
        return await self._act("modify_tool_data", tool)

    async def enable_freedrive(self) -> dict[str, Any]:
        return await self._act("enable_freedrive")

    async def test_device(self, output: str, pulse_ms: float, read_back: str | None = None) -> dict[str, Any]:
        return await self._act("test_device", output, pulse_ms, read_back)

    async def move_to(self, position: TCPPosition) -> dict[str, Any]:
        return await self._act("move_to", position)

    async def jog(self, axis: str, direction: int, speed: float) -> dict[str, Any]:
        return await self._act("jog", axis, direction, speed)

    async def home(self) -> dict[str, Any]:
        return await self._act("home")

    async def start_program(self, module: str) -> dict[str, Any]:
        return await self._act("start_program", module)

    async def calibrate_hand_eye(self, poses: Sequence[TCPPosition]) -> dict[str, Any]:
        return await self._act("calibrate_hand_eye", poses)

    # What no adapter may have, and this one has.

    async def override_safety(self) -> None:
        self.calls.append(("override_safety",))

    async def disable_estop(self) -> None:
        self.calls.append(("disable_estop",))

    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        return None


@dataclasses.dataclass
class Rig:
    """One guarded probe."""

    robot: GuardedRobot
    adapter: Any
    guard: Guard
    clock: FakeClock
    folder: Path

    async def ask(self, action: str, requester: Requester = MODEL, **params: Any) -> Waiting:
        got = await self.robot.request(action, params or GOOD[action], requester)
        assert isinstance(got, Waiting)
        return got

    def approve(self, waiting: Waiting, approver: Approver = ANN) -> None:
        self.guard.decide(waiting.pending.token, True, approver)

    async def do(self, action: str, **params: Any) -> Executed:
        """Ask, let a person approve, and wait for the end."""
        waiting = await self.ask(action, **params)
        self.approve(waiting)
        return await waiting.outcome

    async def begin(self, action: str = "move_to") -> Waiting:
        """A motion that runs until it is stopped."""
        self.adapter.doing = asyncio.Event().wait
        waiting = await self.ask(action)
        self.approve(waiting)
        # The trail is synced on a thread of its own.
        await assert_eventually(lambda: bool(self.adapter.calls))
        return waiting

    async def close(self) -> None:
        """End what runs; on the fake clock that takes no time."""
        closing = asyncio.ensure_future(self.robot.aclose())
        await self.clock.advance(10.0)
        await asyncio.wait_for(closing, 10.0)
        await self.guard.aclose()

    def trail(self) -> list[dict[str, Any]]:
        return list(records(self.folder / "audit"))

    def events(self) -> list[str]:
        return [record["event"] for record in self.trail()]

    def entries(self) -> list[AuditEntry]:
        return audit_entries(self.trail())


def rig_of(
    folder: Path,
    adapter: RCPAdapter | None = None,
    *,
    raised: dict[str, RiskLevel] | None = None,
    clock: FakeClock | None = None,
    standing: list[StandingApprovalSection] | None = None,
    **safety: Any,
) -> Rig:
    """Around an adapter, over a state directory."""
    clock = clock or FakeClock(1000.0)
    adapter = adapter if adapter is not None else Probe()
    config = RobotConfig.model_validate({"robot": {"name": "cell"}, "safety": safety})
    guard = build_guard(config, {}, plain_parts(folder, clock=clock, wall=clock.wall, key=KEY), standing)
    return Rig(
        GuardedRobot(adapter, guard, clock=clock, wall=clock.wall, raised=raised),
        adapter,
        guard,
        clock,
        folder,
    )


class Failure(AdapterError):
    """What a test lets an adapter raise."""
