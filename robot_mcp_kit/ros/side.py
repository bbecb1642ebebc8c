"""The node's ROS half as one object: context, node, rclpy thread, action ports and the stop service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from robot_mcp_kit.ros.action_port import RosActionPorts
from robot_mcp_kit.ros.pose import POSE_READERS, PoseReader
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.config import RobotSection

logger = logging.getLogger(__name__)

NODE_NAME = "bridge"


class RosSide:
    """Everything of ROS that one node owns.

    Build it before the event loop runs (parameters are read from :attr:`node` to configure the rest), call
    :meth:`start` on the loop, and :meth:`close` at the end.

    Args:
        arguments: command line; what follows ``--ros-args`` is ROS's.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.context = rclpy.Context()
        # The event loop handles signals: rclpy's own handler would tear the context down before running goals
        # are cancelled and events flushed (rclpy#1390).
        rclpy.init(
            args=["robot_mcp_kit", *arguments],
            context=self.context,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self.node: Any = rclpy.create_node(NODE_NAME, context=self.context)
        self.thread: RosThread | None = None
        self.ports: RosActionPorts | None = None

    async def start(self, *, on_death: Callable[[str], None]) -> RosActionPorts:
        """Begin to spin. The ports of actions are created on the answer."""
        self.thread = RosThread(self.context, self.node, asyncio.get_running_loop(), on_death=on_death)
        self.thread.start()
        self.ports = RosActionPorts(self.node, self.thread)
        return self.ports

    async def read_pose(self, robot: RobotSection) -> PoseReader:
        """Begin to read where the robot is, by the adapter that ``robot.pose.source`` names.

        Raises:
            ConfigError: that adapter needs something which is not installed.
        """
        thread = self._running()
        make = POSE_READERS[robot.pose.source]
        return await thread.call(lambda: make(self.node, thread, robot))

    async def offer_stop(self, on_stop: Callable[[], None]) -> None:
        """Offer ``~/stop`` (std_srvs/Trigger, B37).

        ``on_stop`` runs on the loop and sends the cancels; the service answers as soon as that was asked for,
        since a stop must not wait for a goal that does not end.
        """
        thread = self._running()

        def answer(_request: Any, response: Any) -> Any:
            thread.hand_over(on_stop)
            response.success = True
            response.message = "stop requested for everything this bridge runs"
            return response

        await thread.call(lambda: self.node.create_service(Trigger, "~/stop", answer))

    def close(self) -> None:
        """Stop spinning and leave the graph. Blocks for up to three seconds; harmless when repeated."""
        if self.thread is not None:
            self.thread.stop()
            self.thread = None
        if self.context.ok():
            self.node.destroy_node()
            self.context.try_shutdown()

    def _running(self) -> RosThread:
        if self.thread is None:
            raise RuntimeError("the ROS side was not started")
        return self.thread
