"""Arm and gripper of the simulated robot: MoveGroup, FollowJointTrajectory, GripperCommand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.sim.arm import HOME, JOINT_NAMES, forward
from robot_mcp_kit.sim.messages import duration, seconds

pytestmark = pytest.mark.ros

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6
AWAY = (0.8, -1.2, 1.6, 0.0, -0.4, 0.5)


# -- trajectories


def _trajectory(robot: Any, *points: tuple[float, tuple[float, ...]], **fields: Any) -> Any:
    from control_msgs.action import FollowJointTrajectory
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    names = fields.pop("names", JOINT_NAMES)
    message = JointTrajectory(joint_names=list(names))
    message.points = [JointTrajectoryPoint(positions=list(p), time_from_start=duration(t)) for t, p in points]
    return robot.send(
        FollowJointTrajectory, "arm_controller/follow_joint_trajectory", trajectory=message, **fields
    )


def test_the_arm_follows_a_trajectory(robot: Any) -> None:
    goal = _trajectory(robot, (2.0, AWAY), (4.0, HOME), (6.0, AWAY))
    status, result = goal.end()
    assert (status, result.error_code) == (SUCCEEDED, 0)
    joints = robot.state()["joints"]
    assert [joints[name] for name in JOINT_NAMES] == pytest.approx(list(AWAY), abs=0.02)
    elapsed = [seconds(f.desired.time_from_start) for f in goal.feedback]
    assert elapsed == sorted(elapsed)
    assert 5.0 < elapsed[-1] < 7.0
    if hasattr(goal.feedback[0], "index"):  # not on Jazzy
        assert {f.index for f in goal.feedback} >= {0, 1, 2}
    assert list(goal.feedback[0].joint_names) == list(JOINT_NAMES)


@pytest.mark.parametrize(
    ("points", "fields"),
    [
        ([], {}),
        ([(1.0, AWAY)], {"names": ("elbow_joint",)}),
        ([(1.0, AWAY)], {"names": (*JOINT_NAMES[:5], "tail_joint")}),
        ([(2.0, AWAY), (1.0, HOME)], {}),
        ([(1.0, AWAY[:5])], {}),
    ],
)
def test_bad_trajectories_are_rejected_without_a_reason(
    robot: Any, points: list[Any], fields: dict[str, Any]
) -> None:
    assert not _trajectory(robot, *points, **fields).accepted


def test_a_newer_trajectory_preempts_with_minus_one_and_a_sentence(robot: Any) -> None:
    old = _trajectory(robot, (60.0, AWAY))
    old.until_feedback()
    new = _trajectory(robot, (2.0, HOME))
    status, result = old.end()
    assert (status, result.error_code) == (ABORTED, -1)
    assert result.error_string == "Current goal preempted by new incoming action."
    assert new.end()[0] == SUCCEEDED


def test_a_cancelled_trajectory_ends_at_once_with_an_empty_result(robot: Any) -> None:
    goal = _trajectory(robot, (60.0, AWAY))
    goal.until_feedback(lambda f: seconds(f.desired.time_from_start) > 5.0)
    assert goal.cancel()
    status, result = goal.end()
    assert (status, result.error_code, result.error_string) == (CANCELED, 0, "")


def test_a_jammed_arm_violates_the_tolerance_that_was_given(robot: Any) -> None:
    from control_msgs.msg import JointTolerance

    robot.set(arm_stuck=True)
    path = [JointTolerance(name=JOINT_NAMES[0], position=0.1)]
    assert _trajectory(robot, (2.0, AWAY), path_tolerance=path).end()[1].error_code == -4
    late = _trajectory(robot, (2.0, AWAY), goal_time_tolerance=duration(1.0)).end()
    assert (late[0], late[1].error_code) == (ABORTED, -5)


def test_a_jammed_arm_without_time_tolerance_is_waited_for_for_ever(robot: Any) -> None:
    robot.set(arm_stuck=True)
    goal = _trajectory(robot, (1.0, AWAY))
    goal.until_feedback(lambda f: seconds(f.desired.time_from_start) > 20.0)
    robot.set(arm_stuck=False)
    assert goal.end()[0] == SUCCEEDED


# -- MoveGroup


def _move(robot: Any, *constraints: Any, plan_only: bool = False, **request: Any) -> Any:
    from moveit_msgs.action import MoveGroup
    from moveit_msgs.msg import MotionPlanRequest, PlanningOptions

    fields: dict[str, Any] = {
        "group_name": "arm",
        "allowed_planning_time": 5.0,
        "max_velocity_scaling_factor": 0.5,
        **request,
    }
    return robot.send(
        MoveGroup,
        "move_action",
        request=MotionPlanRequest(goal_constraints=list(constraints), **fields),
        planning_options=PlanningOptions(plan_only=plan_only),
    )


def _joints(**positions: float) -> Any:
    from moveit_msgs.msg import Constraints, JointConstraint

    joints = [JointConstraint(joint_name=n, position=p, weight=1.0) for n, p in positions.items()]
    return Constraints(joint_constraints=joints)


def _tool_at(frame: str, x: float, y: float, z: float) -> Any:
    from geometry_msgs.msg import Pose
    from moveit_msgs.msg import BoundingVolume, Constraints, PositionConstraint
    from shape_msgs.msg import SolidPrimitive

    place = Pose()
    place.position.x, place.position.y, place.position.z = x, y, z
    ball = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.01])
    constraint = PositionConstraint(link_name="tool0", weight=1.0)
    constraint.header.frame_id = frame
    constraint.constraint_region = BoundingVolume(primitives=[ball], primitive_poses=[place])
    return Constraints(position_constraints=[constraint])


def test_the_arm_moves_to_a_joint_goal_and_idle_comes_after_the_end(robot: Any) -> None:
    goal = _move(robot, _joints(shoulder_pan_joint=0.6, elbow_joint=2.0))
    status, result = goal.end()
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    assert len(result.planned_trajectory.joint_trajectory.points) > 5
    assert result.planning_time == 0.0  # only filled when planning alone
    joints = robot.state()["joints"]
    assert joints["shoulder_pan_joint"] == pytest.approx(0.6, abs=0.02)
    assert joints["wrist_2_joint"] == pytest.approx(HOME[4], abs=0.02)
    robot.until(lambda: goal.feedback[-1:] and goal.feedback[-1].state == "IDLE", "IDLE")
    assert [f.state for f in goal.feedback] == ["PLANNING", "MONITOR", "IDLE"]
    assert goal.statuses[-1] == SUCCEEDED

    status, result = _move(robot, _joints(shoulder_pan_joint=0.6, elbow_joint=2.0)).end()
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    assert not result.planned_trajectory.joint_trajectory.points
    assert "already met" in result.error_code.message


@pytest.mark.parametrize("frame", ["base_link", "map", "arm_base_link"])
def test_the_tool_goes_to_a_position_in_any_known_frame(robot: Any, frame: str) -> None:
    x, y, z = {"base_link": (0.6, 0.2, 0.6), "map": (2.1, 4.2, 0.6), "arm_base_link": (0.5, 0.2, 0.25)}[frame]
    status, result = _move(robot, _tool_at(frame, x, y, z)).end()
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    assert robot.state()["tool"] == pytest.approx([2.1, 4.2, 0.6], abs=0.02)


def test_the_tool_takes_an_orientation_too(robot: Any) -> None:
    from moveit_msgs.msg import OrientationConstraint

    constraints = _tool_at("base_link", 0.6, 0.0, 0.5)
    down = OrientationConstraint(link_name="tool0", weight=1.0)
    down.header.frame_id = "map"  # the robot faces along x, so map and base agree about directions
    down.orientation.y, down.orientation.w = math.sin(math.pi / 4), math.cos(math.pi / 4)
    constraints.orientation_constraints = [down]
    status, result = _move(robot, constraints).end()
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    joints = robot.state()["joints"]
    _, rotation = forward([joints[name] for name in JOINT_NAMES])
    assert rotation[:, 0] == pytest.approx([0.0, 0.0, -1.0], abs=0.05)

    down.orientation.y = down.orientation.w = 0.0
    assert _move(robot, constraints).end()[1].error_code.val == -16
    constraints.orientation_constraints = []
    constraints.position_constraints[0].link_name = "elbow"
    assert _move(robot, constraints).end()[1].error_code.val == -18


def test_the_first_alternative_that_can_be_met_is_taken(robot: Any) -> None:
    far, floor = _tool_at("base_link", 3.0, 0.0, 0.5), _tool_at("base_link", 0.6, 0.0, -0.1)
    assert _move(robot, floor).end()[1].error_code.val == -12
    goal = _move(robot, far, floor, _joints(shoulder_pan_joint=0.4))
    assert goal.end()[0] == SUCCEEDED
    assert robot.state()["joints"]["shoulder_pan_joint"] == pytest.approx(0.4, abs=0.02)


def test_a_joint_goal_beyond_its_limit_is_moved_to_the_limit(robot: Any) -> None:
    assert _move(robot, _joints(shoulder_pan_joint=9.0)).end()[0] == SUCCEEDED
    assert robot.state()["joints"]["shoulder_pan_joint"] == pytest.approx(2.9, abs=0.02)


def test_planning_alone_moves_nothing(robot: Any) -> None:
    status, result = _move(robot, _joints(shoulder_pan_joint=1.0), plan_only=True).end()
    assert (status, result.error_code.val) == (SUCCEEDED, 1)
    assert result.planning_time > 0.0
    assert result.planned_trajectory.joint_trajectory.points
    assert robot.state()["joints"]["shoulder_pan_joint"] == 0.0


@pytest.mark.parametrize(
    ("constraints", "request_fields", "code"),
    [
        (lambda: [_tool_at("base_link", 3.0, 0.0, 0.5)], {}, -31),
        (lambda: [_tool_at("nowhere", 0.5, 0.0, 0.5)], {}, -21),
        (lambda: [_tool_at("", 0.5, 0.0, 0.5)], {}, -16),
        (lambda: [_joints(tail_joint=1.0)], {}, -16),
        (list, {}, -16),
        (lambda: [_joints(elbow_joint=1.0)], {"group_name": "leg"}, -15),
        (lambda: [_joints(elbow_joint=1.0)], {"pipeline_id": "chomp"}, 0),
        (lambda: [_joints(elbow_joint=1.0)], {"allowed_planning_time": 0.01}, -6),
    ],
)
def test_moves_that_cannot_be_planned_abort_with_moveits_code(
    robot: Any, constraints: Any, request_fields: dict[str, Any], code: int
) -> None:
    """C28: 0 is UNDEFINED and a failure."""
    status, result = _move(robot, *constraints(), **request_fields).end()
    assert (status, result.error_code.val) == (ABORTED, code)


def test_a_cancelled_move_is_canceled_with_minus_seven(robot: Any) -> None:
    goal = _move(robot, _joints(shoulder_pan_joint=2.5), max_velocity_scaling_factor=0.02)
    goal.until_feedback(lambda f: f.state == "MONITOR")
    assert goal.cancel()
    status, result = goal.end()
    assert (status, result.error_code.val) == (CANCELED, -7)
    pan = robot.state()["joints"]["shoulder_pan_joint"]
    assert pan < 2.4


def test_a_controller_that_is_taken_away_fails_the_move(robot: Any) -> None:
    goal = _move(robot, _joints(shoulder_pan_joint=2.5), max_velocity_scaling_factor=0.02)
    goal.until_feedback(lambda f: f.state == "MONITOR")
    robot.until(lambda: robot.state()["joints"]["shoulder_pan_joint"] > 0.01, "motion")
    other = _trajectory(robot, (1.0, HOME))
    status, result = goal.end()
    assert (status, result.error_code.val) == (ABORTED, -4)
    assert other.end()[0] == SUCCEEDED


# -- gripper


def _grip(robot: Any, gap_m: float, effort_n: float = 0.0) -> Any:
    from control_msgs.action import GripperCommand
    from control_msgs.msg import GripperCommand as Command

    command = Command(position=gap_m, max_effort=effort_n)
    return robot.send(GripperCommand, "gripper_controller/gripper_cmd", command=command)


def test_closing_on_nothing_reaches_the_goal(robot: Any) -> None:
    goal = _grip(robot, 0.0)
    status, result = goal.end()
    assert (status, result.reached_goal, result.stalled) == (SUCCEEDED, True, False)
    assert result.position == pytest.approx(0.0, abs=0.006)
    assert goal.feedback == []  # the standard controller publishes none


@pytest.mark.parametrize(("allowed", "status"), [(False, ABORTED), (True, SUCCEEDED)])
def test_closing_on_an_object_stalls_and_only_the_configuration_decides_the_status(
    robot: Any, allowed: bool, status: int
) -> None:
    """C29: the same physics, failed or succeeded."""
    robot.set(allow_stalling=allowed, object_in_gripper="red_cup", gripper_feedback=True)
    goal = _grip(robot, 0.0, 15.0)
    ended, result = goal.end()
    assert (ended, result.reached_goal, result.stalled) == (status, False, True)
    assert result.position == pytest.approx(0.06, abs=0.002)
    assert result.effort == 15.0
    assert robot.state()["gripper"]["holding"] == "red_cup"
    assert goal.feedback


def test_a_dropped_object_is_no_longer_held(robot: Any) -> None:
    robot.set(object_in_gripper="blue_box")
    _grip(robot, 0.0).end()
    assert robot.state()["gripper"]["holding"] == "blue_box"
    robot.set(drop_object=True)
    state = robot.state()
    assert state["gripper"]["holding"] is None
    assert state["objects"]["blue_box"][2] == 0.02  # on the floor
    assert _grip(robot, 0.0).end()[1].reached_goal


def test_a_cancelled_or_replaced_grip_says_nothing_about_the_position(robot: Any) -> None:
    for cancel in (True, False):
        robot.reset()
        robot.set(gripper_feedback=True)
        goal = _grip(robot, 0.0)
        goal.until_feedback(lambda f: f.position < 0.08)
        if cancel:
            assert goal.cancel()
        else:
            assert _grip(robot, 0.085).end()[0] == SUCCEEDED
        status, result = goal.end()
        assert status == (CANCELED if cancel else ABORTED)
        assert (result.position, result.reached_goal, result.stalled) == (0.0, False, False)


def test_the_robot_fetches_the_cup_from_the_kitchen_table(robot: Any) -> None:
    """The whole of it: drive, reach, grasp, lift, carry."""
    robot.set(allow_stalling=True)
    assert robot.navigate(10.0, 6.5, math.pi / 2).end()[0] == SUCCEEDED
    assert _move(robot, _tool_at("map", 10.0, 7.25, 0.65)).end()[0] == SUCCEEDED
    assert _grip(robot, 0.0).end()[1].stalled
    assert robot.state()["gripper"]["holding"] == "red_cup"
    assert _move(robot, _joints(**dict(zip(JOINT_NAMES, HOME, strict=True)))).end()[0] == SUCCEEDED
    assert robot.navigate(11.0, 4.0).end()[0] == SUCCEEDED
    x, y, _ = robot.state()["objects"]["red_cup"]
    assert math.hypot(x - 11.0, y - 4.0) < 0.6
