"""What the benchmarks share: processes, clocks, the processor time of another process, tables.

Times of different processes are compared on ``CLOCK_MONOTONIC``, which is one clock for the whole machine.
Every report says how busy the machine was, because absolute numbers mean little without it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _fleet_plan import SPIKES, spike_x_m

from robot_mcp_kit.cli.common import require_ros
from robot_mcp_kit.cli.demo.children import Child, Guardian, child, guardian
from robot_mcp_kit.client.session import RobotSession, connect
from robot_mcp_kit.sim.domain import isolated_environment, reserved_domain
from robot_mcp_kit.testing.open_guard import approve_everything

HERE = Path(__file__).resolve().parent
READY_TIMEOUT_S = 60.0
TAIL_LINES = 60
"""Of each process's log, when a benchmark breaks."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


# -- processes ----------------------------------------------------------------------------------------------


@dataclass
class Rig:
    """A ROS domain of our own and the processes in it; all of them end with the block."""

    stack: contextlib.AsyncExitStack
    guard: Guardian
    folder: Path
    domain: int
    env: dict[str, str]

    async def start(self, name: str, words: Sequence[str], *, stdin: bool = False, **env: str) -> Child:
        """Start a Python child; ``words`` follow the interpreter's name."""
        return await self.stack.enter_async_context(self.started(name, words, stdin=stdin, **env))

    def started(
        self, name: str, words: Sequence[str], *, stdin: bool = False, **env: str
    ) -> contextlib.AbstractAsyncContextManager[Child]:
        """As :meth:`start`, for a block of its own."""
        return child(
            name,
            [sys.executable, *words],
            env={**self.env, **env},
            log=self.folder / f"{name.replace(' ', '-')}.log",
            guarded_by=self.guard,
            stdin_pipe=stdin,
        )

    def bridge(
        self, skills: Path, *options: str, **env: str
    ) -> contextlib.AbstractAsyncContextManager[Child]:
        """``robot-mcp-kit run`` on a free port; wait for its line ``bridge ready URL``."""
        words = ["-m", "robot_mcp_kit", "run", "--skills", str(skills), "--port", "0", *options]
        state_dir = Path(tempfile.mkdtemp(prefix="state-", dir=self.folder))
        approve_everything(state_dir, skills)
        return self.started("bridge", words, ROBOT_MCP_STATE_DIR=str(state_dir), **env)

    @contextlib.asynccontextmanager
    async def fleet(self, *options: str) -> AsyncIterator[Lines]:
        """The scripted action servers of :mod:`_fleet`, and what they say."""
        async with self.started("fleet", [str(HERE / "_fleet.py"), *options], stdin=True) as running:
            await running.wait_for_line("ready", READY_TIMEOUT_S)
            async with listening(running) as lines:
                yield lines


@contextlib.asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """Everything a benchmark needs around it."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="robot-mcp-kit-bench-")))
        domain = stack.enter_context(reserved_domain())
        guard = await stack.enter_async_context(guardian())
        try:
            yield Rig(stack, guard, folder, domain, isolated_environment(domain))
        except Exception:
            show_logs(folder)
            raise


def show_logs(folder: Path) -> None:
    """The end of each process's log, before the folder goes."""
    for log in sorted(folder.glob("*.log")):
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
        print(f"-- the end of {log.name}", *last, sep="\n", file=sys.stderr)


async def url_of(bridge: Child) -> str:
    return await bridge.wait_for_line("bridge ready ", READY_TIMEOUT_S)


@contextlib.asynccontextmanager
async def session(url: str) -> AsyncIterator[RobotSession]:
    async with connect(url) as robot:
        yield robot


def fleet_skills(folder: Path, count: int) -> Path:
    """A skills file with ``bench_01`` ... over the fleet's actions, each able to run beside the others."""
    lines = ["robot: {name: bench}", "skills:"]
    for number in range(1, count + 1):
        lines += [
            f"  bench_{number:02}:",
            f"    action: bench_{number:02}",
            "    type: nav2_msgs/action/NavigateToPose",
            "    generic: true",
            "    policy: refuse",
            "    others: hidden",
            "    fields: {pose.header.frame_id: map, pose.pose.position.x: 1.0, pose.pose.position.y: 1.0}",
            "    progress:",
            "      distance_m: distance_remaining",
            "      eta_s: estimated_time_remaining",
            "      pose: current_pose",
        ]
    lines += ["zones:"]
    for number in range(1, SPIKES + 1):
        x_m = spike_x_m(number)
        corners = [[x_m - 1, -1], [x_m + 1, -1], [x_m + 1, 1], [x_m - 1, 1]]
        lines += [f"  spike_{number:02}: {{polygon_m: {corners}}}"]
    path = folder / "bench_skills.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


async def start_all(robot: RobotSession, goals: int, **arguments: Any) -> list[str]:
    """Start a goal at each of the fleet's actions; returns when feedback of every one was read."""
    ids = []
    for number in range(1, goals + 1):
        ids.append(str((await robot.call(f"bench_{number:02}", **arguments))["task_id"]))
    info: dict[str, Any] = {}
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            for task_id in ids:
                while "distance_m" not in (info.get("progress") or {}) or info["task_id"] != task_id:
                    info = await robot.call("get_task", task_id=task_id)
                    await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise SystemExit(f"no feedback for {READY_TIMEOUT_S:g} s: {json.dumps(info)}") from error
    return ids


