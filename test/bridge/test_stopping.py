"""Cancel and stop: on the wire at once, and the truth about whether the robot stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.bridge.base import CancelReply
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.sqlite_file import SqliteFile

from .conftest import Rig, make_rig, nav_feedback, settle, take_down


async def cancel(rig: Rig, task_id: str, seconds: float = 0.0) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(rig.manager.cancel(task_id))
    await rig.clock.advance(seconds) if seconds else await settle()
    return task


async def test_a_cancel_is_on_the_wire_without_time_passing_and_is_confirmed(rig: Rig) -> None:
    """B20, K94."""
    task_id, goal = await rig.accepted()
    goal.feedback(nav_feedback(3.0, 8.0, 16.0, x_m=2.0))
    task = await cancel(rig, task_id)
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert task.done()
    info = rig.info(task_id)
    assert info.state == "cancelled"
    assert info.progress is not None
    assert info.progress["stop_confirmed"] is True
    assert info.progress["goal_status"] == "CANCELED"
    assert info.progress["distance_m"] == 8.0
    assert not [e for e in rig.events if e.type in ("task_failed", "task_done")]
    row = rig.ledger.get(task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.CANCELLED)


async def test_a_cancel_before_the_acceptance_goes_out_right_after_it(rig: Rig) -> None:
    """B20."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    task = await cancel(rig, info.task_id, 0.2)
    assert rig.port.requests("cancel") == []
    goal.accept()
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert task.done()
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_a_cancel_whose_acceptance_is_late_goes_out_once_before_and_once_after_it(rig: Rig) -> None:
    """B20 B22: the first finds no goal, which says nothing."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    task = await cancel(rig, info.task_id, 1.0)
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert rig.run(info.task_id).state is RunState.SENDING
    goal.accept()
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id] * 2
    assert task.done()
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True
    assert "cancel_code" not in progress


async def test_a_cancel_is_repeated_although_an_early_one_was_answered(rig: Rig) -> None:
    """B20: that nobody knew the goal then says nothing of now."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    cancelling = await cancel(rig, info.task_id, 1.0)
    rig.port.cancel_policy = "silent"
    goal.accept()
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id] * 2
    rig.port.cancel_policy = "stop"
    await rig.clock.advance(2.5)
    assert rig.port.requests("cancel") == [goal.goal_id] * 3
    assert goal.result.result().status == GoalStatus.CANCELED
    await cancelling


async def test_the_late_answer_to_an_early_cancel_is_not_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B23: it says nothing of the goal that the server took meanwhile."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    early: asyncio.Future[CancelReply] = asyncio.get_running_loop().create_future()

    async def answers_late(_: Any) -> CancelReply:
        return await early

    monkeypatch.setattr(rig.port, "cancel_goal", answers_late)
    cancelling = await cancel(rig, info.task_id, 1.0)
    monkeypatch.undo()
    rig.port.cancel_policy = "agree"
    goal.accept()
    await settle()
    early.set_result(CancelReply(code=2, canceling=False))
    await settle()
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert "cancel_code" not in progress
    goal.finish(GoalStatus.CANCELED)
    await settle()
    await cancelling


async def test_a_stop_does_not_wait_for_an_acceptance_that_was_lost(rig: Rig) -> None:
    """B22: neither where the server shows the goal nor where it does not."""
    rig.port.acceptance.extend(["hold", "hold"])
    info = await rig.start()
    goal = await rig.port.next_goal()
    goal.accepted = True  # and nothing is heard of it
    stopping = asyncio.ensure_future(rig.bridge.stop("enough"))
    await rig.clock.advance(0.3)
    assert goal.result.result().status == GoalStatus.CANCELED
    await settle()
    assert (await stopping).all_confirmed
    assert rig.info(info.task_id).state == "cancelled"
    info = await rig.start()
    goal = await rig.port.next_goal(2)
    await settle()
    goal.take_without_answer()
    await settle()
    assert (await rig.bridge.stop("enough")).all_confirmed
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_a_repeated_stop_is_on_the_wire_while_the_acceptance_is_awaited(rig: Rig) -> None:
    """B22."""
    rig.port.acceptance.append("hold")
    await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    stops = [asyncio.ensure_future(rig.bridge.stop("enough")) for _ in range(2)]
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id]
    goal.reject()
    await rig.clock.advance(1.0)
    assert all([(await stop).all_confirmed for stop in stops])


