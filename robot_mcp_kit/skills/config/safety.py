"""The ``safety`` section: what may move, where, how fast, under which conditions, and who has to agree.

A part that is left out keeps its strict default: every motion waits for a person, unless the operator has
signed a standing approval for it. Nothing here can lower what the protocol fixes (risk levels, the prohibited
actions, the checks that every goal gets).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from robot_mcp_kit.skills.config.generic import Condition, FieldPath, Scalar
from robot_mcp_kit.skills.config.types import (
    ActionName,
    Frame,
    Name,
    NotNegative,
    Positive,
    Range,
    Real,
    Section,
)
from robot_mcp_kit.skills.geometry import edges_cross, polygon_area

Approval = Literal["required", "standing"]
Risk = Literal["SAFE", "GUARDED", "RESTRICTED", "PROHIBITED"]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1)]
CountFromOne = Annotated[int, Field(strict=True, ge=1)]
MessageType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*/msg/[A-Z][A-Za-z0-9]*$")]
MessageField = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\[\d+\])?(\.[A-Za-z_][A-Za-z0-9_]*(\[\d+\])?)*$")
]
NodeName = Annotated[str, Field(pattern=r"^/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")]
ClockTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Corner = Annotated[list[Real], Field(min_length=2, max_length=2)]

MAX_APPROVAL_S = 300.0
"""No approval waits longer, whatever the file says."""


def _ring(corners: list[list[float]]) -> list[list[float]]:
    points = [(x, y) for x, y in corners]
    if polygon_area(points) < 1e-6:
        raise ValueError("the polygon encloses no area")
    if edges_cross(points):
        raise ValueError("the polygon's edges cross each other; list the corners in order around it")
    return corners


class Polygon(Section):
    """An area on the floor; corners in order, metres. It closes itself. A bare list of corners is enough."""

    polygon_m: Annotated[list[Corner], Field(min_length=3)]

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"polygon_m": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _has_an_inside(self) -> Polygon:
        _ring(self.polygon_m)
        return self


class Floor(Section):
    """One floor of a building, in its own map frame or in one that several floors share."""

    frame: Frame = "map"
    keep_in: Annotated[dict[Name, Polygon], Field(min_length=1)] | None = None
    """A goal must lie in one of these. Left out: anywhere."""
    keep_out: dict[Name, Polygon] = Field(default_factory=dict)
    """A goal must lie in none of these, nor a straight motion cross one."""


class MessageSource(Section):
    """One field of one topic, and how old it may be."""

    topic: ActionName
    type: MessageType
    field: MessageField
    max_age_s: Positive
    """Older counts as unknown. Measured from the message's arrival, or from its stamp."""
    age_from: Literal["arrival", "stamp"] = "arrival"
    latched: bool = False
    """The publisher is transient-local; also hear what was published before."""


class Geofence(Section):
    """Where the robot's base may be sent."""

    floors: Annotated[dict[Name, Floor], Field(min_length=1)]
    margin_m: NotNegative = 0.0
    """Distance that goals keep from every edge; about the robot's radius."""
    floor_from: MessageSource | None = None
    """Which floor the robot is on (its name, as text). Needed when floors share a frame."""
    watch: bool = True
    """While a motion of the base runs, stop it when the robot's own position leaves the fence."""

    @model_validator(mode="after")
    def _floors_can_be_told_apart(self) -> Geofence:
        frames = [floor.frame for floor in self.floors.values()]
        if len(set(frames)) < len(frames) and self.floor_from is None:
            raise ValueError("floors that share a frame need floor_from: nothing else tells them apart")
        return self


