"""What was begun, written down before a goal leaves. Adoption after a crash and idempotent starts live on
it.
"""

from __future__ import annotations

import abc
import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from robot_mcp_kit.bridge.states import Ending, RunState


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


def hash_arguments(skill: str, arguments: dict[str, Any]) -> str:
    """SHA-256 over the skill's name and the arguments as canonical JSON; the order of keys does not
    matter.
    """
    text = json.dumps([skill, arguments], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger(abc.ABC):
    """Port. Methods are called on the loop and must be quick; each has taken effect when it returns."""

    @abc.abstractmethod
    def record(self, row: LedgerRow) -> None:
        """Write a new row.

        Raises:
            LedgerError: it is not written; nothing may be sent. Also when the task or key is already there.
        """

    @abc.abstractmethod
    def update(
        self,
        task_id: str,
        *,
        state: RunState,
        goal_id: str | None = None,
        ending: Ending | None = None,
        error_code: str | None = None,
    ) -> None:
        """Change a row; ``None`` leaves a field as it is.

        Raises:
            LedgerError: the change is not written.
        """

    @abc.abstractmethod
    def get(self, task_id: str) -> LedgerRow | None: ...

    @abc.abstractmethod
    def by_key(self, idempotency_key: str) -> LedgerRow | None:
        """The row started with that key, running or ended."""

    @abc.abstractmethod
    def open_rows(self) -> list[LedgerRow]:
        """Rows that have not ended, oldest first."""


class MemoryLedger(Ledger):
    """Kept in memory: idempotent while the process lives, forgotten with it.

    Args:
        max_ended_retained: how many ended rows (and their idempotency keys) are kept, oldest end out first.
    """

    def __init__(self, *, max_ended_retained: int = 1000) -> None:
        if max_ended_retained < 0:
            raise ValueError(f"max_ended_retained: must not be negative, got {max_ended_retained}")
        self._max_ended = max_ended_retained
        self._rows: dict[str, LedgerRow] = {}
        self._keys: dict[str, str] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def record(self, row: LedgerRow) -> None:
        if row.task_id in self._rows:
            raise LedgerError(f"the task {row.task_id} is already written down")
        if row.idempotency_key is not None:
            if row.idempotency_key in self._keys:
                raise LedgerError("the idempotency key is already written down")
            self._keys[row.idempotency_key] = row.task_id
        self._rows[row.task_id] = row

    def update(
        self,
        task_id: str,
        *,
        state: RunState,
        goal_id: str | None = None,
        ending: Ending | None = None,
        error_code: str | None = None,
    ) -> None:
        row = self._rows.get(task_id)
        if row is None:
            raise LedgerError(f"the task {task_id} is not written down")
        self._rows[task_id] = replace(
            row,
            state=state,
            goal_id=row.goal_id if goal_id is None else goal_id,
            ending=row.ending if ending is None else ending,
            error_code=row.error_code if error_code is None else error_code,
        )
        if state is RunState.ENDED:
            self._ended[task_id] = None
            while len(self._ended) > self._max_ended:
                self._forget(self._ended.popitem(last=False)[0])

    def _forget(self, task_id: str) -> None:
        row = self._rows.pop(task_id)
        if row.idempotency_key is not None:
            del self._keys[row.idempotency_key]

    def get(self, task_id: str) -> LedgerRow | None:
        return self._rows.get(task_id)

    def by_key(self, idempotency_key: str) -> LedgerRow | None:
        task_id = self._keys.get(idempotency_key)
        return None if task_id is None else self._rows[task_id]

    def open_rows(self) -> list[LedgerRow]:
        return [row for row in self._rows.values() if row.state is not RunState.ENDED]
