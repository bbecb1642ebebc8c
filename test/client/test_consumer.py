"""Reading the updates: in order, across restarts, exactly once for what goes into the same file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.consumer import Consumer
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.testing import FakeClock, settle

from .conftest import NOW
from .test_book import event

BOUND_S = 20.0


async def test_every_update_is_handled_in_order_also_those_that_come_while_waiting() -> None:
    book = TaskBook(wall_clock=lambda: NOW)
    handled: list[int] = []
    enough = asyncio.Event()

    async def handle(update: TaskUpdate) -> None:
        handled.append(update.position)
        if len(handled) == 6:
            enough.set()

    consumer = Consumer(book, "chat")
    book.take_event(event(1))
    running = asyncio.create_task(consumer.run(handle))
    await settle()
    for seq in (2, 3, 4, 5):
        book.take_event(event(seq))
    async with asyncio.timeout(BOUND_S):
        await enough.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert handled == list(range(1, 7))
    assert consumer.position >= 5


async def test_a_failing_handler_gets_the_same_update_again_and_nothing_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    book = TaskBook(wall_clock=lambda: NOW)
    tried: list[int] = []

    async def handle(update: TaskUpdate) -> None:
        tried.append(update.position)
        if update.position == 1 and tried.count(1) < 4:
            raise RuntimeError("not yet")

    consumer = Consumer(book, "chat", clock=clock)
    book.take_event(event(1))
    running = asyncio.create_task(consumer.run(handle))
    await settle()
    assert tried == [1]
    await clock.advance(0.5)
    assert tried == [1, 1]
    await clock.advance(1.0)
    await clock.advance(2.0)
    assert tried == [1, 1, 1, 1, 2]
    assert caplog.text.count("gets it again") == 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_after_a_restart_reading_goes_on_with_the_first_unacknowledged_update(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    book = TaskBook(path, wall_clock=lambda: NOW)
    consumer = Consumer(book, "chat")
    for seq in (1, 2, 3):
        book.take_event(event(seq))
    updates = consumer.updates()
    first = await anext(updates)
    second = await anext(updates)  # acknowledges the first
    await updates.aclose()
    book.close()

    book = TaskBook(path, wall_clock=lambda: NOW)
    updates = Consumer(book, "chat").updates()
    assert await anext(updates) == second
    assert first.position == 1
    await updates.aclose()
    book.close()


def test_what_is_written_with_the_acknowledgement_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    book = TaskBook(path, wall_clock=lambda: NOW)
    consumer = Consumer(book, "chat")
    with book.transaction() as db:
        db.execute("CREATE TABLE said (position INTEGER)")
    book.take_event(event(1))
    (first, _) = book.updates_after(0)

    def apply() -> None:
        with consumer.applying(first) as db:
            if db is not None:
                db.execute("INSERT INTO said VALUES (?)", (first.position,))

    def be_interrupted() -> None:
        with consumer.applying(first) as db:
            assert db is not None
            db.execute("INSERT INTO said VALUES (?)", (first.position,))
            raise ZeroDivisionError  # as a kill in the middle would

    with pytest.raises(ZeroDivisionError):
        be_interrupted()
    assert consumer.position == 0
    apply()
    apply()
    with book.transaction() as db:
        assert db.execute("SELECT position FROM said").fetchall() == [(1,)]
    book.close()


async def test_two_readers_have_places_of_their_own() -> None:
    book = TaskBook(wall_clock=lambda: NOW)
    one, other = Consumer(book, "one"), Consumer(book, "other")
    book.take_event(event(1))
    for update in book.updates_after(0):
        one.acknowledge(update)
    assert (one.position, other.position) == (2, 0)
    assert book.backlog == 2
    one.acknowledge(book.updates_after(0)[0])
    assert one.position == 2, "never back"
