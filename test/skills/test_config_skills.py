"""The entries of the other skills in the YAML: every fault stops the start and names line and key."""

from __future__ import annotations

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.config import SECTIONS, RobotConfig, parse_config
from robot_mcp_kit.skills.registry import BUILDERS, build_skills

from .arguments import GOOD

ARM = """arms:
  a:
    joints:
      one: {range_rad: [-1.0, 1.0]}
      lift: {range_m: [0.0, 0.5]}
    named_targets:
      up:
        joints_rad: {one: 0.5}
        joints_m: {lift: 0.2}
"""
MOVE = """skills:
  move:
    action: move_action
    type: moveit_msgs/action/MoveGroup
    arm: a
    group: g
    end_effector_link: hand
    frames: [base]
"""
GRIP = """skills:
  grip:
    action: g
    type: control_msgs/action/GripperCommand
    open_gap_m: 0.08
    effort_n: 10
    max_effort_n: 20
"""


def behavior(kind: str, *lines: str) -> str:
    return "\n".join(["skills:", "  s:", "    action: a", f"    type: nav2_msgs/action/{kind}", *lines])


def test_every_configurable_type_has_a_skill_and_the_template_shows_it(config: RobotConfig) -> None:
    assert set(SECTIONS) == set(BUILDERS)
    parallel = "control_msgs/action/ParallelGripperCommand"
    assert {section.type for section in config.skills.values()} == set(SECTIONS) - {parallel}
    assert set(config.skills) == set(GOOD)


def test_these_are_right() -> None:
    parse_config(ARM + MOVE)
    parse_config(GRIP)


