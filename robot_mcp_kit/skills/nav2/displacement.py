"""Short relative motions against the robot's own position: wheels that slip turn as far as they should.

Positions lag behind by up to a step of the localization (AMCL: 0.25 m, 0.2 rad by default), so small motions
are only told, and larger ones judged by whether half of what was asked for is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalSpec, Pose2D
from robot_mcp_kit.skills.geometry import wrap_angle

MISSED_CODE = "NAV2_POSTCONDITION_MOTION"
JUDGED_FROM_M = 0.5
JUDGED_FROM_RAD = 0.5
START = "start_pose"
"""Key in a goal's context: where the robot was when the goal left."""


@dataclass(frozen=True, slots=True)
class Displacement:
    """What the robot's own position says about a motion."""

    measured: float | None
    """Metres or radians, signed as asked for; ``None``: not known."""
    failure: TaskFailure | None = None


UNKNOWN = Displacement(None)


def straight(spec: GoalSpec, end: Pose2D | None, asked_m: float, tool: str) -> Displacement:
    """How far the robot got along its heading."""
    start: Pose2D | None = spec.context.get(START)
    if start is None or end is None or start.frame != end.frame:
        return UNKNOWN
    along_m = (end.x_m - start.x_m) * math.cos(start.yaw_rad) + (end.y_m - start.y_m) * math.sin(
        start.yaw_rad
    )
    missing_m = abs(asked_m - along_m)
    if abs(asked_m) >= JUDGED_FROM_M and missing_m > abs(asked_m) / 2:
        words = f"by its own position the robot moved {along_m:.2f} m of {asked_m:.2f} m"
        return Displacement(round(along_m, 3), _missed(words, tool))
    return Displacement(round(along_m, 3))


def turn(spec: GoalSpec, end: Pose2D | None, asked_rad: float, tool: str) -> Displacement:
    """How far the robot turned; whole turns cannot be told apart, so the nearest to what was asked for."""
    start: Pose2D | None = spec.context.get(START)
    if start is None or end is None or start.frame != end.frame:
        return UNKNOWN
    off_rad = wrap_angle(end.yaw_rad - start.yaw_rad - asked_rad)
    turned_rad = asked_rad + off_rad
    # What a robot that did not turn at all would be off.
    still_rad = abs(wrap_angle(asked_rad))
    if still_rad >= JUDGED_FROM_RAD and abs(off_rad) > still_rad / 2:
        words = f"by its own position the robot is {abs(off_rad):.2f} rad off a turn of {asked_rad:.2f} rad"
        return Displacement(round(turned_rad, 3), _missed(words, tool))
    return Displacement(round(turned_rad, 3))


def _missed(words: str, tool: str) -> TaskFailure:
    return TaskFailure(
        error_code=MISSED_CODE,
        message=f"Nav2 reported success, but {words}; the wheels may slip, or something holds the robot.",
        recoverable=True,
        suggestions=[tool, "get_task", "ask_person"],
    )
