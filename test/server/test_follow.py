"""``follow``: the robot is sent on when the object has moved, stands at the end, and says how near it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.errors import ArgumentError, ConfigError, TaskError
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.server.app import build_mcp_server
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from robot_mcp_kit.skills.world import MEASURED, RobotPose, SeenObject, World, WorldSnapshot, utc_now
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock
from robot_mcp_kit.testing.clock import settle
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedPort, ScriptedPorts
from test.bridge.conftest import nav_feedback, nav_result
from test.server import agreement

CONFIG = """
skills:
  navigate_to:
    action: navigate_to_pose
    type: nav2_msgs/action/NavigateToPose
    policy: replace
    limits: {x_m: [0.0, 12.0], y_m: [0.0, 8.0]}
sensors:
  perception: {}
following:
  navigate: navigate_to
"""


class Street(World):
    """One person, and where the robot is."""

    def __init__(self) -> None:
        self.robot: tuple[float, float] | None = (1.0, 4.0)
        self.person: tuple[float, float] | None = (4.0, 4.0)

    def snapshot(self) -> WorldSnapshot:
        now = utc_now()
        seen = []
        if self.person is not None:
            x_m, y_m = self.person
            seen = [SeenObject(name="person", x_m=x_m, y_m=y_m, z_m=1.0, frame="map", measured_at=now)]
        pose = None
        if self.robot is not None:
            pose = RobotPose(x_m=self.robot[0], y_m=self.robot[1], yaw_rad=0.0, frame="map", measured_at=now)
        return WorldSnapshot(robot=pose, objects=tuple(seen), looked_at=now)

    async def after(
        self, moment: datetime, timeout_s: float = 2.0, parts: frozenset[str] = MEASURED
    ) -> WorldSnapshot:
        return self.snapshot()


@dataclass
class Rig:
    """The bridge with a drive that does what the test says."""

    bridge: Bridge
    manager: TaskManager
    port: ScriptedPort
    clock: FakeClock
    street: Street

    async def follow(self, **more: Any) -> str:
        arguments = {"object": "person", "duration_s": 60.0, **more}
        info = await self.bridge.start("follow", arguments)
        await settle()
        return info.task_id

    async def passes(self, seconds: float) -> None:
        """Time passes a look at a time."""
        for _ in range(round(seconds / 0.3)):
            await self.clock.advance(0.3)
            await settle()

    def sent_to(self) -> list[tuple[float, float]]:
        """Where the drives went, as sent."""
        places = (goal.fields["pose"]["pose"]["position"] for goal in self.port.goals)
        return [(round(at["x"], 2), round(at["y"], 2)) for at in places]

    def arrive(self) -> None:
        """The present drive ends where it should."""
        goal = self.port.goals[-1]
        at = goal.fields["pose"]["pose"]["position"]
        self.street.robot = (at["x"], at["y"])
        goal.finish(GoalStatus.SUCCEEDED, nav_result())

    async def ended(self, task_id: str) -> TaskInfo:
        info = self.manager.get(task_id)
        assert info is not None
        assert info.state != "running", info.progress
        return info


@asynccontextmanager
async def rigged() -> AsyncIterator[Rig]:
    config, clock, street = parse_config(CONFIG), FakeClock(1000.0), Street()
    port = ScriptedPort(clock=clock)
    skills = build_skills(config)
    manager = TaskManager("robot", CollectingPoster(), clock=clock)
    bridge = Bridge(
        manager,
        ScriptedPorts(port),
        config,
        guard=open_guard(config, skills, clock),
        skills=skills,
        routines=build_routines(config),
        world=street,
        clock=clock,
    )
    try:
        yield Rig(bridge, manager, port, clock, street)
    finally:
        closing = asyncio.ensure_future(manager.aclose())
        while not closing.done():
            await clock.advance(1.0)
        await bridge.aclose()


async def test_the_robot_is_sent_on_each_time_the_object_has_moved_and_not_before() -> None:
    """Half a step is no reason; a new drive takes over from the one that runs."""
    async with rigged() as rig:
        task_id = await rig.follow()
        assert rig.sent_to() == [(3.0, 4.0)]
        rig.street.person = (4.3, 4.0)
        await rig.passes(1.5)
        assert len(rig.sent_to()) == 1
        rig.street.person = (6.0, 4.0)
        await rig.passes(0.6)
        assert rig.sent_to() == [(3.0, 4.0), (5.0, 4.0)]
        rig.arrive()
        rig.street.person = (6.0, 6.0)
        await rig.passes(0.6)
        assert rig.sent_to()[-1][0] < 6.0
        rig.arrive()
        await rig.passes(60)
        info = await rig.ended(task_id)
    assert info.state == "succeeded", info.failure
    assert info.result is not None
    assert (info.result["drives"], info.result["distance_m"]) == (3, 1.0)
    assert "person is at x_m 6, y_m 6" in info.result["message"]


async def test_the_drive_that_runs_at_the_end_is_stopped() -> None:
    async with rigged() as rig:
        rig.street.person = (1.9, 4.0)
        task_id = await rig.follow(duration_s=3.0)
        assert rig.sent_to() == [], "near enough already"
        rig.street.person = (2.7, 4.0)
        await rig.passes(1.2)
        assert len(rig.port.requests("cancel")) == 0
        await rig.passes(3)
        assert len(rig.port.requests("cancel")) == 1
        info = await rig.ended(task_id)
    assert info.state == "succeeded", info.failure


async def test_an_object_out_of_sight_is_lost_and_told_where_it_was_seen() -> None:
    """L1 L4: a moment out of sight is none."""
    async with rigged() as rig:
        task_id = await rig.follow()
        await rig.passes(0.9)
        rig.street.person = None
        await rig.passes(3)
        rig.street.person = (4.0, 4.0)
        await rig.passes(0.6)
        rig.street.person = None
        await rig.passes(6)
        info = await rig.ended(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "OBJECT_LOST"
    assert "Seen last: person is at x_m 4, y_m 4" in info.failure.message
    assert len(rig.port.requests("cancel")) == 1


async def test_a_robot_that_did_not_keep_up_has_not_followed() -> None:
    """L1 L2: measured at the end."""
    async with rigged() as rig:
        task_id = await rig.follow(duration_s=6.0)
        rig.street.person = (9.0, 4.0)
        await rig.passes(8)
        info = await rig.ended(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "FELL_BEHIND"
    assert "8 m from the robot" in info.failure.message


async def test_a_drive_that_fails_ends_it_with_the_drives_own_reason() -> None:
    async with rigged() as rig:
        task_id = await rig.follow()
        rig.port.goals[-1].feedback(nav_feedback(1.0, 2.0))
        rig.port.goals[-1].finish(GoalStatus.ABORTED, nav_result(208))
        await rig.passes(1.5)
        info = await rig.ended(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "NAV2_NO_PATH"
    assert "The step navigate_to failed" in info.failure.message


async def test_a_place_beyond_the_limits_is_not_driven_to() -> None:
    """L35: the drive's own limits hold."""
    async with rigged() as rig:
        rig.street.person = (14.0, 4.0)
        task_id = await rig.follow()
        await rig.passes(0.6)
        info = await rig.ended(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "INVALID_ARGUMENT"
    assert "x_m" in info.failure.message
    assert rig.port.goals == []


async def test_a_cancel_stops_the_drive() -> None:
    async with rigged() as rig:
        task_id = await rig.follow()
        await rig.passes(0.6)
        cancelling = asyncio.ensure_future(rig.manager.cancel(task_id))
        await rig.passes(3)
        info = await cancelling
    assert info is not None
    assert info.state == "cancelled"
    assert info.progress is not None
    assert info.progress["stop_confirmed"] is True
    assert len(rig.port.requests("cancel")) == 1


async def test_a_drive_that_does_not_stop_when_the_time_is_up_is_no_success() -> None:
    """L1 K94: the words say that the robot may still be moving."""
    async with rigged() as rig:
        rig.port.cancel_policy = "agree"
        task_id = await rig.follow(duration_s=3.0)
        await rig.passes(9)
        info = await rig.ended(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "ROS_CANCEL_UNCONFIRMED"
    assert "may still be moving" in info.failure.message
    assert info.progress is not None
    assert info.progress["stop_confirmed"] is False


async def test_where_another_program_takes_the_robot_it_is_not_taken_back() -> None:
    """L32 K94: somebody else drives it now; no further drive is begun against that."""
    async with rigged() as rig:
        task_id = await rig.follow()
        rig.port.other_client_takes_over()
        rig.street.person = (7.0, 4.0)
        await rig.passes(3)
        info = await rig.ended(task_id)
        assert len(rig.port.goals) == 1
    assert info.failure is not None
    assert info.failure.error_code == "ROS_PREEMPTED"
    assert "may still be moving" in info.failure.message


async def test_whoever_cancels_its_drive_has_ended_it() -> None:
    """L32: it does not begin another one."""
    async with rigged() as rig:
        task_id = await rig.follow()
        drive = next(info for info in rig.manager.list() if info.tool == "navigate_to")
        await rig.manager.cancel(drive.task_id)
        rig.street.person = (7.0, 4.0)
        await rig.passes(3)
        info = await rig.ended(task_id)
        assert len(rig.port.goals) == 1
    assert info.failure is not None
    assert info.failure.error_code == "STEP_CANCELLED"
    assert drive.task_id in info.failure.message


@pytest.mark.parametrize(
    ("robot", "person", "code"),
    [((1.0, 4.0), None, "OBJECT_NOT_SEEN"), (None, (4.0, 4.0), "POSITION_UNKNOWN")],
)
async def test_what_must_hold_before_is_checked(robot: Any, person: Any, code: str) -> None:
    """L3 L41."""
    async with rigged() as rig:
        rig.street.robot, rig.street.person = robot, person
        with pytest.raises(TaskError) as error:
            await rig.follow()
        assert error.value.error_code == code
        assert rig.port.goals == []


@pytest.mark.parametrize(
    ("more", "field"), [({"duration_s": 1e4}, "duration_s"), ({"distance_m": 0.1}, "distance_m")]
)
async def test_arguments_are_within_what_the_file_allows(more: dict[str, Any], field: str) -> None:
    async with rigged() as rig:
        with pytest.raises(ArgumentError) as error:
            await rig.follow(**more)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("policy: replace", "policy: refuse", "must have the policy replace"),
        ("  navigate: navigate_to", "  navigate: fly", "no enabled skill that drives"),
        ("  perception: {}", "  battery: {}", "has to be seen"),
        ("following:\n", "following:\n  distance_m: 0.2\n", "min_distance_m"),
    ],
)
def test_what_does_not_fit_the_rest_of_the_file_is_told(old: str, new: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build_routines(parse_config(CONFIG.replace(old, new)))


@pytest.mark.parametrize("lost", [False, True])
async def test_words_data_and_schema_of_the_answer_agree(lost: bool) -> None:
    """L4 L5 L6: both ends."""
    async with rigged() as rig:
        server = build_mcp_server(rig.bridge, rig.manager, name="robot")
        async with Client(server) as client:
            schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            begun = await client.call_tool("follow", {"object": "person", "duration_s": 6.0})
            agreement.check(begun, schemas["follow"])
            await rig.passes(0.6)
            rig.arrive()
            if lost:
                rig.street.person = None
            await rig.passes(9)
            ended = await client.call_tool(
                "await_task", {"handle": begun.structured_content["handle"], "wait_s": 0}
            )
            assert ended.is_error is lost, ended.content[0].text
            agreement.check(ended, schemas["follow"])
