"""From a tool call to a goal that the action server has accepted: how long, and how much of it is ours.

One run measures four things against the same simulated robot, in interleaved rounds, so that a busy machine
disturbs all of them alike:

a. MCP call ``navigate_to`` -> TaskInfo, as the client sees it (target: p50 below 20 ms);
b. the same call -> the goal arrived at the action server and was accepted (target: p50 below 50 ms);
c. a bare rclpy client in a process of its own: ``send_goal`` request -> accepted at the server, and -> reply;
d. a trivial tool of a bare MCP server behind the same HTTP stack, in a process of its own.

Acceptance is taken from the server, not from a client: the simulated robot publishes each goal request on
``/robot_sim/goals`` together with the time at which its goal callback ran. That is ``CLOCK_REALTIME`` of
this machine, the same clock that the callers read just before they call, so no transport of the record
itself is in the number. The clock may be slewed by NTP (at most 0.5 ms a second); a step during the run
would be seen as an absurd maximum.

The robot is told to stop after each call and the next call waits until its task has ended, so every goal
starts at an idle server. Parts run as children of this script (``--part``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robot_mcp_kit.cli.common import default_skills_file, require_ros
from robot_mcp_kit.cli.demo.children import Child, Guardian, child, guardian
from robot_mcp_kit.client.session import RobotSession, connect
from robot_mcp_kit.sim.domain import isolated_environment, reserved_domain
from robot_mcp_kit.sim.process import SimProcess

TARGET_TASK_INFO_MS = 20.0
TARGET_ACCEPTED_MS = 50.0
ROUNDS = 5
WARM_UP = 5
SEEN_TIMEOUT_S = 10.0
PLACES = ("kitchen", "office")


class Goals:
    """Goal requests as the server recorded them."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._news = asyncio.Event()

    async def read(self, part: Child) -> None:
        async for line in part.lines():
            self.records.append(json.loads(line))
            self._news.set()

    async def first_after(self, wall_time_s: float) -> dict[str, Any]:
        """The first goal request at or after that time."""
        async with asyncio.timeout(SEEN_TIMEOUT_S):
            while True:
                for record in self.records:
                    if record["wall_time_s"] >= wall_time_s:
                        return record
                self._news.clear()
                await self._news.wait()


async def measure(calls: int) -> dict[str, list[float]]:
    """Milliseconds by name of the measurement."""
    results: dict[str, list[float]] = {
        "a call -> TaskInfo": [],
        "b call -> accepted at the server": [],
        "c bare rclpy -> accepted at the server": [],
        "c bare rclpy -> reply": [],
        "d trivial MCP tool": [],
    }
    async with contextlib.AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="robot-mcp-kit-bench-")))
        domain = stack.enter_context(reserved_domain())
        env = isolated_environment(domain)
        guard = await stack.enter_async_context(guardian())
        sim = stack.enter_context(SimProcess(domain_id=domain))
        guard.watch(sim.pid)
        run = ["-m", "robot_mcp_kit", "run", "--skills", str(default_skills_file()), "--port", "0"]
        bridge = await _start(stack, "bridge", run, env, logs, guard)
        seen = await _start(stack, "goals", [__file__, "--part", "goals"], env, logs, guard)
        bare = await _start(stack, "bare client", [__file__, "--part", "bare"], env, logs, guard)
        trivial = await _start(stack, "trivial server", [__file__, "--part", "trivial"], env, logs, guard)
        robot = await _connect(stack, await bridge.wait_for_line("bridge ready ", 30))
        plain = await _connect(stack, await trivial.wait_for_line("ready ", 30))
        await seen.wait_for_line("ready", 30)
        await bare.wait_for_line("ready", 30)
        goals = Goals()
        reader = asyncio.create_task(goals.read(seen))
        stack.callback(reader.cancel)
        per_round = math.ceil(calls / ROUNDS)
        for number in range(ROUNDS + 1):
            # The first, short round warms everything up and is thrown away.
            count = WARM_UP if number == 0 else per_round
            into = {name: [] for name in results} if number == 0 else results
            await _bridge_round(robot, goals, count, into)
            await _bare_round(bare, goals, count, into)
            for _ in range(count):
                started_s = time.perf_counter()
                await plain.call("nothing")
                into["d trivial MCP tool"].append((time.perf_counter() - started_s) * 1000)
    return results


