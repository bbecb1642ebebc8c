"""Thousands of goals against a server that answers at once: does the node grow?

A real client calls the tool over HTTP, at most ``--at-once`` tasks at a time, and waits for each task's end
by ``get_task``. Resident memory, threads and descriptors of the bridge's process are read from ``/proc``
after every block of goals. Growth is the slope (least squares) over the blocks after the warm-up, in MB for
each 10,000 goals; what is retained on purpose (200 finished tasks, 1,000 rows of the ledger) is all there by
then. ``--goals 100000`` is the long run; the default is short enough for every day, and its slope is
correspondingly rough.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from _parts import (
    Report,
    RobotSession,
    descriptors,
    fleet_skills,
    parser,
    rig,
    rss_mb,
    run,
    session,
    slope,
    threads,
    url_of,
)

TARGET_MB = 1.0
BLOCKS = 20
WARM_UP_GOALS = 1500


async def one_goal(robot: RobotSession, action: int) -> None:
    """Start a goal and wait for its end."""
    task = await robot.call(f"bench_{action:02}")
    while task["state"] == "running":
        await asyncio.sleep(0.005)
        task = await robot.call("get_task", task_id=task["task_id"])
    assert task["state"] == "succeeded", task


async def goals(robot: RobotSession, count: int, at_once: int) -> None:
    """So many goals, each lane at an action of its own."""
    shares = [count // at_once + (lane < count % at_once) for lane in range(at_once)]

    async def lane(action: int, share: int) -> None:
        for _ in range(share):
            await one_goal(robot, action)

    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares, start=1):
            group.create_task(lane(number, share))


async def measure(args: argparse.Namespace) -> Report:
    points: list[tuple[float, float]] = []
    async with rig() as around, around.fleet("--actions", str(args.at_once), "--quick"):
        skills = fleet_skills(around.folder, args.at_once)
        options = ["--log-level", "warning"]
        if args.ledger:
            options += ["--ledger", str(around.folder / "ledger.db")]
        async with around.bridge(skills, *options) as bridge, session(await url_of(bridge)) as robot:
            pid = bridge.process.pid
            await goals(robot, WARM_UP_GOALS, args.at_once)
            first_threads, first_files = threads(pid), descriptors(pid)
            points.append((0.0, rss_mb(pid)))
            began_s, done = time.monotonic(), 0
            for block in range(1, BLOCKS + 1):
                until = args.goals * block // BLOCKS
                await goals(robot, until - done, args.at_once)
                done = until
                points.append((float(done), rss_mb(pid)))
            rate = done / (time.monotonic() - began_s)
            more_threads, more_files = threads(pid) - first_threads, descriptors(pid) - first_files
    growth = slope(points) * 10_000
    rows = {
        "memory, MB": {"first": round(points[0][1], 1), "last": round(points[-1][1], 1)},
        "threads": {"first": first_threads, "last": first_threads + more_threads},
        "descriptors": {"first": first_files, "last": first_files + more_files},
    }
    return Report(
        title=f"{args.goals} goals after {WARM_UP_GOALS} to warm up, {args.at_once} at once",
        columns=("first", "last"),
        rows=rows,
        targets={
            "growth, MB for each 10,000 goals": (round(growth, 2), TARGET_MB),
            "threads more": (float(more_threads), 0.0),
            "descriptors more": (float(more_files), 2.0),
        },
        notes=[f"{rate:.0f} goals a second"],
    )


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--goals", type=int, default=2000, help="measured goals (default: 2000)")
    options.add_argument("--at-once", type=int, default=4, help="goals at the same time (default: 4)")
    options.add_argument("--ledger", action="store_true", help="with a ledger file, instead of in memory")
    args = options.parse_args()
    return run(args, lambda: measure(args))


if __name__ == "__main__":
    sys.exit(main())
