"""What the robot's sensors told, and how sure and how old it is, over real rclpy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.skills.config import parse_config

pytestmark = pytest.mark.ros
BOUND_S = 30.0
CONFIG = """
robot: {pose: {max_age_s: 0.2}}
arms:
  arm:
    joints:
      lift_joint: {range_m: [0.0, 1.0]}
      elbow_joint: {range_rad: [-3.0, 3.0]}
sensors:
  arm: {arm: arm, max_age_s: 0.2}
"""
POSE, JOINTS = "geometry_msgs/msg/PoseWithCovarianceStamped", "sensor_msgs/msg/JointState"


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


async def _world(side: Any) -> Any:
    from robot_mcp_kit.ros.pose import TopicPose
    from robot_mcp_kit.ros.world import RosWorld

    config = parse_config(CONFIG)

    def make() -> RosWorld:
        return RosWorld(side.node, side.thread, config, TopicPose(side.node, side.thread, config.robot))

    return await side.thread.call(make)


async def _tell(side: Any, topic: str, type_name: str, fields: dict[str, Any]) -> None:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    message = build_message(load_interface(type_name), fields)
    publisher = await side.thread.call(lambda: side.node.create_publisher(type(message), topic, 1))
    await _until(publisher.get_subscription_count)
    await side.thread.call(lambda: publisher.publish(message))


def _pose(**variances: float) -> dict[str, Any]:
    covariance = [0.0] * 36
    for name, value in variances.items():
        covariance[{"x": 0, "y": 7, "yaw": 35}[name]] = value
    return {
        "header": {"frame_id": "map"},
        "pose": {
            "pose": {"position": {"x": 1.0}, "orientation": {"w": 1.0}},
            "covariance": covariance,
        },
    }


async def test_a_pose_tells_how_sure_it_is(ros_side: Any) -> None:
    """P10: standard deviations from the message's own covariance, the worse axis."""
    world = await _world(ros_side)
    await _tell(ros_side, "amcl_pose", POSE, _pose(x=0.04, y=0.25, yaw=0.09))
    await _until(lambda: world.latest().robot)
    pose = world.latest().robot
    assert (pose.position_std_m, pose.yaw_std_rad) == (0.5, 0.3)


async def test_a_covariance_that_says_unknown_is_no_certainty(ros_side: Any) -> None:
    """P10."""
    world = await _world(ros_side)
    await _tell(ros_side, "amcl_pose", POSE, _pose(x=-1.0))
    await _until(lambda: world.latest().robot)
    assert world.latest().robot.position_std_m > 1000


async def test_what_is_too_old_to_act_on_is_still_told_with_its_time(ros_side: Any) -> None:
    """P9: a snapshot forgets it, the latest does not."""
    world = await _world(ros_side)
    await _tell(ros_side, "amcl_pose", POSE, _pose())
    await _tell(
        ros_side,
        "joint_states",
        JOINTS,
        {"name": ["lift_joint", "elbow_joint"], "position": [0.5, 1.0]},
    )
    await _until(lambda: world.latest().robot and world.latest().arm)
    await _until(lambda: world.snapshot().robot is None and world.snapshot().arm is None)
    first, second = world.latest(), world.latest()
    assert (first.arm.joints_m, first.arm.joints_rad) == ({"lift_joint": 0.5}, {"elbow_joint": 1.0})
    assert first.arm.measured_at == second.arm.measured_at
    assert first.robot.x_m == 1.0


async def test_an_arm_that_has_lost_a_joint_tells_the_others(ros_side: Any) -> None:
    """P10: what other devices tell on the same topic is not the arm's."""
    world = await _world(ros_side)
    await _tell(ros_side, "joint_states", JOINTS, {"name": ["wheel_joint"], "position": [3.0]})
    await _tell(ros_side, "joint_states", JOINTS, {"name": ["elbow_joint"], "position": [1.0]})
    await _until(lambda: world.latest().arm)
    assert world.latest().arm.positions == {"elbow_joint": 1.0}
