"""Limits on the goal that will be sent, each a small object that names what it breaks.

A missing field is judged as what ROS would send for it, which is 0 and mostly wrong: 0 is "no limit" for a
time allowance and "full speed" for MoveIt's scaling (case A10). So what a limit speaks of must be there.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from robot_mcp_kit.safety.geofence import Fence
from robot_mcp_kit.safety.goal_tree import MISSING, duration_s, is_list, real, value_at, values_at
from robot_mcp_kit.safety.situation import JointLimit, LimitViolation, Situation, Violation
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config.safety import FieldLimit
from robot_mcp_kit.skills.config.types import Range
from robot_mcp_kit.skills.geometry import Point

_HAIR = 1e-9
Fields = Mapping[str, Any]


class Limit(abc.ABC):
    """One rule for a goal."""

    name: str

    @abc.abstractmethod
    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:
        """What the goal breaks; nothing: allowed. Never raises on odd contents."""


class LimitSet:
    """All limits of one skill."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = tuple(limits)

    @property
    def names(self) -> list[str]:
        """What is checked, for the audit trail."""
        return sorted({limit.name for limit in self.limits})

    def check(self, fields: Fields, at: Situation) -> None:
        """
        Raises:
            LimitViolation: with every limit that the goal breaks.
        """
        found = [one for limit in self.limits for one in limit.check(fields, at)]
        if found:
            raise LimitViolation(found)


class FieldRule(Limit):
    """A number, or one of some values, at a path."""

    def __init__(self, path: str, rule: FieldLimit, name: str = "") -> None:
        self.name = name or f"fields.{path}"
        self._path, self._rule = path, rule

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:  # noqa: ARG002
        rule, allowed = self._rule, self._words()
        for path, value in values_at(fields, self._path):
            if value is MISSING:
                if rule.required:
                    yield Violation(self.name, path, value, allowed)
                continue
            if rule.choices is not None:
                if not any(type(value) is type(one) and value == one for one in rule.choices):
                    yield Violation(self.name, path, value, allowed)
                continue
            number = duration_s(value) if isinstance(value, Mapping) else real(value)
            if number is None:
                yield Violation(self.name, path, value, allowed, "not a number")
            elif not self._holds(number):
                yield Violation(self.name, path, number, allowed)

    def _holds(self, number: float) -> bool:
        rule = self._rule
        return (
            math.isfinite(number)
            and (rule.min is None or number >= rule.min - _HAIR)
            and (rule.max is None or number <= rule.max + _HAIR)
            and (rule.max_abs is None or abs(number) <= rule.max_abs + _HAIR)
        )

    def _words(self) -> str:
        rule = self._rule
        if rule.choices is not None:
            return " or ".join(repr(one) for one in rule.choices)
        ends = (("at least", rule.min), ("at most", rule.max), ("at most ±", rule.max_abs))
        return " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)


class Positive(Limit):
    """A duration or number that must be there, above 0, and not above a maximum."""

    def __init__(self, name: str, path: str, most: float | None = None, *, optional: bool = False) -> None:
        self.name, self._path, self._most, self._optional = name, path, most, optional

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:  # noqa: ARG002
        allowed = "above 0" if self._most is None else f"above 0 and at most {self._most:g}"
        for path, value in values_at(fields, self._path):
            if value is MISSING and self._optional:
                continue
            number = duration_s(value) if isinstance(value, Mapping) else real(value)
            most = math.inf if self._most is None else self._most * (1 + 1e-6)
            if number is None or not 0.0 < number <= most or not math.isfinite(number):
                shown = value if number is None else number
                yield Violation(self.name, path, shown, allowed)


class MapPoses:
    """Turns a goal's poses into the map frame, so that what is relative cannot get past the fence."""

    def __init__(self, map_frame: str, base_frame: str) -> None:
        self.map_frame, self.base_frame = map_frame, base_frame

    def in_map(self, frame: str, point: Point, here: Pose2D | None) -> tuple[str, Point] | None:
        """The frame and point to judge by; ``None`` when it is relative to a robot nobody has located."""
        if frame != self.base_frame:
            return frame, point
        if here is None:
            return None
        cos, sin = math.cos(here.yaw_rad), math.sin(here.yaw_rad)
        x, y = here.x_m + cos * point[0] - sin * point[1], here.y_m + sin * point[0] + cos * point[1]
        return here.frame, (x, y)


