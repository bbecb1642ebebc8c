"""The audit trail: JSON lines, each with the hash of the one before, never changed, synced before a motion.

``append`` writes, ``sync`` makes what was written survive a power cut. A goal leaves only after its
``started`` record is synced; when the trail cannot be written, nothing leaves (R38). Old bytes are never
touched: a line that a crash or a full disk tore stays as it is, and the next record says so.
"""

from __future__ import annotations

import abc
import asyncio
import fcntl
import hashlib
import hmac
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from robot_mcp_kit.clock import WallClock
from robot_mcp_kit.models import format_timestamp
from robot_mcp_kit.safety.audit_records import (
    FILE_PATTERN,
    HEAD_FILE,
    ChainReader,
    Record,
    TrailState,
    hash_of,
    line_of,
    scrub,
)

logger = logging.getLogger(__name__)

_HEAD_BYTES = 512
DEFAULT_MAX_FILE_BYTES = 16_000_000


class AuditError(RuntimeError):
    """The trail cannot be written or does not add up: nothing may start."""


class Trail(abc.ABC):
    """Where requests, decisions, starts and ends are written."""

    @property
    @abc.abstractmethod
    def state(self) -> TrailState:
        """What the trail adds up to now."""

    @abc.abstractmethod
    def append(self, event: str, **data: Any) -> Record:
        """Write one record; it is written (not yet safe from a power cut) when this returns.

        Raises:
            AuditError: it is not, or only in part.
        """

    @abc.abstractmethod
    def sync(self) -> None:
        """Wait until everything written so far is safe. May block for milliseconds.

        Raises:
            AuditError: it is not.
        """

    @abc.abstractmethod
    async def sync_soon(self) -> None:
        """As :meth:`sync`, without holding up the loop."""

    @abc.abstractmethod
    def close(self) -> None:
        """Say that this was an orderly end. Harmless when repeated."""


class MemoryTrail(Trail):
    """Forgotten with the process: for tests, and nothing else.

    Args:
        wall: Unix seconds.
    """

    def __init__(self, wall: WallClock = time.time) -> None:
        self._wall, self._state = wall, TrailState()
        self.records: list[Record] = []

    @property
    def state(self) -> TrailState:
        return self._state

    def append(self, event: str, **data: Any) -> Record:
        record = _new_record(self._state, event, data, self._wall(), ())
        record["hash"] = hash_of(record)
        self._state.apply(record)
        self.records.append(record)
        return record

    def sync(self) -> None:
        return

    async def sync_soon(self) -> None:
        return

    def close(self) -> None:
        return


