"""What a caller attaches to a task when it starts, checked before anything begins."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.triggers import finite_number


def check_triggers(triggers: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """A JSON-only copy.

    Raises:
        ArgumentError: not a list of objects. (A ValueError.)
    """
    if triggers is None:
        return []
    if not isinstance(triggers, (list, tuple)):
        raise ArgumentError("triggers", f"a list of objects is needed, got {type(triggers).__name__}")
    for index, trigger in enumerate(triggers):
        if not isinstance(trigger, dict):
            raise ArgumentError(
                f"triggers[{index}]",
                f"needs an object with a text 'type', got {type(trigger).__name__}",
            )
    copied: list[dict[str, Any]] = to_jsonable(list(triggers))
    return copied


def check_duration(est_duration_s: float | None) -> None:
    """Raises ArgumentError unless it is ``None`` or a finite number of seconds >= 0. (A ValueError.)"""
    if est_duration_s is None:
        return
    number = finite_number(est_duration_s)
    if number is None or number < 0:
        raise ArgumentError(
            "est_duration_s", f"must be a finite number of seconds >= 0, got {est_duration_s!r}"
        )
