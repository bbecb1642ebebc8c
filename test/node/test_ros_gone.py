"""ROS goes away under the running node."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.testing.open_guard import approve_everything

from .conftest import ROOT, SKILLS

SCRIPT = str(Path(__file__).with_name("dying_bridge.py"))
pytestmark = pytest.mark.ros


@contextlib.contextmanager
def _dying_bridge(domain_id: int, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its URL; a line on its standard input takes ROS away from it."""
    state = folder / "state"
    approve_everything(state, SKILLS)
    environment = isolated_environment(domain_id) | {"ROBOT_MCP_STATE_DIR": str(state)}
    parameters = {"skills_file": SKILLS, "ledger_file": folder / "ledger.db", "port": 0}
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    with (folder / "log").open("w") as log:
        bridge = subprocess.Popen(
            [sys.executable, SCRIPT, "--ros-args", *words],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert bridge.stdout is not None
            line = bridge.stdout.readline()
            assert line.startswith("bridge ready"), (folder / "log").read_text()
            yield bridge, line.split()[-1]
        finally:
            bridge.kill()
            bridge.communicate()


def test_the_node_ends_with_a_failure_and_leaves_its_files_in_order(
    ros_domain_id: int, tmp_path: Path
) -> None:
    """Case E47: a bridge without ROS can do nothing any more; whoever watches over it starts it again."""
    with _dying_bridge(ros_domain_id, tmp_path) as (bridge, _):
        bridge.communicate("now\n", timeout=60)
    said = (tmp_path / "log").read_text()
    assert bridge.returncode == 1, said
    assert "ROS is gone" in said
    trail = "".join(file.read_text() for file in (tmp_path / "state" / "audit").glob("*.jsonl"))
    assert '"event":"closed"' in trail.splitlines()[-1]


async def test_a_goal_that_ran_when_ros_went_away_has_failed_and_is_stopped_by_the_next_bridge(
    slow_robot: Any,
    truth: Any,
    talker: Any,
    start_bridge: Callable[..., Any],
    ros_domain_id: int,
    tmp_path: Path,
) -> None:
    """B24 B26, case E47: nobody calls it cancelled or stopped before that is so."""
    with _dying_bridge(ros_domain_id, tmp_path) as (bridge, url):
        async with Client(url) as client:
            task_id = await talker(client).start("navigate_to", place="kitchen")
            await asyncio.to_thread(truth.wait_for, lambda: any(s["status"] == 2 for s in truth.statuses))
        await asyncio.to_thread(bridge.communicate, "now\n", 60)
    assert bridge.returncode == 1, (tmp_path / "log").read_text()
    # Kilted sends nothing any more once the context is shut down, so the robot drives on; Jazzy still does.
    second = start_bridge("--ledger", str(tmp_path / "ledger.db"))
    await asyncio.to_thread(truth.wait_for, lambda: truth.statuses[-1]["status"] == 5)
    async with Client(second.url) as client:
        told = await talker(client).task(task_id)
    assert told["state"] == "failed"
    assert told["failure"]["error_code"] == "ROS_EXECUTOR_DEAD"
    assert await asyncio.to_thread(second.end) == 0
