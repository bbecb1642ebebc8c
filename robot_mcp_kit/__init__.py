"""Long-running robot work over MCP: tasks with progress, triggers, signed events and cancel. No ROS, no MCP
needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robot_mcp_kit.context import TaskContext
    from robot_mcp_kit.errors import TaskError
    from robot_mcp_kit.events import EventPoster, PosterStatistics
    from robot_mcp_kit.fastmcp_ext import register_task_tools
    from robot_mcp_kit.models import SCHEMA_VERSION, EventType, TaskEvent, TaskFailure, TaskInfo, TaskState
    from robot_mcp_kit.outbox import MemoryOutbox, Outbox
    from robot_mcp_kit.signing import sign, verify
    from robot_mcp_kit.tasks import TaskBody, TaskManager
    from robot_mcp_kit.triggers import warn_unknown

__all__ = [
    "SCHEMA_VERSION",
    "EventPoster",
    "EventType",
    "MemoryOutbox",
    "Outbox",
    "PosterStatistics",
    "TaskBody",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskFailure",
    "TaskInfo",
    "TaskManager",
    "TaskState",
    "register_task_tools",
    "sign",
    "verify",
    "warn_unknown",
]

_HOMES = {
    "EventPoster": "events",
    "EventType": "models",
    "MemoryOutbox": "outbox",
    "Outbox": "outbox",
    "PosterStatistics": "events",
    "SCHEMA_VERSION": "models",
    "TaskBody": "tasks",
    "TaskContext": "context",
    "TaskError": "errors",
    "TaskEvent": "models",
    "TaskFailure": "models",
    "TaskInfo": "models",
    "TaskManager": "tasks",
    "TaskState": "models",
    "register_task_tools": "fastmcp_ext",
    "sign": "signing",
    "verify": "signing",
    "warn_unknown": "triggers",
}


def __getattr__(name: str) -> Any:
    """Each name comes from its module when it is asked for.

    A simulated robot or a command does not wait for the half a second that pydantic and httpx take to import.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
