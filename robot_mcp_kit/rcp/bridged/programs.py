"""What counts as a program on a robot with a bridge: the file's programs, its skills, its behavior trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.rcp.errors import ParameterError
from robot_mcp_kit.rcp.models import ProgramInfo
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.rcp import RcpSection
from robot_mcp_kit.skills.text import did_you_mean

_WAITING = frozenset({None, "awaiting_approval", "approved", "queued"})
"""Phases in which a task's goal has not left; it has none before it finds its action server."""


class Programs:
    """Of one robot.

    Args:
        config: the checked file.
        rcp: its section.
        skills: by tool name.
        tasks: those of the task manager, oldest first.
    """

    def __init__(
        self,
        config: RobotConfig,
        rcp: RcpSection,
        skills: Mapping[str, Skill],
        tasks: Callable[[], list[TaskInfo]],
    ) -> None:
        self._rcp, self._skills, self._tasks = rcp, skills, tasks
        self._trees = dict(_trees(config))
        self._started: dict[str, str] = {}
        """Task to the program that it runs."""

    @property
    def startable(self) -> list[str]:
        """Programs that need nothing more than their name."""
        bare = [name for name, skill in self._skills.items() if _needs_nothing(skill)]
        return [*self._rcp.programs, *(name for name in bare if name not in self._rcp.programs)]

    def start(self, module: str) -> tuple[str, dict[str, Any]]:
        """Skill and arguments of a program.

        Raises:
            ParameterError: there is no such program, or it needs arguments.
        """
        program = self._rcp.programs.get(module)
        if program is not None:
            return program.skill, dict(program.arguments)
        if module in self._trees:
            raise ParameterError(
                "module",
                f"{module} is a behavior tree of the skill {self._trees[module]}, which needs a goal; call "
                "that skill instead",
            )
        if module not in self._skills:
            hint = did_you_mean(module, self.startable)
            raise ParameterError("module", f"there is no such program.{hint}")
        if module not in self.startable:
            raise ParameterError(
                "module",
                f"the skill {module} needs arguments; call it as a tool, or name them under rcp.programs in "
                f"the skills file. Without: {', '.join(self.startable) or 'none'}",
            )
        return module, {}

    def remember(self, task_id: str, module: str) -> None:
        """That task runs that program."""
        running = {info.task_id for info in self._tasks() if info.state == "running"}
        self._started = {key: name for key, name in self._started.items() if key in running}
        self._started[task_id] = module

    def infos(self) -> list[ProgramInfo]:
        """What there is, what runs first. A program counts as loaded while it runs or waits for its turn."""
        running: dict[str, bool] = {}
        for info in self._tasks():
            if info.state == "running":
                waits = (info.progress or {}).get("phase") in _WAITING
                for name in (self._started.get(info.task_id), info.tool):
                    if name is not None:
                        running[name] = running.get(name, False) or not waits
        names = dict.fromkeys([*self._rcp.programs, *self._skills, *self._trees])
        told = [
            ProgramInfo(
                name,
                loaded=name in running,
                running=running.get(name, False),
                paused=name in running and not running[name],
            )
            for name in names
        ]
        return sorted(told, key=lambda one: (not one.running, not one.loaded))


def _needs_nothing(skill: Skill) -> bool:
    try:
        arguments = skill.arguments.model_validate({})
    except ValidationError:
        return False
    try:
        skill.goal(arguments)
    except (ArgumentError, TaskError):  # it wants one of several arguments, each of which may be left out
        return False
    return True


def _trees(config: RobotConfig) -> Iterator[tuple[str, str]]:
    """Behavior trees that goals may name, with the skill that takes them."""
    for name, section in config.skills.items():
        if section.enabled:
            own = getattr(section, "behavior_tree", "")
            for tree in dict.fromkeys([own, *config.safety.skill(name).behavior_trees]):
                if tree:
                    yield tree, name
