"""The outbox that outlives the process: one SQLite file in WAL mode."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.outbox import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_EVENTS,
    MemoryOutbox,
    NewEntry,
    Outbox,
    OutboxEntry,
    check_bounds,
    rank,
)
from robot_mcp_kit.sqlite_file import DamagedFileError, SqliteFile

logger = logging.getLogger(__name__)

SCHEMA_USER_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    server TEXT NOT NULL,
    type TEXT NOT NULL,
    seq INTEGER NOT NULL,
    accepted_at_s REAL NOT NULL,
    body BLOB NOT NULL,
    rank INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS event_of_task ON event (task_id, key);
CREATE INDEX IF NOT EXISTS event_by_rank ON event (rank, key);
"""
_COLUMNS = "key, event_id, task_id, server, type, seq, accepted_at_s, body"
_INSERT = f"INSERT INTO event ({_COLUMNS}, rank) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own names


class SqliteOutbox(Outbox):
    """Events accepted before a crash are delivered after it, with the same id, seq and bytes.

    A killed process loses nothing. ``synchronous="FULL"`` also survives a power cut, for a disk sync
    (milliseconds) with every event; the default ``NORMAL`` may lose the last moments then, never the file.

    One process owns the file at a time. While the file cannot be written (full, broken, locked by another
    program), new events are kept in memory, in order, and delivered all the same; they go to the file, in one
    piece with what else waits for it, as soon as it works again.

    Args:
        path: the file; its folder is created. Or an open file that other stores share: its owner closes it,
            and how it syncs is the file's own affair.
        max_events: most events kept.
        max_bytes: most body bytes kept.
        synchronous: ``NORMAL`` or ``FULL``.

    Raises:
        ConfigError: another process has the file, it cannot be created, or a newer version wrote it. (A
        ValueError.)
    """

    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str] | SqliteFile,
        *,
        max_events: int = DEFAULT_MAX_EVENTS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        synchronous: str = "NORMAL",
    ) -> None:
        check_bounds(max_events, max_bytes)
        if synchronous not in ("NORMAL", "FULL"):
            raise ConfigError(f"synchronous: NORMAL or FULL, got {synchronous!r}")
        self._shared = isinstance(path, SqliteFile)
        self.path = path.path if isinstance(path, SqliteFile) else Path(path)
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._file = path if isinstance(path, SqliteFile) else self._open(synchronous)
        self._lock = self._file.lock
        self._gone: set[int] = set()
        """Delivered, but not yet deleted because the file cannot be written."""
        self._unreadable = False
        self._closed = False
        self._connection = self._file.connection
        try:
            self._prepare()
        except BaseException:
            if not self._shared:
                self._file.close()
            raise
        self._count, self._bytes, last_key = self._connection.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0), max(coalesce(max(key), 0), coalesce("
            "(SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)) FROM event"
        ).fetchone()
        self._next_key = int(last_key) + 1
        self._empty_memory()
        self._file.ride_along(self._write_kept, self._kept_is_written)

    def _empty_memory(self) -> None:
        """Where events go while the file cannot be written; they keep their keys when they are written."""
        self._first_in_memory = self._next_key
        self._memory = MemoryOutbox(
            max_events=self._max_events, max_bytes=self._max_bytes, first_key=self._next_key
        )

    def _open(self, synchronous: str) -> SqliteFile:
        sync = synchronous.lower()
        try:
            try:
                return SqliteFile(self.path, sync=sync)
            except DamagedFileError as exc:
                aside = self.path.with_name(f"{self.path.name}.corrupt-{time.time_ns()}")
                self.path.rename(aside)
                logger.error(
                    "outbox %s is damaged (%s); moved to %s, starting empty", self.path, exc.__cause__, aside
                )
                return SqliteFile(self.path, sync=sync)
        except (ConfigError, OSError) as exc:
            raise ConfigError(f"outbox {exc}") from exc

    def _prepare(self) -> None:
        with self._file.patiently(), self._file.transaction() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_USER_VERSION:
                raise ConfigError(
                    f"outbox {self.path}: written by a newer version ({version}); remove or move it"
                )
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_USER_VERSION}")

    def append(self, entry: NewEntry, *, keep: Collection[int] = ()) -> list[OutboxEntry]:
        with self._lock:
            # What waits in memory is older, so the newer must not overtake it through the file.
            if self._file.failing:
                evicted = self._keep(entry, keep)
                self._file.flush()
                return evicted if self._file.failing else evicted + self._evict(keep)
            try:
                self._insert(entry)
            except sqlite3.Error as exc:
                self._file.failed(exc)
                return self._keep(entry, keep)
            self._readable()
            return self._evict(keep)

    def _insert(self, entry: NewEntry) -> None:
        with self._file.transaction() as connection:
            connection.execute(_INSERT, _values(self._next_key, entry))
        self._next_key += 1
        self._count += 1
        self._bytes += len(entry.body)

    def _keep(self, entry: NewEntry, keep: Collection[int]) -> list[OutboxEntry]:
        if not len(self._memory):
            self._empty_memory()
        self._next_key += 1
        return self._memory.append(entry, keep=keep)

    def _write_kept(self, connection: sqlite3.Connection) -> None:
        for entry in self._memory.entries():
            connection.execute(_INSERT, _values(entry.key, entry))
        for key in self._gone:
            connection.execute("DELETE FROM event WHERE key = ?", (key,))

    def _kept_is_written(self) -> None:
        self._gone.clear()  # counted when they were delivered
        written = self._memory.entries()
        if written:
            self._count += len(written)
            self._bytes += sum(len(entry.body) for entry in written)
            self._empty_memory()

    def _evict(self, keep: Collection[int]) -> list[OutboxEntry]:
        evicted: list[OutboxEntry] = []
        while self._count > self._max_events or self._bytes > self._max_bytes:
            row = self._row("ORDER BY rank, key", (), exclude=(*keep, *self._gone))
            if row is None:
                break
            evicted.append(row)
            self._delete(row.key)
        return evicted

    def head(self, task_id: str) -> OutboxEntry | None:
        with self._lock:
            return self._row("AND task_id = ? ORDER BY key", (task_id,), exclude=tuple(self._gone)) or (
                self._memory.head(task_id)
            )

    def _row(
        self, condition: str, values: tuple[Any, ...], *, exclude: tuple[int, ...]
    ) -> OutboxEntry | None:
        marks = ", ".join("?" * len(exclude))
        found = self._read(
            f"SELECT {_COLUMNS} FROM event WHERE key NOT IN ({marks}) {condition} LIMIT 1",  # noqa: S608  own text
            (*exclude, *values),
        )
        return OutboxEntry(*found[0]) if found else None

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Nothing when the file cannot be read any more: what waits in memory is delivered all the same."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as exc:
            self._complain(exc)
            return []

    def remove(self, key: int) -> None:
        with self._lock:
            if len(self._memory) and key >= self._first_in_memory:
                self._memory.remove(key)
            else:
                self._delete(key)

    def _delete(self, key: int) -> None:
        """Delete a row; when it cannot be, remember that it is gone, or it would be sent for ever."""
        found = None if self._file.failing else self._delete_now(key)
        if found is None:
            if key in self._gone:
                return
            found = self._read("SELECT length(body) FROM event WHERE key = ?", (key,))
            self._gone.add(key)
        for (size,) in found:
            self._count -= 1
            self._bytes -= size

    def _delete_now(self, key: int) -> list[tuple[Any, ...]] | None:
        try:
            found = self._connection.execute(
                "DELETE FROM event WHERE key = ? RETURNING length(body)", (key,)
            ).fetchall()
        except sqlite3.Error as exc:
            self._file.failed(exc)
            return None
        self._file.changed()
        return found

    def _complain(self, exc: sqlite3.Error) -> None:
        if not self._unreadable:
            self._unreadable = True
            logger.error("outbox %s cannot be read (%s); what it holds waits there", self.path, exc)

    def _readable(self) -> None:
        if self._unreadable:
            self._unreadable = False
            logger.warning("outbox %s can be used again", self.path)

    def task_ids(self) -> list[str]:
        with self._lock:
            marks = ", ".join("?" * len(self._gone))
            rows = self._read(
                f"SELECT task_id FROM event WHERE key NOT IN ({marks}) GROUP BY task_id ORDER BY min(key)",  # noqa: S608
                tuple(self._gone),
            )
            return list(dict.fromkeys([task_id for (task_id,) in rows] + self._memory.task_ids()))

    def __len__(self) -> int:
        return int(self._count) + len(self._memory)

    def oldest_accepted_at_s(self) -> float | None:
        with self._lock:
            if self._closed:
                return None
            row = self._row("ORDER BY key", (), exclude=tuple(self._gone))
            return self._memory.oldest_accepted_at_s() if row is None else row.accepted_at_s

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._file.last_try()
            lost = len(self._memory)
            if lost:
                logger.error("outbox %s: %d events that could not be written are lost", self.path, lost)
            if not self._shared:
                self._file.close()


def _values(key: int, entry: NewEntry | OutboxEntry) -> tuple[Any, ...]:
    return (
        key,
        entry.event_id,
        entry.task_id,
        entry.server,
        entry.type,
        entry.seq,
        entry.accepted_at_s,
        entry.body,
        rank(entry.type),
    )
