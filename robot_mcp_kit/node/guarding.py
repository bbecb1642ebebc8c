"""The guard of one node: its state directory, its readers, its place between bridge and robot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from robot_mcp_kit.clock import SystemClock
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.conditions import DescriptionReader, FloorReader, interlock_reader
from robot_mcp_kit.ros.pose import PoseReader
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.safety.assemble import GuardParts, build_guard, operator_key
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Reader
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import InterlockSection


@dataclass(slots=True)
class NodeGuard:
    """The guard and what only the node knows of it."""

    guard: Guard
    state_dir: Path
    operator_key: SecretStr
    _extras: list[FloorReader | DescriptionReader] = field(default_factory=list)

    def release(self) -> None:
        """On the rclpy thread. Harmless when repeated."""
        for extra in self._extras:
            extra.close()
        self.guard.release()


def make_guard(
    ros: RosSide,
    config: RobotConfig,
    skills: dict[str, Skill],
    where: PoseReader,
    state_dir: Path,
    secrets: Sequence[str],
) -> NodeGuard:
    """Readers, state directory and guard. On the rclpy thread.

    Args:
        secrets: texts that the audit trail must never show.

    Raises:
        ConfigError: the ``safety`` section, the state directory or the audit trail cannot be used.
        LookupError: a message type is not installed.
    """
    key = operator_key(state_dir)
    if key.get_secret_value() in secrets:
        raise ConfigError(
            "the operator's key is also the key of the clients, so a model could approve its own motions; "
            "choose another"
        )
    extras: list[FloorReader | DescriptionReader] = []
    readers: list[Reader] = []

    def reader_for(name: str, section: InterlockSection) -> Reader:
        readers.append(interlock_reader(ros.node, ros.thread, name, section))
        return readers[-1]

    fence, description = config.safety.geofence, None
    floor = None
    try:
        if fence is not None and fence.floor_from is not None:
            floor = FloorReader(ros.node, ros.thread, fence.floor_from)
            extras.append(floor)
        if config.safety.robot_description is not None:
            description = DescriptionReader(ros.node, ros.thread, config.safety.robot_description)
            extras.append(description)

        def situation() -> Situation:
            return Situation(
                here=where.pose(),
                floor=None if floor is None else floor.floor(),
                described_joints=None if description is None else description.joints,
                needs_description=description is not None,
            )

        parts = GuardParts(
            state_dir=state_dir,
            operator_key=key,
            situation=situation,
            reader_for=reader_for,
            clock=SystemClock(),
            wall=time.time,
            secrets=secrets,
        )
        return NodeGuard(build_guard(config, skills, parts), state_dir, key, extras)
    except BaseException:
        for made in (*extras, *readers):
            made.close()
        raise
