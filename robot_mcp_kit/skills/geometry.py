"""Planar geometry: angles, quaternions, polygons. Metres and radians, right-handed, yaw about +z (REP
103).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

Point = tuple[float, float]


class Quaternion(NamedTuple):
    """Field order of ``geometry_msgs/msg/Quaternion``."""

    x: float
    y: float
    z: float
    w: float

    @property
    def norm(self) -> float:
        return math.hypot(self.x, self.y, self.z, self.w)


def wrap_angle(angle_rad: float) -> float:
    """The same direction in (-pi, pi]."""
    wrapped = math.remainder(angle_rad, math.tau)
    return math.pi if wrapped == -math.pi else wrapped


def angle_between(a_rad: float, b_rad: float) -> float:
    """Size of the turn from one yaw to another, 0 .. pi."""
    return abs(wrap_angle(a_rad - b_rad))


def yaw_to_quaternion(yaw_rad: float) -> Quaternion:
    """Rotation about +z. The result has norm 1 and ``w >= 0``, so that equal directions give equal goals."""
    half = wrap_angle(yaw_rad) / 2.0
    return Quaternion(0.0, 0.0, math.sin(half), math.cos(half))


def rpy_to_quaternion(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Quaternion:
    """Turns about the fixed x, y and z axes, in that order (REP 103)."""
    cr, sr = math.cos(roll_rad / 2), math.sin(roll_rad / 2)
    cp, sp = math.cos(pitch_rad / 2), math.sin(pitch_rad / 2)
    cy, sy = math.cos(yaw_rad / 2), math.sin(yaw_rad / 2)
    return Quaternion(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def quaternion_to_yaw(q: Quaternion) -> float:
    """Yaw of a rotation in (-pi, pi]; roll and pitch are ignored. The norm need not be 1."""
    # A power raises where a product becomes infinite.
    return math.atan2(2.0 * (q.w * q.z + q.x * q.y), q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z)


def tilt_rad(q: Quaternion) -> float:
    """Angle between the rotated +z axis and +z: 0 for anything that stands upright on the floor."""
    upright = (q.w**2 - q.x**2 - q.y**2 + q.z**2) / (q.norm**2)
    return math.acos(max(-1.0, min(1.0, upright)))


def distance(a: Point, b: Point) -> float:
    """Straight-line distance in metres."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


def bearing_rad(start: Point, end: Point) -> float:
    """Direction of the straight line from ``start`` to ``end``; 0 when they coincide."""
    return math.atan2(end[1] - start[1], end[0] - start[0])


def path_length(points: Sequence[Point]) -> float:
    """Sum of the straight pieces, metres; 0 for fewer than two points."""
    return sum(distance(a, b) for a, b in itertools.pairwise(points))


def polygon_area(polygon: Sequence[Point]) -> float:
    """Unsigned area (shoelace), square metres. The polygon closes itself."""
    closed = [*polygon[1:], polygon[0]]
    return abs(sum(ax * by - bx * ay for (ax, ay), (bx, by) in zip(polygon, closed, strict=True))) / 2.0


def point_in_polygon(point: Point, polygon: Sequence[Point]) -> bool:
    """Whether the point is inside or on the edge. Even-odd rule; the polygon closes itself."""
    x, y = point
    inside = False
    for (ax, ay), (bx, by) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        if _on_segment(point, (ax, ay), (bx, by)):
            return True
        if (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay):
            inside = not inside
    return inside


def edges_cross(polygon: Sequence[Point]) -> bool:
    """Whether two edges that are not neighbours touch: such a polygon has no clear inside."""
    count = len(polygon)
    edges = [(polygon[i], polygon[(i + 1) % count]) for i in range(count)]
    for i in range(count):
        for j in range(i + 1, count):
            neighbours = j == i + 1 or (i == 0 and j == count - 1)
            if not neighbours and _segments_touch(*edges[i], *edges[j]):
                return True
    return False


def _side(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _on_segment(p: Point, a: Point, b: Point) -> bool:
    if abs(_side(a, b, p)) > 1e-9 * max(1.0, distance(a, b)):
        return False
    return (
        min(a[0], b[0]) - 1e-9 <= p[0] <= max(a[0], b[0]) + 1e-9
        and min(a[1], b[1]) - 1e-9 <= p[1] <= max(a[1], b[1]) + 1e-9
    )


def _segments_touch(a: Point, b: Point, c: Point, d: Point) -> bool:
    if any((_on_segment(a, c, d), _on_segment(b, c, d), _on_segment(c, a, b), _on_segment(d, a, b))):
        return True
    return (_side(a, b, c) > 0) != (_side(a, b, d) > 0) and (_side(c, d, a) > 0) != (_side(c, d, b) > 0)
