"""Trigger dictionaries: sameness, repetition, and the one type the kit evaluates itself
(``progress_above``).
"""

from __future__ import annotations

import json
import logging
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from robot_mcp_kit.jsonsafe import to_jsonable

logger = logging.getLogger(__name__)

PROGRESS_ABOVE = "progress_above"


def canonical_key(trigger: Mapping[str, Any]) -> str:
    """What makes two triggers the same one (K67): equal content, whatever the key order or object identity.

    ``10`` and ``10.0`` are the same number here, since a trigger that went through a JavaScript client loses
    the difference; ``1`` and ``true`` are not.
    """
    return json.dumps(_canonical(to_jsonable(dict(trigger))), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def repeats(trigger: Mapping[str, Any]) -> bool:
    """Whether the trigger may fire more than once: only boolean ``true`` says so (K62)."""
    return trigger.get("repeat") is True


def finite_number(value: Any) -> float | None:
    """``value`` as a finite float, or ``None``: booleans, text, NaN and infinities are no numbers here
    (K57).
    """
    if isinstance(value, (bool, str, bytes)):
        return None
    if not isinstance(value, numbers.Real):
        # numpy scalars that are not registered as real numbers, and zero-dimensional arrays.
        value = to_jsonable(value) if hasattr(value, "dtype") else None
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def progress_threshold(trigger: Mapping[str, Any]) -> float | None:
    """The percentage of a ``progress_above`` trigger, or ``None`` for another type or an unusable
    threshold.
    """
    return finite_number(trigger.get("percent")) if trigger.get("type") == PROGRESS_ABOVE else None


def warn_malformed(triggers: Iterable[Mapping[str, Any]], *, task_id: str) -> None:
    """Say once per trigger what keeps it from working: no type, no threshold, a ``repeat`` that is no
    boolean.
    """
    for trigger in triggers:
        if not isinstance(trigger.get("type"), str):
            logger.warning(
                "task %s: a trigger without a text 'type' never fires by itself: %r", task_id, trigger
            )
        elif trigger["type"] == PROGRESS_ABOVE and progress_threshold(trigger) is None:
            logger.warning(
                "task %s: progress_above needs a finite number 'percent', got %r; it will never fire",
                task_id,
                trigger.get("percent"),
            )
        if not isinstance(trigger.get("repeat", False), bool):
            logger.warning(
                'task %s: only "repeat": true repeats a trigger, %r does not', task_id, trigger["repeat"]
            )


def warn_unknown(triggers: Iterable[Mapping[str, Any]], known: Collection[str]) -> list[str]:
    """Log a WARNING for each trigger whose type the server does not know, and return those types.

    For capability servers (unknown types must be ignored, not refused); ``progress_above`` is always known.

    Args:
        triggers: as the caller attached them.
        known: the types this server evaluates.
    """
    unknown = []
    for trigger in triggers:
        kind = trigger.get("type")
        if not isinstance(kind, str) or (kind not in known and kind != PROGRESS_ABOVE):
            unknown.append(str(kind))
            logger.warning(
                "unknown trigger type %r is ignored; known: %s",
                kind,
                ", ".join(sorted({*known, PROGRESS_ABOVE})),
            )
    return unknown
