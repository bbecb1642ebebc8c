"""What the guard judges: one thing that a robot shall do, whoever would do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """A goal of a ROS action, or an action of another protocol."""

    name: str
    """Whose rules hold: a skill's name, ``rcp.move_to``."""
    action: str
    """To whom it goes: the ROS action's resolved name, the protocol's action."""
    type: str
    """``nav2_msgs/action/NavigateToPose``, ``rcp/move_to``."""
    summary: str
    """One short sentence for the person who decides."""
    fields: Mapping[str, Any]
    """Exactly what will be sent."""
    robot: str
    """For the trail."""
