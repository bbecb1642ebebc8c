"""``stop`` while twenty goals run with 100 Hz of feedback each: how long until the last server was told?

Measured from just before the client calls the tool until the last of the twenty cancel requests reached its
action server's callback, on ``CLOCK_MONOTONIC``; so HTTP, the MCP server, the bridge, the middleware and the
server's own queue are in it. For comparison, in the same rounds: a bare rclpy client in a process of its own
cancels twenty goals at the same servers, without feedback read by anybody. Its share is what no bridge
could save.

Meanwhile another client asks ``get_task`` all the time, also during the stop; that is the second figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

from _parts import (
    Child,
    Lines,
    Report,
    RobotSession,
    fleet_skills,
    listening,
    median,
    parser,
    percentile,
    rig,
    run,
    session,
    spread,
    start_all,
    url_of,
)

RATE_HZ = 100.0
TARGET_MS = 50.0
ASK_PERIOD_S = 0.02


async def ask(robot: RobotSession, ids: list[str], into: list[float]) -> None:
    """``get_task`` of one running task after the other, until cancelled."""
    number = 0
    while True:
        began_s = time.monotonic()
        await robot.call("get_task", task_id=ids[number % len(ids)])
        into.append(1000 * (time.monotonic() - began_s))
        number += 1
        await asyncio.sleep(ASK_PERIOD_S)


async def stop_once(
    robot: RobotSession, other: RobotSession, fleet: Lines, args: argparse.Namespace
) -> dict[str, Any]:
    """Start all, wait, stop. Milliseconds from the call to the first and the last cancel request."""
    ids = await start_all(robot, args.goals)
    asked: list[float] = []
    asking = asyncio.create_task(ask(other, ids, asked))
    await asyncio.sleep(args.seconds)
    before, began_s = len(fleet.records), time.monotonic()
    report = await robot.call("stop")
    answered_ms = 1000 * (time.monotonic() - began_s)
    asking.cancel()
    await fleet.wait_for_count(before + 2 * args.goals)
    cancels = [r["monotonic_s"] for r in fleet.records[before:] if r["event"] == "cancel"]
    return {
        "first": 1000 * (min(cancels) - began_s),
        "last": 1000 * (max(cancels) - began_s),
        "answered": answered_ms,
        "confirmed": report["all_confirmed"],
        "asked": asked,
    }


async def bare_once(bare: Child, told: Lines, fleet: Lines, goals: int) -> float:
    """The bare client starts as many goals and cancels them; milliseconds until the last server was told."""
    before, said = len(fleet.records), len(told.records)
    assert bare.process.stdin is not None
    bare.process.stdin.write(b"go\n")
    await told.wait_for_count(said + 1)
    await fleet.wait_for_count(before + 3 * goals)
    cancels = [r["monotonic_s"] for r in fleet.records[before:] if r["event"] == "cancel"]
    return 1000 * (max(cancels) - float(told.records[-1]["monotonic_s"]))


def part_bare(goals: int, seconds: float) -> None:
    """For each line on standard input: start the goals, wait, cancel them all; say when that began."""
    import sys
    import uuid

    import rclpy
    from action_msgs.srv import CancelGoal
    from nav2_msgs.action import NavigateToPose
    from unique_identifier_msgs.msg import UUID

    rclpy.init()
    node = rclpy.create_node("bench_bare")
    names = [f"/bench_{number:02}/_action" for number in range(1, goals + 1)]
    impl = NavigateToPose.Impl
    sends = [node.create_client(impl.SendGoalService, f"{name}/send_goal") for name in names]
    cancels = [node.create_client(CancelGoal, f"{name}/cancel_goal") for name in names]
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)

    def all_of(futures: list[Any]) -> None:
        for future in futures:
            executor.spin_until_future_complete(future, timeout_sec=20)

    for client in (*sends, *cancels):
        if not client.wait_for_service(timeout_sec=20):
            raise SystemExit("an action server was not found")
    print("ready", flush=True)
    for _ in sys.stdin:
        ids = [UUID(uuid=list(uuid.uuid4().bytes)) for _ in names]
        all_of(
            [
                client.call_async(impl.SendGoalService.Request(goal_id=goal_id))
                for client, goal_id in zip(sends, ids, strict=True)
            ]
        )
        time.sleep(seconds)
        requests = [CancelGoal.Request() for _ in ids]
        for request, goal_id in zip(requests, ids, strict=True):
            request.goal_info.goal_id = goal_id
        began_s = time.monotonic()
        all_of([client.call_async(request) for client, request in zip(cancels, requests, strict=True)])
        print(json.dumps({"event": "cancelled", "monotonic_s": began_s}), flush=True)


async def measure(args: argparse.Namespace) -> Report:
    """All rounds against one bridge."""
    stops: list[dict[str, Any]] = []
    bare_ms: list[float] = []
    async with rig() as around:
        skills = fleet_skills(around.folder, args.goals)
        options = ["--actions", str(args.goals), "--hz", str(RATE_HZ)]
        ledger = [] if args.ledger == "none" else ["--ledger", str(around.folder / "ledger.db")]
        if args.ledger != "none":
            ledger += ["--ros-args", "-p", f"ledger_sync:={args.ledger}", "--"]
        part = [__file__, "--part", "bare", "--goals", str(args.goals), "--seconds", str(args.seconds)]
        async with (
            around.fleet(*options) as fleet,
            around.bridge(skills, "--log-level", "warning", *ledger) as bridge,
            around.started("bare client", part, stdin=True) as bare,
        ):
            url = await url_of(bridge)
            await bare.wait_for_line("ready", 60)
            async with session(url) as robot, session(url) as other, listening(bare) as told:
                for number in range(args.rounds + 1):
                    one = await stop_once(robot, other, fleet, args)
                    bare_one = await bare_once(bare, told, fleet, args.goals)
                    if number > 0:  # the first round warms everything up
                        stops.append(one)
                        bare_ms.append(bare_one)
    last = [one["last"] for one in stops]
    asked = [ms for one in stops for ms in one["asked"]]
    rows = {
        "stop: call -> first cancel request": spread([one["first"] for one in stops]),
        "stop: call -> last cancel request": spread(last),
        "stop: call -> answer (all ended)": spread([one["answered"] for one in stops]),
        "bare rclpy: first call -> last request": spread(bare_ms),
        "get_task meanwhile": spread(asked),
    }
    ratio = median(last) / median(bare_ms)
    unconfirmed = sum(not one["confirmed"] for one in stops)
    return Report(
        title=f"stop with {args.goals} goals x {RATE_HZ:g} Hz feedback, {args.rounds} rounds, milliseconds",
        columns=("n", "p50", "p99", "max"),
        rows=rows,
        targets={
            "stop: p99 to the last cancel request, ms": (round(percentile(last, 0.99), 1), TARGET_MS),
            "get_task: p99 meanwhile, ms": (round(percentile(asked, 0.99), 1), TARGET_MS),
            "stops that were not confirmed": (float(unconfirmed), 0.0),
        },
        notes=[f"stop against bare rclpy, p50: {ratio:.2f}"],
    )


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--goals", type=int, default=20, help="goals at once (default: 20)")
    options.add_argument(
        "--seconds", type=float, default=0.5, help="feedback before each stop (default: 0.5)"
    )
    options.add_argument("--rounds", type=int, default=30, help="stops (default: 30)")
    options.add_argument(
        "--ledger",
        choices=("none", "normal", "full"),
        default="normal",
        help="the ledger's file and how it is synchronised (default: normal)",
    )
    options.add_argument("--part", choices=("bare",), help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.part:
        part_bare(args.goals, args.seconds)
        return 0
    return run(args, lambda: measure(args))


if __name__ == "__main__":
    raise SystemExit(main())
