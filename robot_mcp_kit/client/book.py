"""What is known of every task: pushed events and polled answers in, one ordered stream of updates out.

Push is the optimisation, poll is the truth. Each change is one transaction: the event's id, the task's new
state and the update that tells of it are written together or not at all, so that a task ends exactly once
however often its end is told and whenever this process is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from robot_mcp_kit.client.database import Database, open_database
from robot_mcp_kit.client.remembering import MAX_REMEMBERED, REMEMBER_S, SeenEvents
from robot_mcp_kit.client.remembering import SCHEMA as SEEN_SCHEMA
from robot_mcp_kit.client.rows import SCHEMA as TASK_SCHEMA
from robot_mcp_kit.client.rows import (
    TaskRecord,
    iso,
    load_record,
    records,
    save_record,
    to_text,
    update_from_row,
)
from robot_mcp_kit.client.updates import SERVER_RESTARTED, Source, TaskUpdate, UpdateKind
from robot_mcp_kit.client.weighing import MAX_BYTES, Weight
from robot_mcp_kit.models import TaskEvent, TaskFailure, TaskInfo, TaskState

logger = logging.getLogger(__name__)

MAX_BACKLOG = 10_000
"""Updates that the slowest consumer may be behind before new events are refused."""
MAX_RUNNING = 10_000
KEPT_UPDATES = 1_000
"""Updates kept although every consumer has had them."""
KEPT_ENDED = 2_000
CACHED_TASKS = 256
_TIDY_EVERY = 256
_STORE, _VERSION = "task book", 1

Listener = Callable[[TaskUpdate], None]


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of an event."""

    duplicate: bool = False
    full: bool = False
    """Not taken: nobody keeps up with the updates. The sender repeats it."""
    gap: tuple[int, ...] = ()
    late: bool = False


