"""From the call to the accepted goal."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from robot_mcp_kit.bridge.base import GoalResult
from robot_mcp_kit.bridge.ledger import Change, LedgerError, LedgerRow, MemoryLedger
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.errors import ArgumentError, GoalFieldError, TaskError
from robot_mcp_kit.safety.approvals import Approver
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.testing.scripted import ScriptedPort

from .conftest import Rig, make_rig, nav_feedback, nav_result, settle, take_down


async def test_start_answers_before_the_goal_is_sent(rig: Rig) -> None:
    """B1: running at once; the goal leaves afterwards."""
    rig.port.die()
    info = await rig.start()
    assert info.state == "running"
    assert info.tool == "navigate_to"
    assert rig.port.wire == []


async def test_the_ledger_row_is_there_before_the_goal_leaves(rig: Rig) -> None:
    """B2: task, skill, action, goal id, hash and key are written before the send."""
    seen: list[Any] = []
    send = rig.port.send_goal

    async def spying(goal_id: Any, fields: Any) -> Any:
        seen.append(rig.ledger.get(info.task_id))
        return await send(goal_id, fields)

    rig.port.send_goal = spying  # type: ignore[method-assign]
    info = await rig.start(idempotency_key="k1")
    row = rig.ledger.get(info.task_id)
    assert row is not None
    assert row.goal_id is None
    assert row.state is RunState.PREPARED
    goal = await rig.port.next_goal()
    row = seen[0]
    assert (row.task_id, row.skill, row.action) == (info.task_id, "navigate_to", "/navigate_to_pose")
    assert (row.goal_id, row.state, row.idempotency_key) == (str(goal.goal_id), RunState.SENDING, "k1")
    assert len(row.arguments_hash) == 64


async def test_a_new_task_never_gets_the_id_of_a_row_that_is_still_kept() -> None:
    """B2, K14: the ledger keeps more ended rows than the manager keeps tasks."""
    book = MemoryLedger()
    book.record(LedgerRow("robo-aaaaaa", "navigate_to", "/navigate_to_pose", "hash", None))
    draws = iter(["aaaaaa", "bbbbbb"])
    rig = make_rig(ledger=book, new_suffix=lambda: next(draws))
    assert (await rig.start()).task_id == "robo-bbbbbb"
    await take_down(rig)


async def test_a_start_that_breaks_leaves_no_goal_behind() -> None:
    """B2: whatever went wrong after the task was made, the caller heard an error, so nothing moves."""

    class Broken(MemoryLedger):
        def record(self, row: Any) -> None:
            raise RuntimeError("a fault of ours")

    rig = make_rig(ledger=Broken())
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await rig.start()
    await settle()
    assert rig.port.wire == []
    (info,) = rig.manager.list()
    assert info.state == "failed"
    assert rig.code(info.task_id) == "INTERNAL"
    await take_down(rig)


async def test_a_ledger_that_cannot_be_written_refuses_the_start() -> None:
    """B28: fail closed. Nothing is sent."""

    class Full(MemoryLedger):
        def record(self, row: Any) -> None:
            raise LedgerError("the disk is full")

    rig = make_rig(ledger=Full())
    with pytest.raises(TaskError, match="the disk is full") as caught:
        await rig.start()
    assert caught.value.error_code == "BRIDGE_LEDGER_UNAVAILABLE"
    await settle()
    assert rig.port.wire == []
    assert [info.state for info in rig.manager.list()] == ["failed"]
    await take_down(rig)


async def test_a_ledger_that_fails_later_keeps_the_goal_at_home() -> None:
    class Locked(MemoryLedger):
        def update(self, task_id: str, change: Change) -> None:
            if change.state is RunState.SENDING:
                raise LedgerError("locked")
            super().update(task_id, change)

    rig = make_rig(ledger=Locked())
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == "BRIDGE_LEDGER_UNAVAILABLE"
    assert rig.port.wire == []
    await take_down(rig)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"place": "kitchn"}, "place"),
        ({"x_m": math.nan, "y_m": 1.0}, "x_m"),
        ({"x_m": 1.0, "y_m": math.inf}, "y_m"),
        ({"x_m": 1.0, "y_m": 1.0, "yaw_rad": 90}, "yaw_rad"),
        ({"x_m": 1.0, "y_m": 1.0, "frame": "mapp"}, "frame"),
        ({"x_m": 99.0, "y_m": 1.0}, "x_m"),
        ({"x_m": 1.0, "y_m": 1.0, "orientation": {"x": 0, "y": 0, "z": 0, "w": 0}}, "orientation"),
        ({"x_m": 1.0, "y_m": 1.0, "behavior_tree": "/tmp/evil.xml"}, "behavior_tree"),
    ],
)
async def test_nothing_of_an_invalid_goal_reaches_the_wire(rig: Rig, arguments: Any, field: str) -> None:
    """B7."""
    with pytest.raises(ArgumentError) as caught:
        await rig.bridge.start("navigate_to", arguments)
    assert caught.value.field == field
    await settle()
    assert rig.port.wire == []
    assert rig.manager.list() == []


async def test_a_wrong_trigger_is_refused_by_its_path(rig: Rig) -> None:
    with pytest.raises(ArgumentError) as caught:
        await rig.start(triggers=[{"type": "progress_above", "percent": 50}, {"type": "eta_below"}])
    assert caught.value.field == "triggers[1].seconds"
    assert rig.manager.list() == []


@pytest.mark.parametrize("triggers", ["eta_below", {"type": "eta_below"}, [["eta_below"]], 5])
async def test_triggers_of_another_shape_are_refused(rig: Rig, triggers: Any) -> None:
    with pytest.raises(ArgumentError, match="eta_below"):
        await rig.start(triggers=triggers)


async def test_an_unknown_skill_names_the_nearest(rig: Rig) -> None:
    with pytest.raises(ArgumentError, match='Did you mean "navigate_to"'):
        await rig.bridge.start("navigate_too", {})


async def test_a_goal_that_does_not_fit_the_type_is_refused(rig: Rig) -> None:
    rig.port.bad_field = GoalFieldError("pose.header", "no such field")
    with pytest.raises(TaskError, match=r"pose\.header") as caught:
        await rig.start()
    assert caught.value.error_code == "ROS_INVALID_GOAL"


async def test_a_type_that_is_not_installed_is_said(rig: Rig) -> None:
    rig.port.type_name = "nav2_msgs/action/Other"
    with pytest.raises(TaskError) as caught:
        await rig.start()
    assert caught.value.error_code == "ROS_TYPE_UNAVAILABLE"


async def test_no_server_fails_after_the_wait_and_names_what_there_is(rig: Rig) -> None:
    """B4, E42."""
    from robot_mcp_kit.testing.scripted import ScriptedPort

    rig.port.die()
    rig.ports.ports = (rig.port, ScriptedPort("/navigate_to_pos"), ScriptedPort("/spin"))
    info = await rig.start()
    await rig.clock.advance(4.9)
    assert rig.info(info.task_id).state == "running"
    await rig.clock.advance(0.2)
    failure = rig.info(info.task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_SERVER_UNAVAILABLE"
    assert "/navigate_to_pos" in failure.message
    assert rig.port.requests("send") == []


async def test_a_name_with_another_type_behind_it_is_told_as_that(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B4: not "nearest existing actions" with the very name."""
    rig.port.die()
    monkeypatch.setattr(rig.ports, "action_names", lambda: [rig.port.name])
    monkeypatch.setattr(rig.port, "servers", lambda: {b"1": "/other"})
    info = await rig.start()
    await rig.clock.advance(5.1)
    failure = rig.info(info.task_id).failure
    assert failure is not None
    assert "not with the type nav2_msgs/action/NavigateToPose" in failure.message
    assert "nearest" not in failure.message


