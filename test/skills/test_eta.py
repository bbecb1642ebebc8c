"""Time left, distance and percent, on series as real navigators send them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.nav2.eta import EtaEstimator, EtaReading

Row = tuple[float, float, float]
"""time_s, estimated_time_remaining, distance_remaining"""


def feed(rows: list[Row], estimator: EtaEstimator | None = None) -> list[EtaReading]:
    estimator = estimator or EtaEstimator()
    return [estimator.update(time_s=t, time_left_s=eta, distance_m=d) for t, eta, d in rows]


def steady(start_s: float, distance_m: float, speed_mps: float, seconds: float, step_s: float) -> list[Row]:
    count = round(seconds / step_s)
    rows = []
    for i in range(count):
        left = distance_m - speed_mps * i * step_s
        rows.append((start_s + i * step_s, left / speed_mps, left))
    return rows


def test_before_a_path_was_seen_nothing_is_known() -> None:
    """Case B11: distance 0 and time 0 are defaults, however long they last."""
    for reading in feed([(t / 2, 0.0, 0.0) for t in range(20)]):
        assert reading == EtaReading()


def test_zero_with_a_path_ahead_is_unknown() -> None:
    """Case B11: turning in place, waiting for a person."""
    readings = feed([(t, 0.0, 12.4) for t in (2.0, 2.5, 3.0)])
    assert [r.eta_s for r in readings] == [None] * 3
    assert readings[-1].distance_m == 12.4


def test_zero_at_the_goal_is_arriving() -> None:
    rows = [*steady(2.0, 2.0, 0.5, 4.0, 0.5), (6.2, 0.0, 0.05)]
    assert feed(rows)[-1].eta_s == pytest.approx(0.0, abs=0.5)


def test_a_steady_drive_is_estimated_without_lag() -> None:
    rows = steady(2.0, 10.0, 0.5, 18.0, 0.1)
    for (_, eta, _), reading in list(zip(rows, feed(rows), strict=True))[1:]:
        assert reading.eta_s == pytest.approx(eta, abs=0.05)


def test_standing_still_is_bridged_by_the_speed_before_and_then_unknown() -> None:
    rows = steady(2.0, 10.0, 0.5, 8.0, 0.5)
    standing = [(10.0 + t * 0.5, 0.0, 6.0) for t in range(30)]
    readings = feed(rows + standing)
    assert readings[len(rows)].eta_s is not None
    assert readings[-1].eta_s is None


def test_a_creeping_robot_is_unknown_and_not_three_quarters_of_an_hour() -> None:
    """Case B14: speeds alternate around 0.01 m/s at 30 m."""
    rows: list[Row] = [(2.0 + t, 0.0 if t % 2 else 30 / 0.0101, 30.0 - 0.01 * t) for t in range(60)]
    assert {r.eta_s for r in feed(rows)} == {None}


def test_the_end_of_the_previous_path_is_not_this_goals() -> None:
    """Kilted: at a second goal the first messages still measure the old path."""
    rows: list[Row] = [(0.1, 0.2, 0.1), (0.4, 0.2, 0.1), (0.7, 30.0, 9.0), (1.2, 29.0, 8.7)]
    readings = feed(rows)
    assert [r.distance_m for r in readings] == [None, None, 9.0, 8.7]
    assert all(r.percent is None or r.percent < 5 for r in readings)


def test_the_whole_previous_path_does_not_count_as_progress() -> None:
    rows: list[Row] = [(0.1, 60.0, 20.0), (0.6, 60.0, 20.0), (1.1, 9.0, 3.0), (1.6, 8.5, 2.9)]
    readings = feed(rows)
    assert readings[1].distance_m is None
    assert readings[-1].percent is not None
    assert readings[-1].percent < 10


def test_a_path_shorter_than_the_straight_line_belongs_to_another_goal() -> None:
    estimator = EtaEstimator(Pose2D(10.0, 0.0, 0.0))
    far = Pose2D(0.0, 0.0, 0.0)
    for t in (0.5, 1.0, 2.0, 3.0):
        assert estimator.update(time_s=t, time_left_s=1.0, distance_m=2.0, pose=far).distance_m is None
    reading = estimator.update(time_s=3.5, time_left_s=20.0, distance_m=10.5, pose=far)
    assert reading.distance_m == 10.5


def test_the_straight_line_is_not_compared_across_frames() -> None:
    estimator = EtaEstimator(Pose2D(10.0, 0.0, 0.0, "odom"))
    reading = estimator.update(time_s=2.0, time_left_s=4.0, distance_m=2.0, pose=Pose2D(0.0, 0.0, 0.0, "map"))
    assert reading.distance_m == 2.0


def test_one_sample_of_a_path_that_passes_near_itself_changes_nothing() -> None:
    """Case B13: 30 -> 8 -> 29."""
    rows: list[Row] = [
        (2.0, 60.0, 30.5),
        (3.0, 59.0, 30.0),
        (4.0, 16.0, 8.0),
        (5.0, 58.0, 29.0),
        (6.0, 57.0, 28.5),
    ]
    readings = feed(rows)
    assert [r.distance_m for r in readings] == [30.5, 30.0, 30.0, 29.0, 28.5]
    assert all(r.percent is None or r.percent < 10 for r in readings)
    assert all(r.eta_s is None or r.eta_s > 50 for r in readings)


def test_a_short_stretch_of_the_wrong_piece_changes_nothing() -> None:
    """Case B13 at 10 Hz: three messages see the wrong piece of the path."""
    rows = steady(2.0, 30.0, 0.5, 2.0, 0.1)
    wrong: list[Row] = [(4.0, 16.0, 8.0), (4.1, 15.8, 7.9), (4.2, 15.6, 7.8)]
    readings = feed(rows + wrong + steady(4.3, 28.85, 0.5, 2.0, 0.1))
    assert all(r.distance_m is None or r.distance_m > 27 for r in readings)
    assert readings[-1].percent is not None
    assert readings[-1].percent < 10


def test_a_replan_that_lasts_is_believed() -> None:
    rows = steady(2.0, 10.0, 0.5, 5.0, 0.5) + steady(7.0, 20.0, 0.5, 5.0, 0.5)
    readings = feed(rows)
    assert readings[-1].distance_m == pytest.approx(rows[-1][2])
    assert readings[-1].eta_s == pytest.approx(rows[-1][1], abs=1.0)


def test_percent_never_goes_back_and_never_reaches_a_hundred() -> None:
    """H76."""
    rows = steady(2.0, 10.0, 0.5, 10.0, 0.5) + steady(12.0, 16.0, 0.5, 31.9, 0.1)
    percents = [r.percent for r in feed(rows) if r.percent is not None]
    assert percents == sorted(percents)
    assert 95 < percents[-1] <= 99


def test_time_that_goes_back_begins_anew() -> None:
    """E45: navigation_time 60 -> 1."""
    rows = steady(50.0, 10.0, 0.5, 10.0, 0.5)
    estimator = EtaEstimator()
    before = feed(rows, estimator)[-1]
    again = estimator.update(time_s=1.0, time_left_s=40.0, distance_m=20.0)
    assert again.reset
    assert again.distance_m is None
    assert again.percent == before.percent
    later = estimator.update(time_s=2.0, time_left_s=39.0, distance_m=19.5)
    assert later.eta_s == pytest.approx(39.0)


@pytest.mark.parametrize("rate_hz", [1, 10, 100])
def test_the_rate_of_feedback_does_not_matter(rate_hz: int) -> None:
    rows = steady(2.0, 10.0, 0.5, 15.0, 1.0 / rate_hz)
    last = feed(rows)[-1]
    assert last.eta_s == pytest.approx(rows[-1][1], abs=0.6)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1000),
            st.floats(allow_nan=False, allow_infinity=False, min_value=-10, max_value=1e6),
            st.one_of(st.none(), st.floats(-5, 1e5)),
        ),
        max_size=60,
    )
)
def test_no_series_gives_a_negative_time_or_a_falling_percent(
    rows: list[tuple[float, float, float | None]],
) -> None:
    estimator = EtaEstimator()
    readings = [estimator.update(time_s=t, time_left_s=eta, distance_m=d) for t, eta, d in rows]
    assert all(r.eta_s is None or r.eta_s >= 0 for r in readings)
    percents = [r.percent for r in readings if r.percent is not None]
    assert all(a <= b <= 99 for a, b in pairwise(percents))
