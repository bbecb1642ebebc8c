"""Feedback messages as the navigator sends them, without ROS: the reader goes by attribute."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from robot_mcp_kit.skills.geometry import yaw_to_quaternion


def duration(seconds: float) -> Any:
    """``builtin_interfaces/msg/Duration``: the nanosec part is never negative."""
    sec = math.floor(seconds)
    return SimpleNamespace(sec=sec, nanosec=round((seconds - sec) * 1e9))


def pose(x_m: float = 0.0, y_m: float = 0.0, yaw_rad: float = 0.0, frame: str = "map") -> Any:
    q = yaw_to_quaternion(yaw_rad)
    return SimpleNamespace(
        header=SimpleNamespace(frame_id=frame),
        pose=SimpleNamespace(
            position=SimpleNamespace(x=x_m, y=y_m, z=0.0),
            orientation=SimpleNamespace(x=q.x, y=q.y, z=q.z, w=q.w),
        ),
    )


def feedback(
    time_s: float,
    distance_m: float,
    eta_s: float = 0.0,
    *,
    at: Any = None,
    recoveries: int = 0,
) -> Any:
    return SimpleNamespace(
        current_pose=pose() if at is None else at,
        navigation_time=duration(time_s),
        estimated_time_remaining=duration(eta_s),
        number_of_recoveries=recoveries,
        distance_remaining=distance_m,
    )


def empty_feedback() -> Any:
    """What a navigator sends that has nothing to say: every field at its default."""
    at = pose(frame="")
    at.pose.orientation.w = 0.0
    return feedback(0.0, 0.0, at=at)
