"""What the fleet's feedback says, for the servers and for those who judge what became of it."""

from __future__ import annotations

SPIKES = 10
FAR_M = 50.0


def spike_x_m(number: int) -> float:
    """Where a goal's spike of that number is, from 1."""
    return 10.0 * number
