"""Goal constraints of MoveIt from joint positions or a pose of the tool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config.arm import MoveArmSection
from robot_mcp_kit.skills.geometry import Quaternion, rpy_to_quaternion
from robot_mcp_kit.skills.goal_pose import QuaternionArguments, checked_frame, checked_quaternion

SPHERE = 2
"""``shape_msgs/msg/SolidPrimitive``."""
_ANGLES = ("roll_rad", "pitch_rad", "yaw_rad")


class ArmPoseArguments(SkillArguments):
    """A position, with or without an orientation."""

    x_m: Number = Field(description="Position along x of `frame`, in metres.")
    y_m: Number = Field(description="Position along y of `frame`, in metres.")
    z_m: Number = Field(description="Position along z of `frame` (up), in metres.")
    roll_rad: Number | None = Field(
        None,
        description="Turn about the x axis of `frame` in radians, applied first. All left out: any.",
    )
    pitch_rad: Number | None = Field(
        None, description="Turn about the y axis of `frame` in radians, applied second."
    )
    yaw_rad: Number | None = Field(
        None, description="Turn about the z axis of `frame` in radians, applied last."
    )
    orientation: QuaternionArguments | None = Field(
        None, description="Orientation as a unit quaternion, instead of roll_rad, pitch_rad and yaw_rad."
    )
    frame: str | None = Field(
        None, description="TF frame of the pose. Left out: the robot's usual one for its arm."
    )


@dataclass(frozen=True, slots=True)
class ArmPose:
    """A checked pose of the tool; ``rotation`` is ``None`` when any will do."""

    frame: str
    position_m: tuple[float, float, float]
    rotation: Quaternion | None

    def __str__(self) -> str:
        x, y, z = self.position_m
        turned = ", any orientation" if self.rotation is None else ""
        return f"({x:.3f}, {y:.3f}, {z:.3f}) in {self.frame}{turned}"


def resolve_pose(given: ArmPoseArguments, section: MoveArmSection) -> ArmPose:
    """Check frame, workspace and orientation.

    Raises:
        ArgumentError: names the field, ``pose.z_m``.
    """
    try:
        frame = checked_frame(given.frame, section.frames, section.frames[0])
        rotation = _rotation(given)
        for axis, allowed in section.workspace.axes().items():
            value = getattr(given, axis)
            if allowed is None:
                continue
            if frame != section.frames[0]:
                raise ArgumentError(
                    "frame",
                    f"the arm's workspace is in {section.frames[0]}, so a pose in {frame} cannot be "
                    "checked; give "
                    f"it in {section.frames[0]}",
                    allowed=[section.frames[0]],
                )
            if value not in allowed:
                raise ArgumentError(axis, f"{value:g} is outside the workspace {allowed} ({axis}, {frame})")
    except ArgumentError as error:
        raise ArgumentError(f"pose.{error.field}", error.message, allowed=error.allowed) from None
    return ArmPose(frame, (given.x_m, given.y_m, given.z_m), rotation)


def _rotation(given: ArmPoseArguments) -> Quaternion | None:
    angles = {name: getattr(given, name) for name in _ANGLES}
    said = [name for name, value in angles.items() if value is not None]
    if given.orientation is not None:
        if said:
            raise ArgumentError("orientation", f"give either {said[0]} or orientation, not both")
        return checked_quaternion(given.orientation)
    if not said:
        return None
    for name in said:
        value = angles[name]
        if abs(value) > math.tau + 1e-6:
            raise ArgumentError(
                name,
                f"{value:g} is more than a full turn; {name} is in radians. If these are degrees, {value:g} "
                f"degrees are {math.radians(value):.4f} rad",
            )
    return rpy_to_quaternion(*(angles[name] or 0.0 for name in _ANGLES))


def joint_constraints(positions: Mapping[str, float], tolerances: Mapping[str, float]) -> dict[str, Any]:
    """``moveit_msgs/msg/Constraints`` for joint positions (rad or m)."""
    return {
        "joint_constraints": [
            {
                "joint_name": name,
                "position": value,
                "tolerance_above": tolerances[name],
                "tolerance_below": tolerances[name],
                "weight": 1.0,
            }
            for name, value in positions.items()
        ]
    }


def pose_constraints(pose: ArmPose, section: MoveArmSection) -> dict[str, Any]:
    """``moveit_msgs/msg/Constraints`` for a pose. The frame is never empty: MoveIt would drop the constraint
    with no more than a line in its log.
    """
    x, y, z = pose.position_m
    header = {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": pose.frame}
    level = {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}
    constraints: dict[str, Any] = {
        "position_constraints": [
            {
                "header": header,
                "link_name": section.end_effector_link,
                "constraint_region": {
                    "primitives": [{"type": SPHERE, "dimensions": [section.position_tolerance_m]}],
                    "primitive_poses": [{"position": {"x": x, "y": y, "z": z}, "orientation": level}],
                },
                "weight": 1.0,
            }
        ]
    }
    if pose.rotation is not None:
        q, tolerance = pose.rotation, section.orientation_tolerance_rad
        constraints["orientation_constraints"] = [
            {
                "header": header,
                "orientation": {"x": q.x, "y": q.y, "z": q.z, "w": q.w},
                "link_name": section.end_effector_link,
                "absolute_x_axis_tolerance": tolerance,
                "absolute_y_axis_tolerance": tolerance,
                "absolute_z_axis_tolerance": tolerance,
                "weight": 1.0,
            }
        ]
    return constraints
