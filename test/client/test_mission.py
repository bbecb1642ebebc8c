"""The example chat app's mission, with whole processes that are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from examples.chat_app.mission import Step, due, unknown, verdict

from .mission_rig import MissionRig

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MissionRig]:
    rig = MissionRig(tmp_path)
    try:
        await rig.servers_up()
        yield rig
    finally:
        rig.close()


def steps(**known: Step) -> dict[str, Step]:
    return {name: known.get(name, Step()) for name in ("drive", "look", "dock")}


def test_looking_starts_when_ten_seconds_remain_and_docking_when_the_drive_is_over() -> None:
    assert due(steps()) == ["drive"]
    assert due(steps(drive=Step("t", "running"))) == []
    assert due(steps(drive=Step("t", "running", triggered=True))) == ["look"]
    assert due(steps(drive=Step("t", "running", eta_s=9.0))) == ["look"], "the trigger was lost in a gap"
    assert due(steps(drive=Step("t", "running", eta_s=0.0))) == [], "0 is not known"
    assert due(steps(drive=Step("t", "succeeded"))) == ["look", "dock"]
    assert due(steps(drive=Step("t", "failed"))) == []


def test_a_mission_is_over_when_nothing_runs_and_says_what_cannot_be_known() -> None:
    over = Step("t", "succeeded")
    assert verdict(steps(drive=over, look=over, dock=over)) == "succeeded"
    assert verdict(steps(drive=over, look=over, dock=Step("t", "running"))) is None
    assert verdict(steps(drive=Step("t", "failed", "DOOR_CLOSED"))) == "drive failed: DOOR_CLOSED"
    assert verdict(steps(drive=Step("t", "failed"), look=Step("t", "running"))) is None
    (told,) = unknown(steps(drive=Step("t-1", "running", eta_s=4.0, unreachable=True)))
    assert "t-1 was running with 4 s left" in told


async def test_whoever_is_killed_every_end_is_seen_exactly_once_and_nothing_unknown_is_called_known(
    rig: MissionRig,
) -> None:
    """First the chat app, whatever it was doing: starting a task, taking an event, or nothing. Then the
    robot's server: while it is away nothing is known, and when it is back it does not know its task any more.
    """
    dice = random.Random(20261130)
    rig.chat = rig.make_chat("m1")
    for _ in range(3):
        rig.chat.start()
        await rig.listening(rig.chat_port)
        await asyncio.sleep(dice.uniform(0.0, 0.8))  # the moment of the kill, not a synchronisation
        rig.chat.kill()
    rig.chat.start()
    assert await rig.verdict("m1") == "succeeded"

    await rig.begin("m2")
    async with asyncio.timeout(40):
        while (await rig.mission("m2"))["steps"]["drive"]["state"] != "running":
            await asyncio.sleep(0.01)
    rig.robot.kill()
    async with asyncio.timeout(60):
        while not (told := await rig.mission("m2"))["unknown"]:
            await asyncio.sleep(0.02)
    assert told["verdict"] is None
    assert "cannot be asked" in told["unknown"][0]
    rig.robot.start()
    assert "SERVER_RESTARTED" in await rig.verdict("m2")

    rig.chat.kill()
    assert rig.leaks() == []
    seen = rig.ends_seen()
    assert set(seen) == rig.tasks_known()
    assert all(len(states) == 1 for states in seen.values()), seen
    assert len(seen) in (4, 5), seen
