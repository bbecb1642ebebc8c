"""A goal survives its way through the ledger (B24)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robot_mcp_kit.skills.base import GoalSpec, GoalStatus
from robot_mcp_kit.skills.stored_goal import goal_from_json, goal_to_json

from .arguments import GOOD, message
from .conftest import Robot


@pytest.mark.parametrize("skill", GOOD)
def test_every_skills_goal_comes_back_as_it_was(robot: Robot, skill: str) -> None:
    spec = robot.goal(skill, **GOOD[skill])
    text = goal_to_json(spec)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert goal_from_json(text) == spec


@pytest.mark.parametrize("skill", GOOD)
def test_a_goal_that_came_back_is_read_and_judged_alike(robot: Robot, skill: str) -> None:
    tool, spec = robot.skills[skill], robot.goal(skill, **GOOD[skill])
    again = goal_from_json(goal_to_json(spec))
    odd = message(current_waypoint=0, angular_distance_traveled=0.1, distance_traveled=0.1, state=1)
    assert type(tool.reader(again)) is type(tool.reader(spec))
    assert tool.reader(again).read(odd, 1.0) == tool.reader(spec).read(odd, 1.0)
    for status in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED):
        assert tool.outcome(status, message(), again, None) == tool.outcome(status, message(), spec, None)


@pytest.mark.parametrize(
    "text", ["", "7", "{}", '{"version": 2}', '{"version": 1}', '{"version": 1, "x": 1}']
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        goal_from_json(text)


@pytest.mark.parametrize("odd", [object(), float("nan"), {1, 2}])
def test_what_cannot_be_stored_is_refused_and_not_changed(odd: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        goal_to_json(GoalSpec({}, "x", context={"odd": odd}))
