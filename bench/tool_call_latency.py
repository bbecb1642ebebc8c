"""From a tool call to a goal that the server has accepted, and to its result: how long, and how much is ours.

One run measures, against the same action server (a real rclpy one that succeeds at once, see ``_fleet``), in
interleaved rounds, so that a busy machine disturbs all of them alike:

a. MCP call -> TaskInfo, as the client sees it;
b. the same call -> the goal callback of the action server ran;
r. the same call -> the task's end as the bridge recorded it (``updated_at``, whole milliseconds);
c. a bare rclpy client in a process of its own: ``send_goal`` -> the goal callback ran, and -> the result;
d. a trivial tool of a bare MCP server behind the same HTTP stack, in a process of its own.

f. one disk sync (``fsync``, in a thread) of a small file: before a goal leaves, its record in the audit trail
   is synced, on purpose.

The judged figures are b / (c + d) and r / (c's result + d): what the bridge adds to what a tool call and a
goal cost by themselves. Acceptance is taken from the server's callback, on ``CLOCK_MONOTONIC``, which is one
clock for all processes; only ``r`` is the time of day. The next call waits until the last task has ended.
Parts run as children of this script (``--part``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from _parts import (
    READY_TIMEOUT_S,
    Child,
    Lines,
    Report,
    RobotSession,
    fleet_skills,
    listening,
    median,
    parser,
    rig,
    run,
    session,
    spread,
    url_of,
)

ROUNDS = 5
WARM_UP = 10
TARGET_RATIO = 1.3
TARGET_TASK_INFO_MS = 20.0
A = "a call -> TaskInfo"
B = "b call -> accepted at the server"
R = "r call -> result recorded"
C = "c bare rclpy -> accepted at the server"
C_RESULT = "c bare rclpy -> result"
D = "d trivial MCP tool"
F = "f disk sync"


async def bridge_round(robot: RobotSession, fleet: Lines, count: int, into: dict[str, list[float]]) -> None:
    for _ in range(count):
        before, wall_s, began_s = fleet.count(("goal",)), time.time(), time.monotonic()
        task = await robot.call("bench_01")
        into[A].append(1000 * (time.monotonic() - began_s))
        await fleet.wait_for_count(before + 1, events=("goal",))
        into[B].append(1000 * (last_goal_s(fleet) - began_s))
        while task["state"] == "running":
            await asyncio.sleep(0.005)
            task = await robot.call("get_task", task_id=task["task_id"])
        assert task["state"] == "succeeded", task
        # Cut to whole milliseconds, so half of one is missing on average.
        ended_s = datetime.fromisoformat(task["updated_at"]).timestamp() + 0.0005
        into[R].append(1000 * (ended_s - wall_s))


async def bare_round(
    bare: Child, told: Lines, fleet: Lines, count: int, into: dict[str, list[float]]
) -> None:
    assert bare.process.stdin is not None
    for _ in range(count):
        before, said = fleet.count(("goal",)), len(told.records)
        bare.process.stdin.write(b"go\n")
        await told.wait_for_count(said + 1)
        await fleet.wait_for_count(before + 1, events=("goal",))
        sent = told.records[-1]
        into[C].append(1000 * (last_goal_s(fleet) - sent["monotonic_s"]))
        into[C_RESULT].append(sent["result_ms"])


async def trivial_round(plain: RobotSession, count: int, into: dict[str, list[float]]) -> None:
    for _ in range(count):
        began_s = time.monotonic()
        await plain.call("nothing")
        into[D].append(1000 * (time.monotonic() - began_s))


async def sync_round(folder: Path, count: int, into: dict[str, list[float]]) -> None:
    with (folder / "sync").open("ab", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 400)
            began_s = time.monotonic()
            await asyncio.to_thread(os.fsync, file.fileno())
            into[F].append(1000 * (time.monotonic() - began_s))


def last_goal_s(fleet: Lines) -> float:
    return float(next(r["monotonic_s"] for r in reversed(fleet.records) if r["event"] == "goal"))


async def measure(args: argparse.Namespace) -> Report:
    results: dict[str, list[float]] = {name: [] for name in (A, B, R, C, C_RESULT, D, F)}
    per_round = math.ceil(args.calls / ROUNDS)
    async with (
        rig() as around,
        around.fleet("--actions", "1", "--quick") as fleet,
        around.bridge(fleet_skills(around.folder, 1), "--log-level", "warning") as bridge,
        around.started("bare client", [__file__, "--part", "bare"], stdin=True) as bare,
        around.started("trivial server", [__file__, "--part", "trivial"]) as trivial,
    ):
        url, plain_url = await url_of(bridge), await trivial.wait_for_line("ready ", READY_TIMEOUT_S)
        await bare.wait_for_line("ready", READY_TIMEOUT_S)
        async with session(url) as robot, session(plain_url) as plain, listening(bare) as told:
            for number in range(ROUNDS + 1):
                # The first, short round warms everything up and is thrown away.
                count = WARM_UP if number == 0 else per_round
                into = {name: [] for name in results} if number == 0 else results
                await bridge_round(robot, fleet, count, into)
                await bare_round(bare, told, fleet, count, into)
                await trivial_round(plain, count, into)
                await sync_round(around.folder, count, into)
    p50 = {name: median(values) for name, values in results.items()}
    return Report(
        title=f"{per_round * ROUNDS} tool calls in {ROUNDS} rounds, milliseconds",
        columns=("n", "p50", "p99", "max"),
        rows={name: spread(values) for name, values in results.items()},
        targets={
            "b / (c + d): to the accepted goal, p50": (round(p50[B] / (p50[C] + p50[D]), 2), TARGET_RATIO),
            "r / (c result + d): to the result, p50": (
                round(p50[R] / (p50[C_RESULT] + p50[D]), 2),
                TARGET_RATIO,
            ),
            "a: to the TaskInfo, p50, ms": (round(p50[A], 2), TARGET_TASK_INFO_MS),
        },
        notes=[
            f"a / d, our tool against a trivial one, p50: {p50[A] / p50[D]:.2f}",
            f"b / (c + d + f), with the disk sync, p50: {p50[B] / (p50[C] + p50[D] + p50[F]):.2f}",
        ],
    )


# -- parts: children of this script -------------------------------------------------------------------------


def part_bare() -> None:
    """For each line on standard input: one goal and its result, as plainly as rclpy can; tell the times."""
    import uuid

    import rclpy
    from nav2_msgs.action import NavigateToPose
    from unique_identifier_msgs.msg import UUID

    rclpy.init()
    node = rclpy.create_node("bench_bare")
    impl = NavigateToPose.Impl
    send = node.create_client(impl.SendGoalService, "/bench_01/_action/send_goal")
    result = node.create_client(impl.GetResultService, "/bench_01/_action/get_result")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    for client in (send, result):
        if not client.wait_for_service(timeout_sec=20):
            raise SystemExit("the action server was not found")
    print("ready", flush=True)
    for _ in sys.stdin:
        goal_id = UUID(uuid=list(uuid.uuid4().bytes))
        request = impl.SendGoalService.Request(goal_id=goal_id)
        request.goal.pose.header.frame_id = "map"
        request.goal.pose.pose.orientation.w = 1.0
        began_s = time.monotonic()
        executor.spin_until_future_complete(send.call_async(request), timeout_sec=10)
        ended = result.call_async(impl.GetResultService.Request(goal_id=goal_id))
        executor.spin_until_future_complete(ended, timeout_sec=10)
        took_ms = 1000 * (time.monotonic() - began_s)
        print(json.dumps({"event": "sent", "monotonic_s": began_s, "result_ms": took_ms}), flush=True)


def part_trivial() -> None:
    """An MCP server with one tool that does nothing, behind the HTTP stack that the bridge uses."""
    from mcp.server import MCPServer

    from robot_mcp_kit.server.app import MCP_PATH
    from robot_mcp_kit.server.listening import bind
    from robot_mcp_kit.server.serve import serving

    server = MCPServer("trivial", log_level="ERROR")

    @server.tool()
    async def nothing() -> dict[str, Any]:
        """Do nothing, to measure the transport alone."""
        return {"ok": True}

    async def serve() -> None:
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        app = server.streamable_http_app(streamable_http_path=MCP_PATH, host="127.0.0.1")
        async with serving(app, listener):
            print(f"ready http://127.0.0.1:{port}{MCP_PATH}", flush=True)
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


PARTS = {"bare": part_bare, "trivial": part_trivial}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--calls", type=int, default=200, help="measured calls of each kind (default: 200)")
    options.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.part:
        PARTS[args.part]()
        return 0
    return run(args, lambda: measure(args))


if __name__ == "__main__":
    sys.exit(main())
