"""Short motions without a map: ``spin``, ``back_up``, ``drive_on_heading``, and ``wait`` (Nav2's behaviors).

Every goal carries a positive time allowance, because 0 means "no limit" to Nav2 (case A10), and never
disables the collision checks. Feedback has no time of its own, so time here is the bridge's.
"""

from __future__ import annotations

import abc
import math
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.nav2 import BehaviorSection, SpinSection, StraightSection, WaitSection
from robot_mcp_kit.skills.configured import SectionT
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import dig, duration_fields, duration_s, integer
from robot_mcp_kit.skills.nav2.arrival import with_position, with_words
from robot_mcp_kit.skills.nav2.base import BaseMotion
from robot_mcp_kit.skills.nav2.behavior_readers import SpinReader, StraightReader, WaitReader
from robot_mcp_kit.skills.nav2.codes import nav2_failure, nav2_note
from robot_mcp_kit.skills.nav2.conditions import out_of_the_dock
from robot_mcp_kit.skills.nav2.displacement import START, UNKNOWN, Displacement, straight, turn
from robot_mcp_kit.skills.results import PoseFacts, SkillResult
from robot_mcp_kit.skills.triggers import pose_payload

_ALLOWANCE = Field(
    None,
    description=(
        "Longest time for the motion in seconds; then it is stopped and fails. Left out: the robot's own."
    ),
)
_RETRY = (
    "It is relative, so calling it again moves again: retry with the same idempotency_key if the answer was "
    "lost, and after a failure ask only for what is left. "
)


class SpinArguments(SkillArguments):
    """A turn relative to the present heading."""

    angle_rad: Number = Field(
        description=(
            "Angle to turn in radians, relative to where the robot faces now: positive counter-clockwise "
            "(left), negative clockwise (right); 1.5708 is a quarter turn left."
        )
    )
    time_allowance_s: Number | None = _ALLOWANCE


class BackUpArguments(SkillArguments):
    """A distance backwards."""

    distance_m: Number = Field(description="How far to go backwards, in metres; a positive number.")
    speed_mps: Number | None = Field(
        None, description="Speed in metres a second, positive. Left out: the robot's usual one."
    )
    time_allowance_s: Number | None = _ALLOWANCE


class DriveOnHeadingArguments(SkillArguments):
    """A signed distance straight on."""

    distance_m: Number = Field(
        description="How far to drive straight, in metres: positive forwards, negative backwards."
    )
    speed_mps: Number | None = Field(
        None,
        description=(
            "Speed in metres a second, positive in both directions. Left out: the robot's usual one."
        ),
    )
    time_allowance_s: Number | None = _ALLOWANCE


class WaitArguments(SkillArguments):
    """A time to stand still."""

    duration_s: Number = Field(description="How long to stand still, in seconds.")


class BehaviorResult(SkillResult):
    """What the short motions tell."""

    elapsed_s: float | None = Field(description="How long it took, as Nav2 tells.")
    final_pose: PoseFacts | None = Field(description="Where the robot is, as measured; null: not known.")


class SpinResult(BehaviorResult):
    """How far it turned."""

    angle_rad: float = Field(description="As asked for.")
    last_reported_rad: float | None = Field(description="Turned, as last reported on the way.")
    measured_rad: float | None = Field(description="Turned, by the robot's own position; null: not known.")


class StraightResult(BehaviorResult):
    """How far it went."""

    distance_m: float = Field(description="As asked for; backwards is negative.")
    last_reported_m: float | None = Field(description="Gone, as last reported on the way.")
    measured_m: float | None = Field(description="Gone, by the robot's own position; null: not known.")


class WaitResult(BehaviorResult):
    """How long it stood."""

    duration_s: float = Field(description="As asked for.")


