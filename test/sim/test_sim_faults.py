"""The simulator's switches: what goes wrong when one throws them, and how it looks from outside."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from robot_mcp_kit.sim.messages import duration, seconds

pytestmark = pytest.mark.ros

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


def _drive_until_moving(robot: Any) -> Any:
    goal = robot.navigate(11.0, 4.0)
    goal.until_feedback(lambda f: seconds(f.estimated_time_remaining) > 0)
    return goal


def test_a_lost_localization_silences_feedback_and_ends_in_102(robot: Any) -> None:
    """B18: no transform, no feedback; the controller gives up after a while."""
    goal = _drive_until_moving(robot)
    robot.set(lose_localization=True)
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")
    heard = len(goal.feedback)
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 102)
    assert len(goal.feedback) - heard <= 1
    status, result = robot.navigate(3.0, 4.0).end()
    assert (status, result.error_code) == (ABORTED, 9002)


def test_a_localization_that_comes_back_lets_the_drive_go_on(robot: Any) -> None:
    goal = _drive_until_moving(robot)
    robot.set(lose_localization=True)
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")
    robot.set(lose_localization=False)
    assert goal.end()[0] == SUCCEEDED


def test_slipping_wheels_are_recovered_from_until_the_navigator_gives_up(robot: Any) -> None:
    robot.set(stuck=True)
    goal = robot.navigate(11.0, 4.0)
    status, result = goal.end()
    assert (status, result.error_code) == (ABORTED, 105)
    assert goal.feedback[-1].number_of_recoveries == 6
    assert robot.state()["travelled_m"] == 0.0


def test_wheels_that_grip_again_bring_the_robot_there_with_the_recoverys_code(robot: Any) -> None:
    """Nav2 reports the smallest code left behind, also on success: here of the spin that timed out."""
    robot.set(stuck=True)
    goal = robot.navigate(4.0, 4.0)
    goal.until_feedback(lambda f: f.number_of_recoveries >= 3)  # clear, spin, wait
    robot.set(stuck=False)
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 701)


def test_a_slowed_robot_takes_longer(robot: Any) -> None:
    robot.set(slow_down=0.4)
    goal = _drive_until_moving(robot)
    goal.until_feedback(lambda f: f.distance_remaining < 8.5 and f.distance_remaining > 0)
    assert robot.state()["speed"] == pytest.approx(0.2, abs=0.02)
    goal.cancel()


def test_inactive_servers_reject_goals(robot: Any) -> None:
    robot.set(active=False)
    assert not robot.navigate(3.0, 4.0).accepted
    robot.set(active=True)
    assert robot.navigate(3.0, 4.0).end()[0] == SUCCEEDED


def test_servers_that_are_deactivated_abort_what_they_do(robot: Any) -> None:
    """Aborted without a code for Nav2; the arm's controller says why."""
    from control_msgs.action import FollowJointTrajectory
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from robot_mcp_kit.sim.arm import HOME, JOINT_NAMES

    drive = _drive_until_moving(robot)
    point = JointTrajectoryPoint(positions=list(HOME), time_from_start=duration(900.0))
    trajectory = JointTrajectory(joint_names=list(JOINT_NAMES), points=[point])
    arm = robot.send(FollowJointTrajectory, "arm_controller/follow_joint_trajectory", trajectory=trajectory)
    arm.until_feedback()
    robot.set(active=False)
    status, result = drive.end()
    assert (status, result.error_code) == (ABORTED, 0)
    status, result = arm.end()
    assert (status, result.error_code) == (ABORTED, -1)
    assert "deactivate" in result.error_string
    robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")


def test_rejection_can_be_limited_to_some_actions(robot: Any) -> None:
    from nav2_msgs.action import Wait

    robot.set(reject_goals=True, fault_actions=["wait"])
    assert not robot.send(Wait, "wait", time=duration(0.1)).accepted
    assert robot.navigate(2.0, 4.0).end()[0] == SUCCEEDED


def test_a_refused_cancel_answers_with_an_empty_list_and_the_goal_goes_on(robot: Any) -> None:
    robot.set(refuse_cancel=True)
    goal = robot.navigate(4.0, 4.0)
    goal.until_feedback()
    reply = goal.ask_cancel()
    assert list(reply.goals_canceling) == []
    assert goal.end()[0] == SUCCEEDED


def test_an_ignored_cancel_is_accepted_but_the_robot_keeps_going(robot: Any) -> None:
    """D33: the end may even be SUCCEEDED."""
    robot.set(ignore_cancel_s=1000.0)
    goal = robot.navigate(4.0, 4.0)
    goal.until_feedback()
    assert goal.cancel()
    assert goal.end()[0] == SUCCEEDED
    assert 3 in goal.statuses  # it was CANCELING all the way


