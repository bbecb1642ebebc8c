"""MCP tasks over the task manager: another way to ask for the same motions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

from robot_mcp_kit.bridge.ledger import MemoryLedger
from robot_mcp_kit.client.mcp_tasks import McpTasks, TaskStatus, cancel_task, get_task
from robot_mcp_kit.models import TaskFailure, TaskInfo, TaskState
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.tasks_extension import TasksExtension
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock
from robot_mcp_kit.testing.clock import settle
from test.server.rig import ServerRig, connected, rigged

MODERN = "2026-07-28"
KITCHEN = {"place": "kitchen"}


@pytest.fixture
async def rig() -> AsyncIterator[ServerRig]:
    async with rigged() as made:
        yield made


async def test_a_motion_is_a_task_for_a_client_that_knows_tasks(rig: ServerRig) -> None:
    """L25 L28 L42: working, then completed with the same answer as await_task gives."""
    seen: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        await settle()
        await rig.arrive(goal)
        result = await call
        schema = next(t for t in (await client.list_tools()).tools if t.name == "navigate_to").output_schema
        jsonschema.validate(result.structured_content, schema)
        awaited = await client.call_tool("await_task", {"handle": seen[0].task_id})
    assert not result.is_error
    assert seen[-1].status == "completed"
    assert seen[0].poll_interval_ms
    assert result.structured_content == awaited.structured_content
    assert len(rig.port.requests("send")) == 1


async def test_the_task_is_readable_the_moment_it_is_told(rig: ServerRig) -> None:
    """L25: the first poll, at once, finds it."""
    first: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(first.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        await settle()
        assert first[0].status == "working"
        await rig.arrive(goal)
        await call


async def test_a_robots_failure_is_completed_and_flagged(rig: ServerRig) -> None:
    """L28 L42."""
    seen: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        await settle()
        goal.finish(GoalStatus.ABORTED)
        result = await call
    assert result.is_error
    assert seen[-1].status == "completed"


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_a_client_that_does_not_declare_tasks_gets_the_ordinary_answer(
    mode: str, rig: ServerRig
) -> None:
    """L26."""
    async with connected(rig, mode) as client:
        result = await client.call_tool("navigate_to", KITCHEN)
        assert result.structured_content["state"] == "running"
        if mode == MODERN:
            with pytest.raises(MCPError) as error:
                await get_task(client.session, result.structured_content["handle"])
            assert error.value.error.code == -32021


async def test_a_refused_call_is_no_task(rig: ServerRig) -> None:
    async with connected(rig, MODERN, extensions=[McpTasks()]) as client:
        result = await client.call_tool("navigate_to", {"place": "attic"})
    assert result.is_error
    assert rig.manager.list() == []


async def test_a_task_outlives_its_client_and_another_one_follows_it(rig: ServerRig) -> None:
    """L25: also the same key gives the same task."""
    seen: list[TaskStatus] = []
    keyed = {**KITCHEN, "idempotency_key": "mine"}
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", keyed))
        await rig.port.next_goal()
        await settle()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as other:
        again = asyncio.create_task(other.call_tool("navigate_to", keyed))
        await settle()
        await rig.arrive(rig.port.goals[0])
        assert not (await again).is_error
        status = await get_task(other.session, seen[0].task_id)
    assert status.status == "completed"
    assert {state.task_id for state in seen} == {seen[0].task_id}
    assert len(rig.port.requests("send")) == 1
    assert rig.port.requests("cancel") == []


async def test_a_cancel_is_acknowledged_and_its_outcome_polled(rig: ServerRig) -> None:
    """L30: cooperative; repeating is harmless; an unknown id is an error."""
    seen: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        await rig.port.next_goal()
        await settle()
        await cancel_task(client.session, seen[0].task_id)
        result = await call
        assert result.is_error
        assert seen[-1].status == "cancelled"
        await cancel_task(client.session, seen[0].task_id)
        with pytest.raises(MCPError) as error:
            await cancel_task(client.session, "motion-robo-000000.no")
        assert error.value.error.code == -32602
    assert len(rig.port.requests("cancel")) == 1


async def test_a_cancel_that_comes_too_late_leaves_it_completed(rig: ServerRig) -> None:
    """L27 L30: no way out of a final state."""
    seen: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        await settle()
        await rig.arrive(goal)
        await call
        await cancel_task(client.session, seen[0].task_id)
        await settle()
        assert (await get_task(client.session, seen[0].task_id)).status == "completed"


async def test_after_its_time_a_task_is_gone_and_the_poll_says_so(rig: ServerRig) -> None:
    """L29: ttlMs counts from creation."""
    seen: list[TaskStatus] = []
    async with connected(rig, MODERN, extensions=[McpTasks(seen.append)]) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", KITCHEN))
        goal = await rig.port.next_goal()
        await settle()
        assert seen[0].ttl_ms is None  # a running motion is never forgotten
        await rig.clock.advance(100.0)
        await rig.arrive(goal)
        await call
        status = await get_task(client.session, seen[0].task_id)
        assert status.ttl_ms == (100.0 + rig.handles.retention_s) * 1000
        await rig.clock.advance(rig.handles.retention_s)
        assert (await get_task(client.session, seen[0].task_id)).status == "completed"
        await rig.clock.advance(1.0)
        with pytest.raises(MCPError) as error:
            await get_task(client.session, seen[0].task_id)
        assert error.value.error.code == -32602


async def test_a_restarted_server_with_its_key_still_knows_the_task() -> None:
    """L25: the id survives; the record comes from the ledger."""
    key = bytes(32)

    class Kept(MemoryLedger):
        """A ledger that keeps tasks, as the one on disk does."""

        def saved_task(self, task_id: str) -> Any:
            from robot_mcp_kit.journal import SavedTask

            return SavedTask(infos[task_id]) if task_id in infos else None

    infos: dict[str, TaskInfo] = {}
    async with rigged(key=key) as before:
        info = before.bridge.begin("navigate_to", KITCHEN).info
        goal = await before.port.next_goal()
        await settle()
        await before.arrive(goal)
        await before.ended(info.task_id)
        handle = before.handles.mint(info.task_id)
        infos[info.task_id] = before.manager.get(info.task_id) or info
    async with rigged(key=key, ledger=Kept()) as after:
        async with connected(after, MODERN, extensions=[McpTasks()]) as client:
            status = await get_task(client.session, handle)
        assert status.status == "completed"
        assert status.result is not None
        assert after.port.goals == []


def _info(state: TaskState, **more: Any) -> TaskInfo:
    clock = FakeClock()
    from robot_mcp_kit.records import utc

    now = utc(clock.wall())
    return TaskInfo(
        task_id="robo-1", server="robot", tool="spin", state=state, created_at=now, updated_at=now, **more
    )


@pytest.mark.parametrize(
    ("info", "status"),
    [
        (_info("running"), "working"),
        (_info("running", progress={"phase": "awaiting_approval"}), "input_required"),
        (_info("succeeded", result={}), "completed"),
        (_info("failed", failure=TaskFailure(error_code="NAV2_X", message="no")), "completed"),
        (_info("failed", failure=TaskFailure(error_code="INTERNAL", message="no")), "completed"),
        (_info("failed", failure=TaskFailure(error_code="JSONRPC_-32603", message="no")), "failed"),
        (_info("cancelled"), "cancelled"),
    ],
)
def test_states_are_mapped(info: TaskInfo, status: str) -> None:
    """L27 L28 L42: INTERNAL is completed and flagged; failed is for JSON-RPC errors."""
    handles = Handles(TaskManager("robot", CollectingPoster()))
    task = TasksExtension(handles, []).detailed(info)
    assert task["status"] == status
    assert ("result" in task, "error" in task, "inputRequests" in task) == (
        status == "completed",
        status == "failed",
        status == "input_required",
    )
    if info.state == "failed" and status == "completed":
        assert task["result"]["isError"] is True


def test_whoever_asked_cannot_answer_an_approval() -> None:
    """Approvals have no input request: a person decides, through another channel."""
    extension = TasksExtension(Handles(TaskManager("robot", CollectingPoster())), [])
    waiting = _info("running", progress={"phase": "awaiting_approval"})
    assert extension.detailed(waiting)["inputRequests"] == {}
    extension.questions.answer("robo-1", {"approve": {"action": "accept"}})
    assert extension.status(waiting) == "input_required"