async def test_an_acceptance_after_a_cancel_that_found_no_goal_is_cancelled(rig: Rig) -> None:
    """B20: also when nobody answers for the result."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(11.0)
    assert rig.run(info.task_id).state is RunState.SEARCHING
    await cancel(rig, info.task_id)
    goal.accept()
    await settle()
    assert goal.result.result().status == GoalStatus.CANCELED


async def test_a_cancel_survives_the_grace_when_the_acceptance_is_late(rig: Rig) -> None:
    """The record is closed after 5 s, the goal is still cancelled when it turns out to exist."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await cancel(rig, info.task_id, 6.0)
    assert rig.info(info.task_id).state == "cancelled"
    goal.accept()
    await settle()
    assert goal.result.result().status == GoalStatus.CANCELED
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_a_cancel_while_searching_is_sent_at_once(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()

    async def hangs(goal_id: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    rig.port.get_result = hangs  # type: ignore[method-assign]
    await rig.clock.advance(11.0)
    assert rig.run(info.task_id).state is RunState.SEARCHING
    await cancel(rig, info.task_id)
    assert rig.port.requests("cancel") == [goal.goal_id]


async def test_a_cancel_of_a_goal_refused_meanwhile_sends_nothing_more(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    await cancel(rig, info.task_id)
    goal.reject()
    await rig.clock.advance(2.0)
    assert rig.info(info.task_id).state == "cancelled"
    assert rig.port.requests("send") == [goal.goal_id]
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_a_cancel_before_anything_was_sent_sends_nothing(rig: Rig) -> None:
    rig.port.die()
    info = await rig.start()
    await settle()
    task = await cancel(rig, info.task_id)
    assert task.done()
    rig.port.come_back()
    await rig.clock.advance(10.0)
    assert rig.port.wire == []
    assert rig.info(info.task_id).state == "cancelled"


async def test_a_cancel_between_refusal_and_retry_ends_there(rig: Rig) -> None:
    rig.port.acceptance.append("reject")
    info = await rig.start()
    await settle()
    await cancel(rig, info.task_id, 2.0)
    assert len(rig.port.goals) == 1
    assert rig.info(info.task_id).state == "cancelled"


async def test_a_cancel_before_the_first_step_leaves_no_run_behind(rig: Rig) -> None:
    """K82."""
    info = await rig.start()
    await rig.manager.cancel(info.task_id)
    assert rig.bridge.running() == []
    await rig.clock.advance(5.0)
    assert rig.port.wire == []
    row = rig.ledger.get(info.task_id)
    assert row is not None
    assert row.ending is Ending.CANCELLED


async def test_an_unconfirmed_stop_is_said_and_a_later_confirmation_updates_the_poll(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """B21, D33: the cancel is accepted, the robot goes on for 8 s."""
    rig.port.cancel_policy = "agree"
    task_id, goal = await rig.accepted()
    task = await cancel(rig, task_id, 4.4)
    assert not task.done()
    await rig.clock.advance(0.2)
    assert task.done()
    info = rig.info(task_id)
    assert info.state == "cancelled"
    assert info.progress is not None
    assert info.progress["stop_confirmed"] is False
    assert "do not assume" in info.progress["note"]
    assert "not confirmed" in caplog.text
    assert rig.bridge.running() == [task_id]
    await rig.clock.advance(3.4)
    goal.finish(GoalStatus.CANCELED)
    await settle()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True
    assert rig.bridge.running() == []
    assert not [e for e in rig.events if e.type in ("task_failed", "task_done")]


async def test_a_goal_that_succeeds_in_the_grace_is_cancelled_by_contract_and_said(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    task_id, goal = await rig.accepted()
    await cancel(rig, task_id, 1.0)
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    info = rig.info(task_id)
    assert info.state == "cancelled"
    assert info.progress is not None
    assert (info.progress["stop_confirmed"], info.progress["goal_status"]) == (True, "SUCCEEDED")


async def test_ended_by_another_goal_is_no_confirmed_stop(rig: Rig) -> None:
    """The goal is over, but the robot drives on for somebody else."""
    rig.port.cancel_policy = "agree"
    task_id, _ = await rig.accepted()
    await cancel(rig, task_id, 1.0)
    rig.port.other_client_takes_over()
    await settle()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert "another goal" in progress["note"]


@pytest.mark.parametrize(("policy", "code"), [("reject", 1), ("unknown", 2), ("refuse", 0)])
async def test_a_refused_cancel_is_told(rig: Rig, policy: Any, code: int) -> None:
    """B23, D35."""
    rig.port.cancel_policy = policy
    task_id, _ = await rig.accepted()
    await cancel(rig, task_id)
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["cancel_code"] == code
    assert progress["cancel_error"] == "ROS_CANCEL_REJECTED"
    await rig.clock.advance(5.0)
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False


async def test_already_terminated_is_not_an_error(rig: Rig) -> None:
    """B23, D34: the result decides."""
    rig.port.cancel_policy = "terminated"
    task_id, goal = await rig.accepted()
    await cancel(rig, task_id)
    # Nobody is told meanwhile that the robot refuses to stop, neither by polling nor by an event.
    meanwhile = [rig.info(task_id).progress or {}, *(event.payload for event in rig.events)]
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert not [told for told in meanwhile if "cancel_error" in told or "cancel_code" in told]
    assert not [told for told in meanwhile if "refused" in str(told.get("note"))]
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True
    assert "cancel_error" not in progress


async def test_a_cancel_without_an_answer_is_asked_again_but_not_for_ever(rig: Rig) -> None:
    rig.port.cancel_policy = "silent"
    task_id, goal = await rig.accepted()
    await cancel(rig, task_id, 1.9)
    assert len(rig.port.requests("cancel")) == 1
    await rig.clock.advance(30.0)
    assert rig.port.requests("cancel") == [goal.goal_id] * 3


async def test_cancels_in_parallel_are_one_request(rig: Rig) -> None:
    """D38."""
    task_id, goal = await rig.accepted()
    infos = await asyncio.gather(*(rig.manager.cancel(task_id) for _ in range(3)))
    assert {info.state for info in infos if info} == {"cancelled"}
    assert rig.port.requests("cancel") == [goal.goal_id]
    again = await rig.manager.cancel(task_id)
    assert again is not None
    assert again.state == "cancelled"
    assert rig.port.requests("cancel") == [goal.goal_id]


async def test_a_server_that_dies_while_stopping_is_no_confirmed_stop(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    task_id, _ = await rig.accepted()
    await cancel(rig, task_id, 0.5)
    rig.port.die()
    await rig.clock.advance(8.0)
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert rig.bridge.running() == []


async def test_stop_cancels_everything_whoever_started_it() -> None:
    """B22: every request is out before anything is awaited."""
    rig = make_rig()
    rig.port._one_at_a_time = False
    rig.port.cancel_policy = "agree"
    # The policy would let the newer goal supersede unsent ones, so each is accepted before the next starts.
    goals = [(await rig.accepted())[1] for _ in range(20)]
    stopping = asyncio.ensure_future(rig.bridge.stop("the person in the room said so"))
    await settle()
    assert sorted(rig.port.requests("cancel")) == sorted(goal.goal_id for goal in goals)
    assert not stopping.done()
    for goal in goals[1:]:
        goal.finish(GoalStatus.CANCELED)
    await rig.clock.advance(5.0)
    report = await stopping
    assert report.reason == "the person in the room said so"
    assert [task.stop_confirmed for task in report.tasks] == [False] + [True] * 19
    assert report.all_confirmed is False
    assert report.tasks[0].task_id in report.message
    assert {task.state for task in report.tasks} == {"cancelled"}
    await take_down(rig)


async def test_stop_writes_nothing_before_every_cancel_is_on_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: a disk may take half a second, and twenty goals are twenty rows; the trail is on a disk too."""
    file = SqliteFile(tmp_path / "ledger.db")
    rig = make_rig(ledger=SqliteLedger(file))
    rig.port._one_at_a_time = False
    rig.port.cancel_policy = "agree"
    goals = [(await rig.accepted())[1] for _ in range(20)]
    asked_when_writing: list[int] = []
    file.ride_along(lambda _: asked_when_writing.append(len(rig.port.requests("cancel"))), lambda: None)
    monkeypatch.setattr(
        rig.bridge.guard, "stopped", lambda *_: asked_when_writing.append(len(rig.port.requests("cancel")))
    )
    stopping = asyncio.ensure_future(rig.bridge.stop("the person in the room said so"))
    await settle()
    assert set(asked_when_writing) == {20}
    for goal in goals:
        goal.finish(GoalStatus.CANCELED)
    await rig.clock.advance(5.0)
    assert (await stopping).all_confirmed is True
    await take_down(rig)
    file.close()


async def test_stop_when_nothing_runs_says_so(rig: Rig) -> None:
    report = await rig.bridge.stop("just in case")
    assert report.tasks == []
    assert report.all_confirmed is True
    assert "Nothing was running" in report.message


async def test_a_repeated_stop_asks_again_for_what_is_not_confirmed(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    task_id, goal = await rig.accepted()
    first = asyncio.ensure_future(rig.bridge.stop("once"))
    await rig.clock.advance(5.0)
    assert (await first).all_confirmed is False
    rig.port.cancel_policy = "stop"
    second = asyncio.ensure_future(rig.bridge.stop("twice"))
    await rig.clock.advance(0.1)
    assert rig.port.requests("cancel") == [goal.goal_id] * 2
    await second
    assert rig.bridge.running() == []
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_stop_reaches_a_task_that_has_not_begun(rig: Rig) -> None:
    info = await rig.start()
    report = await rig.bridge.stop("at once")
    assert [(task.task_id, task.stop_confirmed) for task in report.tasks] == [(info.task_id, True)]
    await rig.clock.advance(5.0)
    assert rig.port.wire == []


async def test_stop_works_when_the_ledger_does_not(rig: Rig) -> None:
    """B28."""
    from robot_mcp_kit.bridge.ledger import LedgerError

    task_id, goal = await rig.accepted()

    def locked(*_: Any, **__: Any) -> None:
        raise LedgerError("locked")

    rig.ledger.update = locked  # type: ignore[method-assign]
    report = await rig.bridge.stop("now")
    assert report.all_confirmed is True
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert rig.info(task_id).state == "cancelled"


async def test_a_start_after_a_stop_runs_normally(rig: Rig) -> None:
    await rig.accepted()
    await rig.bridge.stop("pause")
    task_id, goal = await rig.accepted()
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert rig.info(task_id).state == "succeeded"


async def test_a_cancel_waiting_for_an_acceptance_that_never_comes_goes_out_anyway(rig: Rig) -> None:
    """B20: when the answer is lost, the cancel is sent for our own id, as soon as the goal shows."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    goal.take_without_answer()
    await cancel(rig, info.task_id)
    assert rig.port.requests("cancel") == [goal.goal_id]
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


async def test_a_cancel_of_a_goal_nobody_knows_is_no_confirmed_stop(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    info = await rig.start()
    await rig.port.next_goal()
    await cancel(rig, info.task_id, 12.0)
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is False
    assert progress["goal_status"] == "UNKNOWN"
    assert rig.bridge.running() == []


async def test_a_refused_cancel_after_the_grace_is_still_told(rig: Rig) -> None:
    rig.port.acceptance.append("hold")
    rig.port.cancel_policy = "reject"
    info = await rig.start()
    goal = await rig.port.next_goal()
    await cancel(rig, info.task_id, 6.0)
    goal.accept()
    await settle()
    progress = rig.info(info.task_id).progress
    assert progress is not None
    assert progress["cancel_code"] == 1


async def test_a_cancel_request_that_raises_does_not_end_the_watch(rig: Rig) -> None:
    async def fails(goal_id: Any) -> Any:
        raise RuntimeError("no connection")

    rig.port.cancel_goal = fails  # type: ignore[method-assign]
    task_id, goal = await rig.accepted()
    await cancel(rig, task_id, 1.0)
    goal.finish(GoalStatus.CANCELED)
    await settle()
    progress = rig.info(task_id).progress
    assert progress is not None
    assert progress["stop_confirmed"] is True


@pytest.mark.parametrize(("policy", "code"), [("reject", 1), ("refuse", 0)])
async def test_a_refused_cancel_stays_in_the_record(rig: Rig, policy: Any, code: int) -> None:
    """B23, D35: also after the grace, in the task and in the stop's report."""
    task_id, _ = await rig.accepted()
    rig.port.cancel_policy = policy
    stopping = asyncio.ensure_future(rig.bridge.stop("enough"))
    await settle()
    await rig.clock.advance(6.0)
    report = await stopping
    assert not report.all_confirmed
    assert "refused to stop the goal" in report.tasks[0].note
    progress = rig.info(task_id).progress
    assert progress is not None
    assert (progress["cancel_code"], progress["cancel_error"]) == (code, "ROS_CANCEL_REJECTED")
    assert progress["stop_confirmed"] is False


@pytest.mark.parametrize("decision", ["hold", "accept"])
async def test_the_end_of_the_bridge_asks_every_goal_to_stop_that_may_still_run(decision: Any) -> None:
    """B29: whether its acceptance or the answer to its cancel is not here yet."""
    rig = make_rig()
    rig.port.acceptance.append(decision)
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    rig.port.cancel_policy = "silent"
    closing = asyncio.ensure_future(rig.manager.aclose(1.0))
    await rig.clock.advance(0.9)
    before = len(rig.port.requests("cancel"))
    assert before == 1
    await rig.clock.advance(0.2)
    await closing
    assert rig.info(info.task_id).state == "cancelled"
    await rig.bridge.aclose()
    assert rig.port.requests("cancel")[before:] == [goal.goal_id]
    await rig.poster.aclose()


async def test_the_end_of_the_bridge_asks_nobody_who_has_answered(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    rig.port.cancel_policy = "agree"
    await cancel(rig, task_id, 6.0)
    await rig.bridge.aclose()
    assert rig.port.requests("cancel") == [goal.goal_id]