class GoalPoses(Limit):
    """Poses that the base is sent to: complete, inside the fence, not too far."""

    name = "poses"

    def __init__(
        self,
        paths: Sequence[str],
        poses: MapPoses,
        *,
        fence: Fence | None = None,
        max_distance_m: float | None = None,
        box: Mapping[str, Range] | None = None,
        optional: bool = False,
    ) -> None:
        self._paths, self._poses, self._fence = paths, poses, fence
        self._max_distance_m, self._box, self._optional = max_distance_m, dict(box or {}), optional

    def points(self, fields: Fields, at: Situation) -> list[tuple[str, Point] | None]:
        """Frame and position of every pose, in the map where possible; ``None``: cannot be told."""
        found: list[tuple[str, Point] | None] = []
        for _, value in self._given(fields):
            read = self._read(value)
            found.append(None if read is None else self._poses.in_map(read[0], read[1], at.here))
        return found

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:
        given = self._given(fields)
        if not given and not self._optional:
            yield Violation("poses", self._paths[0], MISSING, "at least one pose")
        for path, value in given:
            read = self._read(value)
            if read is None:
                yield Violation(
                    "poses", f"{path}.pose.position", _position(value), "x and y as numbers, and a frame"
                )
                continue
            yield from self._judge(path, *read, at)

    def _judge(self, path: str, frame: str, point: Point, at: Situation) -> Iterator[Violation]:
        field, needs_here = f"{path}.pose.position", frame == self._poses.base_frame
        placed = self._poses.in_map(frame, point, at.here)
        if placed is None:
            if self._fence is not None or self._max_distance_m is not None or self._box:
                why = "relative to a robot whose position is unknown"
                yield Violation("position", field, point, f"poses in {self._poses.map_frame}", why)
            return
        judged_frame, judged = placed
        for axis, allowed in self._box.items():
            value = judged[0] if axis == "x_m" else judged[1]
            if judged_frame != self._poses.map_frame:
                yield Violation(axis, field, point, f"poses in {self._poses.map_frame}", f"given in {frame}")
            elif value not in allowed:
                yield Violation(axis, field, value, str(allowed))
        if self._fence is not None:
            yield from self._fence.check(field, judged_frame, [judged], at)
        if self._max_distance_m is not None:
            yield from self._near_enough(field, judged_frame, judged, at, needs_here)

    def _near_enough(
        self, field: str, frame: str, point: Point, at: Situation, relative: bool
    ) -> Iterator[Violation]:
        most = f"at most {self._max_distance_m:g} m from the robot"
        if at.here is None or (at.here.frame != frame and not relative):
            yield Violation("max_distance_m", field, point, most, "where the robot is, is not known there")
            return
        away = math.hypot(point[0] - at.here.x_m, point[1] - at.here.y_m)
        if away > (self._max_distance_m or 0.0) + _HAIR:
            yield Violation("max_distance_m", field, away, most, "metres away")

    def _given(self, fields: Fields) -> list[tuple[str, Any]]:
        found = []
        for pattern in self._paths:
            found += [(path, value) for path, value in values_at(fields, pattern) if value is not MISSING]
        return found

    @staticmethod
    def _read(value: Any) -> tuple[str, Point] | None:
        frame = value_at(value, "header.frame_id")
        x, y = real(value_at(value, "pose.position.x")), real(value_at(value, "pose.position.y"))
        if not isinstance(frame, str) or not frame or x is None or y is None:
            return None
        return (frame, (x, y)) if math.isfinite(x) and math.isfinite(y) else None


def _position(value: Any) -> Any:
    found = value_at(value, "pose.position")
    return dict(found) if isinstance(found, Mapping) else found


