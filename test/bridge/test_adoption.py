"""A bridge that dies mid-goal and is started again (B2, B3, B6, B24, B25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.bridge.base import GoalResult
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.tasks import TaskContext
from robot_mcp_kit.testing.clock import settle

from .conftest import CONFIG, nav_feedback, nav_result
from .lives import TERMINAL, Life, World, dying_at, told

KITCHEN = {"place": "kitchen"}
OTHER_SKILL = CONFIG.format(policy="replace", result_timeout_s="null").replace(
    "  navigate_to:", "  drive_to:"
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


async def executing(world: World, **more: Any) -> tuple[str, Any]:
    """A task of a first bridge whose goal was accepted and runs."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN, **more)
    goal = await world.port.next_goal()
    await settle()
    return info.task_id, goal


async def test_a_running_goal_is_followed_under_the_same_task(world: World) -> None:
    """B24: progress and the terminal event arrive, one motion in all, and the numbers go on."""
    task_id, goal = await executing(world)
    goal.feedback(nav_feedback(1.0, 5.0))
    await world.pass_time(2.0)
    before = world.lives[0].info(task_id)
    life = await world.adopted()
    assert life.info(task_id).created_at == before.created_at
    goal.status(GoalStatus.EXECUTING)
    await settle()
    await world.pass_time(2.0)
    goal.feedback(nav_feedback(4.0, 3.0))
    await world.pass_time(2.0)
    goal.feedback(nav_feedback(6.0, 0.1, x_m=10.0))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert life.info(task_id).state == "succeeded"
    assert world.port.requests("send") == [goal.goal_id]
    events = world.chat.of(task_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [e.payload["phase"] for e in events if e.type == "progress"][:4] == [
        "accepted",
        "executing",
        "resuming",
        "resumed",
    ]
    assert events[-1].type == "task_done"
    row = life.ledger.get(task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.SUCCEEDED)


async def test_a_goal_that_ended_meanwhile_is_read_late(world: World) -> None:
    """B24, also with a failure of the robot's own."""
    task_id, goal = await executing(world)
    world.begin()
    goal.finish(GoalStatus.ABORTED, nav_result(9999, ""))
    life = world.lives[-1]
    await life.bridge.adopt()
    await settle()
    await world.pass_time(1.0)
    assert life.info(task_id).state == "failed"
    assert life.code(task_id) not in (None, "ROS_RESULT_EXPIRED", "ROS_BRIDGE_RESTARTED")
    assert len(world.chat.of(task_id, "task_failed")) == 1


async def test_a_goal_that_the_server_forgot_is_told_so(world: World) -> None:
    """B24."""
    task_id, goal = await executing(world)
    world.port.forget(goal)
    life = await world.adopted()
    assert life.code(task_id) == "ROS_RESULT_EXPIRED"
    assert world.port.requests("send") == [goal.goal_id]


async def test_without_a_server_the_goal_is_lost_after_the_wait(world: World) -> None:
    """B26: and when the server is only back later, its goal is cancelled: nobody follows it."""
    task_id, goal = await executing(world)
    world.port.die()
    life = await world.adopted()
    await world.pass_time(4.9)
    assert life.info(task_id).state == "running"
    await world.pass_time(0.2)
    assert life.code(task_id) == "ROS_SERVER_LOST"
    world.port.come_back(remembers=True)
    await world.pass_time(1.0)
    assert world.port.requests("cancel") == [goal.goal_id]
    assert world.port.requests("send") == [goal.goal_id]


async def test_a_server_that_dies_after_the_adoption_is_noticed(world: World) -> None:
    task_id, goal = await executing(world)
    life = await world.adopted()
    goal.status(GoalStatus.EXECUTING)
    await settle()
    world.port.die()
    await world.pass_time(6.0)
    assert life.code(task_id) == "ROS_SERVER_LOST"


async def test_a_goal_that_had_not_left_never_leaves(world: World) -> None:
    """B2: the task is there, says that nothing moved, and the server never sees a goal of it."""
    world.port.die()
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN, idempotency_key="k")
    await settle()
    world.port.come_back()
    life = await world.adopted()
    await world.pass_time(20.0)
    failure = life.info(info.task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_BRIDGE_RESTARTED"
    assert "nothing moved" in failure.message
    assert world.port.wire == []
    assert len(world.chat.of(info.task_id, "task_failed")) == 1
    again = await life.bridge.start("navigate_to", KITCHEN, idempotency_key="k")
    assert again.task_id == info.task_id, "the same key starts nothing"


async def test_a_task_without_a_goal_is_told_to_have_moved_nothing(world: World) -> None:
    """B24: a watch ends with its process; its words must not look like a motion to begin again."""
    life = world.begin()

    async def watch(context: TaskContext) -> dict[str, Any]:
        await context.emit({"person": 1})
        await asyncio.get_running_loop().create_future()
        return {}

    info = life.manager.start("watch_events", watch)
    await settle()
    life = await world.adopted()
    failure = life.info(info.task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_BRIDGE_RESTARTED"
    assert "watch_events" in failure.message
    assert "no goal" in failure.message
    assert "nothing moved" in failure.message
    assert "start it again" not in failure.message
    assert "while it had a goal" not in failure.message
    assert [e.payload["error_code"] for e in world.chat.of(info.task_id, "task_failed")] == [
        "ROS_BRIDGE_RESTARTED"
    ]


async def test_a_goal_that_the_server_takes_late_is_followed(world: World) -> None:
    """B3: "unknown" just after the restart may mean that the server still thinks."""
    world.port.acceptance.append("hold")
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    life = await world.adopted()
    await world.pass_time(3.0)
    assert life.info(info.task_id).state == "running"
    goal.accept()
    await world.pass_time(1.0)
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await world.pass_time(1.0)
    assert life.info(info.task_id).state == "succeeded"
    assert world.port.requests("send") == [goal.goal_id]


async def test_a_goal_that_never_arrived_is_given_up_and_stopped_should_it_appear(world: World) -> None:
    """B3: not sent again; a goal that nobody follows must not move the robot."""
    world.port.acceptance.append("hold")
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    life = await world.adopted()
    await world.pass_time(11.0)
    assert life.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    assert len(world.port.requests("cancel")) == 1
    goal.accept()
    await settle()
    assert len(world.port.requests("cancel")) == 2
    assert goal.result.done()
    assert world.port.requests("send") == [goal.goal_id]


async def test_a_goal_that_came_and_ended_unseen_is_found_by_asking_again(world: World) -> None:
    """B24: the first answers were that it is not known, and its status never arrived."""
    life = world.begin()
    world.port.acceptance.append("hold")
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    after = await world.adopted()
    await world.pass_time(2.0)
    assert after.info(info.task_id).state == "running"
    goal.accepted = True
    goal.result.set_result(GoalResult(GoalStatus.ABORTED, nav_result(208)))
    await world.pass_time(2.0)
    assert after.code(info.task_id) == "NAV2_NO_PATH"
    assert world.port.requests("send") == [goal.goal_id]


async def test_an_answer_that_was_lost_on_the_way_is_asked_for_again(world: World) -> None:
    """The first replies to a process can be lost for seconds when the one before it was killed."""
    task_id, goal = await executing(world)
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    ask, asked = world.port.get_result, []

    async def deaf_at_first(goal_id: Any) -> Any:
        asked.append(goal_id)
        if len(asked) == 1:
            await asyncio.get_running_loop().create_future()
        return await ask(goal_id)

    world.port.get_result = deaf_at_first  # type: ignore[method-assign]
    life = await world.adopted()
    await world.pass_time(3.0)
    assert life.info(task_id).state == "succeeded", life.info(task_id)


async def test_triggers_go_on_where_they_were(world: World) -> None:
    """One that fired stays fired, one that did not can still fire."""
    far, near = {"type": "eta_below", "seconds": 30}, {"type": "eta_below", "seconds": 10}
    task_id, goal = await executing(world, triggers=[far, near])
    await drive(world, goal, [(0.0, 0.0, 0.0), (1.0, 0.0, 12.4), (2.0, 41.0, 12.3)])
    await drive(world, goal, [(4.0 + t, 39.0 - t, 11.7 - 0.3 * t) for t in range(1, 16)])
    assert [e.payload["trigger"] for e in world.chat.of(task_id, "trigger_fired")] == [far]
    life = await world.adopted()
    assert life.info(task_id).triggers == [far, near]
    goal.status(GoalStatus.EXECUTING)
    await settle()
    await drive(world, goal, [(20.0 + t, 23.0 - t, 6.9 - 0.3 * t) for t in range(1, 20)])
    assert [e.payload["trigger"] for e in world.chat.of(task_id, "trigger_fired")] == [far, near]
    goal.feedback(nav_feedback(42.0, 0.0, x_m=10.0))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    (done,) = world.chat.of(task_id, "task_done")
    assert "triggers_not_fired" not in done.payload["result"]


async def test_a_trigger_that_repeats_has_to_be_armed_again_after_the_restart(world: World) -> None:
    """B11 B24: it fired for this approach, and does not fire for it again."""
    near = {"type": "eta_below", "seconds": 30, "repeat": True}
    task_id, goal = await executing(world, triggers=[near])
    await drive(world, goal, [(float(t), 40.0 - t, 12.0 - 0.3 * t) for t in range(16)])
    assert len(world.chat.of(task_id, "trigger_fired")) == 1
    await world.adopted()
    goal.status(GoalStatus.EXECUTING)
    await settle()
    await drive(world, goal, [(16.0 + t, 24.0 - t, 7.2 - 0.3 * t) for t in range(8)])
    assert len(world.chat.of(task_id, "trigger_fired")) == 1
    # A detour arms it again.
    await drive(world, goal, [(24.0 + t, 60.0 - t, 18.0 - 0.3 * t) for t in range(40)])
    assert len(world.chat.of(task_id, "trigger_fired")) == 2


async def drive(world: World, goal: Any, series: list[tuple[float, float, float]]) -> None:
    """Publish (robot's time, eta, distance) rows."""
    for time_s, eta_s, distance_m in series:
        goal.feedback(nav_feedback(time_s, distance_m, eta_s, x_m=max(0.0, 10.0 - distance_m)))
        await world.pass_time(1.0)


# -- stopping -------------------------------------------------------------------------------------


async def test_a_cancel_of_before_the_crash_is_repeated(world: World) -> None:
    """The task is cancelled at once, its goal is stopped, and polling says when that is confirmed."""
    world.port.cancel_policy = "silent"
    task_id, goal = await executing(world)
    cancelling = asyncio.ensure_future(world.lives[0].manager.cancel(task_id))
    await settle()
    assert len(world.port.requests("cancel")) == 1
    world.port.cancel_policy = "stop"
    life = await world.adopted()
    assert life.info(task_id).state == "cancelled"
    await settle()
    assert len(world.port.requests("cancel")) == 2
    assert goal.result.done()
    progress = life.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True
    assert world.chat.of(task_id, *TERMINAL) == []
    assert life.ledger.open_rows() == []
    cancelling.cancel()


async def test_a_stop_that_was_never_confirmed_is_asked_for_again(world: World) -> None:
    """B21: the task had already ended as cancelled; its goal had not."""
    world.port.cancel_policy = "agree"
    task_id, goal = await executing(world)
    cancelling = asyncio.ensure_future(world.lives[0].manager.cancel(task_id))
    await world.pass_time(5.0)
    assert cancelling.done()
    world.port.cancel_policy = "stop"
    life = await world.adopted()
    assert life.info(task_id).state == "cancelled"
    progress = life.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True
    assert goal.result.done()


async def test_a_cancel_during_the_search_leaves_as_soon_as_there_is_a_server(world: World) -> None:
    """B20."""
    task_id, goal = await executing(world)
    world.port.die()
    life = await world.adopted()
    cancelling = asyncio.ensure_future(life.manager.cancel(task_id))
    await settle()
    assert world.port.requests("cancel") == []
    world.port.come_back(remembers=True)
    await settle()
    assert world.port.requests("cancel") == [goal.goal_id]
    info = await cancelling
    assert info is not None
    assert info.state == "cancelled"


async def test_stop_stops_what_was_adopted(world: World) -> None:
    """B22."""
    task_id, goal = await executing(world)
    life = await world.adopted()
    report = await life.bridge.stop("enough")
    assert [(task.task_id, task.stop_confirmed) for task in report.tasks] == [(task_id, True)]
    assert goal.result.done()
    assert life.info(task_id).state == "cancelled"


# -- what a caller sees ---------------------------------------------------------------------------


async def test_a_goal_cancelled_before_its_search_began_counts_as_running_until_it_has_ended(
    world: World,
) -> None:
    """B38: the robot moves until then, and nothing may be cleaned up."""
    task_id, goal = await executing(world)
    world.port.cancel_policy = "agree"
    life = world.begin()
    await life.bridge.adopt()
    cancelling = asyncio.ensure_future(life.manager.cancel(task_id))
    await asyncio.sleep(0)
    await settle()
    await world.pass_time(6.0)
    assert life.info(task_id).state == "cancelled"
    assert life.bridge.glance() == [task_id]
    assert life.bridge.running() == [task_id]
    await settle()
    assert world.port.requests("cancel") == [goal.goal_id]
    goal.finish(GoalStatus.CANCELED)
    await settle()
    assert life.bridge.glance() == []
    await cancelling


async def test_a_key_answers_with_its_task_over_the_restart(world: World) -> None:
    """B6: running or ended, one motion; other arguments are refused."""
    task_id, goal = await executing(world, idempotency_key="once")
    life = await world.adopted()
    life.bridge.refusing = TaskFailure(error_code="BRIDGE_INACTIVE", message="not now")
    again = await life.bridge.start("navigate_to", KITCHEN, idempotency_key="once")
    assert (again.task_id, again.state) == (task_id, "running")
    with pytest.raises(TaskError, match="not now"):
        await life.bridge.start("navigate_to", KITCHEN, idempotency_key="another")
    with pytest.raises(ArgumentError, match="other arguments"):
        await life.bridge.start("navigate_to", {"x_m": 1.0, "y_m": 1.0}, idempotency_key="once")
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    third = await world.adopted()
    again = await third.bridge.start("navigate_to", KITCHEN, idempotency_key="once")
    assert (again.task_id, again.state) == (task_id, "succeeded")
    third.manager.max_finished_retained = 0
    third.manager._retain(task_id)
    assert third.manager.get(task_id) is None
    again = await third.bridge.start("navigate_to", KITCHEN, idempotency_key="once")
    assert (again.task_id, again.state) == (task_id, "succeeded"), "the ledger keeps more than memory does"
    assert world.port.requests("send") == [goal.goal_id]


async def test_finished_tasks_can_be_read_after_the_restart(world: World) -> None:
    """Polling has the truth about what ended before, oldest first."""
    life = world.begin()
    ids = []
    for number in range(3):
        info = await life.bridge.start("navigate_to", KITCHEN)
        goal = await world.port.next_goal(number + 1)
        goal.finish(GoalStatus.SUCCEEDED, nav_result())
        await settle()
        await world.pass_time(1.0)
        ids.append(info.task_id)
    before = [life.info(task_id) for task_id in ids]
    life = await world.adopted()
    assert life.manager.list() == before
    assert world.port.requests("get_result") == world.port.requests("send"), "nothing is asked again"


async def test_events_that_were_not_delivered_arrive_after_the_restart(world: World) -> None:
    """B25: with the same ids and in order."""
    world.chat.deaf = True
    task_id, goal = await executing(world)
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    expected = [body["event_id"] for body in told(world, world.lives[0], task_id)]
    assert len(expected) > 1
    world.chat.deaf = False
    await world.adopted()
    assert [event.event_id for event in world.chat.of(task_id)] == expected


async def test_a_goal_whose_skill_is_gone_is_followed_and_can_be_stopped(world: World) -> None:
    """The configuration changed while the goal ran: its end is told, not judged."""
    task_id, goal = await executing(world)
    life = await world.adopted(config=OTHER_SKILL)
    assert life.info(task_id).state == "running"
    goal.status(GoalStatus.EXECUTING)
    await settle()
    goal.feedback(nav_feedback(1.0, 2.0))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    failure = life.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_BRIDGE_RESTARTED"
    assert "navigate_to is not configured" in failure.message
    assert "SUCCEEDED" in failure.message


async def test_a_goal_whose_action_is_unknown_here_is_told(world: World) -> None:
    task_id, _ = await executing(world)
    config = OTHER_SKILL.replace("action: navigate_to_pose", "action: drive")
    world.port.name = "/drive"
    life = await world.adopted(config=config)
    failure = life.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_BRIDGE_RESTARTED"
    assert "may still run" in failure.message


@pytest.mark.parametrize(
    "plan", ['{"summary": 1}', '{"summary": "s", "est_duration_s": null, "context": {}}']
)
async def test_a_plan_that_is_not_understood_loses_no_goal(world: World, plan: str) -> None:
    task_id, goal = await executing(world)
    world.lives[0].file.connection.execute("UPDATE goal SET plan = ?", (plan,))
    life = await world.adopted()
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    await world.pass_time(1.0)
    assert life.code(task_id) in ("ROS_BRIDGE_RESTARTED", "INTERNAL")
    assert world.port.requests("send") == [goal.goal_id]


async def test_a_replaced_goal_is_told_apart_after_the_restart(world: World) -> None:
    """B16: the newer goal ended the older one while the bridge was away."""
    first, older = await executing(world)
    info = await world.lives[0].bridge.start("navigate_to", KITCHEN)
    newer = await world.port.next_goal(2)
    await settle()
    life = await world.adopted()
    await world.pass_time(1.0)
    assert life.code(first) == "ROS_PREEMPTED"
    newer.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert life.info(info.task_id).state == "succeeded"
    assert older.result.done()


# -- exhaustively ---------------------------------------------------------------------------------


async def _story(world: World, life: Life, ending: str) -> None:
    """One goal from its call to its end, as far as the process lives."""
    info = await life.bridge.start("navigate_to", KITCHEN, idempotency_key="story")
    await settle()
    if not world.port.goals:
        return
    goal = world.port.goals[0]
    goal.feedback(nav_feedback(1.0, 5.0))
    await settle()
    if ending == "cancelled":
        cancelling = asyncio.ensure_future(life.manager.cancel(info.task_id))
        await world.pass_time(6.0)
        assert cancelling.done()
    else:
        goal.finish(GoalStatus.SUCCEEDED if ending == "succeeded" else GoalStatus.ABORTED, nav_result(0))
        await world.pass_time(1.0)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("ending", ["succeeded", "failed", "cancelled"])
async def test_a_death_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, ending: str, after: bool
) -> None:
    """B2, B24, B25: whichever commit of the file is the last one, and whatever was on the wire behind it."""
    deaths = 0
    for write in range(100):
        folder = tmp_path / str(write)
        folder.mkdir()
        world = World(folder)
        life = world.begin()
        with dying_at(life, write, after=after) as died:
            await _story(world, life, ending)
            if not died():
                await world.close()
                break
        deaths += 1
        second = await world.adopted()
        await second.bridge.start("navigate_to", KITCHEN, idempotency_key="story")
        await world.pass_time(1.0)
        for goal in world.port.goals:
            goal.finish(GoalStatus.SUCCEEDED, nav_result())
        await world.pass_time(90.0)  # a goal that may never have left is looked for
        where = f"death {'after' if after else 'before'} commit {write}"
        assert len(world.port.requests("send")) <= 1, where
        (info,) = second.manager.list()
        assert info.state != "running", where
        events = told(world, second, info.task_id)
        assert [body["seq"] for body in events] == list(range(1, len(events) + 1)), where
        terminal = [body["type"] for body in events if body["type"] in TERMINAL]
        expected = {"succeeded": ["task_done"], "failed": ["task_failed"], "cancelled": []}[info.state]
        assert terminal == expected, where
        assert second.ledger.open_rows() == [], where
        await world.close()
    assert deaths >= 5, "there were writes to die at"
