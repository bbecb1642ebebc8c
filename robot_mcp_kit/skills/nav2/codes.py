"""From a Nav2 (action, error_code, error_msg) to a failure a planner can use. Total: no number raises.

Nav2's behavior-tree navigators report the smallest non-zero code found anywhere below them, so a
``NavigateToPose`` mostly ends with a controller's (1xx) or planner's (2xx) number. Other actions have their
own numbers, and the same number means different things (713 is INVALID_INPUT of BackUp; 723 is
COLLISION_AHEAD of DriveOnHeading), so rows are found by action first.
"""

from __future__ import annotations

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.nav2.code_table import FAMILIES, PASS_ON, ROWS, Nav2Code
from robot_mcp_kit.skills.text import clean_text

__all__ = ["Nav2Code", "nav2_code", "nav2_failure", "nav2_note"]

_BY_FAMILY = {(row.family, row.code): row for row in ROWS}
_CROSS = {row.code: row for row in ROWS}
_UNKNOWN_SUGGESTIONS = ("get_task", "ask_person")


def _action(action_type: str) -> str:
    """``nav2_msgs/action/BackUp`` or ``BackUp`` -> ``BackUp``."""
    return action_type.rsplit("/", 1)[-1]


def nav2_code(action_type: str, code: int) -> Nav2Code | None:
    """The row for a code of that action, or ``None``.

    Args:
        action_type: ``nav2_msgs/action/NavigateToPose`` or its last part. Entries of ``missed_waypoints`` are
            read as ``NavigateToPose``.
        code: ``error_code`` of the result; 0 is "no error" and has no row.
    """
    action = _action(action_type)
    if action in PASS_ON:
        return _CROSS.get(code)
    for family in (*FAMILIES.get(action, ()), "any"):
        row = _BY_FAMILY.get((family, code))
        if row is not None:
            return row
    return None


def _quoted(error_msg: object) -> str:
    said = clean_text(error_msg)
    return f' Nav2 says: "{said}"' if said else ""


def nav2_failure(action_type: str, code: int, error_msg: object = "") -> TaskFailure:
    """A failure with a stable code, a sentence, and suggestions that name tools of this kit.

    Unknown numbers give ``NAV2_CODE_<n>``. ``error_msg`` is quoted, cleaned and cut (case C30).
    """
    row = nav2_code(action_type, code)
    if row is None:
        return TaskFailure(
            error_code=f"NAV2_CODE_{code}".replace("-", "MINUS_"),
            message=f"{_action(action_type)} failed with code {code}, which this kit does not know."
            + _quoted(error_msg),
            recoverable=True,
            suggestions=list(_UNKNOWN_SUGGESTIONS),
        )
    return TaskFailure(
        error_code=row.error_code,
        message=f"{row.sentence} ({row.constant}, Nav2 code {code}.){_quoted(error_msg)}",
        recoverable=row.recoverable,
        suggestions=list(row.suggestions),
    )


def nav2_note(action_type: str, code: int, error_msg: object = "") -> str | None:
    """A sentence for a code left over on success, ``None`` for 0.

    Nav2 clears a code only when the same node succeeds later, so a recovery that failed on the way leaves its
    number in the result of a drive that arrived.
    """
    if code == 0:
        return None
    row = nav2_code(action_type, code)
    name = f"{row.error_code} ({row.constant}, Nav2 code {code})" if row else f"Nav2 code {code}"
    return f"A step on the way failed and was overcome: {name}.{_quoted(error_msg)}"
