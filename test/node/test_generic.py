"""Actions that no skill was written for: one YAML entry each, against real rclpy servers of those types."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client

from robot_mcp_kit.sim.domain import isolated_environment

pytestmark = pytest.mark.ros
BOUND_S = 60.0
SERVER = Path(__file__).parents[1] / "ros" / "any_action_server.py"

SKILLS = """
robot: {frames: [map, base_link]}
discover: true
skills:
  count_up:
    action: /any/fibonacci
    type: test_msgs/action/Fibonacci
    title: Count up
    description: Computes the Fibonacci series. Moves nothing.
    fields:
      order: {as: length, min: 2, max: 40, description: How many numbers.}
  nested:
    action: any/nested
    type: test_msgs/action/NestedMessage
    others: hidden
    fields:
      nested_field.int32_value: {as: count, min: 1, max: 10}
      goal.nested_field.float32_value: {as: speed_mps, default: 0.25, max: 1.0, unit: m/s}
      nested_field.bool_value: true
      nested_field.uint8_value: {as: grip, choices: {soft: 1, hard: 2}}
      nested_field.int64_value: -9007199254740993
      nested_field_no_pkg.duration_value: {as: time_s, form: seconds, min: 0.1}
      nested_different_pkg: {fixed: {sec: 7, nanosec: 5}}
    progress:
      percent: {field: nested_field.float32_value, scale: 100}
      eta_s: nested_field_no_pkg.duration_value
    success_when: {nested_field.bool_value: true}
    error_code_field: nested_field.int32_value
"""


class AnyActionServer:
    """The process of ``any_action_server.py``, driven from the test."""

    def __init__(self, domain_id: int, *actions: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), *actions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=isolated_environment(domain_id),
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait(1)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()

    def _wait(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.events) >= count, BOUND_S), self.events

    async def wait_for(self, event: str, goal: str) -> None:
        def wait() -> None:
            with self._news:
                assert self._news.wait_for(
                    lambda: any(e["event"] == event and e["goal"] == goal for e in self.events[1:]), BOUND_S
                ), self.events

        await asyncio.to_thread(wait)

    async def next_goal(self) -> dict[str, Any]:
        """The next goal that arrives, or arrived unseen."""

        def found() -> dict[str, Any] | None:
            return next((e for e in self.events if e["event"] == "goal" and not e.get("seen")), None)

        def wait() -> dict[str, Any]:
            with self._news:
                assert self._news.wait_for(found, BOUND_S), self.events
                goal = found()
                assert goal is not None
                goal["seen"] = True
                return goal

        return await asyncio.to_thread(wait)

    def goals(self) -> int:
        return sum(event["event"] == "goal" for event in self.events)

    def tell(self, **step: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(step) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._reader.join(5)


@pytest.fixture(scope="module")
def server(ros_domain_id: int) -> Iterator[AnyActionServer]:
    process = AnyActionServer(
        ros_domain_id,
        *("/any/fibonacci", "test_msgs/action/Fibonacci"),
        *("/any/nested", "test_msgs/action/NestedMessage"),
        *("/other/fibonacci", "test_msgs/action/Fibonacci"),
        *("/through", "nav2_msgs/action/NavigateThroughPoses"),
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def generic_bridge(
    ros_domain_id: int,
    server: AnyActionServer,
    bridge_process: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("generic")
    skills = folder / "skills.yaml"
    skills.write_text(SKILLS)
    process = bridge_process(ros_domain_id, folder / "bridge.log", skills=skills)
    yield process
    code = process.end()
    log = process.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log


@pytest.fixture
async def client(generic_bridge: Any, connect: Callable[..., Any]) -> AsyncIterator[Client]:
    async with connect(generic_bridge.url) as entered:
        yield entered


async def _start(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    return str(result.structured_content["task_id"])


async def _task(client: Client, task_id: str, ready: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Poll until the task looks like that."""
    async with asyncio.timeout(BOUND_S):
        while True:
            answer = await client.call_tool("get_task", {"task_id": task_id})
            info = dict(json.loads(answer.content[0].text))
            if ready(info):
                return info
            await asyncio.sleep(0.02)


def _settled(info: dict[str, Any]) -> bool:
    return info["state"] != "running"


