"""Angles, quaternions, polygons."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.skills.geometry import (
    Quaternion,
    angle_between,
    edges_cross,
    path_length,
    point_in_polygon,
    polygon_area,
    quaternion_to_yaw,
    tilt_rad,
    wrap_angle,
    yaw_to_quaternion,
)

SQUARE = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
L_SHAPE = [(0.0, 0.0), (4.0, 0.0), (4.0, 1.0), (1.0, 1.0), (1.0, 4.0), (0.0, 4.0)]
BOW_TIE = [(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)]


@given(st.floats(-100, 100))
def test_a_yaw_survives_the_quaternion(yaw: float) -> None:
    q = yaw_to_quaternion(yaw)
    assert q.norm == pytest.approx(1.0)
    assert q.w >= 0
    assert angle_between(quaternion_to_yaw(q), yaw) < 1e-6


@given(st.floats(-1000, 1000))
def test_a_wrapped_angle_is_the_same_direction_within_half_a_turn(angle: float) -> None:
    wrapped = wrap_angle(angle)
    assert -math.pi < wrapped <= math.pi
    assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-9)


def test_half_a_turn_has_one_name() -> None:
    assert wrap_angle(-math.pi) == math.pi


@pytest.mark.parametrize(
    ("point", "inside"),
    [((1, 1), True), ((0, 0), True), ((2, 1), True), ((2.01, 1), False), ((-1, 2), False)],
)
def test_inside_a_square_the_edge_counts(point: tuple[float, float], inside: bool) -> None:
    assert point_in_polygon(point, SQUARE) is inside


@pytest.mark.parametrize(("point", "inside"), [((0.5, 3.0), True), ((3.0, 3.0), False), ((3.0, 0.5), True)])
def test_inside_a_room_with_a_corner(point: tuple[float, float], inside: bool) -> None:
    assert point_in_polygon(point, L_SHAPE) is inside


def test_a_polygon_that_crosses_itself_is_noticed() -> None:
    assert edges_cross(BOW_TIE)
    assert not edges_cross(L_SHAPE)
    assert polygon_area(L_SHAPE) == pytest.approx(7.0)


def test_a_robot_on_its_side_is_tilted_and_a_turned_one_is_not() -> None:
    assert tilt_rad(yaw_to_quaternion(2.0)) == pytest.approx(0.0, abs=1e-6)
    half = math.sqrt(0.5)
    assert tilt_rad(Quaternion(half, 0.0, 0.0, half)) == pytest.approx(math.pi / 2)


def test_the_length_of_a_path_is_the_sum_of_its_pieces() -> None:
    assert path_length([(0, 0), (3, 4), (3, 5)]) == 6.0
    assert path_length([(1, 1)]) == 0.0
