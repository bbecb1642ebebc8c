"""Goal poses: from a place or from numbers, checked against frames and limits, to the message's fields."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import Pose2D, SkillArguments
from robot_mcp_kit.skills.config import Place, RobotConfig
from robot_mcp_kit.skills.config.types import NavigationLimits
from robot_mcp_kit.skills.geometry import (
    Quaternion,
    bearing_rad,
    distance,
    quaternion_to_yaw,
    tilt_rad,
    wrap_angle,
    yaw_to_quaternion,
)
from robot_mcp_kit.skills.text import did_you_mean, nearest_first

WhereIsRobot = Callable[[], Pose2D | None]
"""Where the robot is now in the map frame, ``None`` while that is unknown."""

NORM_TOLERANCE = 0.01
TILT_TOLERANCE_RAD = 0.05


class QuaternionArguments(SkillArguments):
    """A unit quaternion, fields as in ``geometry_msgs/msg/Quaternion``."""

    x: Number = 0.0
    y: Number = 0.0
    z: Number
    w: Number


class PoseArguments(SkillArguments):
    """Either ``place``, or ``x_m`` and ``y_m``."""

    x_m: Number | None = Field(None, description="Goal position along x of `frame`, in metres. Needs y_m.")
    y_m: Number | None = Field(None, description="Goal position along y of `frame`, in metres. Needs x_m.")
    yaw_rad: Number | None = Field(
        None,
        description=(
            "Heading at the goal in radians, counter-clockwise, 0 along +x of `frame`; 1.5708 is a quarter "
            "turn. Left out: the place's own heading, or with x_m and y_m whatever heading suits the robot."
        ),
    )
    orientation: QuaternionArguments | None = Field(
        None, description="Heading as a unit quaternion, instead of yaw_rad. Rarely needed."
    )
    frame: str | None = Field(None, description="TF frame of x_m, y_m and yaw_rad. Left out: the map frame.")
    place: str | None = Field(
        None, max_length=200, description="Name of a known place, instead of x_m and y_m: kitchen."
    )


@dataclass(frozen=True, slots=True)
class GoalPose:
    """One checked pose of a goal."""

    pose: Pose2D
    place: str | None
    """The place's own name, when it was given by one."""
    heading_chosen: bool
    """Whether somebody chose the heading; otherwise it follows from the way there."""

    def __str__(self) -> str:
        name = f"{self.place} " if self.place else ""
        return f"{name}({self.pose.x_m:.2f}, {self.pose.y_m:.2f}) in {self.pose.frame}"


def stamped_pose(pose: Pose2D) -> dict[str, Any]:
    """Fields of ``geometry_msgs/msg/PoseStamped``."""
    q = yaw_to_quaternion(pose.yaw_rad)
    return {
        # Stamp zero: "the latest transform". A wall-clock stamp fails under simulated time (case A5).
        "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": pose.frame},
        "pose": {
            "position": {"x": pose.x_m, "y": pose.y_m, "z": 0.0},
            "orientation": {"x": q.x, "y": q.y, "z": q.z, "w": q.w},
        },
    }


