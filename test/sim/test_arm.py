"""Arm kinematics, trajectories and the gripper: pure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.sim import faults
from robot_mcp_kit.sim.arm import (
    HOME,
    JOINTS,
    Arm,
    NoSolution,
    Trajectory,
    forward,
    inverse,
    plan,
    quaternion_of_rotation,
    rotation_of_quaternion,
)
from robot_mcp_kit.sim.clock import SimClock
from robot_mcp_kit.sim.floorplan import default_floor_plan
from robot_mcp_kit.sim.gripper import OPEN_M, Gripper, Thing
from robot_mcp_kit.sim.world import World

DT = 0.01
AWAY = (1.0, -1.0, 1.5, 0.5, -0.5, 0.5)
joint_angles = st.tuples(*(st.floats(j.low_rad * 0.8, j.high_rad * 0.8) for j in JOINTS))


def test_the_stretched_arm_points_forward() -> None:
    position, rotation = forward((0.0,) * 6)
    assert position == pytest.approx([1.0, 0.0, 0.45])
    assert rotation == pytest.approx(np.eye(3))
    position, _ = forward((math.pi / 2, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert position == pytest.approx([0.1, 0.9, 0.45])


@settings(max_examples=60, deadline=None)
@given(joint_angles)
def test_every_position_the_arm_can_take_is_found_again(angles: tuple[float, ...]) -> None:
    position, _ = forward(angles)
    found, _ = forward(inverse(position.tolist(), None, HOME))
    assert math.dist(found, position) < 0.003


@pytest.mark.parametrize("angles", [HOME, AWAY, (-0.5, -1.2, 1.9, 0.0, 0.3, 1.0)])
def test_a_pose_with_orientation_is_found_from_elsewhere(angles: tuple[float, ...]) -> None:
    position, rotation = forward(angles)
    found_position, found_rotation = forward(inverse(position.tolist(), rotation, HOME))
    assert math.dist(found_position, position) < 0.003
    assert found_rotation == pytest.approx(rotation, abs=0.02)


@pytest.mark.parametrize(
    "target", [(3.0, 0.0, 0.5), (0.1, 0.0, 0.47), (math.nan, 0.0, 0.5)], ids=["far", "inside", "nan"]
)
def test_what_cannot_be_reached_says_so(target: tuple[float, float, float]) -> None:
    with pytest.raises(NoSolution):
        inverse(target, np.eye(3), HOME)


def test_quaternions_are_normalised_and_zero_ones_refused() -> None:
    assert rotation_of_quaternion(0.0, 0.0, 0.0, 5.0) == pytest.approx(np.eye(3))
    for bad in ((0.0, 0.0, 0.0, 0.0), (math.nan, 0.0, 0.0, 1.0)):
        with pytest.raises(ValueError, match="length"):
            rotation_of_quaternion(*bad)


def _run(arm: Arm, seconds: float) -> None:
    for _ in range(round(seconds / DT)):
        arm.step(DT)


@pytest.mark.parametrize("scaling", [1.0, 0.3])
def test_planned_motions_keep_the_scaled_rates_and_arrive(scaling: float) -> None:
    trajectory = plan(HOME, AWAY, scaling, 1.0)
    arm = Arm()
    arm.follow(trajectory)
    fastest = 0.0
    for _ in range(round(trajectory.duration_s / DT) + 50):
        arm.step(DT)
        fastest = max(fastest, *(abs(r) / j.max_rate for r, j in zip(arm.rates, JOINTS, strict=True)))
    assert arm.positions == pytest.approx(list(AWAY), abs=1e-6)
    assert arm.resting
    assert fastest <= scaling * 1.1


def test_a_scaling_of_zero_is_full_speed() -> None:
    """Case A10: as the message's comment says, and a trap."""
    assert plan(HOME, AWAY, 0.0, 0.0).duration_s == plan(HOME, AWAY, 1.0, 1.0).duration_s
    assert plan(HOME, AWAY, 0.1, 1.0).duration_s > 5 * plan(HOME, AWAY, 1.0, 1.0).duration_s


def test_a_trajectory_is_joined_by_straight_lines() -> None:
    trajectory = Trajectory([1.0, 3.0], [(1.0,) * 6, (0.0,) * 6])
    assert trajectory.at(0.5, (0.0,) * 6) == ((0.5,) * 6, 0)
    assert trajectory.at(2.0, (0.0,) * 6) == ((0.5,) * 6, 1)
    assert trajectory.at(9.0, (0.0,) * 6) == ((0.0,) * 6, 1)


