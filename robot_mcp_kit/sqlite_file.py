"""One SQLite file in WAL mode that one process owns; several stores may share it and its transactions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.loops import running_loop

logger = logging.getLogger(__name__)

SYNC_MODES = ("normal", "full")
_WAIT_FOR_FILE_S = 0.5
WAIT_S = 0.005
"""How long a statement waits for another program that writes: a stop may be waiting behind it."""
RETRY_S = 2.0
"""How long nothing is tried after a failed write."""
_CHECKPOINT_CHANGES = 500
"""So many changed rows are copied from the log into the file at a time; some megabytes of log."""
_KEPT_LOG_BYTES = 4_000_000
_MAX_LOG_BYTES = 16_000_000

Rider = Callable[[sqlite3.Connection], None]


class DamagedFileError(ConfigError):
    """The file is no SQLite file, or a broken one. It was left as it is."""


class SqliteFile:
    """A file for what must outlive the process. All methods may be called from any thread.

    Args:
        path: the file; its folder is created. Beside it, ``.owner`` says who has it and ``.lock`` keeps
            everybody else out until this object is closed or the process dies.
        sync: SQLite's ``normal`` (a killed process loses nothing) or ``full`` (nor does a power cut).
        owner: how this process is called in the error that another one gets.
        wait_s: how long a statement waits, once the file is open, while another program writes to it. The
            event loop stands still meanwhile.

    Raises:
        DamagedFileError: it is damaged or no SQLite file. (A ConfigError.)
        ConfigError: another process has the file (named), or it cannot be created. (A ValueError.)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: str = "normal",
        owner: str = "",
        wait_s: float = WAIT_S,
    ) -> None:
        if sync not in SYNC_MODES:
            raise ConfigError(f"sync: {sync!r} is none of {', '.join(SYNC_MODES)}")
        self.path = Path(path).expanduser()
        self.lock = threading.RLock()
        """Held during each transaction; whoever uses :attr:`connection` directly holds it too."""
        self._riders: list[Rider] = []
        self._after: list[Callable[[], None]] = []
        self.failing = False
        """What the stores keep could not be written, and nothing has been written since."""
        self._retry: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._last_try_is_over = False
        self._closed = False
        self._wait_s = wait_s
        self._owner = self.path.with_name(f"{self.path.name}.owner")
        self._lock_file: sqlite3.Connection | None = None
        self.connection = self._open(sync)
        _set_wait(self.connection, wait_s)
        self.checkpoints = Checkpoints(self.path, self.lock)
        with contextlib.suppress(OSError):  # only words for a person
            self._owner.write_text(f"process {os.getpid()}{f', {owner}' if owner else ''}")

    def _open(self, sync: str) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock_file = _locked(self.path.with_name(f"{self.path.name}.lock"))
            return _checked(self.path, sync)
        except sqlite3.OperationalError as exc:
            self._unlock()
            if "locked" in str(exc):
                raise ConfigError(
                    f"{self.path} is in use by {self._who()}; one process, one file: stop that one, or name "
                    "another file"
                ) from exc
            raise ConfigError(f"{self.path}: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            self._unlock()
            raise DamagedFileError(
                f"{self.path} is damaged ({exc}), so what the robot was doing is not known. Make sure "
                "that it stands still, then move the file away"
            ) from exc
        except OSError as exc:
            raise ConfigError(f"{self.path}: {exc}") from exc

    def _unlock(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()

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
        with self.patiently(), self.transaction() as connection:
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
            self.changed()
            self._works()

    @contextlib.contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait longer for another program that writes: while opening and closing, when nothing runs."""
        with self.lock:
            _set_wait(self.connection, _WAIT_FOR_FILE_S)
            try:
                yield
            finally:
                _set_wait(self.connection, self._wait_s)

    # -- while it cannot be written -----------------------------------------------------------------

    def flush(self) -> None:
        """Write what rides along. Costs nothing while a retry is due; never raises what SQLite does."""
        with self.lock:
            if self._retry is not None and self._retry[0].is_running():
                return
            try:
                with self.transaction():
                    pass  # what is kept rides along
            except sqlite3.Error as error:
                self.failed(error)

    def failed(self, error: sqlite3.Error) -> None:
        """Tell that something was not written that a store keeps and lets ride along.

        Until something is written, :attr:`failing` is true, and one timer tries again.
        """
        with self.lock:
            if not self.failing:
                self.failing = True
                logger.error(
                    "%s cannot be written (%s); what happens is kept in memory, and it is tried again",
                    self.path,
                    error,
                )
            loop = running_loop()
            if loop is None or self._closed or (self._retry is not None and self._retry[0].is_running()):
                return
            # Not with the log fields of whoever met the fault first.
            timer = loop.call_later(RETRY_S, self._try_again, context=contextvars.Context())
            self._retry = (loop, timer)

    def _try_again(self) -> None:
        with self.lock:
            self._retry = None
            if not self._closed:
                self.flush()

    def _works(self) -> None:
        if not self.failing:
            return
        self.failing = False
        self._forget_retry()
        logger.warning("%s can be written again, and what was kept is written", self.path)

    def _forget_retry(self) -> None:
        retry, self._retry = self._retry, None
        if retry is not None and retry[0] is running_loop():
            retry[1].cancel()  # elsewhere it finds nothing to do

    def last_try(self) -> None:
        """Before the close: write what could not be written, waiting for other programs once (0.5 s)."""
        with self.lock:
            if not self.failing or self._last_try_is_over or self._closed:
                return
            self._last_try_is_over = True
            self._forget_retry()
            try:
                with self.patiently(), self.transaction():
                    pass
            except sqlite3.Error as error:
                logger.error(
                    "%s could not be written to the end (%s); what happened meanwhile is not in it",
                    self.path,
                    error,
                )

    def changed(self) -> None:
        """Tell of what was written outside :meth:`transaction`, or the log grows for ever."""
        self.checkpoints.look(self.connection.total_changes)

    def close(self) -> None:
        """Let the file go. Harmless when repeated."""
        self.last_try()
        self.checkpoints.close()
        with self.lock:
            self._closed = True
            self._forget_retry()
            self.connection.close()
            with contextlib.suppress(OSError):
                self._owner.unlink()
            self._unlock()


class Checkpoints:
    """Copies the log into the file now and then, on a thread of its own.

    SQLite would do it inside some commit, with syncs of both files; on a slow disk that holds up whoever
    writes, a stop as well, for as long as half a second. Here a writer waits only when it never pauses and
    the log has grown past :data:`_MAX_LOG_BYTES`.

    Args:
        path: the file. Its thread is started when there is something to do.
        lock: keeps the file's writer out.
    """

    def __init__(self, path: Path, lock: AbstractContextManager[Any]) -> None:
        self._path, self._lock = path, lock
        self._done_changes = 0
        self._due = threading.Event()
        self.idle = threading.Event()
        """Set while nothing is being copied and nothing waits to be."""
        self.idle.set()
        self._closed = False
        self._thread: threading.Thread | None = None

    def look(self, changes: int) -> None:
        """Begin one when there were enough changes; costs nothing otherwise."""
        if changes - self._done_changes < _CHECKPOINT_CHANGES or self._closed:
            return
        self._done_changes = changes
        self.idle.clear()
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"checkpoints of {self._path.name}", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the thread. Harmless when repeated."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._due.wait() and not self._closed:
            self._due.clear()
            try:
                with contextlib.closing(sqlite3.connect(self._path, timeout=_WAIT_FOR_FILE_S)) as connection:
                    self._copy(connection)
            except sqlite3.Error as error:
                logger.warning("%s: its log could not be copied into it: %s", self._path, error)
            if not self._due.is_set():
                self.idle.set()

    def _copy(self, connection: sqlite3.Connection) -> None:
        # Waits for nobody and holds up nobody. The log begins anew when nothing was written meanwhile.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self._path.with_name(f"{self._path.name}-wal").stat().st_size > _MAX_LOG_BYTES:
            _set_wait(connection, 0.0)  # whoever writes waits behind this
            with self._lock:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def is_held(path: Path) -> bool:
    """Whether a process has the file open as a :class:`SqliteFile`. Makes no file.

    Raises:
        sqlite3.Error: it cannot be told.
    """
    lock_file = path.with_name(f"{path.name}.lock")
    if not lock_file.exists():
        return False
    address = f"{lock_file.absolute().as_uri()}?mode=rw"
    try:
        with contextlib.closing(
            sqlite3.connect(address, uri=True, isolation_level=None, timeout=_WAIT_FOR_FILE_S)
        ) as connection:
            connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return True
        raise
    return False


def _set_wait(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def _locked(path: Path) -> sqlite3.Connection:
    """Holds an exclusive lock on a file until it is closed or the process dies."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_WAIT_FOR_FILE_S
    )
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except BaseException:
        connection.close()
        raise
    return connection


def _checked(path: Path, sync: str) -> sqlite3.Connection:
    """A connection to a sound file."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_WAIT_FOR_FILE_S
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {_KEPT_LOG_BYTES}")
        connection.execute(f"PRAGMA synchronous = {sync.upper()}")
        connection.execute("BEGIN IMMEDIATE")  # fails where an older version has the file
        connection.execute("COMMIT")
        # Reads every page that matters: damage is found now and not at the first use.
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("quick_check failed")
    except BaseException:
        connection.close()
        raise
    return connection
