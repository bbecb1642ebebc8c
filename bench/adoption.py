"""From the start of a process to the first event of a task that it adopted (target: 2 s).

A bridge is killed while a goal runs, and started again with the same ledger. Measured from the moment the new
process is started: until the chat app gets the first event (the task is known again), until the first event
that says the goal was found at its server, and until the endpoint answers. Beside it, in the same run: an
interpreter that imports what the node imports and ends, so that a busy or slow machine can be told from a
slow bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "soak"))

from motions import order
from rig import Rig, only_loopback, session

from robot_mcp_kit.sim.domain import reserved_domain

TARGET_S = 2.0


async def measure(rig: Rig, rounds: int) -> dict[str, list[float]]:
    """Seconds, by what was measured."""
    results: dict[str, list[float]] = {name: [] for name in ("first event", "goal found", "ready", "imports")}
    await asyncio.to_thread(rig.start_server)
    bridge = await asyncio.to_thread(rig.start_bridge)
    for number in range(1, rounds + 1):
        async with session(bridge) as robot:
            info = await robot.call("motion0", order=order(number, duration_s=9.9))
            await rig.until(lambda n=number: rig.executions(n))
        task_id = str(info["task_id"])
        await rig.until(lambda t=task_id: rig.receiver.events_of(t))
        await asyncio.to_thread(bridge.kill)
        seen = len(rig.receiver.requests)
        bridge = await asyncio.to_thread(rig.start_bridge)
        results["ready"].append(bridge.ready_s)
        for name, phases in (("first event", ("resuming", "resumed")), ("goal found", ("resumed",))):
            arrived_s = await first(rig, seen, task_id, phases)
            results[name].append(arrived_s - bridge.started_s)
        began_s = time.monotonic()
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", "import robot_mcp_kit.node.main"], check=True
        )
        results["imports"].append(time.monotonic() - began_s)
        async with session(bridge) as robot:
            await robot.call("stop")
    await asyncio.to_thread(bridge.end)
    return results


async def first(rig: Rig, seen: int, task_id: str, phases: tuple[str, ...]) -> float:
    """When the first such event of the task came, in monotonic seconds."""

    def arrived() -> float | None:
        for request in rig.receiver.requests[seen:]:
            body = request.json()
            if body["task_id"] == task_id and body["payload"].get("phase") in phases:
                return request.at_s
        return None

    await rig.until(lambda: arrived() is not None)
    found = arrived()
    assert found is not None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with only_loopback(), reserved_domain() as domain, tempfile.TemporaryDirectory() as name:
        rig = Rig(Path(name), domain)
        try:
            results = asyncio.run(measure(rig, options.rounds))
        finally:
            rig.close()
    imports = statistics.median(results["imports"])
    rows = {
        name: {
            "p50_s": round(statistics.median(values), 2),
            "max_s": round(max(values), 2),
            "ratio_to_imports": round(statistics.median(values) / imports, 2),
        }
        for name, values in results.items()
    }
    if options.json:
        print(json.dumps(rows))
        return 0
    print(f"{options.rounds} kills; seconds from the start of the process")
    print(f"target for the first event on an idle machine: {TARGET_S:g} s")
    print(f"{'':<14}{'p50':>8}{'max':>8}{'/ imports':>11}")
    for label, row in rows.items():
        print(f"{label:<14}{row['p50_s']:>8}{row['max_s']:>8}{row['ratio_to_imports']:>11}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
