"""A real action server is replaced while it works on a goal, and no gap shows: its task ends all the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import MemoryLedger
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing.open_guard import open_guard

pytestmark = pytest.mark.ros
BOUND_S = 30.0
TYPE = "test_msgs/action/Fibonacci"
LEASE = dict.fromkeys(
    ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"),  # the second on Jazzy
    str(Path(__file__).parents[2] / "config" / "fastdds_lease.xml"),
)
SKILLS = """
skills:
  go:
    action: /replaced
    type: test_msgs/action/Fibonacci
    description: Moves.
    fields: {order: {min: 0, max: 1000}}
    feedback_timeout_s: 0
"""


class Side:
    """A bridge over real rclpy, in the test's own process."""

    def __init__(self, ros_side: Any, port: Any) -> None:
        from robot_mcp_kit.ros.schema import RosGoalSchema

        self.port = port
        config = parse_config(SKILLS)
        skills = build_skills(config, None, RosGoalSchema())
        self.poster = EventPoster("robot")
        self.manager = TaskManager("robot", self.poster)
        guard = open_guard(config, skills)
        self.bridge = Bridge(
            self.manager, ros_side.ports, config, guard=guard, skills=skills, ledger=MemoryLedger()
        )

    async def begin(self, server: Any) -> str:
        """A task whose goal that server works on, and whose result was asked for."""
        info = await self.bridge.start("go", {"order": 3})
        await server.wait("goal")
        await until(lambda: self.port._result.client._pending_requests)
        return info.task_id

    def info(self, task_id: str) -> TaskInfo:
        info = self.manager.get(task_id)
        assert info is not None
        return info

    async def close(self) -> None:
        await self.manager.aclose()
        await self.bridge.aclose()
        await self.poster.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def side(ros_side: Any) -> AsyncIterator[Side]:
    made = Side(ros_side, await ros_side.ports.create("/replaced", TYPE))
    yield made
    await made.close()


async def test_a_server_made_anew_in_its_node_ends_the_task(side: Side, start_server: Any) -> None:
    """B26, E40: faster than anybody looks."""
    server = start_server("/replaced")
    assert await side.port.wait_for_server(BOUND_S)
    task_id = await side.begin(server)
    server.tell(do="bounce")
    await server.wait("bounced")
    await until(lambda: side.info(task_id).state != "running")
    failure = side.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_RESULT_EXPIRED"
    assert side.bridge.running() == []


@pytest.mark.skipif(
    os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") != "rmw_fastrtps_cpp",
    reason="the lease is a file for Fast DDS",
)
async def test_the_answer_of_a_second_server_counts_once_a_killed_one_is_out_of_sight(
    side: Side, start_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """B26, B23, E40: as after a respawn within the lease, there is no moment without a server; a stop is told
    as not confirmed.
    """
    server = start_server("/replaced", env=LEASE)
    assert await side.port.wait_for_server(BOUND_S)
    first = side.port.servers().keys()
    task_id = await side.begin(server)
    start_server("/replaced")
    await until(lambda: "one server of /replaced does not know goal" in caplog.text)
    assert side.info(task_id).state == "running", "the other one works on it"
    server.kill()
    await side.bridge.stop("that is enough")
    await until(lambda: not side.bridge.running())
    assert not side.port.servers().keys() & first
    assert "does not know the goal (cancel code 2)" in caplog.text
    progress = side.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert progress["goal_status"] == "UNKNOWN"
