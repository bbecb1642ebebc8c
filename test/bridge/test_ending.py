"""What the end of a goal means: status first, then the result, then what else is known."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.testing.scripted import ScriptedPort

from .conftest import Rig, make_rig, nav_feedback, nav_result, settle, take_down


async def test_success_carries_the_measured_pose(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    goal.feedback(nav_feedback(5.0, 0.1, 0.0, x_m=9.9))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    result = rig.info(task_id).result
    assert result is not None
    assert result["measured"] is True
    assert result["position_error_m"] == 0.1
    assert result["yaw_error_rad"] == 0.0
    row = rig.ledger.get(task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.SUCCEEDED)


async def test_a_success_that_is_elsewhere_is_a_failure(rig: Rig) -> None:
    """B18."""
    task_id, goal = await rig.accepted()
    goal.feedback(nav_feedback(5.0, 4.0, 8.0, x_m=6.0))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    failure = rig.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "NAV2_POSTCONDITION_POSE"
    assert "x 6.00 m" in failure.message
    assert "4.00 m away" in failure.message


@pytest.mark.parametrize(
    ("status", "result", "code"),
    [
        (GoalStatus.ABORTED, nav_result(206, "wall"), "NAV2_GOAL_OCCUPIED"),
        (GoalStatus.ABORTED, nav_result(4242), "NAV2_CODE_4242"),
        (GoalStatus.ABORTED, nav_result(), "ROS_ABORTED_NO_REASON"),
        (GoalStatus.ABORTED, SimpleNamespace(), "ROS_ABORTED_NO_REASON"),
        (GoalStatus.CANCELED, nav_result(), "ROS_CANCELLED_EXTERNALLY"),
        (GoalStatus.CANCELED, nav_result(105), "ROS_CANCELLED_EXTERNALLY"),
        (GoalStatus.UNKNOWN, nav_result(), "ROS_RESULT_EXPIRED"),
        (-91, nav_result(), "ROS_BAD_STATUS"),
        (GoalStatus.EXECUTING, nav_result(), "ROS_BAD_STATUS"),
        (7, nav_result(), "ROS_BAD_STATUS"),
    ],
)
async def test_the_status_decides_first(rig: Rig, status: int, result: Any, code: str) -> None:
    """B15, C26, C27, D37."""
    task_id, goal = await rig.accepted()
    goal.finish(status, result)
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == code
    assert len([e for e in rig.events if e.type == "task_failed"]) == 1


async def test_replaced_by_another_client_is_not_a_failed_navigation(rig: Rig) -> None:
    """B16, C22."""
    task_id, _ = await rig.accepted()
    rig.port.other_client_takes_over()
    await settle()
    failure = rig.info(task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_PREEMPTED"
    assert "not one of ours" in failure.message


async def test_the_news_of_the_other_goal_may_come_after_the_result(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    goal.finish(GoalStatus.ABORTED)
    await rig.clock.advance(0.3)
    assert rig.info(task_id).state == "running"
    rig.port.other_client_takes_over()
    await settle()
    assert rig.code(task_id) == "ROS_PREEMPTED"


async def test_another_goal_long_ago_does_not_explain_an_abort(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    watch = rig.port.watches_of(goal.goal_id)[0]
    assert watch.on_other is not None
    watch.on_other()
    await rig.clock.advance(60.0)
    goal.finish(GoalStatus.ABORTED)
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "ROS_ABORTED_NO_REASON"


async def test_an_abort_with_a_reason_is_that_reason_even_when_another_goal_runs(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    watch = rig.port.watches_of(goal.goal_id)[0]
    assert watch.on_other is not None
    watch.on_other()
    goal.finish(GoalStatus.ABORTED, nav_result(208))
    await settle()
    assert rig.code(task_id) == "NAV2_NO_PATH"


async def test_a_second_drive_replaces_the_first_and_says_so(rig: Rig) -> None:
    """B8, H79."""
    first, _ = await rig.accepted()
    second = rig.bridge.begin("navigate_to", {"x_m": 1.0, "y_m": 1.0})
    assert second.replaces == (first,)
    await settle()
    failure = rig.info(first).failure
    assert failure is not None
    assert failure.error_code == "ROS_PREEMPTED"
    assert second.info.task_id in failure.message
    accepted = rig.payloads("progress", second.info.task_id)[0]
    assert accepted["replaces"] == [first]
    assert rig.bridge.running() == [second.info.task_id]


async def test_a_refused_newer_goal_explains_no_abort(rig: Rig) -> None:
    rig.port.acceptance.extend(["accept", "reject", "reject"])
    first, goal = await rig.accepted()
    second = await rig.start()
    await rig.clock.advance(1.0)
    assert rig.code(second.task_id) == "ROS_GOAL_REJECTED"
    assert rig.info(first).state == "running"
    goal.finish(GoalStatus.ABORTED)
    await rig.clock.advance(1.0)
    assert rig.code(first) == "ROS_ABORTED_NO_REASON"


async def test_a_replaced_goal_that_has_not_left_never_leaves(rig: Rig) -> None:
    """An older goal must not overtake a newer one, not even by its retry."""
    rig.port.acceptance.extend(["reject", "accept"])
    first = await rig.start()
    await settle()
    assert rig.run(first.task_id).state is RunState.BACKING_OFF
    second = await rig.start()
    await rig.clock.advance(2.0)
    assert rig.code(first.task_id) == "ROS_PREEMPTED"
    assert len(rig.port.goals) == 2
    assert rig.info(second.task_id).state == "running"


async def test_by_the_policy_refuse_a_second_drive_is_not_sent() -> None:
    """B8."""
    from robot_mcp_kit.errors import TaskError

    rig = make_rig(policy="refuse")
    first, goal = await rig.accepted()
    with pytest.raises(TaskError, match=first) as caught:
        await rig.start()
    assert caught.value.error_code == "ROS_BUSY"
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert (await rig.start()).state == "running"
    await take_down(rig)


async def test_a_dead_server_fails_the_task_within_its_timeout(rig: Rig) -> None:
    """B26, E40: nothing in ROS completes the result."""
    task_id, goal = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(4.5)
    assert rig.info(task_id).state == "running"
    await rig.clock.advance(1.5)
    assert rig.code(task_id) == "ROS_SERVER_LOST"
    rig.port.come_back()
    await rig.clock.advance(5.0)
    assert rig.port.requests("send") == [goal.goal_id]


async def test_a_goal_reported_as_lost_is_cancelled_when_its_server_is_seen_again(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(6.0)
    assert rig.code(task_id) == "ROS_SERVER_LOST"
    rig.port.come_back(remembers=True)
    await settle()
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_a_server_out_of_sight_for_a_moment_is_not_lost(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(3.0)
    rig.port.come_back(remembers=True)
    await rig.clock.advance(10.0)
    assert rig.info(task_id).state == "running"
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert rig.info(task_id).state == "succeeded"


async def test_a_server_that_restarted_quickly_has_forgotten_the_goal(rig: Rig) -> None:
    """The first question for the result died with the server; asking again only reads."""
    task_id, goal = await rig.accepted()
    rig.port.die()
    await rig.clock.advance(3.0)
    rig.port.come_back()
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "ROS_RESULT_EXPIRED"
    assert rig.port.requests("send") == [goal.goal_id]


async def test_a_skill_that_breaks_on_the_result_fails_the_task_and_stops_no_goal_that_has_ended(
    rig: Rig,
) -> None:
    """A fault of ours fails the task loudly."""
    task_id, goal = await rig.accepted()

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("oops")

    rig.run(task_id).skill.outcome = broken
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert rig.code(task_id) == "INTERNAL"
    assert rig.port.requests("cancel") == []


async def test_when_ros_dies_every_task_says_so(rig: Rig) -> None:
    """A dead executor fails every running task loudly."""
    rig.port._one_at_a_time = False
    task_id, _ = await rig.accepted()
    await rig.bridge.lose_ros("ROS_EXECUTOR_DEAD", "The bridge lost its connection to ROS.")
    await settle()
    assert rig.code(task_id) == "ROS_EXECUTOR_DEAD"
    assert rig.bridge.running() == []


@pytest.mark.parametrize("drop", ["raise", "cancel"])
async def test_the_reason_of_a_dead_connection_beats_the_error_it_causes(rig: Rig, drop: str) -> None:
    broken: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def waits(goal_id: Any) -> Any:
        return await broken

    rig.port.get_result = waits  # type: ignore[method-assign]
    task_id, _ = await rig.accepted()
    if drop == "raise":
        broken.set_exception(RuntimeError("the thread is gone"))
    else:
        broken.cancel()
    await settle()
    await rig.bridge.lose_ros("ROS_EXECUTOR_DEAD", "The bridge lost its connection to ROS.")
    await settle()
    assert rig.code(task_id) == "ROS_EXECUTOR_DEAD"


async def test_a_result_that_cannot_be_asked_for_fails_the_task_and_cancels_the_goal(rig: Rig) -> None:
    async def fails(goal_id: Any) -> Any:
        raise RuntimeError("no such service")

    rig.port.get_result = fails  # type: ignore[method-assign]
    task_id, goal = await rig.accepted()
    await rig.clock.advance(1.1)
    assert rig.code(task_id) == "INTERNAL"
    assert rig.port.requests("cancel") == [goal.goal_id]


async def test_dropped_at_once_while_another_navigator_runs_says_busy() -> None:
    """Case A7: NavigateThroughPoses runs, Nav2 takes our goal and drops it."""
    rig = make_rig()
    through = ScriptedPort("/navigate_through_poses", "nav2_msgs/action/NavigateThroughPoses")
    rig.ports.ports = (rig.port, through)
    task_id, goal = await rig.accepted()
    run = rig.run(task_id)

    class Other:
        port, state, task_id = through, RunState.EXECUTING, "robo-other"

        def fail(self, failure: Any) -> None: ...

        def not_taken_over(self, by: str) -> None: ...

    bridge: Bridge = rig.bridge
    bridge._runs["robo-other"] = Other()  # type: ignore[assignment]
    goal.finish(GoalStatus.ABORTED)
    await rig.clock.advance(1.0)
    assert rig.code(task_id) == "NAV2_NAVIGATOR_BUSY"
    assert run.state is RunState.ENDED
    del bridge._runs["robo-other"]
    await take_down(rig)
