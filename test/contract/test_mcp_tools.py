"""The three reconciliation tools, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from robot_mcp_kit import EventPoster, TaskContext, TaskError, TaskInfo, TaskManager, register_task_tools
from robot_mcp_kit.testing import CollectingPoster, settle

pytest.importorskip("mcp.server.mcpserver", reason="needs the [mcp] extra")
from mcp import Client
from mcp.server import MCPServer


async def forever(ctx: TaskContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


@asynccontextmanager
async def connected(manager: TaskManager) -> AsyncIterator[Client]:
    server = MCPServer("navigation")
    register_task_tools(server, manager)
    async with Client(server) as client:
        yield client


@pytest.fixture
def call(manager: TaskManager) -> Callable[..., Awaitable[Any]]:
    async def call(name: str, **arguments: Any) -> Any:
        async with connected(manager) as client:
            result = await client.call_tool(name, arguments)
        assert not result.is_error
        (content,) = result.content
        assert content.type == "text"
        return json.loads(content.text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    return call


async def test_exactly_three_tools_are_added(manager: TaskManager) -> None:
    """K159, K160, K161: their names, what they say, what they take."""
    async with connected(manager) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"get_task", "cancel_task", "list_tasks"}
    for tool in tools.values():
        assert "long-running task" in (tool.description or "")
        assert "not start any" in (tool.description or "")
    for name in ("get_task", "cancel_task"):
        schema = tools[name].input_schema
        assert schema["properties"]["task_id"]["type"] == "string"
        assert schema["required"] == ["task_id"]
    states = tools["list_tasks"].input_schema
    assert states.get("required", []) == []
    assert {"type": "array", "items": {"type": "string"}} in states["properties"]["states"]["anyOf"]
    assert tools["get_task"].annotations is not None
    assert tools["get_task"].annotations.read_only_hint is True
    assert tools["cancel_task"].annotations is not None
    assert tools["cancel_task"].annotations.read_only_hint is False


async def test_get_task_gives_the_whole_task(
    manager: TaskManager, call: Callable[..., Awaitable[Any]]
) -> None:
    """K162."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 10})
        raise TaskError("DOOR_CLOSED", "The door is closed.", suggestions=["open_door"])

    info = manager.start("t", body, triggers=[{"type": "x"}], est_duration_s=3)
    await manager.wait(info.task_id)
    answer = await call("get_task", task_id=info.task_id)
    assert TaskInfo.model_validate(answer) == manager.get(info.task_id)
    assert answer["failure"]["suggestions"] == ["open_door"]


async def test_an_unknown_task_is_an_answer_and_no_tool_error(call: Callable[..., Awaitable[Any]]) -> None:
    """K80, K162, K163: exactly one key."""
    assert await call("get_task", task_id="navi-000000") == {"error": "not_found"}
    assert await call("cancel_task", task_id="navi-000000") == {"error": "not_found"}


async def test_cancel_task_says_the_real_state(
    manager: TaskManager, call: Callable[..., Awaitable[Any]]
) -> None:
    """K163."""

    async def quick(ctx: TaskContext) -> dict[str, Any]:
        return {}

    running, done = manager.start("t", forever), manager.start("t", quick)
    await settle()
    assert await call("cancel_task", task_id=running.task_id) == {
        "task_id": running.task_id,
        "state": "cancelled",
    }
    assert await call("cancel_task", task_id=running.task_id) == {
        "task_id": running.task_id,
        "state": "cancelled",
    }
    assert await call("cancel_task", task_id=done.task_id) == {"task_id": done.task_id, "state": "succeeded"}


async def test_list_tasks_filters(manager: TaskManager, call: Callable[..., Awaitable[Any]]) -> None:
    """K107, K164: an unknown state is an error object, never "all"."""

    async def quick(ctx: TaskContext) -> dict[str, Any]:
        return {}

    done, running = manager.start("t", quick), manager.start("t", forever)
    await settle()
    every = await call("list_tasks")
    assert [info["task_id"] for info in every["tasks"]] == [done.task_id, running.task_id]
    assert [TaskInfo.model_validate(info) for info in every["tasks"]] == manager.list()
    only = await call("list_tasks", states=["running"])
    assert [info["task_id"] for info in only["tasks"]] == [running.task_id]
    assert await call("list_tasks", states=[]) == {"tasks": []}
    wrong = await call("list_tasks", states=["done"])
    assert set(wrong) == {"error", "message"}
    assert "succeeded" in wrong["message"]


