"""Reading ROS messages by attribute: one code path for every distribution, never an exception.

Distributions differ by a field; odd servers leave one out. Whatever cannot be read is ``None`` (semantics,
not 0).
"""

from __future__ import annotations

import math
from typing import Any

from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.geometry import Quaternion, quaternion_to_yaw

_MISSING = object()
_NO_ROTATION = 1e-6


def dig(message: Any, path: str) -> Any:
    """The value at a dotted path, or ``None``."""
    value = message
    for name in path.split("."):
        value = getattr(value, name, _MISSING)
        if value is _MISSING:
            return None
    return value


def number(message: Any, path: str) -> float | None:
    """A finite real number (numpy scalars included) at a dotted path, or ``None``."""
    return finite(dig(message, path))


def finite(value: Any) -> float | None:
    """A finite real number, or ``None`` for anything else."""
    if value is None or isinstance(value, bool | str | bytes):
        return None
    try:
        real = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return real if math.isfinite(real) else None


def integer(message: Any, path: str) -> int | None:
    """A whole number at a dotted path, or ``None``."""
    value = number(message, path)
    return int(value) if value is not None and value == int(value) else None


def duration_s(message: Any, path: str) -> float | None:
    """``builtin_interfaces/msg/Duration`` in seconds.

    -0.05 s travels as sec=-1, nanosec=950000000, so both fields always count (case B17).
    """
    sec, nanosec = number(message, f"{path}.sec"), number(message, f"{path}.nanosec")
    if sec is None or nanosec is None:
        return None
    return sec + nanosec * 1e-9


def pose_2d(message: Any, path: str) -> Pose2D | None:
    """``geometry_msgs/msg/PoseStamped`` as a planar pose.

    ``None`` for an empty frame or an all-zero quaternion: such a message was never filled (case B21), and
    (0, 0) would read as a place.
    """
    frame = dig(message, f"{path}.header.frame_id")
    if not isinstance(frame, str) or not frame:
        return None
    return planar(dig(message, f"{path}.pose.position"), dig(message, f"{path}.pose.orientation"), frame)


def planar(position: Any, orientation: Any, frame: str) -> Pose2D | None:
    """A point and a rotation as a planar pose; ``None`` where a number is none, or the rotation all zero."""
    values = [number(position, "x"), number(position, "y")]
    values += [number(orientation, axis) for axis in "xyzw"]
    if any(value is None for value in values):
        return None
    x, y, *rotation = [value for value in values if value is not None]
    q = Quaternion(*rotation)
    if q.norm < _NO_ROTATION:
        return None
    yaw = quaternion_to_yaw(q)
    return Pose2D(x, y, yaw, frame) if math.isfinite(yaw) else None


def items(message: Any, path: str) -> list[Any]:
    """The entries of an array (list, ``array.array``, numpy) at a dotted path; empty if there is none."""
    value = dig(message, path)
    if value is None or isinstance(value, str | bytes):
        return []
    try:
        return list(value)
    except TypeError:
        return []


def duration_fields(seconds: float) -> dict[str, int]:
    """``builtin_interfaces/msg/Duration`` as fields; nanoseconds are never negative, also before 0."""
    nanoseconds = round(seconds * 1e9)
    return {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000}


def first_number(message: Any, path: str) -> float | None:
    """The first entry of an array, or ``None`` if that is empty or no number."""
    found = items(message, path)
    return finite(found[0]) if found else None