class PoseResolver:
    """Turns arguments into goal poses.

    Args:
        config: frames and places.
        limits: where a drive may end.
        where: where the robot is, for ``max_distance_m`` and a heading nobody chose.
    """

    def __init__(self, config: RobotConfig, limits: NavigationLimits, where: WhereIsRobot) -> None:
        self._config = config
        self._limits = limits
        self._where = where

    def here(self, frame: str) -> Pose2D | None:
        """Where the robot is, if that is known in ``frame``."""
        here = self._where()
        return here if here is not None and here.frame == frame else None

    def resolve(self, arguments: PoseArguments, before: Pose2D | None = None) -> GoalPose:
        """Check one pose.

        Args:
            arguments: as the caller gave them.
            before: where the way to this pose begins; left out, where the robot is now.

        Raises:
            ArgumentError: names the field.
        """
        robot = self._config.robot
        frame = checked_frame(arguments.frame, robot.goal_frames, robot.map_frame)
        target, place, heading_chosen = self._target(arguments, frame)
        here = self.here(target.frame)
        self._check_limits(target, arguments, here)
        start = before if before is not None and before.frame == target.frame else here
        if not heading_chosen and start is not None:
            heading = bearing_rad((start.x_m, start.y_m), (target.x_m, target.y_m))
            target = Pose2D(target.x_m, target.y_m, heading, target.frame)
        return GoalPose(target, place, heading_chosen)

    def resolve_all(self, poses: Sequence[PoseArguments], field: str, at_most: int) -> list[GoalPose]:
        """Check a list of poses to be driven in that order.

        Raises:
            ArgumentError: empty, too long, or a fault in one of them, named like ``poses[1].x_m``.
        """
        if not poses:
            raise ArgumentError(field, "must not be empty; give at least one pose")
        if len(poses) > at_most:
            raise ArgumentError(field, f"has {len(poses)} poses, at most {at_most} are allowed here")
        resolved: list[GoalPose] = []
        for index, given in enumerate(poses):
            try:
                resolved.append(self.resolve(given, resolved[-1].pose if resolved else None))
            except ArgumentError as error:
                where = f"{field}[{index}].{error.field}"
                raise ArgumentError(where, error.message, allowed=error.allowed) from None
        return resolved

    def length_m(self, poses: Sequence[GoalPose]) -> float | None:
        """Straight pieces from the robot through the poses; ``None`` if the robot's position is unknown or
        frames differ.
        """
        here = self.here(poses[0].pose.frame)
        if here is None or any(goal.pose.frame != here.frame for goal in poses):
            return None
        points = [(pose.x_m, pose.y_m) for pose in (here, *(goal.pose for goal in poses))]
        return sum(distance(a, b) for a, b in itertools.pairwise(points))

    @staticmethod
    def loop_length_m(poses: Sequence[GoalPose]) -> float:
        """Straight pieces of one round: from the last pose to the first and on to the last."""
        points = [(goal.pose.x_m, goal.pose.y_m) for goal in (poses[-1], *poses)]
        return sum(distance(a, b) for a, b in itertools.pairwise(points))

    def _target(self, arguments: PoseArguments, frame: str) -> tuple[Pose2D, str | None, bool]:
        """Target pose, the place's name, and whether the heading was chosen by somebody."""
        heading = self._heading(arguments)
        if arguments.place is not None:
            if arguments.x_m is not None or arguments.y_m is not None:
                field = "x_m" if arguments.x_m is not None else "y_m"
                raise ArgumentError(field, "give either place, or x_m and y_m, not both")
            name, place = self._place(arguments.place)
            if arguments.frame is not None and arguments.frame != place.frame:
                raise ArgumentError("frame", f'the place "{name}" is given in {place.frame}; leave frame out')
            yaw = place.yaw_rad if heading is None else heading
            return Pose2D(place.x_m, place.y_m, yaw, place.frame), name, True
        if arguments.x_m is None or arguments.y_m is None:
            missing = "x_m" if arguments.x_m is None else "y_m"
            other = arguments.y_m if arguments.x_m is None else arguments.x_m
            both = "x_m and y_m go together" if other is not None else "give either place, or x_m and y_m"
            raise ArgumentError(missing, f"is missing; {both}", allowed=list(self._config.places))
        return Pose2D(arguments.x_m, arguments.y_m, heading or 0.0, frame), None, heading is not None

    def _place(self, wanted: str) -> tuple[str, Place]:
        found = self._config.find_place(wanted)
        if found is not None:
            return found
        places = self._config.places
        every_name = {known: own for own, place in places.items() for known in (own, *place.aliases)}
        listed = nearest_first(wanted, places)
        if not listed:
            raise ArgumentError("place", "this robot has no named places; give x_m and y_m")
        raise ArgumentError(
            "place",
            f'"{wanted[:80]}" is not a place this robot knows.{did_you_mean(wanted, every_name)} '
            f"Places: {', '.join(listed)}.",
            allowed=listed,
        )

    def _heading(self, arguments: PoseArguments) -> float | None:
        yaw = arguments.yaw_rad
        if arguments.orientation is None:
            if yaw is not None and abs(yaw) > math.tau + 1e-6:
                raise ArgumentError(
                    "yaw_rad",
                    f"{yaw:g} is more than a full turn; yaw_rad is in radians. If these are degrees, "
                    f"{yaw:g} degrees are {wrap_angle(math.radians(yaw)):.4f} rad",
                )
            return None if yaw is None else wrap_angle(yaw)
        if yaw is not None:
            raise ArgumentError("orientation", "give either yaw_rad or orientation, not both")
        q = checked_quaternion(arguments.orientation)
        if tilt_rad(q) > TILT_TOLERANCE_RAD:
            raise ArgumentError("orientation", "it tilts the robot; only a turn about z is possible")
        return quaternion_to_yaw(q)

    def _check_limits(self, target: Pose2D, arguments: PoseArguments, here: Pose2D | None) -> None:
        limits, map_frame = self._limits, self._config.robot.map_frame
        for axis, value, allowed in (("x_m", target.x_m, limits.x_m), ("y_m", target.y_m, limits.y_m)):
            if allowed is None:
                continue
            if target.frame != map_frame:
                raise ArgumentError(
                    "frame",
                    f"this robot's limits are in {map_frame}, so a goal in {target.frame} cannot be checked; "
                    f"give it in {map_frame}",
                    allowed=[map_frame],
                )
            if value not in allowed:
                field = axis if arguments.place is None else "place"
                message = f"{value:g} is outside the allowed range {allowed} ({axis}, {map_frame})"
                raise ArgumentError(field, message)
        if limits.max_distance_m is None:
            return
        field = "place" if arguments.place is not None else "x_m"
        if here is None:
            raise ArgumentError(
                field,
                f"goals may be at most {limits.max_distance_m:g} m away, and the robot's position is not "
                "known yet; try again when it is localized",
            )
        away = distance((here.x_m, here.y_m), (target.x_m, target.y_m))
        if away > limits.max_distance_m:
            raise ArgumentError(
                field, f"the goal is {away:.1f} m away, more than the allowed {limits.max_distance_m:g} m"
            )


