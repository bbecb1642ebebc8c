"""The planner: a mission's facts in, what to start next or the verdict out; a real app would ask a model
here.

"Go to the kitchen; when 10 s remain start looking; then dock."
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LOOK_WHEN_ETA_S = 10.0
LOOK_FOR_S = 3.0


@dataclass(frozen=True, slots=True)
class Call:
    """One step: a tool of a server."""

    step: str
    server: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    triggers: list[dict[str, Any]] | None = None


@dataclass(slots=True)
class Step:
    """What is known of one step. ``state`` is ``None`` until it was started."""

    task_id: str | None = None
    state: str | None = None
    why: str = ""
    triggered: bool = False
    eta_s: float | None = None
    unreachable: bool = False


def calls(place: str) -> dict[str, Call]:
    """The steps of a mission."""
    trigger = {"type": "eta_below", "seconds": LOOK_WHEN_ETA_S}
    return {
        "drive": Call("drive", "robot", "navigate_to", {"place": place}, [trigger]),
        "look": Call("look", "sleeper", "sleep_task", {"duration_s": LOOK_FOR_S}),
        "dock": Call("dock", "robot", "dock"),
    }


def due(steps: dict[str, Step]) -> list[str]:
    """The steps that should be started now."""
    drive, look, dock = (steps[name] for name in ("drive", "look", "dock"))
    if drive.state is None:
        return ["drive"]
    if drive.state in ("failed", "cancelled"):
        return []
    found = []
    # The trigger is how it should happen. It may have been lost with a gap in the events; then what polling
    # shows has to do, at the latest the end of the drive.
    near = drive.triggered or drive.state == "succeeded"
    near = near or (drive.eta_s is not None and 0 < drive.eta_s < LOOK_WHEN_ETA_S)
    if near and look.state is None:
        found.append("look")
    if drive.state == "succeeded" and dock.state is None:
        found.append("dock")
    return found


def verdict(steps: dict[str, Step]) -> str | None:
    """How the mission ended, in words; ``None`` while it goes on."""
    for name in ("drive", "dock", "look"):
        if steps[name].state in ("failed", "cancelled") and all(
            step.state != "running" for step in steps.values()
        ):
            return f"{name} {steps[name].state}: {steps[name].why}"
    if all(step.state == "succeeded" for step in steps.values()):
        return "succeeded"
    return None


def unknown(steps: dict[str, Step]) -> list[str]:
    """What cannot be known just now, in words for a person."""
    return [
        f"{name}: its server cannot be asked; when it last could, the task {step.task_id} was running"
        + (f" with {step.eta_s:g} s left" if step.eta_s is not None else "")
        for name, step in steps.items()
        if step.unreachable and step.state == "running"
    ]
