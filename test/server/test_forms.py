"""Beginning, blocking and being a task are three forms of one call, over one engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import Request, RequestParams, Result

from robot_mcp_kit.client.mcp_tasks import McpTasks, TaskStatus
from robot_mcp_kit.server.app import INSTRUCTIONS
from robot_mcp_kit.testing.clock import settle
from test.server.rig import ServerRig, connected, rigged

MODERN = "2026-07-28"
KITCHEN = {"place": "kitchen", "idempotency_key": "mine"}
METHOD_NOT_FOUND = -32601


@pytest.fixture
async def rig() -> AsyncIterator[ServerRig]:
    async with rigged() as made:
        yield made


async def test_the_three_forms_of_a_call_meet_in_one_task(rig: ServerRig) -> None:
    """L43 L21 L42: task id at once, blocking, and an MCP task: the same key, one motion, one outcome."""
    seen: list[TaskStatus] = []
    async with connected(rig) as plain, connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as tasks:
        begun = (await plain.call_tool("navigate_to", KITCHEN)).structured_content
        goal = await rig.port.next_goal()
        blocking = asyncio.create_task(plain.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        as_task = asyncio.create_task(tasks.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        await settle()
        assert not blocking.done()
        assert seen[0].status == "working", "a task does not block, whatever wait_s says"
        await rig.arrive(goal)
        blocked, task = await blocking, await as_task
        awaited = await plain.call_tool("await_task", {"handle": begun["handle"]})
    assert begun["state"] == "running"
    assert seen[0].task_id == begun["handle"]
    for answer in (blocked, task, awaited):
        told = answer.structured_content
        assert (told["task_id"], told["state"]) == (begun["task_id"], "succeeded")
        assert told["result"] == awaited.structured_content["result"]
    assert len(rig.port.requests("send")) == 1
    assert len(rig.manager.list()) == 1


class _Task(RequestParams):
    task_id: str | None = None


class _ListTasks(Request[_Task, Literal["tasks/list"]]):
    method: Literal["tasks/list"] = "tasks/list"
    params: _Task


class _TaskResult(Request[_Task, Literal["tasks/result"]]):
    method: Literal["tasks/result"] = "tasks/result"
    params: _Task


@pytest.mark.parametrize("request_type", [_ListTasks, _TaskResult])
async def test_the_extension_lists_nothing_and_our_own_tool_does(request_type: Any, rig: ServerRig) -> None:
    """L31: there is no tasks/list (anybody could read everybody's handles) and no tasks/result."""
    async with connected(rig, MODERN, extensions=[McpTasks()]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        with pytest.raises(MCPError) as error:
            await client.session.send_request(request_type(params=_Task()), Result)
        assert error.value.error.code == METHOD_NOT_FOUND
        listed = await client.call_tool("list_tasks", {})
        (info,) = rig.manager.list()
        assert info.task_id in listed.content[0].text
        assert "motion-" not in listed.content[0].text, "no handles"
        await settle()
        await rig.arrive(goal)
        await call


async def test_motions_are_for_planners_and_say_so(rig: ServerRig) -> None:
    """L39: in the server's instructions and in each description of a tool that moves something."""
    assert "control loop" in INSTRUCTIONS
    async with connected(rig) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name, skill in rig.bridge.skills.items():
        assert ("control loop" in tools[name].description) is bool(skill.resources), name
