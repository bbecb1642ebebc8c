"""A bridge over scripted action servers with the adapter on top, and readings that a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.rcp.bridged import BridgeAdapter
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.skills.config import RobotConfig, load_config, parse_config
from robot_mcp_kit.skills.config.rcp import RcpSection
from robot_mcp_kit.skills.geometry import rpy_to_quaternion
from robot_mcp_kit.skills.readings import Description, JointFacts, NotKnown, RobotReadings, ToolPose
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedPort, ScriptedPorts

T = TypeVar("T")
TEMPLATE = Path(__file__).parents[2] / "config" / "skills.yaml"
HOME = {
    "shoulder_pan_joint": 0.0,
    "shoulder_lift_joint": -1.9,
    "elbow_joint": 2.4,
    "wrist_1_joint": 0.0,
    "wrist_2_joint": -0.5,
    "wrist_3_joint": 0.0,
}


@dataclass
class Readings(RobotReadings):
    """What the test says. A part that is ``None`` is not known."""

    positions: dict[str, float] | None = field(default_factory=lambda: {"finger": 0.02, **HOME})
    described: Description | None = field(
        default_factory=lambda: Description(
            "flat_robot", {name: JointFacts(False, -2.5, 2.5, 1.2) for name in HOME}
        )
    )
    pose: ToolPose | None = field(
        default_factory=lambda: ToolPose("base_link", (0.5, 0.1, 0.8), rpy_to_quaternion(0.0, 0.3, 0.0))
    )
    signals: dict[str, float] = field(
        default_factory=lambda: {"DI_dock_contact": 0.0, "AI_charge": 0.85, "DO_lamp": 1.0, "AO_fan": 0.25}
    )

    looks: int = 0
    """How often the tool was asked for."""

    def description(self) -> Description:
        return _known("robot_description", self.described)

    def joints(self) -> Mapping[str, float]:
        return _known("joint_states", self.positions)

    def tool(self) -> ToolPose:
        self.looks += 1
        return _known("tool_pose", self.pose)

    def signal(self, name: str) -> float:
        return _known(name, self.signals.get(name))


def _known(source: str, value: T | None) -> T:
    if value is None:
        raise NotKnown(f"nothing was heard on {source} yet")
    return value


@dataclass
class Rig:
    config: RobotConfig
    bridge: Bridge
    manager: TaskManager
    readings: Readings
    adapter: BridgeAdapter
    ports: dict[str, ScriptedPort]

    @property
    def sent(self) -> int:
        """Goals that left, of all actions."""
        return sum(len(port.goals) for port in self.ports.values())

    def robot(self) -> BridgedRobot:
        """For clients of the protocol."""
        return BridgedRobot(self.adapter, self.bridge.guard, self.manager)


@asynccontextmanager
async def rigged(text: str | None = None, *, approve: bool = True, **rcp: Any) -> AsyncIterator[Rig]:
    """Args:
    text: the skills file; the template by default.
    approve: a standing approval covers every skill.
    rcp: keys of the section that are other than in the file.
    """
    config = load_config(TEMPLATE) if text is None else parse_config(text)
    section = (config.rcp or RcpSection()).model_copy(update=rcp)
    skills = build_skills(config)
    ports = {
        skill.action_name: ScriptedPort(skill.action_name, skill.action_type) for skill in skills.values()
    }
    manager = TaskManager("robot", CollectingPoster())
    bridge = Bridge(
        manager,
        ScriptedPorts(*ports.values()),
        config,
        guard=open_guard(config, skills, approve=approve),
        skills=skills,
    )
    readings = Readings()
    adapter = BridgeAdapter(config, section, bridge, manager, readings)
    await adapter.connect({})
    try:
        yield Rig(config, bridge, manager, readings, adapter, ports)
    finally:
        await manager.aclose()
        await bridge.aclose()
        await bridge.guard.aclose()
