"""Waiting, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from robot_mcp_kit.clock import Clock

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an adapter may take, in seconds."""

    connect_s: float = 30.0
    """To reach the controller."""
    source_s: float = 2.0
    """To read one thing."""
    interlock_s: float = 1.0
    """To verify its interlocks; longer counts as "no" (R24)."""
    stop_s: float = 5.0
    """To take a stop."""
    stop_grace_s: float = 2.0
    """For a running action to end after a stop; then it is abandoned (R28)."""
    action_s: float = 600.0
    """For an action; then the robot is stopped and the action fails."""


async def bounded(work: Awaitable[_T], timeout_s: float, clock: Clock) -> _T:
    """The result of ``work``, for at most ``timeout_s`` seconds of ``clock``; cancelled when it takes longer.

    Raises:
        TimeoutError: it took longer.
    """
    doing = asyncio.ensure_future(work)
    # What it raises after it was cancelled is nobody's business any more.
    doing.add_done_callback(lambda done: done.cancelled() or done.exception())
    timer = asyncio.ensure_future(clock.sleep(timeout_s))
    try:
        await asyncio.wait([doing, timer], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        return doing.result()
    finally:
        timer.cancel()
        doing.cancel()