class FieldLimit(Section):
    """What one field of the goal may be. Both ends are allowed values."""

    min: Real | None = None
    max: Real | None = None
    max_abs: Positive | None = None
    choices: Annotated[list[Scalar], Field(min_length=1)] | None = None
    required: bool = True
    """The field must be in the goal that is sent; ROS would fill a missing one with 0."""

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        if isinstance(value, list) and len(value) == 2:
            return {"min": value[0], "max": value[1]}
        return value

    @model_validator(mode="after")
    def _says_something(self) -> FieldLimit:
        numbers = (self.min, self.max, self.max_abs)
        if all(value is None for value in numbers) and self.choices is None:
            raise ValueError("write [min, max], or some of min, max, max_abs, choices")
        if self.choices is not None and any(value is not None for value in numbers):
            raise ValueError("choices and a range contradict each other")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min ({self.min:g}) is more than max ({self.max:g})")
        return self


class Rate(Section):
    """At most ``count`` starts in ``per_s`` seconds, and together at most ``distance_m`` of them."""

    count: CountFromOne
    per_s: Positive
    distance_m: Positive | None = None
    """Summed over straight motions and drives: many small moves are one large move."""


class SkillSafety(Section):
    """The rules of one skill, beside those of its own entry under ``skills``."""

    risk: Risk | None = None
    """Raises the level that the protocol fixes; it can not be lowered."""
    approval: Approval | None = None
    rate: Rate | None = None
    cooldown_s: NotNegative = 0.0
    """Least time between two starts."""
    fields: dict[FieldPath, FieldLimit] = Field(default_factory=dict)
    """By path in the goal, as in ``ros2 interface show``; ``[]`` for each element of a list."""
    frames: Annotated[list[Frame], Field(min_length=1)] | None = None
    behavior_trees: list[str] = Field(default_factory=list)
    """Trees that may be named beside the one of the skill's own entry."""
    max_distance_m: Positive | None = None
    """Straight line from where the robot is to each pose of the goal, and length of a straight motion."""
    max_speed_mps: Positive | None = None
    max_time_allowance_s: Positive | None = None
    max_velocity_scaling: Share | None = None
    max_acceleration_scaling: Share | None = None
    max_joint_acceleration: Positive | None = None
    """Of the points of a trajectory, rad/s² (m/s² for sliding joints)."""
    max_effort: Positive | None = None
    """Gripper: newtons (newton metres for turning ones)."""
    workspace: dict[Literal["x_m", "y_m", "z_m"], Range] | None = None
    """Box for poses of the tool, in ``workspace_frame``."""
    workspace_frame: Frame | None = None

    @model_validator(mode="after")
    def _workspace_has_a_frame(self) -> SkillSafety:
        if self.workspace is not None and self.workspace_frame is None:
            raise ValueError("workspace needs workspace_frame: in which frame are these metres?")
        return self


class InterlockSection(Section):
    """A condition that must hold before a goal leaves; with ``hold`` also while it runs.

    Either a field of a topic, or the lifecycle state of a node. Without a fresh value it counts as broken.
    """

    topic: ActionName | None = None
    type: MessageType | None = None
    field: MessageField | None = None
    ok: Condition | None = None
    """What the field must be: a value, a list of values, or min and max."""
    max_age_s: Positive | None = None
    age_from: Literal["arrival", "stamp"] = "arrival"
    latched: bool = False
    lifecycle_node: NodeName | None = None
    """Instead of a topic: this node must be in one of ``states``."""
    states: Annotated[list[Name], Field(min_length=1)] = Field(default_factory=lambda: ["active"])
    timeout_s: Positive = 1.0
    """Time to answer; later counts as broken."""
    hold: bool = False
    estop: bool = False
    """Broken, it latches the emergency stop: nothing starts until a person resets it. Implies ``hold``."""
    settle_s: NotNegative = 0.5
    """How long it must have been good without a break: one that flaps stays broken."""
    skills: list[Name] | None = None
    """Only for these. Default: every skill that moves something."""

    @property
    def holds(self) -> bool:
        return self.hold or self.estop

    @model_validator(mode="after")
    def _one_source(self) -> InterlockSection:
        if (self.topic is None) == (self.lifecycle_node is None):
            raise ValueError("give either topic (with type, field, ok, max_age_s) or lifecycle_node")
        topical = {"type": self.type, "field": self.field, "ok": self.ok, "max_age_s": self.max_age_s}
        if self.topic is not None:
            missing = [key for key, value in topical.items() if value is None]
            if missing:
                raise ValueError(f"a topic needs {', '.join(missing)} too")
        else:
            given = [key for key, value in topical.items() if value is not None]
            if given:
                raise ValueError(f"{', '.join(given)} says nothing with lifecycle_node")
        return self