class StraightMotion(Limit):
    """A motion along the robot's heading: distance, speed, and the whole way inside the fence."""

    name = "straight_motion"

    def __init__(
        self,
        *,
        always_backwards: bool,
        max_distance_m: float | None,
        max_speed_mps: float | None,
        fence: Fence | None,
    ) -> None:
        self._backwards = always_backwards
        self._max_distance_m, self._max_speed_mps, self._fence = max_distance_m, max_speed_mps, fence

    def distance_m(self, fields: Fields) -> float:
        """Length, unsigned; 0 when it cannot be read."""
        return abs(real(value_at(fields, "target.x")) or 0.0)

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:
        x, speed = real(value_at(fields, "target.x")), real(value_at(fields, "speed"))
        if x is None or not math.isfinite(x) or x == 0.0:
            yield Violation("target", "target.x", value_at(fields, "target.x"), "a distance in metres, not 0")
            return
        for axis in "yz":
            if real(value_at(fields, f"target.{axis}")) not in (0.0, None):
                yield Violation("target", f"target.{axis}", value_at(fields, f"target.{axis}"), "0: straight")
        if self._max_distance_m is not None and abs(x) > self._max_distance_m + _HAIR:
            yield Violation("max_distance_m", "target.x", abs(x), f"at most {self._max_distance_m:g} m")
        most = math.inf if self._max_speed_mps is None else self._max_speed_mps
        if speed is None or not math.isfinite(speed) or not 0.0 < abs(speed) <= most * (1 + 1e-6):
            allowed = "above 0 m/s" if self._max_speed_mps is None else f"above 0 and at most {most:g} m/s"
            shown = value_at(fields, "speed") if speed is None else abs(speed)
            yield Violation("max_speed_mps", "speed", shown, allowed)
        if self._fence is not None:
            yield from self._inside(x, at)

    def _inside(self, x: float, at: Situation) -> Iterator[Violation]:
        assert self._fence is not None  # noqa: S101 - the caller looked
        here = at.here
        if here is None:
            yield Violation(
                "position", "target.x", x, "straight motions only while the robot's position is known"
            )
            return
        length = -abs(x) if self._backwards else x
        end = (here.x_m + length * math.cos(here.yaw_rad), here.y_m + length * math.sin(here.yaw_rad))
        yield from self._fence.check("target.x", here.frame, [(here.x_m, here.y_m), end], at)


class ToolPoses(Limit):
    """MoveIt's position constraints: inside the workspace box, in its frame."""

    name = "workspace"

    def __init__(self, path: str, box: Mapping[str, Range], frame: str) -> None:
        self._path, self._box, self._frame = path, dict(box), frame

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:  # noqa: ARG002
        for path, constraint in values_at(fields, self._path):
            if constraint is MISSING:
                continue
            frame = value_at(constraint, "header.frame_id")
            if frame != self._frame:
                where = f"{path}.header.frame_id"
                yield Violation("workspace", where, frame, self._frame, "the workspace is given there")
                continue
            centres = list(values_at(constraint, "constraint_region.primitive_poses[].position"))
            if not centres or any(value is MISSING for _, value in centres):
                yield Violation("workspace", path, MISSING, "a region with a position")
                continue
            offset = value_at(constraint, "target_point_offset")
            for inner, position in centres:
                yield from self._inside(f"{path}.{inner}", position, offset)

    def _inside(self, path: str, position: Any, offset: Any) -> Iterator[Violation]:
        for axis, allowed in self._box.items():
            letter = axis[0]
            value = real(value_at(position, letter))
            if value is None or value not in allowed:
                shown = value_at(position, letter) if value is None else value
                yield Violation("workspace", f"{path}.{letter}", shown, str(allowed))
            if real(value_at(offset, letter)) not in (0.0, None):
                # The point that must be inside would be another one than the tool's.
                yield Violation("workspace", f"{path}.{letter}", "offset", "no target_point_offset")


class JointTargets(Limit):
    """MoveIt's joint constraints: inside the joints' ranges, tolerance included."""

    name = "joints"

    def __init__(self, path: str, joints: Mapping[str, JointLimit]) -> None:
        self._path, self._joints = path, dict(joints)

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:
        for path, constraint in values_at(fields, self._path):
            if constraint is MISSING:
                continue
            name, position = value_at(constraint, "joint_name"), real(value_at(constraint, "position"))
            yield from joint_faults(path, name, position, self._joints, at)


