"""Time as the contract needs it: monotonic seconds and sleeping, and the wall clock apart from it.

The two are never mixed: schedules run on the monotonic clock, so that a stepped wall clock moves neither a
retry nor a deadline; the wall clock is only written down (``ts``, the timestamp header).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

WallClock = Callable[[], float]
"""Returns Unix seconds (UTC), like :func:`time.time`."""


class Clock(Protocol):
    """Monotonic time. :class:`robot_mcp_kit.testing.FakeClock` is the one for tests."""

    def now(self) -> float:
        """Monotonic seconds, any origin."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Suspend for ``seconds``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float, /) -> None:
        """Suspend for ``seconds``."""
        await asyncio.sleep(seconds)
