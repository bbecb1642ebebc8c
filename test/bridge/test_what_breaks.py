"""What breaks at a goal's end, or around it: the end is reached, and nothing is claimed that nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.safety.approvals import Approver
from robot_mcp_kit.safety.refusals import ESTOP, HELD, safety_failure
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.world import NoWorld, WorldSnapshot
from robot_mcp_kit.testing.clock import settle

from .conftest import Rig, make_rig, nav_feedback, nav_result, take_down
from .lives import World

KITCHEN = {"place": "kitchen"}


class BlindWorld(NoWorld):
    """Sensors whose messages cannot be read."""

    blind = True

    def snapshot(self) -> WorldSnapshot:
        if self.blind:
            raise IndexError("array index out of range")
        return super().snapshot()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


def _progress(rig: Rig, task_id: str) -> dict[str, Any]:
    progress = rig.info(task_id).progress
    assert progress is not None
    return progress


# -- the connection to ROS ------------------------------------------------------------------------


async def test_when_ros_dies_no_stop_is_claimed_even_where_the_tasks_are_cancelled_at_once(rig: Rig) -> None:
    """B26, K94: the goal may go on; it gets a last cancel, in case that still leaves."""
    task_id, goal = await rig.accepted()
    rig.port.cancel_policy = "silent"
    losing = asyncio.ensure_future(rig.bridge.lose_ros("ROS_EXECUTOR_DEAD", "The connection is gone."))
    closing = asyncio.ensure_future(rig.manager.aclose(1.0))
    await asyncio.gather(losing, closing)
    assert set(rig.port.requests("cancel")) == {goal.goal_id}
    assert _progress(rig, task_id)["stop_confirmed"] is False
    assert "The connection is gone." in _progress(rig, task_id)["note"]


async def test_when_ros_dies_the_tasks_have_failed_before_the_node_ends(rig: Rig) -> None:
    """B26: told by an event, not called cancelled. A last cancel leaves, if it still can."""
    task_id, goal = await rig.accepted()
    await rig.bridge.lose_ros("ROS_EXECUTOR_DEAD", "The connection is gone.")
    await rig.manager.aclose(1.0)
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert rig.code(task_id) == "ROS_EXECUTOR_DEAD"
    assert [e.payload["error_code"] for e in rig.events if e.type == "task_failed"] == ["ROS_EXECUTOR_DEAD"]


async def test_a_goal_that_outlived_the_connection_is_ended_by_the_next_bridge(world: World) -> None:
    """B24 B26: its task has failed, so nobody would be told of it."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.port.cancel_policy = "silent"
    await life.bridge.lose_ros("ROS_EXECUTOR_DEAD", "The connection is gone.")
    assert life.code(info.task_id) == "ROS_EXECUTOR_DEAD"
    before = len(world.port.requests("cancel"))
    world.port.cancel_policy = "stop"
    after = await world.adopted()
    await world.pass_time(1.0)
    assert world.port.requests("cancel")[before:] == [goal.goal_id]
    assert goal.result.result().status == GoalStatus.CANCELED
    assert after.code(info.task_id) == "ROS_EXECUTOR_DEAD"
    assert world.port.requests("send") == [goal.goal_id]
    row = after.ledger.get(info.task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.CANCELLED)


async def test_a_server_lost_in_the_moment_of_a_cancel_has_confirmed_no_stop(rig: Rig) -> None:
    """B21 B26, K94."""
    task_id, _ = await rig.accepted()
    rig.port.die()
    run, cancelling = rig.run(task_id), []
    fail = run.fail

    def fail_and_cancel(failure: Any) -> None:
        fail(failure)
        if not cancelling:
            cancelling.append(asyncio.ensure_future(rig.manager.cancel(task_id)))

    run.fail = fail_and_cancel
    await rig.clock.advance(12.0)
    assert cancelling
    assert rig.info(task_id).state == "cancelled"
    assert _progress(rig, task_id)["stop_confirmed"] is False


async def test_a_goal_that_never_left_is_at_rest_whatever_ended_its_task(rig: Rig) -> None:
    """B21, K94: a fault and a cancel in one moment."""
    rig.port.die()
    info = await rig.start()
    await settle()
    rig.run(info.task_id).request_cancel("enough")
    rig.run(info.task_id).fail(safety_failure(ESTOP, "It was latched."))
    report = await rig.bridge.stop("enough")
    assert report.all_confirmed


async def test_the_end_of_the_bridge_says_that_a_stop_is_not_confirmed(rig: Rig) -> None:
    """B21 B29: also where the tasks' own grace is cut short."""
    task_id, _ = await rig.accepted()
    rig.port.cancel_policy = "agree"
    closing = asyncio.ensure_future(rig.manager.aclose(1.0))
    await rig.clock.advance(1.1)
    await closing
    await rig.bridge.aclose()
    assert rig.info(task_id).state == "cancelled"
    assert _progress(rig, task_id)["stop_confirmed"] is False


# -- sensors and skills ---------------------------------------------------------------------------


