"""Polls where push has left a doubt: after a restart, at a gap, after silence, while a task's state is
unknown.

One loop for each server. What is found goes into the task book, which keeps the one ordered stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.task_source import TaskSource
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

LIST_FROM = 3
"""With so many tasks in doubt, ``list_tasks`` is asked instead of each."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When to poll, seconds."""

    silence_s: float = 15.0
    """Ask about a task whose events come, after so long without one."""
    unpushed_s: float = 2.0
    """Ask about a task of which no event has ever come (its server may not push), so often."""
    vanished_again_s: float = 5.0
    """A task that the server does not know is asked for once more after so long before it counts as failed:
    its last events may still be on their way, and a bridge that has just started may still be taking up its
    tasks.
    """
    unreachable_s: float = 10.0
    """Say that the server cannot be asked, after so long without an answer."""
    first_retry_s: float = 0.5
    longest_retry_s: float = 15.0


@dataclass(slots=True)
class _Watch:
    due_s: float
    vanished_at_s: float | None = None


@dataclass(slots=True)
class _Server:
    source: TaskSource
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    watches: dict[str, _Watch] = field(default_factory=dict)
    failing_since_s: float | None = None
    retry_s: float = 0.0


class Reconciler:
    """Keeps the task book true. Start it after the book is open; it takes up every task that has not ended.

    Args:
        book: what is known.
        sources: by the server's name, as in the events.
        timing: when to poll.
        clock: monotonic time.
    """

    def __init__(
        self,
        book: TaskBook,
        sources: Mapping[str, TaskSource],
        *,
        timing: Timing | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._book = book
        self._timing = timing if timing is not None else Timing()
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._servers = {name: _Server(source) for name, source in sources.items()}
        self._tasks: list[asyncio.Task[None]] = []
        self._remove = book.add_listener(self._heard)

    def start(self) -> None:
        """Poll what is in doubt from now on; at once, whatever had not ended when this process did."""
        if self._tasks:
            raise RuntimeError("already started")
        now_s = self._clock.now()
        for record in self._book.tasks(running=True):
            if (server := self._servers.get(record.server)) is not None:
                server.watches.setdefault(record.task_id, _Watch(now_s)).due_s = now_s
        self._tasks = [
            asyncio.create_task(self._serve(name, server), name=f"reconcile {name}")
            for name, server in self._servers.items()
        ]

    async def aclose(self) -> None:
        """Stop polling. Harmless when repeated."""
        self._remove()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def poll_soon(self, server: str, task_id: str) -> None:
        """Something is in doubt about this task."""
        known = self._servers.get(server)
        if known is not None:
            known.watches.setdefault(task_id, _Watch(0.0)).due_s = self._clock.now()
            known.wake.set()

    def source(self, server: str) -> TaskSource:
        """Whom to ask about this server's tasks.

        Raises:
            KeyError: nobody.
        """
        return self._servers[server].source

    # -- what is heard --------------------------------------------------------------------------------------

    def _heard(self, update: TaskUpdate) -> None:
        server = self._servers.get(update.server)
        if server is None:
            return
        if update.kind in ("ended", "corrected"):
            server.watches.pop(update.task_id, None)
        elif update.kind == "gap":
            self.poll_soon(update.server, update.task_id)
        elif update.kind == "started" or update.source == "push":
            timing = self._timing
            wait_s = timing.silence_s if update.source == "push" else timing.unpushed_s
            new_due_s = self._clock.now() + wait_s
            watch = server.watches.setdefault(update.task_id, _Watch(new_due_s))
            if watch.due_s > self._clock.now() and watch.vanished_at_s is None:
                watch.due_s = new_due_s
            server.wake.set()

    # -- polling --------------------------------------------------------------------------------------------

    async def _serve(self, name: str, server: _Server) -> None:
        while True:
            try:
                await self._wait(server)
                due = self._due(server)
                if due:
                    await self._ask(name, server, due)
                    server.failing_since_s = None
            except CallFailed as error:
                self._failed(name, server, error)
            except Exception:
                logger.exception("reconciling %s failed; going on", name)
                server.retry_s = self._timing.longest_retry_s
                self._postpone(server)

    def _due(self, server: _Server) -> list[str]:
        now_s = self._clock.now()
        return [task_id for task_id, watch in server.watches.items() if watch.due_s <= now_s]

    async def _wait(self, server: _Server) -> None:
        """Until something is due."""
        while not self._due(server):
            server.wake.clear()
            next_s = min((watch.due_s for watch in server.watches.values()), default=None)
            waits: list[asyncio.Future[object]] = [asyncio.ensure_future(server.wake.wait())]
            if next_s is not None:
                waits.append(asyncio.ensure_future(self._clock.sleep(max(0.0, next_s - self._clock.now()))))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def _ask(self, name: str, server: _Server, due: list[str]) -> None:
        left = due
        if len(due) >= LIST_FROM:
            running = {info.task_id: info for info in await server.source.list_tasks(["running"])}
            for info in running.values():
                self._book.take_info(name, info)
                self._answered(server, name, info.task_id)
            left = [task_id for task_id in due if task_id not in running]
        for task_id in left:
            asked = await server.source.get_task(task_id)
            if asked is None:
                self._vanished(name, server, task_id)
            else:
                self._book.take_info(name, asked)
                self._answered(server, name, task_id)

    def _answered(self, server: _Server, name: str, task_id: str) -> None:
        record = self._book.task(name, task_id)
        if record is None or record.ended:
            server.watches.pop(task_id, None)
            return
        wait_s = self._timing.silence_s if record.pushed else self._timing.unpushed_s
        server.watches[task_id] = _Watch(self._clock.now() + wait_s)

    def _vanished(self, name: str, server: _Server, task_id: str) -> None:
        now_s = self._clock.now()
        watch = server.watches.get(task_id)
        if watch is None:
            return  # it has ended meanwhile
        if watch.vanished_at_s is None:
            watch.vanished_at_s = now_s
        if now_s >= watch.vanished_at_s + self._timing.vanished_again_s:
            logger.warning("%s does not know the task %s any more: it counts as failed", name, task_id)
            self._book.take_vanished(name, task_id)
            server.watches.pop(task_id, None)
        else:
            watch.due_s = watch.vanished_at_s + self._timing.vanished_again_s

    def _failed(self, name: str, server: _Server, error: CallFailed) -> None:
        now_s = self._clock.now()
        if server.failing_since_s is None:
            server.failing_since_s = now_s
            server.retry_s = self._timing.first_retry_s
            logger.warning("%s cannot be asked about its tasks: %s", name, error)
        else:
            server.retry_s = min(self._timing.longest_retry_s, server.retry_s * 2)
        for_s = now_s - server.failing_since_s
        if for_s >= self._timing.unreachable_s:
            self._book.take_unreachable(name, for_s)
        self._postpone(server)

    def _postpone(self, server: _Server) -> None:
        due_s = self._clock.now() + server.retry_s
        for watch in server.watches.values():
            watch.due_s = max(watch.due_s, due_s)
