"""Goals that nobody follows any more and that may still run: they are cancelled until their end is known."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, CancelReply
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock
from robot_mcp_kit.skills.base import GoalStatus

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 2.0
ARRIVAL_S = 60.0
"""How long a goal that no server ever showed may still arrive: a server that took so long to decide."""
GIVE_UP_S = 3600.0
"""After this without a word of its server the goal is given up; the robot was off, or is another one now."""
FOUND = "The goal was found, and has ended."
_ENDED = (GoalStatus.SUCCEEDED, GoalStatus.CANCELED, GoalStatus.ABORTED)


class Hunt:
    """One such goal. Asking for a cancel does no harm, however often and whether or not the goal is there.

    Args:
        port: the goal's action server.
        goal_id: the goal.
        clock: monotonic time.
        keep: holds the background tasks.
        seen: a server has, or had, the goal; if not, it may still arrive.
        is_certain: whether "I do not know that goal" speaks for every server.
        on_over: told once whether the goal is known to have ended; not when the process ends before.
    """

    def __init__(
        self,
        port: ActionPort,
        goal_id: UUID,
        clock: Clock,
        keep: Callable[[asyncio.Task[None]], None],
        *,
        seen: bool,
        is_certain: Callable[[], bool],
        on_over: Callable[[bool], None],
    ) -> None:
        self._port, self._goal_id, self._clock, self._keep = port, goal_id, clock, keep
        self._seen, self._is_certain, self._on_over = seen, is_certain, on_over
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the goal is known to have ended (``True``), or to be known by nobody (``False``)."""
        self._began_s = clock.now()
        self._asking: asyncio.Task[None] | None = None
        self._is_found = False

    def begin(self) -> None:
        """The first request leaves in the next turn of the loop, or as soon as there is a server."""
        asked = self.is_reachable()
        if asked:
            self.ask(only_this=True)
        self._keep(asyncio.create_task(self._run(asked), name=f"hunt for goal {self._goal_id}"))

    def is_reachable(self) -> bool:
        """Whether an answer can be expected."""
        try:
            return self._port.server_ready()
        except Exception:  # ROS may be gone; a request that still leaves does no harm
            return True

    def ask(self, *, only_this: bool = False) -> asyncio.Task[None]:
        """Send a cancel in the next turn of the loop; the task ends with its answer and never raises.

        Args:
            only_this: keep from what would stop other goals of the server as well.
        """
        if self._asking is not None:
            self._asking.cancel()  # its answer would not come any more, or is as good as the next one's
        self._asking = asyncio.create_task(self._ask(only_this), name=f"cancel of goal {self._goal_id}")
        self._keep(self._asking)
        return self._asking

    async def _ask(self, only_this: bool) -> None:
        try:
            reply = await self._port.cancel_goal(self._goal_id, only_this=only_this)
        except Exception as error:
            logger.debug("the cancel of goal %s at %s failed: %r", self._goal_id, self._port.name, error)
            return
        self._judge(reply)

    def _judge(self, reply: CancelReply) -> None:
        if reply.code == 3:
            self._end(True)
        elif reply.code == 0 and reply.canceling:
            # Its status says when it has ended.
            self._found(ask=self._port.has_stop_topic)
        elif reply.code == 2 and self._is_certain():
            may_still_arrive = not self._seen and self._clock.now() - self._began_s < ARRIVAL_S
            if not may_still_arrive:
                self._end(False)

    def _on_status(self, status: int) -> None:
        if status in _ENDED:
            self._end(True)
        elif status != GoalStatus.UNKNOWN:
            self._found(ask=True)

    def _found(self, *, ask: bool) -> None:
        """It is there: from now on by every means that stops it."""
        self._seen = True
        if not self._is_found:
            self._is_found = True
            logger.warning(
                "the goal %s is at %s after its task's end; cancelling it", self._goal_id, self._port.name
            )
            if ask:
                self.ask()

    def _end(self, known: bool) -> None:
        if not self.over.done():
            self.over.set_result(known)
            self._on_over(known)

    async def _run(self, asked: bool) -> None:
        watch = self._port.watch(self._goal_id, on_feedback=lambda _: None, on_status=self._on_status)
        try:
            if asked:
                await first_of(self._clock, self.over, timeout_s=ASK_AGAIN_S)
            while not self.over.done() and self._clock.now() - self._began_s < GIVE_UP_S:
                if await self._server_comes():
                    self.ask(only_this=not self._is_found)
                    await first_of(self._clock, self.over, timeout_s=ASK_AGAIN_S)
            self._end(False)
        finally:
            watch.close()

    async def _server_comes(self) -> bool:
        """Whether it is here within a moment."""
        looking = asyncio.ensure_future(self._port.wait_for_server(ASK_AGAIN_S))
        try:
            await first_of(self._clock, looking, self.over, timeout_s=ASK_AGAIN_S)
            with contextlib.suppress(Exception):
                return looking.done() and looking.result()
            await first_of(self._clock, self.over, timeout_s=ASK_AGAIN_S)  # ROS is gone
            return False
        finally:
            looking.cancel()
