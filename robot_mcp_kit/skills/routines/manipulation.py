"""What the skill library's routines share: arguments, words for the world, preconditions, reaching."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.world import ManipulationSection
from robot_mcp_kit.skills.routines.routine import Routine, Steps
from robot_mcp_kit.skills.text import did_you_mean
from robot_mcp_kit.skills.world import SeenObject, WorldSnapshot, utc_now

LOOK_BOUND_S = 3.0
"""How long to wait for a fresh look."""
STALLED, EMPTY = "GRIPPER_STALLED", "GRIPPER_EMPTY"
OBJECT = Field(min_length=1, max_length=100, description="Name of the object, as look tells it.")


class LookArguments(SkillArguments):
    """What to look for."""

    object: str | None = Field(None, max_length=100, description="Only this object; left out: everything.")


class ObjectArguments(SkillArguments):
    """Which object."""

    object: str = OBJECT


class PlaceArguments(SkillArguments):
    """Either ``spot`` or ``x_m``, ``y_m``, ``z_m``."""

    spot: str | None = Field(
        None, max_length=100, description="Name of a known spot, instead of x_m, y_m, z_m."
    )
    x_m: Number | None = Field(None, description="Where the object should come to rest, metres in frame.")
    y_m: Number | None = Field(None, description="Metres in frame.")
    z_m: Number | None = Field(None, description="Height in metres above the origin of frame.")
    frame: str | None = Field(None, max_length=100, description="Frame of x_m, y_m, z_m: the map frame only.")


class InspectArguments(SkillArguments):
    """Where and what."""

    place: str | None = Field(
        None, max_length=200, description="Drive there first; left out: look from here."
    )
    object: str | None = Field(None, max_length=100, description="Fail unless this object is seen.")


class NoArguments(SkillArguments):
    """Takes none."""


def told(seen: SeenObject) -> dict[str, Any]:
    """An object as a result tells it."""
    return seen.model_dump(mode="json", exclude_none=True)


def where(seen: SeenObject) -> str:
    """In words, with the numbers of :func:`told`."""
    return f"{seen.name} is at x_m {seen.x_m:g}, y_m {seen.y_m:g}, z_m {seen.z_m:g} in {seen.frame}"


def gripper_words(world: WorldSnapshot) -> str:
    gripper = world.gripper
    if gripper is None:
        return "the gripper's state is not known"
    state = (
        "holds something"
        if gripper.holds_something
        else "is open"
        if gripper.is_open
        else "is shut and empty"
    )
    return f"the gripper {state} (gap_m {gripper.gap_m:g})"


def _names(world: WorldSnapshot) -> list[str]:
    return [seen.name for seen in world.objects or ()]


def _is_seen(world: WorldSnapshot, arguments: SkillArguments) -> str | None:
    name = getattr(arguments, "object", None)
    if name is None or world.find(name) is not None:
        return None
    if world.objects is None:
        return "Nothing is seen at all: perception is silent."
    known = _names(world)
    listed = ", ".join(known) if known else "nothing"
    return f'The robot does not see "{name}" from here; it sees {listed}.{did_you_mean(name, known)}'


def _is_empty(world: WorldSnapshot, _: SkillArguments) -> str | None:
    gripper = world.gripper
    if gripper is None:
        return "The gripper's state is not known, so it may hold something."
    if not gripper.holds_something:
        return None
    what = gripper.held_object or "something, or stands half open"
    return f"The gripper already holds {what} (gap_m {gripper.gap_m:g})."


def _holds(world: WorldSnapshot, _: SkillArguments) -> str | None:
    gripper = world.gripper
    if gripper is None:
        return "The gripper's state is not known."
    if gripper.holds_something:
        return None
    return f"The gripper holds nothing (gap_m {gripper.gap_m:g})."


SEEN = Precondition("OBJECT_NOT_SEEN", "the object is seen from where the robot is", _is_seen, ("look",))
EMPTY_GRIPPER = Precondition("GRIPPER_NOT_EMPTY", "the gripper is empty", _is_empty, ("place", "gripper"))
HOLDING = Precondition("NOTHING_HELD", "the gripper holds something", _holds, ("look", "pick"))


class Manipulation(Routine):
    """What all of them know of the robot."""

    name: str

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        self._section, self._config = section, config
        self._map = config.robot.map_frame

    def _reachable(self, world: WorldSnapshot, x_m: float, y_m: float) -> str | None:
        """Why a point of the map is out of reach; ``None`` when it is not, or nothing is known."""
        reach_m, robot = self._section.reach_m, world.robot
        if reach_m is None:
            return None
        if robot is None:
            return "The robot's position is not known, so it cannot be told whether it is within reach."
        distance_m = math.hypot(x_m - robot.x_m, y_m - robot.y_m)
        if distance_m <= reach_m:
            return None
        away = f"It is {distance_m:.2f} m from the robot's centre"
        return f"{away}, and the arm reaches {reach_m:g} m. Drive nearer."

    async def _arm_to(self, steps: Steps, x_m: float, y_m: float, z_m: float, frame: str) -> None:
        pose = {"x_m": round(x_m, 4), "y_m": round(y_m, 4), "z_m": round(z_m, 4), "frame": frame}
        await steps.do(self._section.arm, {"pose": pose})

    async def _fresh(self, steps: Steps) -> WorldSnapshot:
        """What was measured after this call; older parts count as not known."""
        asked = utc_now()
        return (await steps.world.after(asked, LOOK_BOUND_S)).since(asked)
