"""Event ids that have come, for longer than any sender repeats them, and not for ever."""

from __future__ import annotations

import hashlib
import sqlite3

REMEMBER_S = 1200.0
"""A sender retries one event for 600 s and a signature is good for 300 s: an id forgotten sooner could be
applied twice (K29)."""
MAX_REMEMBERED = 1_000_000
"""In ``REMEMBER_S``. 16 bytes an id; when it is used up, new events are refused for a while, never old ids
forgotten.
"""

SCHEMA = """
CREATE TABLE IF NOT EXISTS seen_0 (id BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen_1 (id BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS generation (
    one INTEGER PRIMARY KEY CHECK (one = 0), current INTEGER, since_s REAL
) STRICT
"""


class SeenEvents:
    """Two generations of ids: new ones go into the current, and when that is old enough the older one is
    dropped.

    So an id is known for at least ``remember_s`` and at most twice that, and forgetting costs nothing.

    Args:
        connection: whose tables; they exist.
        now_s: Unix seconds.
        remember_s: the least time that an id is known, seconds.
        max_remembered: most ids in one generation.
    """

    def __init__(
        self, connection: sqlite3.Connection, now_s: float, *, remember_s: float, max_remembered: int
    ) -> None:
        self._remember_s = remember_s
        self._max = max_remembered
        row = connection.execute("SELECT current, since_s FROM generation").fetchone()
        self._current, self._since_s = (int(row[0]), float(row[1])) if row else (0, now_s)
        self._count = self._size(connection, self._current)
        self._older = self._size(connection, 1 - self._current) > 0

    @staticmethod
    def _size(connection: sqlite3.Connection, generation: int) -> int:
        return int(connection.execute(f"SELECT count(*) FROM seen_{generation}").fetchone()[0])  # noqa: S608

    @staticmethod
    def _key(server: str, event_id: str) -> bytes:
        # Within a server: one must not be able to use up another's ids.
        return hashlib.blake2b(f"{server}\0{event_id}".encode(), digest_size=16).digest()

    def knows(self, connection: sqlite3.Connection, server: str, event_id: str) -> bool:
        """Whether the id has come before."""
        found = connection.execute(
            "SELECT 1 FROM seen_0 WHERE id = ?1 UNION ALL SELECT 1 FROM seen_1 WHERE id = ?1",
            (self._key(server, event_id),),
        ).fetchone()
        return found is not None

    def full(self, now_s: float) -> bool:
        """Whether no id can be added now without forgetting one too early."""
        return self._count >= self._max and self._since_s <= now_s < self._since_s + self._remember_s

    def add(self, connection: sqlite3.Connection, server: str, event_id: str, now_s: float) -> bool:
        """Remember the id; whether it is new."""
        if now_s < self._since_s:  # the wall clock was set back
            self._set(connection, self._current, now_s)
        elif now_s >= self._since_s + self._remember_s:
            self._older = self._count > 0
            self._set(connection, 1 - self._current, now_s)
            connection.execute(f"DELETE FROM seen_{self._current}")  # noqa: S608
            self._count = 0
        key = self._key(server, event_id)
        if self._older:
            older = f"SELECT 1 FROM seen_{1 - self._current} WHERE id = ?"  # noqa: S608
            if connection.execute(older, (key,)).fetchone() is not None:
                return False
        new = f"INSERT OR IGNORE INTO seen_{self._current} VALUES (?)"  # noqa: S608
        if connection.execute(new, (key,)).rowcount == 0:
            return False
        self._count += 1
        return True

    def _set(self, connection: sqlite3.Connection, current: int, since_s: float) -> None:
        self._current, self._since_s = current, since_s
        connection.execute("INSERT OR REPLACE INTO generation VALUES (0, ?, ?)", (current, since_s))
