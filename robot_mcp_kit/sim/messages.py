"""Small conversions between plain numbers and ROS messages."""

from __future__ import annotations

import math

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import PoseStamped, Quaternion

from robot_mcp_kit.sim.clock import split_s
from robot_mcp_kit.sim.floorplan import Pose


def code(result: type, name: str, kilted: int) -> int:
    """An error code by its name; Kilted's number where this distribution has no constant for it."""
    return int(getattr(result, name, kilted))


def duration(seconds: float) -> Duration:
    sec, nanosec = split_s(seconds)
    return Duration(sec=sec, nanosec=nanosec)


def stamp(seconds: float) -> Time:
    sec, nanosec = split_s(seconds)
    return Time(sec=sec, nanosec=nanosec)


def seconds(value: Duration) -> float:
    """Seconds of a Duration; sec may be negative with a positive nanosec."""
    return float(value.sec) + float(value.nanosec) * 1e-9


def quaternion(yaw_rad: float) -> Quaternion:
    return Quaternion(x=0.0, y=0.0, z=math.sin(yaw_rad / 2), w=math.cos(yaw_rad / 2))


def yaw(q: Quaternion) -> float:
    """Yaw of a quaternion of any length; 0 for the zero quaternion (which Nav2 does not refuse either)."""
    return math.atan2(2.0 * (q.w * q.z + q.x * q.y), q.w**2 + q.x**2 - q.y**2 - q.z**2)


def planar(pose: PoseStamped) -> Pose:
    return Pose(float(pose.pose.position.x), float(pose.pose.position.y), yaw(pose.pose.orientation))


def pose_stamped(pose: Pose, frame: str, stamp_s: float) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = frame
    message.header.stamp = stamp(stamp_s)
    message.pose.position.x = pose.x_m
    message.pose.position.y = pose.y_m
    message.pose.orientation = quaternion(pose.yaw_rad)
    return message
