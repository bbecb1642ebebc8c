"""What it costs to write a goal down, for each kind of ledger, and what a start costs with it.

Three ledgers take the same writes that one goal causes (start, sending, accepted, three progress events, end)
in interleaved rounds on the same disk: in memory, a file with ``ledger_sync: normal`` (survives a killed
process), and one with ``full`` (survives a power cut). The ratio to the memory is what durability costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from robot_mcp_kit.bridge.ledger import Change, Ledger, LedgerRow, MemoryLedger
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.journal import TaskJournal
from robot_mcp_kit.outbox import MemoryOutbox
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.sqlite_file import SqliteFile
from robot_mcp_kit.tasks import TaskContext, TaskManager

ROUNDS = 5
PLAN = {"summary": "drive to kitchen (10.00, 6.50) in map", "est_duration_s": 12.0, "context": {}}
PROGRESS = {"phase": "executing", "eta_s": 12.5, "distance_m": 7.1, "percent": 40.0, "recoveries": 0}


class Setting:
    """One kind of ledger with its task manager."""

    def __init__(self, name: str, file: SqliteFile | None) -> None:
        self.name, self.file = name, file
        self.ledger: Ledger = MemoryLedger() if file is None else SqliteLedger(file)
        journal = self.ledger if isinstance(self.ledger, TaskJournal) else None
        outbox = MemoryOutbox() if file is None else SqliteOutbox(file)
        # Events are delivered at once, and deleted, without a network.
        taken = httpx.MockTransport(lambda _: httpx.Response(202))
        self.poster = EventPoster("bench", "http://127.0.0.1:9/", "secret", outbox=outbox, transport=taken)
        self.manager = TaskManager("bench", self.poster, journal=journal)
        self.before_send_ms: list[float] = []
        self.whole_goal_ms: list[float] = []

    async def goal(self, number: int) -> None:
        """What one goal writes; nothing else."""
        ended = asyncio.get_running_loop().create_future()
        spent_s = 0.0

        async def body(ctx: TaskContext) -> dict[str, object]:
            nonlocal spent_s
            began_s = time.perf_counter()
            self.ledger.note(ctx.task_id, Change(state=RunState.EXECUTING))
            for _ in range(3):
                await ctx.progress(PROGRESS)
            self.ledger.note(ctx.task_id, Change(state=RunState.ENDED, ending=Ending.SUCCEEDED))
            spent_s += time.perf_counter() - began_s
            ended.set_result(None)
            return {"done": True}

        began_s = time.perf_counter()
        info = self.manager.start("navigate_to", body)
        row = LedgerRow(
            info.task_id,
            "navigate_to",
            "/navigate_to_pose",
            "0" * 64,
            f"key {number}",
            action_type="nav2_msgs/action/NavigateToPose",
            arguments={"place": "kitchen"},
            plan=PLAN,
        )
        self.ledger.record(row)
        self.ledger.update(info.task_id, Change(state=RunState.SENDING, goal_id="0" * 36))
        spent_s += time.perf_counter() - began_s
        self.before_send_ms.append(spent_s * 1000)
        await ended
        finished_s = time.perf_counter()
        await self.manager.wait(info.task_id)
        self.whole_goal_ms.append((spent_s + time.perf_counter() - finished_s) * 1000)

    async def close(self) -> None:
        await self.manager.aclose()
        await self.poster.aclose()
        if self.file is not None:
            self.file.close()


async def measure(folder: Path, goals: int) -> list[Setting]:
    settings = [
        Setting("memory", None),
        Setting("file, normal", SqliteFile(folder / "normal.db", sync="normal")),
        Setting("file, full", SqliteFile(folder / "full.db", sync="full")),
    ]
    for _ in range(ROUNDS):
        for setting in settings:
            for _ in range(goals):
                await setting.goal(len(setting.whole_goal_ms))
    for setting in settings:
        await setting.close()
    return settings


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of the values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--goals", type=int, default=100, help="goals a round, per ledger")
    parser.add_argument("--folder", help="where the files are put (default: the temporary directory)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        settings = asyncio.run(measure(Path(name), options.goals))
    base = {
        "before": statistics.median(settings[0].before_send_ms),
        "whole": statistics.median(settings[0].whole_goal_ms),
    }
    rows = []
    for setting in settings:
        before, whole = setting.before_send_ms, setting.whole_goal_ms
        rows.append(
            {
                "ledger": setting.name,
                "before_send_p50_ms": round(statistics.median(before), 3),
                "before_send_p99_ms": round(percentile(before, 0.99), 3),
                "before_send_ratio": round(statistics.median(before) / base["before"], 1),
                "whole_goal_p50_ms": round(statistics.median(whole), 3),
                "whole_goal_p99_ms": round(percentile(whole, 0.99), 3),
                "whole_goal_ratio": round(statistics.median(whole) / base["whole"], 1),
            }
        )
    if options.json:
        print(json.dumps(rows))
        return 0
    print(f"{ROUNDS} rounds of {options.goals} goals; milliseconds of the event loop per goal")
    print(f"{'ledger':<14}{'before it leaves p50':>22}{'p99':>9}{'ratio':>7}", end="")
    print(f"{'whole goal p50':>17}{'p99':>9}{'ratio':>7}")
    for row in rows:
        print(
            f"{row['ledger']:<14}{row['before_send_p50_ms']:>22}{row['before_send_p99_ms']:>9}"
            f"{row['before_send_ratio']:>7}{row['whole_goal_p50_ms']:>17}{row['whole_goal_p99_ms']:>9}"
            f"{row['whole_goal_ratio']:>7}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
