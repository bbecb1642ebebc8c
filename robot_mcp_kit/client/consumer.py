"""Reads the task book's updates in order, each until it is dealt with, across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 30.0

Handler = Callable[[TaskUpdate], Awaitable[object]]


class Consumer:
    """One reader of the updates, with a place of its own in them that is kept on disk.

    At least once: a process killed between an update's handling and its acknowledgement gets it again.
    Exactly once, for what goes into the same file: write it inside :meth:`applying`.

    Args:
        book: whose updates.
        name: whose place; two readers of one name share one.
        clock: for the pause before a failed handler is called again.
    """

    def __init__(self, book: TaskBook, name: str, *, clock: Clock | None = None) -> None:
        self.book = book
        self.name = name
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._news = asyncio.Event()
        book.cursor(name)

    @property
    def position(self) -> int:
        """Everything up to there has been dealt with."""
        return self.book.cursor(self.name)

    def acknowledge(self, update: TaskUpdate) -> None:
        """This update, and all before it, need not come again."""
        if update.position > self.position:
            self.book.move_cursor(self.name, update.position)

    @contextlib.contextmanager
    def applying(self, update: TaskUpdate) -> Iterator[sqlite3.Connection | None]:
        """Deal with an update exactly once: what the block writes through the connection and the
        acknowledgement are one transaction.

        ::

            with consumer.applying(update) as db:
                if db is not None:
                    db.execute("INSERT INTO chat_message ...")

        No ``await`` inside. Gives ``None`` when the update was dealt with before.

        Raises:
            sqlite3.Error: nothing was written; the update comes again.
        """
        if update.position <= self.position:
            yield None
            return
        with self.book.transaction() as db:
            yield db
            self.book.move_cursor(self.name, update.position)

    async def updates(self) -> AsyncGenerator[TaskUpdate]:
        """All updates from this reader's place on, for ever. Each is acknowledged when the next one is asked
        for.
        """
        remove = self.book.add_listener(lambda _: self._news.set())
        try:
            position = self.position
            while True:
                self._news.clear()
                batch = self.book.updates_after(position)
                for update in batch:
                    yield update
                    position = update.position
                    self.acknowledge(update)
                if not batch:
                    await self._news.wait()
        finally:
            remove()

    async def run(self, handler: Handler) -> None:
        """Call ``handler`` with each update, one after the other, until cancelled.

        A handler that raises is called again with the same update after a pause (0.5 s, doubling to 30 s),
        with an ERROR each time: nothing is skipped. When it never succeeds, the backlog fills and new events
        are answered 503.
        """
        async with contextlib.aclosing(self.updates()) as updates:
            async for update in updates:
                pause_s = FIRST_RETRY_S
                while not await self._handled(handler, update, pause_s):
                    await self._clock.sleep(pause_s)
                    pause_s = min(LONGEST_RETRY_S, pause_s * 2)

    async def _handled(self, handler: Handler, update: TaskUpdate, pause_s: float) -> bool:
        try:
            await handler(update)
        except Exception:
            logger.exception(
                "the handler failed at update %d (%s of task %s); it gets it again in %g s",
                *(update.position, update.kind, update.task_id, pause_s),
            )
            return False
        return True
