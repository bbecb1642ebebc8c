"""The ``read_`` tools: the robot as its sensors told it last, with when, how fresh, and how sure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from robot_mcp_kit.models import TaskInfo, UtcTime
from robot_mcp_kit.promcp.decorators import Reading, read_tool
from robot_mcp_kit.promcp.registry import Registry
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.world import (
    ArmReading,
    BatteryReading,
    GripperReading,
    RobotPose,
    SeenObject,
    World,
)
from robot_mcp_kit.tasks import TaskManager


class MotionState(BaseModel):
    """One motion, as it stands."""

    task_id: str
    tool: str = Field(description="The skill.")
    state: str = Field(description="running, succeeded, failed or cancelled.")
    phase: str | None = Field(None, description="awaiting_approval: a person has to agree first.")
    percent: float | None = Field(None, description="Of the way; null: not told.")
    eta_s: float | None = Field(None, description="Seconds to go; null: not known, never guessed.")
    distance_m: float | None = Field(None, description="Metres to go.")
    began_at: UtcTime
    told_at: UtcTime


class BatteryCharge(BatteryReading):
    """Charge, and below what it counts as low."""

    low_percent: float


def add_reads(
    registry: Registry, reads: tuple[str, ...], world: World, config: RobotConfig, manager: TaskManager
) -> None:
    """Add those readings to a registry, in that order.

    Args:
        registry: its clock says how old a reading is.
        reads: tool names, ``read_robot_pose``.
        world: what sensors told.
        config: for how long a reading is fresh, and what is normal.
        manager: for the motions.
    """
    for name in reads:
        _READS[name](registry, world, config, manager)


Adder = Callable[[Registry, World, RobotConfig, TaskManager], Any]


def _pose(registry: Registry, world: World, config: RobotConfig, _manager: TaskManager) -> None:
    section = config.robot.pose

    @read_tool(
        "Where the robot's base is: x_m, y_m (metres) and yaw_rad (radians, counter-clockwise) in the frame "
        "that the value names. degraded: the localization is not sure of it; do not drive by it without "
        "asking a person. Not for where objects are, and not for the arm.",
        unit="m, rad",
        freshness_s=section.max_age_s,
        value=RobotPose,
        registry=registry,
    )
    async def read_robot_pose() -> Reading:
        pose = world.latest().robot
        if pose is None:
            return Reading(None, detail="No position of the robot in the map frame has been told.")
        doubts = [
            f"{name} is {value:g} {unit}, more than {most:g}"
            for name, value, most, unit in (
                ("the position's standard deviation", pose.position_std_m, section.good_position_std_m, "m"),
                ("the heading's standard deviation", pose.yaw_std_rad, section.good_yaw_std_rad, "rad"),
            )
            if value is not None and value > most
        ]
        return _reading(pose, pose.measured_at, doubts)


def _battery(registry: Registry, world: World, config: RobotConfig, _manager: TaskManager) -> None:
    section = config.sensors.battery
    low_percent = 0.0 if section is None else section.low_percent

    @read_tool(
        f"Charge of the battery in percent. degraded: below {low_percent:g} percent, so drive to the dock "
        "before anything long. Not for voltage or current, and not for when it will be empty.",
        unit="percent",
        freshness_s=None if section is None else section.max_age_s,
        value=BatteryCharge,
        registry=registry,
    )
    async def read_battery_charge() -> Reading:
        battery = world.latest().battery
        if battery is None:
            return Reading(None, detail="The battery has told nothing.")
        low = battery.charge_percent < low_percent
        value = BatteryCharge(**battery.model_dump(), low_percent=low_percent)
        doubts = [f"{battery.charge_percent:g} percent is low (below {low_percent:g})"] if low else []
        return _reading(value, battery.measured_at, doubts)


def _objects(registry: Registry, world: World, config: RobotConfig, _manager: TaskManager) -> None:
    section = config.sensors.perception

    @read_tool(
        "Objects that the robot sees from where it is: name, x_m, y_m, z_m (metres) in the frame that each "
        "names, and how sure perception is. An object that is not listed is hidden or too far away, not "
        "necessarily gone. Not for driving somewhere to look.",
        unit="m",
        freshness_s=None if section is None else section.max_age_s,
        value=list[SeenObject],
        registry=registry,
    )
    async def read_visible_objects() -> Reading:
        known = world.latest()
        if known.objects is None:
            return Reading(None, detail="Perception has told nothing.")
        return _reading(list(known.objects), known.looked_at, [])


def _gripper(registry: Registry, world: World, config: RobotConfig, _manager: TaskManager) -> None:
    section = config.sensors.gripper

    @read_tool(
        "The gripper: gap_m between the fingers in metres, whether something is held, and what, where that "
        "is known. Not for where the gripper is in the room.",
        unit="m",
        freshness_s=None if section is None else section.max_age_s,
        value=GripperReading,
        registry=registry,
    )
    async def read_gripper_state() -> Reading:
        gripper = world.latest().gripper
        if gripper is None:
            return Reading(None, detail="The gripper's joint has told nothing.")
        return _reading(gripper, gripper.measured_at, [])


def _arm(registry: Registry, world: World, config: RobotConfig, _manager: TaskManager) -> None:
    section = config.sensors.arm
    joints = set() if section is None else set(config.arms[section.arm].joints)

    @read_tool(
        "Positions of the arm's joints by name: joints_rad in radians, joints_m in metres for sliding ones. "
        "degraded: some joints are missing. Not for the pose of the tool.",
        unit="rad, m",
        freshness_s=None if section is None else section.max_age_s,
        value=ArmReading,
        registry=registry,
    )
    async def read_arm_joints() -> Reading:
        arm = world.latest().arm
        if arm is None:
            return Reading(None, detail="The arm's joints have told nothing.")
        missing = sorted(joints - arm.positions.keys())
        return _reading(arm, arm.measured_at, [f"no position of {', '.join(missing)}"] if missing else [])


def _motions(registry: Registry, _world: World, _config: RobotConfig, manager: TaskManager) -> None:
    @read_tool(
        "How the robot's motions stand: those that run now, or the one of a task_id, also after its end. "
        "Tells phase, percent, seconds and metres to go where they are known. Not for how a motion that you "
        "began has ended: call its tool again with the same key and arguments for that.",
        value=list[MotionState],
        registry=registry,
    )
    async def read_motion_progress(task_id: str = "") -> Reading:
        if not task_id:
            return Reading([_motion(info) for info in manager.list(["running"])])
        info = manager.get(task_id)
        if info is None:
            return Reading(None, detail=f"There is no motion {task_id}, or it ended long ago.")
        return Reading([_motion(info)], timestamp=info.updated_at)


_READS: dict[str, Adder] = {
    "read_robot_pose": _pose,
    "read_battery_charge": _battery,
    "read_visible_objects": _objects,
    "read_gripper_state": _gripper,
    "read_arm_joints": _arm,
    "read_motion_progress": _motions,
}


def _reading(value: Any, at: datetime | None, doubts: list[str]) -> Reading:
    if not doubts:
        return Reading(value, timestamp=at)
    said = "; ".join(doubts)
    return Reading(value, timestamp=at, quality="degraded", detail=f"{said[0].upper()}{said[1:]}.")


def _motion(info: TaskInfo) -> MotionState:
    progress = info.progress or {}
    return MotionState(
        task_id=info.task_id,
        tool=info.tool,
        state=info.state,
        phase=progress.get("phase") if isinstance(progress.get("phase"), str) else None,
        **{name: _number(progress.get(name)) for name in ("percent", "eta_s", "distance_m")},
        began_at=info.created_at,
        told_at=info.updated_at,
    )


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None
