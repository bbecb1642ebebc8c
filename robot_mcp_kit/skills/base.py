"""What a skill is: typed arguments in, one goal out, feedback and result read back. Pure: no rclpy, no mcp.

A skill never touches ROS. It builds the goal as a nested dictionary whose keys are the goal message's field
names, and it reads feedback and result messages by attribute (``getattr`` with a default), so that the same
skill serves every ROS distribution whose messages differ by a field.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.world import WorldSnapshot

FOR_PLANNERS = "One call is one goal of a plan, not a set-point: no control loop can run over it."


class GoalStatus(IntEnum):
    """``action_msgs/msg/GoalStatus`` values. Any other number on the wire is ``ROS_BAD_STATUS``."""

    UNKNOWN = 0
    ACCEPTED = 1
    EXECUTING = 2
    CANCELING = 3
    SUCCEEDED = 4
    CANCELED = 5
    ABORTED = 6


class SkillArguments(BaseModel):
    """Base of every skill's arguments: unknown names are refused, not dropped, and so are NaN and
    infinity.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


@dataclass(frozen=True, slots=True)
class Pose2D:
    """A planar pose: metres and radians (REP 103) in ``frame``."""

    x_m: float
    y_m: float
    yaw_rad: float
    frame: str = "map"


@dataclass(slots=True)
class Sample:
    """One reading of feedback.

    ``payload`` is what a progress event carries (JSON-able, unknown values are ``None``). The other fields
    are what triggers look at. ``time_s`` is the robot's own time of this sample (the action's clock,
    seconds, any origin); it may run faster or slower than the wall clock in simulation.
    """

    payload: dict[str, Any]
    time_s: float
    eta_s: float | None = None
    distance_m: float | None = None
    percent: float | None = None
    pose: Pose2D | None = None
    milestone: bool = False
    """Worth a progress event at once, whatever the period (a recovery began, a phase changed)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the end of a goal means to the caller."""

    state: Literal["succeeded", "failed", "cancelled"]
    result: dict[str, Any] | None = None
    failure: TaskFailure | None = None


@dataclass(frozen=True, slots=True)
class GoalSpec:
    """A goal ready to be sent: the message's fields by name, and words for people."""

    fields: dict[str, Any]
    summary: str
    """One short sentence: "drive to kitchen (10.00, 6.50) in map"."""
    est_duration_s: float | None = None
    context: dict[str, Any] = field(default_factory=dict)
    """What the reader and the outcome need to know about the goal (target pose, tolerance, ...)."""
    other_forms: tuple[dict[str, Any], ...] = ()
    """The same goal as other distributions spell it (a field less, a list for a message). The bridge sends
    the first form that fits the installed type: :func:`fit_goal`.
    """


def fit_goal(spec: GoalSpec, check: Callable[[Mapping[str, Any]], None]) -> GoalSpec:
    """The goal in the first of its forms that ``check`` takes (``ActionPort.check_goal``).

    Raises:
        GoalFieldError: no form fits; tells what is wrong with each.
    """
    complaints: list[GoalFieldError] = []
    for fields in (spec.fields, *spec.other_forms):
        try:
            check(fields)
        except GoalFieldError as error:
            complaints.append(error)
        else:
            return replace(spec, fields=fields, other_forms=())
    first, *others = complaints
    told = "".join(f"; or, as another distribution spells it, {error}" for error in others)
    raise GoalFieldError(first.path, first.message + told)


@dataclass(frozen=True, slots=True)
class StopTopic:
    """One message that a stop publishes besides ``cancel_goal``, for servers that stop only so.

    ``topic`` is resolved in the node's namespace unless it begins with a slash; ``fields`` are the message's
    by name.
    """

    topic: str
    type: str
    """``std_msgs/msg/String``."""
    fields: Mapping[str, Any]


class FeedbackReader(abc.ABC):
    """Reads the feedback of one goal, in order. Holds the estimator's state, so one instance a goal."""

    @abc.abstractmethod
    def read(self, feedback: Any, now_s: float) -> Sample | None:
        """Turn one feedback message into a sample, or ``None`` when it says nothing.

        ``now_s`` is the bridge's monotonic time. Never raises on odd contents.
        """


class Skill(abc.ABC):
    """One thing the robot can do through one ROS 2 action."""

    name: str
    """Tool name, ``navigate_to``."""
    title: str
    description: str
    """Read by the planner: what it does, units, frames, when not to use it, whether a retry is safe."""
    action_name: str
    """Action name as in ``ros2 action list``, relative names are resolved in the node's namespace."""
    action_type: str
    """``nav2_msgs/action/NavigateToPose``."""
    arguments: type[SkillArguments]
    trigger_types: frozenset[str] = frozenset({"progress_above"})
    resources: frozenset[str] = frozenset()
    """Parts of the robot that the goal moves (``base``, ``arm``, ``gripper``). Goals of different skills that
    share one must not run at the same time, whatever their action servers think of it.
    """
    server_replaces: bool = False
    """The action server itself ends a running goal for a newer one (Nav2, the controllers). Others would run
    both, so the older goal is cancelled, and waited for, first.
    """
    preconditions: tuple[Precondition, ...] = ()
    """Checked on the measured world before anything moves, and readable before the call."""
    effects: tuple[str, ...] = ()
    """What holds after success, in words: "the robot is at the place"."""
    results: type[SkillResult] = SkillResult
    """The facts that a success tells."""
    measures: frozenset[str] = frozenset()
    """Parts of the world (``arm``, ``gripper``) that are read anew after the goal's end, before it counts
    as a success.
    """
    stop_topic: StopTopic | None = None
    """What a cancel really needs beyond ``cancel_goal``: published once with each cancel request."""
    after_stop: str = ""
    """One sentence for a confirmed cancel, when "cancelled" does not yet mean "at rest"."""

    @abc.abstractmethod
    def goal(self, arguments: SkillArguments) -> GoalSpec:
        """Validate against the robot's configuration and build the goal.

        Raises:
            ArgumentError: names the field and the way out; nothing was sent.
        """

    def leaves(self, spec: GoalSpec) -> None:  # noqa: B027 - most skills have nothing to note
        """The goal is about to leave: the last moment at which nothing of it has moved yet. Not called for a
        goal of before a restart.
        """

    @abc.abstractmethod
    def reader(self, spec: GoalSpec) -> FeedbackReader:
        """A fresh reader for one goal."""

    @abc.abstractmethod
    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        """Map status first, then the result's own fields (never the other way round) to an outcome.

        Not called for goals we cancelled ourselves, nor for lost servers: those mean the same for every
        skill.
        """

    def measured(self, outcome: Outcome, spec: GoalSpec, world: WorldSnapshot) -> Outcome:  # noqa: ARG002
        """The outcome of a goal that succeeded, in the light of what was measured after it (L2).

        Args:
            outcome: as :meth:`outcome` gave it, a success.
            spec: the goal.
            world: of :attr:`measures` only what was measured after the end; the rest as it was last told.
        """
        return outcome

    def result_schema(self) -> dict[str, Any]:
        """JSON Schema of a success's facts."""
        return self.results.model_json_schema()

    def briefing(self) -> str:
        """The description, with what is checked before, what holds after (L41), and whom it is for (L39)."""
        before = "; ".join(condition.text for condition in self.preconditions)
        after = "; ".join(self.effects)
        return " ".join(
            [
                self.description.rstrip(),
                *([f"Checked before anything moves: {before}."] if before else []),
                *([f"After a success: {after}."] if after else []),
                *([FOR_PLANNERS] if self.resources else []),
            ]
        )
