"""Where the robot is, measured: from a pose topic, or from TF where tf2_ros is installed (B18)."""

from __future__ import annotations

import abc
import logging
import math
import time
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import DurabilityPolicy, QoSProfile

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config import PoseSection, RobotSection
from robot_mcp_kit.skills.messages import planar

logger = logging.getLogger(__name__)

NO_IDEA = 1e6
"""In place of a standard deviation that is no number."""


class PoseReader(abc.ABC):
    """Answers where the robot's base is in the map frame, from what has already arrived. Never waits."""

    wrong_frame: str = ""
    """The frame of poses that were heard and are not used, because it is not the map frame."""
    _said_unreadable = False

    @abc.abstractmethod
    def pose(self, *, any_age: bool = False) -> Pose2D | None:
        """The latest measured pose in the map frame, ``None`` while unknown, (unless ``any_age``) too old, or
        no pose at all: a number that is not finite, a rotation of zeros.
        """

    def spread(self) -> tuple[float, float] | None:
        """Standard deviations of that position (m, the worse axis) and heading (rad), where they are told."""
        return None

    @abc.abstractmethod
    def age_s(self) -> float | None:
        """Seconds since that pose arrived (topic) or was stamped (TF); ``None`` while unknown."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop listening. On the rclpy thread."""

    def _say_unreadable(self, source: str) -> None:
        """Once: poses may be asked for at a high rate."""
        if not self._said_unreadable:
            self._said_unreadable = True
            logger.error(
                "%s tells no pose: a number is not finite, or the rotation is all zero; where the robot is "
                "counts as not known while that lasts (said once)",
                source,
            )


class TopicPose(PoseReader):
    """The latest message of a pose topic. Build it on the rclpy thread."""

    def __init__(self, node: Any, ros: RosThread, robot: RobotSection) -> None:
        self._map_frame = robot.map_frame
        self._section: PoseSection = robot.pose
        self._latest: tuple[Any, float] | None = None
        self._said_frames: set[str] = set()
        durabilities = [DurabilityPolicy.VOLATILE]
        if self._section.type == "geometry_msgs/msg/PoseWithCovarianceStamped":
            # AMCL publishes latched and is silent while the robot stands, so the last pose must be asked for;
            # but a latched subscription hears no volatile publisher, so there is one of each.
            durabilities.append(DurabilityPolicy.TRANSIENT_LOCAL)
        self._node = node
        self._subscriptions = [
            node.create_subscription(
                load_interface(self._section.type),
                self._section.topic,
                ros.guarded(self._received),
                QoSProfile(depth=1, durability=durability),
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
            for durability in durabilities
        ]

    def close(self) -> None:
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    def _received(self, message: Any) -> None:
        self._latest = (message, time.monotonic())

    def age_s(self) -> float | None:
        latest = self._latest
        return None if latest is None else time.monotonic() - latest[1]

    def spread(self) -> tuple[float, float] | None:
        latest = self._latest
        covariance = None if latest is None else getattr(latest[0].pose, "covariance", None)
        if covariance is None:
            return None
        # Row-major 6 by 6 over x, y, z and the turns about them.
        variances = [float(covariance[index]) for index in (0, 7, 35)]
        if not all(math.isfinite(value) and value >= 0 for value in variances):
            return NO_IDEA, NO_IDEA
        return math.sqrt(max(variances[:2])), math.sqrt(variances[2])

    def pose(self, *, any_age: bool = False) -> Pose2D | None:
        latest = self._latest
        if latest is None:
            return None
        message, received_s = latest
        limit_s = None if any_age else self._section.max_age_s
        if limit_s is not None and time.monotonic() - received_s > limit_s:
            return None
        frame = message.header.frame_id
        if frame != self._map_frame:
            self.wrong_frame = frame
            if frame not in self._said_frames:
                self._said_frames.add(frame)
                logger.error(
                    "robot.pose.topic %s is in the frame '%s', not in robot.map_frame '%s'; it is not used",
                    self._section.topic,
                    frame,
                    self._map_frame,
                )
            return None
        pose = message.pose.pose if hasattr(message.pose, "pose") else message.pose
        found = planar(pose.position, pose.orientation, frame)
        if found is None:
            self._say_unreadable(f"robot.pose.topic {self._section.topic}")
        return found


class TfPose(PoseReader):
    """``map_frame`` to ``base_frame`` from TF. Build it on the rclpy thread.

    Raises:
        ConfigError: tf2_ros is not installed.
    """

    def __init__(self, node: Any, _ros: RosThread, robot: RobotSection) -> None:
        try:
            from tf2_ros import Buffer, TransformException, TransformListener
        except ImportError as error:
            raise ConfigError(
                "robot.pose.source: tf needs tf2_ros, which is not installed here; "
                "install ros-$ROS_DISTRO-tf2-ros or use source: topic"
            ) from error
        self._robot = robot
        self._clock = node.get_clock()
        self._buffer = Buffer()
        self._listener = TransformListener(self._buffer, node)
        self._unavailable: type[Exception] = TransformException

    def close(self) -> None:
        self._listener.unregister()

    def age_s(self) -> float | None:
        found = self._look()
        return None if found is None else max(0.0, found[1])

    def pose(self, *, any_age: bool = False) -> Pose2D | None:
        found = self._look()
        if found is None:
            return None
        transform, age_s = found
        limit_s = None if any_age else self._robot.pose.max_age_s
        if limit_s is not None and age_s > limit_s:
            return None
        pose = planar(transform.translation, transform.rotation, self._robot.map_frame)
        if pose is None:
            self._say_unreadable(f"the transform from {self._robot.map_frame} to {self._robot.base_frame}")
        return pose

    def _look(self) -> tuple[Any, float] | None:
        """The latest transform and the seconds since its stamp."""
        from rclpy.time import Time

        try:
            found = self._buffer.lookup_transform(self._robot.map_frame, self._robot.base_frame, Time())
        except self._unavailable:
            return None
        stamp = found.header.stamp  # not as rclpy's Time, which raises before 1970
        return found.transform, self._clock.now().nanoseconds * 1e-9 - (stamp.sec + stamp.nanosec * 1e-9)


POSE_READERS: dict[str, Callable[[Any, RosThread, RobotSection], PoseReader]] = {
    "topic": TopicPose,
    "tf": TfPose,
}
"""By ``robot.pose.source``."""
