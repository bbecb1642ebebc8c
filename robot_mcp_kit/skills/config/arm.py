"""Arms, grippers and their actions in the configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from robot_mcp_kit.skills.config.types import (
    ActionName,
    Frame,
    Name,
    NotNegative,
    Policy,
    Positive,
    Range,
    Real,
    Section,
    SkillSection,
)

Count = Annotated[int, Field(strict=True, ge=1)]
Scaling = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1)]
"""Share of the robot's own limit. MoveIt reads 0 as full speed, so 0 is no value here."""


class Joint(Section):
    """One joint: turning (``range_rad``) or sliding (``range_m``), and how fast a trajectory may move it."""

    range_rad: Range | None = None
    range_m: Range | None = None
    max_speed_radps: Positive | None = None
    max_speed_mps: Positive | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Joint:
        if (self.range_rad is None) == (self.range_m is None):
            raise ValueError("give either range_rad (a turning joint) or range_m (a sliding one): [min, max]")
        if self.slides and self.max_speed_radps is not None:
            raise ValueError("a sliding joint has max_speed_mps, not max_speed_radps")
        if not self.slides and self.max_speed_mps is not None:
            raise ValueError("a turning joint has max_speed_radps, not max_speed_mps")
        return self

    @property
    def slides(self) -> bool:
        return self.range_m is not None

    @property
    def unit(self) -> str:
        return "m" if self.slides else "rad"

    @property
    def range(self) -> Range:
        found = self.range_m or self.range_rad
        assert found is not None  # noqa: S101 - the validator has seen to it
        return found

    @property
    def max_speed(self) -> float | None:
        return self.max_speed_mps if self.slides else self.max_speed_radps


class NamedTarget(Section):
    """Joint positions with a name; all joints of the arm."""

    joints_rad: dict[Name, Real] = Field(default_factory=dict)
    joints_m: dict[Name, Real] = Field(default_factory=dict)
    description: str = ""
    aliases: list[Name] = Field(default_factory=list)

    @property
    def positions(self) -> dict[str, float]:
        return {**self.joints_rad, **self.joints_m}