async def test_an_entry_becomes_a_tool_that_shows_only_what_a_caller_may_choose(client: Client) -> None:
    """B31, B32."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["count_up"].input_schema
    assert schema["properties"]["length"] == {
        "type": "integer",
        "minimum": 2,
        "maximum": 40,
        "description": "How many numbers.",
    }
    assert set(schema["properties"]) == {"length", "triggers", "idempotency_key", "wait_s"}
    assert schema["required"] == ["length"]
    assert tools["count_up"].title == "Count up"
    assert tools["count_up"].description.startswith("Computes the Fibonacci series.")
    schema = tools["nested"].input_schema
    assert set(schema["properties"]) == {
        "count",
        "speed_mps",
        "grip",
        "time_s",
        "wait_s",
        "triggers",
        "idempotency_key",
    }
    assert set(schema["required"]) == {"count", "grip", "time_s"}
    assert schema["properties"]["grip"]["enum"] == ["soft", "hard"]
    assert schema["properties"]["speed_mps"]["default"] == 0.25
    assert "m/s" in schema["properties"]["speed_mps"]["description"]


async def test_a_goal_arrives_with_what_was_given_fixed_and_defaulted(
    client: Client, server: AnyActionServer
) -> None:
    """B31, B32: then its feedback is progress, and its result is the task's result."""
    task_id = await _start(client, "nested", count=3, grip="hard", time_s=2.5)
    goal = await server.next_goal()
    fields = goal["fields"]
    assert goal["action"] == "/any/nested"
    assert fields["nested_field"] | {} == fields["nested_field"] | {
        "int32_value": 3,
        "float32_value": 0.25,
        "bool_value": True,
        "uint8_value": 2,
        "int64_value": -9007199254740993,
        "float64_value": 0.0,
    }
    assert fields["nested_field_no_pkg"]["duration_value"] == {"sec": 2, "nanosec": 500_000_000}
    assert fields["nested_different_pkg"] == {"sec": 7, "nanosec": 5}

    server.tell(
        do="feedback",
        goal=goal["goal"],
        fields={
            "nested_field": {"float32_value": 0.3, "float64_value": "nan", "int64_value": 2**60},
            "nested_field_no_pkg": {"duration_value": {"sec": 4, "nanosec": 500_000_000}},
        },
    )
    info = await _task(client, task_id, lambda i: (i["progress"] or {}).get("percent"))
    progress = info["progress"]
    assert (progress["percent"], progress["eta_s"]) == (30.0, 4.5)
    own = progress["feedback"]["nested_field"]
    assert own["float32_value"] == 0.3, "without the noise of a float32"
    assert own["float64_value"] is None
    assert own["int64_value"] == str(2**60)

    server.tell(
        do="finish", goal=goal["goal"], **{"as": "succeed"}, fields={"nested_field": {"bool_value": True}}
    )
    info = await _task(client, task_id, _settled)
    assert info["state"] == "succeeded", info
    assert info["result"]["nested_field"]["bool_value"] is True
    assert info["result"]["nested_different_pkg"] == {"sec": 0, "nanosec": 0}


@pytest.mark.parametrize(
    ("status", "fields", "code", "words"),
    [
        ("abort", {"int32_value": -5}, "NESTED_MESSAGE_ERROR_MINUS_5", "error code -5"),
        (
            "succeed",
            {"bool_value": False},
            "NESTED_MESSAGE_NOT_SUCCESSFUL",
            "nested_field.bool_value is false",
        ),
        ("succeed", {"int32_value": 12}, "NESTED_MESSAGE_ERROR_12", "not true"),
        ("abort", {"bool_value": True}, "ROS_ABORTED_NO_REASON", "gave up"),
    ],
)
async def test_a_failure_carries_the_native_code(
    client: Client, server: AnyActionServer, status: str, fields: dict[str, Any], code: str, words: str
) -> None:
    """B15: status first, then the fields that the entry names."""
    task_id = await _start(client, "nested", count=1, grip="soft", time_s=1)
    goal = await server.next_goal()
    server.tell(do="finish", goal=goal["goal"], **{"as": status}, fields={"nested_field": fields})
    info = await _task(client, task_id, _settled)
    assert info["state"] == "failed"
    assert info["failure"]["error_code"] == code
    assert words in info["failure"]["message"]


