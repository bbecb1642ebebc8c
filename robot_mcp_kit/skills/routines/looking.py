"""``look`` and ``inspect``: what is seen, from here or from a place."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.world import ManipulationSection
from robot_mcp_kit.skills.results import LookFacts
from robot_mcp_kit.skills.routines.manipulation import (
    InspectArguments,
    LookArguments,
    Manipulation,
    _is_seen,
    gripper_words,
    told,
    where,
)
from robot_mcp_kit.skills.routines.routine import Steps, fail
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.skills.world import RobotPose


class Look(Manipulation):
    """Tell which objects are seen, and where."""

    name = "look"
    title = "Look for objects"
    arguments = LookArguments
    results = LookFacts
    read_only = True
    effects = ("nothing has changed", "the answer lists the objects that are seen now, with positions")

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.description = (
            "Tell which objects the robot sees from where it is, with positions in metres in the frame that "
            "each names, as measured during this call. Moves nothing and may be repeated at any time. An "
            "object that is not listed is hidden or too far away, not necessarily gone. Not for driving "
            "somewhere to look: that is inspect."
        )

    def check(self, arguments: SkillArguments) -> str:
        return f"look for {getattr(arguments, 'object', None) or 'objects'}"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        assert isinstance(arguments, LookArguments)  # noqa: S101
        world = await self._fresh(steps)
        if world.objects is None:
            fail("PERCEPTION_SILENT", "No fresh look came from perception.", "ask_person")
        if arguments.object is not None and world.find(arguments.object) is None:
            why = _is_seen(world, arguments)
            fail("OBJECT_NOT_SEEN", f"{why} Nothing moved.", "inspect", "ask_person")
        wanted = [
            s
            for s in world.objects
            if arguments.object in (None, s.name) or s == world.find(arguments.object)
        ]
        words = "; ".join(where(seen) for seen in wanted) or "no objects are seen"
        return {"message": f"{words}; {gripper_words(world)}.", "objects": [told(seen) for seen in wanted]}


class InspectResult(LookFacts):
    """What was seen, and from where."""

    robot: RobotPose | None = Field(None, description="Where the robot was when it looked.")


class Inspect(Manipulation):
    """Drive somewhere and look."""

    name = "inspect"
    title = "Go and look"
    arguments = InspectArguments
    results = InspectResult
    resources = frozenset({"base"})

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.needs = () if section.navigate is None else (section.navigate,)
        self.effects = ("the robot is at the place, if one was named", "the answer lists what is seen there")
        self.description = (
            "Drive to a place (or stay, if none is named) and tell which objects are seen there, with "
            "positions in metres in the frame that each names. With object it fails unless that object is "
            "seen. Takes as long as the drive. Not for looking around from where the robot is: look does "
            "that without moving. The goal is absolute, so a retry is safe; with an idempotency_key a "
            "repeated call moves nothing again."
        )

    def check(self, arguments: SkillArguments) -> str:
        assert isinstance(arguments, InspectArguments)  # noqa: S101
        if arguments.place is None:
            return "look around"
        if self._section.navigate is None:
            raise ArgumentError("place", "this robot has no drive that inspect may use; leave place out")
        found = self._config.find_place(arguments.place)
        if found is None:
            names = self._config.places
            raise ArgumentError(
                "place",
                f'there is no place "{arguments.place}".{did_you_mean(arguments.place, names)}',
                allowed=nearest_first(arguments.place, names),
            )
        return f"drive to {found[0]} and look"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        assert isinstance(arguments, InspectArguments)  # noqa: S101
        if arguments.place is not None and self._section.navigate is not None:
            await steps.tell("driving")
            await steps.do(self._section.navigate, {"place": arguments.place})
        await steps.tell("looking")
        world = await self._fresh(steps)
        if world.objects is None:
            fail("PERCEPTION_SILENT", "No fresh look came from perception.", "ask_person")
        if arguments.object is not None and world.find(arguments.object) is None:
            fail("OBJECT_NOT_SEEN", f"{_is_seen(world, arguments)}", "look", "inspect")
        words = "; ".join(where(seen) for seen in world.objects) or "no objects are seen"
        result: dict[str, Any] = {"message": f"{words}.", "objects": [told(seen) for seen in world.objects]}
        if world.robot is not None:
            result["robot"] = world.robot.model_dump(mode="json")
        return result
