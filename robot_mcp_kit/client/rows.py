"""The task book's rows: how tasks and updates are laid out on disk."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from robot_mcp_kit.client.tracking import SeqTrack
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.models import TaskState

SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
    number INTEGER PRIMARY KEY,
    server TEXT NOT NULL,
    task_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    state TEXT NOT NULL,
    lost INTEGER NOT NULL,
    unreachable INTEGER NOT NULL,
    pushed INTEGER NOT NULL,
    highest_seq INTEGER NOT NULL,
    missing TEXT NOT NULL,
    received INTEGER NOT NULL,
    progress TEXT,
    outcome TEXT,
    triggers TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    heard_at_s REAL NOT NULL,
    UNIQUE (server, task_id)
) STRICT;
CREATE INDEX IF NOT EXISTS task_by_state ON task (state, number);
CREATE TABLE IF NOT EXISTS task_update (
    position INTEGER PRIMARY KEY,
    server TEXT NOT NULL,
    task_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    source TEXT NOT NULL,
    at TEXT NOT NULL,
    seq INTEGER,
    late INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS consumer (name TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT
"""
_COLUMNS = (
    "server, task_id, tool, state, lost, unreachable, pushed, highest_seq, missing, received, progress,"
    " outcome, triggers, changed_at, heard_at_s"
)
_UPDATE = (
    "UPDATE task SET state = ?, lost = ?, unreachable = ?, pushed = ?, highest_seq = ?, missing = ?,"
    " received = ?, progress = ?, outcome = ?, triggers = ?, changed_at = ?, heard_at_s = ? WHERE number = ?"
)


@dataclass(slots=True)
class TaskRecord:
    """What is known of one task, from whatever source."""

    server: str
    task_id: str
    tool: str
    changed_at: datetime
    """The server's own time of what is known; a poll that is older changes nothing."""
    state: TaskState = "running"
    lost: bool = False
    """Ended only because its server did not know it any more."""
    unreachable: bool = False
    """Its server cannot be asked just now."""
    pushed: bool = False
    """At least one event has come."""
    track: SeqTrack = field(default_factory=SeqTrack)
    received: int = 0
    """Different events that have come."""
    progress: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None
    """The payload of its end: ``{"result": ...}``, or the failure's fields."""
    triggers: list[dict[str, Any]] = field(default_factory=list)
    heard_at_s: float = 0.0
    """Unix seconds, our clock."""
    number: int | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def ended(self) -> bool:
        return self.state != "running"

    @property
    def highest_seq(self) -> int:
        return self.track.highest

    @property
    def missing(self) -> list[int]:
        """Sequence numbers that have not come, ascending (the last 10,000)."""
        return self.track.missing()

    @property
    def contiguous(self) -> bool:
        """Every sequence number from 1 to the highest has arrived."""
        return not self.track.ranges


def load_record(db: sqlite3.Connection, server: str, task_id: str) -> TaskRecord | None:
    """One task, or ``None``."""
    row = db.execute(
        f"SELECT number, {_COLUMNS} FROM task WHERE server = ? AND task_id = ?",  # noqa: S608
        (server, task_id),
    ).fetchone()
    return None if row is None else _record(row)


def records(db: sqlite3.Connection, server: str | None, running: bool) -> list[TaskRecord]:
    """Tasks in the order in which they were first heard of."""
    where = [("server = ?", server)] if server is not None else []
    where += [("state = ?", "running")] if running else []
    condition = "".join(f" {'AND' if index else 'WHERE'} {text}" for index, (text, _) in enumerate(where))
    rows = db.execute(
        f"SELECT number, {_COLUMNS} FROM task{condition} ORDER BY number",  # noqa: S608
        [value for _, value in where],
    ).fetchall()
    return [_record(row) for row in rows]


def save_record(db: sqlite3.Connection, record: TaskRecord) -> None:
    """Write one task."""
    values = (
        *(record.server, record.task_id, record.tool, record.state, record.lost, record.unreachable),
        *(record.pushed, record.track.highest, record.track.to_text(), record.received),
        *(
            _text(record.progress),
            _text(record.outcome),
            to_text(record.triggers) if record.triggers else "[]",
        ),
        *(iso(record.changed_at), record.heard_at_s),
    )
    if record.number is None:
        record.number = db.execute(
            f"INSERT INTO task ({_COLUMNS}) VALUES (?{', ?' * 14})",  # noqa: S608
            values,
        ).lastrowid
    else:
        db.execute(_UPDATE, (*values[3:], record.number))


def _record(row: tuple[Any, ...]) -> TaskRecord:
    return TaskRecord(
        number=row[0],
        server=row[1],
        task_id=row[2],
        tool=row[3],
        state=row[4],
        lost=bool(row[5]),
        unreachable=bool(row[6]),
        pushed=bool(row[7]),
        track=SeqTrack.from_text(row[8], row[9]),
        received=row[10],
        progress=_content(row[11]),
        outcome=_content(row[12]),
        triggers=json.loads(row[13]),
        changed_at=datetime.fromisoformat(row[14]).astimezone(UTC),
        heard_at_s=row[15],
    )


def update_from_row(row: tuple[Any, ...]) -> TaskUpdate:
    """An update as it was written."""
    *start, late, payload = row
    return TaskUpdate(*start, late=bool(late), payload=json.loads(payload))  # type: ignore[misc]


def _text(value: dict[str, Any] | None) -> str | None:
    return None if value is None else to_text(value)


def to_text(value: Any) -> str:
    """JSON."""
    return to_json(value, inf_nan_mode="null").decode()


def iso(at: datetime) -> str:
    """UTC with milliseconds, as on the wire."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _content(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
