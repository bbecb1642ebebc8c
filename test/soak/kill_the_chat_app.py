"""Kill the chat app, a robot's server, or the bridge at random moments of missions, many times.

Counts what the chat app saw.

    python test/soak/kill_the_chat_app.py --kills 100
    python test/soak/kill_the_chat_app.py --kills 30 --victim robot     a server that forgets its tasks
    python test/soak/kill_the_chat_app.py --kills 30 --victim bridge    the real one, with a simulated robot

Exit code 0 only if every task's end was seen exactly once and no task was started twice; and, where the
bridge was killed, if no motion was started twice, and every mission succeeded, or said what is not known or
that its motion had not left.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import importlib.util
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from robot_mcp_kit.client import connect
from robot_mcp_kit.safety.assemble import AUDIT_FOLDER
from robot_mcp_kit.safety.audit_verify import records
from robot_mcp_kit.sim.domain import reserved_domain
from robot_mcp_kit.sim.process import SimProcess

UNKNOWN = "says what is not known"
NOT_BEGUN = "says that the motion had not left"
ROOT = Path(__file__).parents[2]


def _rig() -> Any:
    spec = importlib.util.spec_from_file_location("mission_rig", ROOT / "test/client/mission_rig.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _domain(victim: str) -> Iterator[int | None]:
    """The domain of a simulated robot, where one is needed."""
    if victim != "bridge":
        yield None
        return
    options = {"result_timeout_s": 3600}
    with (
        reserved_domain() as domain,
        SimProcess(domain_id=domain, real_time_factor=4.0, parameters=options),
    ):
        yield domain


def _in_short(verdict: str) -> str:
    """A mission's end, by what is known of it."""
    if "not known" in verdict:
        return UNKNOWN
    return NOT_BEGUN if "had not been sent and nothing moved" in verdict else verdict[:160]


async def _serving(url: str) -> None:
    """Until it answers again: a kill before that would be a kill of the start, each time anew."""
    async with httpx.AsyncClient(trust_env=False, timeout=120.0) as http:
        await http.get(url)


async def _undock(url: str) -> None:
    """Back to where a mission can begin."""
    async with connect(url) as robot:
        task_id = (await robot.call("undock"))["task_id"]
        while (await robot.call("get_task", task_id=task_id))["state"] == "running":
            await asyncio.sleep(0.2)


def _motions(rig: Any) -> collections.Counter[str]:
    """How often each skill was started, as the audit trail says."""
    started = (one for one in records(rig.state_dir / AUDIT_FOLDER) if one["event"] == "started")
    return collections.Counter(str(one["skill"]) for one in started)


async def soak(kills: int, victim: str, seed: int, folder: Path, domain: int | None = None) -> dict[str, Any]:
    """So many kills; missions follow one another."""
    dice = random.Random(seed)
    rig = _rig().MissionRig(folder, drive_s=2.0, domain=domain)
    longest_s = 2.5 if domain is None else 8.0
    verdicts: collections.Counter[str] = collections.Counter()
    killed = mission = 0
    begun_s = time.monotonic()
    try:
        await rig.servers_up()
        rig.chat.start()
        await rig.listening(rig.chat_port, 120)
        while killed < kills:
            mission += 1
            await rig.begin(f"m{mission}")
            while killed < kills:
                waiting = asyncio.create_task(rig.verdict(f"m{mission}", 120))
                await asyncio.wait({waiting}, timeout=dice.uniform(0.0, longest_s))
                if waiting.done():
                    break
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                process = rig.chat if victim == "chat" else rig.robot
                process.kill()
                killed += 1
                await asyncio.sleep(dice.uniform(0.0, 0.5))
                process.start()
                await rig.listening(rig.chat_port if victim == "chat" else rig.robot_port, 120)
                if domain is not None:
                    await _serving(f"http://127.0.0.1:{rig.robot_port}/mcp")
                print(f"killed {killed} of {kills}, mission {mission}", file=sys.stderr, flush=True)
            said = await rig.verdict(f"m{mission}", 180)
            verdicts[_in_short(said)] += 1
            if domain is not None:
                await _undock(f"http://127.0.0.1:{rig.robot_port}/mcp")
        rig.chat.kill()
        seen, known = rig.ends_seen(), rig.tasks_known()
        motions = {} if domain is None else dict(_motions(rig))
    except BaseException:
        for log in (rig.robot.log, rig.chat.log):
            print(log.name, *log.read_text().splitlines()[-20:], sep="\n  ", file=sys.stderr)
        raise
    finally:
        rig.close()
    not_once = {task: states for task, states in seen.items() if len(states) != 1}
    return {
        "kills": killed,
        "victim": victim,
        "missions": mission,
        "verdicts": dict(verdicts),
        "tasks": len(known),
        "ends_seen_exactly_once": len(seen) - len(not_once),
        "ends_not_seen": sorted(known - set(seen)),
        "ends_seen_more_than_once": not_once,
        "motions": motions,
        "motions_beyond_one_a_step": sum(max(0, count - mission) for count in motions.values()),
        # With a real bridge there is one more, which is not the mission's: back out of the dock.
        "tasks_beyond_those_of_the_missions": max(0, len(known) - (3 if domain is None else 4) * mission),
        "seconds": round(time.monotonic() - begun_s),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--victim", choices=("chat", "robot", "bridge"), default="chat")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, _domain(args.victim) as domain:
        report = asyncio.run(soak(args.kills, args.victim, args.seed, Path(folder), domain))
    print(json.dumps(report, indent=2))
    ends_well = {"succeeded", UNKNOWN, NOT_BEGUN}
    good = not (
        report["ends_not_seen"]
        or report["ends_seen_more_than_once"]
        or report["tasks_beyond_those_of_the_missions"]
        or report["motions_beyond_one_a_step"]
        or (args.victim == "bridge" and not set(report["verdicts"]) <= ends_well)
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
