"""Tools that the ``tasks-*`` scenarios of the conformance suite ask for, over the kit's own task manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    TextContent,
)

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.server.answers import started
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.tasks_extension import ProtocolFailure, TasksExtension
from robot_mcp_kit.tasks import TaskBody, TaskContext

TASK_TOOLS = frozenset(
    {
        "slow_compute",
        "failing_job",
        "protocol_error_job",
        "confirm_delete",
        "multi_input",
        "test_tool_with_task",
    }
)
REQUIRED = frozenset({"failing_job", "test_tool_with_task"})
_CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _text(words: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)], is_error=is_error)


def add_task_tools(server: MCPServer, handles: Handles, extension: Callable[[], TasksExtension]) -> None:
    """Register them."""

    def begin(tool: str, body: TaskBody) -> CallToolResult:
        return started(handles.manager.start(tool, body), handles, started_now=True)

    @server.tool(description="Greets at once; never a task.")
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.tool(description="Sleeps for some seconds; a task for clients that know tasks.")
    async def slow_compute(seconds: float, ctx: Context[Any, Any], label: str = "") -> CallToolResult:
        async def body(_: TaskContext | None) -> dict[str, Any]:
            await asyncio.sleep(seconds)
            return {"message": f"done {label}", "slept_s": seconds}

        if not extension().declared(ctx.request_context):
            return _text(str((await body(None))["message"]))
        return begin("slow_compute", body)

    @server.tool(description="Always ends as a tool error; only as a task.")
    async def failing_job() -> CallToolResult:
        async def body(_: TaskContext) -> dict[str, Any]:
            await asyncio.sleep(1)
            raise TaskError("BOOM", "the job failed as it always does")

        return begin("failing_job", body)

    @server.tool(description="Always ends as a protocol error.")
    async def protocol_error_job() -> CallToolResult:
        async def body(_: TaskContext) -> dict[str, Any]:
            await asyncio.sleep(0.2)
            raise ProtocolFailure("the server panicked")

        return begin("protocol_error_job", body)

    @server.tool(description="Asks before it deletes nothing at all.")
    async def confirm_delete(filename: str) -> CallToolResult:
        async def body(ctx: TaskContext) -> dict[str, Any]:
            answer = await extension().questions.ask(ctx.task_id, f"Delete {filename}?", _CONFIRM)
            return {"message": f"answered {answer}"}

        return begin("confirm_delete", body)

    @server.tool(description="Asks two questions at once.")
    async def multi_input() -> CallToolResult:
        async def body(ctx: TaskContext) -> dict[str, Any]:
            ask = extension().questions.ask
            answers = await asyncio.gather(*(ask(ctx.task_id, word, _CONFIRM) for word in ("a?", "b?")))
            return {"message": f"answered {answers}"}

        return begin("multi_input", body)

    @server.tool(description="Asks for a name first, then works as a task.")
    async def test_tool_with_task(ctx: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
        if not ctx.input_responses:
            params = ElicitRequestFormParams(message="What is your name?", requested_schema=_NAME)
            return InputRequiredResult(
                input_requests={"user_name": ElicitRequest(params=params)}, request_state="asked"
            )
        name = ctx.input_responses["user_name"].content["name"]  # type: ignore[union-attr,index]

        async def body(_: TaskContext) -> dict[str, Any]:
            await asyncio.sleep(0.3)
            return {"message": f"Hello, {name}!"}

        return begin("test_tool_with_task", body)
