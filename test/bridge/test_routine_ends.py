"""How routines end: their parts are let go whatever breaks, and no stop is claimed that nobody confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from robot_mcp_kit.bridge.ledger import Change, LedgerError, MemoryLedger
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.safety.approvals import Approver
from robot_mcp_kit.skills.base import GoalStatus, SkillArguments
from robot_mcp_kit.skills.routines.routine import Routine, StepFailed, Steps, fail
from robot_mcp_kit.skills.world import NoWorld, WorldSnapshot

from .conftest import Rig, make_rig, nav_result, settle, take_down

Flow = Callable[[Steps], Awaitable[Any]]


class Nothing(SkillArguments):
    pass


class Errand(Routine):
    """A routine that does what the test says."""

    name, title, description = "errand", "Errand", "Do what the test says."
    arguments = Nothing
    resources = frozenset({"base"})
    needs = ("navigate_to",)

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def check(self, arguments: SkillArguments) -> str:
        return "run an errand"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        await self._flow(steps)
        return {"message": "done"}


@dataclass
class Errands:
    """The bridge with one routine."""

    rig: Rig

    def begin(self, flow: Flow) -> str:
        """Begin it; its body has not begun when this returns."""
        self.rig.bridge.skills["errand"] = Errand(flow)
        return self.rig.bridge.begin("errand", {}).info.task_id

    async def driving(self, flow: Flow) -> str:
        """Begin it and let its first drive be accepted."""
        task_id = self.begin(flow)
        await self.rig.port.next_goal()
        await settle()
        return task_id

    def step(self, number: int = 0) -> TaskInfo:
        return [info for info in self.rig.manager.list() if info.tool == "navigate_to"][number]

    def told(self, task_id: str) -> dict[str, Any]:
        return self.rig.info(task_id).progress or {}

    async def cancelled(self, task_id: str) -> None:
        cancelling = asyncio.ensure_future(self.rig.manager.cancel(task_id))
        await self.passes(6)
        await cancelling
        assert self.rig.info(task_id).state == "cancelled"

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.5)):
            await self.rig.clock.advance(0.5)
            await settle()

    async def assert_free(self) -> None:
        """The base is nobody's."""
        await self.rig.accepted()


@pytest.fixture
async def errands(rig: Rig) -> Errands:
    return Errands(rig)


async def drive(steps: Steps) -> None:
    await steps.begin("navigate_to", {"place": "kitchen"})


async def forget(steps: Steps) -> None:
    """Return with a drive that runs."""
    await drive(steps)
    await steps.rest(1.0)


async def chase(steps: Steps) -> None:
    """As ``follow`` does it, for ten seconds."""
    await drive(steps)
    await steps.rest(10.0)
    await steps.stop_step()


async def chase_tidily(steps: Steps) -> None:
    """A routine that stops its step itself, also when it is cancelled."""
    try:
        await drive(steps)
        await steps.rest(10.0)
    finally:
        await steps.stop_step()


# -- stops that are not confirmed -----------------------------------------------------------------


@pytest.mark.parametrize("flow", [chase, chase_tidily])
@pytest.mark.parametrize("policy", ["agree", "silent", "reject"])
async def test_a_cancelled_routine_whose_drive_goes_on_does_not_claim_a_stop(
    errands: Errands, flow: Flow, policy: Any
) -> None:
    """K94 B21: and it learns of the stop when the server confirms it at last."""
    errands.rig.port.cancel_policy = policy
    task_id = await errands.driving(flow)
    await errands.cancelled(task_id)
    assert errands.told(task_id)["stop_confirmed"] is False
    assert "No step" not in errands.told(task_id)["note"]
    assert errands.rig.bridge.running() == [errands.step().task_id]
    errands.rig.port.goals[0].finish(GoalStatus.CANCELED)
    await settle()
    assert errands.told(task_id)["stop_confirmed"] is True
    assert "confirmed the stop" in errands.told(task_id)["note"]


