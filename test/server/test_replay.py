"""Beginning, awaiting, replaying: one motion, and the truth about it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest

from robot_mcp_kit.promcp.lint import lint_server
from robot_mcp_kit.server.waiting import MAX_WAIT_S
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.testing.clock import settle
from test.server.rig import ServerRig, connected, nav_feedback, rigged

KITCHEN = {"place": "kitchen"}


@pytest.fixture
async def rig() -> AsyncIterator[ServerRig]:
    async with rigged() as made:
        yield made


def _numbers(text: str) -> set[float]:
    return {float(word) for word in re.findall(r"(?<![\w-])-?\d+\.\d+(?![\w-])", text)}


def _all_numbers(value: Any) -> set[float]:
    if isinstance(value, dict):
        return {n for item in value.values() for n in _all_numbers(item)}
    if isinstance(value, list):
        return {n for item in value for n in _all_numbers(item)}
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


async def _schema(client: Any, tool: str) -> dict[str, Any]:
    listed = (await client.list_tools()).tools
    return dict(next(t for t in listed if t.name == tool).output_schema)


async def test_a_call_begins_and_await_tells_the_outcome(rig: ServerRig) -> None:
    """L10 L13: the handle leads from the one to the other; awaiting starts nothing."""
    async with connected(rig) as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        assert (begun["state"], begun["started_now"], begun["handle_expires_at"]) == ("running", True, None)
        goal = await rig.port.next_goal()
        await settle()
        goal.feedback(nav_feedback(3.0))
        await settle()
        waiting = await client.call_tool("await_task", {"handle": begun["handle"], "wait_s": 0})
        assert not waiting.is_error
        assert "still running" in waiting.content[0].text
        assert waiting.structured_content["progress"]["phase"] in waiting.content[0].text
        await rig.arrive(goal)
        outcome = await client.call_tool("await_task", {"handle": begun["handle"]})
    assert outcome.structured_content["state"] == "succeeded"
    assert outcome.structured_content["started_now"] is False
    assert len(rig.port.requests("send")) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_lost_reply_and_a_retry_make_one_motion_and_the_same_answer(
    fails: bool, rig: ServerRig
) -> None:
    """L11 L12 L21: success and failure alike; the key is the caller's, the handle the server's."""
    arguments = {**KITCHEN, "idempotency_key": "mine"}
    async with connected(rig) as client:
        first = (await client.call_tool("navigate_to", arguments)).structured_content
        goal = await rig.port.next_goal()
        await settle()
        if fails:
            goal.finish(GoalStatus.ABORTED)
        else:
            await rig.arrive(goal)
        await rig.ended(first["task_id"])
        retries = [await client.call_tool("navigate_to", {**arguments, "wait_s": 5}) for _ in range(3)]
        awaited = await client.call_tool("await_task", {"handle": first["handle"]})
    assert {retry.structured_content["handle"] for retry in retries} == {first["handle"]}
    assert {retry.is_error for retry in retries} == {fails}
    assert all(retry.structured_content == retries[0].structured_content for retry in retries)
    assert awaited.structured_content == retries[0].structured_content
    assert retries[0].structured_content["started_now"] is False
    assert "started earlier" in retries[0].content[0].text
    assert len(rig.port.requests("send")) == 1


async def test_a_blocking_call_answers_with_the_measured_outcome(rig: ServerRig) -> None:
    """L5 L9 L22: reads are served meanwhile; text and data agree."""
    async with connected(rig) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        goal = await rig.port.next_goal()
        listed = await client.call_tool("list_tasks", {"states": ["running"]})
        assert len(json.loads(listed.content[0].text)["tasks"]) == 1
        await settle()
        await rig.arrive(goal)
        result = await call
        jsonschema.validate(result.structured_content, await _schema(client, "navigate_to"))
    assert result.structured_content["state"] == "succeeded"
    text = result.content[0].text
    assert _numbers(text) <= _all_numbers(result.structured_content)
    pose = result.structured_content["result"]["final_pose"]
    assert str(pose["x_m"]) in text
    assert f'"{pose["frame"]}"' in text


async def test_a_failure_is_flagged_says_why_and_fits_the_schema(rig: ServerRig) -> None:
    """L5 L6 L7: the SDK does not validate what is flagged, so this does."""
    async with connected(rig) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        goal = await rig.port.next_goal()
        await settle()
        goal.finish(GoalStatus.ABORTED)
        result = await call
        assert result.is_error
        jsonschema.validate(result.structured_content, await _schema(client, "navigate_to"))
    failure = result.structured_content["failure"]
    assert failure["error_code"] in result.content[0].text
    assert failure["message"] in result.content[0].text


async def test_a_motion_that_ended_elsewhere_is_a_failure_though_the_action_succeeded(rig: ServerRig) -> None:
    """L1 L2: measured after the motion."""
    async with connected(rig) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        goal = await rig.port.next_goal()
        await settle()
        goal.feedback(nav_feedback(0.0, x_m=7.0))
        goal.finish(GoalStatus.SUCCEEDED)
        result = await call
    assert result.is_error
    assert "7.0" in result.content[0].text


async def test_a_blocking_call_ends_at_its_limit_with_the_handle(rig: ServerRig) -> None:
    """L23: still moving, not failed; the motion goes on."""
    async with connected(rig) as client:
        result = await client.call_tool("navigate_to", {**KITCHEN, "wait_s": 0.05})
        assert not result.is_error
        assert "still running" in result.content[0].text
        handle = result.structured_content["handle"]
        assert handle in result.content[0].text
        goal = await rig.port.next_goal()
        await settle()
        await rig.arrive(goal)
        outcome = await client.call_tool("await_task", {"handle": handle})
    assert outcome.structured_content["state"] == "succeeded"
    assert rig.port.requests("cancel") == []


@pytest.mark.parametrize("tool", ["navigate_to", "await_task"])
async def test_the_limit_is_stated_and_larger_waits_are_cut_to_it(tool: str, rig: ServerRig) -> None:
    """L17 L23."""
    async with connected(rig) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert tools[tool].input_schema["properties"]["wait_s"]["maximum"] == MAX_WAIT_S
        description = tools["await_task"].description
    assert "24 hours" in description
    assert "safe to call and to repeat" in description


@pytest.mark.parametrize("wait_s", [-1, "soon", True, []])
async def test_an_odd_wait_is_refused_before_anything_moves(wait_s: Any, rig: ServerRig) -> None:
    """L3 L35."""
    async with connected(rig) as client:
        result = await client.call_tool("navigate_to", {**KITCHEN, "wait_s": wait_s})
    assert result.is_error
    assert "wait_s" in result.content[0].text
    await settle()
    assert rig.port.goals == []


async def _gone_while_waiting(rig: ServerRig, arguments: dict[str, Any]) -> None:
    """A client that leaves in the middle of its call, as a broken connection looks to the server."""
    async with connected(rig) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", arguments))
        await rig.port.next_goal()
        await settle()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await settle()


async def test_without_a_key_a_motion_is_stopped_when_its_caller_goes_away(rig: ServerRig) -> None:
    """L24: nobody has its handle."""
    await _gone_while_waiting(rig, {**KITCHEN, "wait_s": 30})
    (info,) = rig.manager.list()
    ended = await rig.manager.wait(info.task_id, 5.0)
    assert ended is not None
    assert ended.state == "cancelled"
    assert len(rig.port.requests("cancel")) == 1


async def test_with_a_key_it_goes_on_and_the_same_call_finds_it_again(rig: ServerRig) -> None:
    """L14 L24: one motion."""
    arguments = {**KITCHEN, "wait_s": 30, "idempotency_key": "mine"}
    await _gone_while_waiting(rig, arguments)
    assert rig.port.requests("cancel") == []
    async with connected(rig) as client:
        again = asyncio.create_task(client.call_tool("navigate_to", arguments))
        await settle()
        await rig.arrive(rig.port.goals[0])
        result = await again
    assert result.structured_content["state"] == "succeeded"
    assert len(rig.port.requests("send")) == 1


async def test_a_stop_is_not_held_up_by_a_call_that_waits(rig: ServerRig) -> None:
    """L32."""
    async with connected(rig) as client:
        call = asyncio.create_task(client.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}))
        await rig.port.next_goal()
        await settle()
        stopped = await client.call_tool("stop", {})
        result = await call
    assert stopped.structured_content["all_confirmed"] is True
    assert result.is_error
    assert result.structured_content["state"] == "cancelled"
    assert "confirmed" in result.content[0].text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"handle": "motion-robo-000000.x"}, "HANDLE_UNKNOWN"),
        ({"handle": ""}, "INVALID_ARGUMENT"),
        ({}, "INVALID_ARGUMENT"),
        ({"handle": "motion-x", "timeout": 3}, "INVALID_ARGUMENT"),
    ],
)
async def test_awaiting_what_is_not_there_is_flagged_and_moves_nothing(
    arguments: dict[str, Any], code: str, rig: ServerRig
) -> None:
    """L15 L16 L20."""
    async with connected(rig) as client:
        result = await client.call_tool("await_task", arguments)
    assert result.is_error
    assert result.structured_content["error"]["error_code"] == code
    assert rig.port.goals == []


async def test_an_expired_handle_gives_no_stale_answer_and_no_new_motion(rig: ServerRig) -> None:
    """L15."""
    async with connected(rig) as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        goal = await rig.port.next_goal()
        await settle()
        await rig.arrive(goal)
        await rig.ended(begun["task_id"])
        await rig.clock.advance(rig.handles.retention_s + 1)
        result = await client.call_tool("await_task", {"handle": begun["handle"]})
    assert result.structured_content["error"]["error_code"] == "HANDLE_EXPIRED"
    assert len(rig.port.requests("send")) == 1


async def test_an_unexpected_exception_is_never_a_success(
    rig: ServerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(rig.bridge, "begin", broken)
    async with connected(rig) as client:
        result = await client.call_tool("navigate_to", KITCHEN)
    assert result.is_error
    assert "secret detail" not in result.content[0].text


async def test_unknown_tools_and_bad_arguments_are_flagged_results(rig: ServerRig) -> None:
    """L7: pinned, because SDKs differ."""
    async with connected(rig) as client:
        assert (await client.call_tool("fly_to", {})).is_error
        assert (await client.call_tool("navigate_to", {"place": 7})).is_error


async def test_every_schema_carries_units_and_frames(rig: ServerRig) -> None:
    """L33 L34."""
    async with connected(rig) as client:
        listed = (await client.list_tools()).tools
    tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    report = lint_server(tools, triad=False)
    assert report.passes(strict=True), report.to_dict()


async def test_annotations_tell_what_moves(rig: ServerRig) -> None:
    """L36."""
    async with connected(rig) as client:
        tools = {t.name: t.annotations for t in (await client.list_tools()).tools}
    assert (tools["navigate_to"].read_only_hint, tools["navigate_to"].destructive_hint) == (False, True)
    assert tools["await_task"].read_only_hint is True
    assert tools["get_task"].read_only_hint is True
    assert tools["stop"].read_only_hint is False


async def test_progress_is_told_in_rising_numbers_and_never_after_the_result(rig: ServerRig) -> None:
    """MCP progress: only with a token, strictly increasing, none after the answer."""
    heard: list[float] = []
    answered_at: list[int] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        heard.append(value)

    for mode in ("legacy", "2026-07-28"):
        heard.clear()
        async with connected(rig, mode) as client:
            call = asyncio.create_task(
                client.call_tool("navigate_to", {**KITCHEN, "wait_s": 30}, progress_callback=progress)
            )
            goal = await rig.port.next_goal(len(rig.port.goals) + 1)
            await settle()
            for step in range(5):
                goal.feedback(nav_feedback(5.0 - step, time_s=step + 1.0))
                await settle()
                (task,) = rig.manager.list(["running"])
                rig.manager.annotate(task.task_id, {"step": step})
                await settle()
            await rig.arrive(goal)
            await call
            answered_at.append(len(heard))
            await settle()
        assert len(heard) >= 3, mode
        assert heard == sorted(set(heard)), mode
        assert len(heard) == answered_at[-1], mode
