"""The proMCP profiles of the demo robot over real rclpy: ask, read, do, verify, undo."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest

from robot_mcp_kit.promcp.schemas import inline_refs
from robot_mcp_kit.testing import assert_eventually

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]


class Profile:
    """One profile's endpoint; every answer is held to its declared schema."""

    def __init__(self, client: Any, schemas: dict[str, Any]) -> None:
        self._client, self._schemas = client, schemas

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        data: dict[str, Any] = result.structured_content
        jsonschema.validate(data, self._schemas[tool])
        return data

    async def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The outcome, over as many waits as it takes."""
        data = await self.call(tool, **arguments)
        while data["in_progress"]:
            data = await self.call(tool, **arguments)
        return data


@pytest.fixture
async def profile(bridge: Any, connect: Any) -> AsyncIterator[Any]:
    async with contextlib.AsyncExitStack() as stack:

        async def opened(name: str) -> Profile:
            url = bridge.url.replace("/mcp", f"/promcp/{name}/mcp")
            client = await stack.enter_async_context(connect(url))
            tools = (await client.list_tools()).tools
            return Profile(client, {t.name: inline_refs(t.output_schema) for t in tools})

        yield opened


@pytest.fixture(autouse=True)
def _healthy(hand: Any) -> None:
    hand.call("reset_faults")


async def test_a_drive_is_asked_about_done_once_verified_and_undone_by_its_hint(
    profile: Any, hand: Any
) -> None:
    """P6 P17 P23 P27: the simulator counts the goals."""
    move, observe = await profile("move"), await profile("observe")
    await move.do("do_navigate_to", place="office", idempotency_key="start")
    report = await move.call(
        "can_do", intent={"semantic_tags": ["drive"], "parameters": {"place": "workshop"}}
    )
    assert report["feasible"], report
    before = await observe.call("read_robot_pose")
    assert (before["quality"], before["value"]["position_std_m"]) == ("good", 0.01)
    goals = _sent(hand)
    done = await move.do("do_navigate_to", place="workshop", idempotency_key="drive")
    assert done["status"] == "success", done
    again = await move.call("do_navigate_to", place="workshop", idempotency_key="drive")
    assert (again["replayed"], again["task_id"]) == (True, done["task_id"])
    assert _sent(hand) == goals + 1
    assert _apart(done["previous_value"]["robot"], before["value"]) < 0.05
    after = await observe.call("read_robot_pose")
    assert _apart(done["applied_value"]["robot"], after["value"]) < 0.3
    tool, *rest = done["compensation_hint"].split(" ")
    arguments = {name: json.loads(value) for name, _, value in (part.partition("=") for part in rest)}
    undone = await move.do(tool, **arguments, idempotency_key="undo")
    assert undone["status"] == "success", undone
    assert _apart((await observe.call("read_robot_pose"))["value"], before["value"]) < 0.6


def _sent(hand: Any) -> int:
    """Goals that the simulator has received, of every kind."""
    return sum(hand.state()["goals"].values())


def _apart(a: dict[str, Any], b: dict[str, Any]) -> float:
    return math.hypot(a["x_m"] - b["x_m"], a["y_m"] - b["y_m"])


async def test_an_object_is_picked_measured_and_put_back_by_its_hint(profile: Any, hand: Any) -> None:
    """P23 P25 P26: and a grasp that slips is no success."""
    move, manipulate = await profile("move"), await profile("manipulate")
    drive = await move.do("do_navigate_to", place="kitchen", idempotency_key="to the counter")
    assert drive["status"] == "success", drive
    report = await manipulate.call(
        "can_do", intent={"semantic_tags": ["pick"], "parameters": {"object": "blue_box"}}
    )
    (announced,) = [c for c in report["candidates"] if c["capability"] == "do_pick"]
    picked = await manipulate.do("do_pick", object="blue_box", idempotency_key="pick")
    assert picked["status"] == "success", picked
    assert set(picked["side_effects"]) <= set(announced["side_effects"])
    assert hand.state()["gripper"]["holding"] == "blue_box"
    assert picked["compensation_hint"].startswith("do_place ")
    _, *rest = picked["compensation_hint"].split(" ")
    arguments = {name: json.loads(value) for name, _, value in (part.partition("=") for part in rest)}
    put = await manipulate.do("do_place", **arguments, idempotency_key="put back")
    assert put["status"] == "success", put
    was, now = picked["previous_value"]["object"], put["applied_value"]["object"]
    assert math.dist([was[k] for k in ("x_m", "y_m", "z_m")], [now[k] for k in ("x_m", "y_m", "z_m")]) < 0.08
    hand.faults(slip_percent=100.0)
    slipped = await manipulate.do("do_pick", object="blue_box", idempotency_key="slip")
    assert (slipped["status"], slipped["error_code"]) == ("partial", "GRASP_FAILED")
    assert hand.state()["gripper"]["holding"] is None


async def test_asking_and_reading_send_no_goal(profile: Any, hand: Any) -> None:
    """P13 P38: the simulated robot's own count."""
    goals = _sent(hand)
    for name in ("observe", "move", "manipulate"):
        each = await profile(name)
        for tags in (["drive"], ["pick"], ["gripper"], ["dock"], ["stop"]):
            await each.call("can_do", intent={"semantic_tags": tags})
        for tool in each._schemas:
            if tool.startswith("read_"):
                assert (await each.call(tool))["quality"] == "good", tool
    assert _sent(hand) == goals


async def test_a_topic_that_falls_silent_makes_its_readings_stale_and_keeps_their_time(
    profile: Any, hand: Any
) -> None:
    """P9 P12."""
    observe = await profile("observe")
    assert (await observe.call("read_arm_joints"))["quality"] == "good"
    hand.faults(silent_topics=["joint_states"])

    async def stale() -> bool:
        return bool((await observe.call("read_arm_joints"))["quality"] == "stale")

    await assert_eventually(stale)
    first, second = [await observe.call("read_arm_joints") for _ in range(2)]
    assert first["timestamp"] == second["timestamp"]
    assert first["value"]["joints_rad"]
    gripper = await observe.call("read_gripper_state")
    assert gripper["quality"] == "stale"


async def test_the_stop_of_the_looking_profile_ends_a_drive(profile: Any, slow_robot: Any) -> None:
    """P1: anybody may stop; the drive's own answer says so."""
    move, observe = await profile("move"), await profile("observe")
    begun = await move.call("do_navigate_to", place="lobby", idempotency_key="long", wait_s=0)
    assert begun["in_progress"]
    stopped = await observe.call("do_stop", idempotency_key="s")
    assert stopped["status"] == "success", stopped
    ended = await move.do("do_navigate_to", place="lobby", idempotency_key="long")
    assert ended["status"] in ("partial", "failed")
    assert "cancelled" in ended["detail"]
