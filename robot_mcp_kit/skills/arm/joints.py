"""Joint positions and trajectories from a caller, checked against the arm's joints before anything moves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config import fold_name
from robot_mcp_kit.skills.config.arm import Arm, Joint, NamedTarget
from robot_mcp_kit.skills.messages import duration_fields
from robot_mcp_kit.skills.text import did_you_mean, nearest_first

JOINTS_RAD = Field(
    None,
    description=(
        'Positions of the turning joints in radians by name, all of them: {"elbow_joint": 1.2}. 1.5708 is a '
        "quarter turn."
    ),
)
JOINTS_M = Field(None, description="Positions of the sliding joints in metres by name, if the arm has any.")


class TrajectoryPointArguments(SkillArguments):
    """Where the joints are at one moment."""

    time_from_start_s: Number = Field(
        description="Seconds after the start at which these positions are reached; rises from point to point."
    )
    joints_rad: dict[str, Number] | None = JOINTS_RAD
    joints_m: dict[str, Number] | None = JOINTS_M


@dataclass(frozen=True, slots=True)
class JointTrajectory:
    """A checked trajectory: every point has every joint of ``names``, in that order."""

    names: tuple[str, ...]
    times_s: tuple[float, ...]
    points: tuple[tuple[float, ...], ...]

    @property
    def duration_s(self) -> float:
        return self.times_s[-1]

    def fields(self) -> dict[str, Any]:
        """Fields of ``trajectory_msgs/msg/JointTrajectory``. Stamp zero: start now."""
        return {
            "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""},
            "joint_names": list(self.names),
            "points": [
                {"positions": list(point), "time_from_start": duration_fields(time_s)}
                for time_s, point in zip(self.times_s, self.points, strict=True)
            ],
        }


class JointChecker:
    """Checks what a caller says about the joints of one arm."""

    def __init__(self, arm: Arm) -> None:
        self._joints = arm.joints
        self._targets = arm.named_targets

    def positions(
        self, joints_rad: Mapping[str, float] | None, joints_m: Mapping[str, float] | None, at: str = ""
    ) -> dict[str, float]:
        """All joints' positions, in the arm's order.

        Args:
            joints_rad: turning joints.
            joints_m: sliding joints.
            at: what the field names begin with, ``points[1].``.

        Raises:
            ArgumentError: an unknown or missing joint, a joint in the wrong unit or outside its range.
        """
        given: dict[str, float] = {}
        for field, values, slides in (("joints_rad", joints_rad, False), ("joints_m", joints_m, True)):
            for name, value in (values or {}).items():
                self._check(f"{at}{field}.{name}", name, value, slides)
                given[name] = value
        missing = [name for name in self._joints if name not in given]
        if missing:
            field = f"{at}joints_{self._joints[missing[0]].unit}"
            # A joint that is left out would be free to go anywhere.
            raise ArgumentError(
                field, f"needs every joint; missing: {', '.join(missing)}", allowed=list(self._joints)
            )
        return {name: given[name] for name in self._joints}

    def _check(self, field: str, name: str, value: float, slides: bool) -> None:
        joint = self._joints.get(name)
        if joint is None:
            known = list(self._joints)
            raise ArgumentError(
                field,
                f"is not a joint of this arm.{did_you_mean(name, known)}",
                allowed=nearest_first(name, known),
            )
        if joint.slides is not slides:
            raise ArgumentError(field, f"is measured in {joint.unit}; give it in joints_{joint.unit}")
        if value not in joint.range:
            allowed = f"{value:g} is outside the joint's range ({joint.range} {joint.unit})"
            raise ArgumentError(field, allowed + degrees_hint(value, joint))

    def target(self, wanted: str) -> tuple[str, NamedTarget]:
        """A named target by its name or alias.

        Raises:
            ArgumentError: lists the ones there are.
        """
        folded = fold_name(wanted)
        for name, entry in self._targets.items():
            if any(fold_name(known) == folded for known in (name, *entry.aliases)):
                return name, entry
        listed = nearest_first(wanted, self._targets)
        if not listed:
            raise ArgumentError("target", "this arm has no named targets; give joints_rad or pose")
        every_name = [known for name, entry in self._targets.items() for known in (name, *entry.aliases)]
        raise ArgumentError(
            "target",
            f'"{wanted[:80]}" is not a target of this arm.{did_you_mean(wanted, every_name)} '
            f"Targets: {', '.join(listed)}.",
            allowed=listed,
        )

    def trajectory(
        self, points: Sequence[TrajectoryPointArguments], *, max_points: int, max_duration_s: float
    ) -> JointTrajectory:
        """Check a trajectory by the rules its servers follow without saying so.

        Raises:
            ArgumentError: no or too many points, times that do not rise, joints as in :meth:`positions`, or a
                joint that would have to move faster than configured.
        """
        if not points:
            raise ArgumentError("points", "must not be empty; give at least one point")
        if len(points) > max_points:
            raise ArgumentError("points", f"has {len(points)} points, at most {max_points} are allowed here")
        times: list[float] = []
        rows: list[tuple[float, ...]] = []
        for index, point in enumerate(points):
            at, time_s = f"points[{index}].", point.time_from_start_s
            since = times[-1] if times else 0.0
            # 0 for the first point would ask for a jump.
            if time_s <= since:
                raise ArgumentError(f"{at}time_from_start_s", f"must be above {since:g}, got {time_s:g}")
            if time_s > max_duration_s:
                raise ArgumentError(
                    f"{at}time_from_start_s", f"{time_s:g} is more than the {max_duration_s:g} s allowed here"
                )
            times.append(time_s)
            rows.append(tuple(self.positions(point.joints_rad, point.joints_m, at).values()))
        trajectory = JointTrajectory(tuple(self._joints), tuple(times), tuple(rows))
        self._check_speeds(trajectory)
        return trajectory

    def _check_speeds(self, trajectory: JointTrajectory) -> None:
        pairs = itertools.pairwise(zip(trajectory.times_s, trajectory.points, strict=True))
        for index, ((t0, before), (t1, after)) in enumerate(pairs, start=1):
            for (name, joint), a, b in zip(self._joints.items(), before, after, strict=True):
                speed = abs(b - a) / (t1 - t0)
                if joint.max_speed is not None and speed > joint.max_speed * (1 + 1e-9):
                    raise ArgumentError(
                        f"points[{index}].time_from_start_s",
                        f"{name} would have to move at {speed:.2f} {joint.unit}/s, faster than the "
                        f"{joint.max_speed:g} allowed; give it more time",
                    )

    def slides(self, name: str) -> bool:
        """Whether a joint is measured in metres; an unknown one is not."""
        return name in self._joints and self._joints[name].slides

    def words(self) -> str:
        """Joints with their ranges, for a description."""
        return ", ".join(f"{name} {joint.range} {joint.unit}" for name, joint in self._joints.items())

    def target_words(self) -> str:
        return ", ".join(self._targets) or "none are configured"


def degrees_hint(value: float, joint: Joint) -> str:
    """For a turning joint far beyond a full turn."""
    if joint.slides or abs(value) <= math.tau:
        return ""
    return f". If these are degrees, {value:g} degrees are {math.radians(value):.4f} rad"
