"""Interface classes by their ROS name, with errors that name the missing package."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from robot_mcp_kit.skills.text import did_you_mean

_KINDS = ("action", "msg", "srv")

INTEGER_RANGES: dict[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "octet": (0, 2**8 - 1),
    "char": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "wchar": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
"""What each integer type of the interface language holds, by its name in ``SLOT_TYPES``."""


@functools.cache
def load_interface(type_name: str) -> Any:
    """The class for ``nav2_msgs/action/NavigateToPose``.

    Raises:
        LookupError: malformed name, package not installed, or no such interface in it; says which.
    """
    parts = type_name.split("/")
    if len(parts) != 3 or parts[1] not in _KINDS or not all(parts):
        raise LookupError(
            f"'{type_name}' is not an interface name; write it as 'nav2_msgs/action/NavigateToPose'"
        )
    package, kind, name = parts
    try:
        module = importlib.import_module(f"{package}.{kind}")
    except ModuleNotFoundError as error:
        if error.name == f"{package}.{kind}":
            raise LookupError(
                f"the package '{package}' is installed, but has no {kind} interfaces (wanted: '{name}')"
            ) from error
        raise LookupError(
            f"the interface package '{package}' of '{type_name}' is not installed "
            f"(on a robot: apt install ros-$ROS_DISTRO-{package.replace('_', '-')}, then source again)"
        ) from error
    try:
        return getattr(module, name)
    except AttributeError as error:
        near = did_you_mean(name, [known for known in dir(module) if known[0].isupper() and "_" not in known])
        raise LookupError(f"the package '{package}' has no {kind} '{name}'.{near}") from error
