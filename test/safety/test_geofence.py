"""Goals stay inside keep-in areas and out of keep-out ones, on the floor the robot is on."""

from __future__ import annotations

import pytest

from robot_mcp_kit.safety.geofence import Fence
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config.safety import Geofence

SQUARE = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]
NEXT = [[10.0, 0.0], [20.0, 0.0], [20.0, 4.0], [10.0, 4.0]]
PIT = [[4.0, 4.0], [6.0, 4.0], [6.0, 6.0], [4.0, 6.0]]
THIN = [[7.0, 0.0], [7.01, 0.0], [7.01, 10.0], [7.0, 10.0]]
SOMEWHERE = Situation()


def fence(**more: object) -> Fence:
    floor = {"keep_in": {"hall": SQUARE, "annex": NEXT}, "keep_out": {"pit": PIT}}
    return Fence(Geofence.model_validate({"floors": {"ground": floor}, **more}))


def limits(found: Fence, *path: tuple[float, float], frame: str = "map") -> list[str]:
    return [one.limit for one in found.check("pose", frame, path, SOMEWHERE)]


@pytest.mark.parametrize("point", [(1.0, 1.0), (0.0, 0.0), (10.0, 2.0), (19.9, 3.9), (3.99, 5.0)])
def test_a_goal_inside_or_on_the_edge_is_allowed(point: tuple[float, float]) -> None:
    assert limits(fence(), point) == []


@pytest.mark.parametrize("point", [(-0.01, 1.0), (15.0, 4.1), (1e9, 1e9), (10.01, 9.0)])
def test_a_goal_outside_names_the_area_that_is_allowed(point: tuple[float, float]) -> None:
    """R30."""
    found = fence().check("pose.position", "map", [point], SOMEWHERE)
    assert [one.limit for one in found] == ["geofence.keep_in"]
    assert found[0].value == point
    assert "x 0 .. 20" in found[0].allowed


@pytest.mark.parametrize("point", [(5.0, 5.0), (4.0, 4.0), (6.0, 5.0)])
def test_a_goal_in_a_keep_out_area_or_on_its_edge_is_refused(point: tuple[float, float]) -> None:
    """R30."""
    assert limits(fence(), point) == ["geofence.keep_out"]


def test_the_margin_holds_at_outer_edges_and_not_where_two_areas_meet() -> None:
    shy = fence(margin_m=0.5)
    assert limits(shy, (0.4, 5.0)) == ["geofence.keep_in"]
    assert limits(shy, (0.5, 5.0)) == []
    assert limits(shy, (10.0, 2.0)) == []
    assert limits(shy, (3.6, 5.0)) == ["geofence.keep_out"]


def test_a_straight_motion_must_not_cross_what_its_ends_do_not_touch() -> None:
    assert limits(fence(), (3.0, 5.0), (7.0, 5.0)) == ["geofence.keep_out"]
    assert limits(fence(), (9.0, 9.0), (12.0, 2.0)) == ["geofence.keep_in"]
    assert limits(fence(), (9.0, 1.0), (12.0, 2.0)) == []


def test_a_keep_out_area_thinner_than_a_step_is_not_jumped_over() -> None:
    thin = Fence(Geofence.model_validate({"floors": {"ground": {"keep_out": {"tape": THIN}}}}))
    assert limits(thin, (6.0, 5.0), (8.0, 5.0)) == ["geofence.keep_out"]


def test_a_frame_without_a_floor_is_refused_and_the_right_one_named() -> None:
    found = fence().check("pose", "odom", [(1.0, 1.0)], SOMEWHERE)
    assert found[0].limit == "geofence.floor"
    assert "map" in found[0].allowed


def two_floors() -> Fence:
    return Fence(
        Geofence.model_validate(
            {
                "floors": {"ground": {"keep_in": {"hall": SQUARE}}, "first": {"keep_in": {"annex": NEXT}}},
                "floor_from": {
                    "topic": "floor",
                    "type": "std_msgs/msg/String",
                    "field": "data",
                    "max_age_s": 5.0,
                },
            }
        )
    )


def test_the_fence_is_that_of_the_floor_the_robot_is_on() -> None:
    """R30."""
    both = two_floors()
    assert both.check("p", "map", [(1.0, 1.0)], Situation(floor="ground")) == []
    assert both.check("p", "map", [(1.0, 1.0)], Situation(floor="first"))[0].limit == "geofence.keep_in"


@pytest.mark.parametrize("floor", [None, "roof"])
def test_an_unknown_floor_allows_nothing(floor: str | None) -> None:
    """R30."""
    assert two_floors().check("p", "map", [(1.0, 1.0)], Situation(floor=floor))[0].limit == "geofence.floor"


def test_floors_of_one_frame_need_something_that_tells_them_apart() -> None:
    with pytest.raises(ValueError, match="floor_from"):
        Geofence.model_validate({"floors": {"a": {"frame": "map"}, "b": {"frame": "map"}}})


@pytest.mark.parametrize(
    "polygon",
    [
        [[0, 0], [1, 1]],
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]],
        [[0.0, 0.0], [2.0, 2.0], [2.0, 0.0], [0.0, 2.0]],
    ],
)
def test_a_polygon_without_an_inside_is_refused_at_the_start(polygon: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        Geofence.model_validate({"floors": {"a": {"keep_in": {"x": polygon}}}})


def test_a_robot_that_left_the_fence_is_noticed() -> None:
    assert fence(margin_m=0.5).escaped(Pose2D(0.1, 0.1, 0.0), None) is None
    assert "outside" in str(fence().escaped(Pose2D(-1.0, 0.1, 0.0), None))
    assert "pit" in str(fence().escaped(Pose2D(5.0, 5.0, 0.0), None))


def test_a_margin_that_leaves_no_room_says_so() -> None:
    found = fence(margin_m=6.0).check("p", "map", [(5.0, 9.0)], SOMEWHERE)
    assert "no room" in found[0].allowed
