"""What the safety layer costs for each goal: from the request to the leave to send, and the disk apart.

Measures ``Guard.admit`` + ``ask`` + ``permit`` + ``finished`` of one navigation goal with a geofence, field
limits, two interlocks, a standing approval and a real audit trail. ``fsync`` is replaced by nothing in
the first measurement and timed alone in the second. No ROS, one process.

    python bench/safety_overhead.py [--rounds 2000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from robot_mcp_kit.cli.common import default_skills_file
from robot_mcp_kit.safety import audit
from robot_mcp_kit.safety.assemble import build_guard, plain_parts
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Reader, Reading
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config import load_config
from robot_mcp_kit.skills.config.safety import InterlockSection
from robot_mcp_kit.skills.registry import build_skills

LIMIT_MS = 2.0
REQUESTER = Requester("bench", "mcp", "bench")
LOCK = {
    "topic": "x",
    "type": "std_msgs/msg/Bool",
    "field": "data",
    "ok": False,
    "max_age_s": 5.0,
    "settle_s": 0.0,
}


class Good(Reader):
    """A topic that is always good."""

    tells = True

    async def read(self) -> Reading | None:
        return self.latest()

    def latest(self) -> Reading | None:
        return Reading(SimpleNamespace(data=False), 0.0)

    def listen(self, heard: Callable[[Reading], None]) -> None:
        heard(Reading(SimpleNamespace(data=False), 0.0))


def guard_in(folder: Path) -> tuple[Guard, Any]:
    config = load_config(default_skills_file())
    locks = {name: InterlockSection.model_validate(LOCK) for name in ("estop", "door")}
    safety = config.safety.model_copy(update={"interlocks": locks})
    config = config.model_copy(update={"safety": safety})
    skills = build_skills(config)
    here = Situation(Pose2D(2.0, 4.0, 0.0))
    parts = plain_parts(
        folder, key="a key for the benchmark", situation=lambda: here, reader_for=lambda *_: Good()
    )
    return build_guard(config, skills, parts), skills["navigate_to"]


async def one(guard: Guard, skill: Any, spec: Any) -> float:
    """Milliseconds of one goal's way through the guard."""
    began = time.perf_counter()
    clearance = guard.admit(skill, spec, "/navigate_to_pose", requester=REQUESTER, arguments={"x_m": 3.0})
    if guard.ask(clearance, "bench-1") is not None:
        raise RuntimeError("no standing approval covers the goal")
    (await guard.permit(clearance, uuid4())).spend()
    guard.finished(clearance, result="success")
    return (time.perf_counter() - began) * 1e3


async def measure(rounds: int, *, sync: bool) -> list[float]:
    """``sync=False``: the disk is left out."""
    with tempfile.TemporaryDirectory() as folder:
        guard, skill = guard_in(Path(folder))
        spec = skill.goal(parse_arguments(skill.arguments, {"x_m": 3.0, "y_m": 4.0, "yaw_rad": 0.0}))
        real = audit.os.fsync
        if not sync:
            audit.os.fsync = lambda _fd: None  # type: ignore[assignment]
        try:
            for _ in range(20):
                await one(guard, skill, spec)
            taken = []
            for _ in range(rounds):
                taken.append(await one(guard, skill, spec))
                await asyncio.sleep(0)
            await guard.aclose()
            return taken
        finally:
            audit.os.fsync = real


def fsync_ms(rounds: int) -> list[float]:
    """One record's worth of bytes, written and synced."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(rounds):
            file.write(b"x" * 900)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    return taken


def told(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99) - 1], 3),
        "rounds": len(ordered),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args()
    result = {
        "layer_without_fsync": told(asyncio.run(measure(args.rounds, sync=False))),
        "layer_with_fsync": told(asyncio.run(measure(max(20, args.rounds // 10), sync=True))),
        "fsync_alone": told(fsync_ms(max(20, args.rounds // 10))),
        "limit_ms": LIMIT_MS,
    }
    result["ok"] = result["layer_without_fsync"]["median_ms"] < LIMIT_MS  # type: ignore[index]
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:22} {value}")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
