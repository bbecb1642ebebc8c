"""The robot's joints, tool pose, signals and description over ROS: topics, and TF where tf2_ros is installed.

Every source stands alone: one that is silent says so when it is asked, and takes nothing else with it (R13).
"""

from __future__ import annotations

import abc
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.conditions import DescriptionReader
from robot_mcp_kit.ros.signals import RosSignals
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.config.rcp import RcpSection, RcpTcpSection
from robot_mcp_kit.skills.geometry import Quaternion
from robot_mcp_kit.skills.messages import finite, items
from robot_mcp_kit.skills.readings import Description, NotKnown, RobotReadings, ToolPose

logger = logging.getLogger(__name__)

_NORM_TOLERANCE = 0.01


class _Latest:
    """The latest message of one topic. Heard on the rclpy thread, read on the loop; replaced as a whole."""

    def __init__(
        self,
        node: Any,
        ros: RosThread,
        type_: Any,
        topic: str,
        max_age_s: float,
        also: Callable[[Any], None] = lambda _message: None,
    ) -> None:
        self._node, self._topic, self._max_age_s, self._also = node, topic, max_age_s, also
        self._heard: tuple[Any, float] | None = None
        self._subscription = node.create_subscription(
            type_,
            topic,
            ros.guarded(self.received),
            # Hears reliable publishers too.
            QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT),
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )

    def received(self, message: Any) -> None:
        self._also(message)
        self._heard = (message, time.monotonic())

    def message(self) -> Any:
        """
        Raises:
            NotKnown: nothing was heard, or too long ago.
        """
        heard = self._heard
        if heard is None:
            raise NotKnown(f"nothing was heard on {self._topic} yet")
        age_s = time.monotonic() - heard[1]
        if age_s > self._max_age_s:
            raise NotKnown(f"nothing was heard on {self._topic} for {age_s:.1f} s")
        return heard[0]

    def close(self) -> None:
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None


class _Joints:
    """Every joint's latest position; several nodes may tell some of them each."""

    def __init__(self, node: Any, ros: RosThread, topic: str, max_age_s: float) -> None:
        self._topic, self._max_age_s = topic, max_age_s
        self._known: dict[str, tuple[float, float]] = {}
        self._latest = _Latest(node, ros, JointState, topic, max_age_s, also=self._received)

    def _received(self, message: Any) -> None:
        """rclpy thread. The table is replaced as a whole: the loop reads it without a lock."""
        now_s, known = time.monotonic(), dict(self._known)
        for name, position in zip(items(message, "name"), items(message, "position"), strict=False):
            value = finite(position)
            if value is None:
                known.pop(str(name), None)
            else:
                known[str(name)] = (value, now_s)
        self._known = known

    def positions(self) -> dict[str, float]:
        """
        Raises:
            NotKnown: nothing fresh.
        """
        self._latest.message()
        oldest_s = time.monotonic() - self._max_age_s
        found = {name: value for name, (value, heard_s) in self._known.items() if heard_s >= oldest_s}
        if not found:
            raise NotKnown(f"{self._topic} tells no positions")
        return found

    def close(self) -> None:
        self._latest.close()


class ToolReader(abc.ABC):
    """Where the tool is. Built and closed on the rclpy thread, asked on the loop."""

    @abc.abstractmethod
    def pose(self) -> ToolPose:
        """
        Raises:
            NotKnown: not now.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Stop listening."""


class TopicTool(ToolReader):
    """From a topic of geometry_msgs/msg/PoseStamped."""

    def __init__(self, node: Any, ros: RosThread, section: RcpTcpSection) -> None:
        self._section = section
        self._latest = _Latest(node, ros, PoseStamped, section.topic, section.max_age_s)

    def pose(self) -> ToolPose:
        message = self._latest.message()
        frame = message.header.frame_id
        if frame != self._section.frame:
            raise NotKnown(f"{self._section.topic} is in the frame '{frame}', not in '{self._section.frame}'")
        return _pose(message.pose.position, message.pose.orientation, frame, self._section.topic)

    def close(self) -> None:
        self._latest.close()


