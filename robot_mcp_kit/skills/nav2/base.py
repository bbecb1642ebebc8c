"""What all skills that move the base have in common, and those that drive it to poses."""

from __future__ import annotations

from typing import TypeVar

from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.nav2 import DriveSection
from robot_mcp_kit.skills.configured import ConfiguredSkill, SectionT
from robot_mcp_kit.skills.goal_pose import PoseResolver, WhereIsRobot, nowhere
from robot_mcp_kit.skills.nav2.arrival import ArrivalCheck
from robot_mcp_kit.skills.nav2.conditions import out_of_the_dock

DriveT = TypeVar("DriveT", bound=DriveSection)


class BaseMotion(ConfiguredSkill[SectionT]):
    """Moves the robot's base.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: frames, places and the names of the other tools.
        where: where the robot is; ``None``: nobody reads that.
    """

    resources = frozenset({"base"})
    server_replaces = True

    def __init__(
        self, name: str, section: SectionT, config: RobotConfig, where: WhereIsRobot | None = None
    ) -> None:
        super().__init__(name, section, config)
        self._config = config
        self._where = where or nowhere


class PoseMotion(BaseMotion[DriveT]):
    """Drives the base to a pose, and measures at the end how near it came.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: frames, places and the names of the other tools.
        where: where the robot is, for ``max_distance_m``, headings nobody chose, a rough duration and the
            measure at the end.
    """

    def __init__(
        self, name: str, section: DriveT, config: RobotConfig, where: WhereIsRobot | None = None
    ) -> None:
        super().__init__(name, section, config, where)
        self._poses = PoseResolver(config, section.limits, self._where)
        self._arrival = ArrivalCheck(name, section.goal_tolerance_m, section.yaw_tolerance_rad, self._where)
        self.preconditions = out_of_the_dock(config)
