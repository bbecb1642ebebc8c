"""The three reconciliation tools for any MCP server object that has ``.tool()``.

Works unchanged with MCPServer (SDK 2.x), FastMCP (SDK 1.x) and the separate fastmcp package; imports none of
them.
"""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from robot_mcp_kit.models import TaskState
    from robot_mcp_kit.tasks import TaskManager

GET_TASK = (
    "Report the state, progress and result of a long-running task by its task_id. "
    "Does not start any work: tasks are started by the tools that returned the task_id."
)
CANCEL_TASK = (
    "Cancel a long-running task by its task_id and report its state; safe to repeat. Waits a few seconds for "
    "the task to tear down. A finished task keeps its state. Does not start any work."
)
LIST_TASKS = (
    "List long-running tasks and their states. Does not start any work. "
    "states: only tasks in these states, of running, succeeded, failed, cancelled; leave out for all."
)
NOT_FOUND = '{"error":"not_found"}'

_MARK = "_robot_mcp_kit_task_tools"
_READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_CANCELS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


def register_task_tools(mcp: Any, manager: TaskManager) -> None:
    """Add ``get_task``, ``cancel_task`` and ``list_tasks`` to an MCP server.

    All three answer with JSON text; an unknown id is ``{"error": "not_found"}``, not a tool error.

    Args:
        mcp: the server object; only its ``.tool()`` is used.
        manager: whose tasks.

    Raises:
        ValueError: this server already has them (K167).
        ImportError: ``mcp`` is no server, and no MCP package is installed; names the extra.
        TypeError: ``mcp`` is no server.
    """
    if not callable(getattr(mcp, "tool", None)):
        if not any(importlib.util.find_spec(name) for name in ("mcp", "fastmcp")):
            raise ImportError("no MCP server package is installed: pip install 'robot-mcp-kit[mcp]'")
        raise TypeError(f"mcp: needs an MCP server object with a .tool() method, got {type(mcp).__name__}")
    if getattr(mcp, _MARK, False):
        raise ValueError("this MCP server already has the task tools; register them once")

    async def get_task(task_id: str) -> str:
        info = manager.get(task_id)
        return NOT_FOUND if info is None else info.model_dump_json()

    async def cancel_task(task_id: str) -> str:
        info = await manager.cancel(task_id)
        return NOT_FOUND if info is None else json.dumps({"task_id": info.task_id, "state": info.state})

    async def list_tasks(states: list[str] | None = None) -> str:
        try:
            infos = manager.list(cast("list[TaskState] | None", states))
        except ValueError as exc:
            return json.dumps({"error": "invalid_state", "message": str(exc)})
        return json.dumps(
            {"tasks": [info.model_dump(mode="json") for info in infos]}, ensure_ascii=False, allow_nan=False
        )

    # Annotations are resolved by name in this module's globals, so plain builtins only.
    mcp.tool(name="get_task", description=GET_TASK, annotations=_READ_ONLY)(get_task)
    mcp.tool(name="cancel_task", description=CANCEL_TASK, annotations=_CANCELS)(cancel_task)
    mcp.tool(name="list_tasks", description=LIST_TASKS, annotations=_READ_ONLY)(list_tasks)
    setattr(mcp, _MARK, True)
