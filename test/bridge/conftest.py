"""A bridge over a scripted server, with a clock that only moves when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import Ledger, MemoryLedger
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskEvent, TaskInfo
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.geometry import yaw_to_quaternion
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing.clock import FakeClock, settle
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedGoal, ScriptedPort, ScriptedPorts

__all__ = ["Rig", "make_rig", "nav_feedback", "nav_result", "settle", "take_down"]

CONFIG = """
skills:
  navigate_to:
    action: navigate_to_pose
    type: nav2_msgs/action/NavigateToPose
    policy: {policy}
    result_timeout_s: {result_timeout_s}
    limits: {{x_m: [0.0, 12.0], y_m: [0.0, 8.0]}}
places:
  kitchen: {{x_m: 10.0, y_m: 6.5, yaw_rad: 1.5708}}
zones:
  kitchen: {{polygon_m: [[6.0, 5.0], [12.0, 5.0], [12.0, 8.0], [6.0, 8.0]]}}
"""


def nav_feedback(
    time_s: float, distance_m: float, eta_s: float = 0.0, *, recoveries: int = 0, x_m: float = 0.0
) -> Any:
    q = yaw_to_quaternion(1.5708)
    return SimpleNamespace(
        current_pose=SimpleNamespace(
            header=SimpleNamespace(frame_id="map"),
            pose=SimpleNamespace(
                position=SimpleNamespace(x=x_m, y=6.5, z=0.0),
                orientation=SimpleNamespace(x=q.x, y=q.y, z=q.z, w=q.w),
            ),
        ),
        navigation_time=SimpleNamespace(sec=int(time_s), nanosec=round(time_s % 1 * 1e9)),
        estimated_time_remaining=SimpleNamespace(sec=int(eta_s), nanosec=round(eta_s % 1 * 1e9)),
        number_of_recoveries=recoveries,
        distance_remaining=distance_m,
    )


def nav_result(error_code: int = 0, error_msg: str = "") -> Any:
    return SimpleNamespace(error_code=error_code, error_msg=error_msg)


@dataclass
class Rig:
    """Everything of one test."""

    clock: FakeClock
    port: ScriptedPort
    ports: ScriptedPorts
    manager: TaskManager
    poster: EventPoster
    bridge: Bridge
    ledger: Ledger
    events: list[TaskEvent] = field(default_factory=list)

    async def start(self, **more: Any) -> TaskInfo:
        return await self.bridge.start("navigate_to", {"place": "kitchen"}, **more)

    async def accepted(self, **more: Any) -> tuple[str, ScriptedGoal]:
        """A task whose goal was accepted and runs."""
        count = len(self.port.goals)
        info = await self.start(**more)
        goal = await self.port.next_goal(count + 1)
        await settle()
        return info.task_id, goal

    def run(self, task_id: str) -> Any:
        return self.bridge._runs[task_id]

    def info(self, task_id: str) -> TaskInfo:
        info = self.manager.get(task_id)
        assert info is not None
        return info

    def code(self, task_id: str) -> str | None:
        failure = self.info(task_id).failure
        return None if failure is None else failure.error_code

    def payloads(self, kind: str, task_id: str | None = None) -> list[dict[str, Any]]:
        return [e.payload for e in self.events if e.type == kind and task_id in (None, e.task_id)]


def make_rig(
    *,
    policy: str = "replace",
    result_timeout_s: str = "null",
    ledger: Ledger | None = None,
    **more: Any,
) -> Rig:
    clock = FakeClock(1000.0)
    port = ScriptedPort(clock=clock)
    ports = ScriptedPorts(port)
    poster = EventPoster("robot")
    manager = TaskManager("robot", poster, clock=clock, new_suffix=more.pop("new_suffix", None))
    config = parse_config(CONFIG.format(policy=policy, result_timeout_s=result_timeout_s))
    book = ledger if ledger is not None else MemoryLedger()
    skills = more.pop("skills", None) or build_skills(config, more.pop("where", None))
    approve = more.pop("approve", True)
    guard = more.pop("guard", None) or open_guard(
        config, skills, clock, approve=approve, also=("turn", "wave")
    )
    bridge = Bridge(manager, ports, config, guard=guard, skills=skills, ledger=book, clock=clock, **more)
    rig = Rig(clock, port, ports, manager, poster, bridge, book)
    manager.add_listener(rig.events.append)
    return rig


async def take_down(rig: Rig) -> None:
    closing = asyncio.ensure_future(rig.manager.aclose())
    while not closing.done():
        await rig.clock.advance(1.0)
    await rig.bridge.aclose()
    await rig.poster.aclose()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = make_rig()
    yield made
    await take_down(made)
