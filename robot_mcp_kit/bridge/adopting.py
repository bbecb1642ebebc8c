"""Taking over what a bridge left that has ended: its finished tasks to read, its open goals to follow (B24).

Nothing is ever sent here. A goal that had not left stays at home and its task fails; a goal that may have
left is looked for by its UUID.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, ActionPorts
from robot_mcp_kit.bridge.ledger import Change, Ledger, LedgerRow
from robot_mcp_kit.bridge.outcomes import NOTHING_SENT_STOP, Stop, task_error
from robot_mcp_kit.bridge.plan import plan_from_json
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.run_core import Resumption
from robot_mcp_kit.bridge.states import PERHAPS_ACCEPTED, Ending, RunState, after_restart
from robot_mcp_kit.bridge.surroundings import Surroundings
from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.journal import SavedTask
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    Skill,
    SkillArguments,
)
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.config import Zone
from robot_mcp_kit.skills.routines.routine import ROUTINE_TYPE
from robot_mcp_kit.skills.triggers import TriggerSet
from robot_mcp_kit.tasks import TaskBody, TaskContext, TaskManager

logger = logging.getLogger(__name__)

RESTARTED = "ROS_BRIDGE_RESTARTED"
NOT_SENT = "The goal had not been sent and nothing moved; start it again if it is still wanted."
_NO_TASK = "its task has ended"


class GoneSkill(Skill):
    """Stands for a skill that the configuration no longer has: follows its goal, can be stopped, judges
    nothing.
    """

    title = "A skill of an earlier configuration"
    description = title
    arguments = SkillArguments
    trigger_types = frozenset()

    def __init__(self, row: LedgerRow, why: str) -> None:
        self.name, self.action_name, self.action_type = row.skill, row.action, row.action_type
        self._why = why

    def goal(self, arguments: SkillArguments) -> GoalSpec:  # noqa: ARG002
        raise ArgumentError("skill", f"{self.name} is not configured any more")

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        return _NoReader()

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        ended = GoalStatus(status).name
        detail = f"{self._why}, so its end is not judged; the action server called it {ended}."
        return Outcome("failed", failure=bridge_failure(RESTARTED, action=self.action_name, detail=detail))


class _NoReader(FeedbackReader):
    def read(self, feedback: Any, now_s: float) -> Sample | None:  # noqa: ARG002
        return None


class Adoption:
    """What a bridge does with its ledger before it starts anything.

    Args:
        ledger: of the bridge that has ended.
        manager: gets the tasks.
        ports: finds action servers.
        skills: of the present configuration.
        zones: for triggers.
        around: what a run of that skill gets from its bridge.
        add: takes a run that follows a goal.
    """

    def __init__(
        self,
        ledger: Ledger,
        manager: TaskManager,
        ports: ActionPorts,
        skills: Mapping[str, Skill],
        zones: Mapping[str, Zone],
        around: Callable[[Skill], Surroundings],
        add: Callable[[GoalRun], None],
    ) -> None:
        self._ledger, self._manager, self._ports = ledger, manager, ports
        self._skills, self._zones = skills, zones
        self._around, self._add = around, add

    async def run(self) -> list[str]:
        """Take over everything; the ids of the tasks whose goals are followed.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        for ended in self._ledger.ended_tasks(self._manager.max_finished_retained):
            self._manager.adopt(ended)
        followed = []
        for row in self._ledger.open_rows():
            saved = self._ledger.saved_task(row.task_id)
            if row.action_type == ROUTINE_TYPE:
                self._give_up(row, saved, _in_the_middle(saved))
            elif after_restart(row.state) is RunState.ENDED and row.state is not RunState.ENDED:
                self._give_up(row, saved, NOT_SENT, NOTHING_SENT_STOP)
            elif await self._follow(row, saved):
                followed.append(row.task_id)
        for stray in self._ledger.tasks_without_goal():
            self._manager.adopt(stray, _failing(_without_goal(stray)))
        return followed

    def _give_up(
        self,
        row: LedgerRow,
        saved: SavedTask | None,
        detail: str,
        stop: Stop | None = None,
        *,
        may_run: bool = False,
    ) -> None:
        """The task ends; there is no goal to follow.

        Args:
            detail: why.
            stop: of a cancelled task; not confirmed, with ``detail``, if left out.
            may_run: there may be a goal, which only cannot be asked for here: the row stays open.
        """
        logger.warning("task %s: not followed after the restart: %s", row.task_id, detail)
        failure = bridge_failure(RESTARTED, action=row.action or row.skill, detail=detail)
        cancelled = saved is not None and saved.cancel_accepted
        if saved is not None and self._manager.get(row.task_id) is None:
            self._manager.adopt(saved, _failing(failure))
        if cancelled:
            self._manager.annotate(row.task_id, (stop or Stop(False, detail)).payload(ended=True))
        if may_run:
            return
        ending = Ending.CANCELLED if cancelled else Ending.FAILED
        code = None if cancelled else RESTARTED
        self._ledger.note(row.task_id, Change(state=RunState.ENDED, ending=ending, error_code=code))

    async def _follow(self, row: LedgerRow, saved: SavedTask | None) -> bool:
        try:
            goal_id = UUID(row.goal_id or "")
            skill, why = self._skill(row)
            port = await self._port(row)
        except (LookupError, ValueError) as error:
            detail = f"Its goal cannot be asked for any more: {error}. {_UNKNOWN_END}"
            self._give_up(row, saved, detail, may_run=True)
            return False
        wanted = saved is not None and saved.info.state == "running" and not saved.cancel_accepted
        resumes = Resumption(
            row.task_id,
            goal_id,
            row.state in PERHAPS_ACCEPTED,
            # Nobody would be told of a goal without a running task, so it is stopped.
            row.cancel_reason if wanted else row.cancel_reason or _NO_TASK,
            row.taken_over_by,
        )
        run = self._build(row, saved, skill or GoneSkill(row, why), port, resumes)
        logger.warning(
            "task %s: looking for its goal %s after the restart (it was %s)",
            row.task_id,
            goal_id,
            row.state.value,
            extra={"task_id": row.task_id},
        )
        self._add(run)
        if saved is not None and self._manager.get(row.task_id) is None:
            self._manager.adopt(saved, run.body)
        if not wanted:
            run.follow()
        return True

    def _skill(self, row: LedgerRow) -> tuple[Skill | None, str]:
        skill = self._skills.get(row.skill)
        if skill is None:
            return None, f"The skill {row.skill} is not configured any more"
        if skill.action_type != row.action_type:
            return None, f"The skill {row.skill} now uses {skill.action_type}"
        return skill, ""

    async def _port(self, row: LedgerRow) -> ActionPort:
        return await self._ports.ensure(row.action, row.action_type)

    def _build(
        self,
        row: LedgerRow,
        saved: SavedTask | None,
        skill: Skill,
        port: ActionPort,
        resumes: Resumption,
    ) -> GoalRun:
        triggers = self._triggers(skill, saved)
        try:
            return GoalRun(skill, _spec(skill, row), port, triggers, self._around(skill), resumes=resumes)
        except Exception as error:  # a plan that the skill of today cannot read must not lose the goal
            logger.exception("task %s: its plan is not understood any more", row.task_id)
            gone = GoneSkill(row, f"Its plan is not understood any more ({error})")
            spec = GoalSpec({}, _words(row))
            return GoalRun(gone, spec, port, triggers, self._around(skill), resumes=resumes)

    def _triggers(self, skill: Skill, saved: SavedTask | None) -> TriggerSet:
        if saved is None:
            return TriggerSet([], self._zones)
        try:
            triggers = TriggerSet(saved.info.triggers, self._zones, skill.trigger_types)
        except ArgumentError as error:
            logger.warning("task %s: its triggers do not fire any more: %s", saved.info.task_id, error)
            return TriggerSet([], self._zones)
        triggers.resume(saved.fired)
        return triggers


