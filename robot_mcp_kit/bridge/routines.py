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

from robot_mcp_kit.bridge.ledger import Change, Ledger, LedgerError, LedgerRow
from robot_mcp_kit.bridge.outcomes import task_error
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import TaskFailure, TaskInfo
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.routines.routine import ROUTINE_TYPE, Routine, StepFailed, Steps
from robot_mcp_kit.skills.world import World
from robot_mcp_kit.tasks import TaskContext, TaskManager

logger = logging.getLogger(__name__)

BeginStep = Callable[[str, dict[str, Any], str], TaskInfo]
"""Begins a skill with arguments as a step of a task; raises ArgumentError or TaskError."""

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
        self._ctx: TaskContext | None = None
        self._count = 0
        self._done: list[str] = []

    async def body(self, ctx: TaskContext) -> dict[str, Any]:
        """What the task manager runs."""
        self._ctx = ctx
        ending, code = Ending.FAILED, "INTERNAL"
        try:
            result = await self.routine.run(self._arguments, self)
            ending, code = Ending.SUCCEEDED, ""
            return result
        except StepFailed as failed:
            code = failed.failure.error_code
            raise task_error(self._blame(failed)) from failed
        except TaskError as error:
            code = error.error_code
            raise
        except asyncio.CancelledError:
            ending, code = Ending.CANCELLED, ""
            await self._cancel_step()
            raise
        finally:
            await self._describe_world()
            self._write_end(ending, code or None)
            self._on_end(self)

    def _blame(self, failed: StepFailed) -> TaskFailure:
        done = ", ".join(self._done)
        before = f"Done before: {done}." if done else "Nothing had moved before." if not self.moved else ""
        message = f"The step {failed.skill} failed: {failed.failure.message} {before}".rstrip()
        return failed.failure.model_copy(update={"message": message})

    # -- steps ------------------------------------------------------------------------------------

    async def begin(self, skill: str, arguments: dict[str, Any]) -> None:
        await self._begin_step(skill, arguments)

    async def _begin_step(self, skill: str, arguments: dict[str, Any]) -> TaskInfo:
        if self.halted:
            raise StepFailed(skill, HALTED)
        self._count += 1
        try:
            info = self._begin(skill, arguments, self.task_id)
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
        self.step_id = info.task_id
        await self._tell_step(skill, info)
        return info

    def step(self) -> TaskInfo | None:
        return None if self.step_id is None else self._manager.get(self.step_id)

    async def stop_step(self) -> None:
        running = self.step()
        if running is not None and running.state == "running":
            await self._manager.cancel(running.task_id)
        self.step_id = None

    def now_s(self) -> float:
        return self._clock.now()

    async def rest(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def do(self, skill: str, arguments: dict[str, Any]) -> dict[str, Any]:
        info = await self._begin_step(skill, arguments)
        remove = self._manager.add_change_listener(self._step_changed)
        try:
            ended = await self._manager.wait(info.task_id)
        finally:
            remove()
        self.step_id = None
        if ended is None:
            message = f"The record of its task {info.task_id} is gone, so how it ended is not known."
            raise StepFailed(skill, TaskFailure(error_code="STEP_UNKNOWN", message=message))
        if ended.state == "succeeded":
            self._done.append(skill)
            return ended.result or {}
        raise StepFailed(skill, ended.failure or _cancelled(ended))

    async def tell(self, phase: str) -> None:
        await self._progress({"phase": phase, "done": list(self._done)})

    async def _tell_step(self, skill: str, info: TaskInfo) -> None:
        await self._progress(
            {"phase": "step", "step": self._count, "step_tool": skill, "step_task_id": info.task_id}
        )

    async def _progress(self, payload: dict[str, Any]) -> None:
        if self._ctx is not None:
            await self._ctx.progress(payload)

    def _step_changed(self, info: TaskInfo) -> None:
        """While a step waits for a person, so does the routine."""
        if info.task_id == self.step_id and (info.progress or {}).get("phase") == "awaiting_approval":
            self._manager.annotate(self.task_id, {"phase": "awaiting_approval"})

    # -- the end ----------------------------------------------------------------------------------

    async def _cancel_step(self) -> None:
        """The present step is cancelled with the routine; its own stop is confirmed or not."""
        self.halted = True
        confirmed, note = True, "No step was running."
        if self.step_id is not None:
            info = await self._manager.cancel(self.step_id)
            told = (info.progress or {}) if info is not None else {}
            confirmed = told.get("stop_confirmed") is True or (info is not None and info.state != "cancelled")
            note = str(told.get("note") or "The step had already ended.")
        self._manager.annotate(self.task_id, {"stop_confirmed": confirmed, "note": note})

    async def _describe_world(self) -> None:
        """What is known of the world at the end goes with the task, so that a replay tells that world."""
        facts = self.world.snapshot().facts()
        self._manager.annotate(self.task_id, {"moved": self.moved, **({"world": facts} if facts else {})})

    def _write_end(self, ending: Ending, code: str | None) -> None:
        try:
            self._ledger.note(self.task_id, Change(state=RunState.ENDED, ending=ending, error_code=code))
        except LedgerError:
            logger.exception("task %s: the ledger missed the end of the routine", self.task_id)


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
        return list(self._runs)

    def running(self) -> list[str]:
        """Ids of the tasks whose routine runs."""
        return list(self._runs)


def _cancelled(info: TaskInfo) -> TaskFailure:
    note = str((info.progress or {}).get("note") or "")
    message = f"Its task {info.task_id} was cancelled. {note}".rstrip()
    return TaskFailure(error_code="STEP_CANCELLED", message=message, suggestions=["get_task", "ask_person"])
