"""``pick`` and ``place``: grasp and let go, and measure whether it came true (L1, L2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig, fold_name
from robot_mcp_kit.skills.config.world import ManipulationSection, Spot
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.routines.manipulation import (
    EMPTY,
    EMPTY_GRIPPER,
    HOLDING,
    SEEN,
    STALLED,
    Manipulation,
    ObjectArguments,
    PlaceArguments,
    _is_seen,
    gripper_words,
    told,
    where,
)
from robot_mcp_kit.skills.routines.routine import StepFailed, Steps, fail
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.skills.world import SeenObject, WorldSnapshot


class PickResult(SkillResult):
    """What is held, and where it was and is."""

    message: str = Field(description="The same in words.")
    held_object: str
    object: SeenObject = Field(description="As seen after the lift.")
    object_before: SeenObject = Field(description="As seen before the grasp.")
    gap_m: float = Field(description="Between the fingers, after the lift.")


class PlaceResult(SkillResult):
    """Where the object came to rest."""

    message: str = Field(description="The same in words.")
    placed_object: str
    object: SeenObject = Field(description="As seen after the release.")
    distance_m: float = Field(description="From the place asked for.")
    gap_m: float = Field(description="Between the fingers, after the release.")


class Pick(Manipulation):
    """Grasp an object and lift it."""

    name = "pick"
    title = "Pick up an object"
    arguments = ObjectArguments
    results = PickResult
    resources = frozenset({"arm", "gripper", "base"})

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.needs = (section.arm, section.gripper)
        reach = Precondition(
            "OUT_OF_REACH", "the object is within the arm's reach", self._in_reach, ("navigate_to",)
        )
        self.preconditions = (SEEN, EMPTY_GRIPPER, reach)
        self.effects = (
            "the gripper holds the object",
            f"the object is lifted by about {section.lift_m:g} m from where it was",
        )
        self.description = (
            "Grasp an object that look has told and lift it by about "
            f"{section.lift_m:g} metres. Opens the fingers, reaches from above, closes, lifts, and then "
            "measures whether the object came along; only then it succeeds. A failure says where the object "
            "is now. Takes 10 to 40 seconds. Before: the object is seen, the gripper is empty"
            + (f", and it is at most {section.reach_m:g} m away" if section.reach_m else "")
            + ". Do not use it to push things, or while the robot drives. After a failure look again before "
            "a new try: the object may have moved. With an idempotency_key a repeated call moves nothing "
            "again; without one, never repeat it after a lost answer."
        )

    def _in_reach(self, world: WorldSnapshot, arguments: SkillArguments) -> str | None:
        seen = world.find(getattr(arguments, "object", ""))
        if seen is None or seen.frame != self._map:
            return None
        why = self._reachable(world, seen.x_m, seen.y_m)
        return None if why is None else f"{where(seen)}. {why}"

    def check(self, arguments: SkillArguments) -> str:
        return f"pick up {getattr(arguments, 'object', '')}"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        assert isinstance(arguments, ObjectArguments)  # noqa: S101
        section = self._section
        await steps.tell("looking")
        before = await self._fresh(steps)
        seen = before.find(arguments.object)
        if seen is None:
            fail("OBJECT_NOT_SEEN", f"{_is_seen(before, arguments)} Nothing moved.", "look")
        await steps.tell("opening the gripper")
        await steps.do(section.gripper, {"command": "open"})
        await steps.tell("reaching")
        await self._arm_to(steps, seen.x_m, seen.y_m, seen.z_m + section.approach_m, seen.frame)
        await self._arm_to(steps, seen.x_m, seen.y_m, seen.z_m, seen.frame)
        await steps.tell("grasping")
        empty = await self._close(steps)
        await steps.tell("lifting")
        await self._arm_to(steps, seen.x_m, seen.y_m, seen.z_m + section.lift_m, seen.frame)
        await steps.tell("measuring")
        return self._judge(seen, await self._fresh(steps), empty, steps)

    async def _close(self, steps: Steps) -> bool:
        """Whether the fingers met, with nothing between them."""
        try:
            await steps.do(self._section.gripper, {"command": "close", "expect_object": True})
        except StepFailed as failed:
            if failed.failure.error_code == EMPTY:
                return True
            # Fingers that stop early have probably grasped; some drivers call that a failure.
            if failed.failure.error_code != STALLED:
                raise
        return False

    def _judge(self, before: SeenObject, after: WorldSnapshot, empty: bool, steps: Steps) -> dict[str, Any]:
        now, gripper = after.find(before.name), after.gripper
        lifted = now is not None and now.z_m >= before.z_m + self._section.lift_m / 2
        held = gripper is not None and gripper.holds_something and not empty
        if held and lifted and now is not None and gripper is not None:
            steps.world.hold(before.name)
            return {
                "message": f"Holding {before.name}: {where(now)}; {gripper_words(after)}.",
                "held_object": before.name,
                "object": told(now),
                "object_before": told(before),
                "gap_m": gripper.gap_m,
            }
        steps.world.hold(None)
        if now is None:
            place = f"{before.name} is not seen any more"
            code, meaning = "PICK_NOT_CONFIRMED", "whether it is held cannot be confirmed"
        elif not held:
            place, code, meaning = where(now), "GRASP_FAILED", "the grasp failed"
        else:
            place, code = where(now), "GRASP_FAILED"
            meaning = "the grasp failed although the fingers stand apart"
        return fail(
            code,
            f"{meaning[:1].upper()}{meaning[1:]}: {place}; {gripper_words(after)}; the arm is above the "
            "place of the grasp.",
            "look",
            "pick",
            "ask_person",
        )


class Place(Manipulation):
    """Put down what is held."""

    name = "place"
    title = "Put down what is held"
    arguments = PlaceArguments
    results = PlaceResult
    resources = frozenset({"arm", "gripper", "base"})

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.needs = (section.arm, section.gripper)
        reach = Precondition(
            "OUT_OF_REACH", "the spot is within the arm's reach", self._in_reach, ("navigate_to",)
        )
        self.preconditions = (HOLDING, reach)
        self.effects = ("the object rests at the spot", "the gripper is open and empty")
        spots = ", ".join(
            f"{name} ({spot.description})" if spot.description else name
            for name, spot in section.spots.items()
        )
        self.description = (
            "Put down what the gripper holds, at a named spot or at x_m, y_m, z_m (metres, in the map frame "
            f"{self._map}; z_m is where the object's own position will be). Reaches from above, opens the "
            "fingers, goes back up, and then measures where the object came to rest; only within "
            f"{section.position_tolerance_m:g} m it succeeds. Takes 10 to 40 seconds. Before: the gripper "
            "holds something; with an empty one it is refused and nothing moves. Not for handing something "
            "to a person: that is handover. With an idempotency_key a repeated call moves nothing again; "
            f"without one, never repeat it after a lost answer. Spots: {spots or 'none'}."
        )

    def _target(self, arguments: PlaceArguments) -> tuple[float, float, float, str, str]:
        """x, y, z in metres, their frame, and words."""
        given = {"x_m": arguments.x_m, "y_m": arguments.y_m, "z_m": arguments.z_m}
        if arguments.spot is not None:
            extra = next((name for name, value in given.items() if value is not None), None)
            if extra is not None:
                raise ArgumentError(extra, "give either spot or x_m, y_m and z_m, not both")
            name, spot = self._spot(arguments.spot)
            return spot.x_m, spot.y_m, spot.z_m, spot.frame, f"the spot {name}"
        missing = next((name for name, value in given.items() if value is None), None)
        if missing is not None:
            spots = list(self._section.spots)
            raise ArgumentError(missing, "is missing; give spot, or x_m, y_m and z_m", allowed=spots)
        if arguments.frame not in (None, self._map):
            raise ArgumentError("frame", f'only "{self._map}" is known here', allowed=[self._map])
        assert arguments.x_m is not None  # noqa: S101
        assert arguments.y_m is not None  # noqa: S101
        assert arguments.z_m is not None  # noqa: S101
        x_m, y_m, z_m = arguments.x_m, arguments.y_m, arguments.z_m
        return x_m, y_m, z_m, self._map, f"x_m {x_m:g}, y_m {y_m:g}, z_m {z_m:g} in {self._map}"

    def _spot(self, name: str) -> tuple[str, Spot]:
        spots: Mapping[str, Spot] = self._section.spots
        for own, spot in spots.items():
            if any(fold_name(known) == fold_name(name) for known in (own, *spot.aliases)):
                return own, spot
        message = f'there is no spot "{name}".{did_you_mean(name, spots)}'
        raise ArgumentError("spot", message, allowed=nearest_first(name, spots))

    def _in_reach(self, world: WorldSnapshot, arguments: SkillArguments) -> str | None:
        assert isinstance(arguments, PlaceArguments)  # noqa: S101
        x_m, y_m, _, frame, words = self._target(arguments)
        why = self._reachable(world, x_m, y_m) if frame == self._map else None
        return None if why is None else f"The place asked for is {words}. {why}"

    def check(self, arguments: SkillArguments) -> str:
        assert isinstance(arguments, PlaceArguments)  # noqa: S101
        return f"put down what is held at {self._target(arguments)[4]}"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        assert isinstance(arguments, PlaceArguments)  # noqa: S101
        x_m, y_m, z_m, frame, _ = self._target(arguments)
        section = self._section
        before = steps.world.snapshot()
        held = None if before.gripper is None else before.gripper.held_object
        await steps.tell("reaching")
        await self._arm_to(steps, x_m, y_m, z_m + section.approach_m, frame)
        await self._arm_to(steps, x_m, y_m, z_m, frame)
        await steps.tell("letting go")
        await steps.do(section.gripper, {"command": "open"})
        steps.world.hold(None)
        await steps.tell("going back")
        await self._arm_to(steps, x_m, y_m, z_m + section.approach_m, frame)
        await steps.tell("measuring")
        return self._judge((x_m, y_m, z_m), frame, held, await self._fresh(steps))

    def _judge(
        self, target: tuple[float, float, float], frame: str, held: str | None, after: WorldSnapshot
    ) -> dict[str, Any]:
        near = [
            (distance_m, seen)
            for seen in after.objects or ()
            if seen.frame == frame
            and (held is None or seen.name == held)
            and (distance_m := math.dist((seen.x_m, seen.y_m, seen.z_m), target)) is not None
        ]
        found = min(near, key=lambda each: each[0], default=None)
        gripper = after.gripper
        if gripper is None or gripper.holds_something:
            place = where(found[1]) if found else "where the object is, is not known"
            fail(
                "RELEASE_NOT_CONFIRMED",
                f"It was not let go: {gripper_words(after)}; {place}.",
                "gripper",
                "look",
            )
        what = held or "the object"
        if found is None:
            fail(
                "PLACE_NOT_CONFIRMED",
                f"{what} is not seen near the place asked for, so where it is, is not known; "
                f"{gripper_words(after)}.",
                "look",
                "ask_person",
            )
        distance_m, seen = round(found[0], 3), found[1]
        if distance_m > self._section.position_tolerance_m:
            fail(
                "PLACE_MISSED",
                f"It came to rest {distance_m:g} m from the place asked for: {where(seen)}; "
                f"{gripper_words(after)}.",
                "look",
                "pick",
            )
        return {
            "message": f"{where(seen)}, {distance_m:g} m from the place asked for; {gripper_words(after)}.",
            "placed_object": seen.name,
            "object": told(seen),
            "distance_m": distance_m,
            "gap_m": gripper.gap_m,
        }
