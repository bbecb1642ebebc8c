"""Who is sent when: one lane a task, a few workers, one timer. Lives on one event loop."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import logging
import threading
from collections import deque
from dataclasses import dataclass, field

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.delivery import GIVE_UP_AFTER_S, Answer, Sender, retry_delay_s
from robot_mcp_kit.outbox import Outbox, OutboxEntry

logger = logging.getLogger("robot_mcp_kit.events")

_QUIET_SKEW_S = 60.0


@dataclass(slots=True)
class Counters:
    """What a poster counts over its whole life, across loops."""

    delivered: int = 0
    retried: int = 0
    dropped: int = 0
    overflowed: int = 0
    last_error: str | None = None
    last_location: str | None = None
    clock_skew_s: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_dropped(self, *, overflow: bool = False) -> None:
        """Several threads may post at once."""
        with self._lock:
            self.dropped += 1
            self.overflowed += overflow


@dataclass(slots=True, eq=False)
class _Lane:
    """One task's place in the schedule. It is in exactly one of: ready, in flight, delayed."""

    task_id: str
    key: int = 0
    attempts: int = 0
    first_attempt_s: float = 0.0


def log_lost(entry: OutboxEntry, why: str) -> None:
    """The one ERROR that an event which will not arrive gets (K116)."""
    logger.error(
        "lost %s event %s (seq %d) of task %s: %s", entry.type, entry.event_id, entry.seq, entry.task_id, why
    )


