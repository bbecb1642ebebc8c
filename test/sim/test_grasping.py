"""Grasps that slip, and what the camera sees. Pure."""

from __future__ import annotations

import pytest

from robot_mcp_kit.sim import faults
from robot_mcp_kit.sim.arm import HOME, inverse, plan
from robot_mcp_kit.sim.clock import SimClock
from robot_mcp_kit.sim.floorplan import Pose
from robot_mcp_kit.sim.world import CAMERA_RANGE_M, World, relative

DT = 0.01


def _world(seed: int, slip_percent: float) -> World:
    """The robot at the kitchen counter, the tool around the cup."""
    world = World(SimClock(real_time=False), start=Pose(10.0, 6.5, 1.5708), seed=seed)
    world.apply_faults({"slip_percent": slip_percent})
    cup = world.things["red_cup"]
    at = relative(world.base.pose, Pose(cup.x_m, cup.y_m))
    world.arm.positions = list(inverse((at.x_m, at.y_m, cup.z_m), None, HOME))
    return world


def _run(world: World, seconds: float) -> None:
    for _ in range(round(seconds / DT)):
        world.step(DT)


def _pick(world: World) -> None:
    world.command_gripper(0.0, 0.0)
    _run(world, 3.0)
    tool = world.tool_in_map()
    at = relative(world.base.pose, Pose(tool[0], tool[1]))
    lifted = inverse((at.x_m, at.y_m, tool[2] + 0.1), None, world.arm.positions)
    world.arm.follow(plan(world.arm.positions, lifted, 1.0, 1.0))
    _run(world, 5.0)


@pytest.mark.parametrize(("percent", "held"), [(0.0, True), (100.0, False)])
def test_a_grasp_holds_or_slips_when_it_is_lifted(percent: float, held: bool) -> None:
    world = _world(0, percent)
    _pick(world)
    assert (world.gripper.held is not None) is held
    world.carry()
    cup = world.things["red_cup"]
    assert (cup.z_m > 0.7) is held


def test_chance_decides_and_the_seed_repeats_it() -> None:
    def outcomes() -> list[bool]:
        found = []
        for seed in range(6):
            world = _world(seed, 50.0)
            _pick(world)
            found.append(world.gripper.held is not None)
        return found

    first = outcomes()
    assert first == outcomes()
    assert len(set(first)) == 2


def test_the_camera_sees_what_is_near_and_what_is_held() -> None:
    world = _world(0, 0.0)
    assert {thing.spec.name for thing in world.visible()} == {"red_cup", "blue_box"}
    _pick(world)
    world.base.x_m -= CAMERA_RANGE_M + 1.0
    world.carry()
    assert {thing.spec.name for thing in world.visible()} == {"red_cup"}


@pytest.mark.parametrize("value", [-1.0, 101.0, "often", True])
def test_a_percentage_is_from_0_to_100(value: object) -> None:
    with pytest.raises(ValueError, match="slip_percent"):
        faults.checked("slip_percent", value, doors={}, objects={})
