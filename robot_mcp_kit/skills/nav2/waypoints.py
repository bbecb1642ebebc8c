"""The ``follow_waypoints`` skill: stop at every pose of a list, ``nav2_msgs/action/FollowWaypoints``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import not_a_boolean
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.nav2 import FollowWaypointsSection
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import (
    GoalPose,
    PoseArguments,
    WhereIsRobot,
    rough_duration_s,
    stamped_pose,
    words_about_poses,
)
from robot_mcp_kit.skills.messages import dig, integer, items
from robot_mcp_kit.skills.nav2.arrival import with_position, with_words
from robot_mcp_kit.skills.nav2.base import PoseMotion
from robot_mcp_kit.skills.nav2.codes import nav2_failure, nav2_note
from robot_mcp_kit.skills.nav2.waypoint_status import missed_entry, missed_reason, missed_words
from robot_mcp_kit.skills.results import MissedFacts
from robot_mcp_kit.skills.text import counted
from robot_mcp_kit.skills.triggers import pose_payload

Index = Annotated[int, BeforeValidator(not_a_boolean), Field(ge=0)]
LEGS_FOR_ETA = 2
"""So many waypoints have to be done before their mean time says anything."""


class FollowWaypointsArguments(SkillArguments):
    """Poses, where to begin, and how often."""

    poses: list[PoseArguments] = Field(
        description=(
            "Poses to stop at, in order. Each is either "
            '{"place": "kitchen"} or {"x_m": 1.0, "y_m": 2.0, "yaw_rad": 0.0}.'
        )
    )
    goal_index: Index = Field(
        0, description="Index (from 0) of the pose to begin with, to resume a tour; earlier ones are skipped."
    )
    number_of_loops: Index = Field(
        0, description="Extra rounds through the whole list after the first; 0 drives it once."
    )


class FollowWaypointsResult(MissedFacts):
    """How the tour ended."""

    waypoints: int = Field(description="How many stops there were, over all rounds.")


class FollowWaypoints(PoseMotion[FollowWaypointsSection]):
    """Stop at poses one after the other, once or several times.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: frames and places.
        where: where the robot is; the action's feedback does not tell.
    """

    title = "Tour of several places"
    arguments = FollowWaypointsArguments
    trigger_types = frozenset({"eta_below", "zone_entered", "progress_above", "stalled"})
    results = FollowWaypointsResult
    short_type: ClassVar[str] = "FollowWaypoints"

    def __init__(
        self,
        name: str,
        section: FollowWaypointsSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.effects = (
            f"unless it was missed, the robot stands within {section.goal_tolerance_m:g} m of the last pose",
            "the result names the poses that were missed",
        )
        self.description = (
            "Drive the robot to a list of poses and stop at each, doing there what the robot is "
            "configured to do (often just a short pause). Each pose is a place, or x_m, y_m (metres) "
            f"and yaw_rad (radians) in the frame {config.robot.map_frame}. Depending on the robot's "
            "configuration a pose it cannot reach ends the tour, or is left out: read partial and "
            "missed in the result. Answers at once with a task; a tour can take long, so follow it with "
            "get_task. "
            + self._tools.advise("To pass poses without stopping use {tool}.", "navigate_through")
            + "To resume a broken tour call again with goal_index; with an idempotency_key a repeated "
            "call starts nothing new. Another drive started meanwhile makes the tour miss a pose. At "
            f"most {section.max_poses} poses and {section.max_loops} extra rounds. "
            + words_about_poses(config, section.limits)
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, FollowWaypointsArguments):
            raise TypeError(f"{self.name} takes FollowWaypointsArguments, got {type(arguments).__name__}")
        goals = self._poses.resolve_all(arguments.poses, "poses", self._section.max_poses)
        first, loops = arguments.goal_index, arguments.number_of_loops
        if first >= len(goals):
            # Nav2 does not check this and reads beyond its list (case A9).
            raise ArgumentError(
                "goal_index",
                f"{first} is beyond the list; with {len(goals)} poses it is 0 to {len(goals) - 1}",
            )
        if loops > self._section.max_loops:
            raise ArgumentError(
                "number_of_loops", f"{loops} is more than the {self._section.max_loops} allowed here"
            )
        rounds = "once" if loops == 0 else f"{loops + 1} times"
        begin = f", beginning with number {first + 1}" if first else ""
        return GoalSpec(
            fields={
                "number_of_loops": loops,
                "goal_index": first,
                "poses": [stamped_pose(goal.pose) for goal in goals],
            },
            # Humble knows neither loops nor a first index; a goal that needs them does not fit there.
            other_forms=(() if loops or first else ({"poses": [stamped_pose(goal.pose) for goal in goals]},)),
            summary=f"tour of {counted(len(goals), 'waypoint')} {rounds}{begin}, ending at {goals[-1]}",
            est_duration_s=self._rough_s(goals, first, loops),
            context={"goals": goals, "first": first, "loops": loops},
        )

    def _rough_s(self, goals: list[GoalPose], first: int, loops: int) -> float | None:
        """Driving only; what happens at the waypoints is not known."""
        once = self._poses.length_m(goals[first:])
        if once is None:
            return None
        again = self._poses.loop_length_m(goals)
        return rough_duration_s(once + loops * again, self._section.nominal_speed_mps)

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        context = spec.context
        return WaypointsReader(len(context["goals"]), context["first"], context["loops"], self._where)

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        goals: list[GoalPose] = spec.context["goals"]
        total = len(goals) * (spec.context["loops"] + 1) - spec.context["first"]
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        missed = [
            known
            for position, entry in enumerate(items(result, "missed_waypoints"))
            if (known := missed_entry(entry, position)) is not None
        ]
        if status == GoalStatus.SUCCEEDED:
            return self._done(goals, total, missed, code, message, last)
        if status == GoalStatus.ABORTED and (code or missed):
            failure = nav2_failure(self.short_type, code or 600, message)
            # The last one is what ended the tour.
            failure = with_words(failure, missed_reason(missed[-1]) if missed else "")
        else:
            failure = unsuccessful(status, self.action_name, message)
        at = None if last is None else last.payload.get("waypoint")
        if at is not None:
            failure = with_words(
                failure, f"It was on its way to number {at + 1} of {len(goals)} (goal_index {at})."
            )
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))

    def _done(
        self,
        goals: list[GoalPose],
        total: int,
        missed: list[dict[str, Any]],
        code: int,
        message: Any,
        last: Sample | None,
    ) -> Outcome:
        target = goals[-1]
        told: dict[str, Any] = {
            "goal": pose_payload(target.pose),
            "place": target.place,
            "waypoints": total,
            "reached": max(0, total - len(missed)),
            "partial": bool(missed),
            "missed": missed,
        }
        notes = [missed_words(missed, total)] if missed else []
        left_over = nav2_note(self.short_type, code, message)
        if left_over is not None:
            notes.append(left_over)
        more = {"note": " ".join(notes)} if notes else {}
        if any(entry["index"] == len(goals) - 1 for entry in missed):
            # Nobody claims that the robot is at the last pose.
            unknown = {"position_error_m": None, "yaw_error_rad": None}
            pose = {"measured": False, "final_pose": pose_payload(self._where())}
            return Outcome("succeeded", {**told, **pose, **unknown, **more})
        return self._arrival.judge(target.pose, target.heading_chosen, last, told, more)


class WaypointsReader(FeedbackReader):
    """Feedback is only the index in work, which goes back to 0 at every round.

    Payload: ``waypoint`` (index in work, from 0), ``waypoints`` (in the list), ``loop``, ``percent``,
    ``eta_s`` (from the mean time per waypoint, after two; rough), ``pose`` (as the robot reports it).
    """

    def __init__(self, count: int, first: int, loops: int, where: WhereIsRobot) -> None:
        self._count, self._first, self._loops = count, first, loops
        self._where = where
        self._loop = 0
        self._index: int | None = None
        self._started_s = 0.0
        self._reached_s = 0.0

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        index = integer(feedback, "current_waypoint")
        if index is None or not 0 <= index < self._count:
            return None
        began = self._index is None
        if began:
            self._started_s = self._reached_s = now_s
        changed = index != self._index
        if self._index is not None and index < self._index:
            self._loop = min(self._loop + 1, self._loops)
        if changed and not began:
            self._reached_s = now_s
        self._index = index
        total = self._count * (self._loops + 1) - self._first
        done = max(0, self._loop * self._count + index - self._first)
        eta_s = self._eta_s(done, total, now_s)
        # One waypoint driven again and again shows no change of the index: then nothing is known.
        percent = None if self._count == 1 and self._loops else min(99.0, 100.0 * done / total)
        pose = self._where()
        payload: dict[str, Any] = {
            "eta_s": None if eta_s is None else round(eta_s, 1),
            "percent": None if percent is None else round(percent, 1),
            "waypoint": index,
            "waypoints": self._count,
            "loop": self._loop,
            "elapsed_s": round(now_s - self._started_s, 1),
            "pose": pose_payload(pose),
        }
        return Sample(
            payload=payload,
            time_s=now_s - self._started_s,
            eta_s=eta_s,
            percent=percent,
            pose=pose,
            milestone=changed and not began,
        )

    def _eta_s(self, done: int, total: int, now_s: float) -> float | None:
        if done < LEGS_FOR_ETA:
            return None
        mean_s = (self._reached_s - self._started_s) / done
        return max(0.0, mean_s * (total - done) - (now_s - self._reached_s))
