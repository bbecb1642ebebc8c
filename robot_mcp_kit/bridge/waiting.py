"""What asyncio lacks: the first of several futures by our own clock, and ending what never suspends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from robot_mcp_kit.clock import Clock


async def first_of(
    clock: Clock, *futures: asyncio.Future[Any], timeout_s: float | None = None
) -> asyncio.Future[Any] | None:
    """Wait until one is done and return it; the leftmost if several are, ``None`` after ``timeout_s``.

    The futures are left alone, also when the caller is cancelled.
    """
    timer = None if timeout_s is None else asyncio.ensure_future(clock.sleep(timeout_s))
    try:
        waiting = set(futures) if timer is None else {*futures, timer}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if timer is not None:
            timer.cancel()
    return next((future for future in futures if future.done()), None)


def finish_now(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that does not suspend to its end, from a plain callback.

    The task context promises not to suspend, so progress leaves in the order in which feedback came,
    without a queue that could grow.

    Raises:
        RuntimeError: it suspended after all.
    """
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError(f"{work!r} suspended in a callback")


def error_of(future: asyncio.Future[Any]) -> BaseException | None:
    """What a finished future failed with; a cancelled one counts as failed, or it would cancel its reader."""
    return RuntimeError("the request was dropped") if future.cancelled() else future.exception()