async def test_a_goal_ends_where_the_sensors_cannot_be_read() -> None:
    """B15 L12: the robot arrived, and the next goal may use it."""
    rig = make_rig(world=BlindWorld())
    task_id, goal = await rig.accepted()
    goal.feedback(nav_feedback(5.0, 0.1, 0.0, x_m=9.9))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert rig.info(task_id).state == "succeeded"
    assert rig.bridge.running() == []
    await take_down(rig)


async def test_a_stop_is_confirmed_and_reaches_everything_where_the_sensors_cannot_be_read() -> None:
    """B22: a task that ended before it began cannot keep the cancel from the others."""
    rig = make_rig(world=BlindWorld())
    rig.port._one_at_a_time = False
    _, goal = await rig.accepted()
    other = await rig.start()
    await rig.manager.cancel(other.task_id)
    report = await rig.bridge.stop("enough")
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert report.all_confirmed
    await take_down(rig)


@pytest.mark.parametrize("how", ["stop", "latch"])
async def test_a_run_that_breaks_keeps_no_stop_from_the_others(how: str) -> None:
    """B22."""
    rig = make_rig()
    rig.port._one_at_a_time = False
    rig.bridge.skills["navigate_to"].server_replaces = True
    first, goal = await rig.accepted()
    second, other = await rig.accepted()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    run = rig.run(first)
    run.request_cancel = run.halt = broken
    rig.port.cancel_policy = "agree"
    if how == "stop":
        stopping = asyncio.ensure_future(rig.bridge.stop("enough"))
        await settle()
    else:
        rig.bridge.guard.latch("hand in the cell", "op")
        await settle()
    assert other.goal_id in rig.port.requests("cancel")
    del run.request_cancel, run.halt
    for one in (goal, other):
        one.finish(GoalStatus.CANCELED)
    await rig.clock.advance(6.0)
    if how == "stop":
        await stopping
    assert rig.info(second).state != "running"
    await take_down(rig)


async def test_what_breaks_in_the_watchdog_keeps_nobody_from_looking_after_safety(rig: Rig) -> None:
    """B26: each look stands alone, safety first."""
    task_id, _ = await rig.accepted()
    run, looks = rig.run(task_id), []
    hold = run._hold
    hold.tick = lambda: looks.append("safety")

    def broken() -> Any:
        raise RuntimeError("the graph cannot be read")

    rig.port.servers = broken  # type: ignore[method-assign]
    rig.port.cancel_policy = "silent"
    cancelling = asyncio.ensure_future(rig.manager.cancel(task_id))
    for _ in range(12):
        await rig.clock.advance(0.25)
    assert len(looks) == 12
    assert len(rig.port.requests("cancel")) == 2, "the unanswered cancel was repeated"
    cancelling.cancel()


