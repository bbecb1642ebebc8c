"""A witness of a robot: says on standard output, in JSON lines, what the ROS graph shows. Never sends a goal.

Demos, tests and benchmarks use it to measure independently of the bridge, in a process of its own. Times are
``CLOCK_MONOTONIC`` seconds, which every process of a machine shares.

Lines: ``{"kind": "ready"}`` once the action server and the pose are seen; ``{"kind": "pose", "t_s", "x_m",
"y_m", "yaw_rad", "frame"}``, from TF, at most ten a second; ``{"kind": "status", "t_s", "goal_id",
"status"}`` at each change of a goal's status (``action_msgs/msg/GoalStatus``).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rclpy
from action_msgs.msg import GoalStatusArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_action_status_default
from rclpy.signals import SignalHandlerOptions
from tf2_msgs.msg import TFMessage

_SPIN_S = 0.2
_POSE_PERIOD_S = 0.1
_MAX_CHAIN = 20


@dataclass(frozen=True, slots=True)
class Transform:
    """A planar transform to ``parent``: metres, radians."""

    parent: str
    x_m: float
    y_m: float
    yaw_rad: float


class Witness:
    """Prints what it sees.

    Args:
        node: an rclpy node.
        action: the action whose goals are watched.
        map_frame: TF frame that poses are given in.
        base_frame: TF frame of the robot.
    """

    def __init__(self, node: Any, action: str, map_frame: str, base_frame: str) -> None:
        self._node = node
        self._map_frame = map_frame
        self._base_frame = base_frame
        self._transforms: dict[str, Transform] = {}
        self._statuses: dict[str, int] = {}
        self._pose_due_s = 0.0
        self._pose_seen = False
        self._ready_said = False
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(TFMessage, "tf", self._on_tf, 100)
        node.create_subscription(TFMessage, "tf_static", self._on_tf, latched)
        status = node.create_subscription(
            GoalStatusArray, f"{action}/_action/status", self._on_status, qos_profile_action_status_default
        )
        self._status_topic: str = status.topic_name

    def check_ready(self) -> None:
        """Say ``ready`` once, when the pose is known and the action server's status topic is there."""
        if not self._ready_said and self._pose_seen and self._node.count_publishers(self._status_topic) > 0:
            self._ready_said = True
            _say(kind="ready")

    def _on_tf(self, message: TFMessage) -> None:
        for stamped in message.transforms:
            move, q = stamped.transform.translation, stamped.transform.rotation
            yaw_rad = math.atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
            self._transforms[stamped.child_frame_id] = Transform(
                stamped.header.frame_id, move.x, move.y, yaw_rad
            )
        now_s = time.monotonic()
        if now_s < self._pose_due_s:
            return
        pose = self._pose()
        if pose is not None:
            self._pose_seen = True
            self._pose_due_s = now_s + _POSE_PERIOD_S
            x_m, y_m, yaw_rad = pose
            _say(kind="pose", t_s=now_s, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad, frame=self._map_frame)

    def _pose(self) -> tuple[float, float, float] | None:
        """The robot's pose, walking up the tree from its base; ``None`` while a transform is missing."""
        x_m = y_m = yaw_rad = 0.0
        frame = self._base_frame
        for _ in range(_MAX_CHAIN):
            if frame == self._map_frame:
                return x_m, y_m, yaw_rad
            up = self._transforms.get(frame)
            if up is None:
                return None
            cos, sin = math.cos(up.yaw_rad), math.sin(up.yaw_rad)
            x_m, y_m = up.x_m + cos * x_m - sin * y_m, up.y_m + sin * x_m + cos * y_m
            yaw_rad = math.remainder(up.yaw_rad + yaw_rad, math.tau)
            frame = up.parent
        return None

    def _on_status(self, message: GoalStatusArray) -> None:
        now_s = time.monotonic()
        for entry in message.status_list:
            goal_id = bytes(entry.goal_info.goal_id.uuid).hex()
            if self._statuses.get(goal_id) != entry.status:
                self._statuses[goal_id] = entry.status
                _say(kind="status", t_s=now_s, goal_id=goal_id, status=entry.status)


def _say(**content: object) -> None:
    print(json.dumps(content), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until SIGINT, SIGTERM, or until nobody reads any more."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description="Say in JSON lines what a robot does, without touching it.")
    parser.add_argument("--action", default="navigate_to_pose", help="the action whose goals are watched")
    parser.add_argument("--map-frame", default="map")
    parser.add_argument("--base-frame", default="base_link")
    args, ros_words = parser.parse_known_args(words)
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    context = rclpy.Context()
    rclpy.init(args=ros_words, context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("witness", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        witness = Witness(node, args.action, args.map_frame, args.base_frame)
        while not ended:
            executor.spin_once(timeout_sec=_SPIN_S)
            witness.check_ready()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown(context=context)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
