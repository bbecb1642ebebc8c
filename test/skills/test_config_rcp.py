"""The ``rcp`` section: what stops the start, and which skills stand behind the protocol's actions."""

from __future__ import annotations

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.config.rcp import effective_rcp, jog_skill, move_skill

ARMS = """
arms:
  left:
    joints: {a: {range_rad: [-1.0, 1.0]}}
    named_targets: {home: {joints_rad: {a: 0.0}}}
  right: {joints: {b: {range_rad: [-1.0, 1.0]}}}
skills:
  move_left:
    action: left
    type: moveit_msgs/action/MoveGroup
    arm: left
    group: left
    end_effector_link: tool0
    frames: [base_link]
  follow_right:
    action: right
    type: control_msgs/action/FollowJointTrajectory
    arm: right
  unused:
    action: unused
    type: moveit_msgs/action/MoveGroup
    enabled: false
    arm: left
    group: left
    end_effector_link: tool0
    frames: [base_link]
  wait: {action: wait, type: nav2_msgs/action/Wait}
"""


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{arm: middle}", r'rcp\.arm: "middle" is not one of arms \(left, right\)'),
        ("{move: move_lft}", r'rcp\.move: there is no such skill\. Did you mean "move_left"'),
        ("{move: wait}", r"rcp\.move: nav2_msgs/action/Wait cannot do that"),
        ("{move: unused}", r"rcp\.move: that skill is disabled"),
        ("{arm: right, move: move_left}", r'rcp\.move: that skill moves the arm "left", not "right"'),
        ("{jog: {skill: wait}}", r"rcp\.jog\.skill: nav2_msgs/action/Wait cannot do that"),
        ("{jog: {step_s: 9.0}}", r"rcp\.jog\.step_s"),
        ("{arm: left, tcp: {frame: map}}", r"rcp\.tcp\.frame: .*base_link"),
        ("{arm: left, home_target: hoem}", r"rcp\.home_target: there is no such target"),
        ("{programs: {p: {skill: unused}}}", r'rcp\.programs\.p\.skill: the skill "unused" is disabled'),
        ("{programs: {p: {skill: gone}}}", r'rcp\.programs\.p\.skill: the skill "gone" is not there'),
        ("{tcp: {rotation: degrees}}", r"rcp\.tcp\.rotation"),
        ("{reach_mm: -1.0}", r"rcp\.reach_mm"),
        ("{serial: 5}", r"rcp\.serial"),
    ],
)
def test_what_contradicts_the_rest_of_the_file_stops_the_start(section: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(f"{ARMS}rcp: {section}\n")


def test_the_skills_behind_the_actions_are_those_of_the_arm() -> None:
    left = parse_config(f"{ARMS}rcp: {{arm: left}}\n")
    right = parse_config(f"{ARMS}rcp: {{arm: right}}\n")
    assert left.rcp is not None
    assert right.rcp is not None
    assert (move_skill(left.rcp, left.skills), jog_skill(left.rcp, left.skills)) == ("move_left", "move_left")
    assert (move_skill(right.rcp, right.skills), jog_skill(right.rcp, right.skills)) == (None, "follow_right")


def test_a_robot_with_arms_is_told_without_a_section_and_can_be_silent() -> None:
    config = parse_config(ARMS)
    assert effective_rcp(config.rcp, config.arms) is not None
    assert effective_rcp(None, {}) is None
    silent = parse_config(f"{ARMS}rcp: {{enabled: false}}\n")
    assert effective_rcp(silent.rcp, silent.arms) is None
