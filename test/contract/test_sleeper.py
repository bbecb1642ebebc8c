"""The example as its users start it: a process of its own, a listening socket, a client that is not ours."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit import TaskInfo
from robot_mcp_kit.testing import ChatAppDouble, RecordingReceiver, assert_eventually

pytest.importorskip("mcp.server.mcpserver", reason="the example needs the [mcp] extra")
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client

SLEEPER = Path(__file__).parents[2] / "examples" / "sleeper.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(receiver: RecordingReceiver | None, **more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RVC_", "MCP_"))}
    env["PYTHONPATH"] = str(SLEEPER.parents[1])
    env["SLEEPER_TICK_S"] = "0.1"
    if receiver is not None:
        env |= {"RVC_CALLBACK_URL": receiver.url, "RVC_EVENT_SECRET": receiver.secret}
    return env | more


class Sleeper:
    def __init__(self, process: asyncio.subprocess.Process, port: int, client: Client) -> None:
        self.process = process
        self.port = port
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result
        (content,) = result.content
        assert content.type == "text"
        return content.text

    async def start(self, **arguments: Any) -> TaskInfo:
        return TaskInfo.model_validate_json(await self.call("sleep_task", arguments))

    async def get(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.call("get_task", {"task_id": task_id}))
        return found

    async def ended(self, task_id: str) -> TaskInfo:
        async def look() -> TaskInfo | None:
            info = TaskInfo.model_validate(await self.get(task_id))
            return info if info.state != "running" else None

        info = await assert_eventually(look, interval_s=0.05)
        assert info is not None
        return info


@asynccontextmanager
async def sleeper(
    receiver: RecordingReceiver | None, transport: str = "streamable-http", port: int | None = None
) -> AsyncIterator[Sleeper]:
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SLEEPER),
        env=environment(receiver, MCP_TRANSPORT=transport, MCP_PORT=str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await assert_eventually(lambda: listening(port), interval_s=0.05)
        async with AsyncExitStack() as stack:
            target: Any = f"http://127.0.0.1:{port}/mcp"
            if transport == "sse":
                target = sse_client(f"http://127.0.0.1:{port}/sse")
            client = await stack.enter_async_context(Client(target))
            yield Sleeper(process, port, client)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_the_sleeper_serves_and_its_events_arrive_signed_and_in_order(transport: str) -> None:
    """K172, K174: transport and port from the environment; the trigger fires once."""
    async with RecordingReceiver() as receiver, sleeper(receiver, transport) as server:
        info = await server.start(duration_s=0.5, triggers=[{"type": "eta_below", "seconds": 0.35}])
        assert info.state == "running"
        events = await receiver.wait_for_events(7)
        done = await server.ended(info.task_id)
        tools = {tool.name for tool in (await server.client.list_tools()).tools}
    assert receiver.problems == []
    assert [e.seq for e in events] == [1, 2, 3, 4, 5, 6, 7]
    assert [e.type for e in events].count("trigger_fired") == 1
    assert events[-1].type == "task_done"
    etas = [e.payload["eta_s"] for e in events if e.type == "progress"]
    assert etas == sorted(etas, reverse=True)
    assert done.state == "succeeded"
    assert tools == {"sleep_task", "get_task", "cancel_task", "list_tasks"}


async def test_the_sleeper_serves_over_stdio() -> None:
    """K172."""
    async with RecordingReceiver() as receiver:
        parameters = StdioServerParameters(
            command=sys.executable, args=[str(SLEEPER)], env=environment(receiver, MCP_TRANSPORT="stdio")
        )
        async with Client(stdio_client(parameters)) as client:
            result = await client.call_tool("sleep_task", {"duration_s": 0.2})
            assert not result.is_error
            events = await receiver.wait_for_events(3)
    assert [e.type for e in events] == ["progress", "progress", "task_done"]
    assert receiver.problems == []


async def test_the_sleeper_fails_when_asked_to() -> None:
    """K173."""
    async with RecordingReceiver() as receiver, sleeper(receiver) as server:
        info = await server.start(duration_s=0.1, fail=True)
        ended = await server.ended(info.task_id)
        events = await receiver.wait_for_events(2)
    assert ended.failure is not None
    assert (ended.failure.error_code, ended.failure.suggestions) == ("FAKE_FAILURE", ["retry_without_fail"])
    assert events[-1].payload == ended.failure.model_dump()


async def test_half_a_tick_succeeds_without_progress() -> None:
    """K176."""
    async with RecordingReceiver() as receiver, sleeper(receiver) as server:
        info = await server.start(duration_s=0.05)
        ended = await server.ended(info.task_id)
        (event,) = await receiver.wait_for_events(1)
    assert (ended.state, ended.result, ended.progress) == ("succeeded", {"slept_s": 0.05}, None)
    assert (event.type, event.seq) == ("task_done", 1)


async def test_a_running_sleep_is_cancelled_at_once() -> None:
    """K169: far below the 30 s that a client waits."""
    async with sleeper(None) as server:
        info = await server.start(duration_s=600)
        async with asyncio.timeout(15):
            reply = json.loads(await server.call("cancel_task", {"task_id": info.task_id}))
        assert reply == {"task_id": info.task_id, "state": "cancelled"}


async def test_a_sink_that_dies_and_returns_misses_nothing() -> None:
    """K175: the order is kept."""
    async with RecordingReceiver() as receiver, sleeper(receiver) as server:
        info = await server.start(duration_s=2.0)
        await receiver.wait_for_events(3)
        receiver.stop()
        await server.ended(info.task_id)
        receiver.start()
        events = await receiver.wait_for_events(21)
    assert [e.seq for e in events] == list(range(1, 22))
    assert receiver.problems == []


async def test_after_a_kill_the_server_does_not_know_the_task() -> None:
    """K175: the chat app then calls it SERVER_RESTARTED."""
    port = free_port()
    async with RecordingReceiver() as receiver:
        async with sleeper(receiver, port=port) as server:
            info = await server.start(duration_s=600)
            await receiver.wait_for_events(1)
            server.process.kill()
            await server.process.wait()
        async with sleeper(receiver, port=port) as server:
            assert await server.get(info.task_id) == {"error": "not_found"}
            app = ChatAppDouble(server.call)
            await app.restarted([info])
    failure = app.tasks[info.task_id].failure
    assert failure is not None
    assert failure.error_code == "SERVER_RESTARTED"


async def test_a_stopped_server_ends_cleanly_with_a_task_running() -> None:
    """K175: SIGTERM, as a service manager sends it."""
    async with RecordingReceiver() as receiver, sleeper(receiver) as server:
        await server.start(duration_s=600)
        await receiver.wait_for_events(1)
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await server.process.wait() == 0
