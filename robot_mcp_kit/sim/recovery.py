"""What the navigators do when they are stuck: the round robin of Nav2's default tree, and the progress
checker. Pure.
"""

from __future__ import annotations

import math

from robot_mcp_kit.sim.drive import Base, Motion, Straight, Turn
from robot_mcp_kit.sim.world import World

ALLOWANCE_S = 10.0
SPIN_TIMEOUT = 701
BACKUP_TIMEOUT = 711
BACKUP_COLLISION = 714


class Progress:
    """Nav2's SimpleProgressChecker: 0.5 m within 10 s."""

    RADIUS_M = 0.5
    ALLOWANCE_S = 10.0

    def __init__(self, base: Base, now_s: float) -> None:
        self._base = base
        self.reset(now_s)

    def reset(self, now_s: float) -> None:
        self._at = self._base.x_m, self._base.y_m
        self._since_s = now_s

    def made(self, now_s: float) -> bool:
        if math.hypot(self._base.x_m - self._at[0], self._base.y_m - self._at[1]) >= self.RADIUS_M:
            self.reset(now_s)
        return now_s - self._since_s <= self.ALLOWANCE_S


class Recoveries:
    """Clear costmaps, spin a quarter turn, wait 5 s, back up 0.3 m, and round again.

    A failed spin or back-up leaves its error code in ``codes`` until it succeeds, as on Nav2's blackboard.
    """

    KINDS = ("clear", "spin", "wait", "backup")

    def __init__(self, world: World, codes: dict[str, tuple[int, str]]) -> None:
        self._world = world
        self._codes = codes
        self.attempts = 0
        self.kind = ""
        self._next = 0
        self._motion: Motion | None = None
        self._until_s = 0.0

    def begin(self, now_s: float) -> None:
        """Start the next recovery in turn."""
        self.attempts += 1
        self.kind = self.KINDS[self._next]
        self._next = (self._next + 1) % len(self.KINDS)
        self._motion = None
        self._until_s = now_s + {"clear": 0.1, "wait": 5.0}.get(self.kind, ALLOWANCE_S)
        if self.kind == "spin":
            self._motion = Turn(math.pi / 2)
        elif self.kind == "backup":
            self._motion = Straight(-0.3, 0.15)
        if self._motion is not None:
            self._world.base.motion = self._motion

    def finished(self, now_s: float) -> bool:
        """Whether the present recovery is over, well or not."""
        motion, base = self._motion, self._world.base
        if motion is None:
            return now_s >= self._until_s
        if motion.done:
            self._codes.pop(self.kind, None)
            return True
        if self.kind == "backup" and base.bumped:
            self._codes[self.kind] = (BACKUP_COLLISION, "Collision Ahead - Exiting BackUp")
        elif now_s >= self._until_s:
            code = SPIN_TIMEOUT if self.kind == "spin" else BACKUP_TIMEOUT
            self._codes[self.kind] = (code, f"Exceeded time allowance before reaching the {self.kind} goal")
        else:
            return False
        self.halt()
        return True

    def halt(self) -> None:
        """Let go of the wheels."""
        if self._motion is not None:
            self._world.base.stop(self._motion)
