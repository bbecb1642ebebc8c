"""The simulated robot's adapter."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.errors import AdapterBusyError, AdapterError, HardwareError
from robot_mcp_kit.rcp.limits import JOINT_AXES, MotionLimits
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
    UploadResult,
)
from robot_mcp_kit.rcp.rotation import ROLL_PITCH_YAW_DEG, RotationConvention
from robot_mcp_kit.rcp.simulated import kinematics, programs
from robot_mcp_kit.rcp.simulated.motion import JointMotion, MotionStoppedError

LIMITS_DEG = (
    (-170.0, 170.0),
    (-30.0, 150.0),
    (-150.0, 150.0),
    (-185.0, 185.0),
    (-120.0, 120.0),
    (-350.0, 350.0),
)
MAX_SPEED_DEG_S = (120.0, 120.0, 150.0, 250.0, 250.0, 360.0)
HOME_DEG = (0.0, 90.0, -90.0, 0.0, -90.0, 0.0)
JOG_JOINT_DEG = 5.0
JOG_MM = 20.0
"""One jog at speed 1."""
GRIPPER_S = 0.25
"""How long the gripper takes; then its switch says so."""
MAX_QUEUED_EVENTS = 1000
EVENTS = ("io_changed", "position_changed", "program_state", "error")
_PICK = """# pick a part and show it
home
movel 600 0 300 180 0 0
set gripper 1
wait 0.3
home
"""


class _Listener:
    """One subscription: from when it is made until it is closed, read or not."""

    def __init__(self, channels: Sequence[str], all_of_them: list[_Listener]) -> None:
        self.channels, self._all = frozenset(channels), all_of_them
        self._queue: asyncio.Queue[RCPEvent] = asyncio.Queue(MAX_QUEUED_EVENTS)
        all_of_them.append(self)

    def __aiter__(self) -> _Listener:
        return self

    async def __anext__(self) -> RCPEvent:
        return await self._queue.get()

    async def aclose(self) -> None:
        if self in self._all:
            self._all.remove(self)

    def hear(self, event: RCPEvent) -> None:
        if event.channel in self.channels:
            if self._queue.full():
                self._queue.get_nowait()  # whoever is slow misses the oldest
            self._queue.put_nowait(event)


class SimulatedAdapter(RCPAdapter):
    """A six-axis arm of 900 mm with a gripper, a door switch and a lamp. All that it does takes its time.

    Args:
        clock: monotonic; :class:`robot_mcp_kit.testing.FakeClock` for tests.
        wall: Unix seconds, for the stamps of events.
    """

    def __init__(self, *, clock: Clock | None = None, wall: WallClock = time.time) -> None:
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wall = wall
        self._connected = False
        self._motion = JointMotion(self._clock, HOME_DEG, MAX_SPEED_DEG_S)
        self._freedrive = False
        self._stops = 0
        self._busy: str | None = None
        self._signals = {
            signal.name: signal
            for signal in (
                IOSignal("door_closed", "digital_input", 1),
                IOSignal("part_present", "digital_input", 0),
                IOSignal("gripper_closed", "digital_input", 0),
                IOSignal("gripper", "digital_output", 0),
                IOSignal("lamp", "digital_output", 0),
                IOSignal("air_pressure", "analog_input", 0.6, "current"),
                IOSignal("fan_speed", "analog_output", 0.0, "voltage"),
            )
        }
        self._gripper_due_s: float | None = None
        self._tools = {
            tool.name: tool
            for tool in (ToolData("gripper", 0.0, 0.0, 120.0, 0.9), ToolData("flange", 0.0, 0.0, 0.0, 0.0))
        }
        self._active_tool = "gripper"
        self._programs = {"pick": _PICK}
        self._loaded, self._running = "pick", ""
        self._listeners: list[_Listener] = []

    # -- the ten --------------------------------------------------------------------------------------------

    async def connect(self, config: dict[str, Any]) -> None:  # noqa: ARG002 - nothing to be configured
        self._connected = True

    async def disconnect(self) -> None:
        self._motion.stop()
        self._connected = False

    def is_connected(self) -> bool:
        return self._connected

    async def discover(self) -> RobotIdentity:
        self.require_connected()
        return RobotIdentity(
            manufacturer="robot-mcp-kit",
            model="SIM-6",
            controller="simulation",
            firmware="1.0",
            serial="SIM-0001",
            joint_count=len(HOME_DEG),
            joint_limits=self._joints(),
            payload_kg=5.0,
            reach_mm=kinematics.REACH_MM,
        )

    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities(
            read=True, validate=True, deploy=True, execute=True, events=list(EVENTS), streaming=True
        )

    async def get_joints(self) -> list[JointState]:
        self.require_connected()
        return self._joints()

    async def get_tcp(self) -> TCPPosition:
        self.require_connected()
        return self._tcp(self._motion.now())

    async def get_io(self) -> IOState:
        self.require_connected()
        self._let_gripper_arrive()
        return IOState([dataclasses.replace(signal) for signal in self._signals.values()])

    async def get_programs(self) -> list[ProgramInfo]:
        self.require_connected()
        return [
            ProgramInfo(name, loaded=name == self._loaded, running=name == self._running)
            for name in self._programs
        ]

    async def get_tools(self) -> list[ToolData]:
        self.require_connected()
        return [dataclasses.replace(tool) for tool in self._tools.values()]

    # -- what is known of it --------------------------------------------------------------------------------

    def rotation_convention(self) -> RotationConvention:
        return ROLL_PITCH_YAW_DEG

    def motion_limits(self) -> MotionLimits:
        return MotionLimits(box_mm={"z": (20.0, kinematics.REACH_MM)})

    async def verify_interlocks(self) -> tuple[bool, str]:
        self.require_connected()
        if not self._signals["door_closed"].value:
            return False, "the safety door is open"
        if self._freedrive:
            return False, "a person leads the robot by hand"
        return True, ""

    # -- programs -------------------------------------------------------------------------------------------

    async def get_program_code(self, module: str) -> str:
        self.require_connected()
        return self._programs.get(module, "")

    async def validate_program(self, code: str) -> dict[str, Any]:
        _, errors, warnings = programs.parse(code, self._outputs())
        return {"valid": not errors, "errors": errors, "warnings": warnings}

    async def upload_program(self, module: str, code: str) -> UploadResult:
        self.require_connected()
        if module == self._running:
            return UploadResult(False, f"{module} runs; stop it first")
        _, errors, _ = programs.parse(code, self._outputs())
        if errors:
            return UploadResult(False, "; ".join(errors))
        self._programs[module] = code
        return UploadResult(True, f"{module} is on the controller")

    async def start_program(self, module: str) -> dict[str, Any]:
        self.require_connected()
        if module not in self._programs:
            raise AdapterError(f"there is no program {module}")
        steps, errors, _ = programs.parse(self._programs[module], self._outputs())
        if errors:
            raise AdapterError(f"{module} cannot run: {'; '.join(errors)}")
        with self._occupied(f"program {module}"):
            self._loaded = self._running = module
            self._tell("program_state", {"name": module, "running": True})
            try:
                for step in steps:
                    await self._do(step)
            finally:
                self._running = ""
                self._tell("program_state", {"name": module, "running": False})
        return {"success": True, "message": f"{module} ran to its end"}

    async def _do(self, step: programs.Instruction) -> None:
        match step.word:
            case "movej":
                await self._go(step.numbers)
            case "movel":
                await self._go(self._joints_for(TCPPosition(*step.numbers)))
            case "set":
                await self.set_io(step.signal, step.numbers[0])
            case "wait":
                await self._interruptible(step.numbers[0])
            case "home":
                await self._go(HOME_DEG)

    # -- signals and tools ----------------------------------------------------------------------------------

    async def set_io(self, signal: str, value: float) -> None:
        self.require_connected()
        if signal not in self._outputs():
            raise AdapterError(f"{signal} is no output")
        self._set(signal, value)

    async def test_device(self, output: str, pulse_ms: float, read_back: str | None = None) -> dict[str, Any]:
        await self.set_io(output, 1)
        try:
            await self._interruptible(pulse_ms / 1000.0)
            self._let_gripper_arrive()
            seen = self._signals[read_back].value if read_back else None
        except MotionStoppedError:
            return {"success": False, "message": "stopped"}
        finally:
            self._set(output, 0)
        return {"success": True, "message": f"{output} was 1 for {pulse_ms:g} ms", "read_back": seen}

    async def modify_tool_data(self, tool: ToolData) -> dict[str, Any]:
        self.require_connected()
        if self._busy:
            raise AdapterBusyError(f"{self._busy} still runs")
        self._tools[tool.name] = tool
        return {"success": True, "message": f"{tool.name} is defined"}

    async def enable_freedrive(self) -> dict[str, Any]:
        self.require_connected()
        if self._busy:
            raise AdapterBusyError(f"{self._busy} still runs")
        self._freedrive = True
        return {"success": True, "message": "a person may lead the robot"}

    async def disable_freedrive(self) -> dict[str, Any]:
        self._freedrive = False
        return {"success": True, "message": "the robot holds itself"}

    # -- motion ---------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        self._stops += 1
        self._motion.stop()

    async def move_to(self, position: TCPPosition) -> dict[str, Any]:
        self.require_connected()
        with self._occupied("move_to"):
            await self._go(self._joints_for(position))
        return self._arrived(position)

    async def home(self) -> dict[str, Any]:
        self.require_connected()
        with self._occupied("home"):
            await self._go(HOME_DEG)
        return {"success": True, "message": "at home"}

    async def jog(self, axis: str, direction: int, speed: float) -> dict[str, Any]:
        self.require_connected()
        joints = self._motion.now()
        if axis in JOINT_AXES:
            joints[JOINT_AXES.index(axis)] += direction * speed * JOG_JOINT_DEG
        else:
            tcp = self._tcp(joints)
            step = JOG_JOINT_DEG if axis.startswith("R") else JOG_MM
            setattr(tcp, axis.lower(), getattr(tcp, axis.lower()) + direction * speed * step)
            joints = list(self._joints_for(tcp))
        with self._occupied("jog"):
            await self._go(joints, speed)
        return {"success": True, "message": f"{axis} moved"}

    async def calibrate_hand_eye(self, poses: Sequence[TCPPosition]) -> dict[str, Any]:
        self.require_connected()
        with self._occupied("the calibration"):
            for pose in poses:
                await self._go(self._joints_for(pose))
        return {"success": True, "message": f"{len(poses)} poses"}

    async def _go(self, target: Sequence[float], speed: float = 1.0) -> None:
        for name, angle, (low, high) in zip(JOINT_AXES, target, LIMITS_DEG, strict=True):
            if not low <= angle <= high:
                raise HardwareError(
                    f"{name} would turn to {angle:.1f} degrees; it goes from {low:g} to {high:g}"
                )
        try:
            await self._motion.go(target, speed)
        finally:
            self._tell("position_changed", {"joints_deg": self._motion.now()})

    async def _interruptible(self, seconds: float) -> None:
        await self._motion.pause(seconds)

    @contextlib.contextmanager
    def _occupied(self, by: str) -> Any:
        """One motion at a time; a stop ends it in an error."""
        if self._busy:
            raise AdapterBusyError(f"{self._busy} still runs")
        stops, self._busy = self._stops, by
        try:
            yield
            if stops != self._stops:
                raise MotionStoppedError
        except MotionStoppedError:
            raise AdapterError(f"{by} was stopped") from None
        finally:
            self._busy = None

    def _arrived(self, wanted: TCPPosition) -> dict[str, Any]:
        at = self._tcp(self._motion.now())
        drift_mm = math.dist((at.x, at.y, at.z), (wanted.x, wanted.y, wanted.z))
        return {"success": True, "message": "arrived", "actual_tcp": at, "drift_mm": drift_mm}

    # -- for simulations ------------------------------------------------------------------------------------

    def set_input(self, name: str, value: float) -> None:
        """What the world does to an input: open the door, bring a part."""
        if self._signals[name].is_output:
            raise ValueError(f"{name} is an output; use set_io")
        self._set(name, value)

    # -- events ---------------------------------------------------------------------------------------------

    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        return _Listener(channels, self._listeners)

    def _tell(self, channel: str, data: dict[str, Any]) -> None:
        event = RCPEvent(channel, data, self._wall() * 1000.0)
        for listener in self._listeners:
            listener.hear(event)

    # -- inside ---------------------------------------------------------------------------------------------

    def _joints(self) -> list[JointState]:
        return [
            JointState(name, angle, low, high, speed)
            for name, angle, (low, high), speed in zip(
                JOINT_AXES, self._motion.now(), LIMITS_DEG, MAX_SPEED_DEG_S, strict=True
            )
        ]

    def _offset(self) -> kinematics.Vector:
        tool = self._tools[self._active_tool]
        return tool.tcp_x, tool.tcp_y, tool.tcp_z

    def _tcp(self, joints_deg: Sequence[float]) -> TCPPosition:
        place, turned = kinematics.forward([math.radians(one) for one in joints_deg], self._offset())
        return TCPPosition(*place, *(math.degrees(one) for one in kinematics.to_rpy(turned)))

    def _joints_for(self, at: TCPPosition) -> list[float]:
        turned = kinematics.from_rpy(*(math.radians(one) for one in (at.rx, at.ry, at.rz)))
        near = [math.radians(one) for one in self._motion.now()]
        limits = [(math.radians(low), math.radians(high)) for low, high in LIMITS_DEG]
        try:
            found = kinematics.inverse((at.x, at.y, at.z), turned, near, limits, self._offset())
        except kinematics.UnreachableError as error:
            raise AdapterError(str(error)) from error
        return [
            min(high, max(low, math.degrees(one))) for one, (low, high) in zip(found, LIMITS_DEG, strict=True)
        ]

    def _outputs(self) -> frozenset[str]:
        return frozenset(name for name, signal in self._signals.items() if signal.is_output)

    def _set(self, name: str, value: float) -> None:
        self._signals[name].value = value
        if name == "gripper":
            self._gripper_due_s = self._clock.now() + GRIPPER_S
        self._tell("io_changed", {"signal": name, "value": value})

    def _let_gripper_arrive(self) -> None:
        if self._gripper_due_s is not None and self._clock.now() >= self._gripper_due_s:
            self._gripper_due_s = None
            self._set("gripper_closed", self._signals["gripper"].value)
