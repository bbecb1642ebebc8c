"""From configuration to skills. A new kind of skill adds one line here and one in :mod:`.config`."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.arm.gripper import Gripper
from robot_mcp_kit.skills.arm.move_arm import MoveArm
from robot_mcp_kit.skills.arm.trajectories import ExecuteTrajectory, FollowJointTrajectory
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import SECTIONS, RobotConfig
from robot_mcp_kit.skills.config.generic import GenericSection
from robot_mcp_kit.skills.config.signals import SET_OUTPUT_TYPE
from robot_mcp_kit.skills.generic.action import GenericFaults, GenericSkill
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.goal_schema import GoalSchema
from robot_mcp_kit.skills.nav2.behaviors import BackUp, DriveOnHeading, Spin, Wait
from robot_mcp_kit.skills.nav2.docking import Dock, Undock
from robot_mcp_kit.skills.nav2.navigation import NavigateTo
from robot_mcp_kit.skills.nav2.through_poses import NavigateThrough
from robot_mcp_kit.skills.nav2.waypoints import FollowWaypoints
from robot_mcp_kit.skills.signals import SetOutput

BUILDERS: dict[str, Any] = {
    "nav2_msgs/action/NavigateToPose": NavigateTo,
    "nav2_msgs/action/NavigateThroughPoses": NavigateThrough,
    "nav2_msgs/action/FollowWaypoints": FollowWaypoints,
    "nav2_msgs/action/Spin": Spin,
    "nav2_msgs/action/BackUp": BackUp,
    "nav2_msgs/action/DriveOnHeading": DriveOnHeading,
    "nav2_msgs/action/Wait": Wait,
    "nav2_msgs/action/DockRobot": Dock,
    "nav2_msgs/action/UndockRobot": Undock,
    "moveit_msgs/action/MoveGroup": MoveArm,
    "moveit_msgs/action/ExecuteTrajectory": ExecuteTrajectory,
    "control_msgs/action/FollowJointTrajectory": FollowJointTrajectory,
    "control_msgs/action/GripperCommand": Gripper,
    "control_msgs/action/ParallelGripperCommand": Gripper,
    SET_OUTPUT_TYPE: SetOutput,
}
"""Which class serves an action type: ``cls(name, section, config, where)``, with the section of that type."""


def build_skills(
    config: RobotConfig, where: WhereIsRobot | None = None, types: GoalSchema | None = None
) -> dict[str, Skill]:
    """The enabled skills by tool name, in the order of the file.

    Args:
        config: the checked file.
        where: where the robot is now in the map frame; without it, duration and heading are not guessed.
        types: what the installed action types look like; needed for those that have no skill of their own.

    Raises:
        ConfigError: entries that do not fit their action type, all of them, with file, line and key.
    """
    skills: dict[str, Skill] = {}
    complaints: list[str] = []
    for name, section in config.skills.items():
        if not section.enabled:
            continue
        if isinstance(section, GenericSection):
            try:
                skills[name] = _generic(name, section, config, types)
            except GenericFaults as error:
                complaints += [config.complaint(path, message) for path, message in error.faults]
            continue
        if not isinstance(section, SECTIONS[section.type]):
            raise TypeError(f"skills.{name}: built from {type(section).__name__}")
        skills[name] = BUILDERS[section.type](name, section, config, where)
    if complaints:
        raise ConfigError("\n".join(complaints))
    return skills


def _generic(name: str, section: GenericSection, config: RobotConfig, types: GoalSchema | None) -> Skill:
    if types is None:
        known = ", ".join(BUILDERS)
        message = f"{section.type} needs ROS 2 to be looked at; known without it: {known}"
        raise GenericFaults([(("skills", name, "type"), message)])
    robot = config.robot
    return GenericSkill(name, section, types, frames=tuple(robot.goal_frames), map_frame=robot.map_frame)
