"""Time that moves only when the test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools

SETTLE_TURNS = 50
_ROUNDING_S = 1e-6
"""4.8 s and 0.1 s make 4.9 s, whatever floats say."""


class FakeClock:
    """Stands in for the system's clock wherever the kit takes ``clock=``, and its :meth:`wall` for
    ``wall_clock=``.

    Sleepers wake in the order of their due times, each at its own time, so a schedule of hours runs in no
    time and in its real order. Use it from one event loop.

    Args:
        start_s: monotonic seconds at the beginning.
        wall_s: Unix seconds at the beginning.
    """

    def __init__(self, start_s: float = 0.0, *, wall_s: float = 1_765_532_000.0) -> None:
        self._now_s = start_s
        self._wall_offset_s = wall_s - start_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Monotonic seconds."""
        return self._now_s

    def wall(self) -> float:
        """Unix seconds: follows :meth:`now`, apart from :meth:`step_wall`."""
        return self._now_s + self._wall_offset_s

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as a time server would, without any time passing."""
        self._wall_offset_s += seconds

    async def sleep(self, seconds: float, /) -> None:
        """Suspend until the test has advanced that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + seconds, next(self._order), future))
        await future

    @property
    def sleeping(self) -> int:
        """How many are asleep now."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def next_due_s(self) -> float | None:
        """When the next sleeper wakes, in monotonic seconds."""
        self._forget_gone()
        return self._sleepers[0][0] if self._sleepers else None

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass: wake whoever is due, one due time after the other, and let each act.

        Code that waits for a real socket meanwhile is not waited for; use :func:`assert_eventually` in
        between.
        """
        target_s = self._now_s + seconds
        await settle()
        while (due_s := self.next_due_s()) is not None and due_s <= target_s + _ROUNDING_S:
            self._now_s = max(self._now_s, due_s)
            while self._sleepers and self._sleepers[0][0] <= self._now_s + _ROUNDING_S:
                future = heapq.heappop(self._sleepers)[2]
                if not future.done():
                    future.set_result(None)
            await settle()
        self._now_s = max(self._now_s, target_s)
        await settle()

    def _forget_gone(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)


async def settle(turns: int = SETTLE_TURNS) -> None:
    """Let everything that is ready on the loop run, and what becomes ready by it."""
    for _ in range(turns):
        await asyncio.sleep(0)
