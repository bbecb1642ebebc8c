"""Paths on the inflated grid: A*, then shortcuts where the straight line is free. Pure.

Error codes are those of ``nav2_msgs/action/ComputePathToPose`` (2xx); ComputePathThroughPoses uses the same
numbers plus 100.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np

from robot_mcp_kit.sim.floorplan import ClearanceMap, FloatArray, FloorPlan

START_OUTSIDE_MAP = 203
GOAL_OUTSIDE_MAP = 204
START_OCCUPIED = 205
GOAL_OCCUPIED = 206
NO_VALID_PATH = 208

SAMPLE_M = 0.05
_NEIGHBOURS = tuple(
    (dx, dy, math.hypot(dx, dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0)
)


class PlanError(Exception):
    """No path. ``code`` is a ComputePathToPose error code, ``str()`` the planner's own text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Path:
    """A polyline sampled every 5 cm, metres, frame ``map``; ``to_end_m[i]`` is the length from point i on."""

    points: FloatArray
    to_end_m: FloatArray

    @classmethod
    def through(cls, corners: list[tuple[float, float]], sample_m: float = SAMPLE_M) -> Path:
        """Sample a polyline. The corners stay, so the length is exact."""
        samples: list[tuple[float, float]] = [corners[0]]
        for (ax, ay), (bx, by) in itertools.pairwise(corners):
            count = max(1, math.ceil(math.hypot(bx - ax, by - ay) / sample_m))
            samples += [(ax + (bx - ax) * k / count, ay + (by - ay) * k / count) for k in range(1, count + 1)]
        points = np.asarray(samples, dtype=np.float64)
        steps = np.hypot(*np.diff(points, axis=0).T)
        to_end = np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
        return cls(points, to_end)

    @classmethod
    def joined(cls, legs: list[Path]) -> Path:
        """One path through the ends of several."""
        points = np.vstack([legs[0].points, *(leg.points[1:] for leg in legs[1:])])
        steps = np.hypot(*np.diff(points, axis=0).T)
        return cls(points, np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]]))

    @property
    def length_m(self) -> float:
        return float(self.to_end_m[0])

    @property
    def end(self) -> tuple[float, float]:
        return float(self.points[-1, 0]), float(self.points[-1, 1])

    def nearest(self, x_m: float, y_m: float) -> int:
        """Index of the sample nearest to a point, over the whole path."""
        delta = self.points - (x_m, y_m)
        return int(np.argmin(np.einsum("ij,ij->i", delta, delta)))

    def remaining_m(self, x_m: float, y_m: float) -> float:
        """Length from the sample nearest to the point (over the whole path) to the end."""
        return float(self.to_end_m[self.nearest(x_m, y_m)])

    def rest_from(self, index: int, x_m: float, y_m: float) -> Path:
        """The path after that sample, starting at the given point."""
        index = min(index + 1, len(self.points) - 1)
        points = np.vstack([[x_m, y_m], self.points[index:]])
        first = math.hypot(points[1, 0] - x_m, points[1, 1] - y_m)
        to_end = np.concatenate([[self.to_end_m[index] + first], self.to_end_m[index:]])
        return Path(points, to_end)


