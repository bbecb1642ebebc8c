"""Where the simulated joints are at any moment: each motion is a straight line in joint space over time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from robot_mcp_kit.clock import Clock


class MotionStoppedError(Exception):
    """A stop came before the end."""


class JointMotion:
    """Joints in degrees that take their time. Nothing runs in between: positions follow from the clock.

    Args:
        clock: monotonic.
        start: degrees.
        max_speed: degrees per second, of each joint.
    """

    def __init__(self, clock: Clock, start: Sequence[float], max_speed: Sequence[float]) -> None:
        self._clock, self._max_speed = clock, list(max_speed)
        self._from, self._to = list(start), list(start)
        self._began_s, self._takes_s = clock.now(), 0.0
        self._halt: asyncio.Event | None = None

    @property
    def moving(self) -> bool:
        return self._halt is not None

    def now(self) -> list[float]:
        """The joints at this moment."""
        if self._takes_s <= 0.0:
            return list(self._to)
        share = min(1.0, max(0.0, (self._clock.now() - self._began_s) / self._takes_s))
        return [a + (b - a) * share for a, b in zip(self._from, self._to, strict=True)]

    async def go(self, target: Sequence[float], speed: float = 1.0) -> None:
        """Move there, every joint arriving at the same time.

        Args:
            target: degrees.
            speed: share of full speed.

        Raises:
            MotionStoppedError: stopped on the way.
        """
        here = self.now()
        takes_s = max(
            abs(b - a) / (limit * speed) for a, b, limit in zip(here, target, self._max_speed, strict=True)
        )
        self._from, self._to = here, list(target)
        self._began_s, self._takes_s = self._clock.now(), takes_s
        await self.pause(takes_s)

    async def pause(self, seconds: float) -> None:
        """Let time pass, unless stopped.

        Raises:
            MotionStoppedError: stopped meanwhile.
        """
        halt = self._halt = asyncio.Event()
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        halted = asyncio.ensure_future(halt.wait())
        try:
            await asyncio.wait([timer, halted], return_when=asyncio.FIRST_COMPLETED)
            if halt.is_set():
                raise MotionStoppedError
        finally:
            timer.cancel()
            halted.cancel()
            self._rest()

    def stop(self) -> None:
        """Stand still now."""
        halt = self._halt
        self._rest()
        if halt is not None:
            halt.set()

    def _rest(self) -> None:
        here = self.now()
        self._from, self._to, self._takes_s, self._halt = here, here, 0.0, None
