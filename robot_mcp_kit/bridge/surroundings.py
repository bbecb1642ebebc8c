"""What a run needs from the bridge around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.bridge.ledger import Ledger
from robot_mcp_kit.bridge.settings import RunSettings
from robot_mcp_kit.clock import Clock
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.skills.world import World

if TYPE_CHECKING:
    from robot_mcp_kit.bridge.hunting import Hunt
    from robot_mcp_kit.bridge.run import GoalRun
    from robot_mcp_kit.bridge.run_core import RunCore


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Given to every run by its bridge."""

    guard: Guard
    ledger: Ledger
    clock: Clock
    settings: RunSettings
    action_names: Callable[[], list[str]]
    annotate: Callable[[str, dict[str, Any]], object]
    """Adds to a task's last progress, also after its end."""
    keep: Callable[[asyncio.Task[Any]], None]
    """Holds a background task until it is done."""
    clear_way: Callable[[GoalRun], Sequence[GoalRun]]
    """Stop what moves the same part of the robot through another action server; the runs to wait for."""
    on_sending: Callable[[GoalRun], None]
    """The goal is about to leave: it takes over from other runs of the same action now."""
    on_refused: Callable[[RunCore], None]
    """The server did not take the goal: it took over from nobody."""
    broken_condition: Callable[[], TaskFailure | None]
    """The first precondition of the skill that the world breaks now."""
    hunting: Callable[[RunCore, Hunt], None]
    """Nobody follows the run's goal any more, and it may still run."""
    world: World
    """What sensors tell; asked after a goal's end."""
    other_navigation: Callable[[GoalRun], str | None]
    """The task of another kind of navigation that runs now."""
