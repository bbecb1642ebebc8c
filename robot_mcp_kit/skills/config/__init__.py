"""The one YAML that says what this robot can do: its actions, frames, limits, arms, places and zones.

``config/skills.yaml`` is the commented template. Everything is checked at start: an unknown key, a duplicate
name or a place outside the limits stops the node with the file, the line and the key, because the
alternative is a robot that drives by a default nobody chose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config.arm import ARM_SECTIONS, Arm, ArmSection
from robot_mcp_kit.skills.config.generic import GenericSection
from robot_mcp_kit.skills.config.nav2 import NAV2_SECTIONS, DockSection, DriveSection, NavigateSection
from robot_mcp_kit.skills.config.promcp import PromcpSection
from robot_mcp_kit.skills.config.rcp import RcpSection, rcp_faults
from robot_mcp_kit.skills.config.safety import SafetySection
from robot_mcp_kit.skills.config.signals import SIGNAL_SECTIONS, Signal, signal_faults
from robot_mcp_kit.skills.config.types import (
    ActionName,
    Frame,
    Name,
    NavigationLimits,
    Positive,
    Range,
    Real,
    Section,
    SkillSection,
    Yaw,
    keys_at,
)
from robot_mcp_kit.skills.config.world import FollowSection, ManipulationSection, SensorsSection
from robot_mcp_kit.skills.config.yaml_tree import Document, KeyPath, dotted, read_yaml
from robot_mcp_kit.skills.geometry import edges_cross, point_in_polygon, polygon_area
from robot_mcp_kit.skills.text import did_you_mean


class PoseSection(Section):
    """Where the robot's own position is read from: a topic, or TF where tf2_ros is installed."""

    source: Literal["topic", "tf"] = "topic"
    topic: ActionName = "amcl_pose"
    type: Literal[
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        "geometry_msgs/msg/PoseStamped",
        "nav_msgs/msg/Odometry",
    ] = "geometry_msgs/msg/PoseWithCovarianceStamped"
    max_age_s: Positive | None = None
    """Older positions count as unknown. ``null``: any age; AMCL is silent while the robot stands still."""
    good_position_std_m: Positive = 0.5
    """A position whose own covariance tells more (standard deviation) is reported as degraded."""
    good_yaw_std_rad: Positive = 0.5
    """The same for the heading."""


class RobotSection(Section):
    """Who the robot is and which TF frames a goal may name."""

    name: Name = "robot"
    description: str = ""
    map_frame: Frame = "map"
    base_frame: Frame = "base_link"
    frames: Annotated[list[Frame], Field(min_length=1)] | None = None
    """Frames a goal may be given in. Default: only ``map_frame``."""
    pose: PoseSection = PoseSection()

    @property
    def goal_frames(self) -> list[str]:
        return list(self.frames) if self.frames else [self.map_frame]

    @model_validator(mode="after")
    def _map_frame_is_allowed(self) -> RobotSection:
        if self.map_frame not in self.goal_frames:
            raise ValueError(f'frames must contain the map_frame "{self.map_frame}"')
        return self


SECTIONS: dict[str, type[SkillSection]] = {**NAV2_SECTIONS, **ARM_SECTIONS, **SIGNAL_SECTIONS}
"""Which section an action type is configured by; all others by :class:`GenericSection`."""


class Place(Section):
    """A named pose that a goal can be given by."""

    x_m: Real
    y_m: Real
    yaw_rad: Yaw
    frame: Frame = "map"
    description: str = ""
    aliases: list[Name] = Field(default_factory=list)


class Zone(Section):
    """A named area on the floor. Its corners in order, metres; it closes itself."""

    polygon_m: Annotated[list[Annotated[list[Real], Field(min_length=2, max_length=2)]], Field(min_length=3)]
    frame: Frame = "map"
    description: str = ""

    @property
    def corners(self) -> list[tuple[float, float]]:
        return [(x, y) for x, y in self.polygon_m]

    def contains(self, x_m: float, y_m: float) -> bool:
        """Whether a point (in :attr:`frame`) is inside or on the edge."""
        return point_in_polygon((x_m, y_m), self.corners)

    @model_validator(mode="after")
    def _has_an_inside(self) -> Zone:
        if polygon_area(self.corners) < 1e-6:
            raise ValueError("polygon_m encloses no area")
        if edges_cross(self.corners):
            raise ValueError(
                "the edges of polygon_m cross each other; list the corners in order around the zone"
            )
        return self