class Trajectory(Limit):
    """A joint trajectory: ranges, and speeds and accelerations between its points and as told in them."""

    name = "trajectory"

    def __init__(
        self, path: str, joints: Mapping[str, JointLimit], max_acceleration: float | None = None
    ) -> None:
        self._path, self._joints, self._max_acceleration = path, dict(joints), max_acceleration

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:
        names, points = (
            value_at(fields, f"{self._path}.joint_names"),
            value_at(fields, f"{self._path}.points"),
        )
        if not is_list(names) or not is_list(points) or not names or not points:
            yield Violation("trajectory", self._path, MISSING, "joint_names and points")
            return
        before: tuple[float, list[float], list[float] | None] | None = None
        for index, point in enumerate(points):
            where = f"{self._path}.points[{index}]"
            time_s, row = duration_s(value_at(point, "time_from_start")), value_at(point, "positions")
            if not is_list(row) or len(row) != len(names) or any(real(value) is None for value in row):
                yield Violation("trajectory", f"{where}.positions", row, f"{len(names)} numbers")
                return
            since = 0.0 if before is None else before[0]
            if time_s is None or not math.isfinite(time_s) or time_s <= since:
                yield Violation("trajectory", f"{where}.time_from_start", time_s, f"later than {since:g} s")
                return
            positions = [float(value) for value in row]
            for name, value in zip(names, positions, strict=True):
                yield from joint_faults(f"{where}.positions", name, value, self._joints, at)
            speeds = None
            if before is not None:
                step_s = time_s - before[0]
                speeds = [(b - a) / step_s for a, b in zip(before[1], positions, strict=True)]
                yield from self._too_fast(f"{where}.time_from_start", names, speeds, at)
                if before[2] is not None:
                    yield from self._too_sudden(where, names, before[2], speeds, step_s)
            yield from self._told(point, where, names, at)
            before = (time_s, positions, speeds)

    def _told(self, point: Any, where: str, names: Sequence[Any], at: Situation) -> Iterator[Violation]:
        velocities, accelerations = value_at(point, "velocities"), value_at(point, "accelerations")
        if is_list(velocities) and velocities:
            if len(velocities) != len(names) or any(real(value) is None for value in velocities):
                yield Violation("trajectory", f"{where}.velocities", velocities, f"{len(names)} numbers")
            else:
                yield from self._too_fast(f"{where}.velocities", names, [float(v) for v in velocities], at)
        if self._max_acceleration is not None and is_list(accelerations):
            for name, value in zip(names, accelerations, strict=False):
                number = real(value)
                if number is None or abs(number) > self._max_acceleration * (1 + 1e-6):
                    allowed = f"at most {self._max_acceleration:g}"
                    yield Violation("max_joint_acceleration", f"{where}.accelerations", value, allowed, name)

    def _too_fast(
        self, where: str, names: Sequence[Any], speeds: Sequence[float], at: Situation
    ) -> Iterator[Violation]:
        for name, speed in zip(names, speeds, strict=True):
            most = limit_of(name, self._joints, at).speed
            if most is not None and not abs(speed) <= most * (1 + 1e-6):
                yield Violation("joint_speed", where, abs(speed), f"at most {most:g} for {name}")

    def _too_sudden(
        self, where: str, names: Sequence[Any], before: list[float], after: list[float], step_s: float
    ) -> Iterator[Violation]:
        if self._max_acceleration is None:
            return
        for name, a, b in zip(names, before, after, strict=True):
            value = abs(b - a) / step_s
            if value > self._max_acceleration * (1 + 1e-6):
                allowed = f"at most {self._max_acceleration:g} for {name}"
                yield Violation("max_joint_acceleration", f"{where}.time_from_start", value, allowed)


def limit_of(name: Any, joints: Mapping[str, JointLimit], at: Situation) -> JointLimit:
    """The joint's limit from the file, narrowed by the robot description."""
    own = joints.get(name, JointLimit())
    described = (at.described_joints or {}).get(name)
    return own if described is None else own.narrowed(described)


def joint_faults(
    path: str, name: Any, position: float | None, joints: Mapping[str, JointLimit], at: Situation
) -> Iterator[Violation]:
    """An unknown joint, or a position that is none or out of range."""
    if at.needs_description and at.described_joints is None:
        yield Violation("robot_description", path, "unknown", "goals with joints once it has arrived")
        return
    described = at.described_joints or {}
    if not isinstance(name, str) or (name not in joints and name not in described):
        known = ", ".join(sorted({*joints, *described}))
        yield Violation("joints", path, name, f"a known joint ({known})")
        return
    limit = limit_of(name, joints, at)
    low = -math.inf if limit.lower is None else limit.lower
    high = math.inf if limit.upper is None else limit.upper
    if position is None or not math.isfinite(position) or not low - 1e-6 <= position <= high + 1e-6:
        yield Violation("joints", path, position, f"{low:g} .. {high:g} for {name}")
