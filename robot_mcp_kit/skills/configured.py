"""A skill that is one entry of the skills file."""

from __future__ import annotations

from typing import Generic, TypeVar

from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.types import SkillSection
from robot_mcp_kit.skills.tool_names import ToolNames

SectionT = TypeVar("SectionT", bound=SkillSection)


class ConfiguredSkill(Skill, Generic[SectionT]):
    """Takes its name and its action from its entry.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: for the names of the other tools.
    """

    def __init__(self, name: str, section: SectionT, config: RobotConfig) -> None:
        self.name = name
        self.action_name = section.action
        self.action_type = section.type
        self._section = section
        self._tools = ToolNames(config)