async def test_every_reply_is_strict_json(manager: TaskManager, call: Callable[..., Awaitable[Any]]) -> None:
    """K165: whatever the bodies reported."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"nan": float("nan"), "set": {1}, "text": "\udc81", "big": 2**70, 5: b"\xff"})
        return {"inf": float("inf"), "object": object}

    info = manager.start("t", body, triggers=[{"type": "x", "n": float("nan")}])
    await manager.wait(info.task_id)
    assert (await call("get_task", task_id=info.task_id))["result"]["inf"] is None
    assert len((await call("list_tasks"))["tasks"]) == 1
    assert (await call("cancel_task", task_id=info.task_id))["state"] == "succeeded"


def test_registering_twice_is_refused(poster: CollectingPoster) -> None:
    """K167: instead of shadowing; another server is fine."""
    server, manager = MCPServer("one"), TaskManager("navigation", poster)
    register_task_tools(server, manager)
    with pytest.raises(ValueError, match="already"):
        register_task_tools(server, manager)
    register_task_tools(MCPServer("two"), manager)


def test_what_is_no_server_is_refused(poster: CollectingPoster) -> None:
    """K2."""
    with pytest.raises(TypeError, match="tool"):
        register_task_tools(object(), TaskManager("navigation", poster))


async def test_listing_stays_fast_with_a_hundred_tasks_and_a_dead_callback() -> None:
    """K168."""
    poster = EventPoster("navigation", "http://127.0.0.1:1/", "s", close_grace_s=0.1)
    manager = TaskManager("navigation", poster)
    server = MCPServer("navigation")
    register_task_tools(server, manager)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        while True:
            await ctx.progress({"percent": 5})
            await asyncio.sleep(0.2)

    async with Client(server) as client:
        for _ in range(100):
            manager.start("t", body)
        await asyncio.sleep(0.3)
        # Generous: hung on the callback it would take the five seconds of an attempt or more.
        async with asyncio.timeout(4):
            await client.list_tools()
            result = await client.call_tool("list_tasks", {"states": ["running"]})
        assert not result.is_error
    await manager.aclose()
    await poster.aclose()


async def test_cancelling_a_stubborn_task_answers_within_its_grace(poster: CollectingPoster) -> None:
    """K169: 5 s at most by default; a client waits 30."""
    import inspect

    assert inspect.signature(TaskManager).parameters["cancel_grace_s"].default == 5.0
    manager = TaskManager("navigation", poster, cancel_grace_s=0.1)
    server = MCPServer("navigation")
    register_task_tools(server, manager)
    release = asyncio.Event()

    async def stubborn(ctx: TaskContext) -> dict[str, Any]:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return {}

    info = manager.start("t", stubborn)
    await settle()
    async with Client(server) as client, asyncio.timeout(25):
        result = await client.call_tool("cancel_task", {"task_id": info.task_id})
    assert json.loads(result.content[0].text)["state"] == "cancelled"  # type: ignore[union-attr]
    release.set()
    await settle()


async def test_a_synchronous_tool_can_start_a_task(manager: TaskManager) -> None:
    """K23, K166: the server runs it in a worker thread, and nothing was started on the loop before."""
    import threading

    server = MCPServer("navigation")
    register_task_tools(server, manager)
    threads: list[bool] = []

    async def quick(ctx: TaskContext) -> dict[str, Any]:
        return {"n": 1}

    @server.tool()
    def begin() -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        return manager.start("begin", quick).model_dump_json()

    async with Client(server) as client:
        result = await client.call_tool("begin", {})
        info = TaskInfo.model_validate_json(result.content[0].text)  # type: ignore[union-attr]
        done = await manager.wait(info.task_id)
    assert threads == [False]
    assert done is not None
    assert done.result == {"n": 1}


def test_without_any_mcp_package_the_kit_works_and_says_what_to_install() -> None:
    """K2: models, signing, tasks and events; only the tools need a server, and name the extra."""
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "fastmcp"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if "mcp" in name[-3:] else real(name, package)
import robot_mcp_kit
from robot_mcp_kit import models, signing, tasks, events, fastmcp_ext, EventPoster, TaskManager
manager = TaskManager("navigation", EventPoster("navigation", ""))
try:
    robot_mcp_kit.register_task_tools(None, manager)
except ImportError as exc:
    print(exc)
class Server:
    def tool(self, **options):
        return lambda function: print(options["name"]) or function
robot_mcp_kit.register_task_tools(Server(), manager)
print("mcp" in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    lines = result.stdout.splitlines()
    assert "robot-mcp-kit[mcp]" in lines[0], result.stderr
    assert lines[1:] == ["get_task", "cancel_task", "list_tasks", "False"]
