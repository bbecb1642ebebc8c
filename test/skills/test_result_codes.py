"""Every code of every family, from a table of its own: names as the actions define them (B15)."""

from __future__ import annotations

from typing import Any

import pytest

from robot_mcp_kit.skills.base import GoalStatus

from .arguments import GOOD, message
from .conftest import Robot

SUBGOAL = {1: "NAV2_SUBGOAL_REJECTED", 2: "NAV2_SUBGOAL_SEND_FAILED"}
CONTROLLER = {
    100: "NAV2_CONTROLLER_UNKNOWN",
    101: "NAV2_CONTROLLER_INVALID",
    102: "NAV2_CONTROLLER_TF",
    103: "NAV2_CONTROLLER_INVALID_PATH",
    104: "NAV2_CONTROLLER_PATIENCE",
    105: "NAV2_STUCK",
    106: "NAV2_CONTROLLER_NO_CONTROL",
    107: "NAV2_CONTROLLER_TIMEOUT",
    108: "NAV2_CONTROLLER_WAIT_TIMEOUT",
}
PLANNER = {
    "UNKNOWN": "NAV2_PLANNER_UNKNOWN",
    "INVALID_PLANNER": "NAV2_PLANNER_INVALID",
    "TF_ERROR": "NAV2_PLANNER_TF",
    "START_OUTSIDE_MAP": "NAV2_START_OUTSIDE_MAP",
    "GOAL_OUTSIDE_MAP": "NAV2_GOAL_OUTSIDE_MAP",
    "START_OCCUPIED": "NAV2_START_OCCUPIED",
    "GOAL_OCCUPIED": "NAV2_GOAL_OCCUPIED",
    "TIMEOUT": "NAV2_PLANNER_TIMEOUT",
    "NO_VALID_PATH": "NAV2_NO_PATH",
}
PLANNERS = {base + i: name for base in (200, 300) for i, name in enumerate(PLANNER.values())}
ROUTE = {
    400: "NAV2_ROUTE_UNKNOWN",
    401: "NAV2_ROUTE_TF_ERROR",
    402: "NAV2_ROUTE_NO_VALID_GRAPH",
    403: "NAV2_ROUTE_INDETERMINANT_NODES_ON_GRAPH",
    404: "NAV2_ROUTE_TIMEOUT",
    405: "NAV2_ROUTE_NO_VALID_ROUTE",
    406: "NAV2_ROUTE_OPERATION_FAILED",
    407: "NAV2_ROUTE_INVALID_EDGE_SCORER_USE",
}
SMOOTHER = {
    500: "NAV2_SMOOTHER_UNKNOWN",
    501: "NAV2_SMOOTHER_INVALID_SMOOTHER",
    502: "NAV2_SMOOTHER_TIMEOUT",
    503: "NAV2_SMOOTHER_SMOOTHED_PATH_IN_COLLISION",
    504: "NAV2_SMOOTHER_FAILED_TO_SMOOTH_PATH",
    505: "NAV2_SMOOTHER_INVALID_PATH",
}
BELOW = {
    **SUBGOAL,
    **CONTROLLER,
    **PLANNERS,
    309: "NAV2_NO_VIAPOINTS",
    **ROUTE,
    **SMOOTHER,
    600: "NAV2_WAYPOINTS_UNKNOWN",
    601: "NAV2_WAYPOINT_TASK_FAILED",
    602: "NAV2_NO_WAYPOINTS",
    603: "NAV2_WAYPOINT_MISSED",
}
SPIN = {
    700: "NAV2_SPIN_UNKNOWN",
    701: "NAV2_SPIN_TIMEOUT",
    702: "NAV2_SPIN_TF",
    703: "NAV2_COLLISION_AHEAD",
}
BACKUP = {
    710: "NAV2_BACKUP_UNKNOWN",
    711: "NAV2_BACKUP_TIMEOUT",
    712: "NAV2_BACKUP_TF",
    713: "NAV2_INVALID_INPUT",
    714: "NAV2_COLLISION_AHEAD",
}
DRIVE = {
    720: "NAV2_DRIVE_UNKNOWN",
    721: "NAV2_DRIVE_TIMEOUT",
    722: "NAV2_DRIVE_TF",
    723: "NAV2_COLLISION_AHEAD",
    724: "NAV2_INVALID_INPUT",
}
WAIT = {740: "NAV2_WAIT_UNKNOWN", 741: "NAV2_WAIT_TIMEOUT"}
DOCKING = {
    901: "NAV2_DOCK_UNKNOWN",
    902: "NAV2_DOCK_INVALID",
    903: "NAV2_DOCK_STAGING_FAILED",
    904: "NAV2_DOCK_NOT_SEEN",
    905: "NAV2_DOCK_CONTROL_FAILED",
    906: "NAV2_DOCK_NOT_CHARGING",
    907: "NAV2_DOCK_TIMEOUT",
    999: "NAV2_DOCK_UNKNOWN_ERROR",
}
NAVIGATORS = {
    base + i: name
    for base in (9000, 9100)
    for i, name in enumerate(("NAV2_UNKNOWN", "NAV2_BT_LOAD_FAILED", "NAV2_GOAL_TF", "NAV2_TIMEOUT"))
}
FROM_BELOW = {**BELOW, **SPIN, **BACKUP, **DRIVE, **WAIT, **DOCKING, **NAVIGATORS}
MOVEIT = {
    0: "MOVEIT_UNDEFINED",
    99999: "MOVEIT_FAILURE",
    -1: "MOVEIT_PLANNING_FAILED",
    -2: "MOVEIT_INVALID_PLAN",
    -3: "MOVEIT_ENVIRONMENT_CHANGED",
    -4: "MOVEIT_CONTROL_FAILED",
    -5: "MOVEIT_NO_SENSOR_DATA",
    -6: "MOVEIT_TIMED_OUT",
    -7: "MOVEIT_PREEMPTED",
    -10: "MOVEIT_START_STATE_IN_COLLISION",
    -11: "MOVEIT_START_STATE_VIOLATES_PATH_CONSTRAINTS",
    -26: "MOVEIT_START_STATE_INVALID",
    -12: "MOVEIT_GOAL_IN_COLLISION",
    -13: "MOVEIT_GOAL_VIOLATES_PATH_CONSTRAINTS",
    -14: "MOVEIT_GOAL_CONSTRAINTS_VIOLATED",
    -27: "MOVEIT_GOAL_STATE_INVALID",
    -28: "MOVEIT_GOAL_TYPE",
    -15: "MOVEIT_INVALID_GROUP_NAME",
    -16: "MOVEIT_INVALID_GOAL_CONSTRAINTS",
    -17: "MOVEIT_INVALID_ROBOT_STATE",
    -18: "MOVEIT_INVALID_LINK_NAME",
    -19: "MOVEIT_INVALID_OBJECT_NAME",
    -21: "MOVEIT_FRAME",
    -22: "MOVEIT_COLLISION_CHECKING_UNAVAILABLE",
    -23: "MOVEIT_ROBOT_STATE_STALE",
    -24: "MOVEIT_SENSOR_INFO_STALE",
    -25: "MOVEIT_COMMUNICATION_FAILURE",
    -29: "MOVEIT_CRASH",
    -30: "MOVEIT_ABORT",
    -31: "MOVEIT_NO_IK",
}
JTC = {
    -1: "JTC_INVALID_GOAL",
    -2: "JTC_INVALID_JOINTS",
    -3: "JTC_OLD_STAMP",
    -4: "JTC_PATH_TOLERANCE",
    -5: "JTC_GOAL_TOLERANCE",
}
BY_SKILL: dict[str, dict[int, str]] = {
    "navigate_to": FROM_BELOW,
    "navigate_through": FROM_BELOW,
    "follow_waypoints": FROM_BELOW,
    "spin": {**SUBGOAL, **SPIN},
    "back_up": {**SUBGOAL, **BACKUP},
    "drive_on_heading": {**SUBGOAL, **DRIVE},
    "wait": {**SUBGOAL, **WAIT},
    "dock": {**SUBGOAL, **DOCKING},
    "undock": {**SUBGOAL, **DOCKING},
    "move_arm": MOVEIT,
    "execute_trajectory": MOVEIT,
    "follow_joint_trajectory": JTC,
}
UNKNOWN = {
    "navigate_to": "NAV2_CODE_4242",
    "spin": "NAV2_CODE_4242",
    "dock": "NAV2_CODE_4242",
    "move_arm": "MOVEIT_CODE_4242",
    "execute_trajectory": "MOVEIT_CODE_4242",
    "follow_joint_trajectory": "JTC_CODE_4242",
}
MOVEIT_SKILLS = ("move_arm", "execute_trajectory")


