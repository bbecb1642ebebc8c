"""What the ``read_`` tools tell: values with their time, their freshness and how sure they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest

from robot_mcp_kit.promcp.registry import Registry
from robot_mcp_kit.server.promcp.reading import _READS, add_reads
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.world import (
    ArmReading,
    BatteryReading,
    GripperReading,
    RobotPose,
    World,
    WorldSnapshot,
)
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster
from robot_mcp_kit.testing.clock import FakeClock
from test.server.promcp.rig import CONFIG, Rig, rigged

READS = ("robot_pose", "battery_charge", "visible_objects", "gripper_state", "arm_joints", "motion_progress")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


class Still(World):
    """Was measured once, and never since."""

    def __init__(self, clock: FakeClock) -> None:
        at = datetime.fromtimestamp(clock.wall(), UTC)
        self.known = WorldSnapshot(
            robot=RobotPose(x_m=1.0, y_m=2.0, yaw_rad=0.5, frame="map", measured_at=at),
            gripper=GripperReading(gap_m=0.02, holds_something=True, measured_at=at),
            arm=ArmReading(joints_rad={"elbow_joint": 0.5}, measured_at=at),
            objects=(),
            looked_at=at,
            battery=BatteryReading(charge_percent=50.0, measured_at=at),
        )

    def snapshot(self) -> WorldSnapshot:
        """What is old is not known here; only :meth:`latest` tells it."""
        return WorldSnapshot()

    def latest(self) -> WorldSnapshot:
        return self.known

    async def after(self, *_: Any, **__: Any) -> WorldSnapshot:
        return WorldSnapshot()


def _registry(clock: FakeClock, world: World, text: str = CONFIG) -> Registry:
    registry = Registry(clock=clock, wall_clock=clock.wall)
    add_reads(registry, tuple(_READS), world, parse_config(text), TaskManager("robot", CollectingPoster()))
    return registry


async def test_every_reading_has_value_time_quality_and_unit(rig: Rig) -> None:
    """P6 P8: as a client gets it, in its declared schema; times with their zone."""
    schemas = {tool["name"]: tool["responseSchema"] for tool in await rig.tools("observe")}
    for name in READS:
        result = await rig.call("observe", f"read_{name}")
        assert not result.is_error
        data = result.structured_content
        jsonschema.validate(data, schemas[f"read_{name}"])
        assert data["quality"] == "good"
        assert datetime.fromisoformat(data["timestamp"]).utcoffset() == timedelta(0)
        if name != "motion_progress":
            assert data["unit"], name
    pose = await rig.data("observe", "read_robot_pose")
    assert {"x_m", "y_m", "yaw_rad", "frame"} <= pose["value"].keys()
    seen = await rig.data("observe", "read_visible_objects")
    assert {each["name"] for each in seen["value"]} == {"cup", "pen"}
    assert all(each["frame"] == "map" for each in seen["value"])


async def test_a_sample_is_stale_when_it_is_older_than_its_window_and_not_a_moment_before() -> None:
    """P9 P12: the boundary belongs to good; the value stays, and its time is the measurement's."""
    clock = FakeClock()
    measured = datetime.fromtimestamp(clock.wall(), UTC)
    registry = _registry(clock, Still(clock))
    windows = {"battery_charge": 10.0, "visible_objects": 2.0, "gripper_state": 2.0, "arm_joints": 2.0}
    passed = 0.0
    for name, window in sorted(windows.items(), key=lambda item: item[1]):
        await clock.advance(window - passed)
        passed = window
        at_its_end = await registry[f"read_{name}"].call()
        assert (at_its_end.quality, at_its_end.freshness_window_s) == ("good", window), name
    for name in windows:
        await clock.advance(0.01)
        after = await registry[f"read_{name}"].call()
        assert (after.quality, after.timestamp) == ("stale", measured), name
        assert after.value is not None
        assert "ago" in after.detail


async def test_the_window_is_stated_where_the_planner_reads(rig: Rig) -> None:
    """P9."""
    tools = {tool["name"]: tool["description"] for tool in await rig.tools("observe")}
    assert "older than 10 s is reported as stale" in tools["read_battery_charge"]
    assert "older than 2 s" in tools["read_gripper_state"]
    # The pose of a localizer that is silent at rest has no age.
    assert "stale" not in tools["read_robot_pose"]


async def test_a_pose_gets_stale_where_the_file_gives_it_an_age() -> None:
    """P9."""
    clock = FakeClock()
    text = CONFIG.replace("robot: {name: desk_robot}", "robot: {name: desk_robot, pose: {max_age_s: 3.0}}")
    registry = _registry(clock, Still(clock), text)
    await clock.advance(3.0)
    assert (await registry["read_robot_pose"].call()).quality == "good"
    await clock.advance(0.01)
    assert (await registry["read_robot_pose"].call()).quality == "stale"


