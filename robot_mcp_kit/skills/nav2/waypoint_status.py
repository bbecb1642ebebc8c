"""Waypoints that were missed, in every shape the distributions report them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from robot_mcp_kit.skills.messages import dig, finite, integer
from robot_mcp_kit.skills.nav2.codes import nav2_failure
from robot_mcp_kit.skills.text import clean_text

_LEG = "NavigateToPose"
"""An entry carries the code of the drive to that waypoint."""
_TOLD = 5


class WaypointState(IntEnum):
    """``nav2_msgs/msg/WaypointStatus``."""

    PENDING = 0
    COMPLETED = 1
    SKIPPED = 2
    FAILED = 3


def missed_entry(entry: Any, position: int) -> dict[str, Any] | None:
    """One missed waypoint as JSON data, or ``None`` for something that is none.

    Args:
        entry: ``WaypointStatus`` (Kilted), ``MissedWaypoint`` (Jazzy) or a plain index (Humble).
        position: the index to believe if the entry has none.

    Returns:
        ``index`` (from 0, as in the goal), ``number`` (from 1, for people), ``error_code`` and ``reason``,
        both ``None`` where the distribution reports no cause.
    """
    if isinstance(entry, str | bytes | bool) or entry is None:
        return None
    index = integer(entry, "waypoint_index")
    index = integer(entry, "index") if index is None else index
    if index is None:
        plain = finite(entry)
        index = int(plain) if plain is not None and plain >= 0 and plain == int(plain) else None
    if index is None:
        index = position
    code = integer(entry, "error_code") or 0
    failure = nav2_failure(_LEG, code, dig(entry, "error_msg")) if code else None
    return {
        "index": index,
        "number": index + 1,
        "error_code": None if failure is None else failure.error_code,
        "native_code": code or None,
        "reason": clean_text(dig(entry, "error_msg")) or None if failure is None else failure.message,
    }


def missed_words(missed: Sequence[dict[str, Any]], total: int) -> str:
    """``Reached 4 of 5. Number 3 was missed: ...``"""
    told = [missed_reason(entry) for entry in missed[:_TOLD]]
    if len(missed) > _TOLD:
        told.append(f"And {len(missed) - _TOLD} more were missed.")
    return " ".join([f"Reached {max(0, total - len(missed))} of {total}.", *told])


def missed_reason(entry: dict[str, Any]) -> str:
    """``Number 3 was missed: The robot knows no way ...``, one sentence with a full stop."""
    words = f"Number {entry['number']} was missed" + (f": {entry['reason']}" if entry["reason"] else "")
    return words if words.endswith((".", '"')) else words + "."