class _Behavior(BaseMotion[SectionT]):
    """What the four have in common: one result with a code and the elapsed time."""

    @abc.abstractmethod
    def told(self, spec: GoalSpec, last: Sample | None) -> dict[str, Any]:
        """What a success reports beside ``elapsed_s``."""

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            moved = self.displacement(spec)
            if moved.failure is not None:
                return Outcome(
                    "failed", failure=self._tools.fit(with_position(moved.failure, None, self._where))
                )
            elapsed_s = duration_s(result, "total_elapsed_time")
            told = {**self.told(spec, last), "elapsed_s": None if elapsed_s is None else round(elapsed_s, 2)}
            note = nav2_note(self.action_type, code, message)
            if note is not None:
                told["note"] = note
            return Outcome("succeeded", {**told, "final_pose": pose_payload(self._where())})
        if status == GoalStatus.ABORTED and code:
            failure = nav2_failure(self.action_type, code, message)
        else:
            failure = unsuccessful(status, self.action_name, message)
        failure = with_words(failure, self.so_far(spec, last))
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))

    def leaves(self, spec: GoalSpec) -> None:
        spec.context[START] = self._where()

    def displacement(self, spec: GoalSpec) -> Displacement:  # noqa: ARG002
        """What the robot's own position says about the motion."""
        return UNKNOWN

    def so_far(self, spec: GoalSpec, last: Sample | None) -> str:  # noqa: ARG002
        """One sentence about what was done before the end."""
        return ""


def allowance_s(given: float | None, section: BehaviorSection) -> float:
    """The time allowance to send: never 0, which would be "no limit".

    Raises:
        ArgumentError: negative, or longer than the robot allows.
    """
    if given is None or given == 0:
        return section.time_allowance_s
    if given < 0:
        raise ArgumentError("time_allowance_s", f"must be above 0, got {given:g}")
    if given > section.max_time_allowance_s:
        raise ArgumentError(
            "time_allowance_s", f"{given:g} is more than the {section.max_time_allowance_s:g} s allowed here"
        )
    return given


class Spin(_Behavior[SpinSection]):
    """Turn in place by a signed angle, ``nav2_msgs/action/Spin``."""

    title = "Turn in place"
    arguments = SpinArguments
    results = SpinResult
    effects = ("the robot has turned, as its own position tells where that is known",)
    trigger_types = frozenset({"eta_below", "progress_above", "stalled"})

    def __init__(
        self,
        name: str,
        section: SpinSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.preconditions = out_of_the_dock(config)
        self.description = (
            "Turn the robot in place by angle_rad radians (positive: left, counter-clockwise), to look "
            "around or to free itself. It stops short of a collision and fails then. Answers at once "
            f"with a task of a few seconds. At most {section.max_angle_rad:.4g} rad in one call. {_RETRY}"
            + self._tools.advise(
                "To face a known direction on the map use {tool} with yaw_rad.", "navigate_to"
            )
        ).rstrip()

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, SpinArguments):
            raise TypeError(f"{self.name} takes SpinArguments, got {type(arguments).__name__}")
        angle, most = arguments.angle_rad, self._section.max_angle_rad
        if angle == 0:
            raise ArgumentError("angle_rad", "must not be 0: there is nothing to turn")
        if abs(angle) > most + 1e-6:
            degrees = ""
            if abs(angle) > math.tau + 1e-6:
                degrees = f". If these are degrees, {angle:g} degrees are {math.radians(angle):.4f} rad"
            raise ArgumentError(
                "angle_rad", f"{angle:g} is more than the {most:.4g} rad allowed in one turn{degrees}"
            )
        rate = self._section.nominal_rate_radps
        side = "left" if angle > 0 else "right"
        return _spec(
            {
                "target_yaw": angle,
                "time_allowance": duration_fields(allowance_s(arguments.time_allowance_s, self._section)),
            },
            summary=f"turn {abs(angle):.2f} rad ({math.degrees(abs(angle)):.0f} degrees) to the {side}",
            est_duration_s=None if rate is None else round(abs(angle) / rate, 1),
            context={"target": angle},
        )

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return SpinReader(spec, self._where)

    def told(self, spec: GoalSpec, last: Sample | None) -> dict[str, Any]:
        return {
            "angle_rad": spec.context["target"],
            "last_reported_rad": None if last is None else last.payload.get("turned_rad"),
            "measured_rad": self.displacement(spec).measured,
        }

    def displacement(self, spec: GoalSpec) -> Displacement:
        return turn(spec, self._where(), spec.context["target"], self.name)

    def so_far(self, spec: GoalSpec, last: Sample | None) -> str:
        turned = None if last is None else last.payload.get("turned_rad")
        if turned is None:
            return ""
        return f"It had turned {turned:.2f} of {spec.context['target']:.2f} rad."


