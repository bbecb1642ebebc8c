"""What is sent for the arm and the gripper, and what is refused before anything moves (B7)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .arguments import GOOD, JOINTS, POINTS
from .conftest import Robot

POSE = {"x_m": 0.6, "y_m": 0.0, "z_m": 0.7}


def constraints(robot: Robot, **arguments: Any) -> dict[str, Any]:
    (only,) = robot.goal("move_arm", **arguments).fields["request"]["goal_constraints"]
    assert isinstance(only, dict)
    return only


def test_a_motion_starts_where_the_arm_is_and_never_at_full_speed_by_accident(robot: Robot) -> None:
    """Case A10: MoveIt reads a scaling of 0 as 1. An empty start state is a difference with nothing in it."""
    for given in ({}, {"velocity_scaling": 0, "acceleration_scaling": 0}):
        fields = robot.goal("move_arm", target="home", **given).fields
        request = fields["request"]
        assert request["start_state"] == {"is_diff": True}
        assert request["max_velocity_scaling_factor"] == 0.3
        assert request["max_acceleration_scaling_factor"] == 0.3
        assert request["allowed_planning_time"] == 5.0
        assert request["group_name"] == "arm"
        assert fields["planning_options"]["plan_only"] is False
        assert fields["planning_options"]["planning_scene_diff"] == {
            "is_diff": True,
            "robot_state": {"is_diff": True},
        }
    faster = robot.goal("move_arm", target="home", velocity_scaling=0.5).fields["request"]
    assert faster["max_velocity_scaling_factor"] == 0.5


def test_a_named_target_is_sent_as_the_joints_it_stands_for(robot: Robot) -> None:
    """MoveGroup takes no names; case, spaces and underscores make no difference."""
    for name in ("home", "HOME", "stow", "Folded"):
        sent = constraints(robot, target=name)["joint_constraints"]
        assert [c["joint_name"] for c in sent] == list(JOINTS)
        assert [c["position"] for c in sent] == [0.0, -1.9, 2.4, 0.0, -0.5, 0.0]
        assert all(c["tolerance_above"] == c["tolerance_below"] == 0.005 for c in sent)
        assert all(c["weight"] == 1.0 for c in sent)


def test_joints_are_sent_in_the_arms_order_whatever_the_callers(robot: Robot) -> None:
    backwards = dict(reversed(list(JOINTS.items())))
    sent = constraints(robot, joints_rad=backwards)["joint_constraints"]
    assert {c["joint_name"]: c["position"] for c in sent} == JOINTS
    assert [c["joint_name"] for c in sent] == list(JOINTS)


def test_a_pose_is_a_small_sphere_and_an_orientation_in_a_named_frame(robot: Robot) -> None:
    sent = constraints(robot, pose={**POSE, "pitch_rad": math.pi / 2})
    (place,), (turn,) = sent["position_constraints"], sent["orientation_constraints"]
    region = place["constraint_region"]
    assert place["header"]["frame_id"] == turn["header"]["frame_id"] == "base_link"
    assert place["link_name"] == turn["link_name"] == "tool0"
    assert region["primitives"] == [{"type": 2, "dimensions": [0.005]}]
    assert region["primitive_poses"][0]["position"] == {"x": 0.6, "y": 0.0, "z": 0.7}
    half = math.sqrt(0.5)
    assert turn["orientation"] == pytest.approx({"x": 0.0, "y": half, "z": 0.0, "w": half})


def test_a_pose_without_an_orientation_leaves_it_free(robot: Robot) -> None:
    assert "orientation_constraints" not in constraints(robot, pose=POSE)
    assert constraints(robot, pose={**POSE, "yaw_rad": 0.0})["orientation_constraints"]


def test_plan_only_says_that_nothing_moves(robot: Robot) -> None:
    spec = robot.goal("move_arm", target="home", plan_only=True)
    assert spec.fields["planning_options"]["plan_only"] is True
    assert "without moving" in spec.summary


@pytest.mark.parametrize(
    ("arguments", "field", "hint"),
    [
        ({}, "target", "one of"),
        ({"target": "home", "pose": POSE}, "pose", "only one"),
        ({"target": "hom"}, "target", '"home"'),
        ({"joints_rad": {"elbow_joint": 1.0}}, "joints_rad", "shoulder_pan_joint"),
        ({"joints_rad": {**JOINTS, "elbow_joint": 90}}, "joints_rad.elbow_joint", "1.5708"),
        ({"joints_rad": {**JOINTS, "elbow_joint": 2.8}}, "joints_rad.elbow_joint", "2.7"),
        ({"joints_rad": {**JOINTS, "elbow_joint": float("nan")}}, "joints_rad.elbow_joint", ""),
        ({"joints_rad": {**JOINTS, "elbow": 1.0}}, "joints_rad.elbow", "elbow_joint"),
        ({"joints_rad": JOINTS, "joints_m": {"elbow_joint": 1.0}}, "joints_m.elbow_joint", "joints_rad"),
        ({"pose": {**POSE, "frame": ""}}, "pose.frame", "base_link"),
        ({"pose": {**POSE, "frame": "tool0"}}, "pose.frame", ""),
        ({"pose": {**POSE, "yaw_rad": 180}}, "pose.yaw_rad", "3.1416"),
        ({"pose": {**POSE, "orientation": {"z": 0.0, "w": 0.0}}}, "pose.orientation", "all zeros"),
        (
            {"pose": {**POSE, "orientation": {"z": 0.0, "w": 1.0}, "yaw_rad": 1}},
            "pose.orientation",
            "not both",
        ),
        ({"pose": {"x_m": 0.6, "y_m": 0.0}}, "pose.z_m", ""),
        ({"pose": {**POSE, "z_m": 1e999}}, "pose.z_m", ""),
        ({"target": "home", "velocity_scaling": 50}, "velocity_scaling", "0.5"),
        ({"target": "home", "velocity_scaling": -0.1}, "velocity_scaling", "above 0"),
        ({"target": "home", "acceleration_scaling": 0.9}, "acceleration_scaling", "0.6"),
    ],
)
def test_an_impossible_arm_goal_is_refused_with_the_field_and_the_way_out(
    robot: Robot, arguments: dict[str, Any], field: str, hint: str
) -> None:
    """Cases A1, A3, A10, H80; MoveIt would clip a joint to its limit or drop a frameless constraint."""
    refused = robot.refusal("move_arm", **arguments)
    assert refused.field == field
    assert hint in refused.message


def test_a_workspace_is_kept_and_needs_its_own_frame(robot_of: Any) -> None:
    robot = robot_of(SLIDING_YAML)
    robot.goal("move", pose={"x_m": 0.5, "y_m": 9.0, "z_m": 0.5})
    assert robot.refusal("move", pose={"x_m": 1.5, "y_m": 0, "z_m": 0.5}).field == "pose.x_m"
    refused = robot.refusal("move", pose={"x_m": 0.5, "y_m": 0, "z_m": 0.5, "frame": "map"})
    assert refused.field == "pose.frame"
    assert refused.allowed == ["base"]


SLIDING_YAML = """
arms:
  torso:
    joints:
      lift: {range_m: [0.0, 0.4], max_speed_mps: 0.1}
      turn: {range_rad: [-1.0, 1.0]}
    named_targets:
      up: {joints_m: {lift: 0.4}, joints_rad: {turn: 0.0}}
