"""Three questions about the other side: is the server there, how did the goal end, did another goal take
over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, GoalResult
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock

PREEMPTION_MEMORY_S = 2.0


class ServerWatch:
    """Notices that a server left: nothing in ROS completes a result then (case E40).

    Args:
        port: the action server.
        lost_after_s: absence that counts as lost.
        on_back: it was out of sight for less than that.
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

    def look(self, now_s: float) -> None:
        """To be called now and then while a goal is, or may be, at the server."""
        if self._port.server_ready():
            if self._absent_since_s is not None:
                self._absent_since_s = None
                self._on_back()
        elif self._absent_since_s is None:
            self._absent_since_s = now_s
        elif now_s - self._absent_since_s >= self._lost_after_s:
            self._on_lost()


class ResultQuestion:
    """Asks for one goal's result; asking only reads, so it may be repeated.

    Args:
        port: the action server.
        keep: holds the background task.
    """

    def __init__(self, port: ActionPort, keep: Callable[[asyncio.Task[Any]], None]) -> None:
        self._port = port
        self._keep = keep
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
        while True:
            self._again.clear()
            asking = asyncio.ensure_future(self._port.get_result(goal_id))
            again = asyncio.ensure_future(self._again.wait())
            try:
                await asyncio.wait({asking, again}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    return asking.result()
            finally:
                again.cancel()
                asking.cancel()


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
