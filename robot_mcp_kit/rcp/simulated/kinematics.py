"""Forward and inverse kinematics of the simulated arm: three joints that place the wrist, three that turn it.

Joint angles in radians, lengths in millimetres, frames as in the Denavit-Hartenberg tables of textbooks: the
base frame at the foot, z up; the flange's z axis along the last joint. Rotations are 3x3, rows first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

SHOULDER_MM = 400.0
"""Height of the second joint over the base."""
UPPER_MM = 450.0
FOREARM_MM = 450.0
FLANGE_MM = 80.0
"""From the wrist's centre to the flange."""
REACH_MM = SHOULDER_MM + UPPER_MM + FOREARM_MM + FLANGE_MM
"""No flange is farther from the base than this."""
_TINY = 1e-12


class UnreachableError(ValueError):
    """No joint angles bring the tool there."""


def turn_x(angle: float) -> Matrix:
    c, s = math.cos(angle), math.sin(angle)
    return (1.0, 0.0, 0.0), (0.0, c, -s), (0.0, s, c)


def turn_y(angle: float) -> Matrix:
    c, s = math.cos(angle), math.sin(angle)
    return (c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)


def turn_z(angle: float) -> Matrix:
    c, s = math.cos(angle), math.sin(angle)
    return (c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)


def times(a: Matrix, b: Matrix) -> Matrix:
    rows = [tuple(sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)) for i in range(3)]
    return _matrix(rows)


def apply(a: Matrix, v: Vector) -> Vector:
    x, y, z = (sum(a[i][k] * v[k] for k in range(3)) for i in range(3))
    return x, y, z


def transposed(a: Matrix) -> Matrix:
    return _matrix(list(zip(*a, strict=True)))


def _matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    a, b, c = ((row[0], row[1], row[2]) for row in rows)
    return a, b, c


def from_rpy(roll: float, pitch: float, yaw: float) -> Matrix:
    """Turns about the fixed axes X, Y, Z, in this order (REP 103)."""
    return times(turn_z(yaw), times(turn_y(pitch), turn_x(roll)))


def to_rpy(r: Matrix) -> Vector:
    """Roll, pitch, yaw; roll is 0 where roll and yaw cannot be told apart."""
    pitch = math.atan2(-r[2][0], math.hypot(r[0][0], r[1][0]))
    if math.hypot(r[0][0], r[1][0]) < 1e-9:
        return 0.0, pitch, math.atan2(-r[0][1], r[1][1])
    return math.atan2(r[2][1], r[2][2]), pitch, math.atan2(r[1][0], r[0][0])


def _wrist(joints: Sequence[float]) -> tuple[Vector, Matrix]:
    """The wrist's centre, and how the forearm is turned before the fourth joint."""
    q1, q2, q3 = joints[:3]
    along = UPPER_MM * math.cos(q2) + FOREARM_MM * math.cos(q2 + q3)
    up = SHOULDER_MM + UPPER_MM * math.sin(q2) + FOREARM_MM * math.sin(q2 + q3)
    turned = times(turn_z(q1), times(turn_x(math.pi / 2), turn_z(q2 + q3 + math.pi / 2)))
    return (along * math.cos(q1), along * math.sin(q1), up), times(turned, turn_x(math.pi / 2))


def forward(joints: Sequence[float], tool: Vector = (0.0, 0.0, 0.0)) -> tuple[Vector, Matrix]:
    """Where the tool is and how it is turned."""
    centre, forearm = _wrist(joints)
    q4, q5, q6 = joints[3:6]
    turned = times(forearm, times(turn_z(q4), times(turn_y(q5), turn_z(q6))))
    out = apply(turned, (tool[0], tool[1], tool[2] + FLANGE_MM))
    return (centre[0] + out[0], centre[1] + out[1], centre[2] + out[2]), turned


def inverse(
    place: Vector,
    turned: Matrix,
    near: Sequence[float],
    limits: Sequence[tuple[float, float]],
    tool: Vector = (0.0, 0.0, 0.0),
) -> list[float]:
    """Joint angles that bring the tool there: of all solutions within the limits the one nearest to ``near``.

    Raises:
        UnreachableError: there is none.
    """
    out = apply(turned, (tool[0], tool[1], tool[2] + FLANGE_MM))
    centre = (place[0] - out[0], place[1] - out[1], place[2] - out[2])
    fitting = [
        placed
        for solution in _solutions(centre, turned, near)
        if (placed := _within(solution, near, limits)) is not None
    ]
    if not fitting:
        raise UnreachableError(
            "the arm cannot bring its tool there: too far, too near, or past a joint's end"
        )
    return min(fitting, key=lambda joints: max(abs(a - b) for a, b in zip(joints, near, strict=True)))


def _solutions(centre: Vector, turned: Matrix, near: Sequence[float]) -> Iterator[list[float]]:
    """Up to eight: facing the place or away from it, elbow up or down, wrist flipped or not."""
    along, up = math.hypot(centre[0], centre[1]), centre[2] - SHOULDER_MM
    straight = (along**2 + up**2 - UPPER_MM**2 - FOREARM_MM**2) / (2 * UPPER_MM * FOREARM_MM)
    if abs(straight) > 1.0 + 1e-9:
        return
    bent = math.acos(max(-1.0, min(1.0, straight)))
    facing = near[0] if along < 1e-9 else math.atan2(centre[1], centre[0])
    for away, elbow in itertools.product((False, True), (-bent, bent)):
        q1, reach = (facing + math.pi, -along) if away else (facing, along)
        q2 = math.atan2(up, reach) - math.atan2(
            FOREARM_MM * math.sin(elbow), UPPER_MM + FOREARM_MM * math.cos(elbow)
        )
        _, forearm = _wrist((q1, q2, elbow))
        r = times(transposed(forearm), turned)
        side = math.hypot(r[0][2], r[1][2])
        if side < 1e-9:  # the fourth and the sixth joint turn about one axis: keep the fourth where it is
            q5 = 0.0 if r[2][2] > 0 else math.pi
            sum_or_difference = math.atan2(r[1][0], r[1][1])
            q6 = sum_or_difference - near[3] if q5 == 0.0 else sum_or_difference + near[3]
            yield [q1, q2, elbow, near[3], q5, q6]
            continue
        for sign in (1.0, -1.0):
            q5 = math.atan2(sign * side, r[2][2])
            q4 = math.atan2(sign * r[1][2], sign * r[0][2])
            q6 = math.atan2(sign * r[2][1], -sign * r[2][0])
            yield [q1, q2, elbow, q4, q5, q6]


def _within(
    joints: Sequence[float], near: Sequence[float], limits: Sequence[tuple[float, float]]
) -> list[float] | None:
    """The same pose with each joint turned to within its limits, as near as that goes."""
    placed = []
    for angle, wanted, (low, high) in zip(joints, near, limits, strict=True):
        turns = [angle + math.tau * count for count in (-2, -1, 0, 1, 2)]
        fitting = [one for one in turns if low - _TINY <= one <= high + _TINY]
        if not fitting:
            return None
        placed.append(min(fitting, key=lambda one: abs(one - wanted)))
    return placed
