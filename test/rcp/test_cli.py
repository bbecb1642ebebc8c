"""The command line: a robot is served, a client asks, a person agrees at a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from robot_mcp_kit.cli import main
from robot_mcp_kit.cli.common import CliError
from robot_mcp_kit.cli.rcp import load_adapter, read_config
from robot_mcp_kit.rcp.simulated import SimulatedAdapter
from robot_mcp_kit.safety.audit_verify import records

from .wire import client_of

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0


@contextlib.contextmanager
def served(state_dir: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A served simulated robot in a process of its own, and its address."""
    command = [sys.executable, "-m", "robot_mcp_kit", "rcp", "--simulated", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--state-dir", str(state_dir), *options],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("ROBOT_MCP_")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"ws://\S+?(?=,)", line)
        assert found is not None, line
        yield process, found.group()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(BOUND_S)
        process.stdout and process.stdout.close()


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints; it must succeed."""
    code = main(list(arguments))
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out


async def test_a_person_at_a_terminal_agrees_to_what_a_client_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R18, R32, R36: the same commands as for the ROS bridge."""
    state = ("--state-dir", str(tmp_path))
    with served(tmp_path) as (process, url):
        async with client_of(url) as client:
            asked = await client.act("jog", {"axis": "J1", "direction": 1, "speed": 1.0})
            listed = told(capsys, "approve", *state)
            assert "jog J1 + at speed 1" in listed
            assert asked["approval_id"] in listed
            assert "by operator:ann" in told(capsys, "approve", asked["approval_id"], "--as", "ann", *state)
            assert (await client.notified("rcp.action_result"))["status"] == "executed"
            joints = await client.call("rcp.read", uri="robot://joints")
            assert joints[0]["position_deg"] == pytest.approx(5.0)
            asked = await client.act("home")
            told(capsys, "reject", asked["approval_id"], "--as", "ann", "--reason", "not now", *state)
            assert (await client.notified("rcp.action_result"))["status"] == "rejected"
            assert "latched: a test" in told(capsys, "estop", "engage", "--reason", "a test", *state)
            assert "latched" in told(capsys, "estop", "status", *state)
            assert "it was latched for" in told(capsys, "estop", "reset", "--as", "ann", *state)
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == 0
    robots = {record["robot"] for record in records(tmp_path / "audit") if record["event"] == "requested"}
    assert robots == {"robot-mcp-kit SIM-6 (SN: SIM-0001)"}
    assert "the chain is whole" in told(capsys, "audit", "verify", *state)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--adapter", "no_such_module:Robot"], "cannot be imported"),
        (["--adapter", "robot_mcp_kit.rcp.simulated"], "MODULE:CLASS"),
        (["--adapter", "robot_mcp_kit.rcp:JointState"], "no subclass"),
        (["--adapter", "robot_mcp_kit.rcp:RCPAdapter"], "cannot be made"),
        (["--adapter", "missing.py:Robot"], "no such file"),
        (["--simulated", "--config", "{"], "--config"),
        (["--simulated", "--config", "[]"], "JSON object"),
        (["--simulated", "--config", "@missing.json"], "--config"),
        (["--simulated", "--host", "0.0.0.0"], "ROBOT_MCP_RCP_TOKEN"),
        (["--simulated", "--port", "99999"], "--port"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(
    options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R9: exit code 2, no traceback."""
    assert main(["rcp", *options, "--state-dir", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert word in printed
    assert "Traceback" not in printed


def test_an_adapter_comes_from_a_module_or_a_file(tmp_path: Path) -> None:
    """R9."""
    assert isinstance(load_adapter("robot_mcp_kit.rcp.simulated:SimulatedAdapter"), SimulatedAdapter)
    made = load_adapter(f"{ROOT / 'examples' / 'rcp_adapter.py'}:LineAdapter")
    assert type(made).__name__ == "LineAdapter"
    (tmp_path / "cell.json").write_text('{"host": "10.0.0.5"}')
    assert read_config(f"@{tmp_path / 'cell.json'}") == {"host": "10.0.0.5"}
    with pytest.raises(CliError):
        read_config("@" + str(tmp_path))


def test_a_controller_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """R11."""
    adapter = "examples/rcp_adapter.py:LineAdapter"
    config = '{"host": "127.0.0.1", "port": 1}'
    command = [sys.executable, "-m", "robot_mcp_kit", "rcp", "--adapter", adapter, "--config", config]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path), "--port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 2
    assert "the controller was not reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_start_that_waits_for_its_controller_can_be_ended(tmp_path: Path) -> None:
    """R11: at once, and in order."""
    (tmp_path / "silent.py").write_text(
        "import asyncio\n"
        "from robot_mcp_kit.rcp.simulated import SimulatedAdapter\n\n\n"
        "class Silent(SimulatedAdapter):\n"
        "    async def connect(self, config):\n"
        "        print('connecting', flush=True)\n"
        "        await asyncio.Event().wait()\n"
    )
    command = [sys.executable, "-m", "robot_mcp_kit", "rcp", "--adapter", f"{tmp_path / 'silent.py'}:Silent"]
    with subprocess.Popen(
        [*command, "--state-dir", str(tmp_path / "state"), "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "connecting\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == 0
    assert [record["event"] for record in records(tmp_path / "state" / "audit")] == ["opened", "closed"]