class _Straight(_Behavior[StraightSection]):
    """Driving a straight line."""

    results = StraightResult
    effects = ("the robot has moved so far, as its own position tells where that is known",)
    trigger_types = frozenset({"eta_below", "distance_below", "zone_entered", "progress_above", "stalled"})

    def __init__(
        self,
        name: str,
        section: StraightSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.description = self._describe()

    @abc.abstractmethod
    def _describe(self) -> str: ...

    def _limits(self) -> str:
        section = self._section
        return (
            f"At most {section.max_distance_m:g} m, at {section.min_speed_mps:g} to "
            f"{section.max_speed_mps:g} m/s (usually {section.speed_mps:g}). "
        )

    def _checked(self, distance_m: float) -> float:
        if distance_m == 0:
            raise ArgumentError("distance_m", "must not be 0: there is nothing to drive")
        if abs(distance_m) > self._section.max_distance_m:
            raise ArgumentError(
                "distance_m",
                (
                    f"{distance_m:g} is more than the {self._section.max_distance_m:g} m allowed at once. "
                    + self._tools.advise("For longer ways use {tool}.", "navigate_to")
                ).rstrip(),
            )
        return distance_m

    def _speed(self, given: float | None) -> float:
        section = self._section
        if given is None:
            return section.speed_mps
        if given <= 0:
            raise ArgumentError(
                "speed_mps", f"must be above 0, got {given:g}; the direction is in the tool and distance_m"
            )
        if given < section.min_speed_mps:
            raise ArgumentError(
                "speed_mps",
                f"{given:g} is below {section.min_speed_mps:g}, the slowest the robot drives: it would go "
                "faster "
                "than asked",
            )
        if given > section.max_speed_mps:
            raise ArgumentError(
                "speed_mps", f"{given:g} is more than the {section.max_speed_mps:g} m/s allowed here"
            )
        return given

    def _allowance_s(self, given: float | None, distance_m: float, speed: float) -> float:
        allowed = allowance_s(given, self._section)
        needed = abs(distance_m) / speed
        if allowed < needed:
            field = "time_allowance_s" if given else "distance_m"
            raise ArgumentError(
                field,
                f"{abs(distance_m):g} m at {speed:g} m/s take {needed:.1f} s, longer than the {allowed:g} s "
                "allowed",
            )
        return allowed

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return StraightReader(spec, self._where)

    def told(self, spec: GoalSpec, last: Sample | None) -> dict[str, Any]:
        return {
            "distance_m": spec.context["signed_m"],
            "last_reported_m": None if last is None else last.payload.get("traveled_m"),
            "measured_m": self.displacement(spec).measured,
        }

    def displacement(self, spec: GoalSpec) -> Displacement:
        return straight(spec, self._where(), spec.context["signed_m"], self.name)

    def so_far(self, spec: GoalSpec, last: Sample | None) -> str:
        traveled = None if last is None else last.payload.get("traveled_m")
        if traveled is None:
            return ""
        return f"It had gone {traveled:.2f} of {spec.context['distance_m']:.2f} m."


class BackUp(_Straight):
    """Straight backwards, ``nav2_msgs/action/BackUp``."""

    title = "Back up"
    arguments = BackUpArguments

    def _describe(self) -> str:
        return (
            "Drive the robot straight backwards by distance_m metres (a positive number), mostly to get "
            "free of something. It sees less behind itself; it stops short of a known obstacle and "
            f"fails then. Answers at once with a task of a few seconds. {self._limits()}{_RETRY}"
            + self._tools.advise("To go forwards use {tool}.", "drive_on_heading")
            + self._tools.advise("To get somewhere use {tool}.", "navigate_to")
        ).rstrip()

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, BackUpArguments):
            raise TypeError(f"{self.name} takes BackUpArguments, got {type(arguments).__name__}")
        if arguments.distance_m < 0:
            # Nav2 ignores the sign, so the robot would not do what the caller meant (case A10).
            raise ArgumentError(
                "distance_m",
                (
                    f"must be positive, got {arguments.distance_m:g}: this always goes backwards. "
                    + self._tools.advise("To go forwards use {tool}.", "drive_on_heading")
                ).rstrip(),
            )
        distance_m, speed = self._checked(arguments.distance_m), self._speed(arguments.speed_mps)
        allowed = self._allowance_s(arguments.time_allowance_s, distance_m, speed)
        return _spec(
            {
                "target": {"x": distance_m, "y": 0.0, "z": 0.0},
                "speed": speed,
                "time_allowance": duration_fields(allowed),
            },
            summary=f"back up: {distance_m:.2f} m backwards at {speed:.2f} m/s",
            est_duration_s=round(distance_m / speed, 1),
            context={"distance_m": distance_m, "signed_m": -distance_m, "speed_mps": speed},
        )


