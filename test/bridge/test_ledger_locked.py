"""The ledger while another program writes to its file, or nothing can be written: nobody waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from robot_mcp_kit.bridge.ledger import Change, LedgerError
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.bridge.states import RunState
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.sqlite_file import WAIT_S, SqliteFile

from .lives import hold_retries, locked
from .test_ledger import crash, event, open_file, row, saved

__all__ = ["open_file"]


def busy_timeout_ms(connection: sqlite3.Connection) -> int:
    (value,) = connection.execute("PRAGMA busy_timeout").fetchone()
    return int(value)


def test_only_opening_waits_for_another_program_that_writes(open_file: Callable[..., SqliteFile]) -> None:
    """B22, B28: the loop stands still while a statement waits, and a stop with it."""
    file = open_file()
    assert busy_timeout_ms(file.connection) == round(WAIT_S * 1000) <= 10
    statements: list[str] = []
    file.connection.set_trace_callback(statements.append)
    SqliteLedger(file)
    SqliteOutbox(file)
    waits, wait = [], ""
    for statement in statements:
        wait = statement if "busy_timeout" in statement else wait
        waits += [wait] if statement == "BEGIN IMMEDIATE" else []
    assert set(waits) == {"PRAGMA busy_timeout = 500"}
    assert busy_timeout_ms(file.connection) == round(WAIT_S * 1000)


def test_copying_a_long_log_waits_for_no_other_program(
    open_file: Callable[..., SqliteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: whoever writes waits behind it."""
    monkeypatch.setattr("robot_mcp_kit.sqlite_file._MAX_LOG_BYTES", 0)
    file = open_file()
    SqliteLedger(file).record(row("t1"))
    with closing(sqlite3.connect(file.path, timeout=5.0)) as connection, locked(file.path):
        file.checkpoints._copy(connection)
        assert busy_timeout_ms(connection) == 0


async def test_while_the_file_is_locked_one_timer_tries_and_nobody_else(
    open_file: Callable[..., SqliteFile], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B28: what is staged and noted waits in memory; what must be there before a goal leaves is refused."""
    file = open_file()
    ledger, outbox = SqliteLedger(file), SqliteOutbox(file)
    ledger.stage(saved("t1"))
    ledger.record(row("t1"))
    outbox.append(event("t1", 0))
    delivered = outbox.head("t1")
    assert delivered is not None
    retries = hold_retries(monkeypatch)
    statements: list[str] = []
    with locked(file.path):
        ledger.stage(saved("t1", seq=1))
        ledger.flush()
        file.connection.set_trace_callback(statements.append)
        for seq in range(2, 30):
            ledger.stage(saved("t1", seq=seq))
            outbox.append(event("t1", seq))
            ledger.note("t1", Change(cancel_reason=f"reason {seq}"))
            ledger.flush()
        assert statements == []
        outbox.remove(delivered.key)
        assert {statement.split()[0] for statement in statements} == {"SELECT"}
        statements.clear()
        for _ in range(3):
            assert retries.pending() == 1
            retries.fire()
        assert statements == ["BEGIN IMMEDIATE"] * 3
        for _ in range(3):
            file.failed(sqlite3.OperationalError("database is locked"))  # as other stores would say
        assert retries.pending() == 1
        with pytest.raises(LedgerError, match="locked"):
            ledger.record(row("t2"))
        with pytest.raises(LedgerError, match="locked"):
            ledger.update("t1", Change(state=RunState.SENDING))
        assert SqliteLedger(open_file(crash(file.path, "before.db"))).saved_task("t1") == saved("t1")
    retries.fire()
    assert retries.pending() == 0
    left = open_file(crash(file.path))
    after = SqliteLedger(left)
    assert after.saved_task("t1") == saved("t1", seq=29)
    found = after.get("t1")
    assert found is not None
    assert (found.state, found.cancel_reason) == (RunState.PREPARED, "reason 29")
    seqs = left.connection.execute("SELECT seq FROM event ORDER BY key").fetchall()
    assert seqs == [(seq,) for seq in range(2, 30)]
    assert caplog.text.count("cannot be written") == 1
    assert caplog.text.count("can be written again") == 1


async def test_a_start_that_can_be_written_down_brings_the_rest_with_it(
    open_file: Callable[..., SqliteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B28: nobody waits for the timer then, and it is gone."""
    file = open_file()
    ledger = SqliteLedger(file)
    retries = hold_retries(monkeypatch)
    with locked(file.path):
        ledger.stage(saved("t1", seq=4))
        ledger.flush()
    ledger.record(row("t2"))
    assert retries.pending() == 0
    assert SqliteLedger(open_file(crash(file.path))).saved_task("t1") == saved("t1", seq=4)
    with locked(file.path):
        ledger.stage(saved("t1", seq=5))
        ledger.flush()
        assert retries.pending() == 1, "a later lock is met in the same way"


def test_a_loop_that_has_ended_does_not_keep_the_file_from_being_written(
    open_file: Callable[..., SqliteFile],
) -> None:
    """B28: its timer will never fire."""
    file = open_file()
    ledger = SqliteLedger(file)

    async def fail() -> None:
        with locked(file.path):
            ledger.stage(saved("t1", seq=4))
            ledger.flush()

    asyncio.run(fail())
    ledger.flush()
    assert SqliteLedger(open_file(crash(file.path))).saved_task("t1") == saved("t1", seq=4)


@pytest.mark.parametrize("still", [True, False])
def test_the_close_of_a_locked_file_tries_once_more(
    open_file: Callable[..., SqliteFile], caplog: pytest.LogCaptureFixture, still: bool
) -> None:
    """B29: one bounded try; what is lost is said."""
    file = open_file()
    ledger, outbox = SqliteLedger(file), SqliteOutbox(file)
    statements: list[str] = []
    with locked(file.path):
        ledger.stage(saved("t1", seq=4))
        ledger.flush()
        file.connection.set_trace_callback(statements.append)
        if still:
            outbox.close()
            file.close()
            assert statements.count("BEGIN IMMEDIATE") == 1
            assert statements.count("PRAGMA busy_timeout = 500") == 1
    file.close()
    assert ("could not be written to the end" in caplog.text) is still
    left = SqliteLedger(open_file()).saved_task("t1")
    assert left == (None if still else saved("t1", seq=4))
