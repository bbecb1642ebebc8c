"""Bounds of a skill's arguments as data, with units: what ``can_do`` tells as constraints (P34)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, Field

from robot_mcp_kit.promcp.contracts import Constraints
from robot_mcp_kit.promcp.units import UNITS
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import ArmSection, GripperSection, MoveArmSection, TrajectorySection
from robot_mcp_kit.skills.config.nav2 import (
    DockSection,
    DriveSection,
    NavigateSection,
    SpinSection,
    StraightSection,
    WaitSection,
)
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.config.types import Range
from robot_mcp_kit.skills.routines.following import Follow
from robot_mcp_kit.skills.routines.grasping import Place
from robot_mcp_kit.skills.routines.looking import Inspect


class ArgumentBounds(BaseModel):
    """Of one argument; both ends are allowed."""

    argument: str = Field(description="Name of the argument; a dot leads into an object.")
    min: float | None = None
    max: float | None = None
    unit: str | None = None
    enum_values: list[str] | None = None


class RobotConstraints(Constraints):
    """proMCP's one quantity, and all arguments that are bounded."""

    arguments: list[ArgumentBounds] = Field(default_factory=list)


def constraints_of(skill: Skill, config: RobotConfig) -> RobotConstraints:
    """What is known beforehand; the goal itself is judged when it is asked about with its parameters.

    proMCP's own ``min``, ``max``, ``unit`` and ``enum_values`` repeat the first argument.
    """
    found = list(_bounds(skill, config))
    first = found[0] if found else ArgumentBounds(argument="")
    return RobotConstraints(
        min=first.min, max=first.max, unit=first.unit, enum_values=first.enum_values, arguments=found
    )


def names_of(skill: Skill, config: RobotConfig) -> list[str]:
    """Names that the skill's arguments may take: places, targets, docks, spots."""
    return [name for bounds in _bounds(skill, config) for name in bounds.enum_values or ()]


def _bounds(skill: Skill, config: RobotConfig) -> Iterator[ArgumentBounds]:
    section = config.skills.get(skill.name)
    if isinstance(section, DriveSection):
        yield from _drive(section, config, by_place=type(section) is NavigateSection)
    elif isinstance(section, SpinSection):
        yield _numbers("angle_rad", -section.max_angle_rad, section.max_angle_rad)
    elif isinstance(section, StraightSection):
        yield _numbers("distance_m", 0.0, section.max_distance_m)
        yield _numbers("speed_mps", section.min_speed_mps, section.max_speed_mps)
    elif isinstance(section, WaitSection):
        yield _numbers("duration_s", 0.0, section.max_duration_s)
    elif isinstance(section, DockSection):
        if section.docks:
            yield _names("dock_id", section.docks)
    elif isinstance(section, GripperSection):
        yield _numbers("position_m", section.closed_gap_m, section.open_gap_m)
        yield _numbers("max_effort_n", 0.0, section.max_effort_n)
        yield _names("command", {"open": None, "close": None})
    elif isinstance(section, ArmSection):
        yield from _arm(section, config)
    if isinstance(skill, Follow) and config.following is not None:
        yield _numbers("duration_s", 0.0, config.following.max_duration_s)
        yield ArgumentBounds(argument="distance_m", min=config.following.min_distance_m, unit="m")
    if isinstance(section, SetOutputSection):
        yield _names("signal", {name: None for name, signal in config.io.items() if signal.command})
    if isinstance(skill, Place) and config.manipulation is not None:
        yield _names("spot", config.manipulation.spots)
    if isinstance(skill, Inspect):
        yield _names("place", config.places)


def _drive(section: DriveSection, config: RobotConfig, *, by_place: bool) -> Iterator[ArgumentBounds]:
    where = "" if by_place else "poses."
    for axis in ("x_m", "y_m"):
        allowed: Range | None = getattr(section.limits, axis)
        if allowed is not None:
            yield _numbers(f"{where}{axis}", allowed.min, allowed.max)
    if config.places:
        yield _names(f"{where}place", config.places)
    yield _names(f"{where}frame", dict.fromkeys(config.robot.goal_frames))


def _arm(section: ArmSection, config: RobotConfig) -> Iterator[ArgumentBounds]:
    arm = config.arms[section.arm]
    where = "points." if isinstance(section, TrajectorySection) else ""
    for name, joint in arm.joints.items():
        yield _numbers(f"{where}joints_{joint.unit}.{name}", joint.range.min, joint.range.max, joint.unit)
    if isinstance(section, MoveArmSection):
        if arm.named_targets:
            yield _names("target", arm.named_targets)
        for axis, allowed in section.workspace.axes().items():
            if allowed is not None:
                yield _numbers(f"pose.{axis}", allowed.min, allowed.max)
        yield _numbers("velocity_scaling", 0.0, section.max_velocity_scaling, "ratio")


def _numbers(argument: str, least: float, most: float, unit: str | None = None) -> ArgumentBounds:
    ending = argument.rpartition("_")[2]
    return ArgumentBounds(
        argument=argument, min=least, max=most, unit=unit or (ending if ending in UNITS else None)
    )


def _names(argument: str, names: Mapping[str, object]) -> ArgumentBounds:
    return ArgumentBounds(argument=argument, enum_values=list(names))