skills:
  move:
    action: move_action
    type: moveit_msgs/action/MoveGroup
    arm: torso
    group: torso
    end_effector_link: hand
    frames: [base, map]
    workspace: {x_m: [0.0, 1.0]}
  follow:
    action: c/follow_joint_trajectory
    type: control_msgs/action/FollowJointTrajectory
    arm: torso
    path_tolerance: 0.05
"""


def test_sliding_joints_are_in_metres(robot_of: Any) -> None:
    robot = robot_of(SLIDING_YAML)
    sent = robot.goal("move", joints_rad={"turn": 0.5}, joints_m={"lift": 0.2}).fields["request"]
    constraint = sent["goal_constraints"][0]["joint_constraints"]
    assert [(c["joint_name"], c["position"], c["tolerance_above"]) for c in constraint] == [
        ("lift", 0.2, 0.001),
        ("turn", 0.5, 0.005),
    ]
    assert robot.refusal("move", joints_rad={"turn": 0.5, "lift": 0.2}).field == "joints_rad.lift"


@pytest.mark.parametrize("skill", ["execute_trajectory", "follow_joint_trajectory"])
def test_a_trajectory_is_sent_point_by_point(robot: Robot, skill: str) -> None:
    spec = robot.goal(skill, points=POINTS)
    trajectory = spec.fields["trajectory"]
    if skill == "execute_trajectory":
        trajectory = trajectory["joint_trajectory"]
    assert trajectory["joint_names"] == list(JOINTS)
    assert trajectory["header"] == {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
    assert [p["time_from_start"]["sec"] for p in trajectory["points"]] == [2, 4]
    assert trajectory["points"][1]["positions"] == [0.0, -1.0, 1.5, 0.0, 0.0, 0.0]
    assert spec.est_duration_s == 4.0


def test_settling_has_an_end(robot: Robot, robot_of: Any) -> None:
    """A goal_time_tolerance of 0 would wait for ever."""
    fields = robot.goal("follow_joint_trajectory", points=POINTS).fields
    assert fields["goal_time_tolerance"] == {"sec": 2, "nanosec": 0}
    assert "path_tolerance" not in fields
    point = {"time_from_start_s": 1.0, "joints_rad": {"turn": 0.1}, "joints_m": {"lift": 0.1}}
    strict = robot_of(SLIDING_YAML).goal("follow", points=[point]).fields
    assert strict["path_tolerance"] == [
        {"name": "lift", "position": 0.05},
        {"name": "turn", "position": 0.05},
    ]


def point(time_s: float, **joints: float) -> dict[str, Any]:
    return {"time_from_start_s": time_s, "joints_rad": {**JOINTS, **joints}}


@pytest.mark.parametrize("skill", ["execute_trajectory", "follow_joint_trajectory"])
@pytest.mark.parametrize(
    ("points", "field"),
    [
        ([], "points"),
        ([point(float(i + 1)) for i in range(51)], "points"),
        ([point(0.0)], "points[0].time_from_start_s"),
        ([point(-1.0)], "points[0].time_from_start_s"),
        ([point(2.0), point(2.0)], "points[1].time_from_start_s"),
        ([point(2.0), point(61.0)], "points[1].time_from_start_s"),
        ([point(2.0), point(2.1, elbow_joint=2.0)], "points[1].time_from_start_s"),
        ([point(2.0, elbow_joint=3.0)], "points[0].joints_rad.elbow_joint"),
        ([point(2.0, elbo_joint=1.0)], "points[0].joints_rad.elbo_joint"),
        ([point(2.0), {"time_from_start_s": 3.0}], "points[1].joints_rad"),
        ([point(float("nan"))], "points[0].time_from_start_s"),
        ([{**point(1.0), "velocities": [1.0]}], "points[0].velocities"),
    ],
)
def test_a_trajectory_the_controller_would_reject_without_a_reason_is_refused_with_one(
    robot: Robot, skill: str, points: Any, field: str
) -> None:
    assert robot.refusal(skill, points=points).field == field


def test_only_moveits_trajectories_need_more_than_a_cancel(robot: Robot) -> None:
    """D33: MoveIt answers that cancel after the motion; its topic is what stops it. For MoveGroup the same
    message can kill move_group, and its cancel does stop.
    """
    stop = robot.skills["execute_trajectory"].stop_topic
    assert stop is not None
    assert (stop.topic, stop.type, dict(stop.fields)) == (
        "trajectory_execution_event",
        "std_msgs/msg/String",
        {"data": "stop"},
    )
    assert {name for name, skill in robot.skills.items() if skill.stop_topic} == {"execute_trajectory"}


def test_a_cancelled_arm_may_still_be_slowing_down(robot: Robot) -> None:
    """D39."""
    assert {name for name, skill in robot.skills.items() if "rest" in skill.after_stop} == {
        "move_arm",
        "execute_trajectory",
        "follow_joint_trajectory",
    }


@pytest.mark.parametrize(
    ("arguments", "position", "effort"),
    [
        ({"command": "open"}, 0.085, 40.0),
        ({"command": "close", "max_effort_n": 0}, 0.0, 40.0),
        ({"position_m": 0.02, "max_effort_n": 10}, 0.02, 10.0),
        ({"position_m": "0.02"}, 0.02, 40.0),
    ],
)
def test_a_gripper_goal_carries_gap_and_effort(
    robot: Robot, arguments: dict[str, Any], position: float, effort: float
) -> None:
    fields = robot.goal("gripper", **arguments).fields
    assert fields == {"command": {"position": position, "max_effort": effort}}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "command"),
        ({"command": "grab"}, "command"),
        ({"command": "close", "position_m": 0.01}, "position_m"),
        ({"position_m": 0.1}, "position_m"),
        ({"position_m": -0.001}, "position_m"),
        ({"position_m": float("nan")}, "position_m"),
        ({"command": "close", "max_effort_n": -1}, "max_effort_n"),
        ({"command": "close", "max_effort_n": 101}, "max_effort_n"),
        ({"command": "open", "expect_object": True}, "expect_object"),
    ],
)
def test_an_impossible_gripper_goal_is_refused(robot: Robot, arguments: dict[str, Any], field: str) -> None:
    assert robot.refusal("gripper", **arguments).field == field


PARALLEL_YAML = """
skills:
  grip:
    action: hand/gripper_cmd
    type: control_msgs/action/ParallelGripperCommand
    open_gap_m: 0.08
    open_command: 0.0
    closed_command: 0.8
    joint: finger
    effort_n: 20
    max_effort_n: 50
"""


def test_a_parallel_gripper_gets_one_joint_and_a_driver_what_it_wants(robot_of: Any) -> None:
    """Exactly one position, or the controller refuses; here it is an angle that grows as the gap shrinks."""
    robot = robot_of(PARALLEL_YAML)
    closed = robot.goal("grip", command="close").fields["command"]
    assert closed == {"name": ["finger"], "position": [0.8], "effort": [20.0]}
    half = robot.goal("grip", position_m=0.04).fields["command"]
    assert half["position"] == [pytest.approx(0.4)]


def test_two_motions_of_one_part_share_a_resource(robot: Robot) -> None:
    parts = {name: skill.resources for name, skill in robot.skills.items()}
    arm = {"move_arm", "execute_trajectory", "follow_joint_trajectory"}
    assert {name for name, part in parts.items() if part == {"arm"}} == arm
    assert {name for name, part in parts.items() if part == {"gripper"}} == {"gripper"}
    assert {name for name, part in parts.items() if part == {"outputs"}} == {"set_io"}
    assert {name for name, part in parts.items() if part == {"base"}} == set(GOOD) - arm - {
        "gripper",
        "set_io",
    }
