"""Where the chat app's half keeps what must outlive it: a SQLite file, or memory for a terminal or a test."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from robot_mcp_kit.sqlite_file import SqliteFile

_WAIT_S = 0.5
"""Nothing here moves a robot, and it costs more to take an event again than to wait for its place."""


class Database(Protocol):
    """Transactions on one connection; :class:`~robot_mcp_kit.sqlite_file.SqliteFile` is one."""

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """All or nothing; one inside another is part of the outer one."""
        ...

    def migrate(self, store: str, version: int, schema: str) -> None:
        """Create a store's tables."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class MemoryDatabase:
    """A database that ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; one inside another is part of the outer one."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def migrate(self, store: str, version: int, schema: str) -> None:  # noqa: ARG002
        """Create a store's tables."""
        with self.transaction() as connection:
            for statement in schema.split(";"):
                connection.execute(statement)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._connection.close()


def open_database(path: str | os.PathLike[str] | None, *, sync: str = "normal") -> Database:
    """The file at ``path``, which one process owns at a time; memory for ``None``.

    Args:
        path: created with its folder.
        sync: ``normal``: a killed process loses nothing, a power cut at most the last moments (polling then
            shows the truth). ``full``: nor does a power cut, for a disk sync with every event.

    Raises:
        ConfigError: another process has the file, or it is damaged or cannot be made. (A ValueError.)
    """
    return MemoryDatabase() if path is None else SqliteFile(path, sync=sync, owner="chat app", wait_s=_WAIT_S)
