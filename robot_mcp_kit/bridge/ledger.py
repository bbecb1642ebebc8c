"""What was begun, written down before a goal leaves. Adoption after a crash and idempotent starts live on
it.
"""

from __future__ import annotations

import abc
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.journal import SavedTask

MAX_ENDED_RETAINED = 1000
MAX_AGE_S = 7 * 24 * 3600.0
"""How many ended rows, with their idempotency keys and outcomes, are kept, and for how long after the end."""


class LedgerError(RuntimeError):
    """The ledger cannot be written or read. Starts are refused then; what runs goes on, and stop works."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One task that may move the robot."""

    task_id: str
    skill: str
    action: str
    arguments_hash: str
    idempotency_key: str | None = None
    goal_id: str | None = None
    """Our UUID of the goal that was (or is about to be) sent."""
    state: RunState = RunState.PREPARED
    ending: Ending | None = None
    error_code: str | None = None
    action_type: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    """As validated, JSON."""
    plan: dict[str, Any] | None = None
    """See :mod:`robot_mcp_kit.bridge.plan`."""
    cancel_reason: str | None = None
    """Why the goal was to be stopped; ``None``: nobody wanted that."""
    taken_over_by: str | None = None
    """The task for whose sake it was to be stopped."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a row; ``None`` leaves a field as it is."""

    state: RunState | None = None
    goal_id: str | None = None
    ending: Ending | None = None
    error_code: str | None = None
    cancel_reason: str | None = None
    taken_over_by: str | None = None

    def values(self) -> dict[str, Any]:
        """The fields that change."""
        names = ("state", "goal_id", "ending", "error_code", "cancel_reason", "taken_over_by")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def hash_arguments(skill: str, arguments: dict[str, Any]) -> str:
    """SHA-256 over the skill's name and the arguments as canonical JSON; the order of keys does not
    matter.
    """
    text = json.dumps([skill, arguments], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger(abc.ABC):
    """Port. Methods are called on the loop and must be quick.

    Ended rows are kept for :data:`MAX_AGE_S`, at most :data:`MAX_ENDED_RETAINED` of them, oldest end out
    first; until then their idempotency keys answer with the old task, afterwards the same key starts a new
    one.
    """

    @abc.abstractmethod
    def record(self, row: LedgerRow) -> None:
        """Write a new row; it is there when this returns.

        Raises:
            LedgerError: it is not written; nothing may be sent. Also when the task or key is already there.
        """

    @abc.abstractmethod
    def update(self, task_id: str, change: Change) -> None:
        """Change a row; the change is there when this returns. For what must not be forgotten: a goal leaves.

        Raises:
            LedgerError: the change is not written.
        """

    @abc.abstractmethod
    def note(self, task_id: str, change: Change) -> None:
        """Change a row soon, with whatever is written next; nobody waits for it. Never raises.

        For steps that a restart finds out by itself, and for those that must not wait for a disk (a stop).
        """

    @abc.abstractmethod
    def get(self, task_id: str) -> LedgerRow | None: ...

    def knows(self, task_id: str) -> bool:
        """Whether something is kept under that id, so that no new task may have it. Never raises: of a ledger
        that cannot be read, :meth:`record` will say so.
        """
        try:
            return self.get(task_id) is not None or self.saved_task(task_id) is not None
        except LedgerError:
            return False

    @abc.abstractmethod
    def by_key(self, idempotency_key: str) -> LedgerRow | None:
        """The row started with that key, running or ended.

        Raises:
            LedgerError: it cannot be looked up, so nothing may be started with that key.
        """

    @abc.abstractmethod
    def open_rows(self) -> list[LedgerRow]:
        """Rows whose goal has not ended, or whose task has not been told how, oldest first."""

    def saved_task(self, task_id: str) -> SavedTask | None:  # noqa: ARG002
        """The task of a row as it was saved last, if this ledger keeps tasks."""
        return None

    def ended_tasks(self, most: int) -> list[SavedTask]:  # noqa: ARG002
        """The newest tasks that have ended, oldest end first, if this ledger keeps tasks."""
        return []

    def tasks_without_goal(self) -> list[SavedTask]:
        """Tasks that ran and have no row here, so that nobody knows how to go on with them."""
        return []


class MemoryLedger(Ledger):
    """Kept in memory: idempotent while the process lives, forgotten with it.

    Args:
        max_ended_retained: how many ended rows (and their idempotency keys) are kept, oldest end out first.
        max_age_s: how long after their end.
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        *,
        max_ended_retained: int = MAX_ENDED_RETAINED,
        max_age_s: float = MAX_AGE_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        check_retention(max_ended_retained, max_age_s)
        self._max_ended, self._max_age_s, self._wall_clock = max_ended_retained, max_age_s, wall_clock
        self._rows: dict[str, LedgerRow] = {}
        self._keys: dict[str, str] = {}
        self._ended: OrderedDict[str, float] = OrderedDict()

    def record(self, row: LedgerRow) -> None:
        self._prune()
        if row.task_id in self._rows:
            raise LedgerError(f"the task {row.task_id} is already written down")
        if row.idempotency_key is not None:
            if row.idempotency_key in self._keys:
                raise LedgerError("the idempotency key is already written down")
            self._keys[row.idempotency_key] = row.task_id
        self._rows[row.task_id] = row

    def update(self, task_id: str, change: Change) -> None:
        row = self._rows.get(task_id)
        if row is None:
            raise LedgerError(f"the task {task_id} is not written down")
        self._rows[task_id] = replace(row, **change.values())
        if change.state is RunState.ENDED:
            self._ended[task_id] = self._wall_clock()
            self._prune()

    def note(self, task_id: str, change: Change) -> None:
        if task_id in self._rows:
            self.update(task_id, change)

    def _prune(self) -> None:
        oldest_s = self._wall_clock() - self._max_age_s
        while self._ended:
            task_id, ended_s = next(iter(self._ended.items()))
            if len(self._ended) <= self._max_ended and ended_s >= oldest_s:
                return
            del self._ended[task_id]
            row = self._rows.pop(task_id)
            if row.idempotency_key is not None:
                del self._keys[row.idempotency_key]

    def get(self, task_id: str) -> LedgerRow | None:
        return self._rows.get(task_id)

    def by_key(self, idempotency_key: str) -> LedgerRow | None:
        self._prune()
        task_id = self._keys.get(idempotency_key)
        return None if task_id is None else self._rows[task_id]

    def open_rows(self) -> list[LedgerRow]:
        return [row for row in self._rows.values() if row.state is not RunState.ENDED]


def check_retention(max_ended_retained: int, max_age_s: float) -> None:
    """Raises ValueError for bounds that mean nothing."""
    if max_ended_retained < 0:
        raise ValueError(f"max_ended_retained: must not be negative, got {max_ended_retained}")
    if not max_age_s > 0:
        raise ValueError(f"max_age_s: must be more than 0, got {max_age_s}")
