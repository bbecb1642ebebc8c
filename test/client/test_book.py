"""The task book: pushed events and polled answers become one ordered stream, once each, across restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.book import MAX_BACKLOG, TaskBook
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.models import TaskEvent, TaskFailure, TaskInfo

from .conftest import NOW, Signer

TASK = "navi-7f3a2b"


def event(seq: int, type: str = "progress", **changes: Any) -> TaskEvent:
    payloads: dict[str, dict[str, Any]] = {
        "task_done": {"result": {"place": "kitchen"}},
        "task_failed": {"error_code": "DOOR_CLOSED", "message": "Closed.", "suggestions": ["ask"]},
        "trigger_fired": {"trigger": {"type": "eta_below", "seconds": 10}, "eta_s": 9.4},
    }
    more = {"type": type, "payload": payloads.get(type, {"eta_s": 100 - seq})} | changes
    return TaskEvent.model_validate(Signer().event(seq, **more))


def info(state: str = "running", *, at_s: float = 0, task_id: str = TASK, **fields: Any) -> TaskInfo:
    """``at_s``: after the minute in which the events of these tests come."""
    born = datetime.fromisoformat("2026-06-12T14:00:00Z")
    return TaskInfo.model_validate(
        {
            "task_id": task_id,
            "server": "navigation",
            "tool": "navigate_to",
            "state": state,
            "created_at": born,
            "updated_at": born + timedelta(seconds=at_s),
        }
        | fields
    )


@pytest.fixture
def book(tmp_path: Path) -> Any:
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: NOW)
    yield book
    book.close()


def told(book: TaskBook) -> list[tuple[str, str]]:
    return [(update.kind, update.source) for update in book.updates_after(0)]


def last(book: TaskBook) -> TaskUpdate:
    return book.updates_after(0)[-1]


def test_a_pushed_life_is_told_in_order_and_ends_once(book: TaskBook) -> None:
    for one in (event(1), event(2, "trigger_fired"), event(3, "watch_event"), event(4, "task_done")):
        assert not book.take_event(one).duplicate
    kinds = [kind for kind, _ in told(book)]
    assert kinds == ["started", "progress", "trigger_fired", "watch_event", "ended"]
    assert last(book).result == {"place": "kitchen"}
    assert last(book).state == "succeeded"
    assert book.tasks(running=True) == []
    positions = [update.position for update in book.updates_after(0)]
    assert positions == sorted(set(positions))


def test_a_failure_is_told_with_its_code_and_the_way_out(book: TaskBook) -> None:
    book.take_event(event(1, "task_failed"))
    failure = last(book).failure
    assert failure is not None
    assert (failure.error_code, failure.suggestions) == ("DOOR_CLOSED", ["ask"])


def test_a_repeated_event_is_told_once_even_after_a_restart(tmp_path: Path) -> None:
    """K123, K170: the reply was lost, and the chat app with it."""
    with_file = tmp_path / "chat.db"
    book = TaskBook(with_file, wall_clock=lambda: NOW)
    book.take_event(event(1, "task_done"))
    before = told(book)
    book.close()
    book = TaskBook(with_file, wall_clock=lambda: NOW)
    assert book.take_event(event(1, "task_done")).duplicate
    assert told(book) == before
    book.close()


@pytest.mark.parametrize("push_first", [True, False])
def test_an_end_that_is_both_pushed_and_polled_is_told_once(book: TaskBook, push_first: bool) -> None:
    steps: list[Callable[[], object]] = [
        lambda: book.take_event(event(2, "task_done")),
        lambda: book.take_info("navigation", info("succeeded", at_s=5, result={"place": "kitchen"})),
    ]
    book.take_event(event(1))
    for step in steps if push_first else reversed(steps):
        step()
    ends = [update for update in book.updates_after(0) if update.kind == "ended"]
    assert [(end.source, end.result) for end in ends] == [
        ("push" if push_first else "poll", {"place": "kitchen"})
    ]


def test_nothing_is_told_after_the_end(book: TaskBook) -> None:
    """G72: what overtook the end, and an answer that was asked for before it."""
    book.take_event(event(5, "task_done"))
    before = told(book)
    book.take_event(event(3, "progress"))
    book.take_event(event(4, "trigger_fired"))
    book.take_event(event(9, "progress"))
    book.take_info("navigation", info("running", at_s=900, progress={"eta_s": 1}))
    book.take_vanished("navigation", TASK)
    book.take_unreachable("navigation", 60)
    assert told(book) == before


def test_a_poll_that_is_older_than_what_was_pushed_changes_nothing(book: TaskBook) -> None:
    book.take_event(event(30, payload={"eta_s": 5}))
    before = told(book)
    book.take_info("navigation", info(at_s=10, progress={"eta_s": 50}))
    assert told(book) == before
    book.take_info("navigation", info(at_s=45, progress={"eta_s": 2}))
    assert told(book)[-1] == ("progress", "poll")
    book.take_info("navigation", info(at_s=45, progress={"eta_s": 2}))
    assert len(told(book)) == len(before) + 1


def test_a_gap_is_told_before_what_follows_and_late_progress_is_not_told(book: TaskBook) -> None:
    """K171."""
    book.take_event(event(1))
    assert book.take_event(event(4)).gap == (2, 3)
    gap = next(update for update in book.updates_after(0) if update.kind == "gap")
    assert gap.payload == {"missing_seq": [2, 3]}
    assert [kind for kind, _ in told(book)] == ["started", "progress", "gap", "progress"]
    assert book.take_event(event(2)).late
    assert len(told(book)) == 4, "superseded"
    assert book.take_event(event(3, "trigger_fired")).late
    assert (last(book).kind, last(book).late) == ("trigger_fired", True), "a trigger cannot be polled"
    record = book.task("navigation", TASK)
    assert record is not None
    assert record.contiguous


def test_a_vanished_task_has_failed_because_its_server_restarted(book: TaskBook) -> None:
    """K171."""
    book.take_event(event(1))
    book.take_vanished("navigation", TASK)
    failure = last(book).failure
    assert failure is not None
    assert failure.error_code == "SERVER_RESTARTED"
    assert "not known" in failure.message


def test_the_real_end_of_a_task_believed_lost_is_a_correction_and_no_second_end(book: TaskBook) -> None:
    book.take_event(event(1))
    book.take_vanished("navigation", TASK)
    book.take_event(event(2, "task_done"))
    kinds = [kind for kind, _ in told(book)]
    assert kinds == ["started", "progress", "ended", "corrected"]
    assert last(book).result == {"place": "kitchen"}
    book.take_info("navigation", info("succeeded", at_s=500, result={"place": "kitchen"}))
    assert len(told(book)) == 4


def test_an_unreachable_server_is_told_once_and_so_is_its_return(book: TaskBook) -> None:
    book.take_event(event(1))
    book.take_unreachable("navigation", 12.3456)
    book.take_unreachable("navigation", 20.0)
    book.take_unreachable("arm", 20.0)
    assert [kind for kind, _ in told(book)][2:] == ["unreachable"]
    assert last(book).payload == {"for_s": 12.346}
    book.take_info("navigation", info(at_s=50, progress={"eta_s": 1}))
    assert [kind for kind, _ in told(book)][3:] == ["reachable", "progress"]


def test_a_cancelled_task_ends_by_what_was_polled(book: TaskBook) -> None:
    """C30: nothing is pushed."""
    book.take_event(event(1))
    book.take_info("navigation", info("cancelled", at_s=9, progress={"stop_confirmed": True}))
    assert (last(book).kind, last(book).state) == ("ended", "cancelled")
    assert last(book).payload == {"progress": {"stop_confirmed": True}}


def test_the_same_task_id_of_two_servers_is_two_tasks(book: TaskBook) -> None:
    book.take_event(event(1, "task_done"))
    book.take_info("other", info())
    assert len(book.tasks()) == 2
    assert [record.server for record in book.tasks(running=True)] == ["other"]


def test_events_are_refused_while_nobody_deals_with_the_updates(tmp_path: Path) -> None:
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: NOW, max_backlog=10)
    book.cursor("chat")
    taken = 0
    while not book.take_event(event(taken + 1)).full:
        taken += 1
        assert taken < 100
    assert 8 <= taken <= 11
    assert book.take_event(event(1)).duplicate, "what had been taken is acknowledged all the same"
    book.move_cursor("chat", book.position)
    again = book.take_event(event(taken + 1))
    assert not again.full
    assert not again.duplicate
    book.close()


def test_large_events_fill_the_book_up_to_its_bound_and_not_the_disk(tmp_path: Path) -> None:
    """A34: a bound for each event alone would be thousands of times that."""
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: NOW, max_bytes=30_000_000)
    book.cursor("chat")
    big = {"note": "x" * 1_000_000}
    taken = 0
    while not book.take_event(event(1, task_id=f"t-{taken}", payload=big)).full:
        taken += 1
        assert taken < 100
    assert 8 <= taken <= 20
    assert (tmp_path / "chat.db").stat().st_size < 50_000_000
    assert book.take_event(event(1, task_id="t-0", payload=big)).duplicate
    book.move_cursor("chat", book.position)
    again = book.take_event(event(1, task_id=f"t-{taken}", payload=big))
    assert not again.full, "what every consumer has had is let go"
    book.close()


def test_event_ids_are_known_for_longer_than_a_sender_repeats_them_and_never_forgotten_early() -> None:
    """C29, K29."""
    now_s = float(NOW)
    book = TaskBook(wall_clock=lambda: now_s, max_remembered=5)
    assert not book.take_event(event(1, task_id="t-1")).duplicate
    now_s += 600 + 300
    assert book.take_event(event(1, task_id="t-1")).duplicate
    for number in range(2, 6):
        assert not book.take_event(event(1, task_id=f"t-{number}")).full
    assert book.take_event(event(1, task_id="t-9")).full, "rather refuse than forget"
    now_s += 400
    assert not book.take_event(event(1, task_id="t-9")).full
    assert book.take_event(event(1, task_id="t-5")).duplicate
    book.close()


@pytest.mark.parametrize("step_s", [-86_400.0, 86_400.0])
def test_a_stepped_wall_clock_neither_repeats_nor_blocks_events(step_s: float) -> None:
    now_s = float(NOW)
    book = TaskBook(wall_clock=lambda: now_s, max_remembered=3)
    for seq in (1, 2, 3):
        book.take_event(event(seq))
    now_s += step_s
    for seq in (1, 2, 3):
        assert book.take_event(event(seq)).duplicate
    assert not book.take_event(event(4)).duplicate
    book.close()


def test_a_listener_that_raises_does_not_harm(book: TaskBook, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def bad(update: TaskUpdate) -> None:
        heard.append(update.kind)
        raise ValueError("boom")

    remove = book.add_listener(bad)
    book.take_event(event(1))
    assert heard == ["started", "progress"]
    remove()
    book.take_event(event(2))
    assert len(heard) == 2
    assert "boom" in caplog.text


def test_what_is_rolled_back_has_not_come_and_is_not_told(book: TaskBook) -> None:
    heard: list[TaskUpdate] = []
    book.add_listener(heard.append)

    def take_and_fail() -> None:
        with book.transaction():
            book.take_event(event(1, "task_done"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_and_fail()
    assert heard == []
    assert book.tasks() == []
    assert not book.take_event(event(1, "task_done")).duplicate
    assert [update.kind for update in heard] == ["started", "ended"]


def test_two_chat_apps_cannot_share_one_file(tmp_path: Path) -> None:
    book = TaskBook(tmp_path / "chat.db")
    with pytest.raises(ConfigError, match="in use"):
        TaskBook(tmp_path / "chat.db")
    book.close()


def test_a_broken_file_is_refused_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "chat.db").write_bytes(b"not a database" * 400)
    with pytest.raises(ConfigError, match="damaged"):
        TaskBook(tmp_path / "chat.db")


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    now_s = float(NOW)
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: now_s)
    book.cursor("chat")
    for number in range(4_000):
        now_s += 1.0
        book.take_event(event(1, "task_done", task_id=f"t-{number}"))
        book.move_cursor("chat", book.position)
    assert len(book.tasks()) < 4_000 - 256
    assert len(book.updates_after(0, 10_000)) < 2_000
    assert book.updates_after(book.position - 1)
    book.close()


def test_a_reader_that_is_behind_loses_nothing(tmp_path: Path) -> None:
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: NOW)
    book.cursor("slow")
    first = book.cursor("slow")
    for number in range(1_500):
        assert not book.take_event(event(1, "task_done", task_id=f"t-{number}")).full
    assert book.position - first == 3_000 < MAX_BACKLOG
    assert len(book.updates_after(first, 10_000)) == 3_000
    book.close()


def test_a_disk_error_leaves_nothing_half_written(book: TaskBook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("robot_mcp_kit.client.book.save_record", broken)
        with pytest.raises(sqlite3.OperationalError):
            book.take_event(event(1))
    assert told(book) == []
    assert not book.take_event(event(1)).duplicate


def test_a_failure_in_a_foreign_form_is_still_a_failure(book: TaskBook) -> None:
    book.take_event(event(1, "task_failed", payload={"oops": 1}))
    failure = last(book).failure
    assert isinstance(failure, TaskFailure)
    assert failure.error_code == "UNREADABLE_FAILURE"
