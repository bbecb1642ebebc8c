"""The client half of the MCP tasks extension (SEP-2663) for the official Python client.

    async with Client(url, extensions=[McpTasks(on_state=print)]) as client:
        result = await client.call_tool("navigate_to", {"place": "kitchen"})   # waits for the end

A client that has it gets a task for a motion; ``call_tool`` then polls until the end. The task outlives the
client: keep ``task_id`` from ``on_state`` and come back with :func:`get_task`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from mcp.client import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, Request, RequestParams, Result, TextContent
from pydantic import ConfigDict

TASKS = "io.modelcontextprotocol/tasks"
DEFAULT_POLL_MS = 500


class TaskParams(RequestParams):
    """Which task."""

    task_id: str


class TaskCreated(Result):
    """Answer of ``tools/call``: a task in place of a result."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None


class TaskStatus(Result):
    """Answer of ``tasks/get``."""

    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None

    @property
    def final(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"  # the Mcp-Name header


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


async def get_task(session: Any, task_id: str) -> TaskStatus:
    """How a task stands.

    Raises:
        MCPError: unknown or expired (-32602), or this client did not declare the extension (-32021).
    """
    status: TaskStatus = await session.send_request(GetTask(params=TaskParams(task_id=task_id)), TaskStatus)
    return status


async def cancel_task(session: Any, task_id: str) -> None:
    """Ask for a task's end; the poll tells when it has come."""
    await session.send_request(CancelTask(params=TaskParams(task_id=task_id)), Result)


class McpTasks(ClientExtension):
    """Declares the extension and waits for tasks.

    Args:
        on_state: told each time a task was asked for.
    """

    identifier = TASKS

    def __init__(self, on_state: Callable[[TaskStatus], None] | None = None) -> None:
        self._on_state = on_state

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskCreated, resolve=self._follow)]

    async def _follow(self, created: TaskCreated, ctx: ClaimContext) -> CallToolResult:
        while True:
            status = await get_task(ctx.session, created.task_id)
            if self._on_state is not None:
                self._on_state(status)
            if status.status == "completed":
                return CallToolResult.model_validate(status.result)
            if status.status == "failed":
                error = status.error or {"code": -32603, "message": "the task failed"}
                raise MCPError(error["code"], error["message"])
            if status.status == "cancelled":
                words = status.status_message or "The task was cancelled."
                return CallToolResult(content=[TextContent(type="text", text=words)], is_error=True)
            await asyncio.sleep((status.poll_interval_ms or DEFAULT_POLL_MS) / 1000)