def test_goals_abort_by_themselves_with_the_code_that_was_set(robot: Any) -> None:
    from control_msgs.action import FollowJointTrajectory
    from nav2_msgs.action import Spin
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from robot_mcp_kit.sim.arm import HOME, JOINT_NAMES

    robot.set(abort_after_s=1.0, abort_code=4242)
    assert robot.navigate(11.0, 4.0).end()[1].error_code == 4242
    assert robot.send(Spin, "spin", target_yaw=6.0).end()[1].error_code == 4242
    robot.set(abort_code=-7)
    point = JointTrajectoryPoint(positions=list(HOME), time_from_start=duration(9.0))
    trajectory = JointTrajectory(joint_names=list(JOINT_NAMES), points=[point])
    name = "arm_controller/follow_joint_trajectory"
    status, result = robot.send(FollowJointTrajectory, name, trajectory=trajectory).end()
    assert (status, result.error_code) == (ABORTED, -7)


def test_silent_servers_still_finish_their_goals(robot: Any) -> None:
    robot.set(silent_feedback=True)
    goal = robot.navigate(2.5, 4.0)
    assert goal.end()[0] == SUCCEEDED
    assert goal.feedback == []


def test_wrong_switches_are_refused_with_the_names_that_exist(robot: Any) -> None:
    (reason,) = robot.set(blocked_doors=["barn_door"])
    assert "barn_door" in reason
    assert "kitchen_door" in reason
    (reason,) = robot.set(slow_down=0.0)
    assert reason.startswith("slow_down")
    (reason,) = robot.set(object_in_gripper="anvil")
    assert "red_cup" in reason
    (reason,) = robot.set(real_time_factor=2.0)
    assert "read-only" in reason
    assert robot.set(blocked_doors="kitchen_door, office_door") == []


def test_faults_can_be_thrown_by_topic_and_taken_back_by_service(robot: Any) -> None:
    from std_msgs.msg import String

    publisher = robot.node.create_publisher(String, "robot_sim/faults", 10)
    robot.until(lambda: publisher.get_subscription_count() > 0, "the simulator's subscription")
    publisher.publish(String(data=json.dumps({"slow_down": 1, "active": False, "blocked_doors": []})))

    def rejecting() -> bool:
        from nav2_msgs.action import Wait

        return not robot.send(Wait, "wait", time=duration(0.0)).accepted

    robot.until(rejecting, "the fault")
    publisher.publish(String(data="{nonsense"))  # must not hurt
    assert robot.trigger("reset_faults").success
    assert robot.navigate(2.0, 4.0).end()[0] == SUCCEEDED


def test_the_world_is_not_reset_under_a_running_goal(robot: Any) -> None:
    goal = _drive_until_moving(robot)
    answer = robot.trigger("reset_world")
    assert not answer.success
    assert "navigate_to_pose" in answer.message
    goal.cancel()
    assert goal.end()[0] == CANCELED


def test_every_goal_is_written_down_as_the_server_saw_it(robot: Any) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from std_msgs.msg import String

    goal = robot.navigate(2.0, 4.0)
    goal.end()
    seen: list[dict[str, Any]] = []
    qos = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    robot.node.create_subscription(String, "robot_sim/goals", lambda m: seen.append(json.loads(m.data)), qos)
    robot.until(lambda: any(entry["goal_id"] == goal.id.hex() for entry in seen), "the goal's entry")
    (entry,) = [entry for entry in seen if entry["goal_id"] == goal.id.hex()]
    assert entry["action"] == "navigate_to_pose"
    assert entry["accepted"] is True


def test_the_robot_stops_at_obstacles_that_no_planner_looks_at(robot: Any) -> None:
    """Physics, not manners: with collision checks off the wall still holds."""
    from geometry_msgs.msg import Point
    from nav2_msgs.action import DriveOnHeading

    if not hasattr(DriveOnHeading.Goal(), "disable_collision_checks"):
        pytest.skip("on Jazzy collision checks cannot be off")
    assert robot.navigate(11.0, 4.0, 0.0).end()[0] == SUCCEEDED
    status, result = robot.send(
        DriveOnHeading,
        "drive_on_heading",
        target=Point(x=3.0),
        speed=0.4,
        time_allowance=duration(8.0),
        disable_collision_checks=True,
    ).end()
    assert (status, result.error_code) == (ABORTED, 721)
    x, y, _ = robot.state()["pose"]
    assert x <= 11.9 - 0.15
    assert math.isclose(y, 4.0, abs_tol=0.1)