class Arm(Section):
    """The joints of one arm, in the controller's order, and the positions callers may name."""

    joints: Annotated[dict[Name, Joint], Field(min_length=1)]
    named_targets: dict[Name, NamedTarget] = Field(default_factory=dict)

    def faults(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """What is wrong with the named targets, with the place inside this section."""
        for name, target in self.named_targets.items():
            for key, given, slides in (
                ("joints_rad", target.joints_rad, False),
                ("joints_m", target.joints_m, True),
            ):
                for joint, value in given.items():
                    where = ("named_targets", name, key, joint)
                    known = self.joints.get(joint)
                    if known is None:
                        yield where, f"is not a joint of this arm ({', '.join(self.joints)})"
                    elif known.slides is not slides:
                        yield where, f"is a joint in {known.unit}; write it in joints_{known.unit}"
                    elif value not in known.range:
                        yield where, f"{value:g} is outside the joint's range ({known.range} {known.unit})"
            missing = [joint for joint in self.joints if joint not in target.positions]
            if missing:
                yield ("named_targets", name), f"positions are missing for {', '.join(missing)}"


class ArmSection(SkillSection):
    """What every arm action has."""

    arm: Name
    """Which of the file's ``arms``."""
    policy: Policy = "refuse"
    arrival_tolerance_rad: Positive = 0.05
    """A motion to given joint positions that "succeeded", with a turning joint measured farther off than
    this, is reported as failed. Needs ``sensors.arm``.
    """
    arrival_tolerance_m: Positive = 0.01
    """The same for sliding joints."""


def _no_replacing(value: Any) -> Any:
    if value == "replace":
        raise ValueError("MoveIt cannot take a second goal while one runs; write refuse or queue")
    return value


OneAtATime = Annotated[Literal["refuse", "queue"], BeforeValidator(_no_replacing)]


SECOND_MOTION = {
    "replace": "replaces the first motion",
    "refuse": "is refused",
    "queue": "waits until the first motion has ended",
}
"""What a second call does, by policy."""


class Workspace(Section):
    """Where the tool may be sent: metres in the first of ``frames``; poses in others are refused."""

    x_m: Range | None = None
    y_m: Range | None = None
    z_m: Range | None = None

    def axes(self) -> Mapping[str, Range | None]:
        return {"x_m": self.x_m, "y_m": self.y_m, "z_m": self.z_m}


class MoveArmSection(ArmSection):
    """``moveit_msgs/action/MoveGroup``."""

    policy: OneAtATime = "refuse"
    feedback_timeout_s: NotNegative | None = 0.0
    """Feedback comes only when the phase changes."""
    group: Name
    """Planning group, as in the SRDF."""
    end_effector_link: Name
    """The link that a pose is for."""
    frames: Annotated[list[Frame], Field(min_length=1)]
    """Frames a pose may be given in; the first one is used when the caller names none."""
    workspace: Workspace = Workspace()
    position_tolerance_m: Positive = 0.005
    orientation_tolerance_rad: Positive = 0.02
    joint_tolerance_rad: Positive = 0.005
    joint_tolerance_m: Positive = 0.001
    planning_time_s: Positive = 5.0
    planning_attempts: Count = 5
    velocity_scaling: Scaling = 0.1
    """Sent when the caller names none, always explicitly."""
    acceleration_scaling: Scaling = 0.1
    max_velocity_scaling: Scaling = 0.5
    max_acceleration_scaling: Scaling = 0.5
    pipeline_id: str = ""
    planner_id: str = ""
    replan: bool = False
    """Let MoveIt plan again when the scene changes during the motion."""
    replan_attempts: Count = 2
    typical_duration_s: Positive | None = None
    """For the first rough duration of a motion."""

    @model_validator(mode="after")
    def _defaults_within_maximum(self) -> MoveArmSection:
        for what in ("velocity", "acceleration"):
            usual, most = getattr(self, f"{what}_scaling"), getattr(self, f"max_{what}_scaling")
            if usual > most:
                raise ValueError(f"{what}_scaling ({usual:g}) is more than max_{what}_scaling ({most:g})")
        return self


class TrajectorySection(ArmSection):
    """What actions that take a trajectory have."""

    max_points: Count = 200
    max_duration_s: Positive = 60.0
    """Longest trajectory: ``time_from_start`` of its last point."""


class ExecuteTrajectorySection(TrajectorySection):
    """``moveit_msgs/action/ExecuteTrajectory``."""

    policy: OneAtATime = "refuse"
    feedback_timeout_s: NotNegative | None = 0.0
    """Feedback comes only when the phase changes."""
    stop_topic: ActionName | None = "trajectory_execution_event"
    """Where ``stop`` (std_msgs/String) is published with a cancel, because MoveIt answers this action's
    cancel only after the motion. ``null``: do not, then a cancel stops nothing.
    """


class FollowJointTrajectorySection(TrajectorySection):
    """``control_msgs/action/FollowJointTrajectory``."""

    goal_time_tolerance_s: Positive = 2.0
    """How long the arm may settle at the end; 0 would be for ever."""
    path_tolerance: Positive | None = None
    """Allowed deviation on the way, rad (or m for sliding joints). ``null``: the controller's own."""
    goal_tolerance: Positive | None = None
    """The same at the end."""


class GripperSection(SkillSection):
    """``control_msgs/action/GripperCommand`` and ``ParallelGripperCommand``.

    Callers speak of the gap between the fingers in metres. Drivers that want something else (a joint angle)
    get ``open_command`` at ``open_gap_m`` and ``closed_command`` at ``closed_gap_m``, and what lies between.
    """

    feedback_timeout_s: NotNegative | None = 0.0
    """The controllers of ros2_controllers send none."""
    open_gap_m: NotNegative
    closed_gap_m: NotNegative = 0.0
    open_command: Real | None = None
    closed_command: Real | None = None
    effort_n: Positive
    """Sent when the caller names none; 0 would be the driver's own."""
    max_effort_n: Positive
    joint: str = ""
    """Name sent with ParallelGripperCommand; empty: none."""
    typical_duration_s: Positive | None = 2.0
    gap_tolerance_m: Positive = 0.01
    """A motion that "succeeded", with the fingers measured farther from the wanted gap than this, is
    reported as failed. Needs ``sensors.gripper``.
    """

    @model_validator(mode="after")
    def _makes_sense(self) -> GripperSection:
        if not self.closed_gap_m < self.open_gap_m:
            raise ValueError(
                f"closed_gap_m ({self.closed_gap_m:g}) must be smaller than open_gap_m ({self.open_gap_m:g})"
            )
        if (self.open_command is None) != (self.closed_command is None):
            raise ValueError("open_command and closed_command go together")
        if self.open_command is not None and self.open_command == self.closed_command:
            raise ValueError("open_command and closed_command must differ")
        if self.effort_n > self.max_effort_n:
            raise ValueError(
                f"effort_n ({self.effort_n:g}) is more than max_effort_n ({self.max_effort_n:g})"
            )
        return self

    def command_of(self, gap_m: float) -> float:
        """The driver's number for a gap."""
        if self.open_command is None or self.closed_command is None:
            return gap_m
        share = (gap_m - self.closed_gap_m) / (self.open_gap_m - self.closed_gap_m)
        return self.closed_command + share * (self.open_command - self.closed_command)

    def gap_of(self, command: float) -> float:
        """The gap for a driver's number."""
        if self.open_command is None or self.closed_command is None:
            return command
        share = (command - self.closed_command) / (self.open_command - self.closed_command)
        return self.closed_gap_m + share * (self.open_gap_m - self.closed_gap_m)


ARM_SECTIONS: dict[str, type[SkillSection]] = {
    "moveit_msgs/action/MoveGroup": MoveArmSection,
    "moveit_msgs/action/ExecuteTrajectory": ExecuteTrajectorySection,
    "control_msgs/action/FollowJointTrajectory": FollowJointTrajectorySection,
    "control_msgs/action/GripperCommand": GripperSection,
    "control_msgs/action/ParallelGripperCommand": GripperSection,
}
