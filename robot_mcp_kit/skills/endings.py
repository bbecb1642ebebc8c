"""Ends of a goal that mean the same for every action: whatever is neither a success nor a coded failure."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.bridge_codes import bridge_failure


def unsuccessful(status: int, action: str, detail: Any = "") -> TaskFailure:
    """The failure for a status other than SUCCEEDED, without reading a code.

    Results of CANCELED and UNKNOWN are default-constructed, so their fields are no reason (a docking result
    then even says ``success``). ABORTED here means: the caller found no code for it.
    """
    if status == GoalStatus.ABORTED:
        return bridge_failure("ROS_ABORTED_NO_REASON", action=action, detail=detail or "")
    if status == GoalStatus.CANCELED:
        return bridge_failure("ROS_CANCELLED_EXTERNALLY", action=action)
    if status == GoalStatus.UNKNOWN:
        return bridge_failure("ROS_RESULT_EXPIRED", action=action)
    return bridge_failure("ROS_BAD_STATUS", action=action, detail=f"Status {status}.")