async def _bridge_round(robot: RobotSession, goals: Goals, count: int, into: dict[str, list[float]]) -> None:
    for index in range(count):
        called_s, started_s = time.time(), time.perf_counter()
        task = await robot.call("navigate_to", place=PLACES[index % len(PLACES)])
        into["a call -> TaskInfo"].append((time.perf_counter() - started_s) * 1000)
        record = await goals.first_after(called_s)
        assert record["accepted"], record
        into["b call -> accepted at the server"].append((record["wall_time_s"] - called_s) * 1000)
        await robot.call("cancel_task", task_id=task["task_id"])


async def _bare_round(bare: Child, goals: Goals, count: int, into: dict[str, list[float]]) -> None:
    assert bare.process.stdin is not None
    for _ in range(count):
        bare.process.stdin.write(b"go\n")
        sent = json.loads(await bare.wait_for_line("sent ", SEEN_TIMEOUT_S))
        record = await goals.first_after(sent["wall_time_s"])
        assert record["accepted"], record
        assert record["goal_id"].replace("-", "") == sent["goal_id"], "somebody else drives this robot"
        into["c bare rclpy -> accepted at the server"].append(
            (record["wall_time_s"] - sent["wall_time_s"]) * 1000
        )
        into["c bare rclpy -> reply"].append(sent["reply_ms"])


async def _start(
    stack: contextlib.AsyncExitStack,
    name: str,
    words: Sequence[str],
    env: dict[str, str],
    logs: Path,
    guard: Guardian,
) -> Child:
    log = logs / f"{name.replace(' ', '-')}.log"
    return await stack.enter_async_context(
        child(
            name,
            [sys.executable, *words],
            env=env,
            log=log,
            guarded_by=guard,
            stdin_pipe=name == "bare client",
        )
    )


async def _connect(stack: contextlib.AsyncExitStack, url: str) -> RobotSession:
    return await stack.enter_async_context(connect(url))


# -- parts: children of this script
# ----------------------------------------------------------------------------


def part_goals() -> None:
    """Print every goal record of the simulated robot."""
    import rclpy
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from std_msgs.msg import String

    rclpy.init()
    node = rclpy.create_node("bench_goals")
    latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_subscription(String, "/robot_sim/goals", lambda m: print(m.data, flush=True), latched)
    while node.count_publishers("/robot_sim/goals") == 0:
        rclpy.spin_once(node, timeout_sec=0.1)
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(node)


def part_bare() -> None:
    """For each line on standard input: send one goal as plainly as rclpy can, tell the times, cancel it."""
    import rclpy
    from action_msgs.srv import CancelGoal
    from nav2_msgs.action import NavigateToPose
    from unique_identifier_msgs.msg import UUID

    rclpy.init()
    node = rclpy.create_node("bench_bare")
    send = node.create_client(NavigateToPose.Impl.SendGoalService, "/navigate_to_pose/_action/send_goal")
    result = node.create_client(NavigateToPose.Impl.GetResultService, "/navigate_to_pose/_action/get_result")
    cancel = node.create_client(CancelGoal, "/navigate_to_pose/_action/cancel_goal")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    for client in (send, result, cancel):
        if not client.wait_for_service(timeout_sec=20):
            raise SystemExit("the action server was not found")
    print("ready", flush=True)
    for _ in sys.stdin:
        goal_id = uuid.uuid4()
        request = NavigateToPose.Impl.SendGoalService.Request(goal_id=UUID(uuid=list(goal_id.bytes)))
        request.goal.pose.header.frame_id = "map"
        request.goal.pose.pose.position.x, request.goal.pose.pose.position.y = 10.0, 6.5
        request.goal.pose.pose.orientation.w = 1.0
        wall_time_s, started_s = time.time(), time.perf_counter()
        future = send.call_async(request)
        executor.spin_until_future_complete(future, timeout_sec=10)
        sent = {
            "goal_id": goal_id.hex,
            "wall_time_s": wall_time_s,
            "reply_ms": (time.perf_counter() - started_s) * 1000,
        }
        cancelling = CancelGoal.Request()
        cancelling.goal_info.goal_id = request.goal_id
        executor.spin_until_future_complete(cancel.call_async(cancelling), timeout_sec=10)
        ended = result.call_async(NavigateToPose.Impl.GetResultService.Request(goal_id=request.goal_id))
        executor.spin_until_future_complete(ended, timeout_sec=10)
        print("sent " + json.dumps(sent), flush=True)


