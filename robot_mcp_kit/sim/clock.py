"""Simulation time: advanced by the physics loop alone, waited for by everybody else."""

from __future__ import annotations

import threading
import time


class SimClock:
    """Seconds of simulation time since start.

    ``stamp_s()`` is what message headers carry: wall time when the simulation runs in real time (so that it
    looks
    like a real robot), simulation time otherwise (then ``/clock`` is published and clients need
    ``use_sim_time``).
    """

    def __init__(self, *, real_time: bool) -> None:
        self.real_time = real_time
        self._now_s = 0.0
        self._condition = threading.Condition()
        self._closed = False

    @property
    def now_s(self) -> float:
        return self._now_s

    @property
    def closed(self) -> bool:
        return self._closed

    def stamp_s(self) -> float:
        return time.time() if self.real_time else self._now_s

    def advance(self, dt_s: float) -> None:
        """Physics thread only."""
        self._now_s += dt_s

    def publish(self) -> None:
        """Wake the waiters; once a batch of steps, not once a step."""
        with self._condition:
            self._condition.notify_all()

    def close(self) -> None:
        """End all waiting, now and later."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def wait_until(self, time_s: float) -> bool:
        """Wait for that simulation time. ``False`` when the clock was closed meanwhile."""
        with self._condition:
            while self._now_s < time_s and not self._closed:
                self._condition.wait()
            return not self._closed

    def sleep(self, seconds: float) -> bool:
        """Wait that many simulation seconds. ``False`` when the clock was closed meanwhile."""
        return self.wait_until(self._now_s + seconds)


def split_s(seconds: float) -> tuple[int, int]:
    """``(sec, nanosec)`` of a ROS Time or Duration: sec is floored, so −0.25 s is (−1, 750000000)."""
    total = round(seconds * 1e9)
    return total // 1_000_000_000, total % 1_000_000_000
