"""What is checked before anything is written down: the world, whose turn it is, the action's type.

:meth:`Checks.preview` asks the same of a skill without starting it, the guard included.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Literal

from robot_mcp_kit.bridge.base import ActionPort, ActionPorts
from robot_mcp_kit.bridge.outcomes import task_error
from robot_mcp_kit.bridge.routines import Routines
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.errors import GoalFieldError, TaskError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.judging import Preview
from robot_mcp_kit.skills.base import GoalSpec, Skill, SkillArguments, fit_goal
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.skills.world import World

_APPROVALS = ("none", "standing", "person")
"""From the least to the most."""


@dataclass(slots=True)
class StartPreview:
    """What would become of a start now."""

    refused: list[TaskError] = field(default_factory=list)
    """Every reason against it."""
    approval: Literal["none", "standing", "person"] = "none"
    approvals: list[Preview] = field(default_factory=list)
    """Of the goal, or of each step's skill."""
    spec: GoalSpec | None = None
    """The goal; ``None`` when it was asked about without arguments."""
    replaces: tuple[str, ...] = ()
    """Tasks that it would take over from."""


class Checks(abc.ABC):
    """The part of a bridge that judges a start. See :class:`robot_mcp_kit.bridge.bridge.Bridge`."""

    skills: dict[str, Skill]
    world: World
    guard: Guard
    refusing: TaskFailure | None
    _ports: ActionPorts
    _config: RobotConfig
    _routines: Routines

    @abc.abstractmethod
    def _live_runs(self) -> list[GoalRun]: ...

    async def preview(self, skill_name: str, arguments: SkillArguments | None) -> StartPreview:
        """Ask what :meth:`Bridge.begin` and the goal's way through the guard would answer; starts nothing.

        Args:
            skill_name: key of :attr:`skills`.
            arguments: checked ones; ``None``: they are not known yet, so what depends on them is left out.

        Raises:
            KeyError: there is no such skill.
            ArgumentError: the arguments do not fit this robot.
        """
        skill = self.skills[skill_name]
        found = StartPreview(spec=None if arguments is None else skill.goal(arguments))
        if self.refusing is not None:
            found.refused.append(task_error(self.refusing))
        try:
            self._routines.check_free(skill.action_name or skill.name, skill.resources, None)
        except TaskError as error:
            found.refused.append(error)
        if arguments is not None:
            found.refused += map(task_error, self._broken_conditions(skill, arguments))
        if isinstance(skill, Routine):
            try:
                self._check_idle(skill)
            except TaskError as error:
                found.refused.append(error)
            for step in skill.needs:
                await self._preview_goal(self.skills[step], None, found)
        else:
            await self._preview_goal(skill, found.spec, found, take_turn=True)
        return found

    async def _preview_goal(
        self, skill: Skill, spec: GoalSpec | None, found: StartPreview, *, take_turn: bool = False
    ) -> None:
        try:
            port = self._ports.port(skill.action_name, skill.action_type)
            if spec is not None:
                spec = self._port(skill, spec)[1]
            if not port.server_ready():
                raise task_error(bridge_failure("ROS_SERVER_UNAVAILABLE", action=port.name))
            if take_turn:
                found.replaces = tuple(run.task_id for run in self._take_turn(skill, port))
        except TaskError as error:
            found.refused.append(error)
        except LookupError as error:
            failure = bridge_failure("ROS_TYPE_UNAVAILABLE", action=skill.action_name, detail=f"{error}.")
            found.refused.append(task_error(failure))
        judged = await self.guard.preview(skill, spec)
        known = {(error.error_code, error.message) for error in found.refused}
        found.refused += [e for e in judged.refused if (e.error_code, e.message) not in known]
        found.approvals.append(judged)
        found.approval = max(found.approval, judged.approval, key=_APPROVALS.index)

    # -- shared with a real start -----------------------------------------------------------------

    def _broken_conditions(self, skill: Skill, arguments: SkillArguments) -> list[TaskFailure]:
        """Preconditions that the measured world breaks."""
        if not skill.preconditions:
            return []
        world = self.world.snapshot()
        broken = (condition.broken(world, arguments) for condition in skill.preconditions)
        return [failure for failure in broken if failure is not None]

    def _check_conditions(self, skill: Skill, arguments: SkillArguments) -> None:
        """Raises TaskError for the first precondition that the measured world breaks; nothing moved (L3)."""
        for failure in self._broken_conditions(skill, arguments):
            raise task_error(failure)

    def _check_idle(self, routine: Routine) -> None:
        """A routine takes over from nobody."""
        for run in self._live_runs():
            if not run.skill.resources.isdisjoint(routine.resources):
                raise task_error(bridge_failure("ROS_BUSY", action=routine.name, other=run.task_id))

    def _port(self, skill: Skill, spec: GoalSpec) -> tuple[ActionPort, GoalSpec]:
        """The action's port, and the goal in the form that fits the type installed here."""
        action = skill.action_name
        try:
            port = self._ports.port(action, skill.action_type)
            return port, fit_goal(spec, port.check_goal)
        except LookupError as error:
            raise task_error(
                bridge_failure("ROS_TYPE_UNAVAILABLE", action=action, detail=f"{error}.")
            ) from error
        except GoalFieldError as error:
            raise task_error(bridge_failure("ROS_INVALID_GOAL", action=action, detail=f"{error}.")) from error

    def _take_turn(self, skill: Skill, port: ActionPort) -> list[GoalRun]:
        """Runs that a new goal takes over from, by the skill's policy (B8)."""
        busy = [run for run in self._live_runs() if not run.cancel_requested and collide(skill, port, run)]
        section = self._config.skills.get(skill.name)
        if section is not None and section.policy == "queue":
            return []
        if busy and section is not None and section.policy == "refuse":
            raise task_error(bridge_failure("ROS_BUSY", action=port.name, other=busy[-1].task_id))
        return busy


def collide(skill: Skill, port: ActionPort, run: GoalRun) -> bool:
    """Whether a goal of ``skill`` and a running one must not move the robot at the same time."""
    return run.port is port or not skill.resources.isdisjoint(run.skill.resources)
