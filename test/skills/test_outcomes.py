"""What the end of each action means: partial success, contradictions, what was measured and what was not."""

from __future__ import annotations

import array
from typing import Any

import pytest

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus, Outcome, Pose2D, Sample

from .arguments import GOOD, message
from .conftest import Robot
from .samples import duration, pose

OK, ABORTED = GoalStatus.SUCCEEDED, GoalStatus.ABORTED


def result_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.state == "succeeded", outcome.failure
    assert outcome.result is not None
    return outcome.result


def failure_of(outcome: Outcome) -> TaskFailure:
    assert outcome.state == "failed", outcome.result
    assert outcome.failure is not None
    return outcome.failure


def nav_result(code: int = 0, **more: Any) -> Any:
    return message(error_code=code, error_msg="", **more)


# -- drives ------------------------------------------------------------------------------------------


def waypoint(index: int, status: int, code: int = 0, text: str = "") -> Any:
    return message(
        waypoint_index=index, waypoint_status=status, waypoint_pose=pose(), error_code=code, error_msg=text
    )


def test_a_drive_that_skipped_poses_is_a_partial_success(robot: Robot) -> None:
    """B17."""
    robot.at = Pose2D(3.0, 4.0, 0.0)
    statuses = [waypoint(0, 2, 208), waypoint(1, 1)]
    told = result_of(
        robot.end("navigate_through", OK, nav_result(waypoint_statuses=statuses), **GOOD["navigate_through"])
    )
    assert told["partial"] is True
    assert (told["poses"], told["reached"]) == (2, 1)
    assert told["missed"][0]["error_code"] == "NAV2_NO_PATH"
    assert "Reached 1 of 2. Number 1 was missed" in told["note"]
    assert told["measured"] is True


def test_a_drive_that_ended_elsewhere_is_a_failure_that_says_where(robot: Robot) -> None:
    """B18."""
    robot.at = Pose2D(6.0, 4.0, 0.0)
    failure = failure_of(
        robot.end("navigate_through", OK, nav_result(waypoint_statuses=[]), **GOOD["navigate_through"])
    )
    assert failure.error_code == "NAV2_POSTCONDITION_POSE"
    assert "x 6.00 m" in failure.message
    assert "3.00 m away" in failure.message


def test_an_end_nobody_measured_is_told_as_such(robot: Robot) -> None:
    """Jazzy's result has no statuses; the position is unknown."""
    told = result_of(robot.end("navigate_through", OK, nav_result(), **GOOD["navigate_through"]))
    assert told["measured"] is False
    assert told["final_pose"] is None
    assert told["partial"] is False


def test_a_failed_drive_tells_how_far_it_came(robot: Robot) -> None:
    last = Sample(payload={"poses_remaining": 1}, time_s=3.0, pose=Pose2D(1.0, 2.0, 0.0))
    failure = failure_of(
        robot.end("navigate_through", ABORTED, nav_result(105), last=last, **GOOD["navigate_through"])
    )
    assert failure.error_code == "NAV2_STUCK"
    assert "passed 1 of 2 poses" in failure.message
    assert "x 1.00 m" in failure.message


def test_a_code_left_over_from_the_way_is_a_note(robot: Robot) -> None:
    """A recovery spin failed, the drive arrived: SUCCEEDED with 703."""
    told = result_of(robot.end("navigate_through", OK, nav_result(703), **GOOD["navigate_through"]))
    assert "NAV2_COLLISION_AHEAD" in told["note"]


FIVE = {"poses": [{"x_m": float(x), "y_m": 4.0} for x in range(1, 6)]}


