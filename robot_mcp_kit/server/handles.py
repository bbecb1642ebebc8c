"""Handles: opaque names of motions, minted by the server, valid for a stated time.

A handle is the task's id and a signature over it. So it cannot be guessed, needs no table of its own, and a
restarted bridge with the same key still knows it; and one that has expired is told apart from one that was
never given out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from robot_mcp_kit.clock import WallClock
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.journal import SavedTask
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.secret_file import kept_secret
from robot_mcp_kit.tasks import TaskManager

RETENTION_S = 24 * 3600.0
"""How long after a motion's end its handle answers."""
PREFIX = "motion-"
_SIGNATURE_CHARS = 27  # 160 bits
KEY_BYTES = 32


class HandleError(Exception):
    """A handle that answers nothing; ``code`` says why and the text what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def load_key(path: Path) -> bytes:
    """The key in that file, made if there is none; readable by its owner only.

    Raises:
        ConfigError: the file cannot be read or written, others may read it, or it holds no key.
    """
    text = kept_secret(path, lambda: new_key().hex(), "the key of the handles")
    try:
        key = bytes.fromhex(text)
    except ValueError as error:
        raise ConfigError(f"{path}: the key of the handles cannot be used: {error}") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path}: holds no key; delete it, then handles of before are unknown")
    return key


class Handles:
    """Mints handles and finds their tasks.

    Args:
        manager: the tasks.
        saved: looks up a task that the manager no longer keeps.
        key: signs; the same key after a restart keeps handles valid.
        retention_s: seconds after a task's end; a running one's handle never expires.
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        manager: TaskManager,
        *,
        saved: Callable[[str], SavedTask | None] = lambda _: None,
        key: bytes | None = None,
        retention_s: float = RETENTION_S,
        wall_clock: WallClock = time.time,
    ) -> None:
        if not retention_s > 0:
            raise ValueError(f"retention_s: must be more than 0, got {retention_s}")
        self.manager, self.retention_s = manager, retention_s
        self._saved, self._wall_clock = saved, wall_clock
        self._key = key if key is not None else new_key()

    @property
    def policy(self) -> str:
        """The retention, for descriptions."""
        hours = self.retention_s / 3600
        kept = f"{hours:g} hours" if hours >= 1 else f"{self.retention_s:g} seconds"
        return f"A handle answers while the motion runs and for {kept} after its end"

    def mint(self, task_id: str) -> str:
        """The handle of a task; always the same one."""
        return f"{PREFIX}{task_id}.{self._signature(task_id)}"

    def _signature(self, task_id: str) -> str:
        digest = hmac.new(self._key, b"handle:" + task_id.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode()[:_SIGNATURE_CHARS]

    def task_id_of(self, handle: str) -> str:
        """The task that a handle names, whether it is still known or not.

        Raises:
            HandleError: ``HANDLE_UNKNOWN``: never given out by this bridge.
        """
        task_id, dot, signature = handle.removeprefix(PREFIX).rpartition(".")
        genuine = handle.startswith(PREFIX) and dot and task_id
        if not genuine or not hmac.compare_digest(signature.encode(), self._signature(task_id).encode()):
            hint = ""
            if self.manager.get(handle) is not None:
                hint = " That is a task_id: use get_task, or the handle that came with it."
            raise HandleError(
                "HANDLE_UNKNOWN",
                "This handle was not given out here, or by a bridge before a restart that kept no ledger; in "
                "that case how its motion ended is not known. This call moved nothing. Look at the robot "
                f"(list_tasks, and the tools that read its state) before you start anything again.{hint}",
            )
        return task_id

    def find(self, handle: str) -> TaskInfo:
        """The task of a handle.

        Raises:
            HandleError: ``HANDLE_UNKNOWN`` or ``HANDLE_EXPIRED``.
        """
        task_id = self.task_id_of(handle)
        info = self.get(task_id)
        if info is None:
            raise HandleError(
                "HANDLE_EXPIRED",
                f"This handle has expired: its motion ended more than {self.retention_s:g} s ago, or so many "
                "others have ended since that it was forgotten. How it ended is not known any more. This "
                "call moved nothing. Look at the robot as it is now, and start again only what is still "
                "wanted.",
            )
        return info

    def get(self, task_id: str) -> TaskInfo | None:
        """A task within its retention."""
        info = self.manager.get(task_id)
        if info is None:
            saved = self._saved(task_id)
            info = None if saved is None else saved.info
        return None if info is None or self._expired(info) else info

    def expires_at(self, info: TaskInfo) -> datetime | None:
        """When the handle expires; ``None`` while the task runs."""
        return None if info.state == "running" else info.updated_at + timedelta(seconds=self.retention_s)

    def _expired(self, info: TaskInfo) -> bool:
        expires = self.expires_at(info)
        return expires is not None and datetime.fromtimestamp(self._wall_clock(), UTC) > expires
