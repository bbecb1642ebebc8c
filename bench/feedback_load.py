"""Twenty goals with 100 Hz of feedback each: what that costs the node, and whether a trigger is missed.

For each of rclpy's executors a bridge process of its own, in interleaved rounds, with the same goals at the
same servers. Measured is the processor time of the bridge's process (all threads, from ``/proc``) over some
seconds of steady feedback, as a share of one core; and by thread: ``rclpy`` takes messages off the
middleware, the main thread reads them and evaluates triggers, the others are the middleware's own.

Each goal carries ten triggers, each of which is true for one single feedback message: every one of them must
have fired, and ``lag`` says how long after the message was published its event came to be (the time of day
of two processes of one machine). A receiver takes the signed events, so delivery is in the numbers too.
``sent Hz`` is what the servers really published a goal: a busy machine may not reach the wanted rate.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from _fleet_plan import SPIKES
from _parts import (
    Report,
    Rig,
    cpu_by_thread_s,
    cpu_s,
    fleet_skills,
    median,
    parser,
    percentile,
    rig,
    run,
    session,
    start_all,
    url_of,
)

from robot_mcp_kit.testing.receiver import RecordingReceiver

RATE_HZ = 100.0
TARGET_SHARE = 50.0
EXECUTORS = ("events", "single_threaded", "multi_threaded")


async def one_round(around: Rig, executor: str, goals: int, seconds: float) -> dict[str, Any]:
    """Start servers, bridge and goals; watch; stop. Percent of a core, and triggers missed."""
    words = ["--ros-args", "-p", f"executor:={executor}"]
    skills = fleet_skills(around.folder, goals)
    options = ["--actions", str(goals), "--hz", str(RATE_HZ), "--spikes"]
    with RecordingReceiver() as receiver:
        env = {"RVC_CALLBACK_URL": receiver.url, "RVC_EVENT_SECRET": receiver.secret}
        async with (
            around.fleet(*options) as fleet,
            around.bridge(skills, *words, **env) as bridge,
            session(await url_of(bridge)) as robot,
        ):
            triggers = [{"type": "zone_entered", "zone": f"spike_{n:02}"} for n in range(1, SPIKES + 1)]
            ids = await start_all(robot, goals, triggers=triggers)
            pid = bridge.process.pid
            used_s, threads_s, began_s = cpu_s(pid), cpu_by_thread_s(pid), time.monotonic()
            await asyncio.sleep(seconds)
            took_s = time.monotonic() - began_s
            share = 100 * (cpu_s(pid) - used_s) / took_s
            by_thread = {
                name: 100 * (value - threads_s.get(name, 0.0)) / took_s
                for name, value in cpu_by_thread_s(pid).items()
            }
            # The last spike comes with the thousandth message of the goal that began last.
            last_s = time.monotonic() + 2 * SPIKES
            while _fired(receiver, ids) < goals * SPIKES and time.monotonic() < last_s:
                await asyncio.sleep(0.2)
            await robot.call("stop")
            await fleet.wait_for_count(3 * goals, events=("goal", "cancel", "ended"))
            result = {"share": share, "threads": by_thread, "hz": rate_hz(fleet.records)}
            result["lags"] = lags_ms(receiver, fleet.records, ids)
        result["missed"] = goals * SPIKES - _fired(receiver, ids)
    return result


def _fired(receiver: RecordingReceiver, ids: list[str]) -> int:
    """Different triggers that fired."""
    return len(
        {
            (event.task_id, event.payload["trigger"]["zone"])
            for event in receiver.events
            if event.type == "trigger_fired" and event.task_id in ids
        }
    )


def lags_ms(receiver: RecordingReceiver, records: list[dict[str, Any]], ids: list[str]) -> list[float]:
    """From each special message's publication to the event of its trigger."""
    sent = {(r["action"], r["number"]): r["wall_s"] for r in records if r["event"] == "spike"}
    found = []
    for event in receiver.events:
        if event.type == "trigger_fired" and event.task_id in ids:
            number = int(event.payload["trigger"]["zone"].removeprefix("spike_"))
            # An event's time is cut to whole milliseconds.
            found.append(1000 * (event.ts.timestamp() + 0.0005 - sent[event.tool, number]))
    return found


def rate_hz(records: list[dict[str, Any]]) -> float:
    """Feedback a second of one goal, as it was published."""
    sign = {"goal": -1, "ended": 1}
    lasted_s = sum(record["monotonic_s"] * sign.get(record["event"], 0) for record in records)
    return float(sum(record.get("sent", 0) for record in records) / lasted_s)


async def measure(args: argparse.Namespace) -> Report:
    """All executors in turn, several times."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in args.executors}
    async with rig() as around:
        for _ in range(args.rounds):
            for name in args.executors:
                results[name].append(await one_round(around, name, args.goals, args.seconds))
    rows = {name: _row(rounds) for name, rounds in results.items()}
    first = args.executors[0]
    count = args.goals * SPIKES * args.rounds
    return Report(
        title=f"{args.goals} goals x {RATE_HZ:g} Hz feedback, {args.rounds} rounds of {args.seconds:g} s",
        columns=(
            *("% of core", "worst", "rclpy %", "main %", "others %"),
            *("sent Hz", "missed", "lag p50 ms", "lag p99 ms"),
        ),
        rows=rows,
        targets={
            f"{first}: percent of a core, median": (rows[first]["% of core"], TARGET_SHARE),
            f"{first}: triggers missed of {count}": (float(rows[first]["missed"]), 0.0),
        },
    )


def _row(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    def share(pick: Any) -> float:
        return round(median(sum(v for k, v in r["threads"].items() if pick(k)) for r in rounds), 1)

    lags = [lag for r in rounds for lag in r["lags"]]
    return {
        "% of core": round(median(r["share"] for r in rounds), 1),
        "worst": round(max(r["share"] for r in rounds), 1),
        "rclpy %": share(lambda name: name == "rclpy"),
        "main %": share(lambda name: name == "main"),
        "others %": share(lambda name: name not in ("rclpy", "main")),
        "sent Hz": round(median(r["hz"] for r in rounds), 1),
        "lag p50 ms": round(percentile(lags, 0.5), 1),
        "lag p99 ms": round(percentile(lags, 0.99), 1),
        "missed": sum(r["missed"] for r in rounds),
    }


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--goals", type=int, default=20, help="goals at once (default: 20)")
    options.add_argument("--seconds", type=float, default=8.0, help="length of a measurement (default: 8)")
    options.add_argument("--rounds", type=int, default=2, help="measurements of each executor (default: 2)")
    options.add_argument(
        "--executors",
        nargs="+",
        choices=EXECUTORS,
        default=list(EXECUTORS),
        help="default: all of them; the first one is judged",
    )
    args = options.parse_args()
    return run(args, lambda: measure(args))


if __name__ == "__main__":
    raise SystemExit(main())
