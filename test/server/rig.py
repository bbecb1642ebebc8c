"""A bridge over a scripted server behind the MCP endpoint, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mcp import Client
from mcp.server import MCPServer

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import MemoryLedger
from robot_mcp_kit.server.app import build_mcp_server
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.config import RobotConfig, parse_config
from robot_mcp_kit.skills.geometry import yaw_to_quaternion
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster, held
from robot_mcp_kit.testing.clock import FakeClock
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedGoal, ScriptedPort, ScriptedPorts

CONFIG = """
skills:
  navigate_to:
    action: navigate_to_pose
    type: nav2_msgs/action/NavigateToPose
    limits: {x_m: [0.0, 12.0], y_m: [0.0, 8.0]}
places:
  kitchen: {x_m: 10.0, y_m: 6.5, yaw_rad: 1.5708, description: At the counter.}
zones:
  kitchen: {polygon_m: [[6.0, 5.0], [12.0, 5.0], [12.0, 8.0], [6.0, 8.0]]}
"""


def nav_feedback(distance_m: float, *, time_s: float = 1.0, x_m: float = 10.0, eta_s: float = 5.0) -> Any:
    q = yaw_to_quaternion(1.5708)
    return SimpleNamespace(
        current_pose=SimpleNamespace(
            header=SimpleNamespace(frame_id="map"),
            pose=SimpleNamespace(
                position=SimpleNamespace(x=x_m, y=6.5, z=0.0),
                orientation=SimpleNamespace(x=q.x, y=q.y, z=q.z, w=q.w),
            ),
        ),
        navigation_time=SimpleNamespace(sec=int(time_s), nanosec=0),
        estimated_time_remaining=SimpleNamespace(sec=int(eta_s), nanosec=0),
        number_of_recoveries=0,
        distance_remaining=distance_m,
    )


@dataclass
class ServerRig:
    """Everything of one test."""

    server: MCPServer
    bridge: Bridge
    manager: TaskManager
    handles: Handles
    port: ScriptedPort
    config: RobotConfig
    clock: FakeClock

    async def arrive(self, goal: ScriptedGoal) -> None:
        """The robot reaches its goal, and says so."""
        goal.feedback(nav_feedback(0.0))
        goal.finish(GoalStatus.SUCCEEDED)

    async def ended(self, task_id: str) -> None:
        await self.manager.wait(task_id)


async def make_rig(*, ledger: MemoryLedger | None = None, key: bytes | None = None, **more: Any) -> ServerRig:
    clock = FakeClock(1000.0)
    port = ScriptedPort()
    manager = TaskManager("robot", CollectingPoster(), wall_clock=clock.wall)
    config = parse_config(CONFIG)
    skills = build_skills(config)
    book = ledger if ledger is not None else MemoryLedger()
    bridge = Bridge(
        manager, ScriptedPorts(port), config, guard=open_guard(config, skills), skills=skills, ledger=book
    )
    handles = Handles(manager, saved=book.saved_task, key=key, wall_clock=clock.wall, **more)
    server = build_mcp_server(bridge, manager, name="robot", handles=handles, config=config)
    return ServerRig(server, bridge, manager, handles, port, config, clock)


async def take_down(rig: ServerRig) -> None:
    await rig.manager.aclose()
    await rig.bridge.aclose()


@asynccontextmanager
async def rigged(**more: Any) -> AsyncIterator[ServerRig]:
    rig = await make_rig(**more)
    try:
        yield rig
    finally:
        await take_down(rig)


def connected(rig: ServerRig, mode: str = "auto", **more: Any) -> AbstractAsyncContextManager[Client]:
    """The official client in memory."""
    return held(Client(rig.server, mode=mode, **more))
