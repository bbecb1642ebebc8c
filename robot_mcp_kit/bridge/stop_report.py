"""What a stop of everything answers."""

from __future__ import annotations

from pydantic import BaseModel

from robot_mcp_kit.bridge.hunting import FOUND, Hunt
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.states import RunState
from robot_mcp_kit.models import TaskInfo, TaskState


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


def stopped_run(run: GoalRun, info: TaskInfo | None) -> StoppedTask:
    """What is known of one goal after the stop."""
    stop, ended = run.stop, run.state is RunState.ENDED
    if stop is not None:
        confirmed, note = stop.confirmed, stop.note
    elif not ended:
        confirmed, note = False, "Still stopping."
    elif run.may_run:
        confirmed, note = False, "It is not known how the goal ended; the robot may still be moving."
    else:
        confirmed, note = True, "The goal had already ended."
    state = None if info is None else info.state
    return StoppedTask(
        task_id=run.task_id, tool=run.skill.name, state=state, stop_confirmed=confirmed, note=note
    )


def stopped_hunt(hunt: Hunt, task_id: str, info: TaskInfo | None) -> StoppedTask:
    """What is known of a goal that outlived its task."""
    if not hunt.over.done():
        confirmed = False
        note = "Its task ended before the goal's end was known. It is cancelled until a server answers."
    elif hunt.over.result():
        confirmed, note = True, FOUND
    else:
        confirmed, note = False, "No server knows the goal any more; do not assume a stop."
    return StoppedTask(
        task_id=task_id,
        tool="" if info is None else info.tool,
        state=None if info is None else info.state,
        stop_confirmed=confirmed,
        note=note,
    )


def stopped_routine(task_id: str, info: TaskInfo | None) -> StoppedTask:
    """No further step is begun. A step that was running is a task of its own in the report; of one that had
    failed with an unknown end, the routine's own record tells.
    """
    told = {} if info is None else info.progress or {}
    confirmed = told.get("stop_confirmed") is not False
    why = "" if confirmed else told.get("note", "")
    return StoppedTask(
        task_id=task_id,
        tool="" if info is None else info.tool,
        state=None if info is None else info.state,
        stop_confirmed=confirmed,
        note=f"No further step is begun. {why}".rstrip(),
    )
