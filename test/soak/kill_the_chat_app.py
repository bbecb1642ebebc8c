"""Kill the chat app (or the robot's server) at random moments of missions, many times, and count what it saw.

    python test/soak/kill_the_chat_app.py --kills 100
    python test/soak/kill_the_chat_app.py --kills 30 --victim robot

Exit code 0 only if every task's end was seen exactly once, and no task was started twice.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import importlib.util
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def _rig() -> Any:
    spec = importlib.util.spec_from_file_location("mission_rig", ROOT / "test/client/mission_rig.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def soak(kills: int, victim: str, seed: int, folder: Path) -> dict[str, Any]:
    """So many kills; missions follow one another."""
    dice = random.Random(seed)
    rig = _rig().MissionRig(folder, drive_s=2.0)
    verdicts: collections.Counter[str] = collections.Counter()
    killed = mission = 0
    begun_s = time.monotonic()
    try:
        await rig.servers_up()
        rig.chat.start()
        await rig.listening(rig.chat_port)
        while killed < kills:
            mission += 1
            await rig.begin(f"m{mission}")
            while killed < kills:
                waiting = asyncio.create_task(rig.verdict(f"m{mission}", 120))
                await asyncio.wait({waiting}, timeout=dice.uniform(0.0, 2.5))
                if waiting.done():
                    break
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                process = rig.chat if victim == "chat" else rig.robot
                process.kill()
                killed += 1
                await asyncio.sleep(dice.uniform(0.0, 0.5))
                process.start()
                await rig.listening(rig.chat_port if victim == "chat" else rig.robot_port)
                print(f"killed {killed} of {kills}, mission {mission}", file=sys.stderr, flush=True)
            verdicts[(await rig.verdict(f"m{mission}", 180)).split(":")[0]] += 1
        rig.chat.kill()
        seen, known = rig.ends_seen(), rig.tasks_known()
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
        "tasks_beyond_three_a_mission": max(0, len(known) - 3 * mission),
        "seconds": round(time.monotonic() - begun_s),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--victim", choices=("chat", "robot"), default="chat")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        report = asyncio.run(soak(args.kills, args.victim, args.seed, Path(folder)))
    print(json.dumps(report, indent=2))
    good = not (
        report["ends_not_seen"]
        or report["ends_seen_more_than_once"]
        or report["tasks_beyond_three_a_mission"]
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