async def test_a_server_that_appears_in_time_gets_the_goal(rig: Rig) -> None:
    rig.port.die()
    await rig.start()
    await rig.clock.advance(3.0)
    rig.port.come_back()
    await settle()
    assert len(rig.port.goals) == 1


async def test_two_servers_of_one_name_are_refused(rig: Rig) -> None:
    """B5, E43: the goal would run on both robots."""
    rig.port.join()
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == "ROS_SERVER_AMBIGUOUS"
    assert rig.port.requests("send") == []


async def test_a_refused_goal_is_tried_once_more_under_a_new_id(rig: Rig) -> None:
    """Case A6: Nav2 refuses while it starts; the first goal was definitely not taken."""
    rig.port.acceptance.extend(["reject", "accept"])
    info = await rig.start()
    await settle()
    assert len(rig.port.goals) == 1
    await rig.clock.advance(0.5)
    first, second = rig.port.requests("send")
    assert first != second
    row = rig.ledger.get(info.task_id)
    assert row is not None
    assert row.goal_id == str(second)
    assert rig.run(info.task_id).state is RunState.EXECUTING


async def test_refused_twice_fails_within_a_second(rig: Rig) -> None:
    """B4."""
    rig.port.acceptance.extend(["reject", "reject", "accept"])
    info = await rig.start()
    await rig.clock.advance(0.9)
    assert rig.code(info.task_id) == "ROS_GOAL_REJECTED"
    assert len(rig.port.goals) == 2
    row = rig.ledger.get(info.task_id)
    assert row is not None
    assert (row.state, row.ending, row.error_code) == (RunState.ENDED, Ending.FAILED, "ROS_GOAL_REJECTED")


