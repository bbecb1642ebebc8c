"""The connection that rigs, the demo and the benches use."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server import MCPServer

from robot_mcp_kit.client.session import connect

from .serving import serving


async def test_what_goes_wrong_in_a_group_of_calls_is_what_is_raised() -> None:
    """The SDK's scopes must not put a cancellation in its place that nobody asked for."""
    server = MCPServer("x")
    arrived = asyncio.Semaphore(0)

    @server.tool()
    async def wait_for_ever() -> str:
        arrived.release()
        await asyncio.Event().wait()
        return ""

    async def fails_meanwhile(calls: int) -> None:
        for _ in range(calls):
            await arrived.acquire()
        raise AssertionError("the real one")

    async def calls(url: str) -> None:
        async with asyncio.timeout(30), connect(f"{url}/mcp") as robot, asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(robot.client.call_tool("wait_for_ever", {}))
            group.create_task(fails_meanwhile(3))

    async with serving(server.streamable_http_app()) as url:
        with pytest.raises(ExceptionGroup) as caught:
            await calls(url)
    assert [str(error) for error in caught.value.exceptions] == ["the real one"]


async def test_a_cancelled_block_stays_cancelled() -> None:
    """Whoever cancels the task that holds the connection hears no other error."""
    server = MCPServer("x")
    inside = asyncio.Event()

    async with serving(server.streamable_http_app()) as url:

        async def hold() -> None:
            async with connect(f"{url}/mcp"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        async with asyncio.timeout(30):
            await inside.wait()
            task.cancel()
            await asyncio.wait({task})
    assert task.cancelled()
