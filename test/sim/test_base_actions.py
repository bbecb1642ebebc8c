"""Waypoints, behaviors and docking of the simulated robot."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.sim.messages import duration, seconds

pytestmark = pytest.mark.ros

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


# -- waypoints


def _follow(robot: Any, *points: tuple[float, float], loops: int = 0, start: int = 0) -> Any:
    from nav2_msgs.action import FollowWaypoints

    poses = [robot.pose(x, y) for x, y in points]
    return robot.send(
        FollowWaypoints, "follow_waypoints", poses=poses, number_of_loops=loops, goal_index=start
    )


def test_waypoints_are_driven_as_real_navigation_goals(robot: Any) -> None:
    before = robot.state()["goals"].get("navigate_to_pose:accepted", 0)
    goal = _follow(robot, (2.5, 4.0), (3.5, 4.0), loops=1)
    status, result = goal.end()
    assert (status, result.error_code, list(result.missed_waypoints)) == (SUCCEEDED, 0, [])
    assert robot.state()["goals"]["navigate_to_pose:accepted"] - before == 4  # two rounds of two
    indices = [f.current_waypoint for f in goal.feedback]
    assert [b for a, b in zip([9, *indices], indices, strict=False) if a != b] == [0, 1, 0, 1]


def _index(missed: Any) -> int:
    """Of WaypointStatus, or of Jazzy's MissedWaypoint."""
    return int(missed.waypoint_index if hasattr(missed, "waypoint_index") else missed.index)


def test_the_first_missed_waypoint_ends_it_by_default(robot: Any) -> None:
    status, result = _follow(robot, (2.5, 4.0), (6.0, 7.0), (3.5, 4.0)).end()
    assert (status, result.error_code) == (ABORTED, 603)
    (missed,) = result.missed_waypoints
    assert (_index(missed), missed.error_code) == (1, 206)
    assert getattr(missed, "waypoint_status", 3) == 3


def test_missed_waypoints_are_a_partial_success_when_it_may_go_on(robot: Any) -> None:
    """C24: SUCCEEDED with a list of what was missed."""
    robot.set(stop_on_failure=False)
    status, result = _follow(robot, (2.5, 4.0), (6.0, 7.0), (3.5, 4.0)).end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    assert [(_index(m), m.error_code) for m in result.missed_waypoints] == [(1, 206)]
    assert robot.state()["pose"][0] == pytest.approx(3.5, abs=0.05)


@pytest.mark.parametrize(("points", "start", "code"), [([], 0, 602), ([(2.5, 4.0)], 1, 600)])
def test_waypoint_lists_without_a_first_pose_are_accepted_and_abort(
    robot: Any, points: list[tuple[float, float]], start: int, code: int
) -> None:
    status, result = _follow(robot, *points, start=start).end()
    assert (status, result.error_code) == (ABORTED, code)


def test_cancelling_waypoints_cancels_every_navigation_goal(robot: Any) -> None:
    """D37: also those of other clients."""
    waypoints = _follow(robot, (11.0, 4.0))
    waypoints.until_feedback()
    other = robot.navigate(9.0, 4.0)  # preempts the leg
    other.until_feedback()
    assert waypoints.accepted
    again = _follow(robot, (11.0, 4.0))
    again.until_feedback()
    assert again.cancel()
    status, result = again.end()
    assert (status, result.error_code) == (CANCELED, 0)
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")


def test_somebody_elses_navigation_goal_makes_a_waypoint_missed(robot: Any) -> None:
    goal = _follow(robot, (11.0, 4.0))
    robot.until(lambda: robot.state()["speed"] > 0.1, "the robot to drive")
    other = robot.navigate(4.0, 4.0)
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 603)
    assert [m.error_code for m in result.missed_waypoints] == [0]
    assert other.end()[0] == SUCCEEDED


# -- behaviors


def _spin(robot: Any, yaw: float, allowance_s: float = 0.0) -> Any:
    from nav2_msgs.action import Spin

    return robot.send(Spin, "spin", target_yaw=yaw, time_allowance=duration(allowance_s))


def _back_up(robot: Any, x: float, speed: float, allowance_s: float = 0.0, y: float = 0.0) -> Any:
    from geometry_msgs.msg import Point
    from nav2_msgs.action import BackUp

    allowance = duration(allowance_s)
    return robot.send(BackUp, "backup", target=Point(x=x, y=y), speed=speed, time_allowance=allowance)