async def test_a_refusal_is_not_retried_when_the_server_left(rig: Rig) -> None:
    rig.port.acceptance.append("reject")
    info = await rig.start()
    await settle()
    rig.port.die()
    await rig.clock.advance(0.6)
    assert rig.code(info.task_id) == "ROS_GOAL_REJECTED"
    assert len(rig.port.goals) == 1


@pytest.mark.parametrize("seen", [True, False])
async def test_a_lost_acceptance_is_looked_for_and_never_sent_again(rig: Rig, seen: bool) -> None:
    """B3: the server took the goal, its answer was lost; the result arrives under our own id. A goal that the
    status topic shows is not waited for.
    """
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    if seen:
        goal.take_without_answer()
        await settle()
    else:
        goal.accepted = True
        await rig.clock.advance(9.9)
        assert rig.run(info.task_id).state is RunState.SENDING
        await rig.clock.advance(0.2)
        goal.take_without_answer()
        await settle()
    assert rig.run(info.task_id).state is RunState.EXECUTING
    goal.feedback(nav_feedback(2.0, 3.0, 6.0, x_m=10.0))
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert rig.info(info.task_id).state == "succeeded"
    assert rig.port.requests("send") == [goal.goal_id]


async def test_an_answer_from_before_the_server_had_the_goal_does_not_end_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3 B24: asked too early, the server says that it does not know the goal; then it takes it."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    early: asyncio.Future[GoalResult] = asyncio.get_running_loop().create_future()

    async def answers_late(_: Any) -> GoalResult:
        return await early

    with monkeypatch.context() as patched:
        patched.setattr(rig.port, "get_result", answers_late)
        await rig.clock.advance(10.1)
        assert rig.run(info.task_id).state is RunState.SEARCHING
    early.set_result(GoalResult(GoalStatus.UNKNOWN, nav_result()))
    goal.take_without_answer()
    await rig.clock.advance(1.0)
    assert rig.run(info.task_id).state is RunState.EXECUTING
    goal.feedback(nav_feedback(2.0, 3.0, 6.0, x_m=10.0))
    goal.finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    assert rig.info(info.task_id).state == "succeeded"


