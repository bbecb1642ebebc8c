"""The moving base and its motions: pure physics, no waiting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.sim.battery import Battery
from robot_mcp_kit.sim.clock import SimClock, split_s
from robot_mcp_kit.sim.drive import Base, FollowPath, Motion, Straight, Turn, wrap
from robot_mcp_kit.sim.floorplan import Pose, default_floor_plan
from robot_mcp_kit.sim.planner import Path, Planner
from robot_mcp_kit.sim.recovery import Progress, Recoveries
from robot_mcp_kit.sim.world import World, compose, relative

DT = 0.01
PLANNER = Planner(default_floor_plan())


def _free(_x: float, _y: float) -> float:
    return 10.0


def _run(base: Base, motion: Motion, limit_s: float = 60.0, clearance: object = _free) -> float:
    """Run a motion to its end; returns the time it took."""
    base.motion = motion
    steps = 0
    while not motion.done:
        base.step(DT, clearance)  # type: ignore[arg-type]
        steps += 1
        assert steps * DT < limit_s, "the motion never ended"
    return steps * DT


def test_speed_and_acceleration_stay_within_the_limits() -> None:
    base = Base(Pose(0.0, 0.0, 1.0))
    motion = FollowPath(Path.through([(0.0, 0.0), (3.0, 0.0), (3.0, 3.0)]), math.pi)
    base.motion = motion
    speed, yaw_rate = 0.0, 0.0
    while not motion.done:
        base.step(DT, _free)
        assert abs(base.speed) <= 0.5 + 1e-9
        assert abs(base.yaw_rate) <= 1.2 + 1e-9
        assert abs(base.speed - speed) <= 0.5 * DT + 1e-9
        assert abs(base.yaw_rate - yaw_rate) <= 2.5 * DT + 1e-9
        speed, yaw_rate = base.speed, base.yaw_rate


@settings(max_examples=40, deadline=None)
@given(st.floats(-3.1, 3.1), st.floats(-3.1, 3.1), st.floats(0.5, 5.0), st.floats(-3.0, 3.0))
def test_any_pose_is_reached_and_held(start_yaw: float, end_yaw: float, x: float, y: float) -> None:
    base = Base(Pose(0.0, 0.0, start_yaw))
    _run(base, FollowPath(Path.through([(0.0, 0.0), (x, y)]), end_yaw))
    for _ in range(200):
        base.step(DT, _free)
    assert math.hypot(base.x_m - x, base.y_m - y) < 0.05
    assert abs(wrap(base.yaw_rad - end_yaw)) < 0.05
    assert not base.moving


def test_it_turns_in_place_before_it_drives_off() -> None:
    """Speed 0 during the turn is what makes Nav2's ETA unknown there."""
    base = Base(Pose(0.0, 0.0, math.pi))
    base.motion = FollowPath(Path.through([(0.0, 0.0), (3.0, 0.0)]), 0.0)
    while abs(wrap(base.yaw_rad)) > 0.5:
        base.step(DT, _free)
        assert base.speed == 0.0
    assert base.smoothed_speed == 0.0


def test_it_drives_round_corners_without_touching_them() -> None:
    base = Base(Pose(2.0, 6.5, 0.0))
    path = PLANNER.path((2.0, 6.5), (10.0, 1.5))
    motion = FollowPath(path, 0.0)
    base.motion = motion
    while not motion.done:
        base.step(DT, PLANNER.clearance.near)
        assert PLANNER.clearance.exact(base.x_m, base.y_m) > 0.22
        assert not base.bumped


def test_a_yaw_that_is_not_a_number_spoils_nothing_but_the_goal() -> None:
    """Nav2 does not check it either; the robot turns on the spot until somebody loses patience."""
    base = Base(Pose(0.0, 0.0, 0.0))
    motion = FollowPath(Path.through([(0.0, 0.0), (1.0, 0.0)]), math.nan)
    base.motion = motion
    for _ in range(1500):
        base.step(DT, _free)
    assert not motion.done
    assert all(math.isfinite(value) for value in (base.x_m, base.y_m, base.yaw_rad, base.speed))


def test_a_new_path_is_taken_without_stopping() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    motion = FollowPath(Path.through([(0.0, 0.0), (5.0, 0.0)]), 0.0)
    base.motion = motion
    while base.x_m < 2.0:
        base.step(DT, _free)
    motion.set_path(Path.through([(base.x_m, 0.0), (4.0, 0.5)]), 0.0)
    slowest = base.speed
    while base.x_m < 3.0:
        base.step(DT, _free)
        slowest = min(slowest, base.speed)
    assert slowest > 0.2


def test_what_is_left_of_the_path_follows_the_robots_progress_not_the_nearest_stretch() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    motion = FollowPath(Path.through([(0.0, 0.0), (4.0, 0.0), (4.0, 0.1), (0.0, 0.1)]), 0.0)
    base.motion = motion
    while base.x_m < 1.0:
        base.step(DT, _free)
    rest = motion.rest(base.x_m, base.y_m, within_m=0.3)
    assert rest is not None
    assert rest.length_m == pytest.approx(7.1, abs=0.2)
    assert motion.rest(base.x_m, base.y_m + 1.0, within_m=0.3) is None


