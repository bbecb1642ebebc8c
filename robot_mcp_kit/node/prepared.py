"""What a session needs, checked and made before anything runs."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.node.guarding import NodeGuard, make_guard
from robot_mcp_kit.node.rcp import NodeRcp, check_rcp_server, make_rcp
from robot_mcp_kit.node.settings import NodeSettings
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.ros.action_port import RosActionPorts
from robot_mcp_kit.ros.graph import RosActionGraph
from robot_mcp_kit.ros.pose import POSE_READERS, PoseReader
from robot_mcp_kit.ros.schema import RosGoalSchema
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.ros.signals import RosSignals, make_output_port
from robot_mcp_kit.ros.world import RosWorld
from robot_mcp_kit.safety.state_dir import state_directory
from robot_mcp_kit.server.handles import load_key
from robot_mcp_kit.server.listening import bind, check_exposure
from robot_mcp_kit.server.promcp.profiles import Profile, build_profiles
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig, load_config
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.discovery import ActionCatalog
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.sqlite_file import SqliteFile


@dataclass(frozen=True, slots=True)
class Memory:
    """What outlives the process: goals and tasks, and events that were not delivered, in one file."""

    file: SqliteFile
    ledger: SqliteLedger
    outbox: SqliteOutbox


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that can be refused, made before anything runs."""

    settings: NodeSettings
    config: RobotConfig
    skills: dict[str, Skill]
    ports: RosActionPorts
    where: PoseReader
    catalog: ActionCatalog | None
    """What the graph offers, where the skills file says ``discover: true``."""
    listener: socket.socket | None
    """The endpoint's socket; ``None`` with stdio."""
    guard: NodeGuard
    routines: dict[str, Routine]
    world: RosWorld
    signals: RosSignals
    rcp: NodeRcp | None
    profiles: list[Profile]
    """Of the proMCP surface; none without that section."""
    handle_key: bytes | None
    """Signs the handles; kept beside the ledger, so that they outlive the process where tasks do."""
    memory: Memory | None = None
    """``None``: nothing outlives the process."""

    def release(self) -> None:
        """Give the files, the socket and the ROS entities back. On the rclpy thread."""
        self.release_files()
        self.world.close()
        if self.rcp is not None:
            self.rcp.readings.close()
        self.signals.close()
        self.where.close()
        self.ports.close()

    def release_files(self) -> None:
        """Give the files and the socket back; all there is when ROS is gone."""
        self.guard.release()
        if self.memory is not None:
            self.memory.file.close()
        if self.listener is not None:
            self.listener.close()


def prepare(ros: RosSide, settings: NodeSettings) -> Prepared:
    """Check and create what a session needs. On the rclpy thread.

    Raises:
        ConfigError: the settings, the skills file, the ledger file, or the address cannot be used.
        LookupError: an action type is not installed.
    """
    check_exposure(settings.host, settings.token)
    config = load_config(settings.skills_file)
    listener = None if settings.stdio else bind(settings.host, settings.port)
    with contextlib.ExitStack() as undo:
        if listener is not None:
            undo.callback(listener.close)
        memory = _open_memory(settings, ros.node.get_fully_qualified_name())
        if memory is not None:
            undo.callback(memory.file.close)
        where = POSE_READERS[config.robot.pose.source](ros.node, ros.thread, config.robot)
        undo.callback(where.close)
        ports = RosActionPorts(ros.node, ros.thread)
        undo.callback(ports.close)
        types = RosGoalSchema()
        skills = build_skills(config, where.pose, types)
        routines = build_routines(config)
        world = RosWorld(ros.node, ros.thread, config, where)
        undo.callback(world.close)
        signals = RosSignals(ros.node, ros.thread, config.io)
        undo.callback(signals.close)
        for name, skill in skills.items():
            section = config.skills[name]
            if isinstance(section, SetOutputSection):
                ports.add_outputs(make_output_port(ros.node, ros.thread, config, signals, section))
            else:
                ports.add(skill.action_name, skill.action_type, skill.stop_topic)  # discovery begins now
        rcp = make_rcp(ros, config, {**skills, **routines}, signals)
        check_rcp_server(settings, rcp)
        if rcp is not None:
            undo.callback(rcp.readings.close)
        profiles = build_profiles(config, {**skills, **routines})
        name = ros.node.get_fully_qualified_name()
        secrets = [
            secret.get_secret_value()
            for secret in (
                settings.token,
                settings.observer_token,
                settings.approval_secret,
                settings.rcp_token,
            )
            if secret
        ]
        guard = make_guard(ros, config, skills, where, state_directory(settings.state_dir, name), secrets)
        undo.callback(guard.release)
        handle_key = None if settings.ledger_file is None else load_key(_key_file(settings.ledger_file))
        catalog = ActionCatalog(config, RosActionGraph(ros.node), types) if config.discover else None
        undo.pop_all()
    return Prepared(
        settings=settings,
        config=config,
        skills=skills,
        ports=ports,
        where=where,
        catalog=catalog,
        listener=listener,
        guard=guard,
        routines=routines,
        world=world,
        profiles=profiles,
        signals=signals,
        rcp=rcp,
        handle_key=handle_key,
        memory=memory,
    )


def _key_file(ledger_file: Path) -> Path:
    return ledger_file.with_name(f"{ledger_file.name}.handle-key")


def _open_memory(settings: NodeSettings, owner: str) -> Memory | None:
    if settings.ledger_file is None:
        return None
    try:
        file = SqliteFile(settings.ledger_file, sync=settings.ledger_sync, owner=owner)
        try:
            return Memory(file, SqliteLedger(file), SqliteOutbox(file))
        except BaseException:
            file.close()
            raise
    except ConfigError as error:
        raise ConfigError(f"parameter ledger_file: {error}") from error
    except sqlite3.Error as error:
        raise ConfigError(
            f"parameter ledger_file: {settings.ledger_file} cannot be read or written ({error}); see to its "
            "disk (room, rights, hardware), or name a file on another one"
        ) from error
