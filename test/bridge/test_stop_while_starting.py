"""A stop that comes while the node starts: it is meant for what an earlier bridge left running, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.testing.clock import settle

from .lives import Life, World

pytestmark = pytest.mark.ros
"""The session belongs to the node, which imports ROS; the robot and time are scripted."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.close()


async def _left_running(world: World) -> tuple[str, Any, Life]:
    """A goal whose bridge was killed, and the next bridge before it has looked into its ledger."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", {"place": "kitchen"})
    goal = await world.port.next_goal()
    await settle()
    assert life.info(info.task_id).state == "running"
    return info.task_id, goal, world.begin()


def _session(*, active: bool = True) -> Any:
    from robot_mcp_kit.node.session import Session

    return Session(SimpleNamespace(), SimpleNamespace(), on_end=lambda _: None, active=active)  # type: ignore[arg-type]


Ask = Callable[[Any], object]
ASKS: list[Any] = [
    pytest.param(lambda session: session.stop("the ~/stop service was called"), id="stop"),
    pytest.param(lambda session: session.deactivate(), id="deactivate"),
]


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("moment", ["before there is a bridge", "before the adoption", "right after it"])
async def test_a_stop_while_the_node_starts_reaches_the_goals_of_before(
    world: World, moment: str, ask: Ask
) -> None:
    """B22, B24, B37: exactly one cancel, and the task says that the robot stopped."""
    task_id, goal, life = await _left_running(world)
    session = _session()
    if moment == "before there is a bridge":
        ask(session)
    session.bridge = life.bridge
    if moment == "before the adoption":
        ask(session)
    assert await session._adopt(life.bridge) == [task_id]
    if moment == "right after it":
        ask(session)
    await settle()
    await world.pass_time(1.0)
    assert world.port.requests("cancel") == [goal.goal_id]
    info = life.info(task_id)
    assert info.state == "cancelled"
    assert (info.progress or {})["stop_confirmed"] is True
    assert life.bridge.running() == []


async def test_without_a_stop_the_goals_of_before_go_on(world: World) -> None:
    """B24."""
    task_id, _, life = await _left_running(world)
    session = _session()
    session.bridge = life.bridge
    await session._adopt(life.bridge)
    await world.pass_time(1.0)
    assert world.port.requests("cancel") == []
    assert life.info(task_id).state == "running"
    session.stop("enough")
    await settle()
    assert len(world.port.requests("cancel")) == 1


async def test_a_server_that_is_not_there_yet_gets_the_cancel_when_it_comes(world: World) -> None:
    """B22, B24: whether the robot's driver or the bridge is back first."""
    task_id, goal, life = await _left_running(world)
    world.port.die()
    session = _session()
    session.stop("the ~/stop service was called")
    session.bridge = life.bridge
    await session._adopt(life.bridge)
    await world.pass_time(1.0)
    world.port.come_back()
    await world.pass_time(2.0)
    assert goal.goal_id in world.port.requests("cancel")
    assert life.info(task_id).state == "cancelled"
