"""The ``navigate_to`` skill: drive to a pose or a named place through ``nav2_msgs/action/NavigateToPose``."""

from __future__ import annotations

from typing import Any, ClassVar

from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Pose2D,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import NavigateSection, RobotConfig
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import (
    PoseArguments,
    QuaternionArguments,
    WhereIsRobot,
    rough_duration_s,
    stamped_pose,
    words_about_poses,
)
from robot_mcp_kit.skills.messages import dig, duration_s, integer, number, pose_2d
from robot_mcp_kit.skills.nav2.arrival import POSTCONDITION_CODE, with_position
from robot_mcp_kit.skills.nav2.base import PoseMotion
from robot_mcp_kit.skills.nav2.codes import nav2_failure, nav2_note
from robot_mcp_kit.skills.nav2.eta import EtaEstimator
from robot_mcp_kit.skills.results import ArrivalFacts
from robot_mcp_kit.skills.triggers import pose_payload

__all__ = [
    "POSTCONDITION_CODE",
    "NavigateTo",
    "NavigateToArguments",
    "NavigationReader",
    "QuaternionArguments",
    "WhereIsRobot",
]


class NavigateToArguments(PoseArguments):
    """Either ``place``, or ``x_m`` and ``y_m``."""


class NavigateTo(PoseMotion[NavigateSection]):
    """Drive to a pose on the map.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: frames and places.
        where: where the robot is, for ``max_distance_m``, a heading nobody chose, and a rough duration.
    """

    title = "Drive to a place"
    arguments = NavigateToArguments
    trigger_types = frozenset({"eta_below", "distance_below", "zone_entered", "progress_above", "stalled"})
    results = ArrivalFacts
    short_type: ClassVar[str] = "NavigateToPose"

    def __init__(
        self,
        name: str,
        section: NavigateSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.effects = (
            f"the robot stands within {section.goal_tolerance_m:g} m of the goal, as its own position tells",
        )
        self.description = self._describe()

    def _describe(self) -> str:
        second = {
            "replace": "A second call while one drive runs takes over and ends the first one.",
            "refuse": "A second call while one drive runs is refused.",
            "queue": "A second call while one drive runs waits until the first has ended.",
        }[self._section.policy]
        return (
            "Drive the robot on the floor to a named place, or to x_m, y_m (metres) with heading yaw_rad "
            f"(radians) in the frame {self._config.robot.map_frame}. It avoids obstacles on the way. Answers "
            "at once with a task; the drive takes seconds to minutes, so follow it with get_task and end it "
            f"with cancel_task. {second} Calling again after a failure starts a new drive from where the "
            "robot is then; with an idempotency_key a repeated call starts nothing new. Do not use it for "
            "small motions of a few centimetres. " + words_about_poses(self._config, self._section.limits)
        )

    # -- goal -------------------------------------------------------------------------------------

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, NavigateToArguments):
            raise TypeError(f"{self.name} takes NavigateToArguments, got {type(arguments).__name__}")
        target = self._poses.resolve(arguments)
        return GoalSpec(
            fields={"pose": stamped_pose(target.pose), "behavior_tree": self._section.behavior_tree},
            summary=f"drive to {target}",
            est_duration_s=rough_duration_s(self._poses.length_m([target]), self._section.nominal_speed_mps),
            context={
                "target": target.pose,
                "heading_chosen": target.heading_chosen,
                "place": target.place,
            },
        )

    # -- feedback and result ----------------------------------------------------------------------

    def reader(self, spec: GoalSpec) -> NavigationReader:
        return NavigationReader(spec.context.get("target"))

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            return self._arrived(code, message, spec, last)
        if status == GoalStatus.ABORTED and code:
            failure = nav2_failure(self.short_type, code, message)
        else:
            failure = unsuccessful(status, self.action_name, message)
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))

    def _arrived(self, code: int, message: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        """SUCCEEDED is a claim; where the robot was last seen decides whether it is passed on."""
        target: Pose2D = spec.context["target"]
        result: dict[str, Any] = {"goal": pose_payload(target), "place": spec.context.get("place")}
        note = nav2_note(self.short_type, code, message)
        return self._arrival.judge(
            target, spec.context["heading_chosen"], last, result, {} if note is None else {"note": note}
        )


class NavigationReader(FeedbackReader):
    """Feedback of one ``NavigateToPose`` goal, as every distribution sends it (read by attribute).

    Payload: ``eta_s``, ``distance_m``, ``percent``, ``recoveries``, ``elapsed_s``, ``pose`` (``x_m``,
    ``y_m``, ``yaw_rad``, ``frame``); unknown is ``None``.
    """

    def __init__(self, target: Pose2D | None) -> None:
        self._eta = EtaEstimator(target)
        self._recoveries = 0
        self._started_s: float | None = None
        self._has_own_time = False

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        pose = pose_2d(feedback, "current_pose")
        distance_m = number(feedback, "distance_remaining")
        if pose is None and not distance_m:
            return None  # never filled (case B21): not a place, not an arrival
        elapsed_s = duration_s(feedback, "navigation_time")
        time_s = self._time(elapsed_s, now_s)
        reading = self._eta.update(
            time_s=time_s,
            distance_m=distance_m,
            time_left_s=duration_s(feedback, "estimated_time_remaining"),
            pose=pose,
        )
        recoveries = integer(feedback, "number_of_recoveries")
        # The count goes back to 0 when the goal is replaced on the server: only a rise is news (case B19).
        rising = recoveries is not None and recoveries > self._recoveries
        if recoveries is not None:
            self._recoveries = recoveries
        payload: dict[str, Any] = {
            "eta_s": None if reading.eta_s is None else round(reading.eta_s, 1),
            "distance_m": None if reading.distance_m is None else round(reading.distance_m, 2),
            "percent": None if reading.percent is None else round(reading.percent, 1),
            "recoveries": recoveries,
            "elapsed_s": None if elapsed_s is None else round(max(0.0, elapsed_s), 1),
            "pose": pose_payload(pose),
        }
        return Sample(
            payload=payload,
            time_s=time_s,
            eta_s=reading.eta_s,
            distance_m=reading.distance_m,
            percent=reading.percent,
            pose=pose,
            milestone=rising,
        )

    def _time(self, elapsed_s: float | None, now_s: float) -> float:
        """The robot's time of this goal; our own clock for a server that does not fill
        ``navigation_time``.
        """
        if self._started_s is None:
            self._started_s = now_s
        self._has_own_time = self._has_own_time or bool(elapsed_s)
        return elapsed_s if self._has_own_time and elapsed_s is not None else now_s - self._started_s
