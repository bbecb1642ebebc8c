"""Sensors beside the pose, and how the robot handles objects, in the configuration file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from robot_mcp_kit.skills.config.types import ActionName, Frame, Name, NotNegative, Positive, Real, Section

Share = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1)]
Percent = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=100)]


class PerceptionSection(Section):
    """The topic on which detected objects are told."""

    topic: ActionName = "detected_objects"
    type: Literal["vision_msgs/msg/Detection3DArray"] = "vision_msgs/msg/Detection3DArray"
    """An object's name is the ``id`` of its detection, or else the class that is most likely."""
    min_confidence: Share = 0.5
    """Less likely ones are not reported."""
    max_age_s: Positive = 2.0
    """A look that is older counts as no look."""


class GripperSensorSection(Section):
    """The gripper's own joint on a sensor_msgs/msg/JointState topic."""

    topic: ActionName = "joint_states"
    joint: Name
    """Its position is the gap in metres; see ``closed_position`` and ``open_position``."""
    open_gap_m: Positive
    closed_gap_m: NotNegative = 0.0
    open_position: Real | None = None
    """Joint position at ``open_gap_m``, for joints that are not the gap itself."""
    closed_position: Real | None = None
    tolerance_m: Positive = 0.003
    """Nearer than this to open or shut counts as open or shut."""
    max_age_s: Positive = 2.0

    @model_validator(mode="after")
    def _both_positions(self) -> GripperSensorSection:
        if (self.open_position is None) != (self.closed_position is None):
            raise ValueError("open_position and closed_position go together")
        if self.open_position is not None and self.open_position == self.closed_position:
            raise ValueError("open_position and closed_position must differ")
        if not self.closed_gap_m < self.open_gap_m:
            raise ValueError("closed_gap_m must be smaller than open_gap_m")
        return self

    def gap_of(self, position: float) -> float:
        """The gap for a joint position."""
        if self.open_position is None or self.closed_position is None:
            return position
        share = (position - self.closed_position) / (self.open_position - self.closed_position)
        return self.closed_gap_m + share * (self.open_gap_m - self.closed_gap_m)

    def holds_something(self, gap_m: float) -> bool:
        """Whether the fingers stand neither open nor shut."""
        return self.closed_gap_m + self.tolerance_m < gap_m < self.open_gap_m - self.tolerance_m


class ArmSensorSection(Section):
    """The arm's joints on a sensor_msgs/msg/JointState topic."""

    topic: ActionName = "joint_states"
    arm: Name
    """Which of the file's ``arms``."""
    max_age_s: Positive = 2.0


class BatterySensorSection(Section):
    """A sensor_msgs/msg/BatteryState topic."""

    topic: ActionName = "battery_state"
    max_age_s: Positive = 10.0
    low_percent: Percent = 20.0
    """Below this the reading counts as degraded."""


class SensorsSection(Section):
    """What is measured besides the pose. Each part may be left out."""

    perception: PerceptionSection | None = None
    gripper: GripperSensorSection | None = None
    arm: ArmSensorSection | None = None
    battery: BatterySensorSection | None = None


class Spot(Section):
    """A named point where an object may be put: metres."""

    x_m: Real
    y_m: Real
    z_m: Real
    frame: Frame = "map"
    description: str = ""
    aliases: list[Name] = Field(default_factory=list)


class FollowSection(Section):
    """The skill ``follow``: stay near an object that moves. Needs ``sensors.perception``."""

    navigate: Name
    """The skill that drives to a pose; of the policy ``replace``, because the robot is sent on while it
    drives.
    """
    distance_m: Positive = 1.0
    """How near to stay when the caller does not say."""
    min_distance_m: Positive = 0.6
    """The nearest a caller may ask for."""
    step_m: Positive = 0.4
    """How far the object moves before the robot is sent on."""
    max_duration_s: Positive = 300.0
    lost_after_s: Positive = 5.0
    """Out of sight for so long, it is lost."""

    @model_validator(mode="after")
    def _usual_is_allowed(self) -> FollowSection:
        if self.distance_m < self.min_distance_m:
            raise ValueError("distance_m must not be smaller than min_distance_m")
        return self


class ManipulationSection(Section):
    """Skills made of other skills: look, pick, place, handover, home, inspect.

    They need ``sensors.perception`` and ``sensors.gripper``, because each measures what it has done.
    """

    arm: Name
    """The skill (of type moveit_msgs/action/MoveGroup) that moves the arm."""
    gripper: Name
    """The skill that moves the fingers."""
    navigate: Name | None = None
    """The skill that drives to a place, for ``inspect``."""
    approach_m: Positive = 0.12
    """How far above an object the tool waits before it goes down, and where it goes back to."""
    lift_m: Positive = 0.10
    """How far a grasped object is lifted before it counts as picked."""
    reach_m: Positive | None = None
    """Longest distance on the floor from the robot's centre to an object that is picked or a spot."""
    position_tolerance_m: Positive = 0.08
    """How far from the wanted point a placed object may be."""
    joint_tolerance_rad: Positive = 0.05
    """How far from home each joint may be."""
    home_target: Name = "home"
    """Named target of the arm for ``home``."""
    handover_target: Name | None = None
    """Named target of the arm for ``handover``; left out: no such tool."""
    spots: dict[Name, Spot] = Field(default_factory=dict)
    """Where objects may be put, by name."""
