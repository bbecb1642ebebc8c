"""Looking at events where a manager hands them over, without any network."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskEvent


class CollectingPoster(EventPoster):
    """A poster that keeps events in :attr:`events` and sends nothing.

    Args:
        server_name: as for the real one.
    """

    def __init__(self, server_name: str = "navigation") -> None:
        super().__init__(server_name, callback_url="")
        self.events: list[TaskEvent] = []

    def post_nowait(self, event: TaskEvent) -> None:
        """Keep the event."""
        self.events.append(event)

    def of(self, task_id: str) -> list[TaskEvent]:
        """One task's events."""
        return [event for event in self.events if event.task_id == task_id]

    def types(self) -> list[str]:
        """The types of all events, in order."""
        return [event.type for event in self.events]


def make_event(
    seq: int = 1,
    *,
    task_id: str = "navi-000001",
    type: str = "progress",
    server: str = "navigation",
    **payload: Any,
) -> TaskEvent:
    """A sound event; further keywords are its payload."""
    return TaskEvent.model_validate(
        {
            "event_id": str(uuid4()),
            "task_id": task_id,
            "server": server,
            "tool": "navigate_to",
            "type": type,
            "seq": seq,
            "ts": "2026-06-12T14:03:00.123Z",
            "payload": payload,
        }
    )
