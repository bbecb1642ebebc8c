"""Advice names only tools that this robot has, by the names they have here (B19)."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.tool_names import ToolNames

from .arguments import message

LIMBLESS = """
skills:
  drive_to: {action: n, type: nav2_msgs/action/NavigateToPose}
  turn: {action: spin, type: nav2_msgs/action/Spin}
  rest: {action: w, type: nav2_msgs/action/Wait, enabled: false}
"""
ARM_ONLY = """
arms: {a: {joints: {j: {range_rad: [-1, 1]}}}}
skills:
  reach:
    {action: m, type: moveit_msgs/action/MoveGroup, arm: a, group: g, end_effector_link: l, frames: [base]}
"""


def test_suggestions_are_renamed_dropped_and_said_once() -> None:
    names = ToolNames(parse_config(LIMBLESS))
    words = ["wait_s:5", "navigate_to", "drive_to", "back_up", "wait", "get_task", "ask_person"]
    assert names.suggestions(words) == ["wait_s:5", "drive_to", "get_task", "ask_person"]
    failure = names.fit(TaskFailure(error_code="X", message="m", suggestions=["navigate_to", "dock"]))
    assert failure.suggestions == ["drive_to"]


def test_a_failed_turn_suggests_the_drive_by_its_name_here(robot_of: Any) -> None:
    robot = robot_of(LIMBLESS)
    outcome = robot.end("turn", GoalStatus.ABORTED, message(error_code=703, error_msg=""), angle_rad=1.0)
    assert outcome.failure.suggestions == ["wait_s:30", "drive_to", "ask_person"]
    assert "drive_to with yaw_rad" in robot.skills["turn"].description


def test_an_arm_on_a_table_is_not_told_to_drive(robot_of: Any) -> None:
    robot = robot_of(ARM_ONLY)
    result = message(error_code={"val": -31, "message": "", "source": ""})
    outcome = robot.end("reach", GoalStatus.ABORTED, result, joints_rad={"j": 0.5})
    assert outcome.failure.suggestions == ["reach"]
    assert "navigate_to" not in robot.skills["reach"].description


def test_descriptions_and_refusals_name_no_tool_that_is_not_there(robot_of: Any) -> None:
    robot = robot_of(
        "skills: {reverse: {action: b, type: nav2_msgs/action/BackUp}, "
        "to: {action: d, type: nav2_msgs/action/DockRobot}, "
        "tour: {action: t, type: nav2_msgs/action/FollowWaypoints}}"
    )
    for skill in robot.skills.values():
        for usual in ("navigate_to", "navigate_through", "drive_on_heading", "undock", "back_up"):
            assert usual not in skill.description
    assert "navigate_to" not in robot.refusal("reverse", distance_m=5).message
    assert "drive_on_heading" not in robot.refusal("reverse", distance_m=-1).message


def test_the_demo_robots_failures_suggest_only_its_own_tools(robot: Any) -> None:
    known = {*robot.skills, "get_task", "cancel_task", "list_tasks", "stop", "ask_person"}
    for code in (100, 203, 208, 603, 703, 905, 9002):
        outcome = robot.end(
            "navigate_to", GoalStatus.ABORTED, message(error_code=code, error_msg=""), place="kitchen"
        )
        assert {word for word in outcome.failure.suggestions if ":" not in word} <= known
