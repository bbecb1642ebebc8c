"""What the guard reads of a real ROS graph: lifecycle states, topics, floors, the robot description."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from .rig import BOUND_S, Bridge, Probe, Rig, attacking, code_of, skills_file
from .test_trail import put_standing

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(300)]

SAFETY = """
safety:
  approval: standing
  robot_description: probe_description
  geofence:
    floor_from: {topic: floor, type: std_msgs/msg/String, field: data, max_age_s: 3.0}
    floors:
      ground: {keep_in: {walls: [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}
      upstairs: {keep_in: {loft: [[0.0, 0.0], [6.0, 0.0], [6.0, 8.0], [0.0, 8.0]]}}
  interlocks:
    planner: {lifecycle_node: probe_planner, hold: true, skills: [navigate_to]}
    door:
      topic: door
      type: std_msgs/msg/Bool
      field: data
      ok: false
      max_age_s: 1.0
      hold: true
      skills: [navigate_to]
"""
HOME = {
    "shoulder_pan_joint": 0.0,
    "shoulder_lift_joint": -1.9,
    "elbow_joint": 2.4,
    "wrist_1_joint": 0.0,
    "wrist_2_joint": -0.5,
    "wrist_3_joint": 0.0,
}
MOST = {**dict.fromkeys(HOME, 3.1), "shoulder_pan_joint": 0.6}
JOINTS = "".join(
    f'<joint name="{name}" type="revolute"><limit lower="{-m}" upper="{m}" effort="1" velocity="1"/></joint>'
    for name, m in MOST.items()
)


@pytest.fixture(scope="module")
def bridge(ros_domain_id: int, probe: Probe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    folder = tmp_path_factory.mktemp("conditions")
    for skill in ("navigate_to", "move_arm"):
        put_standing(folder, skill, skill)
    bridge = Bridge(ros_domain_id, folder, skills_file(folder, SAFETY))
    yield bridge
    bridge.end()


@pytest.fixture
async def rig(bridge: Bridge, probe: Probe) -> AsyncIterator[Rig]:
    probe.set(door=False, floor="ground")
    async with attacking(bridge, probe) as rig:
        yield rig
        await rig.session.call("stop")


async def answered(rig: Rig, wanted: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Ask until the answer is ``wanted``: what was published takes a moment to arrive."""
    answer: dict[str, Any] = {}
    deadline_s = time.monotonic() + BOUND_S
    while code_of(answer := await rig.session.call(tool, **arguments)) != wanted:
        assert time.monotonic() < deadline_s, answer
        content = answer["result"]["structuredContent"]
        if "task_id" in content:
            await rig.session.call("cancel_task", task_id=content["task_id"])
        await asyncio.sleep(0.1)
    return dict(answer["result"]["structuredContent"])


def other_place(rig: Rig) -> str:
    """A place that the robot has a way to."""
    return "office" if rig.probe.truth()["pose"][0] > 6.0 else "kitchen"


async def drives(rig: Rig, place: str) -> str:
    """A drive that is under way."""
    async with asyncio.timeout(BOUND_S):
        while True:
            task_id = str((await answered(rig, "task", "navigate_to", place=place))["task_id"])
            while (task := await rig.session.task(task_id))["state"] == "running":
                if (task["progress"] or {}).get("distance_m"):
                    return task_id
                await asyncio.sleep(0.02)
            assert task["failure"]["error_code"] == "SAFETY_INTERLOCK", task  # the state is not heard yet


async def test_on_each_floor_its_own_fence_counts_and_on_an_unknown_one_nothing_moves(rig: Rig) -> None:
    """R30: the same coordinates are inside downstairs and outside upstairs."""
    rig.probe.lifecycle("configure")
    rig.probe.lifecycle("activate")
    await answered(rig, "task", "navigate_to", place="kitchen")
    await rig.session.call("stop")
    for floor, words in (
        ("upstairs", "keep-in"),
        ("cellar", "the robot is on 'cellar'"),
        (None, "which floor"),
    ):
        rig.probe.set(floor=floor)
        refused = await answered(rig, "SAFETY_LIMIT", "navigate_to", place="kitchen")
        async with asyncio.timeout(BOUND_S):
            while words not in refused["error"]["message"]:
                await asyncio.sleep(0.1)
                refused = await answered(rig, "SAFETY_LIMIT", "navigate_to", place="kitchen")


async def test_a_managed_node_that_leaves_active_stops_the_motion_and_lets_no_other_begin(rig: Rig) -> None:
    """R23, R24: asked right before the goal leaves, and while it runs."""
    rig.probe.lifecycle("activate")
    place = other_place(rig)
    task_id = await drives(rig, place)
    rig.probe.lifecycle("deactivate")
    failure = (await rig.ended(task_id))["failure"]
    assert failure["error_code"] == "SAFETY_INTERLOCK_BROKEN"
    assert "planner" in failure["message"]

    async def stands() -> bool:
        return abs(rig.probe.truth()["speed"]) < 0.01

    await rig.until(stands)
    before = rig.probe.actuations()
    begun = await answered(rig, "task", "navigate_to", place=place)
    failure = (await rig.ended(begun["task_id"]))["failure"]
    assert failure["error_code"] == "SAFETY_INTERLOCK"
    assert "inactive" in failure["message"]
    assert rig.probe.actuations() == before
    rig.probe.lifecycle("activate")


async def test_a_topic_that_breaks_or_falls_silent_stops_the_motion_that_it_holds(rig: Rig) -> None:
    """R23, R24: a door that opens, and a sensor that says nothing any more."""
    rig.probe.lifecycle("activate")
    for broken in (True, None):
        place = other_place(rig)
        task_id = await drives(rig, place)
        rig.probe.set(door=broken)
        failure = (await rig.ended(task_id))["failure"]
        assert failure["error_code"] == "SAFETY_INTERLOCK_BROKEN"
        assert "door" in failure["message"]
        rig.probe.set(door=False)
        await rig.settled()


async def test_joints_stay_within_the_robots_own_description(rig: Rig) -> None:
    """R30: no description, no goal with joints; with one, its limits and not only the file's."""
    inside, wide = ({**HOME, "shoulder_pan_joint": angle_rad} for angle_rad in (0.3, 0.9))
    unknown = await answered(rig, "SAFETY_LIMIT", "move_arm", joints_rad=inside)
    assert "description" in unknown["error"]["message"]
    rig.probe.describe(f'<robot name="probe">{JOINTS}</robot>')
    task = await answered(rig, "task", "move_arm", joints_rad=inside)
    ended = await rig.ended(task["task_id"])
    assert ended["state"] == "succeeded", ended
    refused = await answered(rig, "SAFETY_LIMIT", "move_arm", joints_rad=wide)
    assert "shoulder_pan_joint" in refused["error"]["message"]
    assert "0.6" in refused["error"]["message"]
