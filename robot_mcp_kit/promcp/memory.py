"""Idempotency keys of do tools: one key, one action, for a stated time."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.jsonsafe import to_jsonable

T = TypeVar("T")

MAX_KEY_CHARS = 200


class KeyConflictError(ValueError):
    """The key belongs to a call with other arguments."""


@dataclass(slots=True)
class _Entry(Generic[T]):
    fingerprint: str
    task: asyncio.Task[T]
    ended_s: float | None = None


class KeyMemory(Generic[T]):
    """Runs an action once per key and gives its answer to everybody who comes with that key.

    The action runs in a task of its own: a caller that goes away does not end it, and its retry joins it. An
    answer is kept for ``window_s`` after its end; a running action's key never expires. At most ``max_keys``
    ended ones are kept, oldest end out first.

    Args:
        window_s: seconds after the end.
        max_keys: most ended keys.
        clock: monotonic time.
    """

    def __init__(self, window_s: float, *, max_keys: int = 1000, clock: Clock | None = None) -> None:
        if not window_s > 0:
            raise ValueError(f"window_s: must be more than 0, got {window_s}")
        if max_keys < 1:
            raise ValueError(f"max_keys: must be at least 1, got {max_keys}")
        self.window_s, self._max_keys = window_s, max_keys
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._running: dict[str, _Entry[T]] = {}
        self._ended: OrderedDict[str, _Entry[T]] = OrderedDict()

    async def once(
        self, key: str, arguments: dict[str, Any], act: Callable[[], Awaitable[T]]
    ) -> tuple[T, bool]:
        """The answer for that key, and whether it is an earlier call's.

        Args:
            key: the caller's.
            arguments: what else identifies the call; order does not matter.
            act: runs at most once; what it raises is raised to everybody who waits, and remembered.

        Raises:
            KeyConflictError: the key is known with other arguments.
        """
        self._forget()
        fingerprint = _fingerprint(arguments)
        entry = self._running.get(key) or self._ended.get(key)
        if entry is not None and entry.fingerprint != fingerprint:
            raise KeyConflictError("this key was used with other arguments")
        replayed = entry is not None
        if entry is None:
            task: asyncio.Task[T] = asyncio.get_running_loop().create_task(
                _call(act), context=contextvars.Context()
            )
            entry = self._running[key] = _Entry(fingerprint, task)
            task.add_done_callback(lambda _: self._end(key))
        return await asyncio.shield(entry.task), replayed

    def knows(self, key: str) -> bool:
        """Whether a call with this key runs or is remembered."""
        self._forget()
        return key in self._running or key in self._ended

    def _end(self, key: str) -> None:
        entry = self._running.pop(key)
        if not entry.task.cancelled():
            entry.task.exception()  # seen, should nobody wait any more
        entry.ended_s = self._clock.now()
        self._ended[key] = entry
        self._forget()

    def _forget(self) -> None:
        oldest_s = self._clock.now() - self.window_s
        while self._ended:
            key, entry = next(iter(self._ended.items()))
            if len(self._ended) <= self._max_keys and (entry.ended_s or 0.0) >= oldest_s:
                return
            del self._ended[key]

    async def aclose(self) -> None:
        """Cancel what runs."""
        tasks = [entry.task for entry in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _call(act: Callable[[], Awaitable[T]]) -> T:
    return await act()


def _fingerprint(arguments: dict[str, Any]) -> str:
    text = json.dumps(_plain(to_jsonable(arguments)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """1.0 and 1 are the same argument."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