def test_a_stopped_arm_still_moves_a_little() -> None:
    """D39: it decelerates after the cancel."""
    arm = Arm()
    arm.follow(plan(HOME, AWAY, 1.0, 1.0))
    _run(arm, 0.6)
    arm.stop()
    before = list(arm.positions)
    assert not arm.resting
    _run(arm, 1.0)
    assert arm.resting
    assert arm.positions != before


def test_joints_do_not_leave_their_limits_nor_move_when_jammed() -> None:
    arm = Arm()
    arm.follow(Trajectory([1.0], [(9.0,) * 6]))
    _run(arm, 10.0)
    assert arm.positions == pytest.approx([j.high_rad for j in JOINTS])
    arm = Arm(stuck=True)
    arm.follow(plan(HOME, AWAY, 1.0, 1.0))
    _run(arm, 3.0)
    assert arm.positions == list(HOME)


def _close(gripper: Gripper, gap_m: float, seconds: float = 3.0) -> list[Thing]:
    gripper.command(gap_m, 0.0)
    dropped = [gripper.step(DT) for _ in range(round(seconds / DT))]
    return [thing for thing in dropped if thing is not None]


def test_fingers_stop_at_what_is_between_them_and_let_it_go_when_they_open() -> None:
    cup = Thing.at_rest(default_floor_plan().objects[0])
    gripper = Gripper()
    gripper.look([cup], (cup.x_m, cup.y_m, cup.z_m + 0.01))
    assert _close(gripper, 0.0) == []
    assert gripper.gap_m == pytest.approx(cup.spec.width_m)
    assert gripper.effort_n > 0
    assert gripper.held is cup
    assert _close(gripper, OPEN_M) == [cup]
    assert gripper.held is None
    assert gripper.gap_m == pytest.approx(OPEN_M)


def test_far_or_wide_things_are_not_grasped() -> None:
    cup = Thing.at_rest(default_floor_plan().objects[0])
    gripper = Gripper()
    gripper.look([cup], (0.0, 0.0, 0.0))
    assert gripper.between is None
    _close(gripper, 0.03)
    gripper.look([cup], (cup.x_m, cup.y_m, cup.z_m))
    assert gripper.between is None  # the fingers are already closer than the cup is wide
    _close(gripper, -1.0)
    assert gripper.gap_m == pytest.approx(0.0)


def test_a_held_object_travels_with_the_tool() -> None:
    world = World(SimClock(real_time=False))
    world.apply_faults({"object_in_gripper": "toolbox"})
    world.command_gripper(0.0, 0.0)
    for _ in range(300):
        world.step(DT)
    world.base.x_m += 2.0
    world.carry()
    toolbox = world.things["toolbox"]
    assert (toolbox.x_m, toolbox.y_m, toolbox.z_m) == pytest.approx(world.tool_in_map())
    world.apply_faults({"drop_object": True})
    assert world.gripper.held is None
    assert toolbox.z_m == 0.02
    world.reset()
    assert world.things["toolbox"].z_m == 0.75
    assert world.base.x_m == 1.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gremlins", True),
        ("stuck", 1),
        ("slow_down", 0.0),
        ("slow_down", math.nan),
        ("die_after_s", -1.0),
        ("abort_code", 1.5),
        ("abort_code", 2**40),
        ("blocked_doors", ["barn_door"]),
        ("blocked_doors", 3),
        ("fault_actions", ["fly"]),
        ("object_in_gripper", "anvil"),
    ],
)
def test_switches_refuse_what_they_cannot_be(name: str, value: object) -> None:
    floor = default_floor_plan()
    with pytest.raises(ValueError, match=f"^{name}: "):
        faults.checked(name, value, doors=floor.doors, objects={"red_cup": None})


def test_switches_take_lists_or_commas_and_ignore_empty_names() -> None:
    doors = default_floor_plan().doors
    for value in (["kitchen_door", ""], "kitchen_door,", ("kitchen_door",)):
        assert faults.checked("blocked_doors", value, doors=doors, objects={}) == ["kitchen_door"]
    assert faults.checked("slow_down", 1, doors=doors, objects={}) == 1.0


@pytest.mark.parametrize(
    "quaternion",
    [(0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0.5, -0.5, 0.5, 0.5), (0.6, 0.0, -0.8, 0.0)],
)
def test_a_rotation_becomes_its_quaternion(quaternion: tuple[float, ...]) -> None:
    again = quaternion_of_rotation(rotation_of_quaternion(*quaternion))
    assert abs(sum(a * b for a, b in zip(again, quaternion, strict=True))) == pytest.approx(1.0, abs=1e-12)