class Dispatcher:
    """Empties an outbox through a sender.

    While the head of one task is being retried, that task's later events wait and all others go on (K120).
    All methods are called on ``loop``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        outbox: Outbox,
        sender: Sender,
        clock: Clock,
        counters: Counters,
        max_in_flight: int,
        fail_fast_4xx: bool,
    ) -> None:
        self.loop = loop
        self._outbox = outbox
        self._sender = sender
        self._clock = clock
        self._counters = counters
        self._max_in_flight = max_in_flight
        self._fail_fast_4xx = fail_fast_4xx
        self.in_flight: set[int] = set()
        """Keys that are being sent; they must not be evicted."""
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._delayed: list[tuple[float, int, _Lane]] = []
        self._order = itertools.count()
        self._workers: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due_s = 0.0
        self._drained: list[asyncio.Future[None]] = []
        self._closing = False
        self._abandoned = False

    def wake(self, task_id: str) -> None:
        """This task has something to send."""
        if task_id not in self._lanes:
            lane = self._lanes[task_id] = _Lane(task_id)
            self._ready.append(lane)
        self._staff()

    def wake_all(self) -> None:
        """Everything in the outbox, oldest first: what an earlier process or loop has left."""
        for task_id in self._outbox.task_ids():
            self.wake(task_id)

    def abandon(self) -> None:
        """Its loop has ended: whatever still comes back from it must not touch the outbox."""
        self._abandoned = True
        self.in_flight.clear()

    async def drain(self) -> None:
        """Wait until no task has anything to send."""
        if self._lanes:
            future: asyncio.Future[None] = self.loop.create_future()
            self._drained.append(future)
            await future

    async def close(self, grace_s: float) -> None:
        """One last immediate attempt for every lane, within ``grace_s``; then nothing runs any more
        (K140).
        """
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.wait({self._timer})
        self._ready.extend(lane for _, _, lane in self._delayed)
        self._delayed.clear()
        self._staff()
        bound = asyncio.ensure_future(self._clock.sleep(grace_s))
        while self._workers and not bound.done():
            await asyncio.wait({bound, *self._workers}, return_when=asyncio.FIRST_COMPLETED)
        bound.cancel()
        leftover = set(self._workers)
        for worker in leftover:
            worker.cancel()
        await asyncio.wait({bound, *leftover})
        self._ready.clear()
        for lane in list(self._lanes.values()):
            self._retire(lane)
        await self._sender.aclose()

    # -- workers --------------------------------------------------------------------------------------------

    def _staff(self) -> None:
        """As many workers as there are ready lanes, up to the limit; workers leave when nothing is ready."""
        while len(self._workers) < self._max_in_flight and len(self._workers) - len(self.in_flight) < len(
            self._ready
        ):
            # An empty context: a worker must not inherit the log fields or scopes of whoever posted first.
            worker = self.loop.create_task(self._work(), context=contextvars.Context())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        try:
            while self._ready and not self._abandoned:
                await self._serve(self._ready.popleft())
        finally:
            # At once and not in the done callback: _staff must not count a worker that has just left.
            me = asyncio.current_task()
            if me is not None:
                self._workers.discard(me)

    async def _serve(self, lane: _Lane) -> None:
        try:
            entry = self._outbox.head(lane.task_id)
            if entry is None:
                self._retire(lane)
                return
            if entry.key != lane.key:
                lane.key = entry.key
                lane.attempts = 0
                lane.first_attempt_s = self._clock.now()
            lane.attempts += 1
            self._counters.retried += lane.attempts > 1
            self.in_flight.add(entry.key)
            try:
                answer = await self._sender.attempt(entry)
            finally:
                self.in_flight.discard(entry.key)
            if not self._abandoned:
                self._settle(lane, entry, answer)
        except Exception as exc:
            # A broken outbox must not end the lane (K125): its event is tried again, at worst delivered
            # twice.
            self._counters.last_error = f"{type(exc).__name__}: {exc}"
            logger.exception("while sending for task %s", lane.task_id)
            self._again(lane, retry_delay_s(max(1, lane.attempts)))

    def _settle(self, lane: _Lane, entry: OutboxEntry, answer: Answer) -> None:
        if answer.delivered:
            self._outbox.remove(entry.key)
            self._counters.delivered += 1
            self._ready.append(lane)
            return
        self._counters.last_error = answer.error
        self._tell(lane, entry, answer)
        delay_s = retry_delay_s(lane.attempts)
        elapsed_s = self._clock.now() - lane.first_attempt_s
        refused = self._fail_fast_4xx and answer.refused
        if refused or elapsed_s + delay_s > GIVE_UP_AFTER_S:
            self._outbox.remove(entry.key)
            self._counters.count_dropped()
            log_lost(entry, f"given up after {lane.attempts} attempts in {elapsed_s:.1f} s: {answer.error}")
            self._ready.append(lane)
            return
        self._again(lane, delay_s)

    def _tell(self, lane: _Lane, entry: OutboxEntry, answer: Answer) -> None:
        logger.log(
            logging.WARNING if lane.attempts == 1 else logging.INFO,
            "attempt %d for %s event %s (seq %d) of task %s: %s",
            lane.attempts,
            entry.type,
            entry.event_id,
            entry.seq,
            entry.task_id,
            answer.error,
        )
        counters = self._counters
        if answer.location is not None and answer.location != counters.last_location:
            counters.last_location = answer.location
            logger.error("the callback URL redirects to %s; not followed, change the URL", answer.location)
        if answer.clock_skew_s is not None:
            counters.clock_skew_s = answer.clock_skew_s
            if abs(answer.clock_skew_s) > _QUIET_SKEW_S and lane.attempts == 1:
                logger.error(
                    "the receiver refuses events and its clock is %.0f s ahead of ours: set the time here",
                    answer.clock_skew_s,
                )

    def _retire(self, lane: _Lane) -> None:
        self._lanes.pop(lane.task_id, None)
        if not self._lanes:
            waiting, self._drained = self._drained, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    # -- the timer ------------------------------------------------------------------------------------------

    def _again(self, lane: _Lane, delay_s: float) -> None:
        if self._closing:
            self._retire(lane)
            return
        due_s = self._clock.now() + delay_s
        heapq.heappush(self._delayed, (due_s, next(self._order), lane))
        if self._timer is None or self._timer.done() or due_s < self._timer_due_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due_s = due_s
            self._timer = self.loop.create_task(self._tick(), context=contextvars.Context())

    async def _tick(self) -> None:
        while self._delayed:
            now_s = self._clock.now()
            self._timer_due_s = self._delayed[0][0]
            if self._timer_due_s > now_s:
                await self._clock.sleep(self._timer_due_s - now_s)
                continue
            self._ready.append(heapq.heappop(self._delayed)[2])
            self._staff()
