"""A six-joint arm: forward and inverse kinematics, joint limits, trajectories, and how the joints follow
them. Pure.

Frames: ``base_link`` on the ground below the robot's centre (x forward, z up), ``arm_base_link`` on top of
the
robot, ``tool0`` between the fingertips (x points out of the gripper).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from robot_mcp_kit.sim.drive import clamp
from robot_mcp_kit.sim.floorplan import FloatArray


@dataclass(frozen=True, slots=True)
class Joint:
    """Limits of one joint: rad and rad/s."""

    name: str
    axis: str
    low_rad: float
    high_rad: float
    max_rate: float


JOINTS = (
    Joint("shoulder_pan_joint", "z", -2.9, 2.9, 1.2),
    Joint("shoulder_lift_joint", "y", -2.6, 0.9, 1.2),
    Joint("elbow_joint", "y", -0.2, 2.7, 1.2),
    Joint("wrist_1_joint", "x", -3.1, 3.1, 2.0),
    Joint("wrist_2_joint", "y", -2.0, 2.0, 2.0),
    Joint("wrist_3_joint", "x", -3.1, 3.1, 2.0),
)
JOINT_NAMES = tuple(joint.name for joint in JOINTS)
TOOL_LINK = "tool0"
GROUP = "arm"
HOME = (0.0, -1.9, 2.4, 0.0, -0.5, 0.0)
"""Folded above the robot, tool forward."""

ARM_BASE = (0.10, 0.0, 0.35)
"""Origin of ``arm_base_link`` in ``base_link``, metres."""
OFFSETS = (
    (0.0, 0.0, 0.10),
    (0.40, 0.0, 0.0),
    (0.35, 0.0, 0.0),
    (0.0, 0.0, 0.0),
    (0.15, 0.0, 0.0),
    (0.0, 0.0, 0.0),
)
"""What follows each joint, in the joint's frame, metres."""
REACH_M = 0.90
_SHOULDER = (ARM_BASE[0], ARM_BASE[1], ARM_BASE[2] + 0.10)
_ACCEL = 4.0
"""Joint deceleration when a motion is called off, rad/s²."""


class NoSolution(Exception):
    """The arm cannot reach that pose."""


def _rotation(axis: str, angle: float) -> FloatArray:
    c, s = math.cos(angle), math.sin(angle)
    if axis == "x":
        return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    if axis == "y":
        return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


_UNIT = {"x": np.array([1.0, 0, 0]), "y": np.array([0, 1.0, 0]), "z": np.array([0, 0, 1.0])}


def rotation_of_quaternion(x: float, y: float, z: float, w: float) -> FloatArray:
    """Rotation matrix of a quaternion of any length but zero. Raises ValueError for the zero quaternion."""
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if not math.isfinite(norm) or norm < 1e-9:
        raise ValueError("the quaternion has no length")
    x, y, z, w = x / norm, y / norm, z / norm, w / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_of_rotation(rotation: FloatArray) -> tuple[float, float, float, float]:
    """``x, y, z, w`` of a rotation matrix; ``w`` is not negative."""
    # Four ways to the same quaternion; the one that divides by the largest number loses least.
    m = [[float(value) for value in row] for row in rotation]
    x, y, z, w = (
        1 + m[0][0] - m[1][1] - m[2][2],
        1 - m[0][0] + m[1][1] - m[2][2],
        1 - m[0][0] - m[1][1] + m[2][2],
        1 + m[0][0] + m[1][1] + m[2][2],
    )
    a, b, c = m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]
    d, e, f = m[0][1] + m[1][0], m[0][2] + m[2][0], m[1][2] + m[2][1]
    largest = max(x, y, z, w)
    parts = {x: (x, d, e, a), y: (d, y, f, b), z: (e, f, z, c), w: (a, b, c, w)}[largest]
    sign = -1.0 if parts[3] < 0 else 1.0
    scale = sign * 0.5 / math.sqrt(largest)
    return parts[0] * scale, parts[1] * scale, parts[2] * scale, parts[3] * scale