def _drive(robot: Any, x: float, speed: float, allowance_s: float = 0.0) -> Any:
    from geometry_msgs.msg import Point
    from nav2_msgs.action import DriveOnHeading

    allowance = duration(allowance_s)
    return robot.send(
        DriveOnHeading, "drive_on_heading", target=Point(x=x), speed=speed, time_allowance=allowance
    )


def test_spin_turns_by_a_signed_angle_beyond_half_a_turn(robot: Any) -> None:
    """B20: feedback carries the sign and accumulates."""
    goal = _spin(robot, -4.0)
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    assert seconds(result.total_elapsed_time) > 3.0
    angles = [f.angular_distance_traveled for f in goal.feedback]
    assert angles == sorted(angles, reverse=True)
    assert angles[-1] == pytest.approx(-4.0, abs=0.06)
    yaw = robot.state()["pose"][2]
    assert abs(math.remainder(yaw + 4.0, 2 * math.pi)) < 0.1


def test_back_up_ignores_signs_and_never_creeps(robot: Any) -> None:
    """Case A10: a speed of 0 still moves, at 0.10 m/s, and a positive distance still goes backwards."""
    goal = _back_up(robot, 0.3, 0.0)
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    assert robot.state()["pose"][0] == pytest.approx(1.2, abs=0.02)
    assert 2.5 < seconds(result.total_elapsed_time) < 5.0
    distances = [f.distance_traveled for f in goal.feedback]
    assert distances == sorted(distances)
    assert distances[0] >= 0.0


def test_the_codes_of_backing_up_and_driving_are_in_opposite_order(robot: Any) -> None:
    """C31: 713/714 against 723/724."""
    assert _back_up(robot, 0.3, 0.1, y=0.2).end()[1].error_code == 713
    assert _back_up(robot, 3.0, 0.2).end()[1].error_code == 714
    assert _drive(robot, 0.5, -0.1).end()[1].error_code == 724
    assert _drive(robot, 0.0, 0.1).end()[1].error_code == 724
    assert robot.navigate(11.0, 4.0, 0.0).end()[0] == SUCCEEDED
    assert _drive(robot, 2.0, 0.4).end()[1].error_code == 723
    x, _, _ = robot.state()["pose"]
    assert x < 11.9 - 0.2  # it stopped before the wall


def test_an_allowance_that_is_too_short_times_out(robot: Any) -> None:
    status, result = _drive(robot, 2.0, 0.2, allowance_s=2.0).end()
    assert (status, result.error_code) == (ABORTED, 721)
    assert robot.state()["pose"][0] < 2.5


def test_a_newer_spin_ends_the_running_one_and_then_runs(robot: Any) -> None:
    first = _spin(robot, 6.0)
    first.until_feedback(lambda f: f.angular_distance_traveled > 0.5)
    second = _spin(robot, -1.0)
    status, result = first.end()
    assert (status, result.error_code) == (ABORTED, 0)
    assert seconds(result.total_elapsed_time) > 0.0
    assert second.end()[0] == SUCCEEDED
    assert second.feedback[-1].angular_distance_traveled == pytest.approx(-1.0, abs=0.06)


def test_a_spin_is_cancelled(robot: Any) -> None:
    goal = _spin(robot, 60.0)
    goal.until_feedback(lambda f: f.angular_distance_traveled > 0.5)
    assert goal.cancel()
    assert goal.end()[0] == CANCELED
    robot.until(lambda: robot.state()["yaw_rate"] == 0.0, "standstill")


def test_the_last_time_left_of_a_wait_is_zero_or_less(robot: Any) -> None:
    """B17: possibly a Duration with sec −1 and a positive nanosec."""
    from nav2_msgs.action import Wait

    goal = robot.send(Wait, "wait", time=duration(2.0))
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    goal.until_feedback(lambda f: seconds(f.time_left) <= 0.0)  # may come after the result
    left = [seconds(f.time_left) for f in goal.feedback]
    assert left == sorted(left, reverse=True)
    assert left[-1] <= 0.0 < left[0]


# -- docking


def _dock(robot: Any, **fields: Any) -> Any:
    from nav2_msgs.action import DockRobot

    return robot.send(DockRobot, "dock_robot", **{"dock_id": "home_dock", **fields})


