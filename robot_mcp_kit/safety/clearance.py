"""One goal on its way through the guard, and the permit it leaves with."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from robot_mcp_kit.safety.goal_hash import goal_hash
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.risk import RiskLevel

MAX_SENDS = 2
"""The goal, and once more after the server's definite refusal of the first."""


@dataclass(slots=True, eq=False)
class Clearance:
    """What the guard knows of one request. Made by the guard; the bridge hands it back at every step.

    ``fields`` is the guard's own copy: what is approved is what runs, whatever happens to the caller's (R19).
    """

    request_id: str
    skill: str
    action: str
    risk: RiskLevel
    requester: Requester
    summary: str
    fields: Mapping[str, Any]
    goal_hash: str
    task_id: str | None = None
    approved: bool = False
    sends: int = 0
    """Permits given."""
    left: bool = False
    """A goal has left, or may have."""
    refused_sends: int = 0
    started: bool = False
    closed: bool = False
    goal_ids: list[str] = field(default_factory=list)

    @property
    def is_safe(self) -> bool:
        return self.risk is RiskLevel.SAFE

    def still_exact(self) -> bool:
        """Whether the goal is, byte for byte, the one that was admitted."""
        return goal_hash(self.skill, self.action, self.fields) == self.goal_hash


def exact_copy(value: Any) -> Any:
    """A deep copy; several times faster than ``copy.deepcopy`` for what goals are made of."""
    kind = type(value)
    if kind is dict:
        return {key: exact_copy(inner) for key, inner in value.items()}
    if kind is list:
        return [exact_copy(inner) for inner in value]
    return value if kind in (float, str, int, bool) or value is None else copy.deepcopy(value)


_MADE_BY_THE_GUARD = object()


class Permit:
    """Leave to send one goal once. The guard makes it when everything was checked and written down."""

    def __init__(self, clearance: Clearance, goal_id: UUID, made_by: object) -> None:
        if made_by is not _MADE_BY_THE_GUARD:
            raise TypeError("permits come from Guard.permit")
        self.goal_id = goal_id
        self._clearance = clearance
        self._fields: Mapping[str, Any] | None = exact_copy(clearance.fields)

    def spend(self) -> Mapping[str, Any]:
        """The goal's fields, the first time.

        Raises:
            RuntimeError: it was spent.
        """
        if self._fields is None:
            raise RuntimeError(f"the permit of goal {self.goal_id} was spent; a goal is never sent twice")
        fields, self._fields = self._fields, None
        self._clearance.left = True
        return fields


def make_permit(clearance: Clearance, goal_id: UUID) -> Permit:
    """For the guard alone; a test sees to it that nobody else calls this."""
    return Permit(clearance, goal_id, _MADE_BY_THE_GUARD)
