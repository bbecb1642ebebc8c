"""Carries out routines: one task that begins other skills one after the other.

The steps are ordinary tasks of the bridge, with their own goals, limits, approvals and stop. A routine holds
the parts of the robot it uses from its first step to its last, so that nothing slips in between. It does not
go on after a restart: its present step is followed to its end, no further one is begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from robot_mcp_kit.bridge.careful import carefully
from robot_mcp_kit.bridge.ledger import Change, Ledger, LedgerError, LedgerRow
from robot_mcp_kit.bridge.outcomes import NOTHING_SENT_STOP, Stop, task_error
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.bridge.stop_report import stopped_run
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.failures import INTERNAL, failure_from
from robot_mcp_kit.models import TaskFailure, TaskInfo
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.routines.routine import (
    PREEMPTED,
    ROUTINE_TYPE,
    Routine,
    StepFailed,
    Steps,
    cancelled_step,
)
from robot_mcp_kit.skills.world import World
from robot_mcp_kit.tasks import TaskContext, TaskManager

logger = logging.getLogger(__name__)

BeginStep = Callable[[str, dict[str, Any], str], GoalRun]
"""Begins a skill with arguments as a step of a task; raises ArgumentError or TaskError."""

MAY_MOVE = "The robot may still be moving."

HALTED = TaskFailure(
    error_code="ROUTINE_STOPPED",
    message="Everything was stopped, so no further step is begun.",
    suggestions=["get_task", "ask_person"],
)


class RoutineRun(Steps):
    """One routine that is being carried out."""

    def __init__(
        self,
        routine: Routine,
        arguments: SkillArguments,
        world: World,
        manager: TaskManager,
        ledger: Ledger,
        begin: BeginStep,
        on_end: Callable[[RoutineRun], None],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.routine, self.world = routine, world
        self.task_id = "?"
        self.moved = False
        self.halted = False
        """Stopped: no further step."""
        self.step_id: str | None = None
        self._arguments, self._manager, self._ledger = arguments, manager, ledger
        self._begin, self._on_end = begin, on_end
        self._steps: list[GoalRun] = []
        """Steps whose motion is not known to have ended, oldest first."""
        self._ctx: TaskContext | None = None
        self._count = 0
        self._done: list[str] = []

    @property
    def begun(self) -> bool:
        """Whether the body has begun."""
        return self._ctx is not None

    async def body(self, ctx: TaskContext) -> dict[str, Any]:
        """What the task manager runs. No step runs on when it is over, as far as the robot obeys."""
        self._ctx = ctx
        ending, code = Ending.FAILED, INTERNAL
        try:
            result = await self._carry_out(ctx)
            ending, code = Ending.SUCCEEDED, ""
            return result
        except TaskError as error:
            code = error.error_code
            raise
        except asyncio.CancelledError:
            ending, code = Ending.CANCELLED, ""
            self._tell_stop(await self._stop_steps())
            raise
        finally:
            self._end(ending, code or None)

    async def _carry_out(self, ctx: TaskContext) -> dict[str, Any]:
        """Run the routine and see to it that its steps have ended.

        Raises:
            TaskError: it failed, or a step's stop is not confirmed, whatever the routine says of itself.
        """
        result: dict[str, Any] = {}
        failure: TaskFailure | None = None
        cause: Exception | None = None
        try:
            result = await self.routine.run(self._arguments, self)
        except StepFailed as failed:
            failure, cause = self._blame(failed), failed
        except Exception as error:
            failure, cause = failure_from(error), error
        ctx.raise_if_cancelled()
        stop = await self._stop_steps()
        if failure is None and stop.confirmed:
            return result
        if not stop.confirmed:
            self._tell_stop(stop)
            known = failure if failure is not None else self._blame(self._not_stopped(stop))
            suggestions = list(dict.fromkeys(["stop", *known.suggestions]))
            update = {"message": f"{known.message} {MAY_MOVE}", "suggestions": suggestions}
            failure = known.model_copy(update=update)
        assert failure is not None  # noqa: S101 - one of the two is so
        raise task_error(failure) from cause

    def _blame(self, failed: StepFailed) -> TaskFailure:
        done = ", ".join(self._done)
        before = f"Done before: {done}." if done else "Nothing had moved before." if not self.moved else ""
        message = f"The step {failed.skill} failed: {failed.failure.message} {before}".rstrip()
        return failed.failure.model_copy(update={"message": message})

    # -- steps ------------------------------------------------------------------------------------

    async def begin(self, skill: str, arguments: dict[str, Any]) -> None:
        await self._begin_step(skill, arguments)

    async def _begin_step(self, skill: str, arguments: dict[str, Any]) -> str:
        """The step's task."""
        if self.halted:
            raise StepFailed(skill, HALTED)
        if self._ctx is not None:
            self._ctx.raise_if_cancelled()
        self._look_at_steps()
        self._count += 1
        try:
            run = self._begin(skill, arguments, self.task_id)
        except ArgumentError as error:
            message = f"{error.field}: {error.message}"
            raise StepFailed(skill, TaskFailure(error_code="INVALID_ARGUMENT", message=message)) from error
        except TaskError as error:
            failure = TaskFailure(
                error_code=error.error_code,
                message=error.message,
                recoverable=error.recoverable,
                suggestions=error.suggestions,
            )
            raise StepFailed(skill, failure) from error
        self.moved = True
        self.step_id = run.task_id
        self._steps.append(run)
        await self._progress(
            {"phase": "step", "step": self._count, "step_tool": skill, "step_task_id": run.task_id}
        )
        return run.task_id

    def step(self) -> TaskInfo | None:
        return None if self.step_id is None else self._manager.get(self.step_id)

    async def stop_step(self) -> None:
        stop = await self._stop_steps()
        if not stop.confirmed:
            raise self._not_stopped(stop)
        self.step_id = None

    def now_s(self) -> float:
        return self._clock.now()

    async def rest(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def do(self, skill: str, arguments: dict[str, Any]) -> dict[str, Any]:
        task_id = await self._begin_step(skill, arguments)
        remove = self._manager.add_change_listener(self._step_changed)
        try:
            ended = await self._manager.wait(task_id)
        finally:
            remove()
        self.step_id = None
        if ended is None:
            message = f"The record of its task {task_id} is gone, so how it ended is not known."
            raise StepFailed(skill, TaskFailure(error_code="STEP_UNKNOWN", message=message))
        if ended.state == "succeeded":
            self._done.append(skill)
            return ended.result or {}
        raise StepFailed(skill, ended.failure or cancelled_step(ended))

    async def tell(self, phase: str) -> None:
        await self._progress({"phase": phase, "done": list(self._done)})

    async def _progress(self, payload: dict[str, Any]) -> None:
        if self._ctx is not None:
            await self._ctx.progress(payload)

    def _step_changed(self, info: TaskInfo) -> None:
        """While a step waits for a person, so does the routine."""
        if info.task_id == self.step_id and (info.progress or {}).get("phase") == "awaiting_approval":
            self._manager.annotate(self.task_id, {"phase": "awaiting_approval"})

    # -- the steps' ends --------------------------------------------------------------------------

    async def _stop_steps(self) -> Stop:
        """Cancel the steps that run and wait for their tasks' ends, which are within the contract's grace."""
        running = [
            run.task_id
            for run in self._steps
            if (info := self._manager.get(run.task_id)) is not None and info.state == "running"
        ]
        answers = await asyncio.gather(*map(self._manager.cancel, running), return_exceptions=True)
        for task_id, answer in zip(running, answers, strict=True):
            if isinstance(answer, BaseException):
                logger.error("task %s: cancelling the step %s failed: %r", self.task_id, task_id, answer)
        return self._look_at_steps()

    def _look_at_steps(self) -> Stop:
        """What is known of the steps' motions; those that have ended are looked at no more."""
        stops = [(run, self._stop_of(run)) for run in self._steps]
        if not stops:
            return Stop(True, "No step was running.")
        unknown = [(run, stop) for run, stop in stops if not stop.confirmed]
        self._steps = [run for run, _ in unknown]
        return (unknown or stops)[-1][1]

    def _stop_of(self, run: GoalRun) -> Stop:
        info = self._manager.get(run.task_id)
        if info is not None and info.state == "running":
            return Stop(False, "It still runs.")  # its record does not say yet how it ended
        if run.state is RunState.PREPARED:
            return NOTHING_SENT_STOP  # its task ended before the body began
        told = stopped_run(run, info)
        if told.stop_confirmed and self._moves_for_another(run, info):
            return Stop(False, "The goal was replaced, and another goal moves the robot now.")
        return Stop(told.stop_confirmed, told.note)

    def _moves_for_another(self, run: GoalRun, info: TaskInfo | None) -> bool:
        """Whether somebody else's goal replaced this one. One of our own is a step like this."""
        if run.stop is not None or run.ending is not Ending.FAILED or not run.was_accepted:
            return False
        if info is not None and (info.failure is None or info.failure.error_code != PREEMPTED):
            return False
        return not any(run.task_id in step.replaces and step.was_accepted for step in self._steps)

    def _not_stopped(self, stop: Stop) -> StepFailed:
        run = self._steps[-1]
        info = self._manager.get(run.task_id)
        failure = None if info is None else info.failure
        if failure is None:
            failure = bridge_failure("ROS_CANCEL_UNCONFIRMED", action=run.port.name)
            if stop.note not in failure.message:
                failure = failure.model_copy(update={"message": f"{failure.message} {stop.note}"})
        return StepFailed(run.skill.name, failure)

    def _tell_stop(self, stop: Stop) -> None:
        """Polling tells whether the stop is confirmed (K94), and learns it when that comes late (B21)."""
        self._manager.annotate(self.task_id, {"stop_confirmed": stop.confirmed, "note": stop.note})
        for run in self._steps:
            if run.state is not RunState.ENDED:
                run.ended.add_done_callback(self._stopped_late)

    def _stopped_late(self, _: asyncio.Future[None]) -> None:
        stop = self._look_at_steps()
        if stop.confirmed:
            self._manager.annotate(self.task_id, {"stop_confirmed": True, "note": stop.note})

    # -- the end ----------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The task ended before its body began, so that nothing else will tell its end."""
        self._carefully(lambda: self._manager.annotate(self.task_id, NOTHING_SENT_STOP.payload(ended=True)))
        self._end(Ending.CANCELLED, None)

    def _end(self, ending: Ending, code: str | None) -> None:
        """Whatever breaks on the way, the end is written down and the parts of the robot are let go."""
        try:
            self._carefully(self._describe_world)
            self._carefully(lambda: self._write_end(ending, code))
        finally:
            self._on_end(self)

    def _carefully(self, step: Callable[[], object]) -> None:
        carefully(self.task_id, step)

    def _describe_world(self) -> None:
        """What is known of the world at the end goes with the task, so that a replay tells that world."""
        told: dict[str, Any] = {"moved": self.moved}
        try:
            facts = self.world.snapshot().facts()
            if facts:
                told["world"] = facts
        finally:
            self._manager.annotate(self.task_id, told)

    def _write_end(self, ending: Ending, code: str | None) -> None:
        self._ledger.note(self.task_id, Change(state=RunState.ENDED, ending=ending, error_code=code))


class Routines:
    """The routines of one bridge, and who holds which part of the robot.

    Args:
        manager: the tasks.
        ledger: where a routine is written down before its first step.
        begin: begins a step.
        clock: monotonic time, for routines that watch it.
    """

    def __init__(
        self, manager: TaskManager, ledger: Ledger, begin: BeginStep, clock: Clock | None = None
    ) -> None:
        self._manager, self._ledger, self._begin = manager, ledger, begin
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._runs: dict[str, RoutineRun] = {}

    def holder(self, resources: frozenset[str], part_of: str | None) -> str | None:
        """The task whose routine holds one of these parts, unless the asker is a step of it."""
        self._sweep()
        for task_id, run in self._runs.items():
            if task_id != part_of and not run.routine.resources.isdisjoint(resources):
                return task_id
        return None

    def check_free(self, action: str, resources: frozenset[str], part_of: str | None) -> None:
        """Raises TaskError ``ROS_BUSY`` when a routine holds one of these parts."""
        holder = self.holder(resources, part_of)
        if holder is not None:
            raise task_error(bridge_failure("ROS_BUSY", action=action, other=holder))

    def start(
        self,
        routine: Routine,
        arguments: SkillArguments,
        world: World,
        *,
        fingerprint: str,
        key: str | None,
        plain: dict[str, Any],
    ) -> TaskInfo:
        """Write it down and begin; nothing has moved when this returns.

        Raises:
            TaskError: the ledger cannot be written (``BRIDGE_LEDGER_UNAVAILABLE``).
        """
        run = RoutineRun(
            routine, arguments, world, self._manager, self._ledger, self._begin, self._ended, self._clock
        )
        info = self._manager.start(routine.name, run.body)
        run.task_id = info.task_id
        try:
            self._ledger.record(
                LedgerRow(
                    info.task_id,
                    routine.name,
                    "",
                    fingerprint,
                    key,
                    state=RunState.EXECUTING,
                    action_type=ROUTINE_TYPE,
                    arguments=plain,
                )
            )
        except Exception as error:
            # The caller hears an error: the routine must not run all the same.
            run.halted = True
            if not isinstance(error, LedgerError):
                raise
            raise task_error(
                bridge_failure("BRIDGE_LEDGER_UNAVAILABLE", action=routine.name, detail=f"{error}.")
            ) from error
        self._runs[info.task_id] = run
        return info

    def _ended(self, run: RoutineRun) -> None:
        self._runs.pop(run.task_id, None)

    def halt(self) -> list[str]:
        """Let no routine begin a further step; the ids of those that run."""
        for run in self._runs.values():
            run.halted = True
        return self.running()

    def running(self) -> list[str]:
        """Ids of the tasks whose routine runs."""
        self._sweep()
        return list(self._runs)

    def _sweep(self) -> None:
        """A task that ended before its body began never comes to the end of its body."""
        for task_id, run in list(self._runs.items()):
            info = None if run.begun else self._manager.get(task_id)
            if not run.begun and (info is None or info.state != "running"):
                run.abandon()
