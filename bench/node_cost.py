"""What the node costs when nothing happens, and how long it takes from its start to its readiness.

Start: from just before the process is made until its line ``bridge ready`` was read, with the action servers
already running; ``CLOCK_MONOTONIC``. In the same rounds, for comparison, each in a fresh process: Python that
does nothing, Python that imports the node's modules, and Python that imports rclpy and makes a bare node. The
imports that take longest are listed from one run with ``-X importtime``.

Idle: processor time of the bridge's process (``/proc``) over some seconds in which nobody calls it, with as
many actions configured as the fleet has, as a share of one core. In the same seconds a bare rclpy node that
spins beside it, with nothing but its own services.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time

from _parts import (
    READY_TIMEOUT_S,
    Report,
    Rig,
    cpu_s,
    fleet_skills,
    median,
    parser,
    rig,
    rss_mb,
    run,
    url_of,
)

ACTIONS = 10
TARGET_IDLE_SHARE = 1.0
TARGET_START_S = 3.0
_NODE = "import rclpy; rclpy.init(); rclpy.create_node('bench_bare')"
SNIPPETS = {
    "python, nothing": "pass",
    "python, the node's imports": "import robot_mcp_kit.node.main",
    "python, rclpy and a bare node": _NODE,
}
_IMPORT_TIME = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|( *)(\S+)")


def part_bare() -> None:
    """A node that only spins."""
    import rclpy

    rclpy.init()
    node = rclpy.create_node("bench_bare")
    print("ready", flush=True)
    rclpy.spin(node)


async def took_s(around: Rig, code: str) -> float:
    """A fresh Python runs ``code``."""
    began_s = time.monotonic()
    async with around.started("snippet", ["-c", code]) as child:
        await asyncio.wait_for(child.process.wait(), READY_TIMEOUT_S)
        assert child.process.returncode == 0, child.tail()
        return time.monotonic() - began_s


async def slowest_imports(around: Rig, count: int) -> list[str]:
    """Packages whose import costs most by themselves, with all of their own modules."""
    words = ["-X", "importtime", "-c", "import robot_mcp_kit.node.main"]
    async with around.started("imports", words) as child:
        await asyncio.wait_for(child.process.wait(), READY_TIMEOUT_S)
        text = child.log.read_text()
    own_us: dict[str, int] = {}
    for match in _IMPORT_TIME.finditer(text):
        package = match[4].split(".")[0]
        own_us[package] = own_us.get(package, 0) + int(match[1])
    ordered = sorted(own_us.items(), key=lambda item: -item[1])[:count]
    return [f"{name} {us / 1000:.0f} ms" for name, us in ordered]


async def measure(args: argparse.Namespace) -> Report:
    starts: list[float] = []
    compared: dict[str, list[float]] = {name: [] for name in SNIPPETS}
    async with rig() as around, around.fleet("--actions", str(ACTIONS)):
        skills = fleet_skills(around.folder, ACTIONS)
        for _ in range(args.rounds):
            began_s = time.monotonic()
            async with around.bridge(skills) as bridge:
                await url_of(bridge)
                starts.append(time.monotonic() - began_s)
            for name, code in SNIPPETS.items():
                compared[name].append(await took_s(around, code))
        imports = await slowest_imports(around, 8)
        async with (
            around.bridge(skills) as bridge,
            around.started("bare", [__file__, "--part", "bare"]) as bare,
        ):
            await url_of(bridge)
            await bare.wait_for_line("ready", READY_TIMEOUT_S)
            await asyncio.sleep(args.settle)
            pids = (bridge.process.pid, bare.process.pid)
            used, began_s = [cpu_s(pid) for pid in pids], time.monotonic()
            await asyncio.sleep(args.seconds)
            lasted_s = time.monotonic() - began_s
            idle, idle_bare = (100 * (cpu_s(pid) - u) / lasted_s for pid, u in zip(pids, used, strict=True))
            memory_mb = rss_mb(bridge.process.pid)
    rows = {"start to ready, s": {"p50": round(median(starts), 2), "max": round(max(starts), 2)}}
    for name, values in compared.items():
        rows[f"{name}, s"] = {"p50": round(median(values), 2), "max": round(max(values), 2)}
    rows["idle, % of a core"] = {"p50": round(idle, 2)}
    rows["idle bare node, % of a core"] = {"p50": round(idle_bare, 2)}
    rows["memory when idle, MB"] = {"p50": round(memory_mb, 1)}
    ratio = median(starts) / median(compared["python, rclpy and a bare node"])
    return Report(
        title=f"a node with {ACTIONS} actions, {args.rounds} starts, idle for {args.seconds:g} s",
        columns=("p50", "max"),
        rows=rows,
        targets={
            "start to ready, median, s": (round(median(starts), 2), TARGET_START_S),
            "idle, % of a core": (round(idle, 2), TARGET_IDLE_SHARE),
        },
        notes=[
            f"start against rclpy and a bare node, p50: {ratio:.2f}",
            f"slowest imports by themselves: {', '.join(imports)}",
        ],
    )


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5, help="starts (default: 5)")
    options.add_argument("--seconds", type=float, default=20.0, help="length of the idle time (default: 20)")
    options.add_argument("--settle", type=float, default=3.0, help="seconds before it (default: 3)")
    options.add_argument("--part", choices=("bare",), help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.part:
        part_bare()
        return 0
    return run(args, lambda: measure(args))


if __name__ == "__main__":
    sys.exit(main())
