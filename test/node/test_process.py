"""The node as a process: starting, refusing to start, who may talk to it, and ending."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.bridge.runs import LAST_ASK_S
from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.sqlite_file import SqliteFile

pytestmark = pytest.mark.ros
BOUND_S = 60.0
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.mark.parametrize(("number", "place"), [(signal.SIGINT, "kitchen"), (signal.SIGTERM, "workshop")])
async def test_a_signal_ends_the_node_cleanly_and_stops_the_robot(
    slow_robot: Any, truth: Any, start_bridge: Callable[..., Any], number: int, place: str
) -> None:
    """B29: exit code 0, no traceback, the running goal is cancelled."""
    bridge = start_bridge()
    async with Client(bridge.url) as client:
        known = {s["goal_id"] for s in truth.statuses}
        await client.call_tool("navigate_to", {"place": place})
        await asyncio.to_thread(
            truth.wait_for, lambda: {s["goal_id"] for s in truth.statuses if s["status"] == 2} - known
        )
    code = await asyncio.to_thread(bridge.end, number)
    log = bridge.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log
    await asyncio.to_thread(truth.wait_for, lambda: truth.statuses[-1]["status"] == 5)


async def test_an_end_waits_for_neither_the_robot_nor_the_chat_app(
    slow_robot: Any, truth: Any, start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    """B21, B29: one does not stop and the other does not answer; the record says that nobody saw it stop."""
    ledger = tmp_path / "ledger.db"
    slow_robot.faults(ignore_cancel_s=40.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        chat_app = {
            "RVC_CALLBACK_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/events",
            "RVC_EVENT_SECRET": "secret",
        }
        bridge = start_bridge("--ledger", str(ledger), environment=chat_app)
        async with Client(bridge.url) as client:
            started = await client.call_tool("navigate_to", {"place": "kitchen"})
            task_id = started.structured_content["task_id"]
            async with asyncio.timeout(BOUND_S):
                while True:
                    answer = await client.call_tool("get_task", {"task_id": task_id})
                    if json.loads(answer.content[0].text)["progress"]:
                        break  # so that there is an event to deliver
                    await asyncio.sleep(0.05)
        code = await asyncio.to_thread(bridge.end)
    log = bridge.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log
    assert "undelivered; the outbox keeps them" in log
    with contextlib.closing(SqliteFile(ledger)) as file:
        saved = SqliteLedger(file).saved_task(task_id)
    assert saved is not None
    assert saved.info.state == "cancelled"
    assert (saved.info.progress or {})["stop_confirmed"] is False
    slow_robot.faults(ignore_cancel_s=0.0)
    await asyncio.to_thread(truth.wait_for, lambda: truth.statuses[-1]["status"] == 5)


async def test_what_an_end_waits_for_adds_up_to_well_under_five_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B29: the bounds one after the other, and a second for everything else. A broken end is told."""
    from robot_mcp_kit.node import session

    made: dict[str, Any] = {}

    def poster(*_: Any, **options: Any) -> Any:
        made.update(options)
        raise RuntimeError("enough seen")

    monkeypatch.setattr(session, "EventPoster", poster)
    prepared = SimpleNamespace(settings=SimpleNamespace(server_name="robot"), config=None, memory=None)
    begun = session.Session(SimpleNamespace(), prepared, on_end=lambda _: None)  # type: ignore[arg-type]
    begun.start()
    await begun.close()
    assert "the session did not end in order" in caplog.text
    assert session.END_GRACE_S + LAST_ASK_S + made["close_grace_s"] <= 4.0


