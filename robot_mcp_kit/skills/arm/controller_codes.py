"""What the joint trajectory controller's result codes mean (``FollowJointTrajectory``; 0 is success).

Constants and numbers: control_msgs. The controller of ros2_controllers uses INVALID_GOAL for three things
that only its text tells apart. Drivers of robot makers add numbers of their own. Total: no number raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.text import clean_text

SUCCESSFUL = 0
INVALID_GOAL = -1


@dataclass(frozen=True, slots=True)
class ControllerCode:
    """One row. ``said``: part of the controller's text that chooses it, lower case; empty: any text."""

    code: int
    constant: str
    said: str
    error_code: str
    recoverable: bool
    suggestions: tuple[str, ...]
    sentence: str


_ASK = "ask_person"
_TOOL = "{tool}"
"""Stands for the tool that was called."""

ROWS: tuple[ControllerCode, ...] = (
    ControllerCode(
        INVALID_GOAL, "INVALID_GOAL", "preempt", "JTC_PREEMPTED", True, ("list_tasks",),
        "Another trajectory replaced this one; that is no failure of the motion itself.",
    ),
    ControllerCode(
        INVALID_GOAL, "INVALID_GOAL", "deactivat", "JTC_DEACTIVATED", True, (_ASK,),
        "The arm's controller was switched off during the motion; it has to be activated again.",
    ),
    ControllerCode(
        INVALID_GOAL, "INVALID_GOAL", "", "JTC_INVALID_GOAL", True, (_TOOL,),
        "The controller could not use the trajectory; correct it.",
    ),
    ControllerCode(
        -2, "INVALID_JOINTS", "", "JTC_INVALID_JOINTS", True, (_TOOL, _ASK),
        "The joints of the trajectory are not the controller's.",
    ),
    ControllerCode(
        -3, "OLD_HEADER_TIMESTAMP", "", "JTC_OLD_STAMP", True, (_TOOL, _ASK),
        "The controller thinks that the trajectory lies in the past; the clocks may disagree.",
    ),
    ControllerCode(
        -4, "PATH_TOLERANCE_VIOLATED", "", "JTC_PATH_TOLERANCE", True, (_ASK, _TOOL),
        "The arm strayed from the trajectory and stopped: it may have hit something or carry too much. Look "
        "before trying again.",
    ),
    ControllerCode(
        -5, "GOAL_TOLERANCE_VIOLATED", "", "JTC_GOAL_TOLERANCE", True, (_TOOL, _ASK),
        "The arm did not come to rest at the end of the trajectory in time.",
    ),
)  # fmt: skip


def controller_failure(code: int, error_string: object = "", *, tool: str) -> TaskFailure:
    """A failure for ``error_code`` and ``error_string``. ``tool``: the tool that may be called again.

    Unknown numbers give ``JTC_CODE_<n>``. The controller's text is quoted, cleaned and cut.
    """
    said = clean_text(error_string)
    quoted = f' The controller says: "{said}"' if said else ""
    row = next((r for r in ROWS if r.code == code and r.said in said.casefold()), None)
    if row is None:
        return TaskFailure(
            error_code=f"JTC_CODE_{code}".replace("-", "MINUS_"),
            message=f"The arm's controller ended with code {code}, which this kit does not know.{quoted}",
            recoverable=True,
            suggestions=["get_task", _ASK],
        )
    return TaskFailure(
        error_code=row.error_code,
        message=f"{row.sentence} ({row.constant}, controller code {code}.){quoted}",
        recoverable=row.recoverable,
        suggestions=[tool if word == _TOOL else word for word in row.suggestions],
    )
