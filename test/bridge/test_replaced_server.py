"""Another action server takes the place of the one with the goal, with no gap to see: nothing hangs (B26)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from robot_mcp_kit.bridge.server_side import DOUBT_LIMIT_S
from robot_mcp_kit.bridge.states import RunState
from robot_mcp_kit.skills.base import GoalStatus

from .conftest import Rig, nav_result, settle
from .lives import World

LEASE_S = 20.0


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


async def test_a_server_made_anew_without_a_gap_ends_the_task(rig: Rig) -> None:
    """B26: it was never asked for the goal, so it has to be asked now."""
    task_id, goal = await rig.accepted()
    await rig.clock.advance(5.0)
    rig.port.come_back()
    await rig.clock.advance(1.0)
    failure = rig.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_RESULT_EXPIRED"
    assert "no longer knows the goal" in failure.message
    assert rig.port.requests("send") == [goal.goal_id]
    assert rig.bridge.running() == []


async def test_a_server_made_anew_right_after_the_acceptance_is_noticed(rig: Rig) -> None:
    """The goal leaves for the servers of that moment, not for those of the first look."""
    task_id, _ = await rig.accepted()
    rig.port.come_back()
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "ROS_RESULT_EXPIRED"


async def test_a_respawned_server_is_believed_once_the_dead_one_is_out_of_sight(rig: Rig) -> None:
    """B26: until then the answer may come from one while another works on the goal."""
    task_id, goal = await rig.accepted()
    rig.port.crash_and_respawn()
    await rig.clock.advance(LEASE_S)
    assert rig.info(task_id).state == "running"
    rig.port.dead_one_leaves()
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "ROS_RESULT_EXPIRED"
    assert rig.port.requests("send") == [goal.goal_id]


async def test_a_second_respawn_need_not_wait_for_the_first(rig: Rig) -> None:
    """Two servers, and neither was there when the goal left."""
    task_id, _ = await rig.accepted()
    rig.port.crash_and_respawn()
    rig.port.crash_and_respawn()
    rig.port.dead_one_leaves()
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "ROS_RESULT_EXPIRED"


async def test_a_second_server_that_knows_nothing_does_not_end_the_task(rig: Rig) -> None:
    """B5: its answer comes first, the goal's own server answers the question it got before."""
    task_id, goal = await rig.accepted()
    rig.port.join()
    await rig.clock.advance(2 * DOUBT_LIMIT_S)
    assert rig.info(task_id).state == "running"
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert rig.info(task_id).state == "succeeded"


async def test_a_stop_that_the_second_server_answers_waits_for_the_end_of_the_goal(rig: Rig) -> None:
    """B23: "I do not know that goal" from one of two is no end, and the goal's own server does stop it."""
    rig.port.cancel_policy = "agree"
    task_id, goal = await rig.accepted()
    rig.port.join()
    stopping = asyncio.ensure_future(rig.manager.cancel(task_id))
    await rig.clock.advance(3.0)
    assert not stopping.done()
    goal.finish(GoalStatus.CANCELED)
    await settle()
    assert stopping.done()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert (progress["stop_confirmed"], progress["goal_status"]) == (True, "CANCELED")


async def test_a_stop_of_a_goal_that_its_server_no_longer_knows_ends(rig: Rig) -> None:
    """B23, B26: cancel code 2. The run used to wait for ever, and to keep its part of the robot."""
    task_id, goal = await rig.accepted()
    rig.port.forget(goal)  # and nothing tells: it is the same server
    stopping = asyncio.ensure_future(rig.manager.cancel(task_id))
    await settle()
    assert stopping.done()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert progress["goal_status"] == "UNKNOWN"
    assert "no longer knows the goal" in progress["note"]
    assert rig.bridge.running() == []
    assert (await rig.start()).state == "running", "the robot is free"


async def test_a_stop_after_a_respawn_ends_when_the_dead_one_is_out_of_sight(rig: Rig) -> None:
    """B21, B26: told as not confirmed within the grace, ended later, and then the robot is free."""
    task_id, _ = await rig.accepted()
    rig.port.crash_and_respawn()
    await rig.clock.advance(1.0)
    run = rig.run(task_id)
    stopping = asyncio.ensure_future(rig.manager.cancel(task_id))
    await rig.clock.advance(6.0)
    assert stopping.done()
    assert run.state is RunState.CANCELLING
    rig.port.dead_one_leaves()
    await rig.clock.advance(1.0)
    assert run.state is RunState.ENDED
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert progress["phase"] == "cancelled"
    assert (await rig.start()).state == "running", "the robot is free"


async def test_an_adopted_goal_whose_server_was_respawned_meanwhile_ends(world: World) -> None:
    """B24, B26: with the dead one still in sight, and not before it is gone."""
    info = await world.begin().bridge.start("navigate_to", {"place": "kitchen"})
    await world.port.next_goal()
    await settle()
    world.port.crash_and_respawn()
    life = await world.adopted()
    await world.pass_time(5.0)
    assert life.info(info.task_id).state == "running"
    world.port.dead_one_leaves()
    await world.pass_time(3.0)
    assert life.code(info.task_id) == "ROS_RESULT_EXPIRED"


async def test_an_adopted_goal_that_none_of_two_servers_ever_shows_is_given_up(world: World) -> None:
    """B24, B26: a server tells the goals it knows on its status topic."""
    info = await world.begin().bridge.start("navigate_to", {"place": "kitchen"})
    goal = await world.port.next_goal()
    await settle()
    world.port.forget(goal)
    world.port.join()
    life = await world.adopted()
    await world.pass_time(DOUBT_LIMIT_S - 5.0)
    assert life.info(info.task_id).state == "running"
    await world.pass_time(10.0)
    assert life.code(info.task_id) == "ROS_RESULT_EXPIRED"


async def test_two_servers_may_be_a_dead_one_and_its_respawn_so_it_is_worth_another_try(rig: Rig) -> None:
    """B5, E43: the words say when, and the failure is not final."""
    rig.port.crash_and_respawn()
    info = await rig.start()
    await settle()
    failure = rig.info(info.task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_SERVER_AMBIGUOUS"
    assert failure.recoverable is True
    assert failure.suggestions[0] == "wait_s:20"
    assert "died within the last 20 s" in failure.message
    rig.port.dead_one_leaves()
    again = await rig.start()
    await settle()
    assert rig.info(again.task_id).state == "running"
    assert len(rig.port.goals) == 1