class AuditTrail(Trail):
    """Owns a folder. ``append`` may be called from any thread.

    Args:
        folder: made if it is not there; only its owner may read it.
        wall: Unix seconds.
        key: authenticates the head, so that cutting off the end shows even if the head is rewritten.
        max_file_bytes: a longer file is closed and the next one continues the chain.
        secrets: texts that are never written.

    Raises:
        AuditError: another process has it, it cannot be written, or it was tampered with.
    """

    def __init__(
        self,
        folder: Path,
        *,
        wall: WallClock = time.time,
        key: bytes | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        secrets: Iterable[str] = (),
    ) -> None:
        self._folder, self._wall, self._max_bytes = folder, wall, max_file_bytes
        self._key, self._secrets = key or b"robot-mcp-kit", tuple(secrets)
        # Re-entrant: the change to a following file syncs inside an append.
        self._lock, self._head_lock = threading.RLock(), threading.Lock()
        self._tail = b""
        """Bytes of a line that was not finished."""
        self._torn: list[str] = []
        self._broken: str | None = None
        """Why it can never be written again by this object."""
        self._closed = False
        self.synced_seq = 0
        self._fd = self._lock_fd = self._head_fd = -1
        self._path = folder / "audit-00000001.jsonl"
        self._size = 0
        self._state = TrailState()
        try:
            self._open()
        except OSError as error:
            self._release()
            raise AuditError(
                f"{folder}: the audit trail cannot be opened: {error.strerror or error}"
            ) from error
        except AuditError:
            self._release()
            raise

    @property
    def state(self) -> TrailState:
        return self._state

    @property
    def fault(self) -> str | None:
        """Why nothing can be written, or ``None``."""
        return self._broken

    # -- writing --------------------------------------------------------------------------------------------

    def append(self, event: str, **data: Any) -> Record:
        with self._lock:
            self._check_whole()
            if self._size >= self._max_bytes and not self._tail:
                self._rotate()
            return self._append(event, data)

    def sync(self) -> None:
        with self._lock:
            # Of one record; and of a file that nobody closes under the sync, whatever is appended meanwhile.
            seq, digest = self._state.seq, self._state.last_hash
            if seq <= self.synced_seq:
                return
            try:
                fd = os.dup(self._fd)
            except OSError as error:
                raise AuditError(f"{self._folder}: cannot be synced: {error.strerror or error}") from error
        try:
            os.fsync(fd)
            with self._head_lock:
                if seq > self.synced_seq:  # another thread's may have overtaken this one
                    self._write_head(seq, digest)
                    self.synced_seq = seq
        except OSError as error:
            # After a failed sync nobody knows what the disk has; a second one may lie and succeed.
            self._broken = f"the disk did not take it: {error.strerror or error}"
            raise AuditError(f"{self._folder}: {self._broken}") from error
        finally:
            os.close(fd)

    async def sync_soon(self) -> None:
        # A stop must not wait for a disk.
        await asyncio.to_thread(self.sync)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.append("closed")
            self.sync()
        except AuditError as error:
            logger.error("the audit trail was not closed properly: %s", error)
        finally:
            self._release()

    # -- inside ---------------------------------------------------------------------------------------------

    def _append(self, event: str, data: dict[str, Any]) -> Record:
        if self._tail:
            self._finish_torn_line()
        if self._torn:
            torn, self._torn = self._torn, []
            try:
                self._put("recovered", {"torn": torn})
            except AuditError:
                self._torn = torn + self._torn
                raise
        return self._put(event, data)

    def _put(self, event: str, data: dict[str, Any]) -> Record:
        record = _new_record(self._state, event, data, self._wall(), self._secrets)
        line, digest = line_of(record)
        self._write(line)
        record["hash"] = digest
        self._state.apply(record)
        return record

    def _write(self, line: bytes) -> None:
        done = 0
        try:
            while done < len(line):
                done += os.write(self._fd, line[done:])
        except OSError as error:
            raise AuditError(
                f"{self._folder}: the audit trail cannot be written: {error.strerror or error}"
            ) from error
        finally:
            self._size += done
            if done < len(line):
                self._tail += line[:done]

    def _finish_torn_line(self) -> None:
        torn = self._tail
        self._write(b"\n")
        self._tail = b""
        self._torn.append(hashlib.sha256(torn).hexdigest())

    def _check_whole(self) -> None:
        """The file is still the one that was written, as long as it was."""
        if self._broken is not None:
            raise AuditError(f"{self._folder}: {self._broken}")
        try:
            now, named = os.fstat(self._fd), self._path.stat()
        except OSError as error:
            self._broken = f"the audit file is gone: {error.strerror or error}"
            raise AuditError(f"{self._folder}: {self._broken}") from error
        if now.st_size != self._size or (now.st_ino, now.st_dev) != (named.st_ino, named.st_dev):
            self._broken = (
                f"somebody changed {self._path.name} while the node ran "
                f"({now.st_size} bytes, {self._size} were written); restart after looking into it"
            )
            raise AuditError(f"{self._folder}: {self._broken}")

    def _rotate(self) -> None:
        number = int(self._path.stem.removeprefix("audit-")) + 1
        following = self._folder / f"audit-{number:08d}.jsonl"
        self._put("closing", {"next": following.name})
        self.sync()
        try:
            fd = _open_append(following, new=True)
        except OSError as error:
            raise AuditError(f"{following}: cannot be made: {error.strerror or error}") from error
        os.close(self._fd)
        previous, self._fd, self._path, self._size = self._path.name, fd, following, 0
        self._put("continued", {"previous": previous, **self._state.snapshot()})
        _sync_folder(self._folder)

    def _write_head(self, seq: int, digest: str) -> None:
        content = {"seq": seq, "hash": digest, "mac": head_mac(self._key, seq, digest)}
        os.pwrite(self._head_fd, json.dumps(content).encode().ljust(_HEAD_BYTES - 1) + b"\n", 0)

    # -- opening --------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AuditError(
                f"{self._folder}: another bridge writes this audit trail; give each its own state directory"
            ) from None
        files = sorted(self._folder.glob(FILE_PATTERN))
        head = read_head(self._folder, self._key)
        reader = ChainReader(first_may_continue=True)
        for file in _from_last_start(files):
            for record in reader.read(file.name, file.read_bytes()):
                if head is not None and record["seq"] == head["seq"] and record["hash"] != head["hash"]:
                    raise AuditError(f"{file}: record {record['seq']} is not the one that was synced")
        reader.end()
        self._state = reader.state
        self._judge(files, head, reader)
        self._path = files[-1] if files else self._path
        self._fd = _open_append(self._path, new=not files)
        self._size = os.fstat(self._fd).st_size
        if reader.torn_tail is not None:
            self._tail = self._path.read_bytes().rsplit(b"\n", 1)[-1]
            if not self._tail:  # a whole line that is no record
                raise AuditError(f"{self._path}, line {reader.torn_tail[1]}: not a record of this trail")
        self._head_fd = os.open(self._folder / HEAD_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        interrupted = dict(self._state.open)
        self.append("opened", interrupted=len(interrupted))
        for request, entry in interrupted.items():
            if not entry.get("told"):
                self.append("interrupted", request=request, known=known_of(entry), **entry)
        self.sync()
        _sync_folder(self._folder)

    def _judge(self, files: list[Path], head: dict[str, Any] | None, reader: ChainReader) -> None:
        where = f"{self._folder}: `robot-mcp-kit audit verify` tells more; nothing starts on a broken trail"
        if reader.faults:
            raise AuditError(f"{reader.faults[0]}. {where}")
        if head is None and self._state.seq > 1:
            raise AuditError(f"{HEAD_FILE} was removed. {where}")
        if head is not None and head["seq"] > self._state.seq:
            lost = "the trail is gone" if not files else f"it ends at record {self._state.seq}"
            raise AuditError(f"the audit trail was cut off: record {head['seq']} was synced, {lost}. {where}")

    def _release(self) -> None:
        for fd in (self._fd, self._head_fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._head_fd = self._lock_fd = -1


def _new_record(
    state: TrailState, event: str, data: dict[str, Any], now_s: float, secrets: Iterable[str]
) -> Record:
    return {
        **{key: scrub(value, secrets) for key, value in data.items()},
        "seq": state.seq + 1,
        "id": str(uuid.uuid4()),
        "ts": format_timestamp(datetime.fromtimestamp(now_s, UTC)),
        "wall_s": round(now_s, 6),
        "mono_s": round(time.monotonic(), 6),
        "event": event,
        "prev": state.last_hash,
    }


def _from_last_start(files: list[Path]) -> list[Path]:
    """The newest files that can be read alone: a file begins with what the ones before add up to.

    One that was made and not begun, because the process died just then, is read with the one before it.
    """
    start = max(0, len(files) - 1)
    while start > 0:
        with files[start].open("rb") as content:
            first = content.readline()
        try:
            if json.loads(first)["event"] == "continued":
                break
        except (ValueError, KeyError, TypeError):
            pass
        start -= 1
    return files[start:]


def known_of(entry: Record) -> str:
    """What can be said of a request whose end was not written."""
    if entry.get("step") != "started":
        return "nothing was sent: a goal leaves only after its started record"
    return (
        "started, the end is not written: the goal may or may not have reached its server; ask the action "
        "server for this goal_id"
    )


def head_mac(key: bytes, seq: int, digest: str) -> str:
    return hmac.new(key, f"{seq}:{digest}".encode(), hashlib.sha256).hexdigest()


def read_head(folder: Path, key: bytes) -> dict[str, Any] | None:
    """The last synced record, ``None`` when there is no head yet.

    Raises:
        AuditError: it cannot be read or was written by somebody without the key.
    """
    try:
        head = json.loads((folder / HEAD_FILE).read_bytes())
        good = hmac.compare_digest(str(head["mac"]), head_mac(key, head["seq"], head["hash"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        if (folder / HEAD_FILE).stat().st_size == 0:
            return None
        raise AuditError(f"{folder / HEAD_FILE}: cannot be read: {error}") from error
    if not good:
        raise AuditError(
            f"{folder / HEAD_FILE}: it was not written with this operator key (after a change of keys, move "
            "the audit folder away and begin a new one)"
        )
    return dict(head)


def _open_append(path: Path, *, new: bool) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if new else 0)
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
