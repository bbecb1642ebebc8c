"""Every skill of the demo robot, from the tool call to the end, over real actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from .conftest import SKILLS, BridgeProcess, Receiver, Talker

pytestmark = [pytest.mark.ros, pytest.mark.slow]

JOINTS = {
    "shoulder_pan_joint": 0.4,
    "shoulder_lift_joint": -1.6,
    "elbow_joint": 2.0,
    "wrist_1_joint": 0.0,
    "wrist_2_joint": -0.4,
    "wrist_3_joint": 0.0,
}


class Robot:
    """Runs one skill to its end."""

    def __init__(self, talk: Talker, receiver: Receiver) -> None:
        self.talk, self.receiver = talk, receiver

    async def do(self, skill: str, **arguments: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The task's last record, and the payloads of its progress events."""
        import asyncio

        task_id = await self.talk.start(skill, **arguments)
        events = await asyncio.to_thread(self.receiver.wait_for_end, task_id)
        return await self.talk.task(task_id), [e.payload for e in events if e.type == "progress"]

    async def done(self, skill: str, **arguments: Any) -> dict[str, Any]:
        """The result of a skill that has to succeed."""
        task, _ = await self.do(skill, **arguments)
        assert task["state"] == "succeeded", task
        return dict(task["result"])


@pytest.fixture
def robot(talk: Talker, receiver: Receiver) -> Robot:
    return Robot(talk, receiver)


async def test_the_base_turns_drives_straight_and_waits(robot: Robot) -> None:
    task, progress = await robot.do("spin", angle_rad=-1.5708)
    assert task["state"] == "succeeded", task
    assert progress[-1]["percent"] == 100.0
    assert task["result"]["last_reported_rad"] == pytest.approx(-1.5708, abs=0.2)
    await robot.done("spin", angle_rad=1.5708)
    forth = await robot.done("drive_on_heading", distance_m=0.4)
    assert forth["last_reported_m"] == pytest.approx(0.4, abs=0.1)
    back = await robot.done("back_up", distance_m=0.4)
    assert back["distance_m"] == -0.4
    waited = await robot.done("wait", duration_s=1.0)
    assert waited["elapsed_s"] == pytest.approx(1.0, abs=0.3)


async def test_the_robot_drives_through_poses_and_makes_a_tour(robot: Robot) -> None:
    through = await robot.done("navigate_through", poses=[{"x_m": 4.0, "y_m": 4.0}, {"place": "lobby"}])
    assert through["measured"] is True
    assert through["position_error_m"] < 0.5
    assert (through["reached"], through["partial"]) == (2, False)
    task, progress = await robot.do(
        "follow_waypoints", poses=[{"x_m": 9.0, "y_m": 4.0}, {"x_m": 7.5, "y_m": 3.6}]
    )
    assert task["state"] == "succeeded", task
    assert task["result"]["partial"] is False
    assert task["result"]["measured"] is True
    assert {p.get("waypoint") for p in progress} >= {0, 1}


async def test_a_tour_with_an_unreachable_pose_says_which(robot: Robot) -> None:
    task, _ = await robot.do("follow_waypoints", poses=[{"x_m": 6.0, "y_m": 1.0}, {"place": "lobby"}])
    assert task["state"] == "failed"
    assert task["failure"]["error_code"] == "NAV2_WAYPOINT_MISSED"
    assert "Number 1 was missed" in task["failure"]["message"]


async def test_the_robot_docks_and_leaves_the_dock(robot: Robot) -> None:
    task, progress = await robot.do("dock")
    assert task["state"] == "succeeded", task
    phases = [p.get("phase") for p in progress]
    assert "driving to the dock" in phases
    assert "driving in" in phases
    await robot.done("undock")
    task, _ = await robot.do("undock")
    assert task["failure"]["error_code"] == "ROS_ABORTED_NO_REASON"
    assert "not in a dock" in task["failure"]["message"]


async def test_the_arm_moves_to_targets_joints_and_poses(robot: Robot) -> None:
    task, progress = await robot.do("move_arm", target="ready")
    assert task["state"] == "succeeded", task
    assert {"planning", "moving"} <= {p.get("phase") for p in progress}
    assert (await robot.done("move_arm", target="ready"))["note"].startswith("The arm was there already")
    assert (await robot.done("move_arm", joints_rad=JOINTS))["trajectory_duration_s"] > 0
    planned = await robot.done("move_arm", pose={"x_m": 0.6, "y_m": 0.1, "z_m": 0.8}, plan_only=True)
    assert planned["planning_time_s"] > 0
    await robot.done("move_arm", pose={"x_m": 0.6, "y_m": 0.1, "z_m": 0.8})
    task, _ = await robot.do("move_arm", pose={"x_m": 3.0, "y_m": 0.0, "z_m": 0.8})
    assert task["failure"]["error_code"] == "MOVEIT_NO_IK"
    await robot.done("move_arm", target="home")


async def test_the_gripper_closes_on_nothing_and_opens(robot: Robot) -> None:
    closed = await robot.done("gripper", command="close")
    assert closed["holding"] == "probably not"
    shut = await robot.talk.call("gripper", command="close", expect_object=True)
    assert shut.structured_content["error"]["error_code"] == "GRIPPER_SHUT"
    await robot.done("gripper", command="open")
    task, _ = await robot.do("gripper", command="close", expect_object=True)
    assert task["failure"]["error_code"] == "GRIPPER_EMPTY"
    opened = await robot.done("gripper", position_m=0.06)
    assert opened["position_m"] == pytest.approx(0.06, abs=0.006)
    await robot.done("gripper", command="open")


async def test_a_trajectory_goes_straight_to_the_controller(
    sim: Any, start_bridge: Callable[..., BridgeProcess], receiver: Receiver, tmp_path: Path
) -> None:
    """Off in the template; a robot's owner switches it on."""
    before, after = SKILLS.read_text().split("  follow_joint_trajectory:\n")
    skills = tmp_path / "skills.yaml"
    skills.write_text(
        f"{before}  follow_joint_trajectory:\n{after.replace('enabled: false', 'enabled: true', 1)}"
    )
    bridge = start_bridge(
        skills=skills, environment={"RVC_CALLBACK_URL": receiver.url, "RVC_EVENT_SECRET": "end-to-end-secret"}
    )
    async with Client(bridge.url) as client:
        robot = Robot(Talker(client), receiver)
        points = [
            {"time_from_start_s": 3.0, "joints_rad": JOINTS},
            {"time_from_start_s": 5.0, "joints_rad": {**JOINTS, "elbow_joint": 1.5}},
        ]
        task, progress = await robot.do("follow_joint_trajectory", points=points)
        assert task["state"] == "succeeded", task
        assert task["est_duration_s"] == 5.0
        found = [p["percent"] for p in progress if p.get("percent") is not None]
        assert found == sorted(found)
        assert found[-1] == 100.0
