"""Why a tool that moves matter must measure, and must be replayable: 200 grasps with a gripper that slips.

    python examples/slipping_gripper.py

A simulated desk (no ROS, no robot) behind the real bridge and the real MCP server, asked by the official
client. Three times in ten the cup slips. Then:

1. what a tool that passes the action server's "success" on would have claimed, and what ``pick`` answers;
2. a lost reply and the retry that follows it, without and with an idempotency key.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client

from robot_mcp_kit import EventPoster, TaskManager
from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.server.app import build_mcp_server
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from robot_mcp_kit.testing.desk import DESK_CONFIG, Desk
from robot_mcp_kit.testing.open_guard import open_guard

WAIT = {"wait_s": 30}


@asynccontextmanager
async def bridge_over(desk: Desk) -> AsyncIterator[Client]:
    """The bridge of that robot behind an MCP server in this process, and a client of it."""
    config = parse_config(DESK_CONFIG)
    skills = build_skills(config)
    manager = TaskManager("desk", EventPoster("desk"))
    bridge = Bridge(
        manager,
        desk.ports,
        config,
        guard=open_guard(config, skills),
        skills=skills,
        routines=build_routines(config),
        world=desk,
    )
    try:
        async with Client(build_mcp_server(bridge, manager, name="desk", config=config)) as client:
            yield client
    finally:
        await manager.aclose()
        await bridge.aclose()


@dataclass
class Tally:
    """What 200 grasps came to."""

    runs: int = 0
    claimed: int = 0
    """The gripper's own action ended as SUCCEEDED with something between the fingers."""
    false_claims: int = 0
    """... and the cup was not held when everything was over."""
    successes: int = 0
    false_successes: int = 0
    false_failures: int = 0
    motions: int = 0
    grasps: int = 0
    replay_motions: int = 0
    """Motions that the repeated calls made. There must be none."""
    replays_that_differ: int = 0


async def grasps(seeds: int, slips: float = 0.3) -> Tally:
    """Pick up the cup once for each seed, lose the reply, and ask again with the same key."""
    desk, tally = Desk(slips=slips), Tally()
    async with bridge_over(desk) as client:
        for seed in range(seeds):
            desk.set_up(seed)
            arguments = {"object": "cup", "idempotency_key": f"seed-{seed}", **WAIT}
            lost = await client.call_tool("pick", arguments)
            truth, moved, closed = desk.held == "cup", desk.motions, desk.grasps
            again = await client.call_tool("pick", arguments)
            tally.runs += 1
            tally.claimed += closed
            tally.false_claims += closed and not truth
            tally.successes += not lost.is_error
            tally.false_successes += not lost.is_error and not truth
            tally.false_failures += lost.is_error and truth
            tally.motions += moved
            tally.grasps += closed
            tally.replay_motions += desk.motions - moved
            tally.replays_that_differ += _told(again) != _told(lost)
    return tally


def _told(result: Any) -> Any:
    """The answer, but for whether this call began the motion."""
    answer = dict(result.structured_content)
    answer.pop("started_now")
    return result.is_error, answer


async def retries(seed: int, *, key: str | None) -> tuple[str, str, int]:
    """Both answers' words and the number of grasps, when a reply is lost and the call repeated."""
    desk = Desk(seed, slips=0.3)
    arguments: dict[str, Any] = {"object": "cup", **WAIT}
    if key is not None:
        arguments["idempotency_key"] = key
    async with bridge_over(desk) as client:
        first = await client.call_tool("pick", arguments)
        second = await client.call_tool("pick", arguments)
    return _words(first), _words(second), desk.grasps


def _words(result: Any) -> str:
    """The first two sentences."""
    return ". ".join(result.content[0].text.split(". ")[:2])


async def main(seeds: int) -> None:
    tally = await grasps(seeds)
    print(
        f"1. {tally.runs} grasps: the gripper's driver claimed {tally.claimed} successes, "
        f"{tally.false_claims} of them false; pick claimed {tally.successes}, {tally.false_successes} of "
        "them false"
    )
    print(
        f"2. {tally.runs} lost replies, {tally.runs} retries with the same key: {tally.replay_motions} "
        f"further motions, {tally.replays_that_differ} answers that differ"
    )
    for seed in (0, 1):
        for key in (None, "mine"):
            first, second, closed = await retries(seed, key=key)
            print(f"3. seed {seed}, {'no key' if key is None else 'a key'}: {closed} grasps")
            print(f"     first: {first}\n     retry: {second}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=200)
    asyncio.run(main(parser.parse_args().seeds))
