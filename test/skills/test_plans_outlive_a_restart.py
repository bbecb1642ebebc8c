"""What another process needs of a goal: every skill's plan comes back from JSON and means the same."""

from __future__ import annotations

import json

import pytest

from robot_mcp_kit.bridge.plan import plan_from_json, plan_to_json
from robot_mcp_kit.skills.base import GoalStatus

from .arguments import GOOD, message
from .conftest import Robot


@pytest.mark.parametrize("skill", GOOD)
def test_an_adopted_goal_ends_as_the_goal_that_was_sent_would(robot: Robot, skill: str) -> None:
    """B24."""
    spec = robot.goal(skill, **GOOD[skill])
    plan = plan_to_json(spec)
    assert plan is not None
    back = plan_from_json(json.loads(json.dumps(plan)))
    assert (back.summary, back.est_duration_s) == (spec.summary, spec.est_duration_s)
    robot.skills[skill].reader(back).read(message(), 0.0)
    for status in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED):
        ended = [robot.skills[skill].outcome(status, message(), goal, None) for goal in (spec, back)]
        assert ended[0] == ended[1]