@pytest.mark.parametrize(
    ("missed", "reason"),
    [
        ([waypoint(2, 3, 208)], "NAV2_NO_PATH"),
        ([message(index=2, goal=pose(), error_code=208)], "NAV2_NO_PATH"),
        (array.array("i", [2]), None),
        ([2], None),
    ],
)
def test_missed_waypoints_are_read_in_every_distributions_shape(
    robot: Robot, missed: Any, reason: str | None
) -> None:
    """C24: Kilted, Jazzy, Humble (indices only)."""
    robot.at = Pose2D(5.0, 4.0, 0.0)
    told = result_of(robot.end("follow_waypoints", OK, nav_result(missed_waypoints=missed), **FIVE))
    assert told["partial"] is True
    assert (told["waypoints"], told["reached"]) == (5, 4)
    assert told["missed"][0]["index"] == 2
    assert told["missed"][0]["number"] == 3
    assert told["missed"][0]["error_code"] == reason
    assert told["note"].startswith("Reached 4 of 5. Number 3 was missed")


def test_a_tour_without_misses_is_whole(robot: Robot) -> None:
    robot.at = Pose2D(5.0, 4.0, 0.0)
    told = result_of(robot.end("follow_waypoints", OK, nav_result(missed_waypoints=[]), **FIVE))
    assert told["partial"] is False
    assert "note" not in told
    assert told["measured"] is True


def test_a_missed_last_waypoint_is_not_also_a_wrong_position(robot: Robot) -> None:
    robot.at = Pose2D(4.0, 4.0, 0.0)
    missed = [waypoint(4, 3, 206)]
    told = result_of(robot.end("follow_waypoints", OK, nav_result(missed_waypoints=missed), **FIVE))
    assert told["measured"] is False


def test_a_stopped_tour_tells_the_cause_below_and_where_to_resume(robot: Robot) -> None:
    last = Sample(payload={"waypoint": 2}, time_s=3.0)
    failure = failure_of(
        robot.end(
            "follow_waypoints",
            ABORTED,
            nav_result(603, missed_waypoints=[waypoint(2, 3, 208)]),
            last=last,
            **FIVE,
        )
    )
    assert failure.error_code == "NAV2_WAYPOINT_MISSED"
    assert "Number 3 was missed: The robot knows no way" in failure.message
    assert "goal_index 2" in failure.message


def test_many_misses_are_cut(robot: Robot) -> None:
    missed = [waypoint(i % 5, 3, 208) for i in range(20)]
    told = result_of(
        robot.end("follow_waypoints", OK, nav_result(missed_waypoints=missed), **FIVE, number_of_loops=4)
    )
    assert (told["waypoints"], told["reached"]) == (25, 5)
    assert "And 15 more were missed." in told["note"]


# -- behaviors and docking ------------------------------------------------------------------------------


@pytest.mark.parametrize("skill", ["spin", "back_up", "drive_on_heading", "wait"])
def test_a_behavior_tells_how_long_it_took(robot: Robot, skill: str) -> None:
    done = nav_result(total_elapsed_time=vars(duration(2.5)))
    assert result_of(robot.end(skill, OK, done, **GOOD[skill]))["elapsed_s"] == 2.5
    assert result_of(robot.end(skill, OK, message(), **GOOD[skill]))["elapsed_s"] is None


def test_a_failed_motion_tells_how_far_it_came(robot: Robot) -> None:
    robot.at = Pose2D(1.0, 2.0, 0.0)
    spin = Sample(payload={"turned_rad": -0.5}, time_s=1.0)
    back = Sample(payload={"traveled_m": 0.12}, time_s=1.0)
    failed = failure_of(robot.end("spin", ABORTED, nav_result(703), last=spin, angle_rad=-1.5))
    assert "had turned -0.50 of -1.50 rad" in failed.message
    assert "x 1.00 m" in failed.message
    failed = failure_of(robot.end("back_up", ABORTED, nav_result(714), last=back, distance_m=0.3))
    assert "had gone 0.12 of 0.30 m" in failed.message


def test_a_behavior_that_was_replaced_may_still_be_found_to_be_so(robot: Robot) -> None:
    """Preempted: aborted with only the elapsed time; the bridge looks for the other goal."""
    result = nav_result(total_elapsed_time=vars(duration(1.0)))
    failed = failure_of(robot.end("spin", ABORTED, result, angle_rad=1.0))
    assert failed.error_code == "ROS_ABORTED_NO_REASON"