async def test_a_list_of_feedback_and_result_comes_as_a_list(client: Client, server: AnyActionServer) -> None:
    task_id = await _start(client, "count_up", length=5)
    goal = await server.next_goal()
    assert goal["fields"] == {"order": 5}
    server.tell(do="feedback", goal=goal["goal"], fields={"sequence": [0, 1]})
    info = await _task(client, task_id, lambda i: "feedback" in (i["progress"] or {}))
    assert info["progress"]["feedback"] == {"sequence": [0, 1]}
    server.tell(do="finish", goal=goal["goal"], **{"as": "succeed"}, fields={"sequence": list(range(150))})
    info = await _task(client, task_id, _settled)
    assert info["result"]["sequence"] == [*range(100), "… 50 more"]


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"lenght": 5}, "lenght", 'Did you mean "length"?'),
        ({}, "length", "must be given"),
        ({"length": 1}, "length", "least allowed"),
        ({"length": 2.5}, "length", "whole number"),
        ({"length": True}, "length", "whole number"),
        ({"length": 5, "order": 5}, "order", "no such argument"),
    ],
)
async def test_a_wrong_argument_is_refused_and_reaches_no_server(
    client: Client, server: AnyActionServer, arguments: dict[str, Any], field: str, words: str
) -> None:
    """B7."""
    before = server.goals()
    result = await client.call_tool("count_up", arguments)
    assert result.is_error
    assert result.structured_content["error"]["field"] == field
    assert words in result.content[0].text
    task_id = await _start(client, "count_up", length=2)  # goes the same way behind it
    goal = await server.next_goal()
    server.tell(do="finish", goal=goal["goal"], **{"as": "succeed"})
    await _task(client, task_id, _settled)
    assert server.goals() == before + 1


async def test_a_cancel_reaches_the_server(client: Client, server: AnyActionServer) -> None:
    """B20, B21."""
    task_id = await _start(client, "count_up", length=3)
    goal = await server.next_goal()
    cancelling = asyncio.create_task(client.call_tool("cancel_task", {"task_id": task_id}))
    await server.wait_for("cancel", goal["goal"])
    server.tell(do="finish", goal=goal["goal"], **{"as": "canceled"})
    await cancelling
    info = await _task(client, task_id, _settled)
    assert info["state"] == "cancelled"
    assert info["progress"]["stop_confirmed"] is True


async def test_other_actions_are_listed_with_a_ready_entry_and_not_exposed(
    client: Client, server: AnyActionServer
) -> None:
    """B34."""
    async with asyncio.timeout(BOUND_S):
        while True:
            result = await client.call_tool("list_actions", {})
            found = {entry["action"]: entry for entry in result.structured_content["actions"]}
            if len(found) == 4:
                break
            await asyncio.sleep(0.1)
    assert found["/any/fibonacci"]["tools"] == ["count_up"]
    assert found["/any/nested"]["tools"] == ["nested"], "the entry has a relative name"
    other = found["/other/fibonacci"]
    assert (other["type"], other["exposed"], other["tools"]) == ("test_msgs/action/Fibonacci", False, [])
    assert other["nodes"] == ["/any_action_server"]
    entry = yaml.safe_load(other["yaml_entry"])["skills"]["fibonacci"]
    assert entry["action"] == "/other/fibonacci"
    assert entry["fields"] == {"order": {}}
    assert "navigate_through" not in str(found["/through"]["tools"])
    assert yaml.safe_load(found["/through"]["yaml_entry"])["skills"]["through"]["type"].endswith(
        "ThroughPoses"
    )
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) >= {"count_up", "nested", "list_actions", "stop"}
    assert not {"fibonacci", "other_fibonacci", "through"} & set(tools)
    assert tools["list_actions"].annotations.read_only_hint
    result = await client.call_tool("list_actions", {"name_contains": "other"})
    assert [entry["action"] for entry in result.structured_content["actions"]] == ["/other/fibonacci"]


async def test_without_discover_there_is_no_list(
    ros_domain_id: int, start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    skills = tmp_path / "skills.yaml"
    skills.write_text(SKILLS.replace("discover: true", "discover: false"))
    bridge = start_bridge(skills=skills)
    async with Client(bridge.url) as client:
        assert "list_actions" not in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize(
    ("entry", "line", "words"),
    [
        ("fields: {ordr: 3}", 5, ["fields.ordr", 'Did you mean "order"?']),
        ("fields: {order: {min: 5, max: 2}}", 5, ["fields.order", "min (5) is more than max (2)"]),
        ("fields: {order: five}", 5, ["fields.order", "five"]),
        ("progress: {percent: sequence}", 5, ["progress.percent", "int32[]"]),
    ],
)
async def test_an_entry_that_does_not_fit_stops_the_start(
    ros_domain_id: int,
    start_bridge: Callable[..., Any],
    tmp_path: Path,
    entry: str,
    line: int,
    words: list[str],
) -> None:
    skills = tmp_path / "skills.yaml"
    skills.write_text(
        f"skills:\n  fib:\n    action: fib\n    type: test_msgs/action/Fibonacci\n    {entry}\n"
    )
    bridge = start_bridge(skills=skills, ready=False)
    assert await asyncio.to_thread(bridge.process.wait, BOUND_S) == 2
    said = bridge.log.read_text()
    for word in (f"skills.yaml, line {line}", *words):
        assert word in said
    assert "Traceback" not in said
