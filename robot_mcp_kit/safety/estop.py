"""The latch: after an emergency stop nothing starts until a person resets it, also over a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from robot_mcp_kit.clock import WallClock
from robot_mcp_kit.safety.principals import Approver

logger = logging.getLogger(__name__)


class EstopLatch:
    """Latched or not, and why. What cannot be read counts as latched.

    Args:
        file: where it outlives the process; ``None``: in memory only, for tests.
        wall: Unix seconds, for the record.
        on_latch: called once at each latch, with the reason: stops what runs.
    """

    def __init__(
        self, file: Path | None, wall: WallClock, on_latch: Callable[[str], None] = lambda _reason: None
    ) -> None:
        self._file, self._wall = file, wall
        self.on_latch = on_latch
        self.reason: str | None = self._load()
        """Why it is latched, or ``None``."""

    @property
    def latched(self) -> bool:
        return self.reason is not None

    def latch(self, reason: str) -> bool:
        """Latch; whether that is news. Never raises: the stop matters more than the file."""
        if self.latched:
            return False
        self.reason = reason
        self.on_latch(reason)
        logger.critical("EMERGENCY STOP latched: %s", reason)
        try:
            # Behind the cancel requests that were just queued: a stop does not wait for a disk.
            asyncio.get_running_loop().call_soon(self._keep, reason)
        except RuntimeError:
            self._keep(reason)
        return True

    def _keep(self, reason: str) -> None:
        if self.reason is None:
            return
        try:
            self._save({"latched": True, "reason": reason, "wall_s": self._wall()})
        except OSError:
            logger.exception("the emergency stop was not written down; it holds while this process lives")

    def reset(self, approver: Approver) -> str | None:
        """Take the latch back; what it was latched for, ``None`` when it was not.

        Raises:
            OSError: the state could not be written; it stays latched.
        """
        was = self.reason
        if was is None:
            return None
        self._save({"latched": False, "reset_by": approver.principal, "wall_s": self._wall()})
        self.reason = None
        logger.warning("emergency stop reset by %s (it was: %s)", approver.principal, was)
        return was

    def _load(self) -> str | None:
        if self._file is None:
            return None
        try:
            state = json.loads(self._file.read_text(encoding="utf-8"))
            if state["latched"] is False:
                return None
            return str(state.get("reason") or "latched before the restart")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"the state of the emergency stop cannot be read ({self._file}: {error})"

    def _save(self, state: dict[str, object]) -> None:
        if self._file is None:
            return
        fresh = self._file.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as out:
            json.dump(state, out)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self._file)
        with contextlib.suppress(OSError):
            folder = os.open(self._file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
