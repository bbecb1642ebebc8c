"""One SQLite file in WAL mode that one process owns; several stores may share it and its transactions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from robot_mcp_kit.errors import ConfigError

SYNC_MODES = ("normal", "full")
_WAIT_FOR_FILE_S = 0.5

Rider = Callable[[sqlite3.Connection], None]


def open_exclusive(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection that keeps everybody else out of the file until it closes or its process dies.

    Args:
        path: the file, made if it is not there.
        synchronous: SQLite's ``NORMAL`` (a killed process loses nothing) or ``FULL`` (nor does a power cut).

    Raises:
        sqlite3.OperationalError: somebody else has it, or it cannot be created.
        sqlite3.DatabaseError: it is damaged or no SQLite file. (The former is one of these.)
    """
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_WAIT_FOR_FILE_S
    )
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("BEGIN IMMEDIATE")  # takes the file for this process
        connection.execute("COMMIT")
        # Reads every page that matters: damage is found now and not at the first use.
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("quick_check failed")
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteFile:
    """A file for what must outlive the process. All methods may be called from any thread.

    Args:
        path: the file; its folder is created. A second file of that name with ``.owner`` behind it says who
            has it.
        sync: ``normal`` or ``full``, see :func:`open_exclusive`.
        owner: how this process is called in the error that another one gets.

    Raises:
        ConfigError: another process has the file (named), or it is damaged, or cannot be created. (A
        ValueError.)
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: str = "normal", owner: str = "") -> None:
        if sync not in SYNC_MODES:
            raise ConfigError(f"sync: {sync!r} is none of {', '.join(SYNC_MODES)}")
        self.path = Path(path).expanduser()
        self.lock = threading.RLock()
        """Held during each transaction; whoever uses :attr:`connection` directly holds it too."""
        self._riders: list[Rider] = []
        self._after: list[Callable[[], None]] = []
        self._owner = self.path.with_name(f"{self.path.name}.owner")
        self.connection = self._open(sync)
        with contextlib.suppress(OSError):  # only words for a person
            self._owner.write_text(f"process {os.getpid()}{f', {owner}' if owner else ''}")

    def _open(self, sync: str) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return open_exclusive(self.path, sync.upper())
        except sqlite3.OperationalError as exc:
            if "locked" in str(exc):
                raise ConfigError(
                    f"{self.path} is in use by {self._who()}; one bridge, one file: stop that one, or name "
                    "another file"
                ) from exc
            raise ConfigError(f"{self.path}: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            raise ConfigError(
                f"{self.path} is damaged ({exc}), so what the robot was doing is not known. Make sure "
                "that it stands still, then move the file away"
            ) from exc
        except OSError as exc:
            raise ConfigError(f"{self.path}: {exc}") from exc

    def _who(self) -> str:
        try:
            return self._owner.read_text()[:200] or "another process"
        except OSError:
            return "another process"

    def migrate(self, store: str, version: int, schema: str) -> None:
        """Create a store's tables, or refuse those of another version.

        Args:
            store: the store's name.
            version: of its tables.
            schema: statements, each harmless when repeated.

        Raises:
            ConfigError: the tables are of another version.
        """
        with self.transaction() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS schema_version (store TEXT PRIMARY KEY, version INTEGER NOT NULL)"
                " STRICT"
            )
            row = connection.execute(
                "SELECT version FROM schema_version WHERE store = ?", (store,)
            ).fetchone()
            if row is not None and row[0] != version:
                age = "newer" if row[0] > version else "older"
                raise ConfigError(
                    f"{self.path}: its {store} was written by {age} software (version {row[0]}, this one "
                    f"knows {version}). Let that software finish its tasks, or move the file away"
                )
            for statement in schema.split(";"):
                connection.execute(statement)
            connection.execute("INSERT OR IGNORE INTO schema_version VALUES (?, ?)", (store, version))

    def ride_along(self, write: Rider, done: Callable[[], None]) -> None:
        """Call ``write`` in every transaction, before it is committed, and ``done`` after the commit.

        So what one store has to say goes to disk in one piece with what another one says.
        """
        self._riders.append(write)
        self._after.append(done)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on disk when the block ends; one inside another is part of the outer one.

        Raises:
            sqlite3.Error: nothing of it was written.
        """
        with self.lock:
            if self.connection.in_transaction:
                yield self.connection
                return
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                for write in self._riders:
                    write(self.connection)
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # a full disk rolls back by itself
                    self.connection.execute("ROLLBACK")
                raise
            for done in self._after:
                done()

    def close(self) -> None:
        """Let the file go. Harmless when repeated."""
        with self.lock:
            self.connection.close()
            with contextlib.suppress(OSError):
                self._owner.unlink()
