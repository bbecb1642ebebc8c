"""The ledger that outlives the process: goals and tasks in one SQLite file, which the event outbox shares.

The file is shared so that three things are written in one piece or not at all: an event, the number and the
last progress of its task, and, with a terminal event, the end of its goal. A crash at any moment then leaves
either an open goal, which is adopted, or a finished task whose last event waits for delivery.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from robot_mcp_kit.bridge.ledger import (
    MAX_AGE_S,
    MAX_ENDED_RETAINED,
    Change,
    Ledger,
    LedgerError,
    LedgerRow,
    check_retention,
)
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.journal import SavedTask, TaskJournal
from robot_mcp_kit.loops import running_loop
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.sqlite_file import SqliteFile

T = TypeVar("T")

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS goal (
    task_id TEXT PRIMARY KEY,
    skill TEXT NOT NULL,
    action TEXT NOT NULL,
    action_type TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    idempotency_key TEXT UNIQUE,
    goal_id TEXT,
    state TEXT NOT NULL,
    ending TEXT,
    error_code TEXT,
    arguments TEXT NOT NULL,
    plan TEXT,
    cancel_reason TEXT,
    taken_over_by TEXT,
    ended_at_s REAL
) STRICT;
CREATE INDEX IF NOT EXISTS goal_open ON goal (state) WHERE state <> 'ended';
CREATE INDEX IF NOT EXISTS goal_ended ON goal (ended_at_s) WHERE state = 'ended';
CREATE TABLE IF NOT EXISTS task (
    task_id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    seq INTEGER NOT NULL,
    fired TEXT NOT NULL,
    cancel_accepted INTEGER NOT NULL,
    finished_at_s REAL,
    info TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS task_running ON task (state) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS task_finished ON task (finished_at_s) WHERE finished_at_s IS NOT NULL;
"""
_GOAL = (
    "goal.task_id, skill, action, arguments_hash, idempotency_key, goal_id, goal.state, ending, error_code,"
    " action_type, arguments, plan, cancel_reason, taken_over_by"
)
_TASK = "info, seq, fired, cancel_accepted"
_PRUNE_EVERY = 50
# A restart finds these out by itself, or something that is written follows at once.
_LAZY = frozenset({RunState.WAITING_FOR_SERVER, RunState.WAITING_FOR_TURN, RunState.EXECUTING})


