"""The node's ROS half as one object: context, lifecycle node, rclpy thread and the stop service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.lifecycle import LifecycleNode
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from robot_mcp_kit.ros.shared_memory import remove_unfinished_ports
from robot_mcp_kit.ros.thread import RosThread

logger = logging.getLogger(__name__)

NODE_NAME = "bridge"


class RosSide:
    """What of ROS lives as long as the process.

    Build it before the event loop runs, call :meth:`start` on the loop, and :meth:`close` at the end.

    Args:
        arguments: command line; what follows ``--ros-args`` is ROS's.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        remove_unfinished_ports()
        self.context = rclpy.Context()
        # The event loop handles signals: rclpy's own handler would tear the context down before running goals
        # are cancelled and events flushed (rclpy#1390).
        rclpy.init(
            args=["robot_mcp_kit", *arguments],
            context=self.context,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self.node: Any = LifecycleNode(NODE_NAME, context=self.context)
        self._thread: RosThread | None = None

    @property
    def thread(self) -> RosThread:
        """The rclpy thread, once started."""
        if self._thread is None:
            raise RuntimeError("the ROS side was not started")
        return self._thread

    def start(self, *, on_death: Callable[[str], None], executor: str = "auto") -> RosThread:
        """Begin to spin; ``on_death`` is told on the loop when that ends unasked.

        Raises:
            LookupError: this rclpy does not have that executor.
        """
        loop = asyncio.get_running_loop()
        self._thread = RosThread(self.context, self.node, loop, on_death=on_death, executor=executor)
        self._thread.start()
        return self._thread

    async def offer_stop(self, on_stop: Callable[[], tuple[bool, str]]) -> None:
        """Offer ``~/stop`` (std_srvs/Trigger, B37).

        Args:
            on_stop: runs on the rclpy thread, asks for the stop without waiting for it (it must not wait for
                a goal that does not end), and says what the service answers: success and message.
        """

        def answer(_request: Any, response: Any) -> Any:
            response.success, response.message = on_stop()
            return response

        await self.thread.call(lambda: self.node.create_service(Trigger, "~/stop", answer))

    def close(self) -> None:
        """Stop spinning and leave the graph. Blocks for up to three seconds; harmless when repeated."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        if self.context.ok():
            self.node.destroy_node()
            self.context.try_shutdown()
