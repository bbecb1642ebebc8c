"""Cancel requests of one goal, and what came back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, CancelReply
from robot_mcp_kit.clock import Clock

logger = logging.getLogger(__name__)

CANCEL_TRIES = 3


class Canceller:
    """Sends cancel requests; a request is not an outcome, the goal's result is.

    Args:
        port: the action server.
        clock: for the repetition of unanswered requests.
        keep: holds the background tasks.
        on_refused: told in words when the server does not stop the goal, with the reply's code.
        on_unknown: the server says that it does not know the goal; whoever waits for its end has to ask.
    """

    def __init__(
        self,
        port: ActionPort,
        clock: Clock,
        keep: Callable[[asyncio.Task[Any]], None],
        on_refused: Callable[[int, str], None],
        on_unknown: Callable[[], None],
    ) -> None:
        self._port = port
        self._clock = clock
        self._keep = keep
        self._on_refused, self._on_unknown = on_refused, on_unknown
        self._sends, self._begun = 0, 0
        self._sent_s = 0.0
        self._reply: CancelReply | None = None

    def begin(self, goal_id: UUID) -> None:
        """The first request to a server that should know the goal; what was sent before does not count."""
        self._sends, self._reply = 0, None
        self._begun += 1
        self.send(goal_id)

    def send_early(self, goal_id: UUID) -> None:
        """One request while it is not known yet whether the server has the goal."""
        if self._sends == 0:
            self.send(goal_id)

    def send(self, goal_id: UUID) -> asyncio.Task[None]:
        """Put a request on the wire in the next loop turn; the task ends with its answer and never raises."""
        self._sends += 1
        self._sent_s = self._clock.now()
        task = asyncio.create_task(self.ask(goal_id), name=f"cancel of goal {goal_id}")
        self._keep(task)
        return task

    def repeat_if_unanswered(self, goal_id: UUID, after_s: float) -> None:
        """Send again, at most :data:`CANCEL_TRIES` times in all, while no answer came."""
        unanswered = self._reply is None and 0 < self._sends < CANCEL_TRIES
        if unanswered and self._clock.now() - self._sent_s >= after_s:
            logger.warning("%s did not answer the cancel; asking again", self._port.name)
            self.send(goal_id)

    @property
    def answered(self) -> bool:
        """Whether a server that knows the goal has heard of its cancel."""
        return self._reply is not None and self._reply.code != 2

    async def ask(self, goal_id: UUID) -> None:
        """One request and its answer."""
        begun = self._begun
        try:
            reply = await self._port.cancel_goal(goal_id)
        except Exception as error:
            logger.warning("the cancel request to %s failed: %r", self._port.name, error)
            return
        if reply.code == 2 and begun != self._begun:
            return  # asked before the server had the goal
        self._reply = reply
        if reply.code == 3 or (reply.code == 0 and reply.canceling):
            logger.info("%s answered the cancel (code %d)", self._port.name, reply.code)
            return
        # 1, 2, or 0 with an empty list (how an rclpy server refuses): told, and the result decides (B23).
        words = "does not know the goal" if reply.code == 2 else "refused to stop the goal"
        logger.warning("%s %s (cancel code %d)", self._port.name, words, reply.code)
        self._on_refused(reply.code, f"{self._port.name} {words}; the robot may still be moving.")
        if reply.code == 2:
            self._on_unknown()
