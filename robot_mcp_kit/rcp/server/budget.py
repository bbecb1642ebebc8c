"""How many messages one connection may send."""

from __future__ import annotations

from robot_mcp_kit.clock import Clock


class Budget:
    """A bucket that fills steadily; each message takes one out.

    Args:
        clock: monotonic.
        per_s: how fast it fills.
        burst: how much it holds.
    """

    def __init__(self, clock: Clock, per_s: float, burst: int) -> None:
        self._clock, self._per_s, self._burst = clock, per_s, float(burst)
        self._left, self._at_s = float(burst), clock.now()
        self.refused_in_a_row = 0

    def take(self) -> bool:
        """Whether one more message may be handled now."""
        now_s = self._clock.now()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1.0:
            self.refused_in_a_row += 1
            return False
        self._left -= 1.0
        self.refused_in_a_row = 0
        return True
