"""NavigateToPose and NavigateThroughPoses of the simulated robot, against what Nav2 (Kilted) is known to
do.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.sim.messages import seconds

pytestmark = pytest.mark.ros

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


def test_the_robot_drives_to_the_kitchen_and_stands_there(robot: Any) -> None:
    goal = robot.navigate(10.0, 6.5, math.pi / 2)
    status, result = goal.end()
    assert (status, result.error_code, result.error_msg) == (SUCCEEDED, 0, "")
    x, y, yaw = robot.state()["pose"]
    assert math.hypot(x - 10.0, y - 6.5) < 0.05
    assert abs(yaw - math.pi / 2) < 0.05
    assert robot.state()["room"] == "kitchen"
    assert goal.statuses[-1] == SUCCEEDED


def test_distance_and_eta_are_zero_until_they_are_known_and_then_fall(robot: Any) -> None:
    """Semantics of B11: an ETA of exactly 0 means unknown, unless the robot is about to arrive."""
    goal = robot.navigate(11.0, 4.0)
    goal.end()
    first = goal.feedback[0]
    assert first.distance_remaining == 0.0
    assert seconds(first.estimated_time_remaining) == 0.0
    known = [f for f in goal.feedback if seconds(f.estimated_time_remaining) > 0]
    assert len(known) > 10
    assert all(f.distance_remaining > 0.1 for f in known)
    etas = [seconds(f.estimated_time_remaining) for f in known]
    assert etas[len(etas) // 4] > etas[len(etas) // 2] > etas[-1]
    middle = known[len(known) // 2]
    assert seconds(middle.estimated_time_remaining) == pytest.approx(middle.distance_remaining / 0.5, rel=0.1)
    times = [seconds(f.navigation_time) for f in goal.feedback]
    assert times == sorted(times)
    assert goal.feedback[-1].current_pose.header.frame_id == "map"


def test_a_second_goal_first_reports_the_end_of_the_old_path(robot: Any) -> None:
    """Kilted keeps the path on its blackboard: the robot seems to have arrived until the planner answers."""
    robot.navigate(4.0, 4.0).end()
    goal = robot.navigate(11.0, 4.0)
    goal.until_feedback(lambda f: f.distance_remaining > 1.0)
    first = goal.feedback[0]
    assert first.distance_remaining < 0.1
    assert math.hypot(first.current_pose.pose.position.x - 11.0, 0.0) > 6.0
    goal.cancel()
    goal.end()


def test_after_a_cancelled_drive_the_next_goal_first_reports_what_was_left_of_the_old_one(robot: Any) -> None:
    old = robot.navigate(11.0, 4.0)
    old.until_feedback(lambda f: 4.0 < f.distance_remaining < 7.0)
    old.cancel()
    old.end()
    goal = robot.navigate(2.5, 4.0)
    first = goal.until_feedback()
    x = first.current_pose.pose.position.x
    assert first.distance_remaining == pytest.approx(11.0 - x, abs=0.5)
    goal.cancel()
    goal.end()


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ((6.0, 7.0, 0.0, "map"), 206, "lethal"),
        ((10.0, 7.5, 0.0, "map"), 206, "lethal"),
        ((20.0, 1.0, 0.0, "map"), 204, "outside"),
        ((math.nan, 1.0, 0.0, "map"), 204, "outside"),
        ((10.0, 6.5, 0.0, "mapp"), 9002, "'mapp'"),
        ((10.0, 6.5, 0.0, ""), 9002, "''"),
    ],
)
def test_goals_that_cannot_be_reached_abort_with_code_and_text(
    robot: Any, target: tuple[Any, ...], code: int, words: str
) -> None:
    status, result = robot.navigate(*target).end()
    assert (status, result.error_code) == (ABORTED, code)
    assert words in result.error_msg
    assert robot.state()["travelled_m"] == 0.0


def test_a_shut_door_ends_in_no_valid_path_after_the_recoveries(robot: Any) -> None:
    assert robot.set(blocked_doors=["kitchen_door"]) == []
    goal = robot.navigate(10.0, 6.5)
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 208)
    assert "no valid path" in result.error_msg
    recoveries = [f.number_of_recoveries for f in goal.feedback]
    assert recoveries == sorted(recoveries)
    assert recoveries[-1] == 6


def test_a_door_that_is_opened_again_lets_the_robot_through(robot: Any) -> None:
    robot.set(blocked_doors=["office_door"])
    goal = robot.navigate(2.0, 6.5)
    goal.until_feedback(lambda f: f.number_of_recoveries >= 1)
    robot.set(blocked_doors=[""])
    assert goal.end()[0] == SUCCEEDED


def test_goals_in_the_robots_own_frame_are_relative_to_it(robot: Any) -> None:
    status, _ = robot.navigate(1.0, 0.5, 0.0, "base_link").end()
    assert status == SUCCEEDED
    x, y, _ = robot.state()["pose"]
    assert (x, y) == (pytest.approx(2.5, abs=0.05), pytest.approx(4.5, abs=0.05))


def test_an_unknown_behavior_tree_aborts_with_9001(robot: Any) -> None:
    status, result = robot.navigate(3.0, 4.0, behavior_tree="/tmp/mine.xml").end()
    assert (status, result.error_code) == (ABORTED, 9001)
    assert "/tmp/mine.xml" in result.error_msg


def test_a_cancel_stops_the_robot_and_comes_back_with_a_default_result(robot: Any) -> None:
    goal = robot.navigate(11.0, 4.0)
    goal.until_feedback(lambda f: seconds(f.estimated_time_remaining) > 0)
    assert goal.cancel()
    status, result = goal.end()
    assert (status, result.error_code, result.error_msg) == (CANCELED, 0, "")
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")
    assert robot.state()["pose"][0] < 10.0
    assert goal.ask_cancel().return_code == 3  # already terminated
    assert goal.statuses[-1] == CANCELED


def test_a_newer_goal_takes_over_and_the_old_one_aborts_without_any_code(robot: Any) -> None:
    """Preemption: ABORTED, code 0, no text; the robot does not stop in between."""
    old = robot.navigate(11.0, 4.0)
    old.until_feedback(lambda f: seconds(f.estimated_time_remaining) > 0 and f.distance_remaining < 8.0)
    new = robot.navigate(8.0, 4.0)
    status, result = old.end()
    assert (status, result.error_code, result.error_msg) == (ABORTED, 0, "")
    first = new.until_feedback()
    assert seconds(first.navigation_time) < 3.0  # counted anew
    status, _ = new.end()
    assert status == SUCCEEDED
    assert robot.state()["pose"][0] == pytest.approx(8.0, abs=0.05)


def test_a_newer_goal_with_another_tree_is_refused_and_the_old_one_goes_on(robot: Any) -> None:
    old = robot.navigate(6.0, 4.0)
    old.until_feedback()
    status, result = robot.navigate(2.0, 4.0, behavior_tree="other.xml").end()
    assert (status, result.error_code) == (ABORTED, 0)
    assert old.end()[0] == SUCCEEDED


def test_a_newer_goal_in_an_unknown_frame_goes_on_to_the_old_place(robot: Any) -> None:
    """Nav2 has aborted the old handle by then; the new one succeeds at the old goal, with a code on top."""
    old = robot.navigate(5.0, 4.0)
    old.until_feedback()
    new = robot.navigate(9.0, 4.0, 0.0, "nowhere")
    assert old.end()[0] == ABORTED
    status, result = new.end()
    assert (status, result.error_code) == (SUCCEEDED, 9002)
    assert robot.state()["pose"][0] == pytest.approx(5.0, abs=0.05)


def _through(robot: Any, *points: tuple[float, float]) -> Any:
    from nav2_msgs.action import NavigateThroughPoses

    poses: Any = [robot.pose(x, y) for x, y in points]
    if hasattr(NavigateThroughPoses.Goal().poses, "goals"):  # on Jazzy a plain list
        from nav_msgs.msg import Goals

        poses = Goals(goals=poses)
    return robot.send(NavigateThroughPoses, "navigate_through_poses", poses=poses)


def test_the_other_navigator_is_busy_and_aborts_at_once(robot: Any) -> None:
    running = robot.navigate(11.0, 4.0)
    running.until_feedback()
    goal = _through(robot, (3.0, 4.0), (5.0, 4.0))
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 0)
    assert goal.feedback == []
    assert running.cancel()
    assert running.end()[0] == CANCELED


def test_poses_on_the_way_are_ticked_off(robot: Any) -> None:
    goal = _through(robot, (3.0, 4.0), (3.0, 6.0), (5.0, 4.0))
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    if hasattr(result, "waypoint_statuses"):  # not on Jazzy
        assert [w.waypoint_status for w in result.waypoint_statuses] == [1, 1, 1]
    counts = [f.number_of_poses_remaining for f in goal.feedback]
    assert counts == sorted(counts, reverse=True)
    assert set(counts) == {3, 2, 1}
    x, y, _ = robot.state()["pose"]
    assert math.hypot(x - 5.0, y - 4.0) < 0.05


def test_poses_behind_a_shut_door_fail_with_the_3xx_code(robot: Any) -> None:
    status, result = _through(robot, (3.0, 4.0), (6.0, 7.0)).end()
    assert (status, result.error_code) == (ABORTED, 306)
    if hasattr(result, "waypoint_statuses"):  # not on Jazzy
        assert [w.waypoint_status for w in result.waypoint_statuses] == [3, 3]


def test_an_empty_list_of_poses_fails_and_its_feedback_is_all_zero(robot: Any) -> None:
    """B21: pose 0,0 with frame "" and no poses remaining is not an arrival."""
    goal = _through(robot)
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 309)
    assert all(
        f.current_pose.header.frame_id == "" and f.number_of_poses_remaining == 0 for f in goal.feedback
    )