@pytest.mark.parametrize(
    ("text", "line", "key", "hint"),
    [
        (behavior("Spin", "    time_allowance_s: 0"), 5, "skills.s.time_allowance_s", "greater than 0"),
        (behavior("Spin", "    max_angel_rad: 1.0"), 5, "skills.s.max_angel_rad", '"max_angle_rad"'),
        (behavior("Spin", "    time_allowance_s: 200.0"), 2, "skills.s", "max_time_allowance_s"),
        (behavior("BackUp", "    speed_mps: 0.05"), 2, "skills.s", "min_speed_mps"),
        (behavior("BackUp", "    speed_mps: yes"), 5, "skills.s.speed_mps", "true and false"),
        (behavior("Wait", "    max_duration_s: .inf"), 5, "skills.s.max_duration_s", "finite"),
        (behavior("FollowWaypoints", "    max_loops: -1"), 5, "skills.s.max_loops", "0"),
        (behavior("FollowWaypoints", "    behavior_tree: x"), 5, "skills.s.behavior_tree", "unknown key"),
        (behavior("NavigateThroughPoses", "    max_poses: 0"), 5, "skills.s.max_poses", "1"),
        (behavior("DockRobot", "    default_dock: b", "    docks: {a: {}}"), 2, "skills.s", '"b"'),
        (
            behavior("DockRobot", "    docks:", "      a:", "        idd: x"),
            7,
            "skills.s.docks.a.idd",
            '"id"',
        ),
        (
            behavior("DockRobot", "    docks:", "      a: {pose: {x_m: 1, y_m: 2, yaw_rad: 90}, type: t}"),
            6,
            "skills.s.docks.a.pose.yaw_rad",
            "1.5708",
        ),
        (
            behavior("DockRobot", "    docks:", "      a: {pose: {x_m: 1, y_m: 2, yaw_rad: 0}}"),
            6,
            "skills.s.docks.a",
            "type",
        ),
        (
            behavior(
                "DockRobot", "    docks:", "      a: {pose: {x_m: 1, y_m: 2, yaw_rad: 0, frame: m}, type: t}"
            ),
            6,
            "skills.s.docks.a.pose.frame",
            "robot.frames",
        ),
        (
            behavior("DockRobot", "    docks:", "      a: {}", "      b: {aliases: [A]}"),
            7,
            "skills.s.docks.b.aliases[0]",
            "already names",
        ),
        (MOVE, 5, "skills.move.arm", "the file has none"),
        (ARM + MOVE.replace("arm: a", "arm: b"), 14, "skills.move.arm", "not one of arms (a)"),
        (ARM + MOVE + "    velocity_scaling: 0\n", 18, "skills.move.velocity_scaling", "greater than 0"),
        (ARM + MOVE + "    velocity_scaling: 1.5\n", 18, "skills.move.velocity_scaling", "1"),
        (ARM + MOVE + "    velocity_scaling: 0.8\n", 11, "skills.move", "max_velocity_scaling"),
        (ARM + MOVE + "    policy: replace\n", 18, "skills.move.policy", "second goal"),
        (ARM + MOVE + "    workspace: {x_n: [0, 1]}\n", 18, "skills.move.workspace.x_n", '"x_m"'),
        (ARM + MOVE.replace("frames: [base]", "frames: []"), 17, "skills.move.frames", "at least 1"),
        (ARM.replace("one: 0.5", "one: 1.5"), 8, "arms.a.named_targets.up.joints_rad.one", "outside"),
        (ARM.replace("one: 0.5", "two: 0.5"), 8, "arms.a.named_targets.up.joints_rad.two", "not a joint"),
        (ARM.replace("joints_m: {lift", "joints_m: {one"), 9, "arms.a.named_targets.up.joints_m.one", "rad"),
        (ARM.replace("        joints_m: {lift: 0.2}\n", ""), 7, "arms.a.named_targets.up", "lift"),
        (ARM.replace("range_rad: [-1.0, 1.0]", "range_rad: [1.0, -1.0]"), 4, "arms.a.joints.one", "smaller"),
        (ARM.replace("range_rad: [-1.0, 1.0]", "max_speed_radps: 1"), 4, "arms.a.joints.one", "range_rad"),
        (ARM.replace("lift: {", "lift: {max_speed_radps: 1.0, "), 5, "arms.a.joints.lift", "max_speed_mps"),
        (ARM.replace("lift: {", "lift: {max_sped: 1.0, "), 5, "arms.a.joints.lift.max_sped", "max_speed"),
        (GRIP + "    closed_gap_m: 0.09\n", 2, "skills.grip", "closed_gap_m"),
        (GRIP + "    open_command: 0.1\n", 2, "skills.grip", "go together"),
        (GRIP.replace("effort_n: 10", "effort_n: 0"), 6, "skills.grip.effort_n", "greater than 0"),
        (GRIP.replace("effort_n: 10", "effort_n: 30"), 2, "skills.grip", "max_effort_n"),
    ],
)
def test_a_fault_names_its_line_its_key_and_the_way_out(text: str, line: int, key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "robot.yaml")
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"robot.yaml, line {line}, {key}")
    assert hint in str(caught.value)


def test_a_skill_that_is_switched_off_is_checked_but_not_built() -> None:
    off = behavior("Spin", "    enabled: false")
    assert build_skills(parse_config(off)) == {}
    with pytest.raises(ConfigError):
        parse_config(off + "\n    max_angle_rad: -1.0")


def test_actions_without_feedback_are_not_called_silent(config: RobotConfig) -> None:
    """0 switches the stalled note off; None takes the node's own."""
    silent = {name for name, section in config.skills.items() if section.feedback_timeout_s == 0.0}
    assert silent == {"undock", "move_arm", "execute_trajectory", "gripper", "set_io"}


def test_a_second_motion_is_refused_where_replacing_is_no_ordinary_wish(config: RobotConfig) -> None:
    replace = {name for name, section in config.skills.items() if section.policy == "replace"}
    assert replace == {"navigate_to", "navigate_through", "follow_waypoints", "gripper"}
    for kind in ("Spin", "BackUp", "DriveOnHeading", "Wait", "DockRobot", "UndockRobot"):
        assert parse_config(behavior(kind)).skills["s"].policy == "refuse"


@pytest.mark.parametrize("skill", GOOD)
def test_numbers_written_as_text_are_taken_only_without_loss(config: RobotConfig, skill: str) -> None:
    """H80: some models quote every number."""
    model = build_skills(config)[skill].arguments
    quoted = {k: str(v) if isinstance(v, float) else v for k, v in GOOD[skill].items()}
    assert parse_arguments(model, quoted) == parse_arguments(model, GOOD[skill])
