"""Goals that outlive their tasks: hunted until their end is known, told by every stop, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.bridge.base import GoalResult
from robot_mcp_kit.bridge.hunting import ARRIVAL_S, GIVE_UP_S
from robot_mcp_kit.bridge.states import RunState
from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.testing.clock import settle

from .conftest import Rig, nav_result
from .lives import World

KITCHEN = {"place": "kitchen"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


async def _lost(rig: Rig) -> tuple[str, Any]:
    """A task whose server is out of sight while its goal drives on."""
    task_id, goal = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(6.0)
    assert rig.code(task_id) == "ROS_SERVER_LOST"
    return task_id, goal


async def _stop(rig: Rig) -> Any:
    stopping = asyncio.ensure_future(rig.bridge.stop("enough"))
    await rig.clock.advance(6.0)
    return await stopping


@pytest.mark.parametrize("seconds", [10.0, 70.0, 1800.0])
async def test_a_goal_whose_server_was_out_of_sight_is_cancelled_whenever_it_is_back(
    rig: Rig, seconds: float
) -> None:
    """B26."""
    task_id, goal = await _lost(rig)
    await rig.clock.advance(seconds)
    rig.port.come_back(remembers=True)
    await settle()
    assert goal.result.result().status == GoalStatus.CANCELED
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.state is RunState.ENDED


async def test_the_cancel_of_a_hunted_goal_is_repeated_until_it_is_answered(rig: Rig) -> None:
    """B26: the first requests after a gap can be lost, and a server may refuse."""
    _, goal = await _lost(rig)
    rig.port.cancel_policy = "silent"
    rig.port.come_back(remembers=True)
    await rig.clock.advance(3.0)
    rig.port.cancel_policy = "reject"
    await rig.clock.advance(3.0)
    assert not goal.result.done()
    rig.port.cancel_policy = "stop"
    await rig.clock.advance(3.0)
    assert goal.result.result().status == GoalStatus.CANCELED
    asked = len(rig.port.requests("cancel"))
    await rig.clock.advance(60.0)
    assert len(rig.port.requests("cancel")) == asked, "and it is over then"


async def test_a_stop_tells_of_a_goal_that_outlived_its_task_and_asks_it(rig: Rig) -> None:
    """B22: never "nothing was running" while something may."""
    task_id, goal = await _lost(rig)
    report = await asyncio.wait_for(rig.bridge.stop("enough"), 10.0)  # waits for no answer that cannot come
    assert [(task.task_id, task.stop_confirmed) for task in report.tasks] == [(task_id, False)]
    assert not report.all_confirmed
    rig.port.cancel_policy = "reject"
    rig.port.come_back(remembers=True)
    await rig.clock.advance(1.0)
    asked, stops = len(rig.port.requests("cancel")), rig.port.stops
    rig.port.cancel_policy = "stop"
    stopping = asyncio.ensure_future(rig.bridge.stop("enough"))
    await settle()
    assert len(rig.port.requests("cancel")) == asked + 1
    assert rig.port.stops == stops + 1, "a stop stops by every means"
    report = await stopping
    assert report.all_confirmed
    assert [task.task_id for task in report.tasks] == [task_id]
    assert goal.result.result().status == GoalStatus.CANCELED
    assert (await _stop(rig)).tasks == []


async def test_an_emergency_stop_reaches_a_goal_that_outlived_its_task(rig: Rig) -> None:
    """R23."""
    await _lost(rig)
    rig.port.cancel_policy = "reject"
    rig.port.come_back(remembers=True)
    await rig.clock.advance(0.5)
    asked = len(rig.port.requests("cancel"))
    rig.bridge.guard.latch("hand in the cell", "op")
    await settle()
    assert len(rig.port.requests("cancel")) == asked + 1


async def test_a_server_that_has_forgotten_the_goal_ends_the_hunt_without_a_claim(rig: Rig) -> None:
    """B26, K94: it was made anew."""
    task_id, _ = await _lost(rig)
    rig.port.come_back()
    await rig.clock.advance(1.0)
    assert (await _stop(rig)).tasks == []
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.state is RunState.ENDED


async def test_a_server_that_never_comes_back_is_given_up_after_an_hour(rig: Rig) -> None:
    """B26: the robot was off, or is another one now."""
    task_id, _ = await _lost(rig)
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.state is not RunState.ENDED
    await rig.clock.advance(GIVE_UP_S + 10.0)
    assert (await _stop(rig)).tasks == []
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.state is RunState.ENDED


@pytest.mark.parametrize("policy", ["silent", "reject", "stop"])
async def test_a_goal_that_is_taken_after_its_task_gave_up_is_cancelled_until_that_works(
    rig: Rig, policy: Any
) -> None:
    """B3 B26: also when the answer to the goal is lost."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await rig.clock.advance(16.0)
    assert rig.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    rig.port.cancel_policy = policy
    goal.take_without_answer()
    await rig.clock.advance(5.0)
    rig.port.cancel_policy = "stop"
    await rig.clock.advance(5.0)
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_a_goal_that_never_arrived_is_looked_for_for_a_minute_and_stops_no_other(rig: Rig) -> None:
    """B3: only its own cancel is asked for, not what stops the newer goals of its server."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    await rig.port.next_goal()
    await rig.clock.advance(16.0)
    assert rig.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    newer, goal = await rig.accepted()
    await rig.clock.advance(ARRIVAL_S + 5.0)
    assert rig.port.stops == 0
    assert rig.info(newer).state == "running"
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert (await _stop(rig)).tasks == []


async def test_a_hunted_goal_that_has_ended_by_itself_is_over(rig: Rig) -> None:
    """B23: cancel code 3; its status went by unseen."""
    task_id, goal = await _lost(rig)
    goal.result.set_result(GoalResult(GoalStatus.SUCCEEDED, nav_result()))
    rig.port.come_back(remembers=True)
    await settle()
    assert (await _stop(rig)).tasks == []
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.state is RunState.ENDED


async def test_one_server_of_two_does_not_speak_for_a_hunted_goal(rig: Rig) -> None:
    """B5 B26: the other one may have it."""
    task_id, goal = await _lost(rig)
    rig.port.cancel_policy = "reject"
    rig.port.come_back(remembers=True)
    rig.port.join()
    await rig.clock.advance(10.0)
    assert [task.task_id for task in (await _stop(rig)).tasks] == [task_id]
    rig.port.leave()
    rig.port.cancel_policy = "stop"
    await rig.clock.advance(3.0)
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_a_goal_that_its_server_has_forgotten_is_not_hunted(rig: Rig) -> None:
    """B26: it was made anew at once, and runs nothing of before."""
    task_id, _ = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(3.0)
    rig.port.come_back()
    await rig.clock.advance(3.0)
    assert rig.code(task_id) == "ROS_RESULT_EXPIRED"
    assert rig.port.requests("cancel") == []
    assert (await _stop(rig)).tasks == []


async def test_a_stop_that_was_not_confirmed_is_told_when_the_hunt_confirms_it(rig: Rig) -> None:
    """B21 K94."""
    task_id, _ = await rig.accepted()
    rig.port.cancel_policy = "agree"
    cancelling = asyncio.ensure_future(rig.manager.cancel(task_id))
    await rig.clock.advance(1.0)
    rig.port.die()
    await rig.clock.advance(12.0)
    await cancelling
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    rig.port.cancel_policy = "stop"
    rig.port.come_back(remembers=True)
    await rig.clock.advance(3.0)
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_the_end_of_the_bridge_asks_for_what_it_hunts(rig: Rig) -> None:
    """B29."""
    await _lost(rig)
    rig.port.cancel_policy = "reject"
    rig.port.come_back(remembers=True)
    await rig.clock.advance(0.5)
    asked = len(rig.port.requests("cancel"))
    await rig.bridge.aclose()
    assert len(rig.port.requests("cancel")) == asked + 1


# -- restarts -------------------------------------------------------------------------------------


async def test_a_goal_that_outlived_its_task_is_hunted_by_the_next_bridge(world: World) -> None:
    """B24 B26."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.port.die()
    await world.pass_time(6.0)
    assert life.code(info.task_id) == "ROS_SERVER_LOST"
    after = await world.adopted()
    world.port.come_back(remembers=True)
    await world.pass_time(3.0)
    assert goal.result.result().status == GoalStatus.CANCELED
    assert after.code(info.task_id) == "ROS_SERVER_LOST"
    assert world.port.requests("send") == [goal.goal_id]
    assert after.ledger.open_rows() == []


