"""Skills made of other skills: one task, several goals, and a measurement at the end.

A routine moves nothing itself. Every motion is a goal of a configured skill, with that skill's limits,
approvals and stop; the routine decides which comes next, and whether what it was for has come true.
"""

from __future__ import annotations

import abc
from typing import Any, NoReturn

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.models import TaskFailure, TaskInfo
from robot_mcp_kit.skills.base import FeedbackReader, GoalSpec, Outcome, Sample, Skill, SkillArguments
from robot_mcp_kit.skills.world import World

ROUTINE_TYPE = "routine"
"""In place of an action type."""
PREEMPTED = "ROS_PREEMPTED"
"""How a step fails that another goal replaced."""


class StepFailed(Exception):
    """A step of a routine failed; ``failure`` is the step's own."""

    def __init__(self, skill: str, failure: TaskFailure) -> None:
        super().__init__(f"{skill}: {failure.message}")
        self.skill, self.failure = skill, failure


class Steps(abc.ABC):
    """Port: how a running routine acts. The bridge implements it, and stops what still runs when the routine
    has returned or raised.
    """

    world: World
    moved: bool
    """Whether a goal of this routine was begun."""

    @abc.abstractmethod
    async def do(self, skill: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run one skill to its end and return its result.

        Raises:
            StepFailed: it was refused, failed, or was cancelled.
        """

    @abc.abstractmethod
    async def begin(self, skill: str, arguments: dict[str, Any]) -> None:
        """Begin one skill and do not wait for it; it takes over from the step that runs, if its policy says
        so.

        Raises:
            StepFailed: it was refused.
        """

    @abc.abstractmethod
    def step(self) -> TaskInfo | None:
        """The task of the step that was begun last; ``None``: none was, or it is not known any more."""

    @abc.abstractmethod
    async def stop_step(self) -> None:
        """Cancel the steps that run, if any do, and wait for their ends.

        Raises:
            StepFailed: the robot may still be moving: the stop is not confirmed (``ROS_CANCEL_UNCONFIRMED``),
                or the step had failed with an unknown end, or was replaced by somebody else's goal.
        """

    @abc.abstractmethod
    def now_s(self) -> float:
        """Seconds, monotonic."""

    @abc.abstractmethod
    async def rest(self, seconds: float) -> None:
        """Let time pass."""

    @abc.abstractmethod
    async def tell(self, phase: str) -> None:
        """Report what the routine is doing, in words."""


class Routine(Skill):
    """A skill that is carried out by :meth:`run` instead of by one goal."""

    action_name = ""
    action_type = ROUTINE_TYPE
    trigger_types = frozenset()
    read_only: bool = False
    """Moves nothing at all."""
    needs: tuple[str, ...] = ()
    """Skills that its steps use."""

    @abc.abstractmethod
    def check(self, arguments: SkillArguments) -> str:
        """Judge the arguments without the world; the plan in one sentence.

        Raises:
            ArgumentError: names the field and the way out.
        """

    @abc.abstractmethod
    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        """Act, measure, and return what was measured.

        Raises:
            TaskError: it did not work, or what it was for has not come true.
            StepFailed: a step did not work.
        """

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        return GoalSpec({}, self.check(arguments))

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        raise TypeError(f"{self.name} has no feedback of its own; its steps have")

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        raise TypeError(f"{self.name} has no goal of its own; its steps have")


def fail(code: str, message: str, *suggestions: str, recoverable: bool = True) -> NoReturn:
    """Raises TaskError."""
    raise TaskError(code, message, recoverable=recoverable, suggestions=suggestions)


def cancelled_step(info: TaskInfo) -> TaskFailure:
    """What a routine says of a step that somebody cancelled."""
    note = str((info.progress or {}).get("note") or "")
    message = f"Its task {info.task_id} was cancelled. {note}".rstrip()
    return TaskFailure(error_code="STEP_CANCELLED", message=message, suggestions=["get_task", "ask_person"])