class DailyHours(Section):
    """A window every day, UTC; may run over midnight."""

    start: ClockTime
    end: ClockTime

    @model_validator(mode="after")
    def _some_time(self) -> DailyHours:
        if self.start == self.end:
            raise ValueError("start and end are the same; leave hours out for the whole day")
        return self


class StandingPlace(Section):
    """Every pose of the goal must lie in here; goals without a pose in the map must start in here."""

    frame: Frame = "map"
    polygon_m: Annotated[list[Corner], Field(min_length=3)]

    @model_validator(mode="after")
    def _has_an_inside(self) -> StandingPlace:
        _ring(self.polygon_m)
        return self


class StandingApprovalSection(Section):
    """An operator's permission in advance: which skills, where, when, how often. Signed over all of it."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    operator: Annotated[str, Field(min_length=1, max_length=80)]
    robot: Name
    """``robot.name`` that it holds for."""
    skills: Annotated[list[Name], Field(min_length=1)]
    bounds: dict[FieldPath, FieldLimit] = Field(default_factory=dict)
    place: StandingPlace | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    hours: DailyHours | None = None
    max_count: CountFromOne | None = None
    """How many motions in all, over restarts."""
    signature: str = ""
    """``hmac-sha256:<64 hex digits>``, by ``robot-mcp-kit approve --standing FILE``."""

    @model_validator(mode="after")
    def _times_in_order(self) -> StandingApprovalSection:
        for name, moment in (("not_before", self.not_before), ("not_after", self.not_after)):
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name} needs a time zone: 2026-06-01T08:00:00Z")
        if self.not_before is not None and self.not_after is not None and self.not_before >= self.not_after:
            raise ValueError("not_before must be earlier than not_after")
        return self


class AuditSection(Section):
    """The trail. Its folder is ``audit`` in the node's state directory."""

    max_file_mb: Positive = 16.0
    """A file that is longer is closed and the next one continues its chain."""


class SafetySection(Section):
    """The whole section. Every part may be left out."""

    trust_demo_key: bool = False
    """Standing approvals signed with the key that everybody knows hold too. For simulated robots."""
    approval: Approval = "standing"
    """``required``: a person for each motion. ``standing``: a signed standing approval does as well."""
    approval_timeout_s: Annotated[Positive, Field(le=MAX_APPROVAL_S)] = MAX_APPROVAL_S
    max_pending: CountFromOne = 10
    """Most requests that wait for a person at once; further ones are refused."""
    stop_latches: bool = False
    """Every stop counts as an emergency stop, so that a person has to reset it."""
    frames: Annotated[list[Frame], Field(min_length=1)] | None = None
    """TF frames that any part of any goal may name. Default: those of ``robot`` and of the skills."""
    geofence: Geofence | None = None
    robot_description: ActionName | None = None
    """Topic of the robot description (std_msgs/String, latched): its joint limits hold too."""
    interlocks: dict[Name, InterlockSection] = Field(default_factory=dict)
    skills: dict[Name, SkillSafety] = Field(default_factory=dict)
    standing_approvals: list[StandingApprovalSection] = Field(default_factory=list)
    audit: AuditSection = AuditSection()

    def skill(self, name: str) -> SkillSafety:
        """The skill's rules, empty ones when it has no entry."""
        return self.skills.get(name) or SkillSafety()
