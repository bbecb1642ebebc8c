"""One task's life as the application sees it, whatever mix of push and poll it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from robot_mcp_kit.models import TaskFailure, TaskState

SERVER_RESTARTED = "SERVER_RESTARTED"
"""The failure of a task that its server does not know any more."""

UpdateKind = Literal[
    "started",
    "progress",
    "trigger_fired",
    "watch_event",
    "gap",
    "unreachable",
    "reachable",
    "ended",
    "corrected",
]
Source = Literal["push", "poll", "call"]


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """One step in a task's life. A task has any number of them, the first ``started``, and exactly one
    ``ended``.

    ``kind``:
        ``started``: first heard of. ``progress``, ``trigger_fired``, ``watch_event``: as the server said.
        ``gap``: the events with the sequence numbers ``payload["missing_seq"]`` have not come; what polling
        then shows follows, but a trigger that fired meanwhile cannot be polled.
        ``unreachable``, ``reachable``: the server cannot be asked (since ``payload["for_s"]`` seconds), can
        be again; until then nobody knows whether the robot moves.
        ``ended``: ``state`` is terminal; nothing but ``corrected`` comes after it.
        ``corrected``: the task was believed lost with its server, and its real end has come to light.
    """

    position: int
    """Rises with every update of every task; an application remembers how far it is."""
    server: str
    task_id: str
    tool: str
    kind: UpdateKind
    state: TaskState
    source: Source
    at: str
    """UTC, ISO 8601 with milliseconds: the server's own time where it gave one."""
    seq: int | None = None
    """The event's number, for what was pushed."""
    late: bool = False
    """Came after an event with a higher number."""
    payload: dict[str, Any] = field(default_factory=dict)
    """The event's payload, or what stands in for it when it was polled."""

    @property
    def result(self) -> dict[str, Any] | None:
        """What the task returned, once it has succeeded."""
        result = self.payload.get("result")
        return result if self.state == "succeeded" and isinstance(result, dict) else None

    @property
    def failure(self) -> TaskFailure | None:
        """Why the task failed, once it has."""
        if self.state != "failed":
            return None
        try:
            return TaskFailure.model_validate(self.payload)
        except ValueError:
            return TaskFailure(
                error_code="UNREADABLE_FAILURE",
                message="The task failed; the server's reason is not in the agreed form.",
                recoverable=False,
            )