async def test_a_routine_whose_drive_is_not_stopped_at_its_end_has_failed(errands: Errands) -> None:
    """L1 B21 K94: time is up, the drive goes on."""
    errands.rig.port.cancel_policy = "agree"
    task_id = await errands.driving(chase)
    await errands.passes(16)
    info = errands.rig.info(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "ROS_CANCEL_UNCONFIRMED"
    assert info.failure.message.endswith("The robot may still be moving.")
    assert "stop" in info.failure.suggestions
    assert errands.told(task_id)["stop_confirmed"] is False
    errands.rig.port.goals[0].finish(GoalStatus.CANCELED)
    await settle()
    assert errands.told(task_id)["stop_confirmed"] is True


async def test_a_routine_that_forgets_its_drive_is_over_when_that_has_stopped(errands: Errands) -> None:
    """L32: nothing moves for a routine that has ended."""
    task_id = await errands.driving(forget)
    await errands.passes(1)
    assert errands.rig.info(task_id).state == "succeeded"
    assert errands.step().state == "cancelled"
    assert errands.rig.bridge.running() == []


async def test_a_routine_that_forgets_a_drive_that_goes_on_has_failed(errands: Errands) -> None:
    """L1 K94"""
    errands.rig.port.cancel_policy = "agree"
    task_id = await errands.driving(forget)
    await errands.passes(7)
    assert errands.rig.code(task_id) == "ROS_CANCEL_UNCONFIRMED"
    assert errands.told(task_id)["stop_confirmed"] is False


async def lose_object(steps: Steps) -> None:
    await drive(steps)
    await steps.rest(1.0)
    fail("OBJECT_LOST", "It is out of sight.", "look")


async def break_down(steps: Steps) -> None:
    await drive(steps)
    await steps.rest(1.0)
    raise ZeroDivisionError("a fault of the routine")


@pytest.mark.parametrize(
    ("flow", "code", "words"),
    [
        (lose_object, "OBJECT_LOST", "It is out of sight."),
        (break_down, "INTERNAL", "a fault of the routine"),
    ],
)
@pytest.mark.parametrize("obeys", [True, False])
async def test_a_routine_that_fails_stops_its_drive_and_keeps_its_own_reason(
    errands: Errands, flow: Flow, code: str, words: str, obeys: bool
) -> None:
    """L4 K94"""
    errands.rig.port.cancel_policy = "stop" if obeys else "agree"
    task_id = await errands.driving(flow)
    await errands.passes(7)
    assert errands.rig.port.requests("cancel")
    info = errands.rig.info(task_id)
    assert info.failure is not None
    assert info.failure.error_code == code
    assert words in info.failure.message
    assert ("may still be moving" in info.failure.message) is not obeys
    assert errands.told(task_id).get("stop_confirmed") is (None if obeys else False)


async def test_a_routine_that_hides_its_cancel_is_cancelled_with_its_drive(errands: Errands) -> None:
    """K87 K94"""

    async def stubborn(steps: Steps) -> None:
        try:
            await chase(steps)
        except asyncio.CancelledError:
            return

    errands.rig.port.cancel_policy = "agree"
    task_id = await errands.driving(stubborn)
    await errands.cancelled(task_id)
    assert errands.rig.port.requests("cancel")
    assert errands.told(task_id)["stop_confirmed"] is False
    row = errands.rig.ledger.get(task_id)
    assert row is not None
    assert row.ending is Ending.CANCELLED


async def test_a_cancelled_routine_begins_no_step_to_put_things_right(errands: Errands) -> None:
    """K87 L32: whatever it does with its cancel."""

    async def stubborn(steps: Steps) -> None:
        try:
            await steps.rest(60.0)
        except asyncio.CancelledError:
            await drive(steps)

    task_id = errands.begin(stubborn)
    await settle()
    await errands.cancelled(task_id)
    assert [info.tool for info in errands.rig.manager.list()] == ["errand"]


async def test_a_cancel_while_the_drive_is_being_stopped_waits_for_the_same_stop(errands: Errands) -> None:
    """K94 B21"""
    errands.rig.port.cancel_policy = "agree"
    task_id = await errands.driving(chase)
    await errands.passes(11)
    assert errands.rig.info(task_id).state == "running"
    await errands.cancelled(task_id)
    assert errands.told(task_id)["stop_confirmed"] is False


async def test_a_drive_that_had_not_begun_needs_no_confirmation(errands: Errands) -> None:
    """K94: no false alarm either; cancelled in the moment in which the step was made."""
    made = asyncio.Event()

    async def flow(steps: Steps) -> None:
        await drive(steps)
        made.set()
        await steps.rest(10.0)

    task_id = errands.begin(flow)
    await made.wait()
    await errands.rig.manager.cancel(errands.step().task_id)
    await errands.cancelled(task_id)
    assert errands.rig.port.goals == []
    assert errands.told(task_id)["stop_confirmed"] is True
    assert errands.told(task_id)["note"] == "Nothing had been sent."


# -- steps whose end is not known -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_a_routine_whose_drive_was_lost_does_not_claim_a_stop(errands: Errands, how: str) -> None:
    """K94 B22: the server disappeared while it drove; then everything is stopped."""
    rig = errands.rig

    async def flow(steps: Steps) -> None:
        await drive(steps)
        await steps.rest(60.0)

    task_id = await errands.driving(flow)
    rig.port.die()
    await errands.passes(6)
    assert rig.code(errands.step().task_id) == "ROS_SERVER_LOST"
    if how == "cancel":
        await errands.cancelled(task_id)
    else:
        report = await rig.bridge.stop("a test")
        assert [(task.task_id, task.stop_confirmed) for task in report.tasks] == [
            (errands.step().task_id, False),
            (task_id, False),
        ]
        assert not report.all_confirmed
        assert "not known" in report.tasks[1].note
    assert errands.told(task_id)["stop_confirmed"] is False


async def test_a_routine_fails_with_what_befell_its_drive(errands: Errands) -> None:
    """L1 K94: nobody looked at the drive before the time was up."""
    task_id = await errands.driving(chase)
    errands.rig.port.die()
    await errands.passes(12)
    info = errands.rig.info(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "ROS_SERVER_LOST"
    assert "may still be moving" in info.failure.message
    assert errands.told(task_id)["stop_confirmed"] is False


async def test_a_step_that_is_waited_for_and_lost_is_told_as_one_that_may_move(errands: Errands) -> None:
    """L1 K94"""

    async def flow(steps: Steps) -> None:
        await steps.do("navigate_to", {"place": "kitchen"})

    task_id = await errands.driving(flow)
    errands.rig.port.die()
    await errands.passes(6)
    assert errands.rig.code(task_id) == "ROS_SERVER_LOST"
    assert errands.told(task_id)["stop_confirmed"] is False


async def test_a_lost_step_that_the_routine_puts_up_with_is_not_forgotten(errands: Errands) -> None:
    """L1 K94: it is no success while something may move."""

    async def flow(steps: Steps) -> None:
        with pytest.raises(StepFailed):
            await steps.do("navigate_to", {"place": "kitchen"})

    task_id = await errands.driving(flow)
    errands.rig.port.die()
    await errands.passes(6)
    assert errands.rig.code(task_id) == "ROS_SERVER_LOST"


async def test_a_drive_that_ended_by_itself_is_a_confirmed_end(errands: Errands) -> None:
    """K94: a failure whose end the server told is no reason for doubt."""
    task_id = await errands.driving(chase)
    errands.rig.port.goals[0].finish(GoalStatus.ABORTED, nav_result(208))
    await errands.passes(1)
    assert errands.rig.code(errands.step().task_id) == "NAV2_NO_PATH"
    await errands.cancelled(task_id)
    assert errands.told(task_id)["stop_confirmed"] is True


async def test_a_step_that_ended_long_ago_leaves_no_doubt_when_its_record_is_gone(errands: Errands) -> None:
    """K94: the routine put up with its failure and went on."""

    async def flow(steps: Steps) -> None:
        with pytest.raises(StepFailed):
            await steps.do("navigate_to", {"place": "kitchen"})
        await steps.do("navigate_to", {"place": "kitchen"})

    rig = errands.rig
    rig.manager.max_finished_retained = 1
    task_id = await errands.driving(flow)
    rig.port.goals[0].finish(GoalStatus.ABORTED, nav_result(208))
    await errands.passes(1)
    rig.port.goals[1].finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    info = rig.info(task_id)
    assert info.state == "succeeded", info.failure


async def test_a_drive_replaced_by_the_next_one_leaves_no_doubt(errands: Errands) -> None:
    """K94 B8: the next one answers for both."""

    async def flow(steps: Steps) -> None:
        for _ in range(4):
            await drive(steps)
            await steps.rest(1.0)
        await steps.stop_step()

    task_id = await errands.driving(flow)
    await errands.passes(6)
    assert len(errands.rig.port.goals) == 4
    assert errands.rig.code(errands.step(0).task_id) == "ROS_PREEMPTED"
    assert errands.rig.info(task_id).state == "succeeded", errands.rig.info(task_id).failure


@pytest.mark.parametrize("cancel", [True, False])
async def test_a_drive_replaced_by_somebody_elses_goal_leaves_the_robot_moving(
    errands: Errands, cancel: bool
) -> None:
    """K94 B10: the robot is in other hands."""
    task_id = await errands.driving(chase)
    errands.rig.port.other_client_takes_over()
    await errands.passes(3)
    assert errands.rig.code(errands.step().task_id) == "ROS_PREEMPTED"
    if cancel:
        await errands.cancelled(task_id)
    else:
        await errands.passes(10)
        assert errands.rig.code(task_id) == "ROS_PREEMPTED"
    assert errands.told(task_id)["stop_confirmed"] is False


async def test_a_drive_whose_successor_was_refused_is_stopped_too(errands: Errands) -> None:
    """B22: the older one drives on, because nothing replaced it."""

    async def flow(steps: Steps) -> None:
        await drive(steps)
        await steps.rest(1.0)
        await drive(steps)
        await steps.rest(5.0)
        await steps.stop_step()

    rig = errands.rig
    task_id = await errands.driving(flow)
    rig.port.acceptance.extend(["reject", "reject"])
    await errands.passes(4)
    assert rig.code(errands.step(1).task_id) == "ROS_GOAL_REJECTED"
    assert errands.step(0).state == "running"
    await errands.passes(4)
    assert rig.port.requests("cancel") == [rig.port.goals[0].goal_id]
    assert rig.info(task_id).state == "succeeded", rig.info(task_id).failure
    assert rig.bridge.running() == []


async def test_a_drive_replaced_by_somebody_else_while_the_next_one_was_refused(errands: Errands) -> None:
    """K94 B10: the next one does not answer for it, because the robot never was its."""

    async def flow(steps: Steps) -> None:
        await drive(steps)
        await steps.rest(1.0)
        await drive(steps)
        await steps.rest(5.0)
        await steps.stop_step()

    rig = errands.rig
    task_id = await errands.driving(flow)
    rig.port.acceptance.extend(["hold", "reject"])
    await errands.passes(1)
    rig.port.other_client_takes_over()
    rig.port.goals[1].reject()
    await errands.passes(6)
    assert [rig.code(errands.step(n).task_id) for n in (0, 1)] == ["ROS_PREEMPTED", "ROS_GOAL_REJECTED"]
    assert rig.code(task_id) == "ROS_PREEMPTED"
    assert errands.told(task_id)["stop_confirmed"] is False


# -- the end is reached ---------------------------------------------------------------------------


class Blind(NoWorld):
    """Sensors whose messages cannot be read."""

    def __init__(self) -> None:
        self.blind = False

    def snapshot(self) -> WorldSnapshot:
        if self.blind:
            raise IndexError("array index out of range")
        return super().snapshot()


class Torn(MemoryLedger):
    """A ledger that cannot note the end of a routine."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def note(self, task_id: str, change: Change) -> None:
        row = self.get(task_id)
        if row is not None and row.skill == "errand":
            raise self._error
        super().note(task_id, change)


@pytest.fixture
async def blind() -> AsyncIterator[tuple[Errands, Blind]]:
    world = Blind()
    rig = make_rig(world=world)
    yield Errands(rig), world
    await take_down(rig)


async def test_a_world_that_cannot_be_asked_keeps_no_part_of_the_robot(
    blind: tuple[Errands, Blind], caplog: pytest.LogCaptureFixture
) -> None:
    """L4: the description of the world is left out, the end is not."""
    errands, world = blind

    async def flow(steps: Steps) -> None:
        world.blind = True

    task_id = errands.begin(flow)
    await settle()
    world.blind = False
    assert errands.rig.info(task_id).state == "succeeded"
    assert errands.told(task_id)["moved"] is False
    assert "array index out of range" in caplog.text
    row = errands.rig.ledger.get(task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.SUCCEEDED)
    await errands.assert_free()


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), RuntimeError("a fault")])
async def test_an_end_that_cannot_be_written_down_keeps_no_part_of_the_robot(error: Exception) -> None:
    """B2: the task has its end all the same."""
    rig = make_rig(ledger=Torn(error))
    errands = Errands(rig)

    async def flow(steps: Steps) -> None:
        await steps.rest(0)

    task_id = errands.begin(flow)
    await settle()
    assert rig.info(task_id).state == "succeeded"
    await errands.assert_free()
    await take_down(rig)


async def test_a_routine_cancelled_before_it_began_keeps_no_part_of_the_robot(errands: Errands) -> None:
    """L32 K82: its body never runs."""
    rig = errands.rig
    task_id = errands.begin(drive)
    await rig.manager.cancel(task_id)
    await errands.assert_free()
    assert rig.info(task_id).state == "cancelled"
    assert errands.told(task_id)["stop_confirmed"] is True
    assert errands.told(task_id)["moved"] is False
    row = rig.ledger.get(task_id)
    assert row is not None
    assert (row.state, row.ending) == (RunState.ENDED, Ending.CANCELLED)


async def test_a_routine_cancelled_in_its_first_moment_keeps_no_part_of_the_robot(errands: Errands) -> None:
    """L32 K82: its task exists, and ends before its first step."""
    task_id = errands.begin(drive)
    cancelling = asyncio.get_running_loop().create_future()

    def cancel() -> None:
        cancelling.set_result(asyncio.ensure_future(errands.rig.manager.cancel(task_id)))

    asyncio.get_running_loop().call_soon(cancel)
    await (await cancelling)
    assert errands.rig.port.goals == []
    assert errands.rig.info(task_id).state == "cancelled"
    await errands.assert_free()


# -- halted ---------------------------------------------------------------------------------------


async def test_no_further_step_after_an_emergency_stop_even_when_it_was_reset_meanwhile(
    errands: Errands,
) -> None:
    """B22 L32: the routine was between two steps, where nothing of it could be cancelled."""
    rig, looked = errands.rig, asyncio.Event()

    async def flow(steps: Steps) -> None:
        await steps.do("navigate_to", {"place": "kitchen"})
        await looked.wait()
        await steps.do("navigate_to", {"place": "kitchen"})

    task_id = await errands.driving(flow)
    rig.port.goals[0].finish(GoalStatus.SUCCEEDED, nav_result())
    await settle()
    rig.bridge.guard.latch("a test", "a test")
    rig.bridge.guard.reset_estop(Approver("tester", "test"))
    looked.set()
    await settle()
    assert rig.code(task_id) == "ROUTINE_STOPPED"
    assert len(rig.port.goals) == 1
    await errands.assert_free()


async def test_a_routine_that_wakes_while_everything_is_stopped_begins_no_step(errands: Errands) -> None:
    """B22 L32: the cancel requests are on their way, its own task is not cancelled yet."""
    rig, looked = errands.rig, asyncio.Event()

    async def flow(steps: Steps) -> None:
        await looked.wait()
        await drive(steps)
        await steps.rest(60.0)

    task_id = errands.begin(flow)
    await settle()
    stopping = asyncio.ensure_future(rig.bridge.stop("a test"))
    asyncio.get_running_loop().call_soon(looked.set)
    await stopping
    await settle()
    assert rig.info(task_id).state != "running"
    assert [info.tool for info in rig.manager.list()] == ["errand"]
    assert rig.port.wire == []


async def test_a_routine_that_deals_with_its_cancel_begins_no_step_after_a_stop(errands: Errands) -> None:
    """B22 L32: its task is cancelled, and it goes on to put things right."""
    rig = errands.rig
    said: list[str] = []

    async def flow(steps: Steps) -> None:
        try:
            await steps.rest(60.0)
        finally:
            try:
                await drive(steps)
            except (StepFailed, TaskError) as error:
                said.append(str(error))

    errands.begin(flow)
    await settle()
    await rig.bridge.stop("a test")
    await settle()
    assert len(said) == 1
    assert [info.tool for info in rig.manager.list()] == ["errand"]
