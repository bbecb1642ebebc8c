"""From what a body raised to what a planner reads."""

from __future__ import annotations

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.jsonsafe import clean_text
from robot_mcp_kit.models import TaskFailure

INTERNAL = "INTERNAL"
"""The code of every failure that the body did not announce by a TaskError."""


def failure_from(exc: BaseException) -> TaskFailure:
    """The failure that ``exc`` stands for: a TaskError's own words, else INTERNAL with its text (K32, K34,
    K35).
    """
    error = _task_error(exc)
    if error is None:
        return TaskFailure(error_code=INTERNAL, message=_words(exc), recoverable=False)
    return TaskFailure(
        error_code=clean_text(str(error.error_code)),
        message=clean_text(str(error.message)),
        recoverable=bool(error.recoverable),
        suggestions=[clean_text(str(item)) for item in error.suggestions],
    )


def _task_error(exc: BaseException) -> TaskError | None:
    """The TaskError that ``exc`` is, or that is the only leaf of its exception group (K37)."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc if isinstance(exc, TaskError) else None


def _words(exc: BaseException) -> str:
    try:
        text = clean_text(str(exc))
    except Exception:
        text = ""
    return text or type(exc).__name__