class TfTool(ToolReader):
    """From TF.

    Raises:
        ConfigError: tf2_ros is not installed.
    """

    def __init__(self, node: Any, _ros: RosThread, section: RcpTcpSection) -> None:
        try:
            from tf2_ros import Buffer, TransformException, TransformListener
        except ImportError as error:
            raise ConfigError(
                "rcp.tcp.source: tf needs tf2_ros, which is not installed here; "
                "install ros-$ROS_DISTRO-tf2-ros or use source: topic"
            ) from error
        self._section = section
        self._clock = node.get_clock()
        self._buffer = Buffer()
        self._listener = TransformListener(self._buffer, node)
        self._unavailable: type[Exception] = TransformException

    def pose(self) -> ToolPose:
        from rclpy.time import Time

        section = self._section
        try:
            found = self._buffer.lookup_transform(section.frame, section.link, Time())
        except self._unavailable as error:
            raise NotKnown(f"no transform from {section.frame} to {section.link}: {error}") from error
        stamp = found.header.stamp  # not as rclpy's Time, which raises before 1970
        stamp_s = stamp.sec + stamp.nanosec * 1e-9
        age_s = self._clock.now().nanoseconds * 1e-9 - stamp_s
        # A chain of fixed transforms has no time of its own.
        if stamp_s and age_s > section.max_age_s:
            raise NotKnown(f"the transform from {section.frame} to {section.link} is {age_s:.1f} s old")
        moved = found.transform
        return _pose(moved.translation, moved.rotation, section.frame, "TF")

    def close(self) -> None:
        self._listener.unregister()


TOOL_READERS: dict[str, type[TopicTool] | type[TfTool]] = {"topic": TopicTool, "tf": TfTool}
"""By ``rcp.tcp.source``."""


class RosReadings(RobotReadings):
    """Build and close it on the rclpy thread.

    Args:
        node: the bridge's.
        ros: the rclpy thread.
        section: where to look.
        signals: the robot's inputs and outputs; closed by whoever made them.

    Raises:
        ConfigError: tf2_ros is not installed.
    """

    def __init__(self, node: Any, ros: RosThread, section: RcpSection, signals: RosSignals) -> None:
        self._section, self._signals = section, signals
        self._tool: ToolReader | None = None
        if section.tcp is not None:
            self._tool = TOOL_READERS[section.tcp.source](node, ros, section.tcp)
        self._joints = _Joints(node, ros, section.joints, section.joints_max_age_s)
        self._description: DescriptionReader | None = None
        if section.robot_description is not None:
            self._description = DescriptionReader(node, ros, section.robot_description)

    def close(self) -> None:
        """Stop listening. Harmless when repeated."""
        for source in (self._joints, self._tool, self._description):
            if source is not None:
                source.close()
        self._tool = self._description = None

    def description(self) -> Description:
        if self._description is None:
            raise NotKnown("the skills file names no topic for the robot description (rcp.robot_description)")
        if self._description.described is None:
            raise NotKnown(f"nothing usable was heard on {self._section.robot_description} yet")
        return self._description.described

    def joints(self) -> Mapping[str, float]:
        return self._joints.positions()

    def tool(self) -> ToolPose:
        if self._tool is None:
            raise NotKnown("the skills file names no source for the tool's pose (rcp.tcp)")
        return self._tool.pose()

    def signal(self, name: str) -> float:
        return self._signals.value(name)


def _pose(position: Any, orientation: Any, frame: str, source: str) -> ToolPose:
    at = (float(position.x), float(position.y), float(position.z))
    q = Quaternion(float(orientation.x), float(orientation.y), float(orientation.z), float(orientation.w))
    if not all(math.isfinite(value) for value in (*at, *q)) or abs(q.norm - 1.0) > _NORM_TOLERANCE:
        raise NotKnown(f"{source} tells no pose: its numbers are not finite, or its rotation is none")
    norm = q.norm
    return ToolPose(frame, at, Quaternion(q.x / norm, q.y / norm, q.z / norm, q.w / norm))
