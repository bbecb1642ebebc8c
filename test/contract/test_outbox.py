"""Where events wait: order, bounds, and what a crash leaves."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_mcp_kit import MemoryOutbox, Outbox
from robot_mcp_kit.outbox import NewEntry, rank
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.testing import FakeClock, RecordingReceiver, make_event, settle

if TYPE_CHECKING:
    from test.contract.conftest import Endpoint

Make = Callable[..., Outbox]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Outbox] = []

    def make(**bounds: Any) -> Outbox:
        outbox = (
            MemoryOutbox(**bounds)
            if request.param == "memory"
            else SqliteOutbox(tmp_path / f"outbox-{len(made)}.db", **bounds)
        )
        made.append(outbox)
        return outbox

    yield make
    for outbox in made:
        outbox.close()


def entry(seq: int, task: str = "t", kind: str = "progress", size: int = 10) -> NewEntry:
    return NewEntry(f"id-{task}-{seq}", task, "navigation", kind, seq, 1000.0 + seq, b"x" * size)


def contents(outbox: Outbox) -> dict[str, list[int]]:
    """Takes everything out, in order."""
    found: dict[str, list[int]] = {}
    for task in outbox.task_ids():
        while (head := outbox.head(task)) is not None:
            found.setdefault(task, []).append(head.seq)
            outbox.remove(head.key)
    return found


def test_heads_come_in_order_of_acceptance(make: Make) -> None:
    """K121."""
    outbox = make()
    for seq in (1, 2, 3):
        outbox.append(entry(seq, "b"))
        outbox.append(entry(seq, "a"))
    assert len(outbox) == 6
    assert outbox.task_ids() == ["b", "a"]
    assert outbox.oldest_accepted_at_s() == 1001.0
    head = outbox.head("a")
    assert head is not None
    assert (head.event_id, head.seq, head.body, head.server) == ("id-a-1", 1, b"x" * 10, "navigation")
    outbox.remove(head.key)
    outbox.remove(head.key)
    outbox.remove(12345)
    assert contents(outbox) == {"b": [1, 2, 3], "a": [2, 3]}
    assert (len(outbox), outbox.oldest_accepted_at_s(), outbox.head("a"), outbox.task_ids()) == (
        0,
        None,
        None,
        [],
    )


def test_the_least_important_goes_first_when_full(make: Make) -> None:
    """K130."""
    outbox = make(max_events=4)
    kinds = ["task_done", "watch_event", "progress", "trigger_fired"]
    for seq, kind in enumerate(kinds, 1):
        assert outbox.append(entry(seq, kind=kind)) == []
    lost = [outbox.append(entry(seq, kind="task_failed")) for seq in (5, 6, 7)]
    assert [[e.type for e in evicted] for evicted in lost] == [["progress"], ["watch_event"], ["task_done"]]
    assert contents(outbox) == {"t": [4, 5, 6, 7]}


def test_a_newcomer_of_no_importance_does_not_push_out_others(make: Make) -> None:
    """K130."""
    outbox = make(max_events=2)
    for seq in (1, 2):
        outbox.append(entry(seq, kind="task_done"))
    (evicted,) = outbox.append(entry(3, kind="progress"))
    assert evicted.seq == 3
    assert contents(outbox) == {"t": [1, 2]}


def test_bytes_are_bounded_too(make: Make) -> None:
    """K131."""
    outbox = make(max_bytes=1000)
    for seq in range(1, 100):
        outbox.append(entry(seq, size=300))
    assert contents(outbox) == {"t": [97, 98, 99]}


def test_what_is_being_sent_is_not_pushed_out(make: Make) -> None:
    """K131."""
    outbox = make(max_events=2)
    outbox.append(entry(1))
    head = outbox.head("t")
    assert head is not None
    outbox.append(entry(2))
    (evicted,) = outbox.append(entry(3), keep={head.key})
    assert evicted.seq == 2
    assert contents(outbox) == {"t": [1, 3]}


@pytest.mark.parametrize("bounds", [{"max_events": 0}, {"max_bytes": 0}, {"max_events": -5}])
def test_bounds_that_hold_nothing_are_refused(make: Make, bounds: dict[str, int]) -> None:
    """K130."""
    with pytest.raises(ValueError, match=next(iter(bounds))):
        make(**bounds)


KINDS = st.sampled_from(["progress", "watch_event", "trigger_fired", "task_done"])
ACTIONS = st.lists(st.tuples(st.sampled_from(["append", "take"]), st.sampled_from("abc"), KINDS), max_size=60)


@given(actions=ACTIONS, limit=st.integers(1, 6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_an_outbox_is_an_ordered_bounded_list(
    make: Make, actions: list[tuple[str, str, str]], limit: int
) -> None:
    """K130, K131: against the simplest thing that could be right."""
    outbox = make(max_events=limit)
    model: list[tuple[str, int, str]] = []
    seqs = dict.fromkeys("abc", 0)
    for action, task, kind in actions:
        if action == "append":
            seqs[task] += 1
            model.append((task, seqs[task], kind))
            evicted = outbox.append(entry(seqs[task], task, kind))
            if len(model) > limit:
                victim = min(model, key=lambda item: rank(item[2]))
                model.remove(victim)
                assert [(e.task_id, e.seq) for e in evicted] == [victim[:2]]
            else:
                assert evicted == []
        else:
            head = outbox.head(task)
            first = next((item for item in model if item[0] == task), None)
            assert (head is None) == (first is None)
            if head is not None and first is not None:
                assert (head.task_id, head.seq, head.type) == first
                outbox.remove(head.key)
                model.remove(first)
        assert len(outbox) == len(model)
        assert outbox.task_ids() == list(dict.fromkeys(item[0] for item in model))
    outbox.close()


# -- the durable one ----------------------------------------------------------------------------------------


def test_entries_outlive_the_process(tmp_path: Path) -> None:
    """K131: same ids, same bytes, same order, and keys go on rising."""
    outbox = SqliteOutbox(tmp_path / "folder" / "outbox.db")
    for seq in (1, 2, 3):
        outbox.append(entry(seq))
    first = outbox.head("t")
    assert first is not None
    outbox.remove(first.key)
    outbox.close()
    outbox.close()
    again = SqliteOutbox(tmp_path / "folder" / "outbox.db")
    assert len(again) == 2
    again.append(entry(4))
    second = again.head("t")
    assert second is not None
    assert (second.event_id, second.key > first.key) == ("id-t-2", True)
    assert contents(again) == {"t": [2, 3, 4]}
    again.close()


def test_two_processes_cannot_share_the_file(tmp_path: Path) -> None:
    """K123: or each event would be delivered by both."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    program = (
        "import sys; from robot_mcp_kit.outbox_sqlite import SqliteOutbox\n"
        "try: SqliteOutbox(sys.argv[1])\nexcept ValueError as exc: print(exc)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(outbox.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"in use by process {os.getpid()}" in result.stdout, result.stderr
    outbox.close()