@pytest.mark.parametrize("skill", ["dock", "undock"])
def test_the_status_of_docking_decides_and_not_its_success_field(robot: Robot, skill: str) -> None:
    """A default result says success=True; Nav2 aborts with it when there is nothing to leave."""
    default = nav_result(success=True, num_retries=0)
    failed = failure_of(robot.end(skill, ABORTED, default))
    assert failed.error_code == "ROS_ABORTED_NO_REASON"
    assert ("not in a dock" in failed.message) is (skill == "undock")
    denied = nav_result(success=False, num_retries=0)
    assert "success: false" in result_of(robot.end(skill, OK, denied))["note"]
    assert "note" not in result_of(robot.end(skill, OK, default))


def test_docking_tells_its_dock_its_retries_and_where_it_broke_off(robot: Robot) -> None:
    told = result_of(robot.end("dock", OK, nav_result(success=True, num_retries=2)))
    assert (told["dock"], told["retries"]) == ("home_dock", 2)
    last = Sample(payload={"phase": "driving in"}, time_s=9.0)
    failed = failure_of(robot.end("dock", ABORTED, nav_result(905, success=False), last=last))
    assert "It ended while driving in." in failed.message


# -- arm ---------------------------------------------------------------------------------------------------


def trajectory(*times_s: float) -> dict[str, Any]:
    return {"joint_trajectory": {"points": [message(time_from_start=vars(duration(t))) for t in times_s]}}


def moved(code: int = 1, text: str = "", **more: Any) -> Any:
    return message(error_code={"val": code, "message": text, "source": "arm_node"}, **more)


def test_a_motion_of_the_arm_tells_its_duration_and_not_its_points(robot: Robot) -> None:
    done = moved(
        executed_trajectory=trajectory(1.0, 3.25), planned_trajectory=trajectory(3.0), planning_time=0.0
    )
    told = result_of(robot.end("move_arm", OK, done, target="home"))
    assert told["trajectory_duration_s"] == 3.25
    assert told["measured"] is False
    assert "planning_time_s" not in told
    assert "note" not in told


def test_a_plan_tells_how_long_it_took_to_find(robot: Robot) -> None:
    done = moved(planned_trajectory=trajectory(3.0), planning_time=0.42)
    told = result_of(robot.end("move_arm", OK, done, target="home", plan_only=True))
    assert (told["planning_time_s"], told["trajectory_duration_s"]) == (0.42, 3.0)


def test_an_arm_that_was_there_already_did_not_move(robot: Robot) -> None:
    text = "Requested path and goal constraints are already met."
    told = result_of(robot.end("move_arm", OK, moved(text=text), target="home"))
    assert "did not move" in told["note"]
    assert text in told["note"]


def test_moveits_own_words_and_their_source_are_quoted(robot: Robot) -> None:
    failed = failure_of(robot.end("move_arm", ABORTED, moved(-31, "no IK for tool0"), target="home"))
    assert failed.error_code == "MOVEIT_NO_IK"
    assert 'MoveIt says (arm_node): "no IK for tool0"' in failed.message
    assert "move_arm" in failed.suggestions
    # Humble's code has no words.
    bare = message(error_code={"val": -31})
    assert failure_of(robot.end("move_arm", ABORTED, bare, target="home")).error_code == "MOVEIT_NO_IK"


def test_a_trajectory_stopped_from_outside_is_preempted_though_aborted(robot: Robot) -> None:
    """ExecuteTrajectory never ends as CANCELED."""
    skill = "execute_trajectory"
    assert failure_of(robot.end(skill, ABORTED, moved(-7), **GOOD[skill])).error_code == "MOVEIT_PREEMPTED"


def test_a_success_with_another_code_is_noted(robot: Robot) -> None:
    skill = "execute_trajectory"
    assert "code -4" in result_of(robot.end(skill, OK, moved(-4), **GOOD[skill]))["note"]
    assert "note" not in result_of(robot.end(skill, OK, moved(1), **GOOD[skill]))


