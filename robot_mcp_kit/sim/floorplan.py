"""The simulated building: axis-aligned walls, doors, furniture, a dock and movable objects. Pure geometry.

Frame ``map``: metres, origin at the lower left corner, x to the right, y up (REP 103). Every solid thing is a
rectangle, so that the distance from a point to the nearest obstacle is exact and cheap to tabulate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rect:
    """A solid axis-aligned rectangle, metres, frame ``map``."""

    x_min_m: float
    y_min_m: float
    x_max_m: float
    y_max_m: float

    def distance(self, x_m: float, y_m: float) -> float:
        """Distance from a point to the rectangle, 0 inside."""
        dx = max(self.x_min_m - x_m, 0.0, x_m - self.x_max_m)
        dy = max(self.y_min_m - y_m, 0.0, y_m - self.y_max_m)
        return math.hypot(dx, dy)

    def contains(self, x_m: float, y_m: float) -> bool:
        return self.x_min_m <= x_m <= self.x_max_m and self.y_min_m <= y_m <= self.y_max_m


@dataclass(frozen=True, slots=True)
class Pose:
    """Planar pose: metres and radians."""

    x_m: float
    y_m: float
    yaw_rad: float = 0.0


@dataclass(frozen=True, slots=True)
class Dock:
    """A charging dock: where the robot's centre is when docked, and the pose in front of it."""

    name: str
    dock_type: str
    pose: Pose
    staging: Pose


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """A graspable object: rest position (frame ``map``, z above the floor) and its width between the
    fingers.
    """

    name: str
    x_m: float
    y_m: float
    z_m: float
    width_m: float


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """Everything that stands still. A blocked door is solid like a wall."""

    width_m: float
    height_m: float
    rooms: dict[str, Rect]
    walls: tuple[Rect, ...]
    doors: dict[str, Rect]
    furniture: dict[str, Rect]
    docks: dict[str, Dock]
    objects: tuple[ObjectSpec, ...]
    places: dict[str, Pose] = field(default_factory=dict)

    def solids(self, blocked_doors: Iterable[str] = ()) -> list[Rect]:
        """All rectangles a robot cannot enter.

        Raises:
            KeyError: a door of that name does not exist.
        """
        return [*self.walls, *self.furniture.values(), *(self.doors[name] for name in blocked_doors)]

    def room_at(self, x_m: float, y_m: float) -> str | None:
        """Name of the room a point lies in."""
        return next((name for name, rect in self.rooms.items() if rect.contains(x_m, y_m)), None)


class ClearanceMap:
    """Distance to the nearest obstacle, tabulated on a grid (default 5 cm).

    Reading outside the map gives 0.0 (solid), so nothing can leave it.
    """

    def __init__(
        self, plan: FloorPlan, blocked_doors: Iterable[str] = (), resolution_m: float = 0.05
    ) -> None:
        self.plan = plan
        self.blocked_doors = frozenset(blocked_doors)
        self.resolution_m = resolution_m
        self.columns = round(plan.width_m / resolution_m)
        self.rows = round(plan.height_m / resolution_m)
        self._solids = plan.solids(sorted(self.blocked_doors))
        x = (np.arange(self.columns) + 0.5) * resolution_m
        y = (np.arange(self.rows) + 0.5) * resolution_m
        grid_x, grid_y = np.meshgrid(x, y)
        clearance: FloatArray = np.full(grid_x.shape, np.inf)
        for rect in self._solids:
            dx = np.maximum(np.maximum(rect.x_min_m - grid_x, grid_x - rect.x_max_m), 0.0)
            dy = np.maximum(np.maximum(rect.y_min_m - grid_y, grid_y - rect.y_max_m), 0.0)
            np.minimum(clearance, np.hypot(dx, dy), out=clearance)
        self.table: list[list[float]] = clearance.tolist()
        """``table[row][column]``; plain lists because single reads are several times faster than from an
        array.
        """

    def inside(self, x_m: float, y_m: float) -> bool:
        """Whether the point lies on the map at all. NaN does not."""
        return 0.0 <= x_m < self.plan.width_m and 0.0 <= y_m < self.plan.height_m

    def near(self, x_m: float, y_m: float) -> float:
        """Clearance in metres at the nearest cell centre (error at most 0.7 cells). Cheap."""
        if not self.inside(x_m, y_m):
            return 0.0
        return self.table[int(y_m / self.resolution_m)][int(x_m / self.resolution_m)]

    def exact(self, x_m: float, y_m: float) -> float:
        """Exact clearance in metres."""
        if not self.inside(x_m, y_m):
            return 0.0
        return min(rect.distance(x_m, y_m) for rect in self._solids)

    def occupancy(self, radius_m: float) -> NDArray[np.bool_]:
        """Grid of cells a disc of that radius may not be centred on."""
        occupied: NDArray[np.bool_] = np.asarray(self.table) < radius_m
        return occupied


