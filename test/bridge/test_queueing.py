"""Policy ``queue``: goals for one part of the robot wait for each other, each as a task of its own (B8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from robot_mcp_kit.bridge.states import RunState
from robot_mcp_kit.skills.base import GoalStatus

from .conftest import Rig, make_rig, nav_result, settle, take_down


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = make_rig(policy="queue")
    yield made
    await take_down(made)


async def three(rig: Rig) -> list[str]:
    """Three tasks, started at once."""
    ids = [(await rig.start()).task_id for _ in range(3)]
    await settle()
    return ids


async def test_goals_are_sent_one_after_the_other(rig: Rig) -> None:
    """B8: in the order of the calls; nothing is replaced, nothing is lost."""
    ids = await three(rig)
    for number, task_id in enumerate(ids):
        assert len(rig.port.goals) == number + 1
        rig.port.goals[number].finish(GoalStatus.SUCCEEDED, nav_result())
        await settle()
        assert rig.info(task_id).state == "succeeded"
    assert rig.port.requests("cancel") == []


async def test_a_waiting_task_says_for_whom_it_waits(rig: Rig) -> None:
    ids = await three(rig)
    progress = rig.info(ids[2]).progress
    assert progress is not None
    assert (progress["phase"], progress["waits_for"]) == ("queued", ids[:2])


async def test_a_turn_has_no_time_limit(rig: Rig) -> None:
    """A long motion before it is no failure of the one that waits."""
    ids = await three(rig)
    await rig.clock.advance(3600.0)
    assert [rig.info(task_id).state for task_id in ids] == ["running"] * 3
    assert len(rig.port.goals) == 1


async def test_a_waiting_task_can_be_cancelled_without_a_goal(rig: Rig) -> None:
    ids = await three(rig)
    info = await rig.manager.cancel(ids[1])
    assert info is not None
    assert info.state == "cancelled"
    rig.port.goals[0].finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert len(rig.port.goals) == 2, "the third had its turn"
    assert rig.run(ids[2]).state is RunState.EXECUTING


async def test_stop_ends_the_queue_too(rig: Rig) -> None:
    """B22: what waits does not start after a stop."""
    ids = await three(rig)
    report = await rig.bridge.stop("enough")
    assert report.all_confirmed is True
    await settle()
    assert [rig.info(task_id).state for task_id in ids] == ["cancelled"] * 3
    assert len(rig.port.goals) == 1


async def test_a_failed_motion_lets_the_next_one_go(rig: Rig) -> None:
    ids = await three(rig)
    rig.port.goals[0].finish(GoalStatus.ABORTED, nav_result(9999))
    await rig.clock.advance(1.0)
    await asyncio.sleep(0)
    assert rig.info(ids[0]).state == "failed"
    assert len(rig.port.goals) == 2
