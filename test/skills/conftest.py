"""The demo robot's skills, all of them, and a robot that is where the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import GoalSpec, Outcome, Pose2D, Sample, Skill
from robot_mcp_kit.skills.config import RobotConfig, parse_config
from robot_mcp_kit.skills.registry import build_skills

TEMPLATE = Path(__file__).parents[2] / "config" / "skills.yaml"


@pytest.fixture(scope="session")
def config() -> RobotConfig:
    """The template's robot with every skill switched on."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("enabled: false", "enabled: true")
    return parse_config(text, str(TEMPLATE))


@dataclass
class Robot:
    """Skills of one robot, whose position can be set."""

    config: RobotConfig
    at: Pose2D | None = None
    skills: dict[str, Skill] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.skills = build_skills(self.config, lambda: self.at)

    def goal(self, skill: str, **arguments: Any) -> GoalSpec:
        chosen = self.skills[skill]
        return chosen.goal(parse_arguments(chosen.arguments, arguments))

    def refusal(self, skill: str, **arguments: Any) -> ArgumentError:
        with pytest.raises(ArgumentError) as caught:
            self.goal(skill, **arguments)
        return caught.value

    def read(self, skill: str, messages: list[Any], *, period_s: float = 1.0, **arguments: Any) -> list[Any]:
        """Samples of a series of feedback messages, one a period."""
        reader = self.skills[skill].reader(self.goal(skill, **arguments))
        return [reader.read(message, 100.0 + index * period_s) for index, message in enumerate(messages)]

    def end(
        self, skill: str, status: int, result: Any, *, last: Sample | None = None, **arguments: Any
    ) -> Outcome:
        return self.skills[skill].outcome(status, result, self.goal(skill, **arguments), last)


@pytest.fixture
def robot(config: RobotConfig) -> Robot:
    return Robot(config)


@pytest.fixture
def robot_of() -> Callable[[str], Robot]:
    """A robot from YAML text."""
    return lambda text: Robot(parse_config(text))
