"""What the chat app knows of its missions, in the task book's own file: each update counts exactly once."""

from __future__ import annotations

import sqlite3

from examples.chat_app.mission import Step, calls
from robot_mcp_kit.client import Consumer, TaskBook, TaskUpdate

_SCHEMA = """
CREATE TABLE IF NOT EXISTS mission (mission TEXT PRIMARY KEY, place TEXT NOT NULL, verdict TEXT) STRICT;
CREATE TABLE IF NOT EXISTS step (mission TEXT, step TEXT, server TEXT NOT NULL, task_id TEXT, why TEXT,
    PRIMARY KEY (mission, step)) STRICT;
CREATE TABLE IF NOT EXISTS fact (server TEXT, task_id TEXT, state TEXT NOT NULL, why TEXT NOT NULL,
    triggered INTEGER NOT NULL, eta_s REAL, unreachable INTEGER NOT NULL, PRIMARY KEY (server, task_id)
) STRICT;
CREATE TABLE IF NOT EXISTS saw_end (number INTEGER PRIMARY KEY, server TEXT, task_id TEXT, state TEXT) STRICT
"""


class Journal:
    """Facts of tasks, steps of missions, and the list of ends that were seen."""

    def __init__(self, book: TaskBook) -> None:
        self._book = book
        book.database.migrate("example missions", 1, _SCHEMA)

    def open_missions(self) -> list[str]:
        """Missions without a verdict."""
        with self._book.database.transaction() as db:
            return [row[0] for row in db.execute("SELECT mission FROM mission WHERE verdict IS NULL")]

    def begin(self, mission: str, place: str) -> None:
        """Write a mission down, once."""
        with self._book.transaction() as db:
            db.execute("INSERT OR IGNORE INTO mission VALUES (?, ?, NULL)", (mission, place))

    def conclude(self, mission: str, verdict: str) -> None:
        """It is over."""
        with self._book.transaction() as db:
            db.execute("UPDATE mission SET verdict = ? WHERE mission = ?", (verdict, mission))

    def place(self, mission: str) -> str:
        """Where it goes."""
        with self._book.database.transaction() as db:
            return str(db.execute("SELECT place FROM mission WHERE mission = ?", (mission,)).fetchone()[0])

    def verdict(self, mission: str) -> str | None:
        """How it ended.

        Raises:
            KeyError: there is no such mission.
        """
        with self._book.database.transaction() as db:
            row = db.execute("SELECT verdict FROM mission WHERE mission = ?", (mission,)).fetchone()
        if row is None:
            raise KeyError(mission)
        return None if row[0] is None else str(row[0])

    def started(self, mission: str, step: str, server: str, task_id: str | None, why: str = "") -> None:
        """A step has become a task; ``None``: it could not be started, and ``why``."""
        with self._book.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?)", (mission, step, server, task_id, why)
            )

    def steps(self, mission: str) -> dict[str, Step]:
        """What is known of each step."""
        found = {name: Step() for name in calls("")}
        with self._book.database.transaction() as db:
            rows = db.execute(
                "SELECT step, step.task_id, step.why, fact.state, fact.why, triggered, eta_s, unreachable"
                " FROM step LEFT JOIN fact USING (server, task_id) WHERE mission = ?",
                (mission,),
            ).fetchall()
        for name, task_id, refused, state, why, triggered, eta_s, unreachable in rows:
            if task_id is None:
                found[name] = Step(None, "failed", refused)
            else:
                found[name] = Step(
                    task_id, state or "running", why or "", bool(triggered), eta_s, bool(unreachable)
                )
        return found

    def apply(self, consumer: Consumer, update: TaskUpdate) -> None:
        """Let an update count, exactly once: the facts and the acknowledgement are one transaction."""
        with consumer.applying(update) as db:
            if db is not None:
                _write(db, update)


def _write(db: sqlite3.Connection, update: TaskUpdate) -> None:
    key = (update.server, update.task_id)
    db.execute("INSERT OR IGNORE INTO fact VALUES (?, ?, 'running', '', 0, NULL, 0)", key)
    if update.kind == "progress":
        eta_s = update.payload.get("eta_s")
        if isinstance(eta_s, (int, float)):
            db.execute("UPDATE fact SET eta_s = ? WHERE server = ? AND task_id = ?", (eta_s, *key))
    elif update.kind == "trigger_fired":
        db.execute("UPDATE fact SET triggered = 1 WHERE server = ? AND task_id = ?", key)
    elif update.kind in ("unreachable", "reachable"):
        db.execute(
            "UPDATE fact SET unreachable = ? WHERE server = ? AND task_id = ?",
            (update.kind == "unreachable", *key),
        )
    elif update.kind in ("ended", "corrected"):
        why = f"{update.failure.error_code}: {update.failure.message}" if update.failure else ""
        db.execute(
            "UPDATE fact SET state = ?, why = ? WHERE server = ? AND task_id = ?", (update.state, why, *key)
        )
        if update.kind == "ended":
            db.execute("INSERT INTO saw_end (server, task_id, state) VALUES (?, ?, ?)", (*key, update.state))
