"""Three questions about the other side: is it still the same server, how did the goal end, did another goal
take over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, GoalResult
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock
from robot_mcp_kit.skills.base import GoalStatus

logger = logging.getLogger(__name__)

PREEMPTION_MEMORY_S = 2.0
DOUBT_PERIOD_S = 2.0
"""How often the result is asked for again while an answer cannot be believed."""
DOUBT_LIMIT_S = 30.0
"""When a goal that no server ever showed is given up; longer than a dead server stays in sight (20 s)."""


class ServerWatch:
    """Notices that a server left, or that another took its place: nothing in ROS completes a result then
    (case E40).

    A server that comes back at once leaves no gap: for 20 s a killed one counts as there, and one that is
    made anew in its node is away for milliseconds. Its identity tells.

    Args:
        port: the action server.
        lost_after_s: absence that counts as lost.
        on_back: it was out of sight for less than that, or the servers are not the same as before.
        on_lost: it was not.
    """

    def __init__(
        self,
        port: ActionPort,
        lost_after_s: float,
        on_back: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._port = port
        self._lost_after_s = lost_after_s
        self._on_back, self._on_lost = on_back, on_lost
        self._absent_since_s: float | None = None
        self._known: frozenset[bytes] = frozenset()
        self._sent_to: frozenset[bytes] = frozenset()

    def goal_leaves(self, servers: Iterable[bytes]) -> None:
        """These servers, and no later ones, get the goal."""
        self._known = self._sent_to = frozenset(servers)

    def look(self, now_s: float) -> None:
        """To be called now and then while a goal is, or may be, at the server."""
        if self._port.server_ready():
            was_absent, self._absent_since_s = self._absent_since_s is not None, None
            if self._changed() or was_absent:
                self._on_back()
        elif self._absent_since_s is None:
            self._absent_since_s = now_s
        elif now_s - self._absent_since_s >= self._lost_after_s:
            self._on_lost()

    def _changed(self) -> bool:
        now = frozenset(self._port.servers())
        if not now or now == self._known:
            return False
        before, self._known = self._known, now
        if before:
            logger.warning(
                "%s: %d new and %d gone of its action servers",
                self._port.name,
                len(now - before),
                len(before - now),
            )
        return True

    def all_know(self) -> bool:
        """Whether one server's "I do not know that goal" speaks for all that could know it.

        The question goes to every server, and only the first answer is heard: with several, it may come from
        one that never had the goal while another works on it.
        """
        now = self._port.servers().keys()
        return len(now) <= 1 or (bool(self._sent_to) and not now & self._sent_to)


class ResultQuestion:
    """Asks for one goal's result; asking only reads, so it may be repeated.

    Args:
        port: the action server.
        clock: for the repetition while an answer is in doubt.
        keep: holds the background task.
        is_certain: whether an answer that the goal is not known speaks for every server.
        was_seen: whether any server ever showed the goal; if not, the doubt ends after
            :data:`DOUBT_LIMIT_S`.
    """

    def __init__(
        self,
        port: ActionPort,
        clock: Clock,
        keep: Callable[[asyncio.Task[Any]], None],
        is_certain: Callable[[], bool],
        was_seen: Callable[[], bool],
    ) -> None:
        self._port, self._clock, self._keep = port, clock, keep
        self._is_certain, self._was_seen = is_certain, was_seen
        self._again = asyncio.Event()
        self._task: asyncio.Task[GoalResult] | None = None

    def ask(self, goal_id: UUID) -> asyncio.Task[GoalResult]:
        """The one question of this run, asked at the first call."""
        if self._task is None:
            self._task = asyncio.create_task(self._ask(goal_id), name=f"result of goal {goal_id}")
            self._keep(self._task)
        return self._task

    def ask_again(self) -> None:
        """The server may have restarted and lost the question."""
        self._again.set()

    def forget(self) -> None:
        """Ask anew the next time."""
        self.close()
        self._task = None

    def close(self) -> None:
        """The answer is no longer wanted."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self, goal_id: UUID) -> GoalResult:
        asked: list[asyncio.Task[GoalResult]] = []
        doubted_s: float | None = None
        period_s: float | None = None
        again = asyncio.ensure_future(self._again.wait())
        try:
            while True:
                self._again.clear()
                if again.done():
                    again = asyncio.ensure_future(self._again.wait())
                # The first stays open: perhaps only the server with the goal got it.
                for old in asked[1:]:
                    _drop(old)
                    await asyncio.wait({old})
                del asked[1:]
                asked.append(asyncio.create_task(self._port.get_result(goal_id)))
                while True:
                    got = await first_of(self._clock, *asked, again, timeout_s=period_s)
                    answered = next((question for question in asked if question is got), None)
                    if answered is None:
                        break
                    asked.remove(answered)
                    result = answered.result()
                    now_s = self._clock.now()
                    first_doubt = doubted_s is None
                    doubted_s = now_s if doubted_s is None else doubted_s
                    given_up = now_s - doubted_s >= DOUBT_LIMIT_S and not self._was_seen()
                    if result.status != GoalStatus.UNKNOWN or self._is_certain() or given_up:
                        return result
                    if first_doubt:
                        logger.warning("one server of %s does not know goal %s", self._port.name, goal_id)
                    period_s = DOUBT_PERIOD_S
        finally:
            for question in asked:
                _drop(question)
            again.cancel()


def _drop(question: asyncio.Task[GoalResult]) -> None:
    question.add_done_callback(lambda done: done.cancelled() or done.exception())
    question.cancel()


class Takeover:
    """Whether another goal replaced ours. ROS 2 has no status for that: ours is ABORTED without a reason.

    Args:
        clock: monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = asyncio.Event()
        self._seen_s: float | None = None
        self.by: str | None = None
        """The task of ours that took over, if it was one."""

    def other_goal_started(self) -> None:
        """Some other goal of the server became EXECUTING."""
        self._seen_s = self._clock.now()
        self._seen.set()

    @property
    def happened(self) -> bool:
        """Whether that explains an end now."""
        if self.by is not None:
            return True
        return self._seen_s is not None and self._clock.now() - self._seen_s <= PREEMPTION_MEMORY_S

    async def happens_within(self, window_s: float) -> bool:
        """As :attr:`happened`; the news of the other goal may come a little after our result."""
        if not self.happened:
            self._seen.clear()
            other = asyncio.ensure_future(self._seen.wait())
            await first_of(self._clock, other, timeout_s=window_s)
            other.cancel()
        return self.happened

    def words(self) -> str:
        """Who it was."""
        return f"The task {self.by} took over." if self.by else "A goal that is not one of ours took over."
