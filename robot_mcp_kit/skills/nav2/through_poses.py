"""The ``navigate_through`` skill: one drive past several poses, ``nav2_msgs/action/NavigateThroughPoses``."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from pydantic import Field

from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.nav2 import NavigateThroughSection
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
from robot_mcp_kit.skills.nav2.navigation import NavigationReader
from robot_mcp_kit.skills.nav2.waypoint_status import WaypointState, missed_entry, missed_words
from robot_mcp_kit.skills.results import MissedFacts
from robot_mcp_kit.skills.text import counted
from robot_mcp_kit.skills.triggers import pose_payload


class NavigateThroughArguments(SkillArguments):
    """Poses in the order they are driven to."""

    poses: list[PoseArguments] = Field(
        description=(
            "Poses to pass, in order; the last one is where the robot stops. Each is either "
            '{"place": "kitchen"} or {"x_m": 1.0, "y_m": 2.0, "yaw_rad": 0.0}.'
        )
    )


class NavigateThroughResult(MissedFacts):
    """How the drive ended."""

    poses: int = Field(description="How many there were to pass.")


class NavigateThrough(PoseMotion[NavigateThroughSection]):
    """Drive through poses without stopping at each.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: frames and places.
        where: where the robot is, for ``max_distance_m``, headings nobody chose, and a rough duration.
    """

    title = "Drive through several places"
    arguments = NavigateThroughArguments
    trigger_types = frozenset({"eta_below", "distance_below", "zone_entered", "progress_above", "stalled"})
    results = NavigateThroughResult
    short_type: ClassVar[str] = "NavigateThroughPoses"

    def __init__(
        self,
        name: str,
        section: NavigateThroughSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.effects = (
            f"the robot stands within {section.goal_tolerance_m:g} m of the last pose, as its own position "
            "tells",
            "the result names the poses that were missed",
        )
        self.description = (
            "Drive the robot in one go through a list of poses, for a route of your choice. It passes "
            "near the intermediate poses without stopping and stops at the last one. Each pose is a "
            f"place, or x_m, y_m (metres) and yaw_rad (radians) in the frame {config.robot.map_frame}. "
            "Answers at once with a task; follow it with get_task. "
            + self._tools.advise("To stop and do something at every pose, use {tool}.", "follow_waypoints")
            + self._tools.advise("For one pose, use {tool}.", "navigate_to")
            + "After a failure a new call drives the whole list again, so leave out the poses that were "
            "passed; with an idempotency_key a repeated call starts nothing new. At most "
            f"{section.max_poses} poses. " + words_about_poses(config, section.limits)
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, NavigateThroughArguments):
            raise TypeError(f"{self.name} takes NavigateThroughArguments, got {type(arguments).__name__}")
        goals = self._poses.resolve_all(arguments.poses, "poses", self._section.max_poses)
        stamped = [stamped_pose(goal.pose) for goal in goals]
        # nav_msgs/Goals from Kilted on, a plain list of poses before.
        header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": goals[0].pose.frame}
        tree = self._section.behavior_tree
        return GoalSpec(
            fields={"poses": {"header": header, "goals": stamped}, "behavior_tree": tree},
            other_forms=({"poses": stamped, "behavior_tree": tree},),
            summary=f"drive through {counted(len(goals), 'pose')} to {goals[-1]}",
            est_duration_s=rough_duration_s(self._poses.length_m(goals), self._section.nominal_speed_mps),
            context={"goals": goals},
        )

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return ThroughPosesReader(spec.context["goals"])

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        goals: list[GoalPose] = spec.context["goals"]
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            return self._arrived(goals, code, result, last)
        if status == GoalStatus.ABORTED and code:
            failure = nav2_failure(self.short_type, code, message)
        else:
            failure = unsuccessful(status, self.action_name, message)
        left = None if last is None else last.payload.get("poses_remaining")
        if left is not None:
            failure = with_words(failure, f"It had passed {len(goals) - left} of {len(goals)} poses.")
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))

    def _arrived(self, goals: list[GoalPose], code: int, result: Any, last: Sample | None) -> Outcome:
        target = goals[-1]
        missed = [
            entry
            for index, status in enumerate(items(result, "waypoint_statuses"))
            if integer(status, "waypoint_status") in (WaypointState.SKIPPED, WaypointState.FAILED)
            and (entry := missed_entry(status, index)) is not None
        ]
        told: dict[str, Any] = {
            "goal": pose_payload(target.pose),
            "place": target.place,
            "poses": len(goals),
            "reached": max(0, len(goals) - len(missed)),
            "partial": bool(missed),
            "missed": missed,
        }
        notes = [missed_words(missed, len(goals))] if missed else []
        left_over = nav2_note(self.short_type, code, dig(result, "error_msg"))
        if left_over is not None:
            notes.append(left_over)
        more = {"note": " ".join(notes)} if notes else {}
        return self._arrival.judge(target.pose, target.heading_chosen, last, told, more)


class ThroughPosesReader(FeedbackReader):
    """Adds ``poses_remaining`` to :class:`NavigationReader`'s payload, and the poses passed to its percent.

    An all-zero message (Nav2 sends it while its list is empty) says nothing (case B21).
    """

    def __init__(self, goals: list[GoalPose]) -> None:
        self._count = len(goals)
        self._way = NavigationReader(goals[-1].pose)
        self._remaining: int | None = None
        self._percent: float | None = None

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        sample = self._way.read(feedback, now_s)
        if sample is None:
            return None
        remaining = integer(feedback, "number_of_poses_remaining")
        # The last goal stays in the list until success, so 0 is the field's default and no count.
        if remaining is not None and 0 < remaining <= self._count:
            passed = self._remaining is not None and remaining < self._remaining
            self._remaining = remaining
        else:
            passed = False
        floor = None if self._remaining is None else 100.0 * (self._count - self._remaining) / self._count
        known = [value for value in (sample.percent, floor, self._percent) if value is not None]
        # A list of one pose is at 0 until the path is known, which is no progress yet.
        self._percent = min(99.0, max(known)) if known and max(known) > 0 else sample.percent
        payload = {
            **sample.payload,
            "percent": None if self._percent is None else round(self._percent, 1),
            "poses_remaining": self._remaining,
        }
        return dataclasses.replace(
            sample, payload=payload, percent=self._percent, milestone=sample.milestone or passed
        )
