"""Preconditions: declared as words, checked as code, before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.models import TaskFailure

if TYPE_CHECKING:
    from robot_mcp_kit.skills.base import SkillArguments
    from robot_mcp_kit.skills.world import WorldSnapshot

Check = Callable[["WorldSnapshot", "SkillArguments"], str | None]
"""Says why the condition does not hold, or ``None`` when it does."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must hold before a skill starts. The same object is read by planners and checked by the skill."""

    code: str
    """Error code of the failure, ``GRIPPER_NOT_EMPTY``."""
    text: str
    """"the gripper is empty"."""
    check: Check
    suggestions: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """As data, for planners."""
        return {"error_code": self.code, "text": self.text}

    def broken(self, world: WorldSnapshot, arguments: SkillArguments) -> TaskFailure | None:
        """Why it does not hold now, as a failure without any motion."""
        why = self.check(world, arguments)
        if why is None:
            return None
        return TaskFailure(
            error_code=self.code,
            message=f"{why} Nothing moved.",
            recoverable=True,
            suggestions=list(self.suggestions),
        )