@pytest.mark.parametrize(
    ("read", "change", "said"),
    [
        ("robot_pose", {"robot": {"position_std_m": 0.8}}, "position's standard deviation is 0.8 m"),
        ("robot_pose", {"robot": {"yaw_std_rad": 0.6}}, "heading's standard deviation is 0.6 rad"),
        ("battery_charge", {"battery": {"charge_percent": 19.9}}, "19.9 percent is low"),
        ("arm_joints", {"arm": {"joints_rad": {}}}, "no position of elbow_joint"),
    ],
)
async def test_a_source_outside_its_normal_bounds_is_degraded(
    read: str, change: dict[str, dict[str, Any]], said: str
) -> None:
    """P10: covariance, low battery, partial joints; the value is told all the same."""
    clock = FakeClock()
    world = Still(clock)
    ((part, values),) = change.items()
    before = getattr(world.known, part)
    world.known = world.known.model_copy(update={part: before.model_copy(update=values)})
    answer = await _registry(clock, world)[f"read_{read}"].call()
    assert answer.quality == "degraded"
    assert answer.value is not None
    assert said.lower() in answer.detail.lower()


@pytest.mark.parametrize(
    ("read", "change"),
    [
        ("robot_pose", {"robot": {"position_std_m": 0.5, "yaw_std_rad": 0.5}}),
        ("battery_charge", {"battery": {"charge_percent": 20.0}}),
    ],
)
async def test_at_the_bound_it_is_still_good(read: str, change: dict[str, dict[str, Any]]) -> None:
    """P10."""
    clock = FakeClock()
    world = Still(clock)
    ((part, values),) = change.items()
    before = getattr(world.known, part)
    world.known = world.known.model_copy(update={part: before.model_copy(update=values)})
    assert (await _registry(clock, world)[f"read_{read}"].call()).quality == "good"


@pytest.mark.parametrize(
    ("read", "part"),
    [
        ("robot_pose", "robot"),
        ("battery_charge", "battery"),
        ("visible_objects", "objects"),
        ("gripper_state", "gripper"),
        ("arm_joints", "arm"),
    ],
)
async def test_a_source_that_is_silent_is_an_error_and_a_normal_answer_that_says_so(
    read: str, part: str, rig: Rig
) -> None:
    """P11: value null, quality error, the reason in words; no flagged result."""
    rig.flat.silent.add(part)
    result = await rig.call("observe", f"read_{read}")
    assert not result.is_error
    data = result.structured_content
    assert (data["value"], data["quality"]) == (None, "error")
    assert "told" in data["detail"]
    assert data["detail"] in result.content[0].text
    schema = next(t for t in await rig.tools("observe") if t["name"] == f"read_{read}")["responseSchema"]
    jsonschema.validate(data, schema)


async def test_a_reading_that_breaks_is_an_error_with_its_reason(rig: Rig) -> None:
    """P11: the read itself failed."""

    def broken() -> WorldSnapshot:
        raise OSError("the sensor is unplugged")

    rig.flat.latest = broken  # type: ignore[method-assign]
    result = await rig.call("observe", "read_battery_charge")
    assert not result.is_error
    assert result.structured_content["quality"] == "error"
    assert "unplugged" in result.structured_content["detail"]


async def test_reading_sends_nothing_counts_nothing_and_writes_nothing_down(rig: Rig) -> None:
    """P13: no goal, no request to any server, no task, no line in the trail."""
    lines = len(rig.guard.trail.records)
    for name in READS:
        await rig.call("observe", f"read_{name}")
    assert rig.flat.requests == 0
    assert rig.flat.goals == []
    assert rig.manager.list() == []
    assert len(rig.guard.trail.records) == lines


async def test_many_readings_at_once_tell_what_they_tell_one_by_one(rig: Rig) -> None:
    """P14: twenty, of all kinds."""

    def facts(result: Any) -> Any:
        data = result.structured_content
        return data["quality"], data["unit"], _without_times(data["value"])

    calls = [f"read_{READS[number % len(READS)]}" for number in range(20)]
    together = await asyncio.gather(*(rig.call("observe", call) for call in calls))
    one_by_one = [await rig.call("observe", call) for call in calls]
    assert [facts(result) for result in together] == [facts(result) for result in one_by_one]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if not key.endswith("_at")}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


async def test_motions_are_told_while_they_run_and_after_their_end(rig: Rig) -> None:
    """P1: what the contract's get_task tells, as a reading."""
    rig.flat.close_gates()
    begun = await rig.data("move", "do_navigate_to", place="kitchen", idempotency_key="a", wait_s=0)
    (running,) = (await rig.data("observe", "read_motion_progress"))["value"]
    assert (running["task_id"], running["tool"], running["state"]) == (
        begun["task_id"],
        "navigate_to",
        "running",
    )
    rig.flat.open_gates()
    await rig.manager.wait(begun["task_id"])
    (ended,) = (await rig.data("observe", "read_motion_progress", task_id=begun["task_id"]))["value"]
    assert ended["state"] == "succeeded"
    assert (await rig.data("observe", "read_motion_progress"))["value"] == []
    nobody = await rig.data("observe", "read_motion_progress", task_id="robo-000000")
    assert (nobody["quality"], nobody["value"]) == ("error", None)