class DriveOnHeading(_Straight):
    """Straight on, forwards or backwards, ``nav2_msgs/action/DriveOnHeading``."""

    title = "Drive straight"
    arguments = DriveOnHeadingArguments

    def _describe(self) -> str:
        return (
            "Drive the robot straight on by distance_m metres along its present heading: positive "
            "forwards, negative backwards. It plans no way around anything; it stops short of a known "
            "obstacle and fails then. Answers at once with a task of a few seconds. "
            f"{self._limits()}{_RETRY}"
            + self._tools.advise("To get somewhere on the map use {tool}.", "navigate_to")
        ).rstrip()

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, DriveOnHeadingArguments):
            raise TypeError(f"{self.name} takes DriveOnHeadingArguments, got {type(arguments).__name__}")
        distance_m, speed = self._checked(arguments.distance_m), self._speed(arguments.speed_mps)
        allowed = self._allowance_s(arguments.time_allowance_s, distance_m, speed)
        way = "forwards" if distance_m > 0 else "backwards"
        return _spec(
            {
                # Nav2 wants both with the same sign (724 otherwise).
                "target": {"x": distance_m, "y": 0.0, "z": 0.0},
                "speed": math.copysign(speed, distance_m),
                "time_allowance": duration_fields(allowed),
            },
            summary=f"drive {abs(distance_m):.2f} m straight {way} at {speed:.2f} m/s",
            est_duration_s=round(abs(distance_m) / speed, 1),
            context={"distance_m": abs(distance_m), "signed_m": distance_m, "speed_mps": speed},
        )


class Wait(_Behavior[WaitSection]):
    """Stand still for a time, ``nav2_msgs/action/Wait``."""

    title = "Stand still for a while"
    arguments = WaitArguments
    results = WaitResult
    effects = ("the time has passed", "the robot stands where it stood")
    trigger_types = frozenset({"eta_below", "progress_above"})

    def __init__(
        self,
        name: str,
        section: WaitSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.description = (
            "Let the robot stand still for duration_s seconds, as a task of its own that occupies the "
            "wheels. To wait for something else (a task, a person) do not use it: follow that task with "
            f"get_task instead. At most {section.max_duration_s:g} s. Moves nothing, so a retry is safe; "
            "with an idempotency_key a repeated call starts no second wait."
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, WaitArguments):
            raise TypeError(f"{self.name} takes WaitArguments, got {type(arguments).__name__}")
        seconds = arguments.duration_s
        if seconds <= 0:
            raise ArgumentError("duration_s", f"must be above 0, got {seconds:g}")
        if seconds > self._section.max_duration_s:
            raise ArgumentError(
                "duration_s", f"{seconds:g} is more than the {self._section.max_duration_s:g} s allowed here"
            )
        return GoalSpec(
            fields={"time": duration_fields(seconds)},
            summary=f"stand still for {seconds:g} s",
            est_duration_s=seconds,
            context={"duration_s": seconds},
        )

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return WaitReader(spec.context["duration_s"])

    def told(self, spec: GoalSpec, last: Sample | None) -> dict[str, Any]:  # noqa: ARG002
        return {"duration_s": spec.context["duration_s"]}


def _spec(
    fields: dict[str, Any], *, summary: str, est_duration_s: float | None, context: dict[str, Any]
) -> GoalSpec:
    """A motion with the collision checks on. Jazzy has no such field, because there they cannot be off."""
    return GoalSpec(
        fields={**fields, "disable_collision_checks": False},
        other_forms=(fields,),
        summary=summary,
        est_duration_s=est_duration_s,
        context=context,
    )
