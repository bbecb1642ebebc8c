"""What was about to be started, written down before the call leaves.

A chat app that dies between the call and its answer finds out afterwards whether the robot has begun.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.triggers import canonical_key

KEPT_S = 7 * 24 * 3600.0
"""A key counts as new again after a week."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS intent (
    server TEXT NOT NULL,
    key TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    made_at_s REAL NOT NULL,
    task_id TEXT,
    PRIMARY KEY (server, key)
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Intent:
    """One start. ``task_id`` is ``None`` while nobody knows whether the call arrived."""

    server: str
    key: str
    tool: str
    arguments: dict[str, Any]
    made_at_s: float
    task_id: str | None


class Intents:
    """The starts of one task book, in the same file.

    Args:
        book: whose file.
    """

    def __init__(self, book: TaskBook) -> None:
        self._book = book
        book.database.migrate("intents", 1, _SCHEMA)

    def get(self, server: str, key: str) -> Intent | None:
        """The start under this key."""
        with self._book.database.transaction() as db:
            row = db.execute(
                "SELECT server, key, tool, arguments, made_at_s, task_id FROM intent"
                " WHERE server = ? AND key = ?",
                (server, key),
            ).fetchone()
        if row is None:
            return None
        server_name, key_text, tool, arguments, made_at_s, task_id = row
        return Intent(server_name, key_text, tool, json.loads(arguments), made_at_s, task_id)

    def write(self, intent: Intent) -> None:
        """Write it down, on disk before this returns."""
        with self._book.transaction() as db:
            db.execute("DELETE FROM intent WHERE made_at_s < ?", (intent.made_at_s - KEPT_S,))
            db.execute(
                "INSERT OR REPLACE INTO intent VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(intent.server, intent.key, intent.tool, json.dumps(intent.arguments)),
                    *(intent.made_at_s, intent.task_id),
                ),
            )

    def remove(self, intent: Intent) -> None:
        """It was not begun."""
        with self._book.transaction() as db:
            db.execute("DELETE FROM intent WHERE server = ? AND key = ?", (intent.server, intent.key))

    def claimed(self, server: str) -> set[str]:
        """Tasks of this server that starts of ours have led to."""
        with self._book.database.transaction() as db:
            rows = db.execute(
                "SELECT task_id FROM intent WHERE server = ? AND task_id IS NOT NULL", (server,)
            ).fetchall()
        return {row[0] for row in rows}


def same_call(intent: Intent, tool: str, arguments: dict[str, Any]) -> bool:
    """Whether that start was this one."""
    return intent.tool == tool and canonical_key(intent.arguments) == canonical_key(arguments)
