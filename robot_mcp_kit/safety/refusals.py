"""What the safety layer says when it refuses or stops something: codes and sentences for a planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.safety.approvals import Decision
from robot_mcp_kit.skills.text import clean_text

ESTOP = "SAFETY_ESTOP_LATCHED"
LIMIT = "SAFETY_LIMIT"
RATE = "SAFETY_RATE"
PROHIBITED = "SAFETY_PROHIBITED"
INTERLOCK = "SAFETY_INTERLOCK"
HELD = "SAFETY_INTERLOCK_BROKEN"
AUDIT = "SAFETY_AUDIT_UNAVAILABLE"
REJECTED = "SAFETY_REJECTED"
EXPIRED = "SAFETY_APPROVAL_EXPIRED"
WITHDRAWN = "SAFETY_APPROVAL_WITHDRAWN"
PENDING = "SAFETY_TOO_MANY_PENDING"
CHANGED = "SAFETY_GOAL_CHANGED"

_SENTENCES: Mapping[str, tuple[str, bool, tuple[str, ...]]] = {
    ESTOP: (
        "The emergency stop is latched, so nothing may move until a person resets it at the robot.",
        False,
        ("ask_person",),
    ),
    LIMIT: ("The goal is outside this robot's limits; nothing was sent.", True, ()),
    RATE: ("Too many motions in a short time; nothing was sent.", True, ("wait_s:5",)),
    PROHIBITED: ("This is prohibited on every robot, whoever asks; nothing was sent.", False, ()),
    INTERLOCK: (
        "A safety condition does not hold, so the goal was not sent.",
        True,
        ("wait_s:5", "ask_person"),
    ),
    HELD: (
        "A safety condition broke while the robot was moving; the motion was told to stop.",
        True,
        ("get_task", "stop", "ask_person"),
    ),
    AUDIT: (
        "The audit trail cannot be written, so nothing may start; nothing was sent.",
        False,
        ("ask_person",),
    ),
    REJECTED: (
        "A person refused this motion; nothing was sent. Do not ask for it again.",
        False,
        ("ask_person",),
    ),
    EXPIRED: ("Nobody approved this motion in time; nothing was sent.", True, ("ask_person",)),
    WITHDRAWN: ("The request for approval was withdrawn; nothing was sent.", True, ("ask_person",)),
    PENDING: ("Too many requests already wait for a person; nothing was sent.", True, ("ask_person",)),
    CHANGED: ("The goal is not the one that was checked; nothing was sent.", False, ("ask_person",)),
}


def is_safety_code(code: str) -> bool:
    """Whether a failure's code is one of this module's."""
    return code in _SENTENCES


def safety_failure(code: str, detail: object = "") -> TaskFailure:
    """The failure for a code; ``detail`` is one or two more sentences."""
    sentence, recoverable, suggestions = _SENTENCES[code]
    more = clean_text(detail, 800)
    return TaskFailure(
        error_code=code,
        message=f"{sentence} {more}" if more else sentence,
        recoverable=recoverable,
        suggestions=list(suggestions),
    )


class SafetyRefused(TaskError):
    """The guard said no. Nothing was sent.

    Args:
        code: one of this module's.
        detail: why, in words.
        details: the same for programs (limit, field, value, allowed).
    """

    def __init__(self, code: str, detail: object = "", details: Mapping[str, Any] | None = None) -> None:
        self.failure = safety_failure(code, detail)
        super().__init__(
            code,
            self.failure.message,
            recoverable=self.failure.recoverable,
            suggestions=self.failure.suggestions,
        )
        self.details: dict[str, Any] = dict(details or {})
        self.request_id = ""
        """Of the request in the audit trail, where it has one."""


def refusal_of(decision: Decision) -> SafetyRefused:
    """What a decision against a request means for its task."""
    code = {"rejected": REJECTED, "expired": EXPIRED}.get(decision.verdict, WITHDRAWN)
    who = f"It was {decision.approver.name}." if decision.approver is not None else ""
    why = f'Reason: "{clean_text(decision.reason, 200)}".' if decision.reason else ""
    return SafetyRefused(code, f"{who} {why}".strip())