async def test_a_lost_acceptance_whose_result_is_there_already_ends_right(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    goal.accepted = True
    goal.finish(GoalStatus.ABORTED, nav_result(208))
    await rig.clock.advance(10.1)
    assert rig.code(info.task_id) == "NAV2_NO_PATH"


async def test_a_goal_nobody_knows_fails_and_is_cancelled_to_be_sure(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await rig.clock.advance(10.1)
    assert rig.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert rig.port.requests("send") == [goal.goal_id]


async def test_an_acceptance_that_comes_after_the_end_is_cancelled(rig: Rig) -> None:
    """No goal runs with nobody to follow it."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await rig.clock.advance(10.1)
    assert rig.info(info.task_id).state == "failed"
    goal.accept()
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id, goal.goal_id]
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_an_acceptance_that_comes_late_but_in_the_search_counts(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(11.0)
    assert rig.run(info.task_id).state is RunState.SEARCHING
    goal.accept()
    await settle()
    assert rig.run(info.task_id).state is RunState.EXECUTING


async def test_a_refusal_that_comes_late_ends_the_search(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(11.0)
    goal.reject()
    await settle()
    assert rig.code(info.task_id) == "ROS_GOAL_REJECTED"
    assert len(rig.port.goals) == 1


async def test_a_send_that_raises_is_searched_for_not_repeated(rig: Rig) -> None:
    rig.port.acceptance.append(RuntimeError("the middleware stumbled"))
    info = await rig.start()
    await settle()
    await rig.clock.advance(5.1)
    assert rig.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    assert len(rig.port.requests("send")) == 1


async def test_the_same_key_and_arguments_are_one_task_and_one_motion(rig: Rig) -> None:
    """B6: running or ended."""
    task_id, goal = await rig.accepted(idempotency_key="go")
    again = await rig.start(idempotency_key="go")
    assert again.task_id == task_id
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    late = await rig.start(idempotency_key="go")
    assert (late.task_id, late.state) == (task_id, "succeeded")
    assert len(rig.port.goals) == 1


async def test_the_same_key_with_other_arguments_is_refused(rig: Rig) -> None:
    """B6."""
    task_id, _ = await rig.accepted(idempotency_key="go")
    with pytest.raises(ArgumentError, match=task_id) as caught:
        await rig.bridge.start("navigate_to", {"x_m": 1, "y_m": 1}, idempotency_key="go")
    assert caught.value.field == "idempotency_key"
    assert len(rig.port.goals) == 1


async def test_a_key_whose_task_is_forgotten_moves_nothing_again() -> None:
    rig = make_rig()
    rig.manager.max_finished_retained = 0
    _, goal = await rig.accepted(idempotency_key="go")
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    with pytest.raises(ArgumentError, match="not run again"):
        await rig.start(idempotency_key="go")
    assert len(rig.port.goals) == 1
    await take_down(rig)


@pytest.mark.parametrize("key", ["", "  ", 5, "x" * 201, ["a"]])
async def test_a_key_that_is_no_text_is_refused(rig: Rig, key: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        await rig.start(idempotency_key=key)
    assert caught.value.field == "idempotency_key"


async def test_fifty_starts_at_once_send_fifty_goals_each_once() -> None:
    """B30: none lost, none doubled."""
    rig = make_rig()
    rig.port._one_at_a_time = False
    ids = {(await rig.start()).task_id for _ in range(50)}
    # Earlier ones that had not left yet are superseded; whatever left, left once.
    await settle()
    sent = rig.port.requests("send")
    assert len(sent) == len(set(sent))
    for goal in rig.port.goals:
        goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert {rig.info(task_id).state for task_id in ids} <= {"succeeded", "failed"}
    assert rig.bridge.running() == []
    await take_down(rig)


async def test_a_goal_that_cannot_be_built_after_all_is_said_and_not_searched(rig: Rig) -> None:
    rig.port.acceptance.append(GoalFieldError("pose.pose", "is no pose"))
    info = await rig.start()
    await settle()
    assert rig.code(info.task_id) == "ROS_INVALID_GOAL"
    assert rig.port.requests("get_result") == []


async def test_a_status_of_our_goal_is_proof_that_it_was_taken(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(11.0)
    goal.status(GoalStatus.UNKNOWN)
    await settle()
    assert rig.run(info.task_id).state is RunState.SEARCHING
    goal.status(GoalStatus.EXECUTING)
    await settle()
    assert rig.run(info.task_id).state is RunState.EXECUTING


@pytest.mark.parametrize("wait_s", [1.0, 11.0])
async def test_a_dead_connection_before_the_acceptance_is_said(rig: Rig, wait_s: float) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(wait_s)
    await rig.bridge.lose_ros("ROS_EXECUTOR_DEAD", "gone")
    await settle()
    assert rig.code(info.task_id) == "ROS_EXECUTOR_DEAD"


async def test_a_search_that_finds_nothing_ends(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(14.9)
    assert rig.info(info.task_id).state == "running"
    await rig.clock.advance(0.2)
    assert rig.code(info.task_id) == "ROS_GOAL_RESPONSE_TIMEOUT"
    assert rig.port.requests("cancel") == [goal.goal_id]


async def test_a_server_that_dies_before_it_answers_is_lost(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    await rig.port.next_goal()
    rig.port.die()
    await rig.clock.advance(6.0)
    assert rig.code(info.task_id) == "ROS_SERVER_LOST"


class FullPort(ScriptedPort):
    """A server with so many unanswered goals that a further one would have to wait on its way."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.free = asyncio.Event()
        self.places = 0

    def has_place(self) -> bool:
        return self.free.is_set()

    async def reserve(self) -> None:
        await self.free.wait()
        self.places += 1

    def give_back(self) -> None:
        self.places -= 1


@pytest.fixture
async def full() -> AsyncIterator[tuple[Rig, FullPort]]:
    made = make_rig()
    port = FullPort(clock=made.clock)
    made.ports.ports = (port,)
    yield made, port
    await take_down(made)


@pytest.mark.parametrize("how", ["stop", "estop", "cancel"])
async def test_a_goal_that_waits_on_its_way_does_not_leave_after_a_stop(
    full: tuple[Rig, FullPort], how: str
) -> None:
    """B20, B22, R23: whatever the server answers later, and whatever else then becomes free."""
    rig, port = full
    info = await rig.start()
    await settle()
    assert rig.run(info.task_id).state is RunState.WAITING_FOR_TURN
    if how == "stop":
        await rig.bridge.stop("enough")
    elif how == "estop":
        rig.bridge.guard.latch("a test", "a test")
    else:
        await rig.manager.cancel(info.task_id)
    port.free.set()
    await settle()
    await rig.clock.advance(30.0)
    assert port.wire == []
    assert rig.info(info.task_id).state == ("failed" if how == "estop" else "cancelled")
    assert port.places == 0


async def test_a_place_that_comes_with_the_stop_is_given_back(full: tuple[Rig, FullPort]) -> None:
    """B22: in the same turn of the loop."""
    rig, port = full
    info = await rig.start()
    await settle()
    port.free.set()
    rig.run(info.task_id).request_cancel("enough")
    await settle()
    assert port.wire == []
    assert port.places == 0


async def test_a_goal_that_finds_no_place_in_time_says_that_it_was_not_sent(
    full: tuple[Rig, FullPort],
) -> None:
    """B2: not "no answer": there is nothing to look for, and no late surprise."""
    rig, port = full
    info = await rig.start()
    await rig.clock.advance(60.0)
    assert rig.code(info.task_id) == "ROS_SERVER_UNAVAILABLE"
    port.free.set()
    await settle()
    assert port.wire == []


async def test_a_second_server_that_appears_while_a_goal_waits_gets_nothing() -> None:
    """B5, E43: it was one when the task began."""
    rig = make_rig(approve=False)
    info = await rig.start()
    await settle()
    (pending,) = rig.bridge.guard.desk.pending()
    rig.port.join()
    rig.bridge.guard.decide(pending.token, True, Approver("ann", "operator"))
    await settle()
    assert rig.code(info.task_id) == "ROS_SERVER_AMBIGUOUS"
    assert rig.port.wire == []
    await take_down(rig)


async def test_looking_at_what_runs_changes_nothing(rig: Rig) -> None:
    """B22: the rclpy thread looks too; what a start or a stop goes through must not change under it."""
    info = await rig.start()
    await rig.manager.cancel(info.task_id)
    before = dict(rig.bridge._runs)
    assert rig.bridge.glance() == []
    assert rig.bridge._runs == before
    assert rig.bridge.running() == []
