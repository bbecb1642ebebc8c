"""Rate limits and cooldowns, on the monotonic clock: many small motions are one large one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from robot_mcp_kit.safety.situation import Violation
from robot_mcp_kit.skills.config.safety import Rate


@dataclass(frozen=True, slots=True)
class _Start:
    at_s: float
    distance_m: float


class RateLimiter:
    """Of one skill. Times are the caller's monotonic seconds.

    Args:
        rate: starts, and metres, in a sliding window; ``None``: unlimited.
        cooldown_s: least time between two starts.
    """

    def __init__(self, rate: Rate | None, cooldown_s: float = 0.0) -> None:
        self._rate, self._cooldown_s = rate, cooldown_s
        self._starts: deque[_Start] = deque()

    def check(self, now_s: float, distance_m: float = 0.0) -> Violation | None:
        """What one more start would break; it is not counted yet."""
        if self._starts and now_s - self._starts[-1].at_s < self._cooldown_s:
            wait_s = self._cooldown_s - (now_s - self._starts[-1].at_s)
            since_s = now_s - self._starts[-1].at_s
            return Violation("cooldown_s", "start", since_s, f"again in {wait_s:.1f} s", again_in_s=wait_s)
        rate = self._rate
        if rate is None:
            return None
        while self._starts and now_s - self._starts[0].at_s >= rate.per_s:
            self._starts.popleft()
        free_s = rate.per_s - (now_s - self._starts[0].at_s) if self._starts else 0.0
        if len(self._starts) >= rate.count:
            allowed = f"{rate.count} in {rate.per_s:g} s; again in {free_s:.1f} s"
            return Violation("rate.count", "start", len(self._starts) + 1, allowed, again_in_s=free_s)
        if rate.distance_m is not None:
            total = sum(start.distance_m for start in self._starts) + distance_m
            if total > rate.distance_m + 1e-9:
                allowed = f"{rate.distance_m:g} m together in {rate.per_s:g} s; again in {free_s:.1f} s"
                return Violation("rate.distance_m", "start", total, allowed, again_in_s=free_s)
        return None

    def count(self, now_s: float, distance_m: float = 0.0) -> None:
        """A start was let through."""
        self._starts.append(_Start(now_s, distance_m))
        longest = 1 if self._rate is None else self._rate.count
        while len(self._starts) > max(1, longest):
            self._starts.popleft()
