"""Where the arm ended, against where it should be; and where it must be before a motion begins.

MoveIt and the controllers say that they are done; the joints are a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.arm.joints import JointTrajectory
from robot_mcp_kit.skills.base import Outcome, SkillArguments
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import ArmSection
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.world import ArmReading, WorldSnapshot

MISSED_CODE = "ARM_POSTCONDITION_JOINTS"
OUT_OF_RANGE_CODE = "ARM_OUT_OF_RANGE"
TOO_FAR_CODE = "ARM_START_TOO_FAR"
RANGE_NOISE = 0.02
"""So far beyond its range a joint may be read, rad or m."""


class ArmFacts(SkillResult):
    """Where the arm was measured to be."""

    measured: bool = Field(description="Whether the joints were read after the motion and compared.")
    joints_rad: dict[str, float] | None = Field(
        None, description="Turning joints, measured after the motion."
    )
    joints_m: dict[str, float] | None = Field(None, description="Sliding joints, measured after the motion.")
    largest_error_rad: float | None = Field(None, description="Of the turning joint that is farthest off.")
    largest_error_m: float | None = Field(None, description="Of the sliding joint that is farthest off.")


class ArmWatch:
    """What the joints' sensor has to say about one arm's motions.

    Args:
        tool: the tool to try again with.
        section: names the arm, and how far off is not there.
        config: the arm's joints, and whether they are measured.
    """

    def __init__(self, tool: str, section: ArmSection, config: RobotConfig) -> None:
        self._tool, self._section = tool, section
        self._joints = config.arms[section.arm].joints
        sensor = config.sensors.arm
        self.watched = sensor is not None and sensor.arm == section.arm
        self.measures = frozenset({"arm"}) if self.watched else frozenset()

    def effect(self, what: str) -> str:
        """In words, for a skill's effects."""
        if not self.watched:
            return f"{what}, as MoveIt or the controller says; nothing here measures it"
        return f"{what}, as the joints themselves tell"

    def judge(self, outcome: Outcome, wanted: Mapping[str, float] | None, world: WorldSnapshot) -> Outcome:
        """A success with what was measured, or a failure when a joint is not where it was sent.

        Args:
            outcome: a success.
            wanted: positions by joint, rad or m; ``None``: the goal says nothing about joints.
            world: with the arm as read after the end.
        """
        reading = world.arm if self.watched else None
        if outcome.result is None or reading is None:
            return outcome
        told: dict[str, Any] = {**outcome.result}
        if reading.joints_rad:
            told["joints_rad"] = dict(reading.joints_rad)
        if reading.joints_m:
            told["joints_m"] = dict(reading.joints_m)
        at = reading.positions
        if wanted is None or not wanted.keys() <= at.keys():
            return replace(outcome, result=told)
        off = {joint: abs(at[joint] - value) for joint, value in wanted.items()}
        wrong = []
        for unit, tolerance in (
            ("rad", self._section.arrival_tolerance_rad),
            ("m", self._section.arrival_tolerance_m),
        ):
            mine = {joint: value for joint, value in off.items() if self._joints[joint].unit == unit}
            if not mine:
                continue
            worst = max(mine, key=mine.__getitem__)
            told[f"largest_error_{unit}"] = round(mine[worst], 4)
            if mine[worst] > tolerance:
                wrong.append(
                    f"{worst} is at {at[worst]:.3f} {unit}, {mine[worst]:.3f} {unit} off (tolerated: "
                    f"{tolerance:g} {unit})"
                )
        if not wrong:
            return replace(outcome, result={**told, "measured": True})
        return Outcome(
            "failed",
            failure=TaskFailure(
                error_code=MISSED_CODE,
                message=f"The motion was reported as done, but {' and '.join(wrong)}.",
                recoverable=True,
                suggestions=[self._tool, "get_task", "ask_person"],
            ),
        )

    # -- before a motion ------------------------------------------------------------------------------------

    def in_range(self) -> tuple[Precondition, ...]:
        """Every joint is where its range allows it to be: no planner starts from elsewhere."""
        if not self.watched:
            return ()

        def check(world: WorldSnapshot, _: SkillArguments) -> str | None:
            for name, position in () if world.arm is None else world.arm.positions.items():
                joint = self._joints[name]
                low, high = joint.range.min, joint.range.max
                if not low - RANGE_NOISE <= position <= high + RANGE_NOISE:
                    return f"{name} is at {position:g} {joint.unit}, outside its range ({joint.range})."
            return None

        text = "every joint of the arm is within its range"
        return (Precondition(OUT_OF_RANGE_CODE, text, check, ("ask_person",)),)

    def near_first(self, read: Callable[[SkillArguments], JointTrajectory]) -> tuple[Precondition, ...]:
        """The first point can be reached in its time from where the arm is."""
        if not self.watched:
            return ()

        def check(world: WorldSnapshot, arguments: SkillArguments) -> str | None:
            return None if world.arm is None else self._too_far(world.arm, read(arguments))

        text = "the arm is near enough to the first point to get there in its time_from_start_s"
        return (Precondition(TOO_FAR_CODE, text, check, (self._tool,)),)

    def _too_far(self, reading: ArmReading, trajectory: JointTrajectory) -> str | None:
        at, time_s = reading.positions, trajectory.times_s[0]
        for name, wanted in zip(trajectory.names, trajectory.points[0], strict=True):
            joint = self._joints[name]
            if joint.max_speed is None or name not in at:
                continue
            speed = max(0.0, abs(wanted - at[name]) - RANGE_NOISE) / time_s
            if speed > joint.max_speed:
                return (
                    f"{name} is at {at[name]:g} {joint.unit} and would have to move at {speed:.2f} "
                    f"{joint.unit}/s to the first point, faster than the {joint.max_speed:g} allowed; give "
                    "that point more time."
                )
        return None
