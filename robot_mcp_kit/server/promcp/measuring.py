"""What a skill changes in the world, measured before and after it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.skills.base import Skill, SkillArguments
from robot_mcp_kit.skills.routines.grasping import Pick, Place
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.skills.world import (
    MEASURED,
    ArmReading,
    GripperReading,
    RobotPose,
    SeenObject,
    World,
    WorldSnapshot,
    utc_now,
)

FRESH_BOUND_S = 3.0
"""How long to wait for what is measured after a motion."""
POSE_BOUND_S = 1.0
"""The same for the robot's pose, which many localizers tell only while it moves."""
_LOOK_AGAIN_S = 0.05
SAME_M, SAME_RAD = 0.005, 0.01
"""Measured nearer than this to before, a part has not moved."""

BASE, ARM, GRIPPER, OBJECT = "robot", "arm", "gripper", "object"
_PART_OF_RESOURCE = {"base": BASE, "arm": ARM, "gripper": GRIPPER}
_MOVES = {
    BASE: "the robot's base moves",
    ARM: "the arm moves",
    GRIPPER: "the fingers move",
    OBJECT: "the object is moved",
}
TAKES_OVER = "a running motion of the same part ends"
OUTPUT_CHANGES = "an output of the robot changes"
UNKNOWN_MOTION = "something on the robot moves"


class Measured(BaseModel):
    """Parts of the world that a skill acts on; null: not measured, or not this skill's concern."""

    model_config = ConfigDict(frozen=True)

    robot: RobotPose | None = Field(None, description="Where the base is.")
    arm: ArmReading | None = None
    gripper: GripperReading | None = None
    object: SeenObject | None = Field(None, description="The object that is handled.")

    @property
    def parts(self) -> dict[str, BaseModel]:
        """Those that were measured."""
        return {name: part for name in Measured.model_fields if (part := getattr(self, name)) is not None}


def parts_of(skill: Skill, skills: Mapping[str, Skill]) -> frozenset[str]:
    """What of :class:`Measured` a skill acts on. A routine acts through the skills of its steps."""
    resources = set(skill.resources)
    if isinstance(skill, Routine):
        resources = {resource for step in skill.needs for resource in skills[step].resources}
    found = {_PART_OF_RESOURCE[name] for name in resources if name in _PART_OF_RESOURCE}
    if isinstance(skill, Pick | Place):
        found.add(OBJECT)
    return frozenset(found)


def side_effects_of(parts: Iterable[str], *, takes_over: bool) -> list[str]:
    """What a skill may do besides, in words; the same before the call and after it (P26)."""
    words = [_MOVES[part] for part in _MOVES if part in set(parts)]
    return [*(words or [UNKNOWN_MOTION]), *([TAKES_OVER] if takes_over else [])]


def handled_object(skill: Skill, arguments: SkillArguments, world: WorldSnapshot) -> str | None:
    """Name of the object that a skill handles."""
    if isinstance(skill, Pick):
        return getattr(arguments, "object", None)
    if isinstance(skill, Place) and world.gripper is not None:
        return world.gripper.held_object
    return None


def measured_in(world: WorldSnapshot, parts: frozenset[str], name: str | None) -> Measured:
    """Those parts of a snapshot."""
    seen = None if name is None else world.find(name)
    found = {BASE: world.robot, ARM: world.arm, GRIPPER: world.gripper, OBJECT: seen}
    return Measured(**{part: value for part, value in found.items() if part in parts})


async def measure_after(
    world: World, parts: frozenset[str], name: str | None, *, clock: Clock, pose_bound_s: float = POSE_BOUND_S
) -> Measured:
    """Measure anew. Arm, fingers and objects are fresh or null; the base is where it was told last."""
    asked = utc_now()
    wanted = {OBJECT: "objects"}
    fresh = frozenset(wanted.get(part, part) for part in parts) & MEASURED
    snapshot = (await world.after(asked, FRESH_BOUND_S, fresh)).since(asked) if fresh else world.snapshot()
    if BASE in parts:
        # Localizers that are silent at rest have told the end of the drive already, or never will again.
        end_s, moment = clock.now() + pose_bound_s, asked - timedelta(milliseconds=1)
        while not _told_since(snapshot.robot, moment) and clock.now() < end_s:
            await clock.sleep(_LOOK_AGAIN_S)
            snapshot = snapshot.model_copy(update={"robot": world.snapshot().robot})
    return measured_in(snapshot, parts, name)


def _told_since(pose: RobotPose | None, moment: datetime) -> bool:
    return pose is not None and pose.measured_at >= moment


def unmoved(before: Measured, after: Measured, began: datetime) -> frozenset[str]:
    """Parts that were measured on both sides and are where they were."""
    told = {
        part
        for part, value in after.parts.items()
        if part in before.parts and value.measured_at >= began  # type: ignore[attr-defined]
    }
    return frozenset(part for part in told if _same(before.parts[part], after.parts[part]))


def _same(before: BaseModel, after: BaseModel) -> bool:
    a, b = before.model_dump(exclude={"measured_at"}), after.model_dump(exclude={"measured_at"})
    return all(_equal(name, a[name], b[name]) for name in a)


def _equal(name: str, a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(name, a[key], b[key]) for key in a)
    if isinstance(a, bool) or not isinstance(a, float) or not isinstance(b, float):
        return a == b or name in ("confidence", "width_m")
    if name == "confidence":
        return True
    if name == "yaw_rad":
        return abs(math.remainder(a - b, math.tau)) <= SAME_RAD
    return abs(a - b) <= (SAME_RAD if name.endswith("_rad") else SAME_M)
