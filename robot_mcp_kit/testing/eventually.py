"""Waiting for something that another thread, process or socket brings about, with a bound and a reason."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def assert_eventually(
    check: Callable[[], T | Awaitable[T]], *, timeout_s: float = 30.0, interval_s: float = 0.005
) -> T:
    """Call ``check`` until it returns something true and raises nothing, and return that.

    The bound is generous and is only reached when the test fails, so that a slow machine does not fail it.

    Args:
        check: a function, or an async one.
        timeout_s: seconds after which the last answer becomes the failure.
        interval_s: seconds between calls.

    Raises:
        AssertionError: not in time; chained to what ``check`` raised last, if anything.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        error: Exception | AssertionError | None = None
        value: T | None = None
        try:
            outcome = check()
            value = await outcome if inspect.isawaitable(outcome) else outcome
            if value:
                return value
        except Exception as exc:  # what is not there yet may raise anything
            error = exc
        if time.monotonic() >= deadline:
            what = f"it raised {error!r}" if error is not None else f"it was {value!r}"
            raise AssertionError(f"not within {timeout_s:g} s: {what}") from error
        await asyncio.sleep(interval_s)