def fold_name(name: str) -> str:
    """Names are compared without case, and with ``_`` and ``-`` as spaces: "Meeting-Room" is "meeting
    room".
    """
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


class RobotConfig(Section):
    """The whole file."""

    robot: RobotSection = RobotSection()
    skills: dict[Name, Annotated[SkillSection, Field()]] = Field(default_factory=dict)
    arms: dict[Name, Arm] = Field(default_factory=dict)
    places: dict[Name, Place] = Field(default_factory=dict)
    zones: dict[Name, Zone] = Field(default_factory=dict)
    sensors: SensorsSection = SensorsSection()
    manipulation: ManipulationSection | None = None
    following: FollowSection | None = None
    io: dict[Name, Signal] = Field(default_factory=dict)
    rcp: RcpSection | None = None
    promcp: PromcpSection | None = None
    """Left out: no such surface."""
    safety: SafetySection = SafetySection()
    discover: bool = False
    """Offer a tool that lists the graph's action servers, and moves none of them."""
    _document: Document | None = PrivateAttr(default=None)

    def complaint(self, path: KeyPath, message: str) -> str:
        """A fault of that key, with file and line if this was read from a file."""
        if self._document is None:
            return f"{dotted(path)}: {message}"
        return self._document.complaint(path, message)

    @model_validator(mode="before")
    @classmethod
    def _sections_by_type(cls, data: Any) -> Any:
        """Give each skill the section of its action type, so that its own keys are known."""
        skills = data.get("skills") if isinstance(data, dict) else None
        if not isinstance(skills, dict):
            return data
        return {**data, "skills": {name: _skill_section(name, value) for name, value in skills.items()}}

    def find_place(self, name: str) -> tuple[str, Place] | None:
        """The place of that name or alias and its own name, compared as :func:`fold_name` says."""
        wanted = fold_name(name)
        for own, place in self.places.items():
            if any(fold_name(known) == wanted for known in (own, *place.aliases)):
                return own, place
        return None


class _SkillErrors(Exception):
    """Carries a nested validation error out of a validator with its location."""

    def __init__(self, where: KeyPath, errors: list[ErrorDetails], model: type[SkillSection]) -> None:
        super().__init__(str(where))
        self.where, self.errors, self.model = where, errors, model


