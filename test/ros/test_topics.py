"""The bridge's topics over real rclpy: events and the task list out, other nodes' observations in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.tasks import TaskContext, TaskManager

pytestmark = pytest.mark.ros
BOUND_S = 30.0


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


class Listener:
    """What another node hears and says, on the same rclpy thread."""

    def __init__(self, side: Any) -> None:
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from robot_mcp_kit_msgs.msg import TaskEvent, TaskList, WatchEvent

        self.events: list[Any] = []
        self.lists: list[Any] = []
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        side.node.create_subscription(TaskEvent, "/test_client/task_events", self.events.append, 100)
        side.node.create_subscription(TaskList, "/test_client/tasks", self.lists.append, latched)
        self.watch = side.node.create_publisher(WatchEvent, "/test_client/watch_events", 10)


class Stage:
    def __init__(self, side: Any, manager: TaskManager, listener: Listener, topics: Any) -> None:
        self.side, self.manager, self.listener, self.topics = side, manager, listener, topics


@pytest.fixture
async def stage(ros_side: Any) -> AsyncIterator[Stage]:
    from robot_mcp_kit.ros.topics import TaskTopics

    poster = EventPoster("robot", callback_url=None, secret=None)
    manager = TaskManager("robot", poster)
    topics = TaskTopics(ros_side.node, ros_side.thread, manager)
    assert await topics.open()
    listener = await ros_side.thread.call(lambda: Listener(ros_side))
    await _until(
        lambda: (
            ros_side.node.count_subscribers("/test_client/watch_events")
            and topics._events.get_subscription_count()
            and listener.watch.get_subscription_count()
        )
    )
    yield Stage(ros_side, manager, listener, topics)
    await ros_side.thread.call(topics.close)
    await manager.aclose()
    await poster.aclose()


async def test_every_event_of_a_task_is_published_typed_and_in_order(stage: Stage) -> None:
    """B36."""

    async def body(context: TaskContext) -> dict[str, Any]:
        for percent in (10, 60):
            await context.progress({"percent": percent, "place": "Küche"})
        return {"ok": True}

    info = stage.manager.start("navigate_to", body)
    await _until(lambda: len(stage.listener.events) == 3)
    events = stage.listener.events
    assert [e.type for e in events] == ["progress", "progress", "task_done"]
    assert [e.seq for e in events] == [1, 2, 3]
    assert {e.task_id for e in events} == {info.task_id}
    assert json.loads(events[0].payload_json) == {"percent": 10, "place": "Küche"}
    assert events[0].stamp.sec > 1_600_000_000


async def test_the_task_list_is_latched_and_follows_the_states(stage: Stage) -> None:
    """B36."""
    go_on = asyncio.Event()

    async def body(_: TaskContext) -> dict[str, Any]:
        await go_on.wait()
        return {}

    info = stage.manager.start("spin", body, triggers=[{"type": "progress_above", "percent": 50}])

    def shown() -> Any:
        return next(
            (t for m in stage.listener.lists[-1:] for t in m.tasks if t.task_id == info.task_id), None
        )

    await _until(lambda: (t := shown()) is not None and t.state == "running")
    assert json.loads(shown().triggers_json)[0]["type"] == "progress_above"
    assert shown().est_duration_s == -1.0
    go_on.set()
    await _until(lambda: shown().state == "succeeded")


async def test_what_is_learned_after_the_end_is_in_the_next_list(stage: Stage) -> None:
    """B36, B21: ended tasks are not put together anew each time, but a late confirmation is."""

    async def body(context: TaskContext) -> dict[str, Any]:
        return {}

    async def ended(tool: str) -> str:
        info = stage.manager.start(tool, body)
        await stage.manager.wait(info.task_id)
        return info.task_id

    first = await ended("one")
    await _until(lambda: any(t.state == "succeeded" for m in stage.listener.lists for t in m.tasks))
    stage.manager.annotate(first, {"stop_confirmed": True})
    second = await ended("two")
    await _until(
        lambda: (
            [(t.task_id, t.state) for t in stage.listener.lists[-1].tasks]
            == [(second, "succeeded"), (first, "succeeded")]
        )
    )
    assert json.loads(stage.listener.lists[-1].tasks[1].progress_json) == {"stop_confirmed": True}
    assert stage.manager.task_ids() == [first, second]


async def test_what_another_node_saw_becomes_a_watch_event(stage: Stage) -> None:
    """B36: one long-lived task carries them, with its own contiguous seq."""
    from robot_mcp_kit_msgs.msg import WatchEvent

    faults_before = stage.side.thread.callback_faults
    for text in ('{"person": 1}', "no json", "[1]", "[" * 20_000, '{"person": 2}'):
        message = WatchEvent(source="camera", payload_json=text)
        await stage.side.thread.call(lambda m=message: stage.listener.watch.publish(m))
    await _until(lambda: len(stage.listener.events) == 2)
    payloads = [json.loads(e.payload_json) for e in stage.listener.events]
    assert [p["person"] for p in payloads] == [1, 2]
    assert stage.side.thread.callback_faults == faults_before
    assert {p["source"] for p in payloads} == {"camera"}
    assert {e.type for e in stage.listener.events} == {"watch_event"}
    assert [e.seq for e in stage.listener.events] == [1, 2]
    (task,) = stage.manager.list(["running"])
    await stage.manager.cancel(task.task_id)
    message = WatchEvent(source="camera", payload_json='{"person": 3}')
    await stage.side.thread.call(lambda: stage.listener.watch.publish(message))
    await _until(lambda: len(stage.listener.events) == 3)
    assert stage.listener.events[-1].task_id != task.task_id, "a cancelled watcher is followed by a new one"


async def test_what_another_node_sees_while_the_bridge_closes_is_dropped(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B29: the tasks are closed before the topics, and the others go on publishing."""
    from robot_mcp_kit_msgs.msg import WatchEvent

    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    caplog.set_level("DEBUG", "robot_mcp_kit.ros.topics")
    await stage.manager.aclose()
    for number in (1, 2, 3):
        message = WatchEvent(source="camera", payload_json=json.dumps({"person": number}))
        await stage.side.thread.call(lambda m=message: stage.listener.watch.publish(m))
    await _until(lambda: faults or len([r for r in caplog.records if "dropped" in r.message]) == 3)
    assert faults == []
    assert {record.levelname for record in caplog.records if "dropped" in record.message} == {"DEBUG"}
    assert stage.manager.list() == []


async def test_diagnostics_tell_missing_servers_and_dropped_events(stage: Stage) -> None:
    """B36."""
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

    from robot_mcp_kit.ros.diagnostics import Diagnostics

    arrays: list[Any] = []
    side = stage.side
    await side.ports.create("/nobody_here", "test_msgs/action/Fibonacci")
    poster = EventPoster("robot", callback_url=None, secret=None)
    diagnostics = Diagnostics(side.node, side.thread, side.ports, poster, lambda: 2)
    await diagnostics.open()
    await side.thread.call(
        lambda: side.node.create_subscription(DiagnosticArray, "/diagnostics", arrays.append, 10)
    )
    await _until(lambda: arrays)
    by_name = {s.name.split(": ")[1]: s for s in arrays[-1].status}
    assert by_name["action servers"].level == DiagnosticStatus.WARN
    assert "/nobody_here" in by_name["action servers"].message
    assert by_name["event delivery"].level == DiagnosticStatus.OK
    assert {v.key: v.value for v in by_name["executor"].values}["running_tasks"] == "2"
    await poster.aclose()
