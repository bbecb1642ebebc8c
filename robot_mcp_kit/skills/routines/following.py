"""``follow``: stay near an object that moves, for a time."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.world import FollowSection
from robot_mcp_kit.skills.nav2.conditions import out_of_the_dock
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.routines.manipulation import LOOK_BOUND_S, OBJECT, SEEN, told, where
from robot_mcp_kit.skills.routines.routine import Routine, StepFailed, Steps, cancelled_step, fail
from robot_mcp_kit.skills.world import RobotPose, SeenObject, WorldSnapshot, utc_now

LOOK_PERIOD_S = 0.3
POSITION_UNKNOWN = "POSITION_UNKNOWN"
_OBJECTS = frozenset({"objects"})


def _is_somewhere(world: WorldSnapshot, _: SkillArguments) -> str | None:
    return None if world.robot is not None else "The robot's position is not known."


SOMEWHERE = Precondition(POSITION_UNKNOWN, "the robot's position is known", _is_somewhere, ("ask_person",))


class FollowArguments(SkillArguments):
    """What, how near and how long."""

    object: str = OBJECT
    duration_s: Number = Field(description="How long to follow it, in seconds.")
    distance_m: Number | None = Field(
        None, description="How near to stay, in metres from its middle. Left out: the robot's own."
    )


class FollowResult(SkillResult):
    """Where both are when the time is over."""

    message: str = Field(description="The same in words.")
    object: SeenObject
    robot: RobotPose
    distance_m: float = Field(description="Between the two, on the floor.")
    duration_s: float = Field(description="How long it was followed.")
    drives: int = Field(description="How often the robot was sent on.")


class _Chase:
    """Where the object was seen last, and where the present drive goes."""

    def __init__(self, now_s: float, seen: SeenObject | None) -> None:
        self.seen = seen
        self.seen_s = now_s
        self.aimed_at: tuple[float, float] | None = None
        self.drives = 0


class Follow(Routine):
    """Send the robot on each time the object has moved on.

    Args:
        section: the YAML's ``following``.
        config: frames, and the dock to be out of.
    """

    name = "follow"
    title = "Follow something"
    arguments = FollowArguments
    results = FollowResult
    resources = frozenset({"base"})

    def __init__(self, section: FollowSection, config: RobotConfig) -> None:
        self._section = section
        self._map = config.robot.map_frame
        self.needs = (section.navigate,)
        self.preconditions = (SEEN, SOMEWHERE, *out_of_the_dock(config))
        self.effects = (
            f"the robot stands, at most {2 * section.step_m:g} m farther from the object than asked for",
        )
        self.description = (
            "Drive after an object or person that look tells, for duration_s seconds (at most "
            f"{section.max_duration_s:g}), staying distance_m metres away from it (usually "
            f"{section.distance_m:g}, at least {section.min_distance_m:g}), facing it. Each time it has "
            f"moved on by {section.step_m:g} metres the robot is sent on by {section.navigate}, around "
            "obstacles and within the limits and approvals of that tool. It is slow to notice: not for "
            "keeping pace with somebody who walks fast, and no way to keep away from people. Fails when the "
            f"object is out of sight for {section.lost_after_s:g} s, and tells where it was seen last. "
            "cancel_task and stop end it. Repeating it after the end follows anew; with an idempotency_key "
            "a repeated call moves nothing again."
        )

    def check(self, arguments: SkillArguments) -> str:
        assert isinstance(arguments, FollowArguments)  # noqa: S101
        section = self._section
        if not 0 < arguments.duration_s <= section.max_duration_s:
            raise ArgumentError(
                "duration_s",
                f"must be above 0 and at most {section.max_duration_s:g}, got {arguments.duration_s:g}",
            )
        if arguments.distance_m is not None and arguments.distance_m < section.min_distance_m:
            raise ArgumentError(
                "distance_m", f"must be at least {section.min_distance_m:g}, got {arguments.distance_m:g}"
            )
        return f"follow {arguments.object} for {arguments.duration_s:g} s"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:
        assert isinstance(arguments, FollowArguments)  # noqa: S101
        began_s = steps.now_s()
        away_m = arguments.distance_m or self._section.distance_m
        chase = _Chase(began_s, steps.world.snapshot().find(arguments.object))
        while steps.now_s() - began_s < arguments.duration_s:
            await self._look(arguments.object, away_m, chase, steps)
            left_s = arguments.duration_s - (steps.now_s() - began_s)
            await steps.rest(min(LOOK_PERIOD_S, max(0.0, left_s)))
        await steps.stop_step()
        await steps.tell("measuring")
        return self._judge(arguments, away_m, chase, steps.now_s() - began_s, await self._fresh(steps))

    async def _look(self, name: str, away_m: float, chase: _Chase, steps: Steps) -> None:
        """Once: where it is now, and whether the robot has to be sent on."""
        self._check_drive(steps)
        world = await self._fresh(steps)
        seen, robot = world.find(name), world.robot
        if seen is None or seen.frame != self._map:
            if steps.now_s() - chase.seen_s > self._section.lost_after_s:
                self._lost(name, chase)
            return
        if robot is None:
            fail(
                POSITION_UNKNOWN,
                f"The robot's position is not known any more. {where(seen)}.",
                "ask_person",
            )
        chase.seen, chase.seen_s = seen, steps.now_s()
        at, here = (seen.x_m, seen.y_m), (robot.x_m, robot.y_m)
        aim = chase.aimed_at
        if aim is not None and math.dist(at, aim) <= self._section.step_m:
            return  # the robot is there, or on its way
        if aim is None and abs(math.dist(at, here) - away_m) <= self._section.step_m:
            return
        chase.aimed_at, chase.drives = at, chase.drives + 1
        await steps.begin(self._section.navigate, _beside(at, here, away_m, self._map))

    def _check_drive(self, steps: Steps) -> None:
        """Raises StepFailed when the present drive failed or was cancelled. It cannot have been replaced by
        the next one, so whoever replaced it has the robot now.
        """
        drive = steps.step()
        if drive is None:
            return
        if drive.failure is not None:
            raise StepFailed(self._section.navigate, drive.failure)
        if drive.state == "cancelled":
            raise StepFailed(self._section.navigate, cancelled_step(drive))

    async def _fresh(self, steps: Steps) -> WorldSnapshot:
        asked = utc_now()
        return (await steps.world.after(asked, LOOK_BOUND_S, _OBJECTS)).since(asked)

    def _lost(self, name: str, chase: _Chase) -> None:
        last = "It was never seen." if chase.seen is None else f"Seen last: {where(chase.seen)}."
        fail(
            "OBJECT_LOST",
            f"{name} has been out of sight for more than {self._section.lost_after_s:g} s. {last}",
            "look",
            "ask_person",
        )

    def _judge(
        self, arguments: FollowArguments, away_m: float, chase: _Chase, took_s: float, world: WorldSnapshot
    ) -> dict[str, Any]:
        seen, robot = world.find(arguments.object), world.robot
        if seen is None:
            self._lost(arguments.object, chase)
        assert seen is not None  # noqa: S101 - the line above raises
        if robot is None:
            fail(POSITION_UNKNOWN, f"The robot's position is not known. {where(seen)}.", "ask_person")
        distance_m = round(math.dist((seen.x_m, seen.y_m), (robot.x_m, robot.y_m)), 3)
        words = f"{where(seen)}, {distance_m:g} m from the robot"
        if distance_m > away_m + 2 * self._section.step_m:
            fail("FELL_BEHIND", f"The robot did not keep up: {words}.", "follow", "ask_person")
        return {
            "message": f"{words}.",
            "object": told(seen),
            "robot": robot.model_dump(mode="json", exclude_none=True),
            "distance_m": distance_m,
            "duration_s": round(took_s, 1),
            "drives": chase.drives,
        }


def _beside(at: tuple[float, float], here: tuple[float, float], away_m: float, frame: str) -> dict[str, Any]:
    """The pose ``away_m`` from the object, on the robot's side of it, facing it."""
    heading = math.atan2(at[1] - here[1], at[0] - here[0])
    return {
        "x_m": round(at[0] - away_m * math.cos(heading), 3),
        "y_m": round(at[1] - away_m * math.sin(heading), 3),
        "yaw_rad": round(heading, 4),
        "frame": frame,
    }