def part_trivial() -> None:
    """An MCP server with one tool that does nothing, behind the HTTP stack that the bridge uses."""
    from mcp.server import MCPServer

    from robot_mcp_kit.server.app import MCP_PATH, build_app
    from robot_mcp_kit.server.serve import bind, serving

    server = MCPServer("trivial", log_level="ERROR")

    @server.tool()
    async def nothing() -> dict[str, Any]:
        """Do nothing, to measure the transport alone."""
        return {"ok": True}

    async def serve() -> None:
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        async with serving(build_app(server, host="127.0.0.1", port=port), listener):
            print(f"ready http://127.0.0.1:{port}{MCP_PATH}", flush=True)
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


PARTS = {"goals": part_goals, "bare": part_bare, "trivial": part_trivial}


# -- what is printed
# -------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(results: dict[str, list[float]]) -> dict[str, Any]:
    """p50, p99 and maximum in ms, ratios between p50s, and whether the targets hold."""
    table = {
        name: {
            "n": len(values),
            "p50_ms": round(percentile(values, 0.50), 3),
            "p99_ms": round(percentile(values, 0.99), 3),
            "max_ms": round(max(values), 3),
        }
        for name, values in results.items()
    }
    p50 = {
        name[0] + (" reply" if name.endswith("reply") else ""): row["p50_ms"] for name, row in table.items()
    }
    return {
        "table": table,
        "ratios": {
            "a / d: our tool against a trivial one": round(p50["a"] / p50["d"], 2),
            "b / c: our way to the server against bare rclpy": round(p50["b"] / p50["c"], 2),
            "b / (c + d): against bare rclpy behind a trivial tool": round(
                p50["b"] / (p50["c"] + p50["d"]), 2
            ),
        },
        "targets": {
            f"a p50 < {TARGET_TASK_INFO_MS:g} ms": p50["a"] < TARGET_TASK_INFO_MS,
            f"b p50 < {TARGET_ACCEPTED_MS:g} ms": p50["b"] < TARGET_ACCEPTED_MS,
        },
    }


def show(summary: dict[str, Any]) -> None:
    print(f"{'':42}{'n':>6}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for name, row in summary["table"].items():
        print(f"{name:42}{row['n']:6d}{row['p50_ms']:10.2f}{row['p99_ms']:10.2f}{row['max_ms']:10.2f}")
    print()
    for name, ratio in summary["ratios"].items():
        print(f"{name:55}{ratio:6.2f}")
    print()
    for name, held in summary["targets"].items():
        print(f"{name:42}{'held' if held else 'MISSED'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200, help="measured calls of each kind (default: 200)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a target is missed")
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    require_ros("the benchmark")
    if args.part:
        PARTS[args.part]()
        return 0
    summary = summarise(asyncio.run(measure(args.calls)))
    if args.json:
        print(json.dumps(summary))
    else:
        show(summary)
    return 1 if args.check and not all(summary["targets"].values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
