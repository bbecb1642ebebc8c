"""One call of an adapter while it runs: it ends by itself, after a stop, or when its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.rcp.errors import AdapterError, RCPErrorCode
from robot_mcp_kit.rcp.failures import said

TICK_S = 0.2
"""How often what must hold is looked at."""


class StoppedError(AdapterError):
    """It was stopped before it had ended."""


class OverdueError(AdapterError):
    """It took too long."""


class Running:
    """Begins at once.

    Args:
        action: the protocol's name.
        work: the adapter's coroutine.
        clock: monotonic.
        moves: whether the robot moves by it.
    """

    def __init__(self, action: str, work: Awaitable[Any], clock: Clock, *, moves: bool) -> None:
        self.action, self.moves, self._clock = action, moves, clock
        self._doing = asyncio.ensure_future(work)
        self._doing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._stop: asyncio.Future[StoppedError] = asyncio.get_running_loop().create_future()

    def stop(self, reason: str, code: RCPErrorCode) -> None:
        """It must end now; the first reason counts."""
        if not self._stop.done():
            message = f"{self.action} was stopped: {reason}"
            self._stop.set_result(StoppedError(message, code=code, data={"stopped": True}))

    async def result(self, timeout_s: float, grace_s: float, tick: Callable[[], None]) -> Any:
        """What the adapter answers.

        Args:
            timeout_s: how long it may take.
            grace_s: how long it may still take after a stop; then it is abandoned.
            tick: called several times a second.

        Raises:
            StoppedError: a stop came first.
            OverdueError: it took longer.
            Exception: whatever the adapter raised.
        """
        due_s = self._clock.now() + timeout_s
        try:
            while not self._doing.done() and not self._stop.done() and self._clock.now() < due_s:
                tick()
                await self._wait(min(TICK_S, due_s - self._clock.now()), self._doing, self._stop)
            if self._stop.done():
                raise await self._stopped(grace_s)
            if not self._doing.done():
                raise OverdueError(f"{self.action} took longer than {timeout_s:g} s; the robot is stopped")
            return self._doing.result()
        finally:
            self._doing.cancel()

    async def _stopped(self, grace_s: float) -> StoppedError:
        error = self._stop.result()
        if not self._doing.done():
            await self._wait(grace_s, self._doing)
        if not self._doing.done():
            error.data["abandoned"] = True
        elif not self._doing.cancelled() and (raised := self._doing.exception()) is not None:
            error.data["adapter"] = said(raised)
        return error

    async def _wait(self, seconds: float, *futures: asyncio.Future[Any]) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([*futures, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
