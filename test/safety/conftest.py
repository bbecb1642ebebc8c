"""The demo robot with every skill switched on and a fence around its flat."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.safety.by_type import LimitBuilder
from robot_mcp_kit.safety.geofence import Fence
from robot_mcp_kit.safety.limits import LimitSet
from robot_mcp_kit.safety.situation import LimitViolation, Situation
from robot_mcp_kit.safety.universal import check_any_goal
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Pose2D, Skill
from robot_mcp_kit.skills.config import RobotConfig, parse_config
from robot_mcp_kit.skills.config.safety import SafetySection
from robot_mcp_kit.skills.registry import build_skills

TEMPLATE = Path(__file__).parents[2] / "config" / "skills.yaml"
JOINTS = {
    "shoulder_pan_joint": 0.0,
    "shoulder_lift_joint": -1.0,
    "elbow_joint": 1.0,
    "wrist_1_joint": 0.0,
    "wrist_2_joint": 0.0,
    "wrist_3_joint": 0.0,
}
POINTS = [
    {"time_from_start_s": 2.0, "joints_rad": JOINTS},
    {"time_from_start_s": 4.0, "joints_rad": {**JOINTS, "elbow_joint": 1.5}},
]
GOOD: dict[str, dict[str, Any]] = {
    "navigate_to": {"place": "kitchen"},
    "navigate_through": {"poses": [{"place": "kitchen"}, {"x_m": 3.0, "y_m": 4.0}]},
    "follow_waypoints": {"poses": [{"place": "kitchen"}, {"place": "lobby"}]},
    "spin": {"angle_rad": -1.5},
    "back_up": {"distance_m": 0.3},
    "drive_on_heading": {"distance_m": -0.4},
    "wait": {"duration_s": 4.0},
    "dock": {},
    "undock": {},
    "move_arm": {"target": "home"},
    "execute_trajectory": {"points": POINTS},
    "follow_joint_trajectory": {"points": POINTS},
    "gripper": {"command": "close"},
}
FENCE = {
    "floors": {
        "flat": {
            "keep_in": {"flat": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]},
            "keep_out": {"stairs": [[5.0, 3.0], [7.0, 3.0], [7.0, 3.4], [5.0, 3.4]]},
        }
    },
    "margin_m": 0.2,
}


@functools.cache
def _template() -> RobotConfig:
    text = TEMPLATE.read_text(encoding="utf-8").replace("enabled: false", "enabled: true")
    return parse_config(text, str(TEMPLATE))


def demo_config(**safety: Any) -> RobotConfig:
    """The template's robot with every skill on and this ``safety`` section."""
    return _template().model_copy(update={"safety": SafetySection.model_validate(safety)})


@dataclass
class Judge:
    """Skills and their limits, for goals that a test changes before they are judged."""

    config: RobotConfig
    at: Situation = field(default_factory=lambda: Situation(Pose2D(3.0, 4.0, 0.0)))

    def __post_init__(self) -> None:
        geofence = self.config.safety.geofence
        self.builder = LimitBuilder(self.config, None if geofence is None else Fence(geofence))
        self.skills: dict[str, Skill] = build_skills(self.config, lambda: self.at.here)

    def goal(self, skill: str, **arguments: Any) -> dict[str, Any]:
        chosen = self.skills[skill]
        given = arguments or GOOD[skill]
        return copy.deepcopy(chosen.goal(parse_arguments(chosen.arguments, given)).fields)

    def limits(self, skill: str) -> LimitSet:
        return self.builder.build(skill, self.skills[skill].action_type, self.config.skills.get(skill))

    def broken(self, skill: str, fields: dict[str, Any]) -> list[str]:
        """Names of the limits that the goal breaks."""
        section = self.config.skills.get(skill)
        found = list(check_any_goal(fields, self.builder.frames(), self.builder.trees(skill, section)))
        try:
            self.limits(skill).check(fields, self.at)
        except LimitViolation as error:
            found += error.violations
        return [one.limit for one in found]


@pytest.fixture
def judge() -> Judge:
    return Judge(demo_config(geofence=FENCE))
