"""Everything about a robot in one go, whatever of it can be read (R13)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.rcp.models import (
    IOSignal,
    IOState,
    JointState,
    ProgramInfo,
    RobotContext,
    RobotIdentity,
    TCPPosition,
    ToolData,
)
from robot_mcp_kit.rcp.prompt import prompt_block
from robot_mcp_kit.rcp.timing import bounded
from robot_mcp_kit.skills.text import clean_text

if TYPE_CHECKING:
    from robot_mcp_kit.rcp.adapter import RCPAdapter

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ContextReport:
    """A context, and what of it could not be read."""

    context: RobotContext
    missing: dict[str, str] = field(default_factory=dict)
    """Part (``identity``, ``joints``, ``tcp``, ``io``, ``programs``, ``tools``) to the reason."""

    def to_prompt_block(self) -> str:
        """The protocol's block, and a line for each part that could not be read."""
        return prompt_block(self.context, self.missing)


async def collect_context(
    adapter: RCPAdapter, *, timeout_s: float = 2.0, clock: Clock | None = None
) -> ContextReport:
    """Ask every source, one after the other: controllers seldom answer two questions at once.

    A source that raises, takes longer than ``timeout_s`` or answers something else than it should leaves its
    part empty; the reason is in the report and in the log.
    """
    context, waiting_on = RobotContext(), clock or SystemClock()
    report = ContextReport(context)
    sources: dict[str, tuple[Callable[[], Awaitable[Any]], Callable[[Any], bool]]] = {
        "identity": (adapter.discover, lambda value: isinstance(value, RobotIdentity)),
        "joints": (adapter.get_joints, lambda value: _all(value, JointState)),
        "tcp": (adapter.get_tcp, lambda value: isinstance(value, TCPPosition)),
        "io": (adapter.get_io, lambda value: isinstance(value, IOState) and _all(value.signals, IOSignal)),
        "programs": (adapter.get_programs, lambda value: _all(value, ProgramInfo)),
        "tools": (adapter.get_tools, lambda value: _all(value, ToolData)),
    }
    for part, (read, is_right) in sources.items():
        try:
            value = await bounded(read(), timeout_s, waiting_on)
            if not is_right(value):
                raise TypeError(f"it answered with {type(value).__name__}, which is not what belongs here")
        except Exception as error:
            report.missing[part] = clean_text(str(error), 200) or type(error).__name__
            logger.warning("the robot's %s could not be read: %r", part, error)
            continue
        setattr(context, part, value)
    return report


def _all(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
