"""One MCP call drives the simulated robot; its events arrive signed at the chat app."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from mcp import Client

pytestmark = pytest.mark.ros
BOUND_S = 60.0


async def _settled(talk: Any, task_id: str) -> dict[str, Any]:
    async with asyncio.timeout(BOUND_S):
        while (info := await talk.task(task_id))["state"] == "running":
            await asyncio.sleep(0.05)
    return info


async def _moving(talk: Any, task_id: str) -> dict[str, Any]:
    """Wait until the robot has covered part of the way."""
    async with asyncio.timeout(BOUND_S):
        while True:
            info = await talk.task(task_id)
            assert info["state"] == "running", info
            if ((info["progress"] or {}).get("percent") or 0) > 1:
                return info
            await asyncio.sleep(0.05)


async def test_a_call_drives_the_robot_and_its_events_arrive_signed_and_in_order(
    talk: Any, receiver: Any, truth: Any
) -> None:
    """B1, B9, B11, B13: progress with a falling ETA, one ETA trigger, then exactly one end."""
    task_id = await talk.start(
        "navigate_to", place="kitchen", triggers=[{"type": "eta_below", "seconds": 10}]
    )
    info = await _settled(talk, task_id)
    assert info["state"] == "succeeded", info
    events = await asyncio.to_thread(receiver.wait_for_end, task_id)

    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "task_done"
    assert [e.type for e in events].count("trigger_fired") == 1
    etas = [e.payload["eta_s"] for e in events if e.type == "progress" and e.payload.get("eta_s")]
    assert len(etas) >= 3
    assert etas[-1] < etas[0]
    (fired,) = [e for e in events if e.type == "trigger_fired"]
    assert fired.payload["trigger"] == {"type": "eta_below", "seconds": 10}
    assert 0 < fired.payload["eta_s"] <= 10
    percents = [e.payload["percent"] for e in events if e.type == "progress" and e.payload.get("percent")]
    assert percents == sorted(percents)
    pose = await asyncio.to_thread(truth.next_pose)
    assert math.hypot(pose["x_m"] - 10.0, pose["y_m"] - 6.5) < 0.5
    measured = events[-1].payload["result"]["final_pose"]
    assert math.hypot(pose["x_m"] - measured["x_m"], pose["y_m"] - measured["y_m"]) < 0.3
    assert all(r.status == 200 for r in receiver.receipts)


async def test_a_cancelled_drive_stops_the_robot(
    talk: Any, truth: Any, receiver: Any, slow_robot: Any
) -> None:
    """B20, B21: the state is cancelled, the stop is confirmed, and the robot stands still. No event."""
    task_id = await talk.start("navigate_to", place="workshop")
    await _moving(talk, task_id)
    answer = await talk.call("cancel_task", task_id=task_id)
    assert '"cancelled"' in answer.content[0].text
    info = await talk.task(task_id)
    assert info["state"] == "cancelled"
    assert info["progress"]["stop_confirmed"] is True

    def stands() -> bool:
        a, b = truth.next_pose(), truth.next_pose()
        return math.hypot(a["x_m"] - b["x_m"], a["y_m"] - b["y_m"]) < 1e-3

    async with asyncio.timeout(BOUND_S):
        while not await asyncio.to_thread(stands):
            pass
    assert not [e for e in receiver.of(task_id) if e.type in ("task_done", "task_failed")]


async def test_a_goal_inside_a_wall_fails_with_nav2s_reason_and_a_way_out(talk: Any, receiver: Any) -> None:
    """B15, B19."""
    task_id = await talk.start("navigate_to", x_m=6.0, y_m=7.0, yaw_rad=0.0)
    info = await _settled(talk, task_id)
    assert info["state"] == "failed"
    assert info["failure"]["error_code"] == "NAV2_GOAL_OCCUPIED"
    assert "GOAL_OCCUPIED" in info["failure"]["message"] or "206" in info["failure"]["message"]
    assert info["failure"]["suggestions"]
    events = await asyncio.to_thread(receiver.wait_for_end, task_id)
    assert events[-1].type == "task_failed"
    assert events[-1].payload == info["failure"]


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"place": "attic"}, "place", "kitchen"),
        ({"place": "kitchn"}, "place", "kitchen"),
        ({"x_m": math.nan, "y_m": 1.0, "yaw_rad": 0.0}, "x_m", ""),
        ({"x_m": math.inf, "y_m": 1.0, "yaw_rad": 0.0}, "x_m", ""),
        ({"x_m": 1.0, "y_m": "nan", "yaw_rad": 0.0}, "y_m", ""),
        ({"x_m": 2.0, "y_m": 4.0, "orientation": {"x": 0, "y": 0, "z": 0, "w": 0}}, "orientation", ""),
        ({"x_m": 2.0, "y_m": 4.0, "yaw_rad": 0.0, "frame": "mapp"}, "frame", "map"),
        ({"x_m": 2.0, "y_m": 4.0, "yaw_rad": 0.0, "frame": ""}, "frame", ""),
        ({"x_m": 2.0, "y_m": 4.0, "yaw_rad": 90}, "yaw_rad", "radian"),
        ({"x_m": 2.0, "y_m": 4.0, "yaw_deg": 90}, "yaw_deg", "yaw_rad"),
        ({"x_m": 200.0, "y_m": 4.0, "yaw_rad": 0.0}, "x_m", "12"),
        ({"x_m": 2.0}, "y_m", ""),
        ({"place": "kitchen", "x_m": 2.0, "y_m": 3.0}, "x_m", "place"),
        ({}, "x_m", "place"),
        ({"place": "kitchen", "triggers": [{"type": "eta_below"}]}, "triggers[0].seconds", ""),
        ({"place": "kitchen", "triggers": "soon"}, "triggers", ""),
        ({"place": "kitchen", "idempotency_key": 7}, "idempotency_key", ""),
    ],
)
async def test_a_bad_argument_is_refused_by_name_before_anything_moves(
    talk: Any, truth: Any, arguments: dict[str, Any], field: str, words: str
) -> None:
    """B7."""
    goals = len(truth.statuses)
    result = await talk.call("navigate_to", **arguments)
    assert result.is_error
    error = result.structured_content["error"]
    assert error["field"] == field, error
    text = result.content[0].text
    assert field in text
    assert words in text + str(error["allowed"])
    await asyncio.to_thread(truth.next_pose)
    assert len(truth.statuses) == goals, "no goal reached the action server"


async def test_the_same_idempotency_key_moves_the_robot_once(talk: Any, truth: Any) -> None:
    """B6."""
    goals = {s["goal_id"] for s in truth.statuses}
    first = await talk.start("navigate_to", place="lobby", idempotency_key="trip-1")
    again = await talk.start("navigate_to", place="lobby", idempotency_key="trip-1")
    assert again == first
    other = await talk.call("navigate_to", place="kitchen", idempotency_key="trip-1")
    assert other.is_error
    assert other.structured_content["error"]["field"] == "idempotency_key"
    assert (await _settled(talk, first))["state"] == "succeeded"
    assert await talk.start("navigate_to", place="lobby", idempotency_key="trip-1") == first
    assert len({s["goal_id"] for s in truth.statuses} - goals) == 1


async def test_a_newer_drive_replaces_the_running_one_and_says_so(talk: Any, slow_robot: Any) -> None:
    """B8, B16: the older task is told apart from a failed navigation."""
    older = await talk.start("navigate_to", place="storage")
    await _moving(talk, older)
    newer = await talk.start("navigate_to", place="lobby")
    replaced = await _settled(talk, older)
    slow_robot.faults(slow_down=1.0)
    assert replaced["failure"]["error_code"] == "ROS_PREEMPTED"
    assert newer in replaced["failure"]["message"]
    assert (await _settled(talk, newer))["state"] == "succeeded"


async def test_stop_ends_what_another_client_started(talk: Any, bridge: Any, slow_robot: Any) -> None:
    """B22."""
    task_id = await talk.start("navigate_to", place="office")
    await _moving(talk, task_id)
    async with Client(bridge.url) as somebody_else:
        report = (await somebody_else.call_tool("stop", {})).structured_content
    assert [t["task_id"] for t in report["tasks"]] == [task_id]
    assert report["all_confirmed"] is True
    assert (await talk.task(task_id))["state"] == "cancelled"
    again = await talk.call("stop")
    assert again.structured_content["tasks"] == []


async def test_the_stop_service_ends_what_runs(talk: Any, ros_domain_id: int, slow_robot: Any) -> None:
    """B37: ~/stop, std_srvs/Trigger."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions
    from std_srvs.srv import Trigger

    context = rclpy.Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("operator", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        client = node.create_client(Trigger, "/bridge/stop")
        assert await asyncio.to_thread(client.wait_for_service, BOUND_S)
        task_id = await talk.start("navigate_to", place="office")
        await _moving(talk, task_id)

        def call() -> Any:
            future = client.call_async(Trigger.Request())
            executor.spin_until_future_complete(future, BOUND_S)
            return future.result()

        assert (await asyncio.to_thread(call)).success
        assert (await _settled(talk, task_id))["state"] == "cancelled"
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_both_protocol_eras_are_served(bridge: Any, mode: str) -> None:
    async with Client(bridge.url, mode=mode) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert {"navigate_to", "stop", "get_task", "cancel_task", "list_tasks"} <= set(tools)
        result = await client.call_tool("list_tasks", {})
        assert '"tasks"' in result.content[0].text
        schema = tools["navigate_to"].input_schema
        assert schema["additionalProperties"] is False
        assert {"x_m", "y_m", "yaw_rad", "frame", "place", "triggers", "idempotency_key"} <= set(
            schema["properties"]
        )
        assert len(tools["navigate_to"].description or "") > 100


async def test_a_client_that_goes_away_does_not_stop_the_robot(bridge: Any, talk: Any) -> None:
    """The task is not the request's."""
    async with Client(bridge.url) as leaving:
        result = await leaving.call_tool("navigate_to", {"place": "lobby"})
        task_id = result.structured_content["task_id"]
    assert (await _settled(talk, task_id))["state"] == "succeeded"
