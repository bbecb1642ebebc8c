"""The node killed in each state of a goal, over real action servers; and who may have the ledger file.

The long forms are scripts: ``test/soak/kill_matrix.py``, ``test/soak/many_goals.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.bridge.ledger import LedgerRow
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.sqlite_file import SqliteFile

pytestmark = pytest.mark.ros
BOUND_S = 60.0
SOAK = Path(__file__).parents[1] / "soak"


def soak(script: str, *options: str, bound_s: float) -> dict[str, Any]:
    """The summary of a soak script that found nothing wrong."""
    done = subprocess.run(
        [sys.executable, str(SOAK / script), *options], capture_output=True, text=True, timeout=bound_s
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


@pytest.mark.timeout(400)
def test_a_kill_in_any_state_loses_and_doubles_nothing() -> None:
    """B2, B3, B6, B24, B25: before and after the ledger, sent, accepted, executing, cancelling, unread,
    unposted.
    """
    summary = soak("kill_matrix.py", "--states", bound_s=380)
    assert summary["motions"] == 8
    assert summary["states"] == {"cancelling": 1, "executing": 3, "not sent": 1, "sending": 1}


@pytest.mark.timeout(300)
def test_fifty_goals_at_once_and_two_hundred_in_a_row_all_end() -> None:
    """B30: none lost, none stuck; threads and file descriptors stay as they were."""
    summary = soak("many_goals.py", "--row", "200", "--at-once", "50", bound_s=280)
    assert summary["ended"] == {"succeeded": 250}
    assert summary["threads_grown"] <= 0
    assert summary["descriptors_grown"] <= 0


async def test_a_second_bridge_on_the_ledger_is_refused_by_name(
    start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    """One writer: the refusal names the process that has the file."""
    ledger = tmp_path / "ledger.db"
    first = start_bridge("--ledger", str(ledger))
    second = start_bridge("--ledger", str(ledger), ready=False)
    assert await asyncio.to_thread(second.process.wait, BOUND_S) == 2
    said = second.log.read_text()
    assert "parameter ledger_file" in said
    assert f"process {first.process.pid}, /bridge" in said
    assert "Traceback" not in said
    assert await asyncio.to_thread(first.end) == 0
    third = start_bridge("--ledger", str(ledger))
    assert await asyncio.to_thread(third.end) == 0


async def test_a_damaged_ledger_stops_the_start(start_bridge: Callable[..., Any], tmp_path: Path) -> None:
    """B28: nothing moves while it is not known what was moving."""
    ledger = tmp_path / "ledger.db"
    ledger.write_bytes(b"no database at all" * 500)
    bridge = start_bridge("--ledger", str(ledger), ready=False)
    assert await asyncio.to_thread(bridge.process.wait, BOUND_S) == 2
    said = bridge.log.read_text()
    assert "ledger.db is damaged" in said
    assert "stands still" in said


async def test_a_ledger_that_holds_what_nobody_can_read_stops_the_start(
    start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    """B28: told as any other configuration that cannot be used, not as a crash."""
    path = tmp_path / "ledger.db"
    file = SqliteFile(path)
    ledger = SqliteLedger(file)
    ledger.record(LedgerRow("robo-1", "navigate_to", "/navigate_to_pose", "hash", None))
    with file.transaction() as connection:
        connection.execute("UPDATE goal SET state = 'flying'")
    file.close()
    bridge = start_bridge("--ledger", str(path), ready=False)
    assert await asyncio.to_thread(bridge.process.wait, BOUND_S) == 2
    said = bridge.log.read_text()
    assert "parameter ledger_file" in said
    assert "flying" in said
    assert "stands still" in said
    assert "Traceback" not in said


async def test_a_signal_ends_the_node_while_somebody_else_writes_to_its_ledger(
    slow_robot: Any, truth: Any, start_bridge: Callable[..., Any], tmp_path: Path
) -> None:
    """B29 B28: exit code 0 and the robot stopped; nobody waits for the file."""
    path = tmp_path / "ledger.db"
    bridge = start_bridge("--ledger", str(path))
    async with Client(bridge.url) as client:
        known = {s["goal_id"] for s in truth.statuses}
        await client.call_tool("navigate_to", {"place": "kitchen"})
        await asyncio.to_thread(
            truth.wait_for, lambda: {s["goal_id"] for s in truth.statuses if s["status"] == 2} - known
        )
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        code = await asyncio.to_thread(bridge.end)
        somebody.execute("ROLLBACK")
    log = bridge.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log
    assert "could not be written to the end" in log
    await asyncio.to_thread(truth.wait_for, lambda: truth.statuses[-1]["status"] == 5)
    second = start_bridge("--ledger", str(path))
    assert await asyncio.to_thread(second.end) == 0
