"""Where the robot ended, against where it should be: SUCCEEDED is a claim, a pose is a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import Outcome, Pose2D, Sample
from robot_mcp_kit.skills.geometry import angle_between, distance
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.triggers import pose_payload

POSTCONDITION_CODE = "NAV2_POSTCONDITION_POSE"


class ArrivalCheck:
    """Judges the end of a drive.

    Args:
        tool: the tool to try again with.
        tolerance_m: farther from the goal than this is not there.
        tolerance_rad: turned farther off than this is not there, if somebody chose the heading.
        where: where the robot is now in the map frame.
    """

    def __init__(self, tool: str, tolerance_m: float, tolerance_rad: float, where: WhereIsRobot) -> None:
        self._tool = tool
        self._tolerance_m = tolerance_m
        self._tolerance_rad = tolerance_rad
        self._where = where

    def judge(
        self,
        target: Pose2D,
        heading_chosen: bool,
        last: Sample | None,
        result: Mapping[str, Any],
        more: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The outcome of a goal that SUCCEEDED.

        Adds to ``result``: ``measured`` (whether the end is known at all), ``final_pose``,
        ``position_error_m`` and ``yaw_error_rad`` (``None``: unknown, or no heading was asked for); then
        ``more``.
        """
        pose = self._measured(target, last)
        told: dict[str, Any] = {
            **result,
            "measured": pose is not None,
            "final_pose": pose_payload(pose),
            "position_error_m": None,
            "yaw_error_rad": None,
            **(more or {}),
        }
        if pose is None:
            return Outcome("succeeded", told)
        off_m = distance((pose.x_m, pose.y_m), (target.x_m, target.y_m))
        off_rad = angle_between(pose.yaw_rad, target.yaw_rad)
        told["position_error_m"] = round(off_m, 3)
        told["yaw_error_rad"] = round(off_rad, 3) if heading_chosen else None
        wrong = []
        if off_m > self._tolerance_m:
            wrong.append(f"{off_m:.2f} m away from the goal (tolerated: {self._tolerance_m:g} m)")
        if heading_chosen and off_rad > self._tolerance_rad:
            wrong.append(f"turned {off_rad:.2f} rad off (tolerated: {self._tolerance_rad:g} rad)")
        if not wrong:
            return Outcome("succeeded", told)
        failure = TaskFailure(
            error_code=POSTCONDITION_CODE,
            message=(
                f"Navigation reported success, but the robot is {' and '.join(wrong)}: it is at "
                f"{pose_words(pose)}, the goal was {pose_words(target)}."
            ),
            recoverable=True,
            suggestions=[self._tool, "get_task", "ask_person"],
        )
        return Outcome("failed", failure=failure)

    def _measured(self, target: Pose2D, last: Sample | None) -> Pose2D | None:
        """The last pose in the goal's frame: from feedback, or as the robot reports itself now."""
        poses = [last.pose if last is not None else None, self._where()]
        known = [pose for pose in poses if pose is not None and pose.frame == target.frame]
        # Either may be a little older than the end, so the one that speaks for the arrival is believed.
        return min(known, key=lambda p: distance((p.x_m, p.y_m), (target.x_m, target.y_m)), default=None)


def pose_words(pose: Pose2D) -> str:
    """``x 1.00 m, y 2.00 m, yaw 0.00 rad in map``."""
    return f"x {pose.x_m:.2f} m, y {pose.y_m:.2f} m, yaw {pose.yaw_rad:.2f} rad in {pose.frame}"


def with_position(failure: TaskFailure, last: Sample | None, where: WhereIsRobot) -> TaskFailure:
    """The failure, with where the robot was last seen (feedback first, then as it reports itself)."""
    pose = last.pose if last is not None and last.pose is not None else where()
    return failure if pose is None else with_words(failure, f"The robot was last seen at {pose_words(pose)}.")


def with_words(failure: TaskFailure, sentence: str) -> TaskFailure:
    """The failure with one more sentence in its message."""
    if not sentence:
        return failure
    return failure.model_copy(update={"message": f"{failure.message} {sentence}"})
