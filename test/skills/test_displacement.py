"""Short relative motions against the robot's own position."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.skills.base import GoalStatus, Outcome, Pose2D

from .arguments import message
from .conftest import Robot
from .samples import duration

START = Pose2D(2.0, 4.0, math.pi / 2)


def _moved(robot: Robot, skill: str, arguments: dict[str, Any], feedback: Any, end: Pose2D | None) -> Outcome:
    """The motion's outcome when the robot was at START and is at ``end``; Nav2 says that it succeeded."""
    chosen, spec = robot.skills[skill], robot.goal(skill, **arguments)
    robot.at = START if end is not None else None
    chosen.leaves(spec)
    robot.at = end
    last = chosen.reader(spec).read(feedback, 2.0)
    result = message(error_code=0, error_msg="", total_elapsed_time=duration(3.0))
    return chosen.outcome(GoalStatus.SUCCEEDED, result, spec, last)


def _turned(robot: Robot, angle_rad: float, by_rad: float) -> Outcome:
    end = Pose2D(2.0, 4.0, START.yaw_rad + by_rad)
    return _moved(robot, "spin", {"angle_rad": angle_rad}, message(angular_distance_traveled=angle_rad), end)


def _driven(robot: Robot, distance_m: float, by_m: float) -> Outcome:
    end = Pose2D(2.0, 4.0 + by_m, START.yaw_rad)
    return _moved(
        robot, "drive_on_heading", {"distance_m": distance_m}, message(distance_traveled=abs(distance_m)), end
    )


@pytest.mark.parametrize("angle_rad", [1.5708, -1.5708, 3.1, 5.0, -5.0])
def test_a_robot_that_did_not_turn_has_not_turned_whatever_its_wheels_say(
    robot: Robot, angle_rad: float
) -> None:
    """L1 L2."""
    outcome = _turned(robot, angle_rad, 0.0)
    assert outcome.failure is not None
    assert outcome.failure.error_code == "NAV2_POSTCONDITION_MOTION"
    assert "last seen at x 2.00 m" in outcome.failure.message
    good = _turned(robot, angle_rad, angle_rad)
    assert good.result is not None, good.failure
    assert good.result["measured_rad"] == pytest.approx(angle_rad, abs=1e-3)


@pytest.mark.parametrize("distance_m", [0.8, -0.8])
def test_a_robot_that_did_not_move_has_not_driven(robot: Robot, distance_m: float) -> None:
    """L1 L2: less than half of it is missing by more than a lagging position explains."""
    outcome = _driven(robot, distance_m, 0.1 * distance_m)
    assert outcome.failure is not None
    assert "moved 0.08 m of 0.80 m" in outcome.failure.message.replace("-", "")
    good = _driven(robot, distance_m, 0.7 * distance_m)
    assert good.result is not None, good.failure
    assert good.result["measured_m"] == pytest.approx(0.7 * distance_m)


def test_a_motion_too_small_for_the_localization_is_told_and_not_judged(robot: Robot) -> None:
    outcome = _driven(robot, 0.3, 0.0)
    assert outcome.result is not None
    assert outcome.result["measured_m"] == 0.0


def test_without_a_position_nothing_is_measured(robot: Robot) -> None:
    outcome = _moved(robot, "spin", {"angle_rad": 1.5}, message(angular_distance_traveled=1.5), None)
    assert outcome.result is not None
    assert outcome.result["measured_rad"] is None