class Planner:
    """Plans for a disc-shaped robot.

    ``robot_radius_m`` decides what counts as occupied, ``margin_m`` is kept on the way in addition.
    """

    def __init__(self, plan: FloorPlan, robot_radius_m: float = 0.22, margin_m: float = 0.10) -> None:
        self.plan = plan
        self.robot_radius_m = robot_radius_m
        self.margin_m = margin_m
        self.clearance = ClearanceMap(plan)
        self._search = ClearanceMap(plan, resolution_m=0.1)

    def block_doors(self, names: frozenset[str]) -> None:
        """Make these doors solid and all others open. Raises KeyError for an unknown door."""
        if names != self.clearance.blocked_doors:
            self.clearance = ClearanceMap(self.plan, names)
            self._search = ClearanceMap(self.plan, names, resolution_m=0.1)

    def path(self, start: tuple[float, float], goal: tuple[float, float]) -> Path:
        """Shortest safe path from start to goal.

        Raises:
            PlanError: with the code and text of the planner server.
        """
        clearance = self.clearance
        for (x, y), code, what in ((start, START_OUTSIDE_MAP, "start"), (goal, GOAL_OUTSIDE_MAP, "goal")):
            if not clearance.inside(x, y):
                raise PlanError(code, f"The {what} pose ({x:.2f}, {y:.2f}) is outside of the map")
        gx, gy = goal
        if clearance.exact(gx, gy) < self.robot_radius_m:
            raise PlanError(GOAL_OCCUPIED, f"The goal pose ({gx:.2f}, {gy:.2f}) is in lethal space")
        start_cell = self._free_cell(*start)
        if start_cell is None:
            raise PlanError(START_OCCUPIED, f"The start pose ({start[0]:.2f}, {start[1]:.2f}) is occupied")
        goal_cell = self._free_cell(gx, gy)
        cells = None if goal_cell is None else self._astar(start_cell, goal_cell)
        if cells is None:
            raise PlanError(
                NO_VALID_PATH,
                f"Failed to create a plan from ({start[0]:.2f}, {start[1]:.2f}) to ({gx:.2f}, {gy:.2f}): "
                "no valid path found",
            )
        size = self._search.resolution_m
        middle = [((cx + 0.5) * size, (cy + 0.5) * size) for cx, cy in cells]
        return Path.through(self._shortcut([start, *middle, goal]))

    def _free_cell(self, x_m: float, y_m: float) -> tuple[int, int] | None:
        """Nearest cell of the search grid that keeps the margin, within 0.5 m."""
        size, need = self._search.resolution_m, self.robot_radius_m + self.margin_m
        cx, cy = int(x_m / size), int(y_m / size)
        best: tuple[float, tuple[int, int]] | None = None
        for ix in range(cx - 5, cx + 6):
            for iy in range(cy - 5, cy + 6):
                px, py = (ix + 0.5) * size, (iy + 0.5) * size
                if self._search.near(px, py) < need or not self._line_free((x_m, y_m), (px, py), 0.1):
                    continue
                distance = math.hypot(px - x_m, py - y_m)
                if best is None or distance < best[0]:
                    best = (distance, (ix, iy))
        return None if best is None else best[1]

    def _astar(self, start: tuple[int, int], goal: tuple[int, int]) -> list[tuple[int, int]] | None:
        table, columns, rows = self._search.table, self._search.columns, self._search.rows
        need = self.robot_radius_m + self.margin_m
        gx, gy = goal
        best: dict[tuple[int, int], float] = {start: 0.0}
        came: dict[tuple[int, int], tuple[int, int]] = {}
        closed: set[tuple[int, int]] = set()
        queue: list[tuple[float, tuple[int, int]]] = [(0.0, start)]
        while queue:
            _, cell = heapq.heappop(queue)
            if cell == goal:
                cells = [cell]
                while cell in came:
                    cell = came[cell]
                    cells.append(cell)
                return cells[::-1]
            if cell in closed:
                continue
            closed.add(cell)
            x, y = cell
            cost = best[cell]
            for dx, dy, length in _NEIGHBOURS:
                nx, ny = x + dx, y + dy
                if not (0 <= nx < columns and 0 <= ny < rows):
                    continue
                room = table[ny][nx]
                if room < need:
                    continue
                # A little dearer near obstacles, so that corridors are driven in the middle.
                new = cost + length * (1.0 + 0.3 * max(0.0, 0.6 - room))
                step = (nx, ny)
                if new < best.get(step, math.inf):
                    best[step] = new
                    came[step] = cell
                    ax, ay = abs(nx - gx), abs(ny - gy)
                    heapq.heappush(queue, (new + max(ax, ay) + 0.414 * min(ax, ay), step))
        return None

    def _line_free(self, a: tuple[float, float], b: tuple[float, float], need_m: float) -> bool:
        count = max(1, math.ceil(math.hypot(b[0] - a[0], b[1] - a[1]) / SAMPLE_M))
        near = self.clearance.near
        return all(
            near(a[0] + (b[0] - a[0]) * k / count, a[1] + (b[1] - a[1]) * k / count) >= need_m
            for k in range(count + 1)
        )

    def _shortcut(self, corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Drop corners while the straight line keeps the margin (string pulling)."""
        need = self.robot_radius_m + self.margin_m - 0.02
        kept = [corners[0]]
        index = 0
        while index < len(corners) - 1:
            reach = index + 1
            low, high = index + 1, len(corners) - 1
            while (
                low <= high
            ):  # the free reach is nearly always an interval: a binary search finds a good one
                middle = (low + high) // 2
                if self._line_free(corners[index], corners[middle], need):
                    reach, low = middle, middle + 1
                else:
                    high = middle - 1
            kept.append(corners[reach])
            index = reach
        return kept