def forward(joints_rad: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Position (m) and rotation of ``tool0`` in ``base_link``."""
    position, rotation, _, _ = _chain(joints_rad)
    return position, rotation


def _chain(q: Sequence[float]) -> tuple[FloatArray, FloatArray, list[FloatArray], list[FloatArray]]:
    position: FloatArray = np.array(ARM_BASE)
    rotation: FloatArray = np.eye(3)
    origins, axes = [], []
    for joint, angle, offset in zip(JOINTS, q, OFFSETS, strict=True):
        origins.append(position)
        axes.append(rotation @ _UNIT[joint.axis])
        rotation = rotation @ _rotation(joint.axis, angle)
        position = position + rotation @ np.array(offset)
    return position, rotation, origins, axes


def _rotation_error(wanted: FloatArray, actual: FloatArray) -> FloatArray:
    """Rotation vector that turns the actual into the wanted orientation."""
    delta = wanted @ actual.T
    angle = math.acos(clamp((float(np.trace(delta)) - 1.0) / 2.0, 1.0))
    if angle < 1e-9:
        return np.zeros(3)
    axis = np.array([delta[2, 1] - delta[1, 2], delta[0, 2] - delta[2, 0], delta[1, 0] - delta[0, 1]])
    length = float(np.linalg.norm(axis))
    if length < 1e-9:  # half a turn: any axis in the plane will get the iteration going
        return np.array([0.0, 0.0, angle])
    return axis / length * angle


def inverse(
    position: Sequence[float],
    rotation: FloatArray | None,
    seed: Sequence[float],
    *,
    position_tolerance_m: float = 0.002,
    rotation_tolerance_rad: float = 0.01,
) -> tuple[float, ...]:
    """Joint angles that bring ``tool0`` to a pose in ``base_link`` (any orientation when ``rotation`` is
    None).

    Damped least squares from several seeds, the present joints first.

    Raises:
        NoSolution: out of reach, or not with that orientation within the joint limits.
    """
    target: FloatArray = np.asarray(position, dtype=np.float64)
    if float(np.linalg.norm(target - np.array(_SHOULDER))) > REACH_M + position_tolerance_m:
        raise NoSolution("the position is out of the arm's reach")
    pan = math.atan2(float(target[1]), float(target[0]) - ARM_BASE[0])
    bends = ((-1.2, 1.8, 0.0), (-0.6, 1.2, -0.6), (-1.6, 1.2, 1.0), (-0.3, 1.6, 0.5), (-2.0, 1.5, -1.0))
    seeds = [tuple(seed), *((pan, a, b, roll, c, 0.0) for a, b, c in bends for roll in (0.0, 1.5))]
    low = np.array([joint.low_rad for joint in JOINTS])
    high = np.array([joint.high_rad for joint in JOINTS])
    for start in seeds:
        q: FloatArray = np.clip(np.asarray(start, dtype=np.float64), low, high)
        for _ in range(60):
            here, turned, origins, axes = _chain(q.tolist())
            error = target - here
            twist = np.zeros(3) if rotation is None else _rotation_error(rotation, turned)
            if (
                np.linalg.norm(error) < position_tolerance_m
                and np.linalg.norm(twist) < rotation_tolerance_rad
            ):
                return tuple(float(v) for v in q)
            linear = np.array([np.cross(a, here - o) for a, o in zip(axes, origins, strict=True)]).T
            jacobian = linear if rotation is None else np.vstack([linear, 0.3 * np.array(axes).T])
            wanted = error if rotation is None else np.concatenate([error, 0.3 * twist])
            square = jacobian @ jacobian.T + 1e-3 * np.eye(len(wanted))
            step = jacobian.T @ np.linalg.solve(square, wanted)
            q = np.clip(q + np.clip(step, -0.4, 0.4), low, high)
    raise NoSolution("no joint angles within the limits reach that pose")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Joint positions (order of :data:`JOINT_NAMES`) over time; ``times_s`` rises strictly."""

    times_s: list[float]
    points: list[tuple[float, ...]]

    @property
    def duration_s(self) -> float:
        return self.times_s[-1]

    def at(self, time_s: float, start: Sequence[float]) -> tuple[tuple[float, ...], int]:
        """Wanted positions at a time, from where the arm stood at 0, and the index of the next point."""
        index = bisect_right(self.times_s, time_s)
        if index >= len(self.points):
            return self.points[-1], len(self.points) - 1
        before = tuple(start) if index == 0 else self.points[index - 1]
        since = 0.0 if index == 0 else self.times_s[index - 1]
        span = self.times_s[index] - since
        share = 1.0 if span <= 0 else (time_s - since) / span
        after = self.points[index]
        return tuple(a + (b - a) * share for a, b in zip(before, after, strict=True)), index


def plan(
    start: Sequence[float], goal: Sequence[float], velocity_scaling: float, acceleration_scaling: float
) -> Trajectory:
    """Straight line in joint space with a smooth (cubic) profile within the scaled limits, sampled at 20 Hz.

    A scaling of 0 or out of (0, 1] means 1: full speed, as in MoveIt.
    """
    velocity = velocity_scaling if 0.0 < velocity_scaling <= 1.0 else 1.0
    acceleration = acceleration_scaling if 0.0 < acceleration_scaling <= 1.0 else 1.0
    duration = 0.1
    for a, b, joint in zip(start, goal, JOINTS, strict=True):
        way = abs(b - a)
        duration = max(
            duration, 1.5 * way / (joint.max_rate * velocity), math.sqrt(6.0 * way / (_ACCEL * acceleration))
        )
    count = max(2, math.ceil(duration / 0.05))
    times, points = [], []
    for k in range(1, count + 1):
        u = k / count
        share = u * u * (3.0 - 2.0 * u)
        times.append(duration * u)
        points.append(tuple(a + (b - a) * share for a, b in zip(start, goal, strict=True)))
    return Trajectory(times, points)


@dataclass(slots=True)
class Arm:
    """Joint positions and rates. Follows a trajectory; stops with limited deceleration when that is taken
    away.
    """

    positions: list[float] = field(default_factory=lambda: list(HOME))
    rates: list[float] = field(default_factory=lambda: [0.0] * len(JOINTS))
    stuck: bool = False
    trajectory: Trajectory | None = None
    elapsed_s: float = 0.0
    start: tuple[float, ...] = HOME

    def follow(self, trajectory: Trajectory) -> None:
        """Start a trajectory now, from wherever the arm is."""
        self.trajectory = trajectory
        self.elapsed_s = 0.0
        self.start = tuple(self.positions)

    def stop(self) -> None:
        """Take the trajectory away; the joints come to rest."""
        self.trajectory = None

    @property
    def resting(self) -> bool:
        return all(abs(rate) < 0.01 for rate in self.rates)

    def wanted(self) -> tuple[tuple[float, ...], int]:
        """Where the joints should be now, and the index of the next trajectory point."""
        if self.trajectory is None:
            return tuple(self.positions), 0
        return self.trajectory.at(self.elapsed_s, self.start)

    def step(self, dt_s: float) -> None:
        if self.trajectory is None:
            if not any(self.rates):
                return
            rates = [rate - clamp(rate, _ACCEL * dt_s) for rate in self.rates]
        else:
            self.elapsed_s += dt_s
            wanted, _ = self.wanted()
            rates = [
                clamp((w - p) / dt_s, joint.max_rate)
                for w, p, joint in zip(wanted, self.positions, JOINTS, strict=True)
            ]
        if self.stuck:
            rates = [0.0] * len(rates)
        self.rates = rates
        for index, (rate, joint) in enumerate(zip(rates, JOINTS, strict=True)):
            moved = self.positions[index] + rate * dt_s
            self.positions[index] = max(joint.low_rad, min(joint.high_rad, moved))
