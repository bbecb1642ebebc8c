"""Where the robot is, read over real rclpy."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config import RobotSection

pytestmark = pytest.mark.ros
BOUND_S = 30.0


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


def _message(type_name: str, frame: str, x: float, yaw: float) -> Any:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    pose: dict[str, Any] = {
        "position": {"x": x, "y": 2.0},
        "orientation": {"z": math.sin(yaw / 2), "w": math.cos(yaw / 2)},
    }
    if type_name != "geometry_msgs/msg/PoseStamped":
        pose = {"pose": pose}
    return build_message(load_interface(type_name), {"header": {"frame_id": frame}, "pose": pose})


async def _publish(side: Any, topic: str, message: Any, *, latched: bool = False) -> Any:
    from rclpy.qos import DurabilityPolicy, QoSProfile

    durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    publisher = await side.thread.call(
        lambda: side.node.create_publisher(type(message), topic, QoSProfile(depth=1, durability=durability))
    )
    if not latched:
        await _until(publisher.get_subscription_count)
    await side.thread.call(lambda: publisher.publish(message))
    return publisher


async def _reader(side: Any, **pose: Any) -> Any:
    from robot_mcp_kit.ros.pose import TopicPose

    robot = RobotSection(pose=pose)
    return await side.thread.call(lambda: TopicPose(side.node, side.thread, robot))


@pytest.mark.parametrize(
    "type_name",
    [
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        "geometry_msgs/msg/PoseStamped",
        "nav_msgs/msg/Odometry",
    ],
)
async def test_the_pose_of_each_message_type_is_read(ros_side: Any, type_name: str) -> None:
    reader = await _reader(ros_side, topic="where", type=type_name)
    assert reader.pose() is None
    await _publish(ros_side, "where", _message(type_name, "map", 1.5, 0.5))
    await _until(reader.pose)
    pose = reader.pose()
    assert (pose.x_m, pose.y_m, pose.frame) == (1.5, 2.0, "map")
    assert pose.yaw_rad == pytest.approx(0.5)


async def test_a_latched_pose_from_before_is_known(ros_side: Any) -> None:
    """AMCL says nothing more while the robot stands still."""
    type_name = "geometry_msgs/msg/PoseWithCovarianceStamped"
    await _publish(ros_side, "amcl_pose", _message(type_name, "map", 3.0, 0.0), latched=True)
    reader = await _reader(ros_side)
    await _until(reader.pose)
    assert reader.pose().x_m == 3.0


async def test_a_pose_in_another_frame_is_not_taken_for_the_map(
    ros_side: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reader = await _reader(ros_side, topic="odom", type="nav_msgs/msg/Odometry")
    await _publish(ros_side, "odom", _message("nav_msgs/msg/Odometry", "odom", 1.0, 0.0))
    await _until(lambda: reader._latest)
    assert reader.pose() is None
    assert "is in the frame 'odom'" in caplog.text


async def test_a_pose_that_is_too_old_counts_as_unknown(
    ros_side: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robot_mcp_kit.ros import pose as module

    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    reader = module.TopicPose(ros_side.node, ros_side.thread, RobotSection(pose={"max_age_s": 2.0}))
    reader._received(_message("geometry_msgs/msg/PoseWithCovarianceStamped", "map", 1.0, 0.0))
    now[0] = 101.9
    assert reader.pose() is not None
    now[0] = 102.1
    assert reader.pose() is None


async def test_tf_without_tf2_ros_says_what_to_install(ros_side: Any) -> None:
    import importlib.util

    from robot_mcp_kit.ros.pose import TfPose

    if importlib.util.find_spec("tf2_ros") is not None:
        pytest.skip("tf2_ros is installed here")
    with pytest.raises(ConfigError, match=r"robot\.pose\.source: tf needs tf2_ros"):
        TfPose(ros_side.node, ros_side.thread, RobotSection(pose={"source": "tf"}))
