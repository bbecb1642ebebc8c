"""The example of config/ as a robot would load it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import load_config
from robot_mcp_kit.skills.registry import build_skills

pytestmark = pytest.mark.ros
EXAMPLE = Path(__file__).parents[2] / "config" / "any_action.example.yaml"


@pytest.fixture(scope="module")
def skills() -> dict[str, Skill]:
    # A sourced ROS always has it; an environment that was built bit by bit may not.
    pytest.importorskip("tf2_msgs.action")
    from robot_mcp_kit.ros.schema import RosGoalSchema

    return build_skills(load_config(EXAMPLE), None, RosGoalSchema())


def _sent(skill: Skill, **arguments: Any) -> Any:
    """The goal message as the action port would build it."""
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    spec = skill.goal(parse_arguments(skill.arguments, arguments))
    return build_message(load_interface(skill.action_type).Goal, spec.fields)


def test_the_example_shows_what_it_says(skills: dict[str, Skill], caplog: pytest.LogCaptureFixture) -> None:
    shown = {name: list(skill.arguments.model_json_schema()["properties"]) for name, skill in skills.items()}
    assert shown == {
        "plan_path": ["x_m", "y_m", "yaw_rad"],
        "let_person_drive": ["duration_s"],
        "squeeze": ["gap_m", "firmness"],
        "where_is": ["seen_from", "of_frame"],
    }
    assert load_config(EXAMPLE).discover
    assert caplog.text == "", "no warning about its own example"
    for skill in skills.values():
        json.dumps(skill.arguments.model_json_schema(), allow_nan=False)


def test_the_examples_goals_are_messages(skills: dict[str, Skill]) -> None:
    path = _sent(skills["plan_path"], x_m=3, y_m=4)
    assert (path.goal.header.frame_id, path.goal.pose.position.y) == ("map", 4.0)
    assert (path.goal.header.stamp.sec, path.use_start) == (0, False)
    assert _sent(skills["let_person_drive"], duration_s=30).time_allowance.sec == 30
    grip = _sent(skills["squeeze"], gap_m=0.02)
    assert (grip.command.position, grip.command.max_effort) == (0.02, 5.0)
    look = _sent(skills["where_is"], of_frame="base_link")
    assert (look.target_frame, look.source_frame, look.timeout.sec) == ("map", "base_link", 1)


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("plan_path", {"x_m": 13, "y_m": 1}, "x_m"),
        ("let_person_drive", {"duration_s": 0}, "duration_s"),
        ("squeeze", {"gap_m": 0.02, "firmness": "hard"}, "firmness"),
        ("where_is", {}, "of_frame"),
    ],
)
def test_the_examples_limits_hold(
    skills: dict[str, Skill], name: str, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        _sent(skills[name], **arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "action_type",
    [
        "test_msgs/action/Fibonacci",
        "test_msgs/action/NestedMessage",
        "nav2_msgs/action/NavigateToPose",
        "nav2_msgs/action/ComputePathToPose",
        "nav2_msgs/action/FollowPath",
        "nav2_msgs/action/DockRobot",
        "control_msgs/action/FollowJointTrajectory",
        "control_msgs/action/GripperCommand",
        "moveit_msgs/action/MoveGroup",
        "moveit_msgs/action/ExecuteTrajectory",
    ],
)
def test_the_entry_that_is_offered_for_an_action_loads(action_type: str) -> None:
    """B34: also for types with a skill of their own, whose settings nobody has written yet."""
    from robot_mcp_kit.ros.schema import RosGoalSchema
    from robot_mcp_kit.skills.config import parse_config
    from robot_mcp_kit.skills.discovery import yaml_entry

    types = RosGoalSchema()
    text = yaml_entry("new_tool", "/some/action", action_type, types)
    skill = build_skills(parse_config(text), None, types)["new_tool"]
    assert (skill.action_name, skill.action_type) == ("/some/action", action_type)
    assert len(text.splitlines()) < 60
