"""The Robot Context Protocol in the node: what it reads, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.errors import ArgumentError, ConfigError, TaskError
from robot_mcp_kit.exposure import check_exposure
from robot_mcp_kit.node.settings import RCP_TOKEN_VARIABLE, NodeSettings
from robot_mcp_kit.rcp.bridged import BridgeAdapter
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.ros.readings import RosReadings
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.ros.signals import RosSignals
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.rcp import RcpSection, effective_rcp
from robot_mcp_kit.tasks import TaskManager


@dataclass(frozen=True, slots=True)
class NodeRcp:
    """What is there before the bridge is."""

    section: RcpSection
    readings: RosReadings
    actions: bool
    """The file has an ``rcp`` section: somebody has chosen to offer the protocol's actions."""

    async def robot(self, config: RobotConfig, bridge: Bridge, manager: TaskManager) -> BridgedRobot:
        """The robot for clients, connected."""
        adapter = BridgeAdapter(config, self.section, bridge, manager, self.readings)
        robot = BridgedRobot(adapter, bridge.guard, manager)
        await robot.connect()
        return robot


def make_rcp(
    ros: RosSide, config: RobotConfig, skills: Mapping[str, Skill], signals: RosSignals
) -> NodeRcp | None:
    """Readers of joints, tool and description; ``None`` where nothing is to be told. On the rclpy thread.

    Raises:
        ConfigError: a program's arguments are wrong, or tf2_ros is not installed.
    """
    section = effective_rcp(config.rcp, config.arms)
    if section is None:
        return None
    for name, program in section.programs.items():
        skill = skills[program.skill]
        try:
            skill.goal(parse_arguments(skill.arguments, program.arguments))
        except ArgumentError as error:
            where = ("rcp", "programs", name, "arguments")
            raise ConfigError(config.complaint(where, f"{error.field}: {error.message}")) from error
        except TaskError:  # right, but not now: where the robot is, is not known yet
            continue
    readings = RosReadings(ros.node, ros.thread, section, signals)
    return NodeRcp(section, readings, actions=config.rcp is not None)


def check_rcp_server(settings: NodeSettings, rcp: NodeRcp | None) -> None:
    """What can be judged of the protocol's own server before it starts.

    Raises:
        ConfigError: it is asked for, and there is nothing to serve, its library is missing, or everybody
            on the network could drive the robot.
    """
    if not settings.rcp_server:
        return
    if rcp is None:
        raise ConfigError(
            "parameter rcp_server: the skills file has neither an rcp section nor arms, so there is nothing "
            "to serve; add `rcp: {}`"
        )
    try:
        import_module("websockets")
    except ImportError as error:
        raise ConfigError(
            f"parameter rcp_server: needs the Python package websockets ({error}); "
            "pip install 'robot-mcp-kit[rcp]', or set it to false"
        ) from error
    try:
        check_exposure(settings.rcp_host, settings.rcp_token, RCP_TOKEN_VARIABLE)
    except ConfigError as error:
        raise ConfigError(f"parameter rcp_{error}") from error