_UNKNOWN_END = "How it ended is not known, and it may still run."


def _spec(skill: Skill, row: LedgerRow) -> GoalSpec:
    if row.plan is not None:
        return plan_from_json(row.plan)
    if isinstance(skill, GoneSkill):
        return GoalSpec({}, _words(row))
    return skill.goal(parse_arguments(skill.arguments, row.arguments))


def _without_goal(stray: SavedTask) -> TaskFailure:
    """For a task that never had a goal written down: a watch, or one whose start broke off."""
    failure = bridge_failure(RESTARTED, action=stray.info.tool)
    message = (
        f"The bridge restarted, which ended the task of {stray.info.tool}. It had no goal for the robot, and "
        "nothing moved for it."
    )
    return failure.model_copy(update={"message": message})


def _words(row: LedgerRow) -> str:
    return f"a goal of {row.skill} from before the restart"


def _in_the_middle(saved: SavedTask | None) -> str:
    """What is known of a routine that ended with its bridge. Short: details are cut at 300 characters."""
    progress = (saved.info.progress if saved is not None else None) or {}
    done, tool = progress.get("done"), progress.get("step_tool")
    known = []
    if isinstance(done, list) and done:
        known.append(f"Done: {', '.join(map(str, done))}.")
    if tool:
        known.append(f"Last begun: step {progress.get('step')}, {tool}, task {progress.get('step_task_id')}.")
    return " ".join(
        [
            "It was in the middle of several steps.",
            *known,
            "A step that ran is followed under its own task (list_tasks); no further one is begun, so what "
            "it was for is not known to be true. Look before you do it again.",
        ]
    )


def _failing(failure: TaskFailure) -> TaskBody:
    async def body(_: TaskContext) -> dict[str, Any]:
        raise task_error(failure)

    return body
