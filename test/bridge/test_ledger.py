"""What is written down: the same for both ledgers, and what only a file keeps."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from robot_mcp_kit.bridge.ledger import Change, Ledger, LedgerError, LedgerRow, MemoryLedger, hash_arguments
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.journal import SavedTask
from robot_mcp_kit.models import TaskInfo, TaskState
from robot_mcp_kit.outbox import NewEntry
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.sqlite_file import SqliteFile

DAY_S = 24 * 3600.0
ENDED = Change(state=RunState.ENDED, ending=Ending.SUCCEEDED)
NOW = datetime(2026, 6, 12, tzinfo=UTC)


def row(task_id: str, key: str | None = None) -> LedgerRow:
    return LedgerRow(task_id, "navigate_to", "/navigate_to_pose", "hash", key)


def saved(task_id: str, state: TaskState = "running", seq: int = 0) -> SavedTask:
    info = TaskInfo(
        task_id=task_id, server="robot", tool="navigate_to", state=state, created_at=NOW, updated_at=NOW
    )
    return SavedTask(info, seq, ('{"type":"eta_below"}',))


def event(task_id: str, seq: int, kind: str = "progress") -> NewEntry:
    return NewEntry(f"{task_id}-{seq}", task_id, "robot", kind, seq, 1000.0, b"{}")


def crash(path: Path, name: str = "left.db") -> Path:
    """The file as a process killed just now would leave it."""
    left = path.with_name(name)
    for end in ("", "-wal"):
        if path.with_name(path.name + end).exists():
            shutil.copy(path.with_name(path.name + end), left.with_name(left.name + end))
    return left


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[Callable[..., SqliteFile]]:
    opened: list[SqliteFile] = []

    def open_it(path: Path | None = None, *, sync: str = "normal") -> SqliteFile:
        opened.append(SqliteFile(path or tmp_path / "ledger.db", sync=sync))
        return opened[-1]

    yield open_it
    for file in opened:
        file.close()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, open_file: Callable[..., SqliteFile]) -> Callable[..., Ledger]:
    if request.param == "memory":
        return MemoryLedger
    return lambda **bounds: SqliteLedger(open_file(), **bounds)


# -- both -----------------------------------------------------------------------------------------


def test_it_knows_whose_ids_it_keeps(make: Callable[..., Ledger]) -> None:
    """B2: running or ended, until the row is forgotten; asking never raises."""
    ledger = make(max_ended_retained=0)
    ledger.record(row("t1"))
    assert ledger.knows("t1")
    assert not ledger.knows("t2")


def test_a_file_knows_the_ids_of_tasks_that_have_no_goal_too(open_file: Callable[..., SqliteFile]) -> None:
    """B2: on disk and staged; a broken file is said when something is written."""
    file = open_file()
    ledger = SqliteLedger(file)
    ledger.stage(saved("t1"))
    assert ledger.knows("t1")
    ledger.flush()
    assert ledger.knows("t1")
    file.close()
    assert not ledger.knows("t1")


def test_a_row_keeps_what_an_update_does_not_name(make: Callable[..., Ledger]) -> None:
    ledger = make()
    ledger.record(row("t1", "k"))
    ledger.update("t1", Change(state=RunState.SENDING, goal_id="g"))
    ledger.note("t1", Change(cancel_reason="enough"))
    ledger.update("t1", Change(state=RunState.ENDED, ending=Ending.FAILED, error_code="X"))
    found = ledger.by_key("k")
    assert found is not None
    assert (found.goal_id, found.state, found.ending) == ("g", RunState.ENDED, Ending.FAILED)
    assert (found.error_code, found.cancel_reason) == ("X", "enough")
    assert ledger.get("t1") == found
    assert ledger.open_rows() == []


def test_a_task_or_key_is_written_once(make: Callable[..., Ledger]) -> None:
    ledger = make()
    ledger.record(row("t1", "k"))
    with pytest.raises(LedgerError, match="t1"):
        ledger.record(row("t1"))
    with pytest.raises(LedgerError, match="key"):
        ledger.record(row("t2", "k"))
    with pytest.raises(LedgerError, match="t3"):
        ledger.update("t3", ENDED)
    assert ledger.get("t2") is None


def test_the_oldest_ended_rows_go_first_and_running_ones_stay(make: Callable[..., Ledger]) -> None:
    """B6: the retention is bounded by number."""
    now = [0.0]
    ledger = make(max_ended_retained=2, wall_clock=lambda: now[0])
    for number in range(5):
        ledger.record(row(f"t{number}", f"k{number}"))
    for number in (3, 1, 2):
        now[0] += 1.0
        ledger.update(f"t{number}", ENDED)
    for number in range(5, 105):  # enough for the ledger to look
        ledger.record(row(f"t{number}"))
    assert ledger.get("t3") is None
    assert ledger.by_key("k3") is None
    assert ledger.by_key("k1") is not None
    assert [r.task_id for r in ledger.open_rows()][:3] == ["t0", "t4", "t5"]


def test_a_key_means_a_new_task_after_its_retention(make: Callable[..., Ledger]) -> None:
    """B6: the retention is bounded by age, too."""
    now = [0.0]
    ledger = make(max_age_s=7 * DAY_S, wall_clock=lambda: now[0])
    ledger.record(row("old", "k"))
    ledger.update("old", ENDED)
    now[0] = 6.9 * DAY_S
    assert ledger.by_key("k") is not None
    now[0] = 7.1 * DAY_S
    assert ledger.by_key("k") is None
    ledger.record(row("new", "k"))
    found = ledger.by_key("k")
    assert found is not None
    assert found.task_id == "new"


def test_a_running_task_keeps_its_key_however_long_it_takes(make: Callable[..., Ledger]) -> None:
    now = [0.0]
    ledger = make(wall_clock=lambda: now[0])
    ledger.record(row("slow", "k"))
    now[0] = 30 * DAY_S
    assert ledger.by_key("k") is not None


@pytest.mark.parametrize("bounds", [{"max_ended_retained": -1}, {"max_age_s": 0.0}])
def test_bounds_that_mean_nothing_are_refused(make: Callable[..., Ledger], bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bounds))):
        make(**bounds)


def test_the_order_of_arguments_does_not_make_another_call() -> None:
    assert hash_arguments("s", {"a": 1, "b": 2}) == hash_arguments("s", {"b": 2, "a": 1})
    assert hash_arguments("s", {"a": 1}) != hash_arguments("t", {"a": 1})


# -- the file -------------------------------------------------------------------------------------


def test_a_killed_process_leaves_its_rows(open_file: Callable[..., SqliteFile]) -> None:
    """B2: everything that an adopting process needs."""
    file = open_file()
    ledger = SqliteLedger(file)
    whole = LedgerRow(
        "t1",
        "navigate_to",
        "/navigate_to_pose",
        "hash",
        "k",
        action_type="nav2_msgs/action/NavigateToPose",
        arguments={"x_m": 1.0, "names": ["Zoë"]},
        plan={"summary": "drive"},
    )
    ledger.stage(saved("t1", seq=3))
    ledger.record(whole)
    ledger.update("t1", Change(state=RunState.SENDING, goal_id="g"))
    left = SqliteLedger(open_file(crash(file.path)))
    (found,) = left.open_rows()
    assert found == LedgerRow(
        **{
            **{name: getattr(whole, name) for name in whole.__slots__},
            "state": RunState.SENDING,
            "goal_id": "g",
        }
    )
    assert left.saved_task("t1") == saved("t1", seq=3)
    assert left.by_key("k") == found


def test_an_event_and_what_it_tells_are_written_in_one_piece(open_file: Callable[..., SqliteFile]) -> None:
    """B25: a terminal event is in the outbox if and only if its task and its goal have ended."""
    file = open_file()
    ledger, outbox = SqliteLedger(file), SqliteOutbox(file)
    ledger.stage(saved("t1"))
    ledger.record(row("t1"))
    ledger.note("t1", Change(state=RunState.ENDED, ending=Ending.SUCCEEDED))
    ledger.flush()
    before = SqliteLedger(open_file(crash(file.path)))
    assert [r.task_id for r in before.open_rows()] == ["t1"], "the goal's end waits for its task's"
    ledger.stage(saved("t1", "succeeded", 1))
    outbox.append(event("t1", 1, "task_done"))
    left = open_file(crash(file.path, "later.db"))
    after = SqliteLedger(left)
    assert after.open_rows() == []
    assert [task.info.state for task in after.ended_tasks(10)] == ["succeeded"]
    assert SqliteOutbox(left).task_ids() == ["t1"]


def test_a_full_disk_refuses_the_row_and_keeps_what_is_staged(
    open_file: Callable[..., SqliteFile], caplog: pytest.LogCaptureFixture
) -> None:
    """B28: fail closed; nothing that was learned meanwhile is forgotten."""
    file = open_file()
    ledger = SqliteLedger(file)
    ledger.stage(saved("t1"))
    ledger.record(row("t1"))
    (pages,) = file.connection.execute("PRAGMA page_count").fetchone()
    file.connection.execute(f"PRAGMA max_page_count = {pages}")
    big = LedgerRow("t2", "s", "/a", "h", arguments={"text": "x" * 100_000})
    with pytest.raises(LedgerError, match=r"ledger\.db.*full"):
        ledger.record(big)
    assert ledger.get("t2") is None
    info = saved("t1", seq=2).info.model_copy(update={"progress": {"text": "y" * 100_000}})
    with caplog.at_level(logging.ERROR):
        ledger.stage(SavedTask(info, 2))
        ledger.flush()
        ledger.flush()
    assert caplog.text.count("cannot be written") == 1, "said once"
    file.connection.execute("PRAGMA max_page_count = 1000000")
    ledger.flush()
    left = SqliteLedger(open_file(crash(file.path)))
    task = left.saved_task("t1")
    assert task is not None
    assert task.seq == 2


def test_a_closed_file_is_a_ledger_error(open_file: Callable[..., SqliteFile]) -> None:
    file = open_file()
    ledger = SqliteLedger(file)
    ledger.record(row("t1", "k"))
    file.close()
    for use in (
        lambda: ledger.record(row("t2")),
        lambda: ledger.update("t1", ENDED),
        lambda: ledger.by_key("k"),
        ledger.open_rows,
    ):
        with pytest.raises(LedgerError):
            use()
    ledger.note("t1", ENDED)
    ledger.flush()


def test_a_second_process_is_refused_and_told_who_has_the_file(tmp_path: Path) -> None:
    """One writer: two bridges on one file would both adopt the same goals."""
    path = tmp_path / "ledger.db"
    program = (
        "import sys\n"
        "from robot_mcp_kit.sqlite_file import SqliteFile\n"
        "file = SqliteFile(sys.argv[1], owner='/robot7/bridge')\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with pytest.raises(ConfigError, match=rf"process {first.pid}, /robot7/bridge"):
            SqliteFile(path)
    finally:
        first.kill()
        first.communicate()
    SqliteFile(path).close()


@pytest.mark.parametrize("damage", ["not a database", "a page overwritten"])
def test_a_damaged_file_is_left_alone_and_named(
    open_file: Callable[..., SqliteFile], tmp_path: Path, damage: str
) -> None:
    """B28: what the robot was doing is not known, so nothing begins."""
    path = tmp_path / "damaged.db"
    if damage == "not a database":
        path.write_bytes(b"something else" * 1000)
    else:
        file = SqliteFile(path)
        ledger = SqliteLedger(file)
        for number in range(200):
            ledger.record(row(f"t{number}", f"k{number}"))
        file.close()
        with path.open("r+b") as raw:
            raw.seek(4096 * 3)
            raw.write(b"\xff" * 8192)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"damaged\.db is damaged.*stands still"):
        open_file(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("version", "age"), [(99, "newer"), (0, "older")])
def test_a_ledger_of_another_version_is_refused(
    open_file: Callable[..., SqliteFile], tmp_path: Path, version: int, age: str
) -> None:
    path = tmp_path / "other.db"
    file = SqliteFile(path)
    SqliteLedger(file).record(row("t1"))
    file.connection.execute("UPDATE schema_version SET version = ?", (version,))
    file.close()
    reopened = open_file(path)
    with pytest.raises(ConfigError, match=f"{age} software"):
        SqliteLedger(reopened)


def test_a_path_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        SqliteFile(tmp_path / "file" / "ledger.db")
    with pytest.raises(ConfigError, match="sync"):
        SqliteFile(tmp_path / "ledger.db", sync="sometimes")


def test_the_log_is_copied_into_the_file_by_another_thread(
    open_file: Callable[..., SqliteFile], tmp_path: Path
) -> None:
    """No commit waits for that, and the log stays small however long the robot works."""
    file = open_file(tmp_path / "busy.db")
    assert file.connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,), "no commit does it"
    outbox = SqliteOutbox(file)
    log = tmp_path / "busy.db-wal"
    longest = 0
    for number in range(6000):
        outbox.append(event(f"t{number}", 1))
        outbox.remove(number + 1)
        longest = max(longest, log.stat().st_size)
        if number % 300 == 299:
            assert file.checkpoints.idle.wait(30), "it ends by itself"
    assert longest < 32_000_000
    outbox.append(event("last", 1))
    file.close()
    reopened = SqliteOutbox(open_file(tmp_path / "busy.db"))
    assert reopened.task_ids() == ["last"]


def test_the_file_is_plain_sqlite_and_json(open_file: Callable[..., SqliteFile]) -> None:
    """An operator can read it, and nothing in it is executed."""
    file = open_file()
    ledger = SqliteLedger(file)
    ledger.stage(saved("t1"))
    ledger.record(row("t1"))
    with sqlite3.connect(crash(file.path)) as reader:
        ((info, fired),) = reader.execute("SELECT info, fired FROM task").fetchall()
    reader.close()
    assert json.loads(info)["task_id"] == "t1"
    assert json.loads(fired) == ['{"type":"eta_below"}']


def test_tasks_that_no_goal_stands_for_are_found(open_file: Callable[..., SqliteFile]) -> None:
    file = open_file()
    ledger = SqliteLedger(file)
    ledger.stage(saved("stray"))
    ledger.flush()
    assert [task.info.task_id for task in ledger.tasks_without_goal()] == ["stray"]
    assert ledger.open_rows() == []
