"""Many goals through one bridge: none lost, none stuck, and nothing grows (B30).

``python test/soak/many_goals.py --row 1000 --at-once 50``: first 50 goals at once, then 1,000 in a row, over
real action servers and a ledger on disk. The last line of the output is the summary as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from motions import order
from rig import Bridge, Rig, ended, only_loopback, session

from robot_mcp_kit.client.session import RobotSession
from robot_mcp_kit.sim.domain import reserved_domain

WARM_UP = 20
"""Goals before threads and descriptors are counted: connections open with use."""


def counts(bridge: Bridge) -> tuple[int, int, float]:
    """Threads, file descriptors and resident memory in MB of the bridge."""
    process = Path(f"/proc/{bridge.process.pid}")
    pages = int((process / "statm").read_text().split()[1])
    threads, descriptors = (sum(1 for _ in (process / name).iterdir()) for name in ("task", "fd"))
    return threads, descriptors, pages * 4096 / 1e6


async def one(robot: RobotSession, number: int, skill: str, duration_s: float) -> tuple[str, float]:
    """One goal to its end: its state, and how long the answer to the call took."""
    called_s = time.perf_counter()
    info = await robot.call(skill, order=order(number, duration_s=duration_s))
    answered_s = time.perf_counter() - called_s
    info = await ended(robot, info["task_id"])
    return str(info.get("state", "lost")), answered_s


async def work(rig: Rig, row: int, at_once: int) -> dict[str, Any]:
    await asyncio.to_thread(rig.start_server)
    bridge = await asyncio.to_thread(rig.start_bridge)
    ends: Counter[str] = Counter()
    answers: list[float] = []
    async with session(bridge) as robot:
        for number in range(WARM_UP):
            await one(robot, number, f"motion{number % rig.motions}", 0.0)
        started = await asyncio.gather(
            *(one(robot, 100 + n, f"motion{n % rig.motions}", 0.2) for n in range(at_once))
        )
        ends.update(state for state, _ in started)
        before = counts(bridge)
        began_s = time.perf_counter()
        for number in range(row):
            state, answered_s = await one(robot, 1000 + number, f"motion{number % rig.motions}", 0.0)
            ends[state] += 1
            answers.append(answered_s)
            if number % 100 == 99:
                print(f"{number + 1} in a row: {dict(ends)}, {counts(bridge)}", flush=True)
        took_s = time.perf_counter() - began_s
        after = counts(bridge)
    moved = Counter(line["motion"] for line in rig.happened() if line["what"] == "begin")
    code = await asyncio.to_thread(bridge.end)
    return {
        "ended": dict(ends),
        "motions": len(moved),
        "doubled": sum(times > 1 for times in moved.values()),
        "threads_grown": after[0] - before[0],
        "descriptors_grown": after[1] - before[1],
        "memory_grown_mb": round(after[2] - before[2], 1),
        "goals_per_s": round(row / took_s, 1) if row else None,
        "call_to_answer_p50_ms": round(sorted(answers)[len(answers) // 2] * 1000, 1) if answers else None,
        "exit_code": code,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=50)
    options = parser.parse_args()
    with only_loopback(), reserved_domain() as domain, tempfile.TemporaryDirectory() as name:
        # Goals for one server wait for each other; none is replaced and none refused.
        rig = Rig(Path(name), domain, policy="queue")
        try:
            summary = asyncio.run(work(rig, options.row, options.at_once))
        finally:
            rig.close()
    print(json.dumps(summary))
    wanted = {"succeeded": options.row + options.at_once}
    fine = summary["ended"] == wanted and not summary["doubled"] and summary["exit_code"] == 0
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
