"""Every skill's goal against the installed message types: a misspelt field would be found here."""

from __future__ import annotations

from typing import Any

import pytest

from robot_mcp_kit.skills.base import fit_goal

from .arguments import GOOD
from .conftest import Robot

pytestmark = pytest.mark.ros

MORE: list[tuple[str, dict[str, Any]]] = [
    ("move_arm", {"joints_rad": GOOD["execute_trajectory"]["points"][0]["joints_rad"], "plan_only": True}),
    ("move_arm", {"pose": {"x_m": 0.6, "y_m": 0.0, "z_m": 0.7, "pitch_rad": 1.0}}),
    ("gripper", {"position_m": 0.02}),
    ("follow_waypoints", {**GOOD["follow_waypoints"], "goal_index": 1, "number_of_loops": 2}),
]


WITH_TYPES = {name: arguments for name, arguments in GOOD.items() if name != "set_io"}
"""Setting an output is no goal of an installed type; its port's own tests check its fields."""


@pytest.mark.parametrize(("skill", "arguments"), [*WITH_TYPES.items(), *MORE])
def test_a_goal_fits_the_installed_type(robot: Robot, skill: str, arguments: dict[str, Any]) -> None:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    goal_type = load_interface(robot.skills[skill].action_type).Goal
    spec = robot.goal(skill, **arguments)
    fitted = fit_goal(spec, lambda fields: build_message(goal_type, fields) and None)
    message = build_message(goal_type, fitted.fields)
    if hasattr(message, "disable_collision_checks"):
        assert message.disable_collision_checks is False
    if skill == "move_arm":
        assert message.request.start_state.joint_state.name == []
    if skill == "navigate_through":
        poses = getattr(message.poses, "goals", message.poses)
        assert [pose.header.frame_id for pose in poses] == ["map", "map"]


def test_a_parallel_grippers_goal_fits_its_type(robot_of: Any) -> None:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    kind = "control_msgs/action/ParallelGripperCommand"
    robot = robot_of(
        f"skills: {{g: {{action: g, type: {kind}, open_gap_m: 0.1, effort_n: 1, max_effort_n: 1}}}}"
    )
    message = build_message(load_interface(kind).Goal, robot.goal("g", command="open").fields)
    assert list(message.command.position) == [0.1]


def test_a_trajectory_with_tolerances_fits_its_type(robot_of: Any) -> None:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    kind = "control_msgs/action/FollowJointTrajectory"
    robot = robot_of(
        "arms: {a: {joints: {j: {range_rad: [-1, 1]}}}}\n"
        f"skills: {{f: {{action: f, type: {kind}, arm: a, path_tolerance: 0.1, goal_tolerance: 0.01}}}}"
    )
    goal = robot.goal("f", points=[{"time_from_start_s": 1.5, "joints_rad": {"j": 0.5}}])
    message = build_message(load_interface(kind).Goal, goal.fields)
    assert message.path_tolerance[0].position == 0.1
    assert message.goal_tolerance[0].name == "j"
    assert message.trajectory.points[0].time_from_start.nanosec == 500_000_000
