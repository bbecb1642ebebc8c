"""Floor plan, planner and clearance: pure."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.sim.floorplan import Rect, default_floor_plan, describe
from robot_mcp_kit.sim.planner import Path, PlanError, Planner

PLAN = default_floor_plan()
PLANNER = Planner(PLAN)
PLACES = {name: (pose.x_m, pose.y_m) for name, pose in PLAN.places.items()}


@pytest.mark.parametrize(("start", "end"), list(itertools.permutations(PLACES, 2)))
def test_every_place_is_reachable_from_every_other_without_touching_anything(start: str, end: str) -> None:
    path = PLANNER.path(PLACES[start], PLACES[end])
    assert tuple(path.points[0]) == PLACES[start]
    assert path.end == PLACES[end]
    assert min(PLANNER.clearance.exact(x, y) for x, y in path.points.tolist()) > 0.22
    assert path.length_m >= math.dist(PLACES[start], PLACES[end]) - 1e-9


def test_places_docks_and_objects_are_where_they_can_be() -> None:
    clearance = PLANNER.clearance
    for pose in [*PLAN.places.values(), *(dock.staging for dock in PLAN.docks.values())]:
        assert clearance.exact(pose.x_m, pose.y_m) > 0.3
    assert clearance.exact(PLAN.docks["home_dock"].pose.x_m, 4.0) > 0.22
    for spec in PLAN.objects:
        assert any(rect.contains(spec.x_m, spec.y_m) for rect in PLAN.furniture.values())
    assert PLAN.room_at(10.0, 6.5) == "kitchen"
    assert PLAN.room_at(50.0, 6.5) is None
    json.dumps(describe(PLAN))


@pytest.mark.parametrize(
    ("start", "goal", "code"),
    [
        ((1.5, 4.0), (6.0, 7.0), 206),
        ((1.5, 4.0), (12.5, 4.0), 204),
        ((1.5, 4.0), (math.nan, 4.0), 204),
        ((1.5, 4.0), (math.inf, 4.0), 204),
        ((-1.0, 4.0), (2.0, 4.0), 203),
        ((10.0, 7.5), (2.0, 4.0), 205),
    ],
)
def test_impossible_plans_name_their_code(
    start: tuple[float, float], goal: tuple[float, float], code: int
) -> None:
    with pytest.raises(PlanError) as caught:
        PLANNER.path(start, goal)
    assert caught.value.code == code
    assert str(caught.value)


@pytest.mark.parametrize("door", list(PLAN.doors))
def test_every_room_has_one_door_and_a_shut_one_leaves_no_way(door: str) -> None:
    planner = Planner(PLAN)
    room = door.removesuffix("_door")
    planner.block_doors(frozenset({door}))
    with pytest.raises(PlanError) as caught:
        planner.path((1.5, 4.0), PLACES[room])
    assert caught.value.code == 208
    planner.block_doors(frozenset())
    assert planner.path((1.5, 4.0), PLACES[room]).length_m > 1.0


def test_an_unknown_door_is_an_error() -> None:
    with pytest.raises(KeyError):
        Planner(PLAN).block_doors(frozenset({"barn_door"}))


def test_a_robot_close_to_a_wall_finds_its_way_out() -> None:
    """Closer than the planning margin, but not touching: planners must not call that occupied."""
    path = PLANNER.path((0.40, 4.0), (2.0, 4.0))
    assert path.length_m == pytest.approx(1.6, abs=0.3)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.0, 11.999), st.floats(0.0, 7.999))
def test_the_table_of_clearances_is_exact_to_a_cell(x: float, y: float) -> None:
    clearance = PLANNER.clearance
    assert abs(clearance.near(x, y) - clearance.exact(x, y)) <= 0.05 * math.sqrt(2) / 2 + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.floats(0.35, 11.6), st.floats(3.35, 4.3), st.floats(0.35, 11.6), st.floats(3.35, 4.3))
def test_plans_in_the_corridor_are_safe_and_not_much_longer_than_the_straight_line(
    ax: float, ay: float, bx: float, by: float
) -> None:
    path = PLANNER.path((ax, ay), (bx, by))
    assert path.length_m <= math.dist((ax, ay), (bx, by)) * 1.1 + 0.6
    assert min(PLANNER.clearance.exact(x, y) for x, y in path.points.tolist()) > 0.2


def test_what_is_left_of_a_path_is_measured_from_the_nearest_sample() -> None:
    path = Path.through([(0.0, 0.0), (2.0, 0.0), (2.0, 1.0)])
    assert path.length_m == pytest.approx(3.0)
    assert path.remaining_m(0.0, 0.1) == pytest.approx(3.0)
    assert path.remaining_m(2.1, 0.5) == pytest.approx(0.5)
    assert path.remaining_m(9.0, 9.0) == 0.0
    rest = path.rest_from(path.nearest(1.0, 0.0), 1.0, 0.05)
    assert rest.length_m == pytest.approx(2.0, abs=0.05)
    assert rest.end == (2.0, 1.0)
    both = Path.joined([path, Path.through([(2.0, 1.0), (2.0, 4.0)])])
    assert both.length_m == pytest.approx(6.0)


def test_a_path_that_meets_itself_reports_the_nearest_stretch() -> None:
    """As Nav2 (Kilted) does: the distance can jump down where a path passes near itself."""
    path = Path.through([(0.0, 0.0), (3.0, 0.0), (3.0, 0.2), (0.0, 0.2)])
    assert path.remaining_m(0.0, 0.0) == pytest.approx(6.2)
    assert path.remaining_m(0.0, 0.15) == pytest.approx(0.0)


def test_rectangles_measure_their_distance() -> None:
    rect = Rect(1.0, 1.0, 2.0, 3.0)
    assert rect.distance(1.5, 2.0) == 0.0
    assert rect.distance(0.0, 2.0) == 1.0
    assert rect.distance(5.0, 7.0) == 5.0