def result(skill: str, code: int, text: Any = "") -> Any:
    """A result of that skill's action with a code, everything else at its default."""
    if skill in MOVEIT_SKILLS:
        return message(error_code={"val": code, "message": text, "source": ""})
    if skill == "follow_joint_trajectory":
        return message(error_code=code, error_string=text)
    if skill == "gripper":
        return message(position=0.0, effort=0.0, stalled=False, reached_goal=False)
    return message(
        error_code=code,
        error_msg=text,
        success=True,
        num_retries=0,
        missed_waypoints=[],
        waypoint_statuses=[],
    )


CASES = [(skill, code, name) for skill, codes in BY_SKILL.items() for code, name in codes.items()]


@pytest.mark.parametrize(("skill", "code", "error_code"), CASES)
def test_each_code_of_each_action_has_its_name_and_a_sentence(
    robot: Robot, skill: str, code: int, error_code: str
) -> None:
    """B15, B19: the name, the number for people who know it, no dangling colon, ways out that are words."""
    outcome = robot.end(skill, GoalStatus.ABORTED, result(skill, code), **GOOD[skill])
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert outcome.failure.error_code == error_code
    assert len(outcome.failure.message) > 30
    assert str(code) in outcome.failure.message
    assert not outcome.failure.message.rstrip(". ").endswith(":")
    assert all(word and " " not in word for word in outcome.failure.suggestions)


