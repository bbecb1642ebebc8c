"""Where the robot's base may be: keep-in and keep-out areas per floor.

Areas are united, shrunk by the margin and compared with whole straight motions, not with sample points; that
is shapely's work (GEOS). It is imported only where a fence is configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robot_mcp_kit.safety.situation import Situation, Violation
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config.safety import Floor, Geofence, Polygon
from robot_mcp_kit.skills.geometry import Point

_TOUCH_M = 1e-9


class _FloorFence:
    def __init__(self, name: str, floor: Floor, margin_m: float) -> None:
        from shapely.ops import unary_union

        self.name, self.frame, self.margin_m = name, floor.frame, margin_m
        self._whole: Any = None
        self._strict: Any = None
        if floor.keep_in is not None:
            united = unary_union([_area(polygon) for polygon in floor.keep_in.values()])
            # A hair of tolerance: what lies on an edge is inside, whatever floats say.
            self._whole = united.buffer(_TOUCH_M)
            self._strict = united.buffer(_TOUCH_M - margin_m) if margin_m else self._whole
        self.keep_out = {key: _area(polygon) for key, polygon in floor.keep_out.items()}

    def faults(self, path: Sequence[Point], margin: bool) -> list[tuple[str, str, str]]:
        """What a straight path (or a point) breaks: limit, why, what is allowed."""
        from shapely.geometry import LineString
        from shapely.geometry import Point as ShapelyPoint

        thing = ShapelyPoint(path[0]) if len(set(path)) == 1 else LineString(path)
        margin_m = self.margin_m if margin else 0.0
        found = []
        area = self._strict if margin else self._whole
        if area is not None and not area.covers(thing):
            found.append(("geofence.keep_in", f"outside on floor {self.name}", self.words()))
        for name, out in self.keep_out.items():
            if out.distance(thing) < margin_m - _TOUCH_M or out.intersects(thing):
                found.append(
                    (
                        "geofence.keep_out",
                        f"inside or crossing {name} on floor {self.name}",
                        f"outside {name}" + (f" by {margin_m:g} m" if margin_m else ""),
                    )
                )
        return found

    def words(self) -> str:
        if self._strict.is_empty:
            return "nothing: the margin leaves no room"
        low_x, low_y, high_x, high_y = (round(value, 3) + 0.0 for value in self._strict.bounds)
        return (
            f"inside the keep-in area of floor {self.name}, within x {low_x:g} .. {high_x:g} and "
            f"y {low_y:g} .. {high_y:g} in {self.frame}"
        )


def _area(polygon: Polygon) -> Any:
    from shapely.geometry import Polygon as ShapelyPolygon

    return ShapelyPolygon([(x, y) for x, y in polygon.polygon_m])


class Fence:
    """The configured fence.

    Args:
        section: of the file.

    Raises:
        ImportError: shapely is not installed.
    """

    def __init__(self, section: Geofence) -> None:
        self._floors = {
            name: _FloorFence(name, floor, section.margin_m) for name, floor in section.floors.items()
        }
        self._reads_floor = section.floor_from is not None
        self.watched = section.watch

    @property
    def frames(self) -> frozenset[str]:
        return frozenset(floor.frame for floor in self._floors.values())

    def check(self, field: str, frame: str, path: Sequence[Point], at: Situation) -> list[Violation]:
        """Violations of a pose (one point) or a straight motion (two), given in ``frame``; none: allowed."""
        shown = tuple(float(value) for value in path[-1])
        floor = self._floor(frame, at)
        if isinstance(floor, str):
            return [Violation("geofence.floor", field, shown, floor)]
        return [
            Violation(limit, field, shown, allowed, why)
            for limit, why, allowed in floor.faults(path, margin=True)
        ]

    def escaped(self, here: Pose2D, floor_name: str | None) -> str | None:
        """Why the robot's own position is outside the fence (no margin), or ``None``."""
        floor = self._floor(here.frame, Situation(here, floor_name))
        if isinstance(floor, str):
            return f"the fence cannot be checked: {floor}"
        faults = floor.faults([(here.x_m, here.y_m)], margin=False)
        if not faults:
            return None
        return f"the robot is at ({here.x_m:.2f}, {here.y_m:.2f}): " + ", ".join(why for _, why, _ in faults)

    def _floor(self, frame: str, at: Situation) -> _FloorFence | str:
        """The floor meant, or what would be allowed instead."""
        if self._reads_floor:
            if at.floor is None:
                return "goals only while it is known which floor the robot is on"
            known = self._floors.get(at.floor)
            if known is None:
                return f"goals only on the floors {', '.join(self._floors)}; the robot is on {at.floor!r}"
            if known.frame != frame:
                return f"goals in {known.frame}, the frame of floor {known.name} that the robot is on"
            return known
        for floor in self._floors.values():
            if floor.frame == frame:
                return floor
        return f"poses in {' or '.join(sorted(self.frames))}, which the fence can check"
