"""A robot with a base, an arm and a gripper behind the proMCP profiles, in one process. No ROS.

The base's action servers believe what they are told, as the desk's do; the world is what was measured.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import jsonschema
from mcp import Client

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import Ledger, MemoryLedger
from robot_mcp_kit.journal import TaskJournal
from robot_mcp_kit.promcp.hints import parse_hint
from robot_mcp_kit.promcp.schemas import flat_tool
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Approver
from robot_mcp_kit.server.promcp.profiles import build_profiles
from robot_mcp_kit.server.promcp.surface import ProMcpSurface
from robot_mcp_kit.skills.base import GoalStatus, Pose2D
from robot_mcp_kit.skills.config import RobotConfig, parse_config
from robot_mcp_kit.skills.geometry import Quaternion, quaternion_to_yaw
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from robot_mcp_kit.skills.world import BatteryReading, RobotPose, WorldSnapshot, utc_now
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster, held
from robot_mcp_kit.testing.clock import FakeClock
from robot_mcp_kit.testing.desk import DESK_CONFIG, Desk, _DeskPort
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedGoal, ScriptedPorts

BASE_SKILLS = """
skills:
  navigate_to:
    action: navigate_to_pose
    type: nav2_msgs/action/NavigateToPose
    goal_tolerance_m: 0.2
    yaw_tolerance_rad: 0.2
    limits: {x_m: [-1.0, 12.0], y_m: [-1.0, 8.0]}
  spin:
    action: spin
    type: nav2_msgs/action/Spin
  dock:
    action: dock_robot
    type: nav2_msgs/action/DockRobot
    docks: {home_dock: {description: At the wall.}}
    default_dock: home_dock
"""
REST = """
places:
  kitchen: {x_m: 10.0, y_m: 6.5, yaw_rad: 1.5708, description: At the counter.}
promcp:
  profiles:
    observe:
      description: For looking only.
      reads: [robot_pose, battery_charge, visible_objects, gripper_state, arm_joints, motion_progress]
    move:
      description: For driving.
      skills: [navigate_to, spin, dock]
      reads: [robot_pose, battery_charge, motion_progress]
    manipulate:
      description: For the arm and the gripper.
      skills: [pick, place, move_arm, gripper]
      reads: [visible_objects, gripper_state]
    tidy:
      description: For the arm alone.
      skills: [home, handover]
      reads: [arm_joints]