@pytest.mark.parametrize("angle", [0.3, -1.57, 7.0, -0.02, 0.0])
def test_turns_may_exceed_a_full_turn_and_go_the_way_of_their_sign(angle: float) -> None:
    base = Base(Pose(0.0, 0.0, 3.0))
    motion = Turn(angle)
    _run(base, motion)
    assert base.turned_rad == pytest.approx(angle, abs=0.06)
    assert (base.x_m, base.y_m) == (0.0, 0.0)


@pytest.mark.parametrize("distance", [0.5, -0.3])
def test_straight_motions_go_backwards_for_a_negative_distance(distance: float) -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    took = _run(base, Straight(distance, 0.1))
    assert base.x_m == pytest.approx(distance, abs=0.01)
    assert took >= abs(distance) / 0.1


def test_walls_stop_the_robot_and_let_it_go_again() -> None:
    base = Base(Pose(11.0, 4.0, 0.0))
    base.motion = Straight(3.0, 0.4)
    for _ in range(600):
        base.step(DT, PLANNER.clearance.near)
    assert base.bumped or base.speed == 0.0
    assert base.x_m < 11.9 - 0.15
    there = base.x_m
    _run(base, Straight(-0.5, 0.2), clearance=PLANNER.clearance.near)
    assert base.x_m == pytest.approx(there - 0.5, abs=0.02)


def test_slipping_wheels_do_not_move_the_robot() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    base.slipping = True
    base.motion = Straight(1.0, 0.4)
    for _ in range(300):
        base.step(DT, _free)
    assert (base.x_m, base.speed) == (0.0, 0.0)


def test_whoever_lost_the_wheels_cannot_stop_the_others_motion() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    first, second = Straight(1.0, 0.2), Straight(1.0, 0.4)
    base.motion = first
    base.motion = second
    base.stop(first)
    assert base.motion is second
    base.stop(second)
    assert base.motion is None


def test_the_smoothed_speed_is_the_mean_of_the_last_0_3_seconds() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    base.motion = Straight(9.0, 0.5)
    for _ in range(50):  # 0.5 s at 0.5 m/s²: 0.25 m/s now, 0.175 m/s on average since 0.2 s
        base.step(DT, _free)
    assert base.speed == pytest.approx(0.25)
    assert base.smoothed_speed == pytest.approx(0.175, abs=0.01)


def test_progress_is_half_a_metre_in_ten_seconds() -> None:
    base = Base(Pose(0.0, 0.0, 0.0))
    progress = Progress(base, 0.0)
    assert progress.made(10.0)
    assert not progress.made(10.1)
    base.x_m = 0.6
    assert progress.made(10.2)
    assert progress.made(20.1)
    assert not progress.made(20.3)


def test_recoveries_go_round_and_leave_the_code_of_what_failed() -> None:
    world = World(SimClock(real_time=False))
    codes: dict[str, tuple[int, str]] = {}
    recoveries = Recoveries(world, codes)
    world.base.slipping = True
    kinds = []
    now_s = 0.0
    for _ in range(5):
        recoveries.begin(now_s)
        kinds.append(recoveries.kind)
        while not recoveries.finished(now_s):
            world.step(DT)
            now_s += DT
    assert kinds == ["clear", "spin", "wait", "backup", "clear"]
    assert {code for code, _ in codes.values()} == {701, 711}
    world.base.slipping = False
    recoveries.begin(now_s)
    while not recoveries.finished(now_s):
        world.step(DT)
        now_s += DT
    assert {code for code, _ in codes.values()} == {711}
    assert recoveries.attempts == 6


@given(
    st.floats(-5, 5), st.floats(-5, 5), st.floats(-3, 3), st.floats(-5, 5), st.floats(-5, 5), st.floats(-3, 3)
)
def test_relative_poses_undo_composed_ones(
    a: float, b: float, c: float, d: float, e: float, f: float
) -> None:
    base, local = Pose(a, b, c), Pose(d, e, f)
    back = relative(base, compose(base, local))
    assert (back.x_m, back.y_m) == (pytest.approx(d, abs=1e-9), pytest.approx(e, abs=1e-9))
    assert abs(wrap(back.yaw_rad - f)) < 1e-9


def test_negative_durations_have_a_floored_second() -> None:
    """B17: −0.05 s is sec −1 and nanosec 950000000."""
    assert split_s(-0.05) == (-1, 950_000_000)
    assert split_s(1.25) == (1, 250_000_000)
    assert split_s(0.9999999999) == (1, 0)


def test_a_closed_clock_lets_everybody_go() -> None:
    clock = SimClock(real_time=False)
    clock.advance(1.0)
    assert clock.wait_until(0.5)
    clock.close()
    assert not clock.wait_until(100.0)
    assert not clock.sleep(1.0)


def test_the_battery_drains_faster_while_driving_and_charges_on_the_dock() -> None:
    idle, driving, docked = Battery(0.5), Battery(0.5), Battery(0.5)
    for _ in range(1000):
        idle.step(0.1, 0.0, on_dock=False)
        driving.step(0.1, 0.5, on_dock=False)
        docked.step(0.1, 0.0, on_dock=True)
    assert driving.percentage < idle.percentage < 0.5 < docked.percentage
    assert docked.charging
    full = Battery(1.0)
    full.step(0.1, 0.0, on_dock=True)
    assert not full.charging
    assert full.full
