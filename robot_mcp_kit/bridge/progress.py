"""Which feedback becomes a progress event: the latest once a period, milestones at once, the last one
always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Payload = dict[str, Any]


class ProgressGate:
    """Holds at most one payload. All times are the caller's monotonic seconds.

    Args:
        period_s: least time between two emissions that are not urgent.
        emit: sends one payload.
    """

    def __init__(self, period_s: float, emit: Callable[[Payload], None]) -> None:
        self._period_s = period_s
        self._emit = emit
        self._emitted_s: float | None = None
        self._pending: Payload | None = None

    def offer(self, payload: Payload, now_s: float, *, urgent: bool = False) -> None:
        """Take the newest payload; it replaces one that still waits."""
        self._pending = payload
        if urgent or self._is_due(now_s):
            self._send(now_s)

    def tick(self, now_s: float) -> None:
        """Time passes without feedback: what waits goes out when its period is over."""
        if self._is_due(now_s):
            self._send(now_s)

    def flush(self, now_s: float) -> None:
        """Send what waits, before the end."""
        self._send(now_s)

    def _is_due(self, now_s: float) -> bool:
        # A hair of tolerance: 1 Hz feedback must not lose every second sample to rounding.
        return self._emitted_s is None or now_s - self._emitted_s >= self._period_s - 1e-6

    def _send(self, now_s: float) -> None:
        if self._pending is None:
            return
        payload, self._pending = self._pending, None
        self._emitted_s = now_s
        self._emit(payload)