def _skill_section(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    section = SECTIONS.get(str(value.get("type")), GenericSection)
    if value.get("generic") is True:
        section = GenericSection
    try:
        return section.model_validate(value)
    except ValidationError as error:
        raise _SkillErrors(("skills", name), error.errors(), section) from error


def load_config(path: str | os.PathLike[str]) -> RobotConfig:
    """Read and check one YAML file.

    Raises:
        ConfigError: every fault found, one a line, each with file, line and key.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start})") from error
    return parse_config(text, str(file))


def parse_config(text: str, source: str = "skills.yaml") -> RobotConfig:
    """As :func:`load_config`, from text; ``source`` is the name in complaints."""
    document = read_yaml(text, source)
    if not isinstance(document.data, dict):
        known = ", ".join(RobotConfig.model_fields)
        raise ConfigError(document.complaint((), f"expected keys: {known}"))
    try:
        config = RobotConfig.model_validate(document.data)
    except _SkillErrors as error:
        complaints = [_explain(document, error.where, details, error.model) for details in error.errors]
        raise ConfigError("\n".join(complaints)) from None
    except ValidationError as error:
        complaints = [_explain(document, (), details, RobotConfig) for details in error.errors()]
        raise ConfigError("\n".join(complaints)) from None
    complaints = [document.complaint(path, message) for path, message in _contradictions(config)]
    if complaints:
        raise ConfigError("\n".join(complaints))
    config._document = document
    return config


def _contradictions(config: RobotConfig) -> Iterator[tuple[KeyPath, str]]:
    """Faults between sections, which no single value shows."""
    frames = config.robot.goal_frames
    yield from _double_names(
        ("places",), {name: place.aliases for name, place in config.places.items()}, "place"
    )
    for kind, things in (("places", config.places), ("zones", config.zones)):
        for name, thing in things.items():
            if thing.frame not in frames:
                listed = ", ".join(frames)
                yield (kind, name, "frame"), f'"{thing.frame}" is not one of robot.frames ({listed})'
    for name, arm in config.arms.items():
        for path, message in arm.faults():
            yield ("arms", name, *path), message
        yield from _double_names(
            ("arms", name, "named_targets"),
            {target: entry.aliases for target, entry in arm.named_targets.items()},
            "target",
        )
    for skill, section in config.skills.items():
        if isinstance(section, DriveSection) and section.enabled:
            yield from _places_outside(config, skill, section.limits)
        if isinstance(section, ArmSection) and section.arm not in config.arms:
            listed = ", ".join(config.arms) or "the file has none"
            yield ("skills", skill, "arm"), f'"{section.arm}" is not one of arms ({listed})'
        if isinstance(section, DockSection):
            yield from _dock_faults(config, skill, section)
    yield from signal_faults(config.io, config.skills)
    if config.rcp is not None:
        yield from rcp_faults(config.rcp, config.skills, config.arms)


def _dock_faults(config: RobotConfig, skill: str, section: DockSection) -> Iterator[tuple[KeyPath, str]]:
    frames = config.robot.goal_frames
    for name, dock in section.docks.items():
        if dock.pose is not None and dock.pose.frame not in frames:
            path = ("skills", skill, "docks", name, "pose", "frame")
            yield path, f'"{dock.pose.frame}" is not one of robot.frames ({", ".join(frames)})'
    yield from _double_names(
        ("skills", skill, "docks"), {name: dock.aliases for name, dock in section.docks.items()}, "dock"
    )


def _double_names(
    where: KeyPath, aliases_by_name: Mapping[str, Sequence[str]], kind: str
) -> Iterator[tuple[KeyPath, str]]:
    """Names and aliases that fold to the same text."""
    owner: dict[str, str] = {}
    for name, aliases in aliases_by_name.items():
        for index, known in enumerate([name, *aliases]):
            path: KeyPath = (*where, name) if index == 0 else (*where, name, "aliases", index - 1)
            folded = fold_name(known)
            if not folded:
                yield path, "a name needs at least one letter or digit"
            elif folded in owner:
                yield (
                    path,
                    f'"{known}" already names the {kind} "{owner[folded]}"; names and aliases must differ',
                )
            else:
                owner[folded] = name


def _places_outside(
    config: RobotConfig, skill: str, limits: NavigationLimits
) -> Iterator[tuple[KeyPath, str]]:
    for name, place in config.places.items():
        if place.frame != config.robot.map_frame:
            continue
        for axis, value, allowed in (("x_m", place.x_m, limits.x_m), ("y_m", place.y_m, limits.y_m)):
            if allowed is not None and value not in allowed:
                yield ("places", name, axis), f"{value:g} is outside skills.{skill}.limits.{axis} ({allowed})"


def _explain(document: Document, base: KeyPath, error: ErrorDetails, model: type[BaseModel]) -> str:
    path: KeyPath = (*base, *(part for part in error["loc"] if part != "[key]"))
    kind, last = error["type"], str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        known = keys_at(model, path[len(base) : -1])
        return document.complaint(
            path, f"unknown key.{did_you_mean(last, known)} Known here: {', '.join(known)}"
        )
    if kind == "missing":
        return document.complaint(path[:-1], f'the key "{last}" is missing')
    if kind == "string_pattern_mismatch":
        example = _PATTERNS.get(last, "letters, digits, _ and /")
        return document.complaint(path, f"{error['input']!r} is not a name ROS accepts; {example}")
    got = error["input"]
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return document.complaint(path, f"expected keys with values below it, got {got!r}")
    message = error["msg"].removeprefix("Value error, ")
    shown = "" if kind == "value_error" or isinstance(got, dict | list | BaseModel) else f" (got {got!r})"
    hint = _number_hint(got) if kind in ("float_type", "float_parsing") else ""
    return document.complaint(path, f"{message}{shown}{hint}")


_PATTERNS = {"action": "for example navigate_to_pose", "type": "for example nav2_msgs/action/NavigateToPose"}


def _number_hint(got: Any) -> str:
    if isinstance(got, bool):
        return "; YAML reads yes, no, on and off as true and false"
    if isinstance(got, str):
        return "; write the number without quotes, and 1e3 as 1.0e+3"
    return ""


__all__ = [
    "SECTIONS",
    "NavigateSection",
    "NavigationLimits",
    "Place",
    "PoseSection",
    "Range",
    "RobotConfig",
    "RobotSection",
    "SkillSection",
    "Zone",
    "dotted",
    "fold_name",
    "load_config",
    "parse_config",
]
