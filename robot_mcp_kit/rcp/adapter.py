"""The class that an adapter for a robot controller is made of.

Adapters speak to one controller and know nothing of approvals: they are called by a guarded session
(:class:`robot_mcp_kit.rcp.session.RCPSession`), which checks capabilities, parameters, risk, approval and
interlocks first and writes the audit trail. An adapter cannot lower a risk level (R3).
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from robot_mcp_kit.rcp.context import collect_context
from robot_mcp_kit.rcp.diff import diff
from robot_mcp_kit.rcp.errors import AdapterDisconnectedError, NotSupportedError
from robot_mcp_kit.rcp.limits import MotionLimits
from robot_mcp_kit.rcp.models import (
    AdapterCapabilities,
    IOState,
    JointState,
    ProgramInfo,
    RCPEvent,
    RobotContext,
    RobotIdentity,
    TCPPosition,
    ToolData,
    UploadResult,
)
from robot_mcp_kit.rcp.rotation import OPAQUE, RotationConvention


class RCPAdapter(abc.ABC):
    """One robot controller. Ten methods must be written; the others have defaults that do nothing (R9, R10).

    Motion methods (:meth:`move_to`, :meth:`jog`, :meth:`home`, :meth:`start_program`) return when the motion
    is over or clearly under way, with ``{"success": bool, "message": str}``. They must end soon after
    :meth:`stop` was called, which may happen at any time and from another task (R28). Anything but success
    can also be raised: :class:`~robot_mcp_kit.rcp.errors.AdapterError` and its kin keep their code.
    """

    # -- must be written ------------------------------------------------------------------------------------

    @abc.abstractmethod
    async def connect(self, config: dict[str, Any]) -> None:
        """Connect to the controller.

        Args:
            config: ``host``, ``port``, credentials; whatever this adapter needs.
        """

    @abc.abstractmethod
    async def disconnect(self) -> None:
        """Leave the controller. Harmless when repeated (R11)."""

    @abc.abstractmethod
    def is_connected(self) -> bool:
        """Whether there is a connection now. Quick."""

    @abc.abstractmethod
    async def discover(self) -> RobotIdentity:
        """Which robot this is."""

    @abc.abstractmethod
    def capabilities(self) -> AdapterCapabilities:
        """What this adapter can do; asked before every call (R12). Quick."""

    @abc.abstractmethod
    async def get_joints(self) -> list[JointState]:
        """The joints now, in the controller's order and with its names (R15); degrees."""

    @abc.abstractmethod
    async def get_tcp(self) -> TCPPosition:
        """The tool centre point now; millimetres, rotations by :meth:`rotation_convention`."""

    @abc.abstractmethod
    async def get_io(self) -> IOState:
        """Every signal now."""

    @abc.abstractmethod
    async def get_programs(self) -> list[ProgramInfo]:
        """The programs on the controller."""

    @abc.abstractmethod
    async def get_tools(self) -> list[ToolData]:
        """The end effectors it knows."""

    # -- what is known of it --------------------------------------------------------------------------------

    def rotation_convention(self) -> RotationConvention:
        """What ``rx``, ``ry``, ``rz`` mean here (R16). Default: nobody says."""
        return OPAQUE

    def motion_limits(self) -> MotionLimits:
        """What motions may ask for. Default: within the identity's reach, jogs up to speed 1."""
        return MotionLimits()

    # -- SAFE -----------------------------------------------------------------------------------------------

    async def get_program_code(self, module: str) -> str:  # noqa: ARG002 - for adapters that have it
        """A program's text; empty where there is none, or the controller does not give it."""
        return ""

    async def capture_position(self) -> tuple[TCPPosition, list[JointState]]:
        """Where the robot is: TCP and joints."""
        return await self.get_tcp(), await self.get_joints()

    async def verify_interlocks(self) -> tuple[bool, str]:
        """Whether it is safe to move now, and why not. Asked right before each RESTRICTED action (R23).

        Raising, or taking too long, counts as "no" (R24). The default passes.
        """
        return True, ""

    async def stop(self) -> None:
        """Stop every motion now. Called at any time, also while another method runs (R28)."""
        raise self._not_supported("stop")

    async def validate_program(self, code: str) -> dict[str, Any]:  # noqa: ARG002
        """Check a program's text: ``{"valid": bool, "errors": [str], "warnings": [str]}``."""
        raise self._not_supported("validate_program")

    async def diff_program(self, module: str, local_code: str) -> dict[str, Any]:
        """A local program against the controller's: ``controller_code``, and lines ``added``, ``removed``,
        ``changed``.
        """
        compared = await asyncio.to_thread(diff, local_code, await self.get_program_code(module))
        counted = asdict(compared)
        del counted["local_code"]
        return counted

    async def read_controller_map(self) -> dict[str, Any]:
        """The controller's configuration as far as it tells: ``info``, ``networks``, ``devices``,
        ``signals``, ``interfaces``. Never raises.
        """
        return {"status": "not_supported"}

    async def disable_freedrive(self) -> dict[str, Any]:
        """End leading by hand."""
        raise self._not_supported("disable_freedrive")

    async def get_context(self) -> RobotContext:
        """Everything at once. A source that fails leaves its part empty and is logged (R13)."""
        return (await collect_context(self)).context

    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:  # noqa: ARG002
        """Events of these channels as they happen; ``None``: this adapter has no stream (R47).

        Args:
            channels: as declared in :meth:`capabilities`.
        """
        return None

    # -- GUARDED: a person approves -------------------------------------------------------------------------

    async def upload_program(self, module: str, code: str) -> UploadResult:  # noqa: ARG002
        """Put a program on the controller."""
        return UploadResult(success=False, message="this adapter cannot upload programs")

    async def set_io(self, signal: str, value: float) -> None:  # noqa: ARG002
        """Set an output: 0 or 1, or 0.0 to 1.0 for an analog one."""
        raise self._not_supported("set_io")

    async def modify_tool_data(self, tool: ToolData) -> dict[str, Any]:  # noqa: ARG002
        """Overwrite a tool's definition."""
        raise self._not_supported("modify_tool_data")

    async def enable_freedrive(self) -> dict[str, Any]:
        """Let a person lead the robot by hand."""
        raise self._not_supported("enable_freedrive")

    async def test_device(self, output: str, pulse_ms: float, read_back: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Pulse a digital output once, and tell what an input said meanwhile.

        Args:
            output: a digital output.
            pulse_ms: how long it is 1.
            read_back: a digital input to be read while it is.
        """
        raise self._not_supported("test_device")

    # -- RESTRICTED: a person approves, and the interlocks must hold ----------------------------------------

    async def move_to(self, position: TCPPosition) -> dict[str, Any]:  # noqa: ARG002
        """Move the TCP there. May also tell ``actual_tcp`` and ``drift_mm``."""
        raise self._not_supported("move_to")

    async def jog(self, axis: str, direction: int, speed: float) -> dict[str, Any]:  # noqa: ARG002
        """Move one axis a little.

        Args:
            axis: ``J1`` to ``J6``, or ``X``, ``Y``, ``Z``, ``RX``, ``RY``, ``RZ``.
            direction: 1 or -1.
            speed: above 0, at most :attr:`MotionLimits.jog_speed_max`.
        """
        raise self._not_supported("jog")

    async def home(self) -> dict[str, Any]:
        """Move to the home pose."""
        raise self._not_supported("home")

    async def start_program(self, module: str) -> dict[str, Any]:  # noqa: ARG002
        """Start a program."""
        raise self._not_supported("start_program")

    async def calibrate_hand_eye(self, poses: Sequence[TCPPosition]) -> dict[str, Any]:  # noqa: ARG002
        """Walk through poses for a camera calibration (the action ``vision.calibrate_hand_eye``)."""
        raise self._not_supported("vision.calibrate_hand_eye")

    # -- for subclasses -------------------------------------------------------------------------------------

    def require_connected(self) -> None:
        """For the first line of a method that needs the controller.

        Raises:
            AdapterDisconnectedError: there is no connection.
        """
        if not self.is_connected():
            raise AdapterDisconnectedError("the adapter is not connected to its controller; connect first")

    def _not_supported(self, action: str) -> NotSupportedError:
        return NotSupportedError(f"{type(self).__name__} does not support {action}", data={"action": action})