"""
CONFIG = (
    DESK_CONFIG.replace("skills:\n", BASE_SKILLS.lstrip(), 1).replace(
        "  perception: {}\n", "  perception: {}\n  battery: {low_percent: 20.0}\n"
    )
    + REST
)
PROFILES = ("observe", "move", "manipulate", "tidy")


class Flat(Desk):
    """The desk, with a base that drives and a battery."""

    def __init__(self, seed: int = 0, *, slips: float = 0.0) -> None:
        super().__init__(seed, slips=slips)
        self.navigate = _BasePort(self, "/navigate_to_pose", "nav2_msgs/action/NavigateToPose")
        self.turn = _BasePort(self, "/spin", "nav2_msgs/action/Spin")
        self.dock = _BasePort(self, "/dock_robot", "nav2_msgs/action/DockRobot")
        self.base = (self.navigate, self.turn, self.dock)
        self.ports = ScriptedPorts(self.arm, self.gripper, *self.base)
        self.at = Pose2D(0.0, 0.0, 0.0)
        self.charge_percent = 71.5
        self.silent: set[str] = set()
        """Parts of the world that no sensor tells."""
        self.changes: dict[str, Any] = {}
        """Instead of what is measured."""
        self.fails_half_way = False

    def where(self) -> Pose2D:
        return self.at

    @property
    def goals(self) -> list[ScriptedGoal]:
        """Every goal that was sent, to any server."""
        return [goal for port in self.ports.ports for goal in port.goals]

    @property
    def requests(self) -> int:
        return sum(len(port.wire) for port in self.ports.ports)

    def snapshot(self) -> WorldSnapshot:
        now = utc_now()
        pose = RobotPose(
            x_m=self.at.x_m, y_m=self.at.y_m, yaw_rad=self.at.yaw_rad, frame="map", measured_at=now
        )
        battery = BatteryReading(charge_percent=self.charge_percent, measured_at=now)
        known = super().snapshot().model_copy(update={"robot": pose, "battery": battery, **self.changes})
        hidden: dict[str, Any] = dict.fromkeys(self.silent)
        if "objects" in hidden:
            hidden["looked_at"] = None
        return known.model_copy(update=hidden)

    def close_gates(self) -> None:
        """Goals are accepted and wait."""
        for port in self.ports.ports:
            port.gate.clear()

    def open_gates(self) -> None:
        for port in self.ports.ports:
            port.gate.set()


class _BasePort(_DeskPort):
    def _do(self, goal: ScriptedGoal) -> None:
        flat: Any = self._desk
        flat.motions += 1
        if flat.fails_half_way:
            flat.at = Pose2D(1.0, 0.5, 0.1)
            goal.finish(GoalStatus.ABORTED)
            return
        fields = goal.fields
        if self is flat.navigate:
            pose = fields["pose"]["pose"]
            q = pose["orientation"]
            yaw = quaternion_to_yaw(Quaternion(q["x"], q["y"], q["z"], q["w"]))
            flat.at = Pose2D(pose["position"]["x"] + 0.01, pose["position"]["y"], yaw)
        elif self is flat.turn:
            turned = flat.at.yaw_rad + fields["target_yaw"]
            flat.at = Pose2D(flat.at.x_m, flat.at.y_m, math.remainder(turned, math.tau))
        else:
            flat.at = Pose2D(-0.5, 3.0, 0.0)
        result = SimpleNamespace(error_code=0, error_msg="", success=True, num_retries=0)
        goal.finish(GoalStatus.SUCCEEDED, result)


@dataclass
class Rig:
    """Everything of one test."""

    flat: Flat
    bridge: Bridge
    manager: TaskManager
    surface: ProMcpSurface
    config: RobotConfig
    guard: Guard
    clock: FakeClock
    clients: dict[str, Client] = field(default_factory=dict)
    _schemas: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def call(self, profile: str, tool: str, **arguments: Any) -> Any:
        """Every answer of every test is held to the schema that its tool declares (P6)."""
        result = await self.clients[profile].call_tool(tool, arguments)
        if profile not in self._schemas:
            self._schemas[profile] = {t["name"]: t["responseSchema"] for t in await self.tools(profile)}
        jsonschema.validate(result.structured_content, self._schemas[profile][tool])
        return result

    async def data(self, profile: str, tool: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self.call(profile, tool, **arguments)).structured_content
        return found

    async def can_do(self, profile: str, *tags: str, **intent: Any) -> dict[str, Any]:
        return await self.data(profile, "can_do", intent={"semantic_tags": list(tags), **intent})

    async def tools(self, profile: str) -> list[dict[str, Any]]:
        """As tools/list told a real client, in proMCP's own form."""
        listed = (await self.clients[profile].list_tools()).tools
        return [flat_tool(t.model_dump(mode="json", by_alias=True, exclude_none=True)) for t in listed]

    async def schema(self, profile: str, tool: str) -> dict[str, Any]:
        """What a tool declares that it answers."""
        found: dict[str, Any] = next(t for t in await self.tools(profile) if t["name"] == tool)[
            "responseSchema"
        ]
        return found

    async def undo(self, profile: str, hint: str, key: str = "undo") -> dict[str, Any]:
        """Execute a compensation hint as an orchestrator would."""
        tool, arguments = parse_hint(hint)
        return await self.data(profile, tool, **arguments, idempotency_key=key)


@asynccontextmanager
async def rigged(
    text: str = CONFIG,
    *,
    flat: Flat | None = None,
    approve: bool = True,
    ledger: Ledger | None = None,
    guard_with: dict[str, Any] | None = None,
    connect: bool = True,
    mode: str = "auto",
    **more: Any,
) -> AsyncIterator[Rig]:
    clock = FakeClock(1000.0)
    flat = flat if flat is not None else Flat()
    config = parse_config(text)
    skills, routines = build_skills(config, flat.where), build_routines(config)
    guard = open_guard(config, skills, clock, approve=approve, **(guard_with or {}))
    journal = ledger if isinstance(ledger, TaskJournal) else None
    manager = TaskManager("robot", CollectingPoster(), journal=journal)
    bridge = Bridge(
        manager,
        flat.ports,
        config,
        guard=guard,
        skills=skills,
        routines=routines,
        world=flat,
        ledger=ledger if ledger is not None else MemoryLedger(),
    )
    await bridge.adopt()
    profiles = build_profiles(config, bridge.skills)
    surface = ProMcpSurface(bridge, manager, config, profiles, name="robot", **more)
    rig = Rig(flat, bridge, manager, surface, config, guard, clock)
    connecting = held(_all_connected(rig, mode)) if connect else nullcontext()
    try:
        async with connecting:
            try:
                yield rig
            finally:
                flat.open_gates()
    finally:
        await manager.aclose()
        await surface.aclose()
        await bridge.aclose()


@asynccontextmanager
async def _all_connected(rig: Rig, mode: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for profile, server in rig.surface.servers.items():
            rig.clients[profile] = await stack.enter_async_context(Client(server, mode=mode))
        yield


def entry_of(report: dict[str, Any], tool: str = "do_navigate_to") -> dict[str, Any]:
    """The entry of a tool, wherever it is."""
    (found, *same) = [e for e in (*report["candidates"], *report["blocked"]) if e["capability"] == tool]
    assert all(entry["permission"] == found["permission"] for entry in same)
    return dict(found)


def seconds_until(entry: dict[str, Any]) -> float:
    """Seconds that an answer holds from now."""
    return (datetime.fromisoformat(entry["valid_until"]) - datetime.now(UTC)).total_seconds()


def a_person() -> Approver:
    """Whoever may approve and reset."""
    return Approver("a person", "operator")
