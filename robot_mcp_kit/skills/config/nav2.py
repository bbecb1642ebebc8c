"""The entries of Nav2's actions in the configuration file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from robot_mcp_kit.skills.config.types import (
    TWO_PI,
    Frame,
    Name,
    NavigationLimits,
    NotNegative,
    Policy,
    Positive,
    Real,
    Section,
    SkillSection,
    Yaw,
)

Count = Annotated[int, Field(strict=True, ge=1)]
CountFromZero = Annotated[int, Field(strict=True, ge=0)]


class DriveSection(SkillSection):
    """What every action that drives to poses has."""

    goal_tolerance_m: Positive = 0.5
    """A drive that "succeeded" but ended farther from the goal than this is reported as failed."""
    yaw_tolerance_rad: Positive = 0.5
    nominal_speed_mps: Positive | None = None
    """Typical speed, for the first rough duration of a trip."""
    limits: NavigationLimits = NavigationLimits()


class NavigateSection(DriveSection):
    """``nav2_msgs/action/NavigateToPose``."""

    behavior_tree: str = ""
    """File on the robot, empty for Nav2's default. Never chosen by the caller: the robot opens what it
    names.
    """


class NavigateThroughSection(NavigateSection):
    """``nav2_msgs/action/NavigateThroughPoses``."""

    max_poses: Count = 50


class FollowWaypointsSection(DriveSection):
    """``nav2_msgs/action/FollowWaypoints``."""

    max_poses: Count = 50
    max_loops: CountFromZero = 10
    """Most extra rounds a caller may ask for."""


class BehaviorSection(SkillSection):
    """What Nav2's timed behaviors have. An allowance of 0 would be "no limit", so there always is one."""

    policy: Policy = "refuse"
    time_allowance_s: Positive = 30.0
    """Sent when the caller names none."""
    max_time_allowance_s: Positive = 120.0

    @model_validator(mode="after")
    def _default_within_maximum(self) -> BehaviorSection:
        if self.time_allowance_s > self.max_time_allowance_s:
            raise ValueError(
                f"time_allowance_s ({self.time_allowance_s:g}) is more than max_time_allowance_s "
                f"({self.max_time_allowance_s:g})"
            )
        return self


class SpinSection(BehaviorSection):
    """``nav2_msgs/action/Spin``."""

    max_angle_rad: Positive = TWO_PI
    """Largest turn in one goal, either direction."""
    nominal_rate_radps: Positive | None = None
    """Typical turning rate, for the first rough duration."""


class StraightSection(BehaviorSection):
    """``nav2_msgs/action/BackUp`` and ``nav2_msgs/action/DriveOnHeading``."""

    max_distance_m: Positive = 1.0
    speed_mps: Positive = 0.15
    """Used when the caller names none."""
    min_speed_mps: NotNegative = 0.10
    """Nav2 drives no slower than its own minimum_speed (0.10): a lower request would be driven faster than
    asked.
    """
    max_speed_mps: Positive = 0.30

    @model_validator(mode="after")
    def _speeds_in_order(self) -> StraightSection:
        if not self.min_speed_mps <= self.speed_mps <= self.max_speed_mps:
            raise ValueError(
                f"speed_mps ({self.speed_mps:g}) must lie between min_speed_mps ({self.min_speed_mps:g}) and "
                f"max_speed_mps ({self.max_speed_mps:g})"
            )
        return self


class WaitSection(SkillSection):
    """``nav2_msgs/action/Wait``."""

    policy: Policy = "refuse"
    max_duration_s: Positive = 600.0


class DockPose(Section):
    """Where a dock is: the robot's pose when docked. Metres and radians in ``frame``."""

    x_m: Real
    y_m: Real
    yaw_rad: Yaw
    frame: Frame = "map"


class DockEntry(Section):
    """A dock callers may name. Known to the docking server by ``id`` (default: the entry's own name), or
    described by ``pose`` and ``type``.
    """

    id: Name | None = None
    pose: DockPose | None = None
    type: str = ""
    description: str = ""
    aliases: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_way(self) -> DockEntry:
        if self.pose is not None and self.id is not None:
            raise ValueError("give either id or pose, not both")
        if self.pose is not None and not self.type:
            raise ValueError("a dock given by pose needs its type, as the docking server's plugins name it")
        return self


class DockSection(SkillSection):
    """``nav2_msgs/action/DockRobot``."""

    policy: Policy = "refuse"
    docks: dict[Name, DockEntry] = Field(default_factory=dict)
    """Docks callers may choose from. Empty: any name the docking server knows."""
    default_dock: Name | None = None
    """Taken when the caller names none."""
    navigate_to_staging_pose: bool = True
    max_staging_time_s: Positive = 300.0
    """Longest drive to the spot in front of the dock; callers may ask for less."""

    @model_validator(mode="after")
    def _default_is_known(self) -> DockSection:
        if self.default_dock is not None and self.docks and self.default_dock not in self.docks:
            raise ValueError(
                f'default_dock "{self.default_dock}" is not one of docks ({", ".join(self.docks)})'
            )
        return self


class UndockSection(SkillSection):
    """``nav2_msgs/action/UndockRobot``."""

    policy: Policy = "refuse"
    feedback_timeout_s: NotNegative | None = 0.0
    """The action has no feedback."""
    dock_type: str = ""
    """Empty: as last docked."""
    max_undocking_time_s: Positive = 30.0


NAV2_SECTIONS: dict[str, type[SkillSection]] = {
    "nav2_msgs/action/NavigateToPose": NavigateSection,
    "nav2_msgs/action/NavigateThroughPoses": NavigateThroughSection,
    "nav2_msgs/action/FollowWaypoints": FollowWaypointsSection,
    "nav2_msgs/action/Spin": SpinSection,
    "nav2_msgs/action/BackUp": StraightSection,
    "nav2_msgs/action/DriveOnHeading": StraightSection,
    "nav2_msgs/action/Wait": WaitSection,
    "nav2_msgs/action/DockRobot": DockSection,
    "nav2_msgs/action/UndockRobot": UndockSection,
}
