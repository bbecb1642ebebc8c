"""How the end of a goal is read: status first, then what else is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus


@dataclass(frozen=True, slots=True)
class Stop:
    """What is known after a cancel was asked for."""

    confirmed: bool
    note: str
    goal_status: str | None = None

    def payload(self, *, ended: bool) -> dict[str, Any]:
        """The last progress of a cancelled task says whether the stop is known (K94)."""
        return {
            "phase": "cancelled" if ended else "cancelling",
            "stop_confirmed": self.confirmed,
            "goal_status": self.goal_status,
            "note": self.note,
        }


class RunFailed(Exception):
    """The run ends as failed."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.error_code)
        self.failure = failure


class RunStopped(Exception):
    """The run ends after a cancel."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.note)
        self.stop = stop


NOTHING_SENT_STOP = Stop(True, "Nothing had been sent.")
REFUSED_STOP = Stop(True, "The action server refused the goal; nothing moved.")


def stop_by_status(status: int, *, taken_over: bool, after_stop: str = "") -> Stop:
    """What a terminal status means once a cancel was asked for.

    Args:
        status: as on the wire.
        taken_over: another goal of the same server runs now.
        after_stop: what the skill adds to a confirmed stop ("the arm may take a moment to come to rest").
    """
    try:
        name = GoalStatus(status).name
    except ValueError:
        name = f"BAD_STATUS {status}"
    if status == GoalStatus.CANCELED:
        return Stop(True, f"The action server confirmed the stop. {after_stop}".rstrip(), name)
    if status in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED):
        if taken_over:
            return Stop(False, "The goal ended, but another goal moves the robot now.", name)
        return Stop(True, "The goal ended by itself before the stop took effect.", name)
    return Stop(False, "The action server no longer knows the goal; do not assume a stop.", name)


def task_error(failure: TaskFailure) -> TaskError:
    """The exception that makes a task fail with this failure."""
    return TaskError(
        failure.error_code,
        failure.message,
        recoverable=failure.recoverable,
        suggestions=failure.suggestions,
    )