def nowhere() -> Pose2D | None:
    """For robots whose position nobody reads."""
    return None


def rough_duration_s(length_m: float | None, speed_mps: float | None) -> float | None:
    """First guess of a trip's duration, ``None`` if length or speed is unknown."""
    return None if length_m is None or speed_mps is None else round(length_m / speed_mps, 1)


def words_about_poses(config: RobotConfig, limits: NavigationLimits) -> str:
    """Places, zones and limits, for a tool's description."""
    places = ", ".join(config.places) or "none are configured"
    zones = ", ".join(config.zones) or "none are configured"
    area = "".join(
        f" Goals must have {axis} in {allowed}."
        for axis, allowed in (("x_m", limits.x_m), ("y_m", limits.y_m))
        if allowed
    )
    return f"Places: {places}. Zones for zone_entered: {zones}.{area}"


def checked_frame(frame: str | None, frames: Sequence[str], default: str) -> str:
    """The goal's frame; an empty, slashed or unknown one is refused here, not by TF on the robot (case A4).

    Raises:
        ArgumentError: on ``frame``.
    """
    if frame is None:
        return default
    if frame in frames:
        return frame
    if not frame.strip():
        raise ArgumentError("frame", f'must not be empty; leave it out for "{default}"', allowed=frames)
    if frame.startswith("/"):
        raise ArgumentError(
            "frame", f'frame names have no leading slash: "{frame.lstrip("/")}"', allowed=frames
        )
    raise ArgumentError(
        "frame",
        f'"{frame[:80]}" is not a frame goals may be given in.{did_you_mean(frame, frames)}',
        allowed=nearest_first(frame, frames),
    )


def checked_quaternion(given: QuaternionArguments) -> Quaternion:
    """A unit quaternion, normalised.

    Raises:
        ArgumentError: on ``orientation``: all zeros (never replaced by a guess, case A1) or not of length 1.
    """
    q = Quaternion(given.x, given.y, given.z, given.w)
    if q.norm < 1e-6:
        raise ArgumentError(
            "orientation", "all zeros is no rotation; no turn is x=0, y=0, z=0, w=1, or use yaw_rad"
        )
    if abs(q.norm - 1.0) > NORM_TOLERANCE:
        raise ArgumentError("orientation", f"its length is {q.norm:.3f}, not 1; use yaw_rad instead")
    return Quaternion(*(part / q.norm for part in q))