async def test_stdio_serves_a_client_that_starts_the_node(sim: Any, ros_domain_id: int) -> None:
    """Standard output carries nothing but the protocol."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "robot_mcp_kit", "run", "--stdio", "--skills", "config/skills.yaml"],
        env=isolated_environment(ros_domain_id),
        cwd=str(Path(__file__).parents[2]),
    )
    async with Client(stdio_client(parameters)) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"navigate_to", "stop", "get_task"} <= names
        started = await client.call_tool("navigate_to", {"place": "lobby"})
        task_id = started.structured_content["task_id"]
        async with asyncio.timeout(BOUND_S):
            while True:
                answer = await client.call_tool("get_task", {"task_id": task_id})
                if json.loads(answer.content[0].text)["progress"]:
                    break
                await asyncio.sleep(0.05)
        await client.call_tool("stop", {})


async def test_without_a_server_a_task_fails_and_names_what_there_is(
    sim: Any, start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    """B4, E42: a typing mistake in the action's name."""
    skills = tmp_path / "skills.yaml"
    skills.write_text(
        "skills:\n  navigate_to:\n    action: navigate_to_pos\n    server_wait_s: 2.0\n"
        "    type: nav2_msgs/action/NavigateToPose\n"
    )
    bridge = start_bridge(skills=skills)
    async with Client(bridge.url) as client:
        started = await client.call_tool("navigate_to", {"x_m": 1.0, "y_m": 4.0, "yaw_rad": 0.0})
        task_id = started.structured_content["task_id"]
        async with asyncio.timeout(BOUND_S):
            while True:
                answer = await client.call_tool("get_task", {"task_id": task_id})
                info = json.loads(answer.content[0].text)
                if info["state"] != "running":
                    break
                await asyncio.sleep(0.05)
    assert info["failure"]["error_code"] == "ROS_SERVER_UNAVAILABLE"
    assert "/navigate_to_pose" in info["failure"]["message"]


async def test_a_port_that_is_taken_is_said(bridge: Any, start_bridge: Callable[..., Any]) -> None:
    port = bridge.url.split(":")[2].split("/")[0]
    second = start_bridge("--port", port, ready=False)
    assert await asyncio.to_thread(second.process.wait, BOUND_S) == 2
    assert f"127.0.0.1:{port}" in second.log.read_text()


async def test_a_foreign_host_or_origin_is_turned_away(bridge: Any) -> None:
    """B41, H78: a web page in somebody's browser cannot drive the robot."""
    async with httpx.AsyncClient(headers=MCP_HEADERS) as http:
        evil_host = await http.post(bridge.url, json=PING, headers={"Host": "evil.example"})
        evil_origin = await http.post(bridge.url, json=PING, headers={"Origin": "http://evil.example"})
        too_large = await http.post(bridge.url, content=b"x" * 5_000_000)
        malformed = await http.post(bridge.url, content=b'{"jsonrpc": ')
    assert evil_host.status_code == 421
    assert evil_origin.status_code == 403
    assert too_large.status_code == 413
    assert malformed.status_code == 400
    async with Client(bridge.url) as client:
        assert (await client.list_tools()).tools, "the endpoint still answers"


async def test_with_a_token_only_its_bearer_is_answered(sim: Any, start_bridge: Callable[..., Any]) -> None:
    """B41, B42."""
    bridge = start_bridge(environment={"ROBOT_MCP_TOKEN": "correct-horse"})
    async with httpx.AsyncClient(headers=MCP_HEADERS) as http:
        nobody = await http.post(bridge.url, json=PING)
        wrong = await http.post(bridge.url, json=PING, headers={"Authorization": "Bearer guess"})
        right = await http.post(bridge.url, json=PING, headers={"Authorization": "Bearer correct-horse"})
    assert nobody.status_code == 401
    assert "WWW-Authenticate" in nobody.headers
    assert wrong.status_code == 401
    assert right.status_code != 401
    assert await asyncio.to_thread(bridge.end) == 0
    assert "correct-horse" not in bridge.log.read_text()


async def test_json_logs_carry_the_task_id(sim: Any, start_bridge: Callable[..., Any]) -> None:
    bridge = start_bridge("--log-format", "json")
    async with Client(bridge.url) as client:
        started = await client.call_tool("navigate_to", {"place": "lobby"})
        task_id = started.structured_content["task_id"]
        await client.call_tool("stop", {})
    assert await asyncio.to_thread(bridge.end) == 0
    lines = [json.loads(line) for line in bridge.log.read_text().splitlines() if line.startswith("{")]
    assert any(line.get("task_id") == task_id for line in lines)
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
