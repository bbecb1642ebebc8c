"""What a stop of everything answers."""

from __future__ import annotations

from pydantic import BaseModel

from robot_mcp_kit.models import TaskState


class StoppedTask(BaseModel):
    """One task in a stop report."""

    task_id: str
    tool: str
    state: TaskState | None
    """The task's state now; ``None`` when the manager no longer knows it."""
    stop_confirmed: bool
    """The action server said that the goal has ended. ``False``: do not assume that the robot stands
    still.
    """
    note: str


class StopReport(BaseModel):
    """What :meth:`Bridge.stop` did."""

    reason: str
    tasks: list[StoppedTask]
    all_confirmed: bool
    message: str
    """One sentence for a planner."""


def stop_words(tasks: list[StoppedTask]) -> str:
    if not tasks:
        return "Nothing was running for this bridge."
    open_ones = [task.task_id for task in tasks if not task.stop_confirmed]
    if not open_ones:
        return f"All {len(tasks)} running tasks were stopped and the stop is confirmed."
    return (
        f"{len(tasks)} tasks were told to stop; not confirmed for {', '.join(open_ones)}. Do not assume that "
        "the robot stands still; use the emergency stop if it moves."
    )
