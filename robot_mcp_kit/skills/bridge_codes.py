"""Failures that mean the same for every action: the bridge's own codes, with sentences for a planner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.text import clean_text


@dataclass(frozen=True, slots=True)
class BridgeCode:
    """One row. ``{action}`` and other names in the sentence are filled in by :func:`bridge_failure`."""

    error_code: str
    sentence: str
    retry: bool
    recoverable: bool
    suggestions: tuple[str, ...]


_TABLE = (
    BridgeCode(
        "ROS_SERVER_UNAVAILABLE",
        "No action server answers at {action}; nothing was sent and nothing moved.",
        True, True, ("wait_s:5", "ask_person"),
    ),
    BridgeCode(
        "ROS_SERVER_AMBIGUOUS",
        "{count} action servers answer at {action}, so a goal could move more than one robot; nothing was "
        "sent. One of them may have died within the last 20 s: try again after that. If it stays so, "
        "somebody has to give each robot its own namespace.",
        True, True, ("wait_s:20", "ask_person"),
    ),
    BridgeCode(
        "ROS_TYPE_UNAVAILABLE",
        "The bridge cannot load the message type of {action}; nothing was sent.",
        False, False, ("ask_person",),
    ),
    BridgeCode(
        "ROS_INVALID_GOAL",
        "The goal does not fit the action {action}; nothing was sent.",
        False, True, (),
    ),
    BridgeCode(
        "ROS_GOAL_REJECTED",
        "{action} refused the goal and ROS 2 gives no reason; usually the server is not active yet. "
        "Nothing moved.",
        True, True, ("wait_s:5", "ask_person"),
    ),
    BridgeCode(
        "ROS_GOAL_RESPONSE_TIMEOUT",
        "{action} did not say whether it took the goal, so the robot may or may not be moving. The goal was "
        "not sent again, and a request to cancel it was.",
        False, True, ("stop", "ask_person"),
    ),
    BridgeCode(
        "ROS_BUSY",
        "The robot is busy with the task {other}; this goal was not sent.",
        True, True, ("get_task", "cancel_task", "stop"),
    ),
    BridgeCode(
        "ROS_PREEMPTED",
        "Replaced by another goal for {action}; this is not a failure of the motion itself.",
        False, True, ("list_tasks",),
    ),
    BridgeCode(
        "NAV2_NAVIGATOR_BUSY",
        "Nav2 took the goal and dropped it at once because another kind of navigation is running.",
        True, True, ("list_tasks", "stop"),
    ),
    BridgeCode(
        "ROS_ABORTED_NO_REASON",
        "{action} gave up and did not say why.",
        True, True, ("get_task", "ask_person"),
    ),
    BridgeCode(
        "ROS_CANCELLED_EXTERNALLY",
        "Somebody other than this task's caller stopped it (another program or a person). Find out why "
        "before moving again.",
        False, True, ("list_tasks", "ask_person"),
    ),
    BridgeCode(
        "ROS_CANCEL_REJECTED",
        "{action} refused the request to stop; the motion may go on. Use the emergency stop if it must end.",
        False, True, ("stop", "ask_person"),
    ),
    BridgeCode(
        "ROS_CANCEL_UNCONFIRMED",
        "{action} was asked to stop and has not confirmed it; do not assume that the robot stands still.",
        False, True, ("stop", "ask_person"),
    ),
    BridgeCode(
        "ROS_SERVER_LOST",
        "The action server at {action} disappeared while it worked on the goal; whether the robot still "
        "moves is not known. The goal was not sent again.",
        False, True, ("wait_s:5", "ask_person"),
    ),
    BridgeCode(
        "ROS_RESULT_EXPIRED",
        "{action} no longer knows the goal (it restarted, or forgot the result), so how it ended is "
        "not known.",
        False, True, ("ask_person",),
    ),
    BridgeCode(
        "ROS_BAD_STATUS",
        "{action} ended the goal with a status that ROS 2 does not define, so how it ended is not known.",
        False, True, ("ask_person",),
    ),
    BridgeCode(
        "ROS_RESULT_TIMEOUT",
        "{action} took longer than the {seconds} s this robot allows; it was asked to stop.",
        True, True, ("get_task", "stop", "ask_person"),
    ),
    BridgeCode(
        "ROS_FEEDBACK_TIMEOUT",
        "{action} has been silent for {seconds} s; the task is still open.",
        False, True, ("get_task", "cancel_task"),
    ),
    BridgeCode(
        "ROS_BRIDGE_RESTARTED",
        "The bridge restarted while it had a goal for {action}.",
        False, True, ("list_tasks", "ask_person"),
    ),
    BridgeCode(
        "BRIDGE_LEDGER_UNAVAILABLE",
        "The bridge cannot write down what it is about to do, so it does not start it; nothing was sent.",
        True, True, ("wait_s:5", "ask_person"),
    ),
)  # fmt: skip

BRIDGE_CODES: dict[str, BridgeCode] = {row.error_code: row for row in _TABLE}


def bridge_failure(
    error_code: str,
    *,
    action: str,
    detail: object = "",
    suggestions: Iterable[str] | None = None,
    **values: object,
) -> TaskFailure:
    """A failure for a code of this table.

    Args:
        error_code: a key of :data:`BRIDGE_CODES`.
        action: the action's name, for the sentence.
        detail: one more sentence (cleaned, at most 300 characters).
        suggestions: instead of the table's.
        values: other names the sentence uses (``seconds``, ``other``, ``count``).
    """
    row = BRIDGE_CODES[error_code]
    message = row.sentence.format(action=action, **values)
    more = clean_text(detail)
    return TaskFailure(
        error_code=error_code,
        message=f"{message} {more}" if more else message,
        recoverable=row.recoverable,
        suggestions=list(row.suggestions if suggestions is None else suggestions),
    )
