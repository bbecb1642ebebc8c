"""What the simulated robot publishes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.sim.arm import HOME, JOINT_NAMES
from robot_mcp_kit.sim.messages import yaw

pytestmark = pytest.mark.ros


def _listen(robot: Any, message_type: Any, topic: str, *, latched: bool = False) -> list[Any]:
    from rclpy.qos import DurabilityPolicy, QoSProfile

    durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    seen: list[Any] = []
    robot.node.create_subscription(
        message_type, topic, seen.append, QoSProfile(depth=100, durability=durability)
    )
    return seen


def test_odometry_and_transforms_add_up_to_the_pose_on_the_map(robot: Any) -> None:
    from geometry_msgs.msg import PoseWithCovarianceStamped
    from nav_msgs.msg import Odometry
    from tf2_msgs.msg import TFMessage

    transforms = _listen(robot, TFMessage, "tf")
    odometry = _listen(robot, Odometry, "odom")
    amcl = _listen(robot, PoseWithCovarianceStamped, "amcl_pose", latched=True)
    robot.navigate(4.0, 4.0, math.pi / 2).end()
    robot.until(lambda: bool(odometry) and odometry[-1].twist.twist.angular.z == 0.0, "standstill")
    odometry.clear()
    transforms.clear()
    robot.until(lambda: bool(odometry and transforms and amcl), "topics")
    by_child = {t.child_frame_id: t for t in transforms[-1].transforms}
    assert by_child["odom"].header.frame_id == "map"
    assert by_child["base_link"].header.frame_id == "odom"
    origin, local = by_child["odom"].transform, by_child["base_link"].transform
    assert origin.translation.x + local.translation.x == pytest.approx(4.0, abs=0.05)
    assert origin.translation.y + local.translation.y == pytest.approx(4.0, abs=0.05)
    assert yaw(local.rotation) == pytest.approx(math.pi / 2, abs=0.05)
    assert odometry[-1].header.frame_id == "odom"
    assert odometry[-1].pose.pose.position.x == pytest.approx(local.translation.x, abs=0.01)

    def at_rest() -> bool:
        at = amcl[-1].pose.pose
        return math.hypot(at.position.x - 4.0, at.position.y - 4.0) < 0.05 and len(amcl) > 5

    robot.until(at_rest, "the last amcl_pose")
    assert amcl[-1].header.frame_id == "map"
    late = _listen(robot, PoseWithCovarianceStamped, "amcl_pose", latched=True)
    robot.until(lambda: bool(late), "the latched amcl_pose, though nothing moves")


def test_stamps_are_simulation_time_and_the_clock_is_published(robot: Any) -> None:
    from nav_msgs.msg import Odometry
    from rosgraph_msgs.msg import Clock

    clock = _listen(robot, Clock, "/clock")
    odometry = _listen(robot, Odometry, "odom")
    robot.until(lambda: len(clock) > 5 and len(odometry) > 5, "the clock")
    times = [c.clock.sec + c.clock.nanosec * 1e-9 for c in clock]
    assert times == sorted(times)
    assert times[-1] > times[0]
    stamp = odometry[-1].header.stamp
    assert abs(stamp.sec + stamp.nanosec * 1e-9 - times[-1]) < 5.0
    assert times[-1] == pytest.approx(robot.state()["sim_time_s"], abs=5.0)


def test_lost_localization_takes_map_to_odom_and_amcl_away(robot: Any) -> None:
    from tf2_msgs.msg import TFMessage

    transforms = _listen(robot, TFMessage, "tf")
    robot.set(lose_localization=True)
    transforms.clear()
    robot.until(lambda: len(transforms) > 3, "transforms")
    assert {t.child_frame_id for t in transforms[-1].transforms} == {"base_link"}


def test_joints_and_battery_are_reported(robot: Any) -> None:
    from sensor_msgs.msg import BatteryState, JointState

    joints = _listen(robot, JointState, "joint_states")
    battery = _listen(robot, BatteryState, "battery_state")
    robot.until(lambda: bool(joints and battery), "joint states and battery")
    assert list(joints[-1].name) == [*JOINT_NAMES, "gripper_finger_joint"]
    assert list(joints[-1].position)[:6] == pytest.approx(list(HOME))
    assert 0.0 < battery[-1].percentage <= 1.0
    assert battery[-1].current < 0.0
    assert battery[-1].power_supply_status == BatteryState.POWER_SUPPLY_STATUS_DISCHARGING


def test_the_description_the_tool_and_the_truth_agree(robot: Any) -> None:
    """R14: what the robot says of itself, against the simulator's own truth."""
    from geometry_msgs.msg import PoseStamped
    from std_msgs.msg import String

    from robot_mcp_kit.safety.urdf import joint_limits
    from robot_mcp_kit.sim.arm import JOINTS, forward, rotation_of_quaternion

    descriptions, tools = (
        _listen(robot, String, "robot_description", latched=True),
        _listen(robot, PoseStamped, "tool_pose"),
    )
    robot.until(lambda: bool(descriptions and tools), "topics")
    limits = joint_limits(descriptions[-1].data)
    assert {name: (found.lower, found.upper, found.speed) for name, found in limits.items()} == {
        joint.name: (joint.low_rad, joint.high_rad, joint.max_rate) for joint in JOINTS
    }
    truth = robot.state()["tool_in_base"]
    at, turned = tools[-1].pose.position, tools[-1].pose.orientation
    assert tools[-1].header.frame_id == "base_link"
    assert (at.x, at.y, at.z) == pytest.approx(truth["position_m"], abs=1e-9)
    assert (turned.x, turned.y, turned.z, turned.w) == pytest.approx(truth["quaternion"], abs=1e-9)
    _, rotation = forward(list(robot.state()["joints"].values()))
    assert rotation_of_quaternion(*truth["quaternion"]) == pytest.approx(rotation, abs=1e-9)


def test_an_output_follows_its_command_unless_it_is_stuck(robot: Any) -> None:
    """R8: the state is what the output does, not what it was told."""
    from std_msgs.msg import Bool

    states = _listen(robot, Bool, "lamp/state")
    command = robot.node.create_publisher(Bool, "lamp/command", 10)
    robot.until(lambda: command.get_subscription_count() > 0, "the lamp's ear")
    command.publish(Bool(data=True))
    robot.until(lambda: bool(states) and states[-1].data, "the lamp is on")
    count = robot.state()["goals"]["lamp/command:set"]
    robot.set(outputs_stuck=True)
    command.publish(Bool(data=False))
    robot.until(lambda: robot.state()["goals"]["lamp/command:set"] == count + 1, "the second command")
    assert robot.state()["io"]["lamp"] is True


def test_a_topic_can_fall_silent_alone(robot: Any) -> None:
    from geometry_msgs.msg import PoseStamped
    from sensor_msgs.msg import JointState

    joints, tools = _listen(robot, JointState, "joint_states"), _listen(robot, PoseStamped, "tool_pose")
    robot.until(lambda: bool(joints and tools), "both topics")
    robot.set(silent_topics=["tool_pose"])
    tools.clear()
    robot.until(lambda: len(joints) > 10, "joints")
    joints.clear()
    tools.clear()
    robot.until(lambda: len(joints) > 5, "more joints")
    assert tools == []
