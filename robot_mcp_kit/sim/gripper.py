"""A parallel gripper and the objects it can hold. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robot_mcp_kit.sim.drive import clamp
from robot_mcp_kit.sim.floorplan import FloorPlan, ObjectSpec

OPEN_M = 0.085
SPEED = 0.06
GRASP_RADIUS_M = 0.06
DEFAULT_EFFORT_N = 40.0
FURNITURE_HEIGHT_M = 0.65


@dataclass(slots=True)
class Thing:
    """An object in the world: position in ``map`` (metres, z above the floor)."""

    spec: ObjectSpec
    x_m: float
    y_m: float
    z_m: float

    @classmethod
    def at_rest(cls, spec: ObjectSpec) -> Thing:
        return cls(spec, spec.x_m, spec.y_m, spec.z_m)

    def distance(self, point: Sequence[float]) -> float:
        return math.dist((self.x_m, self.y_m, self.z_m), point)


class Gripper:
    """Gap between the fingers in metres, 0 (shut) to 0.085 (open)."""

    def __init__(self) -> None:
        self.gap_m = OPEN_M
        self.target_m = OPEN_M
        self.speed = 0.0
        self.effort_n = 0.0
        self.max_effort_n = DEFAULT_EFFORT_N
        self.between: Thing | None = None
        """What stands between the fingers and will stop them."""
        self.held: Thing | None = None

    def command(self, gap_m: float, max_effort_n: float) -> None:
        """Close or open to that gap; an effort of 0 is the driver's own."""
        self.target_m = max(0.0, min(OPEN_M, gap_m))
        self.max_effort_n = max_effort_n if max_effort_n > 0 else DEFAULT_EFFORT_N

    def hold_position(self) -> None:
        """Stay as it is."""
        self.target_m = self.gap_m if self.held is None else min(self.target_m, self.gap_m)

    def step(self, dt_s: float) -> Thing | None:
        """Advance; returns an object that was let go in this step."""
        way = self.target_m - self.gap_m
        move = clamp(way, SPEED * dt_s)
        self.effort_n = 0.0
        thing = self.between
        if thing is not None and move < 0 and self.gap_m + move <= thing.spec.width_m:
            move = min(0.0, thing.spec.width_m - self.gap_m)
            self.effort_n = self.max_effort_n
            self.held = thing
        self.gap_m += move
        self.speed = move / dt_s
        if self.held is not None and self.gap_m > self.held.spec.width_m + 0.002:
            return self.drop()
        return None

    def drop(self) -> Thing | None:
        """Let go of what is held, without moving."""
        thing, self.held, self.between = self.held, None, None
        return thing

    def look(self, things: Sequence[Thing], tool: Sequence[float]) -> None:
        """See what stands between the fingers when the tool is at that point (frame ``map``)."""
        if self.held is not None:
            return
        inside = [
            t for t in things if t.distance(tool) < GRASP_RADIUS_M and t.spec.width_m <= self.gap_m + 1e-6
        ]
        self.between = min(inside, key=lambda t: t.distance(tool), default=None)


def settle(thing: Thing, plan: FloorPlan) -> None:
    """Let an object fall onto whatever is below it."""
    on_furniture = any(rect.contains(thing.x_m, thing.y_m) for rect in plan.furniture.values())
    thing.z_m = FURNITURE_HEIGHT_M if on_furniture and thing.z_m >= FURNITURE_HEIGHT_M - 0.05 else 0.02
