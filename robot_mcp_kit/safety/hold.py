"""Watching a motion: what must hold while it runs, and who is told when it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.safety.interlocks import Interlock, Interlocks

logger = logging.getLogger(__name__)

ASK_PERIOD_S = 0.5
"""How often those are asked that do not tell by themselves (lifecycle states)."""


class Hold:
    """Over one motion, from the moment before it is sent to its end.

    Args:
        skill: whose motion.
        locks: the robot's interlocks.
        clock: monotonic.
        escaped: why the robot is outside its fence, or ``None``; looked at now and then.
        on_broken: called once, on the loop, with the reason.
        on_close: told when the watch ends.
    """

    def __init__(
        self,
        skill: str,
        locks: Interlocks,
        clock: Clock,
        escaped: Callable[[], str | None],
        on_broken: Callable[[str], None],
        on_close: Callable[[Hold], None],
    ) -> None:
        self.skill = skill
        self.broken: str | None = None
        self._clock, self._escaped = clock, escaped
        self._on_broken, self._on_close = on_broken, on_close
        self._closed = False
        held = locks.of(skill, held_only=True)
        self._told = [lock for lock in held if not lock.must_be_asked]
        asked = [lock for lock in held if lock.must_be_asked]
        self._asking = asyncio.create_task(self._ask(asked)) if asked else None

    def tick(self) -> None:
        """Look at what is known; to be called a few times a second."""
        if self.broken is not None or self._closed:
            return
        for lock in self._told:
            reason = lock.broken_now()
            if reason is not None:
                self.trip(f"{lock.name}: {reason}.")
                return
        reason = self._escaped()
        if reason is not None:
            self.trip(f"geofence: {reason}.")

    def trip(self, reason: str) -> None:
        """Something broke. The first reason counts."""
        if self.broken is None and not self._closed:
            self.broken = reason
            self._on_broken(reason)

    def heard(self, lock: Interlock, reason: str) -> None:
        """A value arrived that breaks an interlock."""
        if lock.section.holds and lock.applies_to(self.skill):
            self.trip(f"{lock.name}: {reason}.")

    def close(self) -> None:
        """The motion has ended. Harmless when repeated."""
        if not self._closed:
            self._closed = True
            if self._asking is not None:
                self._asking.cancel()
            self._on_close(self)

    async def _ask(self, locks: list[Interlock]) -> None:
        while True:
            for lock in locks:
                finding = await lock.check()
                if not finding.ok:
                    self.trip(f"{finding.name}: {finding.reason}.")
                    return
            await self._clock.sleep(ASK_PERIOD_S)