async def test_a_bridge_whose_ros_breaks_while_it_looks_for_a_goal_leaves_it_to_the_next(
    world: World,
) -> None:
    """B24 B26, case E47: the port raises before anybody is told that ROS is gone."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.port.die()
    second = world.begin()

    async def raises(timeout_s: float) -> bool:
        await world.clock.sleep(1.0)
        raise RuntimeError("rcl: context invalid")

    second.line.wait_for_server = raises  # type: ignore[method-assign]
    await second.bridge.adopt()
    await world.pass_time(1.5)
    assert second.info(info.task_id).state == "failed"
    third = await world.adopted()
    world.port.come_back(remembers=True)
    await world.pass_time(8.0)
    assert goal.result.result().status == GoalStatus.CANCELED
    assert third.ledger.open_rows() == []


@pytest.mark.parametrize("turns", range(8))
async def test_a_result_that_came_as_ros_died_is_the_goals_end(world: World, turns: int) -> None:
    """B24: a task that has succeeded has no goal left to stop."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    for _ in range(turns):
        await asyncio.sleep(0)
    losing = asyncio.ensure_future(life.bridge.lose_ros("ROS_EXECUTOR_DEAD", "gone"))
    await world.pass_time(3.0)
    await losing
    state, asked = life.info(info.task_id).state, len(world.port.requests("cancel"))
    after = await world.adopted()
    await world.pass_time(3.0)
    assert after.info(info.task_id).state == state
    if state == "succeeded":
        assert len(world.port.requests("cancel")) == asked
        assert "stop_confirmed" not in (after.info(info.task_id).progress or {})
    assert after.ledger.open_rows() == []


