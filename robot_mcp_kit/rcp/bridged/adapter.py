"""The adapter of a robot that has a bridge: reads by a port, moves by skills."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from robot_mcp_kit.bridge.bridge import Bridge, Started
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.bridged.actions import BridgedActions, SkillCall
from robot_mcp_kit.rcp.bridged.changes import CHANNELS, changes
from robot_mcp_kit.rcp.bridged.joints import JointTable
from robot_mcp_kit.rcp.bridged.programs import Programs
from robot_mcp_kit.rcp.bridged.units import CONVENTIONS, tcp_of
from robot_mcp_kit.rcp.errors import (
    AdapterBusyError,
    AdapterError,
    NotSupportedError,
    ParameterError,
    RCPErrorCode,
)
from robot_mcp_kit.rcp.failures import refused
from robot_mcp_kit.rcp.limits import MotionLimits
from robot_mcp_kit.rcp.models import (
    AdapterCapabilities,
    IOSignal,
    IOState,
    JointState,
    ProgramInfo,
    RCPEvent,
    RobotIdentity,
    TCPPosition,
    ToolData,
)
from robot_mcp_kit.rcp.rotation import OPAQUE, RotationConvention
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.rcp import RcpSection
from robot_mcp_kit.skills.readings import NotKnown, RobotReadings
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
_REST, _REST_LOOK_S, _REST_LOOKS = 5e-4, 0.12, 10
"""Joints that move less (rad, or m) from look to look stand. Looks are farther apart than messages."""
LOCAL = Requester("adapter", "rcp", "Robot Context Protocol")
"""Who asks when nobody else is named."""


class BridgeAdapter(RCPAdapter):
    """One robot. Lives on the bridge's event loop.

    What moves is begun through ``bridge`` under the skill that the file names for it, so its limits,
    approvals, interlocks and audit trail hold, and it is a task that anybody can follow and stop.

    Args:
        config: the checked file.
        rcp: its section, or a default one.
        bridge: starts goals.
        manager: the tasks.
        readings: what sources tell.
    """

    def __init__(
        self,
        config: RobotConfig,
        rcp: RcpSection,
        bridge: Bridge,
        manager: TaskManager,
        readings: RobotReadings,
    ) -> None:
        self._config, self._rcp, self._bridge, self._manager = config, rcp, bridge, manager
        self._readings = readings
        self._connected = False
        self._joints = JointTable(config, rcp, readings)
        self._programs = Programs(config, rcp, bridge.skills, manager.list)
        self.actions = BridgedActions(config, rcp, readings, self._joints, self._programs)
        self._cancelling: set[asyncio.Task[Any]] = set()
        self._silent: frozenset[str] = frozenset()

    @property
    def frame(self) -> str:
        """TF frame of positions."""
        return "the robot's base frame" if self._rcp.tcp is None else self._rcp.tcp.frame

    @property
    def home_target(self) -> str:
        """Named target of ``home``."""
        return self._rcp.home_target

    @property
    def step_s(self) -> float:
        """How long a jog's step is."""
        return self._rcp.jog.step_s

    @property
    def joint_names(self) -> list[str]:
        """In the controller's order; empty while nobody tells."""
        try:
            return self._joints.order()
        except NotKnown:
            return []

    # -- connection -----------------------------------------------------------------------------------------

    async def connect(self, config: dict[str, Any]) -> None:  # noqa: ARG002 - the bridge is there already
        """The bridge is in this process; nothing is waited for."""
        self._connected = True

    async def disconnect(self) -> None:
        """Nothing more is read or started through this adapter. Running tasks are the bridge's and go on."""
        self._connected = False

    def is_connected(self) -> bool:
        return self._connected

    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities(
            read=True,
            execute=bool(self.actions.offered - {"stop"}),
            events=list(CHANNELS),
            streaming=True,
        )

    # -- reading --------------------------------------------------------------------------------------------

    async def discover(self) -> RobotIdentity:
        """From the file; the model's name and the limits from the robot description.

        Raises:
            AdapterError: nobody tells the joints' names.
        """
        self.require_connected()
        rcp = self._rcp
        try:
            described = self._readings.description().name
        except NotKnown:
            described = ""
        try:
            joints = self._joints.limits()
        except NotKnown as error:
            raise _unread("identity", error) from error
        return RobotIdentity(
            manufacturer=rcp.manufacturer or UNKNOWN,
            model=rcp.model or described or self._config.robot.name,
            controller=rcp.controller or UNKNOWN,
            firmware=rcp.firmware or UNKNOWN,
            serial=rcp.serial or UNKNOWN,
            joint_count=len(joints),
            joint_limits=joints,
            payload_kg=rcp.payload_kg,
            reach_mm=rcp.reach_mm,
        )

    async def get_joints(self) -> list[JointState]:
        self.require_connected()
        try:
            return self._joints.states()
        except NotKnown as error:
            raise _unread("joints", error) from error

    async def get_tcp(self) -> TCPPosition:
        self.require_connected()
        if self._rcp.tcp is None:
            raise NotSupportedError("the skills file names no source for the tool's pose (rcp.tcp)")
        try:
            return tcp_of(self._readings.tool(), self._rcp.tcp.rotation)
        except NotKnown as error:
            raise _unread("tcp", error) from error

    async def get_io(self) -> IOState:
        """Signals that are known now; :meth:`silent_signals` tells of the others.

        Raises:
            AdapterError: there are signals, and none of them is known.
        """
        self.require_connected()
        signals: list[IOSignal] = []
        silent: dict[str, str] = {}
        for name, section in self._config.io.items():
            try:
                value = self._readings.signal(name)
            except NotKnown as error:
                silent[name] = str(error)
            else:
                signals.append(IOSignal(name, section.kind, value, section.mode))
        self._log_silent(silent)
        if silent and not signals:
            raise _unread("io", NotKnown("; ".join(f"{name}: {why}" for name, why in silent.items())))
        return IOState(signals)

    def silent_signals(self) -> dict[str, str]:
        """Signals that are not known now, each with the reason."""
        found: dict[str, str] = {}
        for name in self._config.io:
            try:
                self._readings.signal(name)
            except NotKnown as error:
                found[name] = str(error)
        return found

    def _log_silent(self, silent: Mapping[str, str]) -> None:
        for name in silent.keys() - self._silent:
            logger.warning("the signal %s could not be read: %s", name, silent[name])
        self._silent = frozenset(silent)

    async def get_programs(self) -> list[ProgramInfo]:
        self.require_connected()
        return self._programs.infos()

    async def get_tools(self) -> list[ToolData]:
        self.require_connected()
        return [
            ToolData(name, tool.tcp_x_mm, tool.tcp_y_mm, tool.tcp_z_mm, tool.mass_kg)
            for name, tool in self._rcp.tools.items()
        ]

    def rotation_convention(self) -> RotationConvention:
        return OPAQUE if self._rcp.tcp is None else CONVENTIONS[self._rcp.tcp.rotation]

    def motion_limits(self) -> MotionLimits:
        return self.actions.limits

    async def verify_interlocks(self) -> tuple[bool, str]:
        """What the safety layer's interlocks and the emergency stop say now."""
        guard = self._bridge.guard
        if guard.estop.reason is not None:
            return False, f"the emergency stop is latched: {guard.estop.reason}"
        broken = [f"{found.name}: {found.reason}" for found in guard.conditions() if not found.ok]
        return not broken, "; ".join(broken)

    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        return changes(self, self._bridge, self._manager, channels)

    # -- acting ---------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop every motion of the bridge, whoever started it."""
        await self._bridge.stop("a client of the Robot Context Protocol asked for it")

    async def move_to(self, position: TCPPosition) -> dict[str, Any]:
        given = {axis: getattr(position, axis) for axis in ("x", "y", "z", "rx", "ry", "rz")}
        return await self._carry_out("move_to", given)

    async def jog(self, axis: str, direction: int, speed: float) -> dict[str, Any]:
        """One step. ``speed`` is a part of the axis's highest speed, above 0 and at most 1."""
        return await self._carry_out("jog", {"axis": axis, "direction": direction, "speed": speed})

    async def home(self) -> dict[str, Any]:
        return await self._carry_out("home", {})

    async def start_program(self, module: str) -> dict[str, Any]:
        return await self._carry_out("start_program", {"module": module})

    async def set_io(self, signal: str, value: float) -> None:
        told = await self._carry_out("set_io", {"signal": signal, "value": value})
        if not told["success"]:
            raise AdapterError(str(told["message"]), data=told)

    def begin(
        self,
        call: SkillCall,
        *,
        requester: Requester = LOCAL,
        triggers: Any = None,
        idempotency_key: Any = None,
    ) -> Started:
        """Start what carries an action out, as a task.

        Raises:
            ArgumentError: the skill refuses its arguments.
            TaskError: refused for another reason; nothing moved.
        """
        started = self._bridge.begin(
            call.skill,
            call.arguments,
            triggers=triggers,
            idempotency_key=idempotency_key,
            requester=requester,
        )
        if call.program:
            self._programs.remember(started.info.task_id, call.program)
        return started

    def begin_action(
        self, action: str, parameters: Mapping[str, Any], requester: Requester = LOCAL
    ) -> Started:
        """Check an action's parameters and start it.

        Raises:
            RCPError: refused; nothing moved.
        """
        self.require_connected()
        call = self.actions.call(action, parameters)
        try:
            return self.begin(call, requester=requester)
        except ArgumentError as error:
            raise ParameterError(error.field, error.message) from error
        except SafetyRefused as error:
            raise refused(error) from error
        except TaskError as error:
            raise failure_of(error) from error

    async def ended(self, task_id: str) -> dict[str, Any]:
        """Wait for the end of a task; given up, the task is cancelled.

        Returns:
            ``success``, ``message``, ``task_id``, and what the skill told.
        """
        try:
            info = await self._manager.wait(task_id)
        except asyncio.CancelledError:
            # Nobody waits for the motion any more, so it must not go on.
            task = asyncio.get_running_loop().create_task(self._manager.cancel(task_id))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)
            raise
        return outcome_of(task_id, info)

    async def _carry_out(self, action: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        started = self.begin_action(action, parameters)
        told = await self.ended(started.info.task_id)
        if not told["success"] and action != "set_io":
            await self._at_rest()
        return told

    async def _at_rest(self) -> None:
        """Wait a little until the joints stand: a motion that was called off still slows down (R28)."""
        before: dict[str, float] = {}
        for _ in range(_REST_LOOKS):
            try:
                now = self._joints.positions()
            except NotKnown:
                return
            if before and all(abs(now[name] - value) < _REST for name, value in before.items()):
                return
            before = now
            await asyncio.sleep(_REST_LOOK_S)


def outcome_of(task_id: str, info: TaskInfo | None) -> dict[str, Any]:
    """How a task ended, as the protocol's motions answer."""
    if info is None:
        message = f"the record of the task {task_id} is gone, so how it ended is not known"
        return {"success": False, "message": message, "task_id": task_id}
    if info.state == "succeeded":
        result = info.result or {}
        said = str(result.get("note") or result.get("message") or f"{info.tool} succeeded")
        return {"success": True, "message": said, "task_id": task_id, "result": result}
    if info.failure is not None:
        told = {"error_code": info.failure.error_code, "message": info.failure.message}
        return {"success": False, "task_id": task_id, **told}
    note = str((info.progress or {}).get("note") or "")
    return {"success": False, "message": f"it was stopped. {note}".rstrip(), "task_id": task_id}


def failure_of(error: TaskError) -> AdapterError:
    """A refused start as the protocol's error."""
    data = {"reason": error.error_code, "suggestions": error.suggestions}
    if error.error_code == "ROS_BUSY":
        return AdapterBusyError(error.message, data=data)
    return AdapterError(error.message, data=data)


def _unread(part: str, error: NotKnown) -> AdapterError:
    return AdapterError(f"{error}", code=RCPErrorCode.ADAPTER_ERROR, data={"part": part})
