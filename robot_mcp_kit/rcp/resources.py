"""What of a robot can be read, by address, as JSON-able data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.errors import RCPError, RCPErrorCode
from robot_mcp_kit.skills.text import did_you_mean

SCHEME = "robot://"
SOURCES: Mapping[str, Callable[[RCPAdapter], Awaitable[Any]]] = MappingProxyType(
    {
        "identity": lambda adapter: adapter.discover(),
        "joints": lambda adapter: adapter.get_joints(),
        "tcp": lambda adapter: adapter.get_tcp(),
        "io": lambda adapter: adapter.get_io(),
        "programs": lambda adapter: adapter.get_programs(),
        "tools": lambda adapter: adapter.get_tools(),
    }
)
"""Resources that are one method of the adapter."""
CONTEXT = "context"
CONVENTIONS = "conventions"
"""Ours: what units and rotations mean here, and what motions may ask for (R16)."""
RESOURCES = tuple(SCHEME + name for name in (*SOURCES, CONTEXT, CONVENTIONS))
UNITS: Mapping[str, str] = MappingProxyType(
    {
        "JointState": "degrees, degrees per second",
        "TCPPosition.x y z": "millimetres in the controller's base frame",
        "TCPPosition.rx ry rz": "see rotation",
        "IOSignal.value": "0 or 1 for digital, 0.0 to 1.0 of full scale for analog",
        "ToolData": "millimetres, kilograms",
        "RobotIdentity": "kilograms, millimetres",
        "RCPEvent.timestamp": "milliseconds since 1970, UTC",
    }
)


def resource_name(uri: object) -> str:
    """The name in an address of a resource.

    Raises:
        RCPError: not an address of this scheme (2002), or no such resource (2000).
    """
    if not isinstance(uri, str) or not uri.startswith(SCHEME):
        raise RCPError(
            f"uri: {str(uri)[:80]!r} is no resource; they are {', '.join(RESOURCES)}",
            code=RCPErrorCode.INVALID_RESOURCE_URI,
            data={"resources": list(RESOURCES)},
        )
    if uri not in RESOURCES:
        raise RCPError(
            f"uri: there is no resource {uri[:80]!r}.{did_you_mean(uri[:80], RESOURCES)}",
            code=RCPErrorCode.RESOURCE_NOT_FOUND,
            data={"resources": list(RESOURCES)},
        )
    return uri.removeprefix(SCHEME)


def conventions(adapter: RCPAdapter) -> dict[str, Any]:
    """Units, the rotation convention and the declared limits of one adapter."""
    return {
        "units": dict(UNITS),
        "rotation": adapter.rotation_convention(),
        "limits": adapter.motion_limits(),
    }
