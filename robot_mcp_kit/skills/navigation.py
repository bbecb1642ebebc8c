"""The ``navigate_to`` skill: drive to a pose or a named place through ``nav2_msgs/action/NavigateToPose``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Pose2D,
    Sample,
    Skill,
    SkillArguments,
)
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.config import NavigateSection, RobotConfig
from robot_mcp_kit.skills.eta import EtaEstimator
from robot_mcp_kit.skills.geometry import (
    Quaternion,
    angle_between,
    bearing_rad,
    distance,
    quaternion_to_yaw,
    tilt_rad,
    wrap_angle,
    yaw_to_quaternion,
)
from robot_mcp_kit.skills.messages import dig, duration_s, integer, number, pose_2d
from robot_mcp_kit.skills.nav2_codes import nav2_failure, nav2_note
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.skills.triggers import pose_payload

WhereIsRobot = Callable[[], Pose2D | None]
"""Where the robot is now in the map frame, ``None`` while that is unknown."""

NORM_TOLERANCE = 0.01
TILT_TOLERANCE_RAD = 0.05
POSTCONDITION_CODE = "NAV2_POSTCONDITION_POSE"


class QuaternionArguments(SkillArguments):
    """A unit quaternion, fields as in ``geometry_msgs/msg/Quaternion``."""

    x: Number = 0.0
    y: Number = 0.0
    z: Number
    w: Number


class NavigateToArguments(SkillArguments):
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


class NavigateTo(Skill):
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
    short_type: ClassVar[str] = "NavigateToPose"

    def __init__(
        self,
        name: str,
        section: NavigateSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        self.name = name
        self.action_name = section.action
        self.action_type = section.type
        self._section = section
        self._config = config
        self._where = where or (lambda: None)
        self.description = self._describe()

    def _describe(self) -> str:
        places = ", ".join(self._config.places) or "none are configured"
        zones = ", ".join(self._config.zones) or "none are configured"
        limits = self._section.limits
        area = "".join(
            f" Goals must have {axis} in {allowed}."
            for axis, allowed in (("x_m", limits.x_m), ("y_m", limits.y_m))
            if allowed
        )
        second = (
            "A second call while one drive runs takes over and ends the first one."
            if self._section.policy == "replace"
            else "A second call while one drive runs is refused."
        )
        return (
            "Drive the robot on the floor to a named place, or to x_m, y_m (metres) with heading yaw_rad "
            f"(radians) in the frame {self._config.robot.map_frame}. It avoids obstacles on the way. Answers "
            "at once with a task; the drive takes seconds to minutes, so follow it with get_task and end it "
            f"with cancel_task. {second} Calling again after a failure starts a new drive from where the "
            "robot is then. Do not use it for small motions of a few centimetres. "
            f"Places: {places}. Zones for zone_entered: {zones}.{area}"
        )

    # -- goal
    # ---------------------------------------------------------------------------------------------------

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, NavigateToArguments):
            raise TypeError(f"{self.name} takes NavigateToArguments, got {type(arguments).__name__}")
        frame = self._frame(arguments)
        target, label, heading_chosen = self._target(arguments, frame)
        here = self._where()
        if here is not None and here.frame != target.frame:
            here = None
        self._check_limits(target, arguments, here)
        if not heading_chosen and here is not None:
            heading = bearing_rad((here.x_m, here.y_m), (target.x_m, target.y_m))
            target = Pose2D(target.x_m, target.y_m, heading, target.frame)
        q = yaw_to_quaternion(target.yaw_rad)
        fields = {
            "pose": {
                # Stamp zero: "the latest transform". A wall-clock stamp fails under simulated time (case A5).
                "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": target.frame},
                "pose": {
                    "position": {"x": target.x_m, "y": target.y_m, "z": 0.0},
                    "orientation": {"x": q.x, "y": q.y, "z": q.z, "w": q.w},
                },
            },
            "behavior_tree": self._section.behavior_tree,
        }
        return GoalSpec(
            fields=fields,
            summary=f"drive to {label}({target.x_m:.2f}, {target.y_m:.2f}) in {target.frame}",
            est_duration_s=self._rough_duration_s(target, here),
            context={"target": target, "heading_chosen": heading_chosen, "place": label.strip() or None},
        )

    def _frame(self, arguments: NavigateToArguments) -> str:
        """The goal's frame; (case A4) an empty, slashed or unknown one is refused here, not by TF on the
        robot.
        """
        frames = self._config.robot.goal_frames
        frame = arguments.frame
        if frame is None:
            return self._config.robot.map_frame
        if frame in frames:
            return frame
        if not frame.strip():
            raise ArgumentError("frame", "must not be empty; leave it out for the map frame", allowed=frames)
        if frame.startswith("/"):
            raise ArgumentError(
                "frame", f'frame names have no leading slash: "{frame.lstrip("/")}"', allowed=frames
            )
        raise ArgumentError(
            "frame",
            f'"{frame[:80]}" is not a frame goals may be given in.{did_you_mean(frame, frames)}',
            allowed=nearest_first(frame, frames),
        )

    def _target(self, arguments: NavigateToArguments, frame: str) -> tuple[Pose2D, str, bool]:
        """Target pose, a label with a trailing space, and whether the heading was chosen by somebody."""
        heading = self._heading(arguments)
        if arguments.place is not None:
            if arguments.x_m is not None or arguments.y_m is not None:
                field = "x_m" if arguments.x_m is not None else "y_m"
                raise ArgumentError(field, "give either place, or x_m and y_m, not both")
            name, place = self._place(arguments.place)
            if arguments.frame is not None and arguments.frame != place.frame:
                raise ArgumentError("frame", f'the place "{name}" is given in {place.frame}; leave frame out')
            yaw = place.yaw_rad if heading is None else heading
            return Pose2D(place.x_m, place.y_m, yaw, place.frame), f"{name} ", True
        if arguments.x_m is None or arguments.y_m is None:
            missing = "x_m" if arguments.x_m is None else "y_m"
            other = arguments.y_m if arguments.x_m is None else arguments.x_m
            both = "x_m and y_m go together" if other is not None else "give either place, or x_m and y_m"
            raise ArgumentError(missing, f"is missing; {both}", allowed=list(self._config.places))
        return Pose2D(arguments.x_m, arguments.y_m, heading or 0.0, frame), "", heading is not None

    def _place(self, wanted: str) -> tuple[str, Any]:
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

    def _heading(self, arguments: NavigateToArguments) -> float | None:
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
        given = arguments.orientation
        q = Quaternion(given.x, given.y, given.z, given.w)
        if q.norm < 1e-6:
            raise ArgumentError(
                "orientation", "all zeros is no rotation; no turn is x=0, y=0, z=0, w=1, or use yaw_rad"
            )
        if abs(q.norm - 1.0) > NORM_TOLERANCE:
            raise ArgumentError("orientation", f"its length is {q.norm:.3f}, not 1; use yaw_rad instead")
        if tilt_rad(q) > TILT_TOLERANCE_RAD:
            raise ArgumentError("orientation", "it tilts the robot; only a turn about z is possible")
        return quaternion_to_yaw(q)

    def _check_limits(self, target: Pose2D, arguments: NavigateToArguments, here: Pose2D | None) -> None:
        limits, map_frame = self._section.limits, self._config.robot.map_frame
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

    def _rough_duration_s(self, target: Pose2D, here: Pose2D | None) -> float | None:
        speed = self._section.nominal_speed_mps
        if here is None or speed is None:
            return None
        return round(distance((here.x_m, here.y_m), (target.x_m, target.y_m)) / speed, 1)

    # -- feedback and result
    # ------------------------------------------------------------------------------------

    def reader(self, spec: GoalSpec) -> NavigationReader:
        return NavigationReader(spec.context.get("target"))

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            return self._arrived(code, message, spec, last)
        if status == GoalStatus.ABORTED:
            failure = (
                nav2_failure(self.short_type, code, message)
                if code
                else bridge_failure("ROS_ABORTED_NO_REASON", action=self.action_name, detail=message or "")
            )
            return Outcome("failed", failure=self._with_position(failure, last))
        if status == GoalStatus.CANCELED:
            failure = bridge_failure("ROS_CANCELLED_EXTERNALLY", action=self.action_name)
        elif status == GoalStatus.UNKNOWN:
            failure = bridge_failure("ROS_RESULT_EXPIRED", action=self.action_name)
        else:
            failure = bridge_failure("ROS_BAD_STATUS", action=self.action_name, detail=f"Status {status}.")
        return Outcome("failed", failure=self._with_position(failure, last))

    def _arrived(self, code: int, message: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        """SUCCEEDED is a claim; where the robot was last seen decides whether it is passed on."""
        target: Pose2D = spec.context["target"]
        pose = self._measured(target, last)
        result: dict[str, Any] = {
            "goal": pose_payload(target),
            "place": spec.context.get("place"),
            "measured": pose is not None,
            "final_pose": pose_payload(pose),
            "position_error_m": None,
            "yaw_error_rad": None,
        }
        note = nav2_note(self.short_type, code, message)
        if note is not None:
            result["note"] = note
        if pose is None:
            return Outcome("succeeded", result)
        off_m = distance((pose.x_m, pose.y_m), (target.x_m, target.y_m))
        off_rad = angle_between(pose.yaw_rad, target.yaw_rad)
        result["position_error_m"] = round(off_m, 3)
        result["yaw_error_rad"] = round(off_rad, 3) if spec.context["heading_chosen"] else None
        wrong = []
        if off_m > self._section.goal_tolerance_m:
            wrong.append(
                f"{off_m:.2f} m away from the goal (tolerated: {self._section.goal_tolerance_m:g} m)"
            )
        if spec.context["heading_chosen"] and off_rad > self._section.yaw_tolerance_rad:
            wrong.append(f"turned {off_rad:.2f} rad off (tolerated: {self._section.yaw_tolerance_rad:g} rad)")
        if not wrong:
            return Outcome("succeeded", result)
        failure = TaskFailure(
            error_code=POSTCONDITION_CODE,
            message=(
                f"Navigation reported success, but the robot is {' and '.join(wrong)}: it is at "
                f"{_words(pose)}, the goal was {_words(target)}."
            ),
            recoverable=True,
            suggestions=[self.name, "get_task", "ask_person"],
        )
        return Outcome("failed", failure=failure)

    def _measured(self, target: Pose2D, last: Sample | None) -> Pose2D | None:
        """The last pose in the goal's frame: from feedback, or as the robot reports itself now."""
        poses = [last.pose if last is not None else None, self._where()]
        known = [pose for pose in poses if pose is not None and pose.frame == target.frame]
        # Either may be a little older than the end, so the one that speaks for the arrival is believed.
        return min(known, key=lambda p: distance((p.x_m, p.y_m), (target.x_m, target.y_m)), default=None)

    def _with_position(self, failure: TaskFailure, last: Sample | None) -> TaskFailure:
        pose = last.pose if last is not None and last.pose is not None else self._where()
        if pose is None:
            return failure
        message = f"{failure.message} The robot was last seen at {_words(pose)}."
        return failure.model_copy(update={"message": message})


def _words(pose: Pose2D) -> str:
    return f"x {pose.x_m:.2f} m, y {pose.y_m:.2f} m, yaw {pose.yaw_rad:.2f} rad in {pose.frame}"


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