def test_the_table_covers_every_skill_with_codes(robot: Robot) -> None:
    """A skill added later has to be added here."""
    assert set(BY_SKILL) | {"gripper", "set_io"} == set(robot.skills)


@pytest.mark.parametrize(("skill", "error_code"), UNKNOWN.items())
def test_an_unknown_code_is_reported_with_its_number(robot: Robot, skill: str, error_code: str) -> None:
    """C30: no number raises, and 20 kB of colours and newlines become one short line."""
    noise = "\x1b[31mred\x1b[0m\nline" + "x" * 20_000 + "\udc81"
    outcome = robot.end(skill, GoalStatus.ABORTED, result(skill, 4242, noise), **GOOD[skill])
    assert outcome.failure is not None
    assert outcome.failure.error_code == error_code
    assert "red line" in outcome.failure.message
    assert "\n" not in outcome.failure.message
    assert "\x1b" not in outcome.failure.message
    assert len(outcome.failure.message) < 700
    outcome.failure.message.encode()


@pytest.mark.parametrize(
    ("skill", "code", "error_code"),
    [
        ("navigate_to", 0, "ROS_ABORTED_NO_REASON"),
        ("spin", 0, "ROS_ABORTED_NO_REASON"),
        ("dock", 0, "ROS_ABORTED_NO_REASON"),
        ("undock", 0, "ROS_ABORTED_NO_REASON"),
        ("follow_joint_trajectory", 0, "ROS_ABORTED_NO_REASON"),
        ("move_arm", 0, "MOVEIT_UNDEFINED"),
        ("move_arm", 1, "ROS_ABORTED_NO_REASON"),
        ("execute_trajectory", 0, "MOVEIT_UNDEFINED"),
    ],
)
def test_zero_means_something_else_in_each_family(
    robot: Robot, skill: str, code: int, error_code: str
) -> None:
    """C28: there is no shared "0 is fine"; an abort with the family's "no error" has no reason."""
    outcome = robot.end(skill, GoalStatus.ABORTED, result(skill, code), **GOOD[skill])
    assert outcome.failure is not None
    assert outcome.failure.error_code == error_code


@pytest.mark.parametrize("skill", [*BY_SKILL, "gripper"])
@pytest.mark.parametrize(
    ("status", "error_code"),
    [
        (GoalStatus.CANCELED, "ROS_CANCELLED_EXTERNALLY"),
        (GoalStatus.UNKNOWN, "ROS_RESULT_EXPIRED"),
        (-91, "ROS_BAD_STATUS"),
        (17, "ROS_BAD_STATUS"),
    ],
)
def test_the_status_decides_before_any_field_of_the_result(
    robot: Robot, skill: str, status: int, error_code: str
) -> None:
    """B15, C26, C27: a default result says "success" in docking and 0 in Nav2; neither is believed."""
    for code in (0, 1, 703):
        outcome = robot.end(skill, status, result(skill, code), **GOOD[skill])
        assert outcome.state == "failed"
        assert outcome.failure is not None
        assert outcome.failure.error_code == error_code


@pytest.mark.parametrize("skill", [*BY_SKILL, "gripper"])
@pytest.mark.parametrize("odd", [None, 7, "text", message(), message(error_code="x", error_msg=5)])
def test_a_result_that_is_no_result_does_not_raise(robot: Robot, skill: str, odd: Any) -> None:
    """F55: distributions and vendors leave fields out."""
    for status in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED, GoalStatus.CANCELED):
        assert robot.end(skill, status, odd, **GOOD[skill]).state in ("succeeded", "failed")


@pytest.mark.parametrize(
    ("text", "error_code"),
    [
        ("Current goal preempted by new incoming action.", "JTC_PREEMPTED"),
        ("Current goal cancelled during deactivate transition.", "JTC_DEACTIVATED"),
        ("Controller deactivated", "JTC_DEACTIVATED"),
        ("Goal has wrong joints", "JTC_INVALID_GOAL"),
        ("", "JTC_INVALID_GOAL"),
    ],
)
def test_only_the_controllers_text_tells_three_causes_apart(robot: Robot, text: str, error_code: str) -> None:
    """Code -1 of the trajectory controller."""
    skill = "follow_joint_trajectory"
    outcome = robot.end(skill, GoalStatus.ABORTED, result(skill, -1, text), **GOOD[skill])
    assert outcome.failure is not None
    assert outcome.failure.error_code == error_code


def test_the_same_number_means_something_else_in_another_action(robot: Robot) -> None:
    """C31: a drive's 723 is an obstacle, and a spin does not know it."""
    drive = robot.end("drive_on_heading", GoalStatus.ABORTED, result("drive_on_heading", 723), distance_m=0.2)
    spin = robot.end("spin", GoalStatus.ABORTED, result("spin", 723), angle_rad=1.0)
    assert drive.failure is not None
    assert spin.failure is not None
    assert drive.failure.error_code == "NAV2_COLLISION_AHEAD"
    assert spin.failure.error_code == "NAV2_CODE_723"