class TaskBook:
    """Use it from one event loop (or from threads, without listeners).

    Args:
        path: the SQLite file; ``None`` keeps everything in memory. One process owns it at a time.
        sync: see :func:`~robot_mcp_kit.client.database.open_database`.
        wall_clock: Unix seconds.
        remember_s: how long event ids are known at least.
        max_remembered: most ids in that time.
        max_backlog: updates that the slowest consumer may be behind before events are refused.
        max_bytes: most that the database may hold, whatever the events' sizes, before events are refused.

    Raises:
        ConfigError: another process has the file, or it is damaged. (A ValueError.)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sync: str = "normal",
        wall_clock: Callable[[], float] = time.time,
        remember_s: float = REMEMBER_S,
        max_remembered: int = MAX_REMEMBERED,
        max_backlog: int = MAX_BACKLOG,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.database: Database = open_database(path, sync=sync)
        self._wall_clock = wall_clock
        self._remember_s, self._max_remembered = remember_s, max_remembered
        self._max_backlog = max_backlog
        self._weight = Weight(max_bytes)
        self._depth = 0
        self._cache: OrderedDict[tuple[str, str], TaskRecord] = OrderedDict()
        self._listeners: list[Listener] = []
        self._fresh: list[TaskUpdate] = []
        self._untidied = 0
        try:
            self.database.migrate(_STORE, _VERSION, SEEN_SCHEMA + ";" + TASK_SCHEMA)
            with self.database.transaction() as db:
                self._read(db)
        except BaseException:
            self.database.close()
            raise

    def _read(self, db: sqlite3.Connection) -> None:
        """What is kept at hand of what is on disk."""
        self._cache.clear()
        self._seen = SeenEvents(
            db, self._wall_clock(), remember_s=self._remember_s, max_remembered=self._max_remembered
        )
        self.position = int(
            db.execute(
                "SELECT max(coalesce((SELECT max(position) FROM task_update), 0),"
                " coalesce((SELECT max(position) FROM consumer), 0))"
            ).fetchone()[0]
        )
        self._cursors = {
            str(name): int(position) for name, position in db.execute("SELECT name, position FROM consumer")
        }
        self._running = int(db.execute("SELECT count(*) FROM task WHERE state = 'running'").fetchone()[0])

    def close(self) -> None:
        """Let the file go."""
        self.database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written inside, here and by the application through the connection, or nothing of it.

        No ``await`` inside: other work of the loop would become part of it.

        Raises:
            sqlite3.Error: nothing of it was written.
        """
        self._depth += 1
        try:
            with self.database.transaction() as db:
                yield db
        except BaseException:
            if self._depth == 1:
                self._fresh.clear()
                with contextlib.suppress(sqlite3.Error), self.database.transaction() as db:
                    self._read(db)
            raise
        else:
            if self._depth == 1:
                self._tell()
        finally:
            self._depth -= 1

    # -- looking --------------------------------------------------------------------------------------------

    def task(self, server: str, task_id: str) -> TaskRecord | None:
        """What is known of one task."""
        with self.database.transaction() as db:
            return load_record(db, server, task_id)

    def tasks(self, server: str | None = None, *, running: bool = False) -> list[TaskRecord]:
        """What is known, in the order in which it was first heard of; ``running``: only what has not
        ended.
        """
        with self.database.transaction() as db:
            return records(db, server, running)

    def find(self, task_id: str) -> list[TaskRecord]:
        """The tasks of this id, whichever server's."""
        return [record for record in self.tasks() if record.task_id == task_id]

    # -- listening ------------------------------------------------------------------------------------------

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each update once it is written; it must not block. Returns its removal.

        For what lives and dies with the process; what must not be missed reads with a
        :class:`~robot_mcp_kit.client.consumer.Consumer`.
        """
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def updates_after(self, position: int, limit: int = 100) -> list[TaskUpdate]:
        """Up to ``limit`` updates that follow ``position``, in order."""
        with self.database.transaction() as db:
            rows = db.execute(
                "SELECT * FROM task_update WHERE position > ? ORDER BY position LIMIT ?", (position, limit)
            ).fetchall()
        return [update_from_row(row) for row in rows]

    def cursor(self, name: str) -> int:
        """How far the consumer of this name is; a new one begins with what is still there."""
        if name not in self._cursors:
            with self.database.transaction() as db:
                first = db.execute("SELECT min(position) FROM task_update").fetchone()[0]
                position = self.position if first is None else int(first) - 1
                db.execute("INSERT INTO consumer VALUES (?, ?)", (name, position))
            self._cursors[name] = position
        return self._cursors[name]

    def move_cursor(self, name: str, position: int) -> None:
        """The consumer has dealt with everything up to there. Inside a transaction: together with it."""
        with self.transaction() as db:
            db.execute("UPDATE consumer SET position = ? WHERE name = ?", (position, name))
            self._cursors[name] = position

    @property
    def backlog(self) -> int:
        """How many updates the slowest consumer is behind; 0 without consumers."""
        return self.position - min(self._cursors.values()) if self._cursors else 0

    # -- push -----------------------------------------------------------------------------------------------

    def take_event(self, event: TaskEvent) -> Taken:
        """Take a verified event, once; see :meth:`take_events`."""
        return self.take_events([event])[0]

    def take_events(self, events: Sequence[TaskEvent]) -> list[Taken]:
        """Take verified events, each once, in this order, written down together.

        Raises:
            sqlite3.Error: nothing was written (a full disk); let the sender repeat them.
        """
        with self.transaction() as db:
            return [self._take(db, event) for event in events]

    def _take(self, db: sqlite3.Connection, event: TaskEvent) -> Taken:
        now_s = self._wall_clock()
        record = self._load(db, event.server, event.task_id)
        full = self.backlog >= self._max_backlog or self._seen.full(now_s) or self._too_heavy(db)
        if full or (record is None and self._running >= MAX_RUNNING):
            # What had been taken is acknowledged all the same.
            known = self._seen.knows(db, event.server, event.event_id)
            return Taken(duplicate=known, full=not known)
        if not self._seen.add(db, event.server, event.event_id, now_s):
            return Taken(duplicate=True)
        if record is None:
            record = self._new(db, event.server, event.task_id, event.tool, "push", event.ts)
        arrival, gap = record.track.arrive(event.seq)
        if arrival == "again":
            logger.warning(
                "task %s of %s: event %s repeats seq %d under another id; not applied",
                *(event.task_id, event.server, event.event_id, event.seq),
            )
            return Taken(duplicate=True)
        record.received += 1
        record.pushed = True
        record.heard_at_s = now_s
        if gap and record.running:
            self._emit(db, record, "gap", "push", event.ts, payload={"missing_seq": list(gap[:100])})
        self._apply(db, record, event, late=arrival == "late")
        self._save(db, record)
        self._tidy(db)
        return Taken(gap=gap, late=arrival == "late")

    def _too_heavy(self, db: sqlite3.Connection) -> bool:
        if self._weight.is_due() and self._weight.weigh(db):
            self._drop(db, keep_updates=0, keep_ended=0)
            self._weight.weigh(db)
        return self._weight.over

    def _load(self, db: sqlite3.Connection, server: str, task_id: str) -> TaskRecord | None:
        record = self._cache.get((server, task_id))
        return record if record is not None else load_record(db, server, task_id)

    def _save(self, db: sqlite3.Connection, record: TaskRecord) -> None:
        save_record(db, record)
        key = (record.server, record.task_id)
        self._cache[key] = record
        self._cache.move_to_end(key)
        if len(self._cache) > CACHED_TASKS:
            self._cache.popitem(last=False)

    def _apply(self, db: sqlite3.Connection, record: TaskRecord, event: TaskEvent, *, late: bool) -> None:
        ending: TaskState | None = {"task_done": "succeeded", "task_failed": "failed"}.get(event.type)  # type: ignore[assignment]
        if not record.running:
            if ending is not None and record.lost:
                self._end(db, record, ending, "push", event.ts, event.payload, seq=event.seq)
            return
        if ending is not None:
            self._end(db, record, ending, "push", event.ts, event.payload, seq=event.seq)
            return
        record.changed_at = max(record.changed_at, event.ts)
        if event.type == "progress":
            if late:
                return  # superseded by what came after it
            record.progress = event.payload
        kind: UpdateKind = event.type  # type: ignore[assignment]
        self._emit(db, record, kind, "push", event.ts, payload=event.payload, seq=event.seq, late=late)

    # -- poll -----------------------------------------------------------------------------------------------

    def take_info(self, server: str, info: TaskInfo, source: Source = "poll") -> TaskRecord:
        """Take what the server says when asked (or answers to a call that starts or cancels a task)."""
        with self.transaction() as db:
            record = self._load(db, server, info.task_id)
            if record is None:
                record = self._new(db, server, info.task_id, info.tool, source, info.created_at)
                record.triggers = info.triggers
            self._set_unreachable(db, record, False)
            if info.state != "running":
                if record.running or record.lost:
                    self._end(db, record, info.state, source, info.updated_at, _end_payload(info))
            elif record.running:
                fresh = info.updated_at > record.changed_at or not record.pushed
                if info.progress is not None and info.progress != record.progress and fresh:
                    record.progress = info.progress
                    self._emit(db, record, "progress", source, info.updated_at, payload=info.progress)
                record.changed_at = max(record.changed_at, info.updated_at)
            record.heard_at_s = self._wall_clock()
            self._save(db, record)
            self._tidy(db)
        return record

    def take_cancelled(self, server: str, task_id: str) -> None:
        """The server has confirmed that it cancelled the task."""
        self._end_by_us(server, task_id, "cancelled", {}, lost=False)

    def take_vanished(self, server: str, task_id: str) -> None:
        """The server does not know the task (any more): it counts as failed, ``SERVER_RESTARTED`` (K171)."""
        failure = TaskFailure(
            error_code=SERVER_RESTARTED,
            message=(
                f"The server {server} does not know this task any more, most likely because it was "
                "restarted. Whether the robot finished, stopped or still moves is not known: look before you "
                "start again."
            ),
            recoverable=True,
        )
        self._end_by_us(server, task_id, "failed", failure.model_dump(), lost=True)

    def _end_by_us(
        self, server: str, task_id: str, state: TaskState, payload: dict[str, Any], *, lost: bool
    ) -> None:
        with self.transaction() as db:
            record = self._load(db, server, task_id)
            if record is not None and record.running:
                self._end(db, record, state, "poll", self._now(), payload)
                record.lost = lost
                self._save(db, record)

    def take_unreachable(self, server: str, for_s: float) -> None:
        """The server could not be asked for so long. Told once for each running task, until it can be
        again.
        """
        with self.transaction() as db:
            for found in records(db, server, running=True):
                record = self._load(db, server, found.task_id) or found
                if not record.unreachable:
                    self._set_unreachable(db, record, True, for_s)
                    self._save(db, record)

    def _set_unreachable(
        self, db: sqlite3.Connection, record: TaskRecord, unreachable: bool, for_s: float = 0.0
    ) -> None:
        if record.unreachable == unreachable:
            return
        record.unreachable = unreachable
        if record.running:
            payload = {"for_s": round(for_s, 3)} if unreachable else {}
            self._emit(
                db,
                record,
                "unreachable" if unreachable else "reachable",
                "poll",
                self._now(),
                payload=payload,
            )

    # -- writing --------------------------------------------------------------------------------------------

    def _new(
        self, db: sqlite3.Connection, server: str, task_id: str, tool: str, source: Source, at: datetime
    ) -> TaskRecord:
        record = TaskRecord(server=server, task_id=task_id, tool=tool, changed_at=at)
        self._running += 1
        self._emit(db, record, "started", source, at)
        return record

    def _end(
        self,
        db: sqlite3.Connection,
        record: TaskRecord,
        state: TaskState,
        source: Source,
        at: datetime,
        payload: dict[str, Any],
        *,
        seq: int | None = None,
    ) -> None:
        kind: UpdateKind = "ended" if record.running else "corrected"
        self._running -= record.running
        record.state, record.lost, record.changed_at = state, False, max(record.changed_at, at)
        record.outcome = payload
        self._emit(db, record, kind, source, at, payload=payload, seq=seq)

    def _emit(
        self,
        db: sqlite3.Connection,
        record: TaskRecord,
        kind: UpdateKind,
        source: Source,
        at: datetime,
        *,
        payload: dict[str, Any] | None = None,
        seq: int | None = None,
        late: bool = False,
    ) -> None:
        self.position += 1
        text = to_text(payload) if payload else "{}"
        self._weight.note(2 * len(text))  # once here and once with the task
        db.execute(
            "INSERT INTO task_update VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.position, record.server, record.task_id, record.tool, kind, record.state),
                *(source, iso(at), seq, late, text),
            ),
        )
        if self._listeners:
            self._fresh.append(
                TaskUpdate(
                    position=self.position,
                    server=record.server,
                    task_id=record.task_id,
                    tool=record.tool,
                    kind=kind,
                    state=record.state,
                    source=source,
                    at=iso(at),
                    seq=seq,
                    late=late,
                    payload=payload or {},
                )
            )

    def _tell(self) -> None:
        fresh, self._fresh = self._fresh, []
        for update in fresh:
            for listener in tuple(self._listeners):
                try:
                    listener(update)
                except Exception:
                    logger.exception("a listener of the task book raised")

    def _tidy(self, db: sqlite3.Connection) -> None:
        self._untidied += 1
        if self._untidied < _TIDY_EVERY:
            return
        self._untidied = 0
        self._drop(db, keep_updates=KEPT_UPDATES, keep_ended=KEPT_ENDED)

    def _drop(self, db: sqlite3.Connection, *, keep_updates: int, keep_ended: int) -> None:
        """Delete what nobody needs any more."""
        done = min(self._cursors.values(), default=self.position)
        db.execute("DELETE FROM task_update WHERE position <= ?", (min(done, self.position - keep_updates),))
        self._cache.clear()  # some of it may go now
        # Only what ended long ago: a repeated event of it is known by its id meanwhile.
        db.execute(
            "DELETE FROM task WHERE state != 'running' AND heard_at_s < ? AND number <="
            " (SELECT number FROM task WHERE state != 'running' ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (self._wall_clock() - REMEMBER_S, keep_ended),
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock(), UTC)


def _end_payload(info: TaskInfo) -> dict[str, Any]:
    """What a pushed terminal event would have carried; for a cancelled task its last progress."""
    if info.state == "succeeded":
        return {"result": info.result or {}}
    if info.state == "failed":
        failure = info.failure or TaskFailure(error_code="INTERNAL", message="The server gave no reason.")
        return failure.model_dump()
    return {} if info.progress is None else {"progress": info.progress}
