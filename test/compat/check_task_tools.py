"""Run with the Python of an environment that has one MCP package: registers the task tools and uses them.

Prints one line, ``<package> <version> ok``. Only what all three packages share is used on our side.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from robot_mcp_kit import EventPoster, TaskContext, TaskManager, register_task_tools

Call = Callable[[str, dict[str, Any]], Awaitable[str]]
Use = Callable[[dict[str, dict[str, Any]], Call], Awaitable[None]]


async def mcp_1(build: Callable[[Any], None], use: Use) -> None:
    """FastMCP of the official SDK, 1.x."""
    from mcp.server.fastmcp import FastMCP
    from mcp.shared.memory import create_connected_server_and_client_session

    server = FastMCP("navigation")
    build(server)
    async with create_connected_server_and_client_session(server._mcp_server) as session:
        tools = (await session.list_tools()).tools

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await session.call_tool(name, arguments)
            assert not result.isError, result
            return str(result.content[0].text)

        await use({tool.name: tool.inputSchema for tool in tools}, call)


async def mcp_2(build: Callable[[Any], None], use: Use) -> None:
    """MCPServer of the official SDK, 2.x."""
    from mcp import Client
    from mcp.server import MCPServer

    server = MCPServer("navigation")
    build(server)
    async with Client(server) as client:
        tools = (await client.list_tools()).tools

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            return str(result.content[0].text)

        await use({tool.name: tool.input_schema for tool in tools}, call)


async def fastmcp_4(build: Callable[[Any], None], use: Use) -> None:
    """FastMCP of the separate package."""
    from fastmcp import Client, FastMCP

    server = FastMCP("navigation")
    build(server)
    async with Client(server) as client:
        tools = await client.list_tools()

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await client.call_tool(name, arguments)
            return str(result.content[0].text)

        schemas = {tool.name: getattr(tool, "input_schema", None) or tool.inputSchema for tool in tools}
        await use(schemas, call)


async def check(connect: Callable[[Callable[[Any], None], Use], Awaitable[None]]) -> None:
    manager = TaskManager("navigation", EventPoster("navigation", ""))

    async def drive(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 10, "eta_s": float("nan")})
        await asyncio.Event().wait()
        return {}

    def build(server: Any) -> None:
        register_task_tools(server, manager)
        try:
            register_task_tools(server, manager)
        except ValueError:
            pass
        else:
            raise AssertionError("registered twice")

        # Synchronous, as the contract's example: a worker thread on some servers, the loop on others.
        @server.tool(name="navigate_to", description="Start driving.")
        def navigate_to() -> str:
            return manager.start("navigate_to", drive).model_dump_json()

    async def use(schemas: dict[str, dict[str, Any]], call: Call) -> None:
        assert set(schemas) == {"get_task", "cancel_task", "list_tasks", "navigate_to"}, schemas
        for name in ("get_task", "cancel_task"):
            assert schemas[name]["required"] == ["task_id"], schemas[name]
            assert schemas[name]["properties"]["task_id"]["type"] == "string", schemas[name]
        assert "states" not in schemas["list_tasks"].get("required", []), schemas["list_tasks"]
        started = json.loads(await call("navigate_to", {}))
        assert started["state"] == "running", started
        task_id = started["task_id"]
        async with asyncio.timeout(20):
            while (polled := json.loads(await call("get_task", {"task_id": task_id})))["progress"] is None:
                await asyncio.sleep(0.01)
        assert polled["progress"] == {"percent": 10, "eta_s": None}, polled
        assert json.loads(await call("get_task", {"task_id": "navi-000000"})) == {"error": "not_found"}
        running = json.loads(await call("list_tasks", {"states": ["running"]}))["tasks"]
        assert [task["task_id"] for task in running] == [task_id], running
        cancelled = json.loads(await call("cancel_task", {"task_id": task_id}))
        assert cancelled == {"task_id": task_id, "state": "cancelled"}, cancelled
        assert json.loads(await call("list_tasks", {"states": ["running"]})) == {"tasks": []}
        every = json.loads(await call("list_tasks", {}))["tasks"]
        assert len(every) == 1, every

    await connect(build, use)
    await manager.aclose()


CONNECT = {"mcp1": mcp_1, "mcp2": mcp_2, "fastmcp4": fastmcp_4}

if __name__ == "__main__":
    which = sys.argv[1]
    asyncio.run(check(CONNECT[which]))
    package = "fastmcp" if which.startswith("fastmcp") else "mcp"
    print(package, importlib.metadata.version(package), "ok")
