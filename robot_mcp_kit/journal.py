"""What is kept of a task so that another process can go on with it: the port that a TaskManager writes to."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from robot_mcp_kit.models import TaskInfo


@dataclass(frozen=True, slots=True)
class SavedTask:
    """One task as it stood when it was saved."""

    info: TaskInfo
    seq: int = 0
    """The last sequence number that an event of it got."""
    fired: tuple[str, ...] = ()
    """Triggers that fired, by :func:`robot_mcp_kit.triggers.canonical_key`."""
    cancel_accepted: bool = False
    """A cancel was accepted and the body was still tearing down; the task can only end as cancelled (K86)."""


class TaskJournal(abc.ABC):
    """Port. Called under the manager's lock: quick, from any thread, and never raising.

    A task is staged before its event is handed to the poster, so that a journal which shares its file with
    the outbox can write both in one piece: after a crash the event is there if and only if its number and its
    outcome are.
    """

    @abc.abstractmethod
    def stage(self, task: SavedTask) -> None:
        """Remember what to write; nothing is written yet, unless something else writes to the same file."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Write what was staged. What cannot be written stays staged; it is told in the log and retried."""