class SqliteLedger(Ledger, TaskJournal):
    """Goals and tasks on disk.

    A commit outlives a killed process always, a power cut when the file syncs ``full``. While the file cannot
    be written, what is staged and noted stays in memory and is written in one piece as soon as it can be;
    :meth:`record` and :meth:`update` raise.

    Args:
        file: the open file; its owner closes it, after the last use of the ledger.
        max_ended_retained: how many ended rows, keys and outcomes are kept, oldest end out first.
        max_age_s: how long after their end.
        wall_clock: Unix seconds.

    Raises:
        ConfigError: the file's ledger is of another version. (A ValueError.)
    """

    def __init__(
        self,
        file: SqliteFile,
        *,
        max_ended_retained: int = MAX_ENDED_RETAINED,
        max_age_s: float = MAX_AGE_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        check_retention(max_ended_retained, max_age_s)
        self._file, self._wall_clock = file, wall_clock
        self._max_ended, self._max_age_s = max_ended_retained, max_age_s
        self._notes: dict[str, Change] = {}
        self._tasks: dict[str, SavedTask] = {}
        self._riding: tuple[dict[str, Change], dict[str, SavedTask]] = ({}, {})
        self._flush_is_due = False
        self._records = 0
        file.migrate("ledger", SCHEMA_VERSION, _SCHEMA)
        found = file.connection.execute("SELECT task_id FROM task WHERE state = 'running'")
        self._running: set[str] = {task_id for (task_id,) in found}
        file.ride_along(self._write_staged, self._staged_is_written)
        with file.patiently(), file.transaction() as connection:
            self._prune(connection)

    # -- goals ------------------------------------------------------------------------------------

    def record(self, row: LedgerRow) -> None:
        values = (
            row.task_id,
            row.skill,
            row.action,
            row.action_type,
            row.arguments_hash,
            row.idempotency_key,
            row.goal_id,
            row.state,
            row.ending,
            row.error_code,
            json.dumps(row.arguments),
            None if row.plan is None else json.dumps(row.plan),
            row.cancel_reason,
            row.taken_over_by,
        )
        try:
            with self._file.transaction() as connection:
                self._records += 1
                if self._records % _PRUNE_EVERY == 0:
                    self._prune(connection)
                connection.execute(
                    "INSERT INTO goal (task_id, skill, action, action_type, arguments_hash, idempotency_key,"
                    " goal_id, state, ending, error_code, arguments, plan, cancel_reason, taken_over_by)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    values,
                )
        except sqlite3.IntegrityError as error:
            what = "idempotency key" if "idempotency_key" in str(error) else f"task {row.task_id}"
            raise LedgerError(f"the {what} is already written down") from error
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def update(self, task_id: str, change: Change) -> None:
        with self._file.lock:
            # What was noted before comes first, and must not ride along behind this.
            earlier = self._notes.pop(task_id, None)
            try:
                with self._file.transaction() as connection:
                    found = self._change(connection, task_id, _merge(earlier, change))
            except sqlite3.Error as error:
                if earlier is not None:
                    self._notes[task_id] = earlier
                raise self._unusable(error) from error
        if not found:
            raise LedgerError(f"the task {task_id} is not written down")

    def note(self, task_id: str, change: Change) -> None:
        with self._file.lock:
            self._notes[task_id] = _merge(self._notes.get(task_id), change)
        if change.state not in _LAZY:
            self._flush_soon()

    def _change(self, connection: sqlite3.Connection, task_id: str, change: Change) -> bool:
        values: dict[str, Any] = change.values()
        if change.state is RunState.ENDED:
            values["ended_at_s"] = self._wall_clock()
        columns = ", ".join(f"{name} = ?" for name in values)
        done = connection.execute(
            f"UPDATE goal SET {columns} WHERE task_id = ?",  # noqa: S608 - own names
            (*values.values(), task_id),
        )
        return done.rowcount > 0

    def get(self, task_id: str) -> LedgerRow | None:
        return self._row("WHERE task_id = ?", task_id)

    def by_key(self, idempotency_key: str) -> LedgerRow | None:
        row = self._row("WHERE idempotency_key = ?", idempotency_key)
        if row is None or row.state is not RunState.ENDED:
            return row
        statement = "SELECT ended_at_s FROM goal WHERE task_id = ?"
        (ended_s,) = self._query(_whole, statement, row.task_id)[0]
        if ended_s is None or ended_s >= self._wall_clock() - self._max_age_s:
            return row
        try:
            with self._file.transaction() as connection:
                self._prune(connection)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return None

    def open_rows(self) -> list[LedgerRow]:
        self.flush()
        return self._query(
            _goal,
            f"SELECT {_GOAL} FROM goal WHERE goal.state <> 'ended' OR task_id IN"  # noqa: S608 - own text
            " (SELECT task_id FROM task WHERE state = 'running') ORDER BY rowid",
        )

    def _row(self, condition: str, value: str) -> LedgerRow | None:
        rows = self._query(_goal, f"SELECT {_GOAL} FROM goal {condition}", value)  # noqa: S608 - own text
        if not rows:
            return None
        row = rows[0]
        noted = self._notes.get(row.task_id)
        return row if noted is None else replace(row, **noted.values())

    def _query(self, read: Callable[[tuple[Any, ...]], T], statement: str, *values: Any) -> list[T]:
        try:
            with self._file.lock:
                rows = self._file.connection.execute(statement, values).fetchall()
            return [read(row) for row in rows]
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        except (ValueError, TypeError, LookupError) as error:
            why = " ".join(str(error).split())[:200]
            raise LedgerError(
                f"the ledger {self._file.path} holds what cannot be read ({why}), so what the robot was "
                "doing is not known. Make sure that it stands still, then move the file away"
            ) from error

    def _unusable(self, error: sqlite3.Error) -> LedgerError:
        return LedgerError(f"the ledger {self._file.path} cannot be used: {error}")

    # -- tasks ------------------------------------------------------------------------------------

    def stage(self, task: SavedTask) -> None:
        with self._file.lock:
            self._tasks[task.info.task_id] = task
            if task.info.state == "running":
                self._running.add(task.info.task_id)
            else:
                self._running.discard(task.info.task_id)

    def saved_task(self, task_id: str) -> SavedTask | None:
        with self._file.lock:
            if task_id in self._tasks:
                return self._tasks[task_id]
        rows = self._query(_task, f"SELECT {_TASK} FROM task WHERE task_id = ?", task_id)  # noqa: S608 - own text
        return rows[0] if rows else None

    def ended_tasks(self, most: int) -> list[SavedTask]:
        rows = self._query(
            _task,
            f"SELECT {_TASK} FROM task WHERE finished_at_s IS NOT NULL"  # noqa: S608 - own text
            " ORDER BY finished_at_s DESC, rowid DESC LIMIT ?",
            most,
        )
        return rows[::-1]

    def tasks_without_goal(self) -> list[SavedTask]:
        return self._query(
            _task,
            f"SELECT {_TASK} FROM task WHERE state = 'running' AND task_id NOT IN"  # noqa: S608 - own text
            " (SELECT task_id FROM goal)",
        )

    # -- writing ----------------------------------------------------------------------------------

    def flush(self) -> None:
        self._flush_is_due = False
        with self._file.lock:
            if not self._tasks and not any(self._may_be_written(*item) for item in self._notes.items()):
                return
        self._file.flush()

    def _flush_soon(self) -> None:
        """In a moment, so that what is on its way to the robot leaves first."""
        if self._flush_is_due:
            return
        loop = running_loop()
        if loop is None:
            self.flush()
        else:
            self._flush_is_due = True
            # Behind what is begun in this turn of the loop and leaves in the next one.
            loop.call_soon(loop.call_soon, self.flush)

    def _may_be_written(self, task_id: str, change: Change) -> bool:
        """The end of a goal waits for the end of its task: alone it would leave a task without an outcome."""
        return change.state is not RunState.ENDED or task_id not in self._running

    def _write_staged(self, connection: sqlite3.Connection) -> None:
        notes = {key: change for key, change in self._notes.items() if self._may_be_written(key, change)}
        for task_id, change in notes.items():
            self._change(connection, task_id, change)
        for task in self._tasks.values():
            info = task.info
            running = info.state == "running"
            connection.execute(
                "INSERT INTO task (task_id, state, seq, fired, cancel_accepted, finished_at_s, info)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task_id) DO UPDATE SET state = excluded.state,"
                " seq = excluded.seq, fired = excluded.fired, cancel_accepted = excluded.cancel_accepted,"
                " finished_at_s = coalesce(task.finished_at_s, excluded.finished_at_s), info = excluded.info",
                (
                    info.task_id,
                    info.state,
                    task.seq,
                    json.dumps(task.fired),
                    int(task.cancel_accepted),
                    None if running else self._wall_clock(),
                    info.model_dump_json(),
                ),
            )
        self._riding = (notes, dict(self._tasks))

    def _staged_is_written(self) -> None:
        notes, tasks = self._riding
        self._riding = ({}, {})
        self._notes = {key: change for key, change in self._notes.items() if notes.get(key) is not change}
        self._tasks = {key: task for key, task in self._tasks.items() if tasks.get(key) is not task}

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Forget old ends, and the outcomes of tasks that no row stands for."""
        connection.execute(
            "DELETE FROM goal WHERE state = 'ended' AND (ended_at_s < ? OR rowid IN (SELECT rowid FROM goal"
            " WHERE state = 'ended' ORDER BY ended_at_s DESC, rowid DESC LIMIT -1 OFFSET ?))",
            (self._wall_clock() - self._max_age_s, self._max_ended),
        )
        connection.execute(
            "DELETE FROM task WHERE finished_at_s IS NOT NULL AND task_id NOT IN (SELECT task_id FROM goal)"
        )


def _merge(earlier: Change | None, later: Change) -> Change:
    return later if earlier is None else replace(earlier, **later.values())


def _whole(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row


def _goal(row: tuple[Any, ...]) -> LedgerRow:
    (task_id, skill, action, fingerprint, key, goal_id, state, ending, error_code, kind, arguments, plan) = (
        row[:12]
    )
    return LedgerRow(
        task_id,
        skill,
        action,
        fingerprint,
        key,
        goal_id,
        RunState(state),
        None if ending is None else Ending(ending),
        error_code,
        kind,
        json.loads(arguments),
        None if plan is None else json.loads(plan),
        *row[12:],
    )


def _task(row: tuple[Any, ...]) -> SavedTask:
    info, seq, fired, cancel_accepted = row
    return SavedTask(TaskInfo.model_validate_json(info), seq, tuple(json.loads(fired)), bool(cancel_accepted))
