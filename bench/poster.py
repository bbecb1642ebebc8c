"""What the event poster and the task manager cost, as ratios to the plainest program that does the same.

    python bench/poster.py            one table
    python bench/poster.py --json     the same as JSON

Everything is measured in one run on one machine, side by side and in turns, so that a busy machine slows
both. The exit code is 1 when a figure is beyond its bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from robot_mcp_kit import EventPoster, TaskContext, TaskManager, sign
from robot_mcp_kit.events import encode_event
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.testing import make_event

SECRET = "s3cret"  # noqa: S105  for a receiver on this machine

RECEIVER = """
import asyncio
REPLY = b"HTTP/1.1 202 Accepted\\r\\ncontent-length: 0\\r\\n\\r\\n"
class Sink(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\\r\\n\\r\\n")) >= 0:
            head = self.data[:end].lower()
            at = head.index(b"content-length:") + 15
            length = int(head[at:].split(b"\\r\\n", 1)[0])
            if len(self.data) < end + 4 + length:
                return
            self.data = self.data[end + 4 + length:]
            self.transport.write(REPLY)
async def main():
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@dataclass
class Figure:
    """One measured number and what it must not pass."""

    name: str
    value: float
    unit: str
    bound: float
    at_least: bool = False
    note: str = ""

    @property
    def good(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def events(count: int, tasks: int) -> list[TaskEvent]:
    made = []
    for n in range(count):
        payload: dict[str, Any] = {"eta_s": 22.4, "distance_m": 14.1, "percent": n % 100, "recoveries": 0}
        made.append(make_event(n // tasks + 1, task_id=f"navi-{n % tasks:06x}", **payload))
    return made


async def bare(url: str, count: int) -> float:
    """A loop without queue, retry or order: sign, post, next. Events a second."""
    async with httpx.AsyncClient(trust_env=False) as client:
        batch = events(count, 1)
        started = time.perf_counter()
        for event in batch:
            body = encode_event(event)
            timestamp = int(time.time())
            headers = {
                "Content-Type": "application/json",
                "X-RVC-Server": event.server,
                "X-RVC-Timestamp": str(timestamp),
                "X-RVC-Signature": "sha256=" + sign(SECRET, timestamp, body),
            }
            response = await client.post(url, content=body, headers=headers)
            response.raise_for_status()
        return count / (time.perf_counter() - started)


def posted(tasks: int, *, sqlite: bool = False) -> Callable[[str, int], Awaitable[float]]:
    """The poster with that many tasks. Events a second."""

    async def run(url: str, count: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            outbox = SqliteOutbox(Path(folder) / "outbox.db") if sqlite else None
            poster = EventPoster("navigation", url, SECRET, outbox=outbox)
            batch = events(count, tasks)
            started = time.perf_counter()
            for event in batch:
                await poster.post(event)
            await poster.drain()
            rate = count / (time.perf_counter() - started)
            assert poster.statistics().delivered == count, poster.statistics()
            await poster.aclose()
            return rate

    return run


async def rates(count: int, rounds: int) -> list[Figure]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RECEIVER, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = f"http://127.0.0.1:{int(await process.stdout.readline())}/api/agent/events"
    ways = {"bare": bare, "one": posted(1), "eight": posted(8), "sqlite": posted(8, sqlite=True)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for way in ways.values():
            await way(url, 50)  # imports, connections, caches
        for _ in range(rounds):
            for name, way in ways.items():
                found[name].append(await way(url, count))
    finally:
        process.terminate()
        await process.wait()

    def ratio(name: str) -> float:
        return statistics.median(a / b for a, b in zip(found[name], found["bare"], strict=True))

    def note(name: str) -> str:
        return f"{statistics.median(found[name]):.0f} against {statistics.median(found['bare']):.0f} events/s"

    return [
        Figure("poster, 1 task / bare httpx loop", ratio("one"), "x", 0.8, True, note("one")),
        Figure("poster, 8 tasks / bare httpx loop", ratio("eight"), "x", 1.0, True, note("eight")),
        Figure("poster, 8 tasks, SQLite / bare", ratio("sqlite"), "x", 0.8, True, note("sqlite")),
    ]


async def starting(count: int) -> Figure:
    manager = TaskManager("navigation", EventPoster("navigation", ""))

    async def body(ctx: TaskContext) -> dict[str, Any]:
        return {}

    triggers = [{"type": "eta_below", "seconds": 10}]
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        manager.start("navigate_to", body, triggers=triggers, est_duration_s=30)
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await manager.aclose()
    return Figure(
        "start of a task, median",
        statistics.median(took) * 1e6,
        "µs",
        100,
        note=f"{count} starts with a trigger",
    )


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def finished_tasks(count: int) -> Figure:
    manager = TaskManager("navigation", EventPoster("navigation", ""), max_finished_retained=count)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"eta_s": 0.0, "distance_m": 0.2, "percent": 100, "recoveries": 0})
        return {"final_pose": {"x_m": 1.0, "y_m": 2.0, "yaw_rad": 0.5, "frame": "map"}, "distance_m": 14.1}

    for _ in range(100):
        manager.start("navigate_to", body)
    await asyncio.sleep(0.05)
    gc.collect()
    before = resident_mb()
    for n in range(count):
        manager.start("navigate_to", body, triggers=[{"type": "eta_below", "seconds": n % 30}])
        if n % 100 == 0:
            await asyncio.sleep(0)
    while manager.list(["running"]):
        await asyncio.sleep(0.01)
    gc.collect()
    grown = resident_mb() - before
    assert len(manager.list()) == count
    await manager.aclose()
    return Figure(
        f"memory of {count} finished tasks", grown, "MB", 50, note="with progress, result and a trigger"
    )


async def outage(count: int, *, sqlite: bool) -> Figure:
    """Nobody listens. Memory when the queue has just filled, and after all the rest."""
    with tempfile.TemporaryDirectory() as folder:
        outbox = SqliteOutbox(Path(folder) / "outbox.db") if sqlite else None
        poster = EventPoster("navigation", "http://127.0.0.1:1/", SECRET, outbox=outbox, close_grace_s=0.1)
        full = 0.0
        for n in range(count):
            if n == count // 4:
                gc.collect()
                full = resident_mb()
            await poster.post(make_event(n + 1, task_id=f"navi-{n % 50:06x}", eta_s=22.4, percent=n % 100))
            if n % 200 == 0:
                await asyncio.sleep(0)
        gc.collect()
        grown = resident_mb() - full
        held = poster.statistics()
        assert held.queued + held.in_flight + held.dropped == count, held
        await poster.aclose()
    return Figure(
        f"memory growth, outage, {'SQLite' if sqlite else 'in memory'}",
        grown,
        "MB",
        5,
        note=f"from {count // 4} to {count} events; {held.queued} kept",
    )


async def measure(quick: bool) -> list[Figure]:
    logging.getLogger("robot_mcp_kit").setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    found = [await starting(500 if quick else 5000)]
    found.append(await finished_tasks(10_000))
    for sqlite in (False, True):
        found.append(await outage(50_000 if quick else 100_000, sqlite=sqlite))
    found += await rates(200 if quick else 1000, 3 if quick else 7)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; the figures are rough")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.quick))
    if arguments.json:
        print(json.dumps([asdict(figure) | {"good": figure.good} for figure in figures], indent=2))
    else:
        for figure in figures:
            sign_ = ">=" if figure.at_least else "<="
            mark = "ok " if figure.good else "BAD"
            bound = f"({sign_} {figure.bound:g})"
            print(f"{mark} {figure.name:36} {figure.value:8.2f} {figure.unit:2} {bound:9} {figure.note}")
    return 0 if all(figure.good for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
