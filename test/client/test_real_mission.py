"""The example chat app's mission on the simulated robot, through the real bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from robot_mcp_kit.safety.assemble import AUDIT_FOLDER
from robot_mcp_kit.safety.audit_verify import records
from robot_mcp_kit.sim.process import SimProcess

from .mission_rig import MissionRig

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]


@pytest.fixture
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    options = {"result_timeout_s": 120}
    with SimProcess(domain_id=ros_domain_id, real_time_factor=4.0, parameters=options) as process:
        yield process


@pytest.fixture
async def rig(sim: SimProcess, ros_domain_id: int, tmp_path: Path) -> AsyncIterator[MissionRig]:
    rig = MissionRig(tmp_path, domain=ros_domain_id)
    try:
        await rig.servers_up()
        yield rig
    finally:
        rig.close()


async def test_a_mission_goes_on_when_the_bridge_is_killed_under_it(rig: MissionRig) -> None:
    """A25: drive; when 10 s remain look; then dock. The bridge dies between the trigger and the arrival and
    takes its drive up again; the drive and the docking each leave once. A14: no secret of the four is left
    in any file of any of them.
    """
    rig.chat = rig.make_chat("m1")
    rig.chat.start()
    await rig.listening(rig.chat_port)
    async with asyncio.timeout(60):
        while (steps := (await rig.mission("m1"))["steps"])["look"]["state"] != "running":
            await asyncio.sleep(0.02)
    assert steps["drive"]["state"] == "running", "looking has begun by the trigger, before the arrival"
    assert steps["dock"]["state"] is None
    rig.robot.kill()
    rig.robot.start()
    assert await rig.verdict("m1") == "succeeded"
    rig.chat.kill()
    assert rig.leaks() == []
    assert list(rig.ends_seen().values()) == [["succeeded"]] * 3
    trail = records(rig.state_dir / AUDIT_FOLDER)
    assert [one["skill"] for one in trail if one["event"] == "started"] == ["navigate_to", "dock"]