# -- halted for safety ----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [HELD, ESTOP, "ROS_RESULT_TIMEOUT"])
async def test_what_was_halted_before_a_crash_has_failed_after_it(world: World, code: str) -> None:
    """B24 R23: nobody cancelled it, so its end is an event."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.port.cancel_policy = "agree"
    run = life.bridge._runs[info.task_id]
    failure = (
        run._bridge_failure(code, seconds="5")
        if code.startswith("ROS")
        else safety_failure(code, "the robot left its fence")
    )
    run.halt(failure)
    await settle()
    after = await world.adopted()
    await world.pass_time(1.0)
    goal.finish(GoalStatus.CANCELED)
    await settle()
    await world.pass_time(1.0)
    assert after.code(info.task_id) == code
    assert [e.payload["error_code"] for e in world.chat.of(info.task_id, "task_failed")] == [code]


async def test_an_emergency_stop_ends_the_task_of_a_goal_that_already_makes_way(rig: Rig) -> None:
    """R23: within the grace, whether its server stops it or not."""
    task_id, _ = await rig.accepted()
    rig.port.cancel_policy = "agree"
    rig.run(task_id).preempt("other-123456")
    await settle()
    rig.bridge.guard.latch("hand in the cell", "op")
    await rig.clock.advance(6.0)
    assert rig.code(task_id) == ESTOP
    assert rig.bridge.running() == [task_id], "and the goal is followed on"


async def test_a_goal_that_makes_way_and_is_then_cancelled_is_written_down_as_cancelled(rig: Rig) -> None:
    """B24: after a crash its end is the caller's cancel, not the other task's."""
    task_id, goal = await rig.accepted()
    rig.port.cancel_policy = "agree"
    rig.run(task_id).preempt("other-123456")
    await settle()
    cancelling = asyncio.ensure_future(rig.manager.cancel(task_id))
    await settle()
    row = rig.ledger.get(task_id)
    assert row is not None
    assert row.cancel_reason == "the task was cancelled"
    goal.finish(GoalStatus.CANCELED)
    await settle()
    await cancelling


# -- goals that were not taken --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["refused late", "never arrived"])
async def test_a_newer_goal_that_was_not_taken_explains_no_end(rig: Rig, how: str) -> None:
    """B16 C22."""
    first, goal = await rig.accepted()
    rig.port.acceptance.append("hold")
    second = await rig.start()
    newer = await rig.port.next_goal(2)
    await settle()
    if how == "refused late":

        async def hangs(goal_id: Any) -> Any:
            await asyncio.get_running_loop().create_future()

        rig.port.get_result = hangs  # type: ignore[method-assign]
        await rig.clock.advance(10.1)
        newer.reject()
        await settle()
        assert rig.code(second.task_id) == "ROS_GOAL_REJECTED"
        del rig.port.get_result
    else:
        await rig.clock.advance(15.2)
        assert rig.code(second.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    await rig.clock.advance(60.0)
    goal.finish(GoalStatus.ABORTED)
    await rig.clock.advance(2.0)
    assert rig.code(first) == "ROS_ABORTED_NO_REASON"


async def test_a_goal_whose_server_left_while_it_queued_is_not_sent() -> None:
    """B4 B26: told as that, and not as a robot that may be moving."""
    rig = make_rig(policy="queue")
    first, _ = await rig.accepted()
    second = await rig.start()
    await settle()
    rig.port.die()
    await rig.clock.advance(8.0)
    assert rig.code(first) == "ROS_SERVER_LOST"
    assert rig.code(second.task_id) == "ROS_SERVER_UNAVAILABLE"
    assert len(rig.port.requests("send")) == 1
    await take_down(rig)


async def test_the_trail_calls_a_goal_sent_only_when_it_left(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R37: leave was given, and then there were two servers."""
    guard, said = rig.bridge.guard, []
    finished, permit = guard.finished, guard.permit

    def note(clearance: Any, **more: Any) -> None:
        said.append((more["code"], more["sent"]))
        finished(clearance, **more)

    async def joined(*given: Any) -> Any:
        leave = await permit(*given)
        rig.port.join()
        return leave

    monkeypatch.setattr(guard, "finished", note)
    monkeypatch.setattr(guard, "permit", joined)
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == "ROS_SERVER_AMBIGUOUS"
    assert said == [("ROS_SERVER_AMBIGUOUS", False)]
    monkeypatch.setattr(guard, "permit", permit)
    rig.port.leave()
    _, goal = await rig.accepted()
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert said[1:] == [(None, True)]


async def test_a_place_is_given_back_when_leave_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """B22 R23: or four refusals would block the action for good."""
    from robot_mcp_kit.safety.refusals import SafetyRefused

    places: list[str] = []

    async def refused(*_: Any) -> Any:
        raise SafetyRefused(ESTOP, "It was latched.")

    async def reserve() -> None:
        places.append("taken")

    monkeypatch.setattr(rig.bridge.guard, "permit", refused)
    monkeypatch.setattr(rig.port, "reserve", reserve)
    monkeypatch.setattr(rig.port, "give_back", lambda: places.append("given back"))
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == ESTOP
    assert places == ["taken", "given back"]


@pytest.mark.parametrize("wait", ["person", "turn", "server", "place"])
async def test_what_held_when_a_task_began_has_to_hold_when_its_goal_leaves(wait: str) -> None:
    """L3: a person took two minutes, or an older goal, or the server."""
    rig = make_rig(policy="queue", approve=wait != "person")
    there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    held = [True]
    still = Precondition(
        "NOT_THERE", "the way is free", lambda *_: None if held[0] else "It is not.", ("look",)
    )
    rig.bridge.skills["navigate_to"].preconditions = (still,)
    goal = None
    if wait == "turn":
        _, goal = await rig.accepted()
    elif wait == "server":
        rig.port.die()
    elif wait == "place":

        async def reserve() -> None:
            await there

        rig.port.reserve = reserve  # type: ignore[method-assign]
        rig.port.has_place = lambda: False  # type: ignore[method-assign]
    info = await rig.start()
    await settle()
    assert rig.info(info.task_id).state == "running"
    held[0] = False
    if goal is not None:
        goal.finish(GoalStatus.SUCCEEDED, nav_result())
    elif wait == "server":
        rig.port.come_back()
    elif wait == "place":
        there.set_result(None)
    else:
        (pending,) = rig.bridge.guard.desk.pending()
        rig.bridge.guard.decide(pending.token, True, Approver("ann", "operator"))
    await rig.clock.advance(1.0)
    assert rig.code(info.task_id) == "NOT_THERE"
    assert len(rig.port.requests("send")) == (0 if goal is None else 1)
    await take_down(rig)


async def test_a_goal_replaced_in_the_moment_of_a_cancel_has_confirmed_no_stop(rig: Rig) -> None:
    """B16 B21: another goal moves the robot now."""
    task_id, _ = await rig.accepted()
    rig.port.other_client_takes_over()
    await rig.run(task_id).ended
    await rig.manager.cancel(task_id)
    assert rig.info(task_id).state == "cancelled"
    assert _progress(rig, task_id)["stop_confirmed"] is False