async def test_a_cancelled_routine_of_before_claims_no_stop_for_its_step(world: World) -> None:
    """B21 K94: the step is followed under its own task."""
    life = world.begin()

    async def run(_: Any, steps: Any) -> dict[str, Any]:
        await steps.do("navigate_to", KITCHEN)
        return {}

    routine = SimpleNamespace(name="errand", resources=frozenset({"base"}), run=run)
    info = life.bridge._routines.start(
        routine,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        life.bridge.world,
        fingerprint="x",
        key=None,
        plain={},
    )
    await world.port.next_goal()
    await settle()
    world.port.cancel_policy = "agree"
    cancelling = asyncio.ensure_future(life.manager.cancel(info.task_id))
    await world.pass_time(1.0)
    after = await world.adopted()
    await world.pass_time(1.0)
    progress = after.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    cancelling.cancel()


async def test_a_cancelled_goal_that_cannot_be_asked_for_any_more_claims_no_stop(world: World) -> None:
    """B24 K94: its type is gone; a later bridge that has it looks again."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.port.cancel_policy = "agree"
    cancelling = asyncio.ensure_future(life.manager.cancel(info.task_id))
    await world.pass_time(1.0)
    second = world.begin()

    def gone(*_: Any) -> Any:
        raise LookupError("the package nav2_msgs is not installed")

    second.bridge._ports.port = gone  # type: ignore[method-assign]
    await second.bridge.adopt()
    await world.pass_time(1.0)
    progress = second.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    world.port.cancel_policy = "stop"
    await world.adopted()
    await world.pass_time(3.0)
    assert goal.result.result().status == GoalStatus.CANCELED
    cancelling.cancel()


async def test_a_goal_that_could_not_be_built_is_not_hunted(rig: Rig) -> None:
    """B7: it has never left."""
    rig.port.acceptance.append(GoalFieldError("pose.position.x", "must be a number"))
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == "ROS_INVALID_GOAL"
    await rig.clock.advance(3.0)
    assert rig.port.requests("cancel") == []
    row = rig.ledger.get(info.task_id)
    assert row is not None
    assert row.state is RunState.ENDED
