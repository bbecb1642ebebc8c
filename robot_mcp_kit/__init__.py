"""Long-running robot work over MCP: tasks with progress, triggers, signed events and cancel. No ROS, no MCP
needed.
"""

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
