"""Between SI units and the protocol's: degrees, millimetres, and rotations (R14, R16)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from robot_mcp_kit.rcp.models import TCPPosition
from robot_mcp_kit.rcp.rotation import (
    KUKA_ABC_DEG,
    ROLL_PITCH_YAW_DEG,
    UR_ROTATION_VECTOR_RAD,
    RotationConvention,
)
from robot_mcp_kit.skills.config.rcp import Rotation
from robot_mcp_kit.skills.geometry import Quaternion, rpy_to_quaternion
from robot_mcp_kit.skills.readings import ToolPose

CONVENTIONS: Mapping[Rotation, RotationConvention] = MappingProxyType(
    {
        "roll_pitch_yaw_deg": ROLL_PITCH_YAW_DEG,
        "euler_zyx_deg": KUKA_ABC_DEG,
        "rotation_vector_rad": UR_ROTATION_VECTOR_RAD,
    }
)
_SMALL = 1e-12


def mm(metres: float) -> float:
    """Metres in millimetres."""
    return metres * 1000.0


def metres(millimetres: float) -> float:
    """Millimetres in metres."""
    return millimetres / 1000.0


def rotation_numbers(q: Quaternion, rotation: Rotation) -> tuple[float, float, float]:
    """A unit quaternion as ``rx``, ``ry``, ``rz``."""
    if rotation == "rotation_vector_rad":
        return _vector(q)
    roll, pitch, yaw = (math.degrees(angle) for angle in _roll_pitch_yaw(q))
    return (roll, pitch, yaw) if rotation == "roll_pitch_yaw_deg" else (yaw, pitch, roll)


def quaternion_of(rx: float, ry: float, rz: float, rotation: Rotation) -> Quaternion:
    """The unit quaternion of ``rx``, ``ry``, ``rz``."""
    if rotation == "rotation_vector_rad":
        return rotated(rx, ry, rz)
    a, b, c = math.radians(rx), math.radians(ry), math.radians(rz)
    return rpy_to_quaternion(a, b, c) if rotation == "roll_pitch_yaw_deg" else rpy_to_quaternion(c, b, a)


def rotated(x_rad: float, y_rad: float, z_rad: float) -> Quaternion:
    """The unit quaternion of a rotation vector: axis times angle."""
    angle = math.sqrt(x_rad**2 + y_rad**2 + z_rad**2)
    if angle < _SMALL:
        return Quaternion(0.0, 0.0, 0.0, 1.0)
    share = math.sin(angle / 2) / angle
    return Quaternion(x_rad * share, y_rad * share, z_rad * share, math.cos(angle / 2))


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """First ``b``, then ``a``, both about fixed axes."""
    return Quaternion(
        a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
        a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    )


def tcp_of(pose: ToolPose, rotation: Rotation) -> TCPPosition:
    """A pose of the tool as the protocol has it."""
    x, y, z = (mm(value) for value in pose.position_m)
    return TCPPosition(x, y, z, *rotation_numbers(pose.rotation, rotation))


def _roll_pitch_yaw(q: Quaternion) -> tuple[float, float, float]:
    """Turns about the fixed axes x, y, z. Where pitch is a quarter turn only a sum counts; the roll is 0."""
    up = 2.0 * (q.w * q.y - q.z * q.x)
    across = 2.0 * (q.y * q.z + q.w * q.x), 1.0 - 2.0 * (q.x**2 + q.y**2)
    if math.hypot(*across) < 1e-9:
        yaw = math.copysign(1.0, up) * -2.0 * math.atan2(q.x, q.w)
        return 0.0, math.copysign(math.pi / 2, up), math.remainder(yaw, math.tau)
    # atan2 loses nothing near a quarter turn, where asin would.
    pitch = math.atan2(up, math.hypot(*across))
    yaw = math.atan2(2.0 * (q.x * q.y + q.w * q.z), 1.0 - 2.0 * (q.y**2 + q.z**2))
    return math.atan2(*across), pitch, yaw


def _vector(q: Quaternion) -> tuple[float, float, float]:
    """Axis times angle; the angle is at most half a turn."""
    sign = -1.0 if q.w < 0 else 1.0
    length = math.sqrt(q.x**2 + q.y**2 + q.z**2)
    if length < _SMALL:
        return 0.0, 0.0, 0.0
    share = sign * 2.0 * math.atan2(length, sign * q.w) / length
    return q.x * share, q.y * share, q.z * share