def _wall_with_doors(y_m: float, door_centres_m: tuple[float, ...], width_m: float) -> list[Rect]:
    """Horizontal wall over the whole length with gaps for doors."""
    edges = [0.0]
    for centre in door_centres_m:
        edges += [centre - DOOR_WIDTH_M / 2, centre + DOOR_WIDTH_M / 2]
    edges.append(width_m)
    half = WALL_M / 2
    return [Rect(a, y_m - half, b, y_m + half) for a, b in zip(edges[::2], edges[1::2], strict=True)]


WALL_M = 0.1
DOOR_WIDTH_M = 1.2


def default_floor_plan() -> FloorPlan:
    """Two rows of two rooms on either side of a corridor, 12 m by 8 m."""
    width, height, half = 12.0, 8.0, WALL_M / 2
    walls = [
        Rect(0.0, 0.0, width, WALL_M),
        Rect(0.0, height - WALL_M, width, height),
        Rect(0.0, 0.0, WALL_M, height),
        Rect(width - WALL_M, 0.0, width, height),
        *_wall_with_doors(3.0, (3.0, 9.0), width),
        *_wall_with_doors(5.0, (3.0, 9.0), width),
        Rect(6.0 - half, 0.0, 6.0 + half, 3.0),
        Rect(6.0 - half, 5.0, 6.0 + half, height),
    ]

    def door(x_m: float, y_m: float) -> Rect:
        return Rect(x_m - DOOR_WIDTH_M / 2, y_m - half, x_m + DOOR_WIDTH_M / 2, y_m + half)

    quarter_turn = math.pi / 2
    return FloorPlan(
        width_m=width,
        height_m=height,
        rooms={
            "workshop": Rect(0.0, 0.0, 6.0, 3.0),
            "storage": Rect(6.0, 0.0, 12.0, 3.0),
            "corridor": Rect(0.0, 3.0, 12.0, 5.0),
            "office": Rect(0.0, 5.0, 6.0, 8.0),
            "kitchen": Rect(6.0, 5.0, 12.0, 8.0),
        },
        walls=tuple(walls),
        doors={
            "workshop_door": door(3.0, 3.0),
            "storage_door": door(9.0, 3.0),
            "office_door": door(3.0, 5.0),
            "kitchen_door": door(9.0, 5.0),
        },
        furniture={
            "kitchen_table": Rect(9.3, 7.15, 10.9, 7.8),
            "fridge": Rect(11.3, 7.2, 11.9, 7.9),
            "desk": Rect(0.1, 7.0, 1.0, 7.8),
            "workbench": Rect(1.3, 0.1, 2.7, 0.7),
            "crate": Rect(4.6, 1.6, 5.3, 2.3),
            "shelf_east": Rect(11.4, 0.4, 11.85, 2.6),
            "shelf_west": Rect(6.15, 0.4, 6.6, 2.6),
            "pallet": Rect(7.8, 0.5, 8.6, 1.2),
            "corridor_bench": Rect(5.3, 4.6, 6.7, 4.95),
        },
        docks={
            "home_dock": Dock(
                name="home_dock",
                dock_type="simple_charging_dock",
                pose=Pose(0.45, 4.0, math.pi),
                staging=Pose(1.1, 4.0, math.pi),
            )
        },
        objects=(
            ObjectSpec("red_cup", 10.0, 7.25, 0.65, 0.06),
            ObjectSpec("blue_box", 10.25, 7.27, 0.65, 0.05),
            ObjectSpec("toolbox", 2.0, 0.62, 0.75, 0.03),
        ),
        places={
            "kitchen": Pose(10.0, 6.5, quarter_turn),
            "office": Pose(2.0, 6.5, quarter_turn),
            "workshop": Pose(2.0, 1.5, -quarter_turn),
            "storage": Pose(10.0, 1.5, -quarter_turn),
            "lobby": Pose(11.0, 4.0, 0.0),
        },
    )


def describe(plan: FloorPlan) -> dict[str, Any]:
    """The plan as JSON-able data (for the ground-truth service and pictures)."""

    def rect(r: Rect) -> list[float]:
        return [r.x_min_m, r.y_min_m, r.x_max_m, r.y_max_m]

    return {
        "width_m": plan.width_m,
        "height_m": plan.height_m,
        "rooms": {name: rect(r) for name, r in plan.rooms.items()},
        "walls": [rect(r) for r in plan.walls],
        "doors": {name: rect(r) for name, r in plan.doors.items()},
        "furniture": {name: rect(r) for name, r in plan.furniture.items()},
        "docks": {name: [d.pose.x_m, d.pose.y_m, d.pose.yaw_rad] for name, d in plan.docks.items()},
        "places": {name: [p.x_m, p.y_m, p.yaw_rad] for name, p in plan.places.items()},
    }