def test_a_controllers_failure_tells_how_far_it_came(robot: Robot) -> None:
    skill = "follow_joint_trajectory"
    last = Sample(payload={"percent": 40.0, "largest_error_rad": 0.3}, time_s=1.0)
    result = message(error_code=-4, error_string="elbow path error")
    failed = failure_of(robot.end(skill, ABORTED, result, last=last, **GOOD[skill]))
    assert failed.error_code == "JTC_PATH_TOLERANCE"
    assert "About 40 percent" in failed.message
    assert 'The controller says: "elbow path error"' in failed.message


# -- gripper -----------------------------------------------------------------------------------------------


def gripped(position: float, *, stalled: bool, reached: bool) -> Any:
    return message(position=position, effort=3.0, stalled=stalled, reached_goal=reached)


def test_a_gripper_that_closed_all_the_way_probably_holds_nothing(robot: Robot) -> None:
    told = result_of(robot.end("gripper", OK, gripped(0.0, stalled=False, reached=True), command="close"))
    assert (told["holding"], told["position_m"], told["measured"]) == ("probably not", 0.0, True)


def test_a_gripper_that_was_to_hold_something_and_is_empty_is_a_failure(robot: Robot) -> None:
    """B18."""
    empty = gripped(0.0, stalled=False, reached=True)
    failed = failure_of(robot.end("gripper", OK, empty, command="close", expect_object=True))
    assert failed.error_code == "GRIPPER_EMPTY"
    full = gripped(0.021, stalled=True, reached=False)
    told = result_of(robot.end("gripper", OK, full, command="close", expect_object=True))
    assert told["holding"] == "probably"


def test_a_success_that_stalled_is_a_grasp(robot: Robot) -> None:
    told = result_of(robot.end("gripper", OK, gripped(0.021, stalled=True, reached=False), command="close"))
    assert told["holding"] == "probably"
    assert told["reached_goal"] is False
    assert "0.021 m" in told["note"]


def test_an_abort_that_stalled_is_a_failure_that_says_what_it_probably_means(robot: Robot) -> None:
    """C29: same physics, with allow_stalling off."""
    failed = failure_of(
        robot.end("gripper", ABORTED, gripped(0.021, stalled=True, reached=False), command="close")
    )
    assert failed.error_code == "GRIPPER_STALLED"
    assert "0.021 m before reaching 0.000 m" in failed.message
    assert "probably held" in failed.message
    opening = failure_of(
        robot.end("gripper", ABORTED, gripped(0.05, stalled=True, reached=False), command="open")
    )
    assert "probably held" not in opening.message


@pytest.mark.parametrize(
    ("status", "error_code"),
    [(ABORTED, "ROS_ABORTED_NO_REASON"), (GoalStatus.CANCELED, "ROS_CANCELLED_EXTERNALLY")],
)
def test_a_default_gripper_result_is_never_quoted_as_a_measurement(
    robot: Robot, status: int, error_code: str
) -> None:
    """Position 0.0 of a preempted or cancelled goal is the field's default."""
    failed = failure_of(
        robot.end("gripper", status, gripped(0.0, stalled=False, reached=False), command="close")
    )
    assert failed.error_code == error_code
    assert "0.0" not in failed.message


def test_a_success_that_says_nothing_is_not_measured(robot: Robot) -> None:
    told = result_of(robot.end("gripper", OK, gripped(0.0, stalled=False, reached=False), command="close"))
    assert (told["position_m"], told["measured"], told["holding"]) == (None, False, "unknown")


def test_a_parallel_grippers_angle_becomes_a_gap_again(robot_of: Any) -> None:
    robot = robot_of(
        "skills: {grip: {action: g, type: control_msgs/action/ParallelGripperCommand, open_gap_m: 0.08, "
        "open_command: 0.0, closed_command: 0.8, effort_n: 1, max_effort_n: 1}}"
    )
    state = {"position": array.array("d", [0.6]), "effort": array.array("d")}
    held = message(state=state, stalled=True, reached_goal=False)
    assert result_of(robot.end("grip", OK, held, command="close"))["position_m"] == pytest.approx(0.02)
    empty = message(state={"position": array.array("d")}, stalled=True, reached_goal=False)
    assert result_of(robot.end("grip", OK, empty, command="close"))["measured"] is False
