"""The physics thread: steps the world so that simulation time keeps to wall time times a factor. Pure."""

from __future__ import annotations

import threading
import time

from robot_mcp_kit.sim.world import World

BATCH_S = 0.01
"""Wall time between batches of steps; everybody who waits for simulation time wakes at most this often."""

_GIVE_UP_S = 1.0


class Engine:
    """Runs ``world.step`` in one thread of its own.

    When the machine is too busy to keep the pace for a second, the backlog is dropped: the simulation slows
    down
    instead of jumping.
    """

    def __init__(self, world: World, real_time_factor: float) -> None:
        self.world = world
        self.real_time_factor = real_time_factor
        self.step_s = min(0.01 * min(1.0, real_time_factor), 0.01) if real_time_factor <= 20 else 0.02
        self.slipped_s = 0.0
        """Wall seconds given up so far because the machine was too busy."""
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="physics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.world.clock.close()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self.error = error
            self.world.clock.close()
            raise

    def _loop(self) -> None:
        world, clock, step_s = self.world, self.world.clock, self.step_s
        due = time.monotonic()
        owed_s = 0.0
        while not self._stop.is_set():
            due += BATCH_S
            late = time.monotonic() - due
            if late < 0:
                self._stop.wait(-late)
            elif late > _GIVE_UP_S:
                self.slipped_s += late
                due += late
            owed_s += BATCH_S * self.real_time_factor
            with world.lock:
                while owed_s >= step_s * 0.999:
                    world.step(step_s)
                    owed_s -= step_s
            clock.publish()
