"""Two actions that move one part of the robot: never at the same time, whatever their servers think of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.errors import ArgumentError, GoalFieldError, TaskError
from robot_mcp_kit.safety.approvals import Approver
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    Skill,
    SkillArguments,
)
from robot_mcp_kit.testing.scripted import ScriptedPort

from .conftest import Rig, make_rig, settle, take_down


class Nothing(SkillArguments):
    pass


class Silent(FeedbackReader):
    def read(self, feedback: Any, now_s: float) -> Sample | None:
        return None


class Turn(Skill):
    """A second way to move the base, through a server of its own."""

    name, title, description = "turn", "Turn", "Turn in place."
    action_name, action_type = "spin", "nav2_msgs/action/Spin"
    arguments = Nothing
    resources = frozenset({"base"})
    after_stop = "The base may roll on for a moment."

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        fields = {"target_yaw": 1.0, "time_allowance": {"sec": 10, "nanosec": 0}}
        return GoalSpec(fields, "turn", other_forms=({**fields, "old": True},))

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return Silent()

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        return Outcome("succeeded", {"turned": True})


class Wave(Turn):
    name, resources = "wave", frozenset({"arm"})


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = make_rig()
    made.bridge.skills["turn"] = Turn()
    made.bridge.skills["wave"] = Wave()
    made.ports.ports = (made.port, ScriptedPort("/spin", "nav2_msgs/action/Spin", clock=made.clock))
    yield made
    await take_down(made)


def spin(rig: Rig) -> ScriptedPort:
    return rig.ports.ports[1]


async def test_the_drive_is_stopped_before_the_turn_is_sent(rig: Rig) -> None:
    """B8: the answer says which task it replaces; the replaced one fails as such."""
    rig.port.cancel_policy = "agree"
    drive, goal = await rig.accepted()
    turn = rig.bridge.begin("turn", {})
    assert turn.replaces == (drive,)
    await settle()
    assert rig.port.requests("cancel") == [goal.goal_id]
    assert spin(rig).wire == []
    assert rig.run(turn.info.task_id).state is RunState.WAITING_FOR_TURN
    goal.finish(GoalStatus.CANCELED)
    await settle()
    assert rig.code(drive) == "ROS_PREEMPTED"
    failure = rig.info(drive).failure
    assert failure is not None
    assert turn.info.task_id in failure.message
    assert len(spin(rig).goals) == 1


async def test_a_drive_that_does_not_stop_keeps_the_turn_at_home(rig: Rig) -> None:
    rig.port.cancel_policy = "refuse"
    drive, _ = await rig.accepted()
    turn = await rig.bridge.start("turn", {})
    await rig.clock.advance(5.0)
    failure = rig.info(turn.task_id).failure
    assert failure is not None
    assert failure.error_code == "ROS_BUSY"
    assert drive in failure.message
    assert spin(rig).wire == []
    assert rig.info(drive).state == "running"


async def test_a_drive_that_arrives_while_it_is_stopped_has_arrived(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    drive, goal = await rig.accepted()
    await rig.bridge.start("turn", {})
    await settle()
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert rig.info(drive).state == "succeeded"
    assert len(spin(rig).goals) == 1


async def test_a_drive_that_was_not_sent_yet_is_simply_not_sent(rig: Rig) -> None:
    rig.port.die()
    drive = await rig.start()
    await settle()
    await rig.bridge.start("turn", {})
    await settle()
    assert rig.code(drive.task_id) == "ROS_PREEMPTED"
    assert rig.port.wire == []
    assert len(spin(rig).goals) == 1


async def test_the_turn_waits_for_a_cancelled_drive_that_still_moves(rig: Rig) -> None:
    """A cancelled task is over for its caller, its motion is not."""
    rig.port.cancel_policy = "agree"
    drive, goal = await rig.accepted()
    cancelling = asyncio.ensure_future(rig.manager.cancel(drive))
    await rig.clock.advance(4.9)
    assert cancelling.done()
    await rig.bridge.start("turn", {})
    await settle()
    assert spin(rig).wire == []
    goal.finish(GoalStatus.CANCELED)
    await settle()
    assert len(spin(rig).goals) == 1
    assert rig.info(drive).state == "cancelled"


async def test_a_turn_cancelled_while_it_waits_is_never_sent(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    await rig.accepted()
    turn = await rig.bridge.start("turn", {})
    await settle()
    await rig.manager.cancel(turn.task_id)
    await rig.clock.advance(10.0)
    assert spin(rig).wire == []
    assert rig.info(turn.task_id).state == "cancelled"


async def test_a_caller_who_cancels_a_drive_that_makes_way_sees_it_cancelled(rig: Rig) -> None:
    rig.port.cancel_policy = "agree"
    drive, goal = await rig.accepted()
    await rig.bridge.start("turn", {})
    await settle()
    cancelling = asyncio.ensure_future(rig.manager.cancel(drive))
    await settle()
    goal.finish(GoalStatus.CANCELED)
    await settle()
    assert (await cancelling) is not None
    assert rig.info(drive).state == "cancelled"
    row = rig.ledger.get(drive)
    assert row is not None
    assert row.ending is Ending.CANCELLED
    assert not [e for e in rig.events if e.type == "task_failed"]


async def test_another_part_of_the_robot_is_no_conflict(rig: Rig) -> None:
    drive, _ = await rig.accepted()
    wave = rig.bridge.begin("wave", {})
    await settle()
    assert wave.replaces == ()
    assert len(spin(rig).goals) == 1
    assert rig.info(drive).state == "running"


async def test_by_the_policy_refuse_a_drive_does_not_interrupt_a_turn() -> None:
    made = make_rig(policy="refuse")
    made.bridge.skills["turn"] = Turn()
    made.ports.ports = (made.port, ScriptedPort("/spin", "nav2_msgs/action/Spin", clock=made.clock))
    turn = await made.bridge.start("turn", {})
    await settle()
    with pytest.raises(TaskError, match=turn.task_id):
        await made.start()
    assert made.port.wire == []
    await take_down(made)


async def two_that_wait_for_a_person() -> tuple[Rig, str, str]:
    made = make_rig(approve=False)
    first, second = await made.start(), await made.start()
    await settle()
    assert len(made.bridge.guard.desk.pending()) == 2
    return made, first.task_id, second.task_id


def decide(rig: Rig, task_id: str, approve: bool) -> None:
    (pending,) = [one for one in rig.bridge.guard.desk.pending() if one.task_id == task_id]
    rig.bridge.guard.decide(pending.token, approve, Approver("ann", "operator"))


async def test_a_request_that_a_person_refuses_ends_none_that_waited_before_it() -> None:
    """B8: it never moved anything, so it takes over from nobody."""
    made, first, second = await two_that_wait_for_a_person()
    decide(made, second, False)
    await settle()
    assert made.info(second).state == "failed"
    assert made.info(first).state == "running"
    decide(made, first, True)
    await made.port.next_goal()
    await take_down(made)


async def test_a_request_that_a_person_approves_ends_those_that_still_wait_before_it() -> None:
    """B8: the older one cannot be approved any more, and the person sees it gone."""
    made, first, second = await two_that_wait_for_a_person()
    decide(made, second, True)
    await made.port.next_goal()
    await settle()
    assert made.code(first) == "ROS_PREEMPTED"
    assert made.bridge.guard.desk.pending() == []
    assert made.info(second).state == "running"
    assert len(made.port.goals) == 1
    await take_down(made)


async def test_what_a_skill_says_about_its_stop_is_told(rig: Rig) -> None:
    """D39: confirmed does not always mean at rest."""
    turn = await rig.bridge.start("turn", {})
    await settle()
    report = await rig.bridge.stop("enough")
    assert "roll on for a moment" in report.tasks[0].note
    progress = rig.info(turn.task_id).progress
    assert progress is not None
    assert "roll on" in progress["note"]


async def test_a_goal_is_sent_in_the_form_that_fits_the_installed_type(rig: Rig) -> None:
    port = spin(rig)

    def only_old(fields: Any) -> None:
        if "old" not in fields:
            raise GoalFieldError("old", "is missing")

    port.check_goal = only_old  # type: ignore[method-assign]
    await rig.bridge.start("turn", {})
    goal = await port.next_goal()
    assert goal.fields == {**Turn().goal(Nothing()).fields, "old": True}


async def test_arguments_of_a_skill_without_any_are_still_checked(rig: Rig) -> None:
    with pytest.raises(ArgumentError, match="no such argument"):
        await rig.bridge.start("turn", {"angle": 1})


async def test_a_server_that_would_run_both_gets_the_newer_goal_after_the_older_one_ended(rig: Rig) -> None:
    """B8: most servers run every goal they accept; "replaces" must be true for them as well."""
    port = spin(rig)
    older = await rig.bridge.start("turn", {})
    await port.next_goal()
    port.cancel_policy = "agree"
    newer = rig.bridge.begin("turn", {})
    assert newer.replaces == (older.task_id,)
    await settle()
    assert [kind for kind, _ in port.wire if kind != "get_result"] == ["send", "cancel"]
    port.goals[0].finish(GoalStatus.CANCELED)
    await port.next_goal(2)
    await settle()
    assert rig.code(older.task_id) == "ROS_PREEMPTED"
    assert rig.info(newer.info.task_id).state == "running"


@pytest.mark.parametrize("policy", ["replace", "refuse"])
async def test_a_goal_waits_for_one_that_still_stops_at_the_same_server(policy: str) -> None:
    """B8: what was cancelled moves until it has ended, whatever the second one's policy is."""
    made = make_rig(policy=policy)
    first, goal = await made.accepted()
    made.port.cancel_policy = "agree"
    cancelling = asyncio.ensure_future(made.manager.cancel(first))
    await settle()
    second = await made.start()
    await settle()
    assert len(made.port.goals) == 1
    goal.finish(GoalStatus.CANCELED)
    await cancelling
    await made.port.next_goal(2)
    assert made.info(first).state == "cancelled"
    assert made.info(second.task_id).state == "running"
    await take_down(made)


async def test_a_goal_does_not_wait_for_ever_for_one_that_does_not_stop(rig: Rig) -> None:
    """B8: nothing was sent, and the way out is told."""
    first, _ = await rig.accepted()
    rig.port.cancel_policy = "agree"
    cancelling = asyncio.ensure_future(rig.manager.cancel(first))
    await settle()
    second = await rig.start()
    await rig.clock.advance(6.0)
    await cancelling
    assert rig.code(second.task_id) == "ROS_BUSY"
    assert len(rig.port.goals) == 1
