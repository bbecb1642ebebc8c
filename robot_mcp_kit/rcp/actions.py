"""Every action of the protocol: its parameters, the capability it needs, and the adapter's method it calls.

How risky an action is stands in one place, :mod:`robot_mcp_kit.safety.risk`; nothing here can change it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from robot_mcp_kit.rcp import parameters as given
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.errors import NotSupportedError
from robot_mcp_kit.safety.risk import ACTION_RISK, RiskLevel

Capability = Literal["read", "validate", "deploy", "execute"]


@dataclass(frozen=True, slots=True)
class Action:
    """One action."""

    name: str
    method: str
    """The adapter's."""
    parameters: type[given.Parameters]
    capability: Capability | None
    """What the adapter must declare (R12); ``None``: it always may be asked for."""
    call: Callable[[RCPAdapter, Any], Awaitable[Any]]
    summary: Callable[[Any], str]
    """For the person who decides: all that matters, in one line."""

    @property
    def risk(self) -> RiskLevel:
        return ACTION_RISK[self.name]

    @property
    def moves(self) -> bool:
        return self.risk is RiskLevel.RESTRICTED

    def check_supported(self, adapter: RCPAdapter) -> None:
        """
        Raises:
            NotSupportedError: the capability is not declared, the method is not written, or the adapter would
                move and could not stop.
        """
        who, data = type(adapter).__name__, {"action": self.name}
        if self.capability is not None and not getattr(adapter.capabilities(), self.capability):
            raise NotSupportedError(
                f"{who} does not declare the capability '{self.capability}', which {self.name} needs",
                data={**data, "capability": self.capability},
            )
        if self.risk is not RiskLevel.SAFE and not _is_written(adapter, self.method):
            raise NotSupportedError(f"{who} does not support {self.name}", data=data)
        if self.moves and not _is_written(adapter, "stop"):
            raise NotSupportedError(
                f"{who} has no stop(): a robot that cannot be stopped at any time is not moved", data=data
            )


def _is_written(adapter: RCPAdapter, method: str) -> bool:
    return getattr(type(adapter), method) is not getattr(RCPAdapter, method)


def _place(p: given.MoveTo) -> str:
    return f"x {p.x:g} y {p.y:g} z {p.z:g} mm, rx {p.rx:g} ry {p.ry:g} rz {p.rz:g}"


async def _captured(adapter: RCPAdapter) -> dict[str, Any]:
    tcp, joints = await adapter.capture_position()
    return {"tcp": tcp, "joints": joints}


async def _stopped(adapter: RCPAdapter) -> dict[str, Any]:
    await adapter.stop()
    return {"stopped": True}


def _pulse(p: given.DevicePulse) -> str:
    watched = f", watching {p.read_back}" if p.read_back else ""
    return f"pulse {p.output} for {p.pulse_ms:g} ms{watched}"


def _tool(p: given.ModifyTool) -> str:
    tool = p.tool
    offset = f"({tool.tcp_x:g}, {tool.tcp_y:g}, {tool.tcp_z:g}) mm"
    return f"overwrite tool {tool.name}: TCP {offset}, {tool.mass_kg:g} kg"


def _walk(p: given.Calibrate) -> str:
    return f"walk through {len(p.poses)} poses for a calibration: " + "; ".join(map(_place, p.poses))


_NONE = given.Parameters
_TABLE = (
    # SAFE
    Action("stop", "stop", _NONE, None, lambda a, _: _stopped(a), lambda _: "stop every motion"),
    Action(
        "capture_position",
        "capture_position",
        _NONE,
        "read",
        lambda a, _: _captured(a),
        lambda _: "read where the robot is",
    ),
    Action(
        "diff_program",
        "diff_program",
        given.ProgramDiff,
        "read",
        lambda a, p: a.diff_program(p.module, p.local_code),
        lambda p: f"compare program {p.module}",
    ),
    Action(
        "validate",
        "validate_program",
        given.ProgramCode,
        "validate",
        lambda a, p: a.validate_program(p.code),
        lambda _: "check a program",
    ),
    Action(
        "validate_program",
        "validate_program",
        given.ProgramCode,
        "validate",
        lambda a, p: a.validate_program(p.code),
        lambda _: "check a program",
    ),
    Action(
        "disable_freedrive",
        "disable_freedrive",
        _NONE,
        None,
        lambda a, _: a.disable_freedrive(),
        lambda _: "end leading by hand",
    ),
    # GUARDED
    Action(
        "upload_program",
        "upload_program",
        given.Upload,
        "deploy",
        lambda a, p: a.upload_program(p.module, p.code),
        lambda p: f"put program {p.module} on the controller ({len(p.code.splitlines())} lines)",
    ),
    Action(
        "set_io",
        "set_io",
        given.SetIO,
        "execute",
        lambda a, p: a.set_io(p.signal, p.value),
        lambda p: f"set {p.signal} to {p.value:g}",
    ),
    Action(
        "modify_tool_data",
        "modify_tool_data",
        given.ModifyTool,
        "deploy",
        lambda a, p: a.modify_tool_data(p.data()),
        _tool,
    ),
    Action(
        "enable_freedrive",
        "enable_freedrive",
        _NONE,
        "execute",
        lambda a, _: a.enable_freedrive(),
        lambda _: "let a person lead the robot by hand",
    ),
    Action(
        "test_device",
        "test_device",
        given.DevicePulse,
        "execute",
        lambda a, p: a.test_device(p.output, p.pulse_ms, p.read_back),
        _pulse,
    ),
    # RESTRICTED
    Action(
        "move_to",
        "move_to",
        given.MoveTo,
        "execute",
        lambda a, p: a.move_to(p.position()),
        lambda p: f"move the tool to {_place(p)}",
    ),
    Action(
        "start_program",
        "start_program",
        given.ProgramName,
        "execute",
        lambda a, p: a.start_program(p.module),
        lambda p: f"start program {p.module}",
    ),
    Action(
        "jog",
        "jog",
        given.Jog,
        "execute",
        lambda a, p: a.jog(p.axis, p.direction, p.speed),
        lambda p: f"jog {p.axis} {'+' if p.direction > 0 else '-'} at speed {p.speed:g}",
    ),
    Action("home", "home", _NONE, "execute", lambda a, _: a.home(), lambda _: "move to the home pose"),
    Action(
        "vision.calibrate_hand_eye",
        "calibrate_hand_eye",
        given.Calibrate,
        "execute",
        lambda a, p: a.calibrate_hand_eye([pose.position() for pose in p.poses]),
        _walk,
    ),
)

ACTIONS: Mapping[str, Action] = MappingProxyType({action.name: action for action in _TABLE})
"""By name. Reading a resource (the action ``read``) is no call of one method and is not in here."""
