"""Task resources, pushed changes, what a planner can read, and prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from robot_mcp_kit.testing.clock import settle
from test.server.rig import ServerRig, connected, rigged

KITCHEN = {"place": "kitchen"}


@pytest.fixture
async def rig() -> AsyncIterator[ServerRig]:
    async with rigged() as made:
        yield made


def _json(result: Any) -> Any:
    return json.loads(result.contents[0].text)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_task_is_a_resource(mode: str, rig: ServerRig) -> None:
    async with connected(rig, mode) as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        await rig.port.next_goal()
        await settle()
        task = _json(await client.read_resource(f"robot-task://{begun['task_id']}"))
        assert task == json.loads(
            (await client.call_tool("get_task", {"task_id": begun["task_id"]})).content[0].text
        )
        assert [t["task_id"] for t in _json(await client.read_resource("robot://tasks"))["tasks"]] == [
            begun["task_id"]
        ]
        with pytest.raises(MCPError, match="no task"):
            await client.read_resource("robot-task://robo-000000")


async def test_a_listening_client_is_told_of_every_end(rig: ServerRig) -> None:
    """2026-07-28: subscriptions/listen."""
    async with connected(rig, "2026-07-28") as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        uri = f"robot-task://{begun['task_id']}"
        async with asyncio.timeout(10), client.listen(resource_subscriptions=[uri]) as events:
            goal = await rig.port.next_goal()
            await settle()
            await rig.arrive(goal)
            async for event in events:
                assert event.uri == uri
                if _json(await client.read_resource(uri))["state"] == "succeeded":
                    break


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_subscribed_client_of_the_handshake_protocols_is_told(rig: ServerRig) -> None:
    """Until unsubscribed."""
    heard: list[str] = []

    async def on_message(message: Any) -> None:
        params = getattr(message, "params", None) or getattr(getattr(message, "root", None), "params", None)
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(params.uri))

    async with connected(rig, "legacy", message_handler=on_message) as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        uri = f"robot-task://{begun['task_id']}"
        await client.session.subscribe_resource(uri)
        goal = await rig.port.next_goal()
        await settle()
        rig.manager.annotate(begun["task_id"], {"note": "still there"})
        await settle()
        assert uri in heard
        await client.session.unsubscribe_resource(uri)
        heard.clear()
        await rig.arrive(goal)
        await rig.ended(begun["task_id"])
        await settle()
        assert heard == []


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_nobody_is_told_of_tasks_they_did_not_ask_for(rig: ServerRig) -> None:
    heard: list[str] = []

    async def on_message(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with connected(rig, "legacy", message_handler=on_message) as client:
        begun = (await client.call_tool("navigate_to", KITCHEN)).structured_content
        await client.session.subscribe_resource("robot-task://robo-other1")
        rig.manager.annotate(begun["task_id"], {"note": "x"})
        await settle()
    assert "notifications/resources/updated" not in heard


async def test_skills_places_and_the_map_can_be_read_before_acting(rig: ServerRig) -> None:
    """L41."""
    async with connected(rig) as client:
        (skill,) = _json(await client.read_resource("robot://skills"))["skills"]
        (place,) = _json(await client.read_resource("robot://places"))["places"]
        plan = _json(await client.read_resource("robot://map"))
    assert skill["name"] == "navigate_to"
    assert "x_m" in skill["arguments"]["properties"]
    assert (place["name"], place["x_m"], place["frame"]) == ("kitchen", 10.0, "map")
    assert plan["map_frame"] == "map"
    assert plan["zones"][0]["polygon_m"][0] == [6.0, 5.0]


async def test_prompts_brief_a_planner_with_this_robots_skills_and_the_rules(rig: ServerRig) -> None:
    async with connected(rig) as client:
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        brief = await client.get_prompt("plan_with_robot", {"goal": "bring the cup"})
        lost = await client.get_prompt("after_lost_answer", {"tool": "navigate_to"})
    assert names == {"plan_with_robot", "after_lost_answer", "report_to_person"}
    text = brief.messages[0].content.text
    assert "bring the cup" in text
    assert "navigate_to" in text
    assert "kitchen (At the counter.)" in text
    assert "idempotency_key" in text
    assert "await_task" in lost.messages[0].content.text
