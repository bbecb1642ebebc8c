"""Trajectories by the caller: ``execute_trajectory`` (MoveIt), ``follow_joint_trajectory`` (controller)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import Field

from robot_mcp_kit.skills.arm.arrival import ArmFacts, ArmWatch
from robot_mcp_kit.skills.arm.controller_codes import SUCCESSFUL, controller_failure
from robot_mcp_kit.skills.arm.joints import JointChecker, JointTrajectory, TrajectoryPointArguments
from robot_mcp_kit.skills.arm.move_arm import AFTER_STOP, MoveItReader, moveit_unsuccessful
from robot_mcp_kit.skills.arm.moveit_codes import SUCCESS
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
    StopTopic,
)
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import (
    SECOND_MOTION,
    ExecuteTrajectorySection,
    FollowJointTrajectorySection,
    TrajectorySection,
)
from robot_mcp_kit.skills.configured import ConfiguredSkill
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import dig, duration_fields, duration_s, finite, integer, items
from robot_mcp_kit.skills.nav2.arrival import with_words
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.text import clean_text, counted
from robot_mcp_kit.skills.world import WorldSnapshot


class TrajectoryArguments(SkillArguments):
    """Points in time order."""

    points: list[TrajectoryPointArguments] = Field(
        description=(
            "Points in time order; each names every joint: "
            '{"time_from_start_s": 2.0, "joints_rad": {"elbow_joint": 1.2}}. The arm moves straight from one '
            "to the next, from where it is now to the first; give the first point time enough to get there."
        )
    )


class TrajectoryResult(ArmFacts):
    """How the trajectory ended."""

    duration_s: float = Field(description="Of the trajectory.")
    points: int = Field(description="How many it had.")


class FollowJointTrajectoryResult(TrajectoryResult):
    """What the controller adds."""

    last_reported_error_rad: float | None = Field(
        description="Of the turning joint farthest from its way, as last reported while moving."
    )
    last_reported_error_m: float | None = Field(description="The same, where a sliding joint was farthest.")


TrajectoryT = TypeVar("TrajectoryT", bound=TrajectorySection)


class _Trajectory(ConfiguredSkill[TrajectoryT]):
    """What both have in common."""

    arguments = TrajectoryArguments
    results: type[SkillResult] = TrajectoryResult
    trigger_types = frozenset({"eta_below", "progress_above"})
    resources = frozenset({"arm"})
    after_stop = AFTER_STOP

    def __init__(self, name: str, section: TrajectoryT, config: RobotConfig) -> None:
        super().__init__(name, section, config)
        self._joints = JointChecker(config.arms[section.arm])
        self._watch = ArmWatch(name, section, config)
        self.measures = self._watch.measures
        self.preconditions = (*self._watch.in_range(), *self._watch.near_first(self._trajectory))
        self.effects = (self._watch.effect("the arm is at the last point"),)

    def _words(self) -> str:
        return (
            f"At most {self._section.max_points} points and {self._section.max_duration_s:g} s. Answers at "
            "once with a task. The points are absolute, so repeating a whole trajectory after a failure "
            "is possible once you know why it failed and where the arm is; with an idempotency_key a "
            f"repeated call starts nothing new. Joints, all needed in every point: {self._joints.words()}."
        )

    def _trajectory(self, arguments: SkillArguments) -> JointTrajectory:
        if not isinstance(arguments, TrajectoryArguments):
            raise TypeError(f"{self.name} takes TrajectoryArguments, got {type(arguments).__name__}")
        limits = self._section
        return self._joints.trajectory(
            arguments.points, max_points=limits.max_points, max_duration_s=limits.max_duration_s
        )

    def _spec(self, fields: dict[str, Any], trajectory: JointTrajectory) -> GoalSpec:
        points = counted(len(trajectory.points), "point")
        return GoalSpec(
            fields=fields,
            summary=f"move the arm through {points} in {trajectory.duration_s:g} s",
            est_duration_s=round(trajectory.duration_s, 1),
            context={
                "duration_s": trajectory.duration_s,
                "points": len(trajectory.points),
                "joints": dict(zip(trajectory.names, trajectory.points[-1], strict=True)),
            },
        )

    def _told(self, spec: GoalSpec) -> dict[str, Any]:
        context = spec.context
        return {"duration_s": context["duration_s"], "points": context["points"], "measured": False}

    def measured(self, outcome: Outcome, spec: GoalSpec, world: WorldSnapshot) -> Outcome:
        return self._watch.judge(outcome, spec.context.get("joints"), world)


class ExecuteTrajectory(_Trajectory[ExecuteTrajectorySection]):
    """A trajectory through MoveIt, ``moveit_msgs/action/ExecuteTrajectory``.

    A cancel of this action stops nothing: MoveIt answers it only after the motion. So a stop also publishes
    :attr:`stop_topic`. A motion stopped that way ends as ABORTED with the code PREEMPTED.
    """

    title = "Execute an arm trajectory"

    def __init__(
        self,
        name: str,
        section: ExecuteTrajectorySection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,  # noqa: ARG002 - every skill is built alike
    ) -> None:
        super().__init__(name, section, config)
        if section.stop_topic is not None:
            self.stop_topic = StopTopic(section.stop_topic, "std_msgs/msg/String", {"data": "stop"})
        self.description = (
            "Move the arm through given joint positions at given times, by MoveIt, which watches the "
            "motion but plans nothing and avoids nothing: use it only for points you know to be free. "
            + self._tools.advise("To have a way planned use {tool}.", "move_arm")
            + f"A second call while the arm moves {SECOND_MOTION[section.policy]}. {self._words()}"
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        trajectory = self._trajectory(arguments)
        return self._spec({"trajectory": {"joint_trajectory": trajectory.fields()}}, trajectory)

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return MoveItReader(duration_s=spec.context["duration_s"])

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        if status != GoalStatus.SUCCEEDED:
            failure = moveit_unsuccessful(status, result, self.action_name, self.name)
            return Outcome("failed", failure=self._tools.fit(failure))
        told = self._told(spec)
        code = integer(result, "error_code.val")
        if code != SUCCESS:
            told["note"] = f"The action succeeded, though its result carries the code {code}."
        return Outcome("succeeded", told)


class FollowJointTrajectory(_Trajectory[FollowJointTrajectorySection]):
    """A trajectory straight to the controller, ``control_msgs/action/FollowJointTrajectory``."""

    server_replaces = True

    title = "Send a trajectory to the arm's controller"
    results = FollowJointTrajectoryResult

    def __init__(
        self,
        name: str,
        section: FollowJointTrajectorySection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,  # noqa: ARG002 - every skill is built alike
    ) -> None:
        super().__init__(name, section, config)
        second = SECOND_MOTION[section.policy]
        self.description = (
            "Move the arm through given joint positions at given times, directly by its controller. Nothing "
            "checks for collisions: use it only for points you know to be free. "
            + self._tools.advise("To have a way planned use {tool}.", "move_arm")
            + f"A second call while the arm moves {second}. {self._words()}"
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        trajectory, section = self._trajectory(arguments), self._section
        fields: dict[str, Any] = {
            "trajectory": trajectory.fields(),
            # 0 would wait for ever for an arm that does not settle.
            "goal_time_tolerance": duration_fields(section.goal_time_tolerance_s),
        }
        for name, tolerance in (
            ("path_tolerance", section.path_tolerance),
            ("goal_tolerance", section.goal_tolerance),
        ):
            if tolerance is not None:
                # Velocity and acceleration 0: the controller's own.
                fields[name] = [{"name": joint, "position": tolerance} for joint in trajectory.names]
        return self._spec(fields, trajectory)

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return JointTrajectoryReader(spec.context["duration_s"], spec.context["points"], self._joints.slides)

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        code, said = integer(result, "error_code") or SUCCESSFUL, dig(result, "error_string")
        if status == GoalStatus.SUCCEEDED:
            reported = {} if last is None else last.payload
            off = {
                f"last_reported_error_{unit}": reported.get(f"largest_error_{unit}") for unit in ("rad", "m")
            }
            told: dict[str, Any] = {**self._told(spec), **off}
            if code != SUCCESSFUL:
                told["note"] = f"The action succeeded, though its result carries the code {code}."
            return Outcome("succeeded", told)
        if status == GoalStatus.ABORTED and code != SUCCESSFUL:
            failure = controller_failure(code, said, tool=self.name)
        else:
            failure = unsuccessful(status, self.action_name, said)
        percent = None if last is None else last.payload.get("percent")
        done = "" if percent is None else f"About {percent:.0f} percent of the trajectory were done."
        return Outcome("failed", failure=self._tools.fit(with_words(failure, done)))


class JointTrajectoryReader(FeedbackReader):
    """``desired.time_from_start`` is the time in the trajectory, the controller's own.

    Payload: ``phase`` (``moving``, and ``settling`` beyond the last point), ``percent``, ``eta_s``,
    ``elapsed_s``, ``point`` (index of the next point; Jazzy does not tell), ``points``,
    ``largest_error_rad`` or ``largest_error_m`` (between where a joint is and should be; the other is
    ``None``) and ``largest_error_joint``.
    """

    def __init__(
        self, duration_s: float, points: int, slides: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._duration_s = duration_s
        self._points = points
        self._slides = slides
        self._phase: str | None = None
        self._percent = 0.0

    def read(self, feedback: Any, now_s: float) -> Sample | None:  # noqa: ARG002
        elapsed_s = duration_s(feedback, "desired.time_from_start")
        if elapsed_s is None or elapsed_s < 0:
            return None
        left_s = max(0.0, self._duration_s - elapsed_s)
        phase = "moving" if left_s > 0 else "settling"
        changed, self._phase = self._phase is not None and phase != self._phase, phase
        self._percent = max(self._percent, min(99.0, 100.0 * elapsed_s / self._duration_s))
        error, joint = _largest_error(feedback)
        error = None if error is None else round(error, 4)
        in_metres = joint is not None and self._slides(joint)
        point = integer(feedback, "index")
        payload: dict[str, Any] = {
            "phase": phase,
            "eta_s": round(left_s, 1),
            "percent": round(self._percent, 1),
            "elapsed_s": round(elapsed_s, 1),
            "point": point if point is not None and 0 <= point < self._points else None,
            "points": self._points,
            "largest_error_rad": None if in_metres else error,
            "largest_error_m": error if in_metres else None,
            "largest_error_joint": joint,
        }
        return Sample(
            payload=payload, time_s=elapsed_s, eta_s=left_s, percent=self._percent, milestone=changed
        )


def _largest_error(feedback: Any) -> tuple[float | None, str | None]:
    """Largest deviation of a joint and its name."""
    errors = [abs(finite(value) or 0.0) for value in items(feedback, "error.positions")]
    if not errors:
        return None, None
    largest = max(errors)
    names = items(feedback, "joint_names")
    index = errors.index(largest)
    return largest, clean_text(names[index], 80) if index < len(names) else None