def _undock(robot: Any, **fields: Any) -> Any:
    from nav2_msgs.action import UndockRobot

    return robot.send(UndockRobot, "undock_robot", **fields)


def test_docking_goes_through_its_phases_charges_and_undocks_again(robot: Any) -> None:
    robot.navigate(3.0, 4.0).end()
    goal = _dock(robot)
    status, result = goal.end()
    assert (status, result.success, result.error_code, result.num_retries) == (SUCCEEDED, True, 0, 0)
    states = [f.state for f in goal.feedback]
    assert [b for a, b in zip([0, *states], states, strict=False) if a != b] == [1, 2, 3, 4]
    state = robot.state()
    assert state["docked_at"] == "home_dock"
    assert state["battery"]["charging"]

    again, result = _dock(robot).end()  # already docked: success at once
    assert (again, result.success) == (SUCCEEDED, True)

    status, result = _undock(robot).end()
    assert (status, result.success, result.error_code) == (SUCCEEDED, True, 0)
    state = robot.state()
    assert state["docked_at"] is None
    assert state["pose"][0] == pytest.approx(1.1, abs=0.05)


def test_undocking_off_the_dock_aborts_and_yet_says_success(robot: Any) -> None:
    """Believe the status, not the field."""
    status, result = _undock(robot).end()
    assert (status, result.success, result.error_code) == (ABORTED, True, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"dock_id": "moon"}, 901),
        ({"use_dock_id": False, "dock_type": "garage"}, 902),
    ],
)
def test_unknown_docks_are_refused(robot: Any, fields: dict[str, Any], code: int) -> None:
    status, result = _dock(robot, **fields).end()
    assert (status, result.success, result.error_code) == (ABORTED, False, code)


def test_a_dock_given_by_its_pose_is_found_there_or_not_seen(robot: Any) -> None:
    there = robot.pose(0.5, 4.05, math.pi)
    fields = {"use_dock_id": False, "dock_id": "", "navigate_to_staging_pose": False}
    status, result = _dock(robot, dock_pose=there, dock_type="simple_charging_dock", **fields).end()
    assert (status, result.success) == (SUCCEEDED, True)
    assert robot.state()["docked_at"] == "home_dock"
    assert _undock(robot, dock_type="garage").end()[1].error_code == 902
    assert _undock(robot).end()[0] == SUCCEEDED
    status, result = _dock(robot, dock_pose=robot.pose(5.0, 4.0), **fields).end()
    assert (status, result.error_code) == (ABORTED, 904)
    status, result = _dock(robot, dock_pose=robot.pose(5.0, 4.0, 0.0, "moon"), **fields).end()
    assert (status, result.error_code) == (ABORTED, 999)


def test_docking_is_cancelled_on_the_way_in_and_undocking_on_the_way_out(robot: Any) -> None:
    goal = _dock(robot)
    goal.until_feedback(lambda f: f.state == 3)
    assert goal.cancel()
    status, result = goal.end()
    assert (status, result.success, result.error_code) == (CANCELED, False, 0)
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")
    assert robot.state()["docked_at"] is None
    assert _dock(robot).end()[0] == SUCCEEDED
    late = _undock(robot, max_undocking_time=0.5).end()
    assert (late[0], late[1].success, late[1].error_code) == (ABORTED, False, 905)


def test_a_dock_that_is_not_seen(robot: Any) -> None:
    robot.set(dock_hidden=True)
    status, result = _dock(robot).end()
    assert (status, result.success, result.error_code) == (ABORTED, False, 904)


def test_a_dock_without_current_is_tried_four_times(robot: Any) -> None:
    robot.set(no_charge=True)
    goal = _dock(robot)
    status, result = goal.end()
    assert (status, result.success, result.error_code, result.num_retries) == (ABORTED, False, 906, 3)
    assert {f.state for f in goal.feedback} == {2, 3, 4}  # RETRY (5) is never published
    assert goal.feedback[-1].num_retries == 3


def test_staging_that_fails_or_is_cancelled_surfaces_as_903(robot: Any) -> None:
    robot.navigate(3.0, 6.0).end()
    goal = _dock(robot)
    goal.until_feedback(lambda f: f.state == 1)
    assert goal.cancel()
    status, result = goal.end()
    assert (status, result.success, result.error_code) == (CANCELED, False, 903)
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")

    status, result = _dock(robot, max_staging_time=1.0).end()
    assert (status, result.error_code) == (ABORTED, 903)