class Lines:
    """JSON lines that a child prints, kept, and waited for."""

    def __init__(self, part: Child) -> None:
        self.records: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(part))

    async def _read(self, part: Child) -> None:
        async for line in part.lines():
            if not line.startswith("{"):
                print(f"{part.name}: {line}", file=sys.stderr)
                continue
            self.records.append(json.loads(line))
            self._news.set()

    def count(self, events: Collection[str] | None = None) -> int:
        """How many lines came, of these events or of all."""
        return sum(events is None or record["event"] in events for record in self.records)

    async def wait_for_count(
        self, count: int, timeout_s: float = 30.0, *, events: Collection[str] | None = None
    ) -> None:
        """Wait until so many lines came in all.

        Raises:
            TimeoutError: says what came.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self.count(events) < count:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            kinds = Counter(record["event"] for record in self.records)
            raise TimeoutError(f"{count} events were expected, {dict(kinds)} came") from None

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


@contextlib.asynccontextmanager
async def listening(part: Child) -> AsyncIterator[Lines]:
    """Read a child's JSON lines for as long as the block runs."""
    lines = Lines(part)
    try:
        yield lines
    finally:
        await lines.aclose()


# -- what a process uses ------------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """Processor seconds (user and system) that a process has used so far, all threads."""
    return _ticks(Path(f"/proc/{pid}/stat")) / _TICKS


def cpu_by_thread_s(pid: int) -> dict[str, float]:
    """The same by thread: ``main``, ``rclpy`` (Python's other threads), and the middleware's own by name."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = (task / "comm").read_text().strip()
            if name.startswith(("python", "robot", "rclpy")):
                name = "main" if task.name == str(pid) else "rclpy"
            found[name] = found.get(name, 0.0) + _ticks(task / "stat") / _TICKS
    return found


def _ticks(stat: Path) -> int:
    # The name in brackets may hold spaces; utime and stime are the 14th and 15th field of all.
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def rss_mb(pid: int) -> float:
    """Resident memory of a process in MB (10^6 bytes)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


# -- numbers ------------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Sequence[float], digits: int = 2) -> dict[str, float]:
    """n, p50, p99 and maximum."""
    return {
        "n": len(values),
        "p50": round(percentile(values, 0.50), digits),
        "p99": round(percentile(values, 0.99), digits),
        "max": round(max(values), digits),
    }


def median(values: Iterable[float]) -> float:
    return percentile(list(values), 0.5)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares: y for each x."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread_x = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread_x if spread_x else 0.0


# -- what is printed ----------------------------------------------------------------------------------------


@dataclass
class Report:
    """One benchmark's outcome: rows of numbers, sentences, and which targets held."""

    title: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Any]]
    targets: dict[str, tuple[float, float]]
    """Words → (measured, at most)."""
    notes: list[str] = field(default_factory=list)
    load: tuple[float, float] = (0.0, 0.0)
    """The machine's load a minute back, before and after."""

    @property
    def held(self) -> bool:
        return all(measured <= most for measured, most in self.targets.values())

    def show(self) -> None:
        width = max([len(name) for name in (*self.rows, *self.targets)], default=20) + 2
        print(f"\n{self.title}")
        print(f"{'':{width}}" + "".join(f"{name:>12}" for name in self.columns))
        for name, row in self.rows.items():
            print(f"{name:{width}}" + "".join(f"{row.get(column, ''):>12}" for column in self.columns))
        for name, (measured, most) in self.targets.items():
            verdict = "held" if measured <= most else "MISSED"
            print(f"{name:{width}}{measured:>12g} <= {most:g}  {verdict}")
        for note in self.notes:
            print(note)
        print(f"load {self.load[0]:.1f} to {self.load[1]:.1f} on {os.cpu_count()} processors", flush=True)

    def data(self) -> dict[str, Any]:
        targets = {
            name: {"measured": measured, "at_most": most, "held": measured <= most}
            for name, (measured, most) in self.targets.items()
        }
        return {
            "title": self.title,
            "rows": self.rows,
            "targets": targets,
            "notes": self.notes,
            "load": self.load,
            "processors": os.cpu_count(),
        }


def parser(doc: str) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    made = argparse.ArgumentParser(
        description=doc.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    made.add_argument("--check", action="store_true", help="exit code 1 when a target is missed")
    return made


def run(args: argparse.Namespace, measure: Callable[[], Any]) -> int:
    """Measure, print, and say by the exit code whether the targets held (with ``--check``)."""
    require_ros("the benchmark")
    gc.freeze()  # a collection over all that was imported takes longer than what is measured
    before = os.getloadavg()[0]
    report: Report = asyncio.run(measure())
    report.load = (before, os.getloadavg()[0])
    if args.json:
        print(json.dumps(report.data()))
    else:
        report.show()
    return 1 if args.check and not report.held else 0


async def sleep_until(monotonic_s: float) -> None:
    await asyncio.sleep(max(0.0, monotonic_s - time.monotonic()))
