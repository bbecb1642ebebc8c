"""From configuration to skills. A new kind of skill adds one line here and one in :mod:`.config`."""

from __future__ import annotations

from collections.abc import Callable

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import NavigateSection, RobotConfig, SkillSection
from robot_mcp_kit.skills.navigation import NavigateTo, WhereIsRobot

Builder = Callable[[str, SkillSection, RobotConfig, WhereIsRobot | None], Skill]


def _navigate(name: str, section: SkillSection, config: RobotConfig, where: WhereIsRobot | None) -> Skill:
    if not isinstance(section, NavigateSection):
        raise TypeError(f"skills.{name}: built from {type(section).__name__}")
    return NavigateTo(name, section, config, where)


BUILDERS: dict[str, Builder] = {"nav2_msgs/action/NavigateToPose": _navigate}
"""Which class serves an action type."""


def build_skills(config: RobotConfig, where: WhereIsRobot | None = None) -> dict[str, Skill]:
    """The enabled skills by tool name, in the order of the file.

    Args:
        config: the checked file.
        where: where the robot is now in the map frame; without it, duration and heading are not guessed.

    Raises:
        ConfigError: an action type no skill exists for.
    """
    skills: dict[str, Skill] = {}
    for name, section in config.skills.items():
        if not section.enabled:
            continue
        build = BUILDERS.get(section.type)
        if build is None:
            known = ", ".join(BUILDERS)
            raise ConfigError(f"skills.{name}.type: no skill for {section.type}; known: {known}")
        skills[name] = build(name, section, config, where)
    return skills
