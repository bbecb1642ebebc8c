"""Kill the bridge at any moment and start it again: no task lost, no motion doubled, no outcome lost.

``python test/soak/kill_matrix.py --runs 200 --seed 1`` kills a real bridge process at random moments over
real action servers. ``--states`` kills it once in each state of a goal instead, ``--server`` kills the action
servers, ``--receiver`` the chat app. What counts as a motion is what the servers wrote into their journal.

Each start carries an idempotency key and is repeated after the restart, as a careful client would. The exit
code is 0 when nothing was lost, doubled or misreported; the last line of the output is the summary as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from motions import order
from rig import ACCEPTANCE_TIMEOUT_S, GONE, TERMINAL, Bridge, Rig, ended, only_loopback, session

from robot_mcp_kit.client.session import RobotSession, ToolCallError
from robot_mcp_kit.sim.domain import reserved_domain

LONGEST_DELAY_S = 2.0


@dataclass
class Motion:
    """One motion that a client wanted."""

    number: int
    skill: str
    order: int
    begin_s: float = 0.0
    """After the beginning of its run."""
    cancel_after_s: float | None = None
    called: bool = False
    task_id: str | None = None
    cancel_called: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        return {"order": self.order, "idempotency_key": f"motion-{self.number}"}


@dataclass
class Tally:
    """What came of everything."""

    runs: int = 0
    motions: int = 0
    adopted: int = 0
    states: Counter[str] = field(default_factory=Counter)
    """What the ledger said of the goals that were taken over."""
    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(FAULTS, 0)))
    ready_s: list[float] = field(default_factory=list)

    def fault(self, kind: str, words: str) -> None:
        self.counts[kind] += 1
        self.faults.append(f"{kind}: {words}")
        print(f"  FAULT {kind}: {words}", flush=True)

    def summary(self) -> dict[str, Any]:
        ready = sorted(self.ready_s)
        return {
            "runs": self.runs,
            "motions": self.motions,
            "adopted": self.adopted,
            **self.counts,
            "states": dict(sorted(self.states.items())),
            "ends": dict(sorted(self.ends.items())),
            "ready_p50_s": round(ready[len(ready) // 2], 2) if ready else None,
        }


FAULTS = (
    "tasks_lost",
    "tasks_stuck",
    "motions_doubled",
    "motions_missing",
    "terminal_events_lost",
    "terminal_events_doubled",
    "events_out_of_order",
    "misreported",
)


async def start(robot: RobotSession, motion: Motion, tally: Tally) -> None:
    """Ask for the motion; the same key gives the same task."""
    motion.called = True
    info = await robot.call(motion.skill, **motion.arguments)
    if motion.task_id is not None and info["task_id"] != motion.task_id:
        tally.fault(
            "misreported", f"motion {motion.number} has the tasks {motion.task_id} and {info['task_id']}"
        )
    motion.task_id = info["task_id"]


async def live(robot: RobotSession, motion: Motion, tally: Tally) -> None:
    """One client until the bridge dies under it."""
    try:
        await asyncio.sleep(motion.begin_s)
        await start(robot, motion, tally)
        if motion.cancel_after_s is not None:
            await asyncio.sleep(motion.cancel_after_s)
            motion.cancel_called = True
            await robot.call("cancel_task", task_id=motion.task_id)
    except (*GONE, ToolCallError, ExceptionGroup):
        return


def wish(rng: random.Random, first: int, skills: int) -> list[Motion]:
    """What the clients of one run want: each on an action server of its own."""
    wanted = []
    for index in rng.sample(range(skills), rng.randint(1, skills)):
        number = first + len(wanted)
        thinks = rng.random() < 0.4
        value = order(
            number,
            accept_s=rng.uniform(0.1, 0.6) if thinks else 0.0,
            duration_s=rng.choice([0.1, rng.uniform(0.2, 3.0)]),
            slow_cancel=rng.random() < 0.5,
        )
        cancel_s = rng.uniform(0.0, 1.0) if rng.random() < 0.3 else None
        wanted.append(Motion(number, f"motion{index}", value, rng.uniform(0.0, 1.0), cancel_s))
    return wanted


async def one_run(rig: Rig, bridge: Bridge, motions: list[Motion], kill_after_s: float, tally: Tally) -> None:
    """Clients at work, and the kill."""

    async def work() -> None:
        async with session(bridge) as robot:
            await asyncio.gather(*(live(robot, motion, tally) for motion in motions))
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await asyncio.wait({working}, timeout=kill_after_s)
    if working.done():
        working.result()  # before the kill nothing may break
    await asyncio.to_thread(bridge.kill)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def settle(rig: Rig, bridge: Bridge, motions: list[Motion], tally: Tally) -> None:
    """After the restart: repeat the calls, wait for every end, and compare all accounts."""
    for line in bridge.lines:
        found = re.search(r"after the restart \(it was (\w+)\)", line)
        if found or "not followed after the restart" in line:
            tally.adopted += 1
            tally.states[found[1] if found else "not sent"] += 1
    async with session(bridge) as robot:
        for motion in motions:
            if motion.called:
                await start(robot, motion, tally)
        for motion in motions:
            if motion.task_id is not None:
                await check(rig, robot, motion, tally)


async def check(rig: Rig, robot: RobotSession, motion: Motion, tally: Tally) -> None:
    """One motion: what the task says, what the servers did, what the chat app heard."""
    assert motion.task_id is not None
    tally.motions += 1
    info = await ended(robot, motion.task_id)
    if not info:
        tally.fault("tasks_lost", f"motion {motion.number}: {motion.task_id} is unknown")
        return
    state = info["state"]
    code = (info.get("failure") or {}).get("error_code")
    tally.ends[f"{state} {code}" if code else state] += 1
    if state == "running":
        tally.fault("tasks_stuck", f"motion {motion.number}: {info}")
        return
    await check_motion(rig, motion, state, code, tally)
    await check_events(rig, motion, state, tally)


async def check_motion(rig: Rig, motion: Motion, state: str, code: str | None, tally: Tally) -> None:
    words = f"motion {motion.number} ({motion.task_id}) is {state} {code or ''}"
    if code == "ROS_GOAL_RESPONSE_TIMEOUT":
        await asyncio.sleep(1.0)  # a goal still on its way would begin now
    executions, endings = rig.executions(motion.number), rig.endings(motion.number)
    if executions > 1:
        tally.fault("motions_doubled", f"{words}, executed {executions} times")
    if state == "succeeded" and endings != ["succeeded"]:
        kind = "motions_missing" if executions == 0 else "misreported"
        tally.fault(kind, f"{words}, the server says {endings}")
    if state == "cancelled" and not motion.cancel_called:
        tally.fault("misreported", f"{words}, but nobody cancelled it")
    if state == "failed" and not (code in NEVER_MOVED and executions == 0):
        tally.fault("misreported", f"{words}, the server says {executions} executions, {endings}")


NEVER_MOVED = ("ROS_BRIDGE_RESTARTED", "ROS_GOAL_RESPONSE_TIMEOUT")
"""How a task may fail whose goal was lost with the bridge."""


async def check_events(rig: Rig, motion: Motion, state: str, tally: Tally) -> None:
    assert motion.task_id is not None
    task_id, expected = motion.task_id, 0 if state == "cancelled" else 1

    def terminal() -> list[Any]:
        return [event for event in rig.receiver.events_of(task_id) if event.type in TERMINAL]

    try:
        await rig.until(lambda: len(terminal()) >= expected, 45.0)
    except TimeoutError:
        tally.fault("terminal_events_lost", f"motion {motion.number}: {task_id} is {state}")
        return
    found, numbers = terminal(), [event.seq for event in rig.receiver.events_of(task_id)]
    if len(found) > expected:
        tally.fault("terminal_events_doubled", f"motion {motion.number}: {found}")
    if numbers != list(range(1, len(numbers) + 1)):
        tally.fault("events_out_of_order", f"motion {motion.number}: {task_id} has {numbers}")
    if state != "cancelled" and found[-1].type != {"succeeded": "task_done", "failed": "task_failed"}[state]:
        tally.fault("misreported", f"motion {motion.number}: {state}, but the event is {found[-1].type}")


async def random_runs(rig: Rig, runs: int, seed: int) -> Tally:
    """Kill the bridge ``runs`` times, at moments that the seed decides."""
    rng, tally, number = random.Random(seed), Tally(), 1
    await asyncio.to_thread(rig.start_server)
    bridge = await asyncio.to_thread(rig.start_bridge)
    for run in range(runs):
        motions = wish(rng, number, rig.motions)
        number += len(motions)
        deaf = rng.random() < 0.3
        if deaf:
            rig.receiver.answer_always(503)
        await one_run(rig, bridge, motions, rng.uniform(0.0, LONGEST_DELAY_S), tally)
        bridge = await asyncio.to_thread(rig.start_bridge)
        if deaf:
            rig.receiver.answer_always(None)
        tally.ready_s.append(bridge.ready_s)
        await settle(rig, bridge, motions, tally)
        tally.runs += 1
        print(f"run {run + 1}: {tally.summary()}", flush=True)
    await check_at_the_end(rig, tally)
    code = await asyncio.to_thread(bridge.end)
    if code != 0:
        tally.fault("misreported", f"the bridge ended with code {code}")
    return tally


async def check_at_the_end(rig: Rig, tally: Tally) -> None:
    """A goal that was given up must not have begun later either."""
    await asyncio.sleep(ACCEPTANCE_TIMEOUT_S)
    begun = Counter(line["motion"] for line in rig.happened() if line["what"] == "begin")
    for motion, times in begun.items():
        if times > 1:
            tally.fault("motions_doubled", f"motion {motion} began {times} times in all")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--states", action="store_true", help="once in each state of a goal")
    which.add_argument("--server", action="store_true", help="kill the action servers instead")
    which.add_argument("--receiver", action="store_true", help="kill the chat app instead")
    options = parser.parse_args()
    began_s = time.monotonic()
    with only_loopback(), reserved_domain() as domain, tempfile.TemporaryDirectory() as name:
        rig = Rig(Path(name), domain)
        try:
            if options.states or options.server or options.receiver:
                from kill_states import each_receiver_kill, each_server_kill, each_state

                work = (
                    each_state
                    if options.states
                    else each_server_kill
                    if options.server
                    else each_receiver_kill
                )
                tally = asyncio.run(work(rig))
            else:
                tally = asyncio.run(random_runs(rig, options.runs, options.seed))
        except BaseException:
            print(
                "".join((rig.folder / "bridge.log").read_text().splitlines(keepends=True)[-60:]),
                file=sys.stderr,
            )
            raise
        finally:
            rig.close()
    print(json.dumps({**tally.summary(), "took_s": round(time.monotonic() - began_s, 1)}))
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