def test_a_damaged_file_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """K131: events are an optimisation; a robot must start without them."""
    path = tmp_path / "outbox.db"
    path.write_bytes(b"this is no database, and it is longer than a header" * 50)
    outbox = SqliteOutbox(path)
    outbox.append(entry(1))
    assert contents(outbox) == {"t": [1]}
    outbox.close()
    assert any(path.read_bytes().startswith(b"this is no") for path in tmp_path.glob("outbox.db.corrupt-*"))
    assert any("damaged" in r.getMessage() for r in caplog.records if r.levelno == logging.ERROR)


def test_the_log_of_a_damaged_file_is_not_played_into_the_new_one(tmp_path: Path) -> None:
    """K131: as a kill and a broken disk leave them together."""
    old = SqliteOutbox(tmp_path / "old.db")
    for seq in range(1, 500):
        old.append(entry(seq, size=1000))
    old.close()
    old = SqliteOutbox(tmp_path / "old.db")
    old.append(entry(500))
    path = tmp_path / "outbox.db"
    # As a killed process leaves them: all but the last event in the file, that one in the log.
    for suffix in ("", "-wal"):
        path.with_name(path.name + suffix).write_bytes((tmp_path / f"old.db{suffix}").read_bytes())
    old.close()
    path.write_bytes(b"damaged" * 100_000)
    outbox = SqliteOutbox(path)
    assert len(outbox) == 0
    outbox.append(entry(9))
    outbox.close()
    again = SqliteOutbox(path)
    assert contents(again) == {"t": [9]}
    again.close()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match="newer version"):
        SqliteOutbox(path)
    assert path.exists()


def test_a_place_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="outbox"):
        SqliteOutbox(tmp_path / "file" / "outbox.db")
    with pytest.raises(ValueError, match="synchronous"):
        SqliteOutbox(tmp_path / "outbox.db", synchronous="OFF")


@contextmanager
def unwritable(outbox: SqliteOutbox, why: str) -> Iterator[None]:
    """Until the end of the block, the file refuses what is written."""
    if why == "locked":
        with closing(sqlite3.connect(outbox.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        outbox._file.connection.execute("PRAGMA query_only = 1")
        yield
        outbox._file.connection.execute("PRAGMA query_only = 0")


@pytest.mark.parametrize("why", ["locked", "read-only"])
def test_a_file_that_cannot_be_written_loses_nothing_and_sends_nothing_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """K131, B28: new events wait in memory, delivered ones are not sent again, order holds later."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    for seq in (1, 2, 3):
        outbox.append(entry(seq))
    with unwritable(outbox, why):
        head = outbox.head("t")
        assert head is not None
        outbox.remove(head.key)  # delivered, but the row cannot be deleted
        outbox.remove(head.key)
        outbox.append(entry(4))
        assert len(outbox) == 3
        head = outbox.head("t")
        assert head is not None
        assert head.seq == 2
        outbox.append(entry(5))
    outbox.append(entry(6))
    said = [record.getMessage() for record in caplog.records]
    assert sum("cannot be written" in words for words in said) == 1
    assert sum("can be written again" in words for words in said) == 1
    assert len(outbox) == 5
    rows = outbox._file.connection.execute("SELECT seq FROM event ORDER BY key").fetchall()
    assert rows == [(2,), (3,), (4,), (5,), (6,)], "nothing waits in memory any more"
    outbox.close()
    again = SqliteOutbox(tmp_path / "outbox.db")
    assert contents(again) == {"t": [2, 3, 4, 5, 6]}
    again.close()


def test_an_event_keeps_its_key_when_it_moves_from_memory_to_the_file(tmp_path: Path) -> None:
    """K131: it may be on its way to the chat app at that moment, and is then removed by that key."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    outbox.append(entry(1, "a"))
    with unwritable(outbox, "locked"):
        outbox.append(entry(1, "b"))
        outbox.append(entry(2, "b"))
        under_way = outbox.head("b")
        assert under_way is not None
        gone = outbox.head("a")
        assert gone is not None
        outbox.remove(gone.key)
    outbox.append(entry(3, "b"))
    assert outbox.head("b") == under_way
    outbox.remove(under_way.key)
    assert len(outbox) == 2
    with unwritable(outbox, "locked"):
        outbox.append(entry(4, "b"))
        head = outbox.head("b")
        assert head is not None
        assert head.key > under_way.key
    assert contents(outbox) == {"b": [2, 3, 4]}
    outbox.close()


def test_bounds_hold_again_once_the_file_can_be_written(tmp_path: Path) -> None:
    """K130: and what has to go is returned, so that its loss is told."""
    outbox = SqliteOutbox(tmp_path / "outbox.db", max_events=3)
    for seq in (1, 2, 3):
        outbox.append(entry(seq))
    with unwritable(outbox, "locked"):
        assert outbox.append(entry(4)) == []
        assert outbox.append(entry(5, kind="task_done")) == []
    assert [lost.seq for lost in outbox.append(entry(6))] == [1, 2, 3]
    assert contents(outbox) == {"t": [4, 5, 6]}
    outbox.close()


@pytest.mark.parametrize("still", [True, False])
def test_the_close_tries_once_more_and_counts_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, still: bool
) -> None:
    """B29: bounded, whatever another program does."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    outbox.append(entry(1))
    with unwritable(outbox, "locked"):
        for seq in (2, 3):
            outbox.append(entry(seq))
        if still:
            outbox.close()
    outbox.close()
    assert ("2 events that could not be written are lost" in caplog.text) is still
    assert ("could not be written to the end" in caplog.text) is still
    again = SqliteOutbox(tmp_path / "outbox.db")
    assert contents(again) == {"t": [1] if still else [1, 2, 3]}
    again.close()


async def test_events_accepted_before_a_kill_are_delivered_after_it(tmp_path: Path) -> None:
    """K175: with the same ids and numbers, in order, by the next process, before its own."""
    program = """
import asyncio, sys
from robot_mcp_kit import EventPoster, TaskManager
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
async def main():
    poster = EventPoster("navigation", "http://127.0.0.1:1/", "s3cret", outbox=SqliteOutbox(sys.argv[1]))
    manager = TaskManager("navigation", poster)
    async def body(ctx):
        for n in range(20):
            await ctx.progress({"n": n})
        print(ctx.task_id, flush=True)
        await asyncio.sleep(600)
    manager.start("t", body)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    path = tmp_path / "outbox.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    task_id = (await process.stdout.readline()).decode().strip()
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    outbox = SqliteOutbox(path)
    assert len(outbox) == 20
    waiting = outbox.head(task_id)
    assert waiting is not None
    async with RecordingReceiver() as receiver:
        from robot_mcp_kit import EventPoster

        poster = EventPoster("navigation", receiver.url, "s3cret", outbox=outbox)
        await poster.post(make_event(21, task_id=task_id))
        events = await receiver.wait_for_events(21)
        await poster.aclose()
    assert [e.seq for e in events] == list(range(1, 22))
    assert receiver.requests[0].body == waiting.body
    assert receiver.problems == []


async def test_a_closed_poster_leaves_the_undelivered_to_the_next_one(
    tmp_path: Path, endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K140: and the next one starts by itself."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster(outbox=SqliteOutbox(tmp_path / "outbox.db"))
    for seq in (1, 2):
        await poster.post(make_event(seq))
    await settle()
    await poster.aclose()
    assert "the outbox keeps them" in caplog.text
    endpoint.requests.clear()
    endpoint.answer = lambda request: httpx.Response(202)
    second = endpoint.poster(outbox=SqliteOutbox(tmp_path / "outbox.db"))
    await second.drain()
    await second.aclose()
    assert [json.loads(r.content)["seq"] for r in endpoint.requests] == [1, 2]
