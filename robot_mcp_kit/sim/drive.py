"""The moving base: a differential drive with limited speed and acceleration, and the motions that command
it. Pure.

A motion is asked for a commanded speed at every physics step; the base turns it into movement. The base
holds one
motion at a time: whoever sets a new one takes the wheels from the previous one, as with a shared ``cmd_vel``.
"""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from robot_mcp_kit.sim.floorplan import Pose
from robot_mcp_kit.sim.planner import Path


def wrap(angle_rad: float) -> float:
    """The same angle in (−π, π]."""
    return math.atan2(math.sin(angle_rad), math.cos(angle_rad))


def clamp(value: float, limit: float) -> float:
    """The value within ±limit."""
    return max(-limit, min(limit, value))


@dataclass(slots=True)
class DriveLimits:
    """m/s, m/s², rad/s, rad/s², m."""

    max_speed: float = 0.5
    accel: float = 0.5
    max_yaw_rate: float = 1.2
    yaw_accel: float = 2.5
    radius_m: float = 0.22


class Motion(abc.ABC):
    """Something that commands the base until it is finished or replaced."""

    done: bool = False

    @abc.abstractmethod
    def command(self, base: Base) -> tuple[float, float]:
        """Wanted speed (m/s) and yaw rate (rad/s) for the next step; sets ``done`` when it is there."""


class Base:
    """Pose in ``map`` (the truth), speeds, and the smoothed speed that Nav2's ETA is computed from."""

    SMOOTHING_S = 0.3

    def __init__(self, start: Pose, limits: DriveLimits | None = None) -> None:
        self.limits = limits or DriveLimits()
        self.x_m, self.y_m, self.yaw_rad = start.x_m, start.y_m, start.yaw_rad
        self.speed = 0.0
        self.yaw_rate = 0.0
        self.travelled_m = 0.0
        self.turned_rad = 0.0
        self.slipping = False
        """Wheels turn, the robot does not move."""
        self.speed_scale = 1.0
        self.bumped = False
        """The last step was stopped by an obstacle."""
        self.motion: Motion | None = None
        self._wheels = 0.0, 0.0
        self._recent: deque[tuple[float, float]] = deque()
        self._recent_sum = 0.0
        self._recent_dt = 0.0

    @property
    def pose(self) -> Pose:
        return Pose(self.x_m, self.y_m, self.yaw_rad)

    @property
    def smoothed_speed(self) -> float:
        """Mean speed of the last 0.3 s, m/s, ≥ 0."""
        return abs(self._recent_sum / self._recent_dt) if self._recent_dt > 0 else 0.0

    @property
    def moving(self) -> bool:
        return abs(self.speed) > 1e-3 or abs(self.yaw_rate) > 1e-3

    def stop(self, motion: Motion | None = None) -> None:
        """Let go of the wheels (the base then brakes). With ``motion``: only if that one still holds them."""
        if motion is None or self.motion is motion:
            self.motion = None

    def step(self, dt_s: float, clearance: Callable[[float, float], float]) -> None:
        """Advance by one physics step; ``clearance`` gives the distance to the nearest obstacle."""
        limits = self.limits
        want_v, want_w = 0.0, 0.0
        if self.motion is not None:
            want_v, want_w = self.motion.command(self)
            if self.motion.done:
                self.motion = None
        top = limits.max_speed * self.speed_scale
        dv, dw = limits.accel * dt_s, limits.yaw_accel * dt_s
        wheel_v, wheel_w = self._wheels
        wheel_v += clamp(clamp(want_v, top) - wheel_v, dv)
        wheel_w += clamp(clamp(want_w, limits.max_yaw_rate * max(self.speed_scale, 0.1)) - wheel_w, dw)
        self._wheels = wheel_v, wheel_w
        self.speed, self.yaw_rate = (0.0, 0.0) if self.slipping else (wheel_v, wheel_w)
        self._move(dt_s, clearance)
        self._recent.append((dt_s, self.speed))
        self._recent_sum += self.speed * dt_s
        self._recent_dt += dt_s
        while self._recent_dt > self.SMOOTHING_S + dt_s / 2:
            old_dt, old_speed = self._recent.popleft()
            self._recent_dt -= old_dt
            self._recent_sum -= old_speed * old_dt

    def _move(self, dt_s: float, clearance: Callable[[float, float], float]) -> None:
        self.bumped = False
        if self.speed == 0.0 and self.yaw_rate == 0.0:
            return
        heading = self.yaw_rad + self.yaw_rate * dt_s / 2
        x = self.x_m + self.speed * math.cos(heading) * dt_s
        y = self.y_m + self.speed * math.sin(heading) * dt_s
        if self.speed != 0.0:
            # The grid's table is up to 3.5 cm off, hence the allowance. Whoever already is too close (a door
            # fell
            # shut around the robot) may still move away.
            room = clearance(x, y)
            if room < self.limits.radius_m - 0.04 and room <= clearance(self.x_m, self.y_m):
                self.bumped = True
                self.speed = 0.0
                self._wheels = 0.0, self._wheels[1]
                x, y = self.x_m, self.y_m
        self.x_m, self.y_m = x, y
        self.yaw_rad = wrap(self.yaw_rad + self.yaw_rate * dt_s)
        self.travelled_m += abs(self.speed) * dt_s
        self.turned_rad += self.yaw_rate * dt_s


def _ramp(distance: float, accel: float) -> float:
    """Highest speed from which one can still stop within that distance, with some reserve."""
    return math.sqrt(2.0 * 0.8 * accel * max(distance, 0.0))


class FollowPath(Motion):
    """Pure pursuit: turn in place towards the path, track it, slow down, stop, turn to the final yaw."""

    LOOKAHEAD_M = 0.35

    def __init__(
        self,
        path: Path,
        goal_yaw_rad: float | None,
        *,
        speed: float = 10.0,
        xy_tolerance_m: float = 0.03,
        yaw_tolerance_rad: float = 0.03,
    ) -> None:
        self.speed = speed
        self.xy_tolerance_m = xy_tolerance_m
        self.yaw_tolerance_rad = yaw_tolerance_rad
        self.set_path(path, goal_yaw_rad)

    def set_path(self, path: Path, goal_yaw_rad: float | None) -> None:
        """A new plan, or a new goal: the robot does not stop for it."""
        self.path = path
        self.goal_yaw_rad = goal_yaw_rad
        self.done = False
        self._points: list[tuple[float, float]] = [(float(x), float(y)) for x, y in path.points]
        self._to_end: list[float] = path.to_end_m.tolist()
        self._index = 0
        self._aligned = False
        self._arrived = False

    def rest(self, x_m: float, y_m: float, *, within_m: float) -> Path | None:
        """What is left of the path from a point on; ``None`` when the point is farther off the path than
        that.
        """
        px, py = self._points[self._index]
        if math.hypot(px - x_m, py - y_m) > within_m:
            return None
        return self.path.rest_from(self._index, x_m, y_m)

    def _advance(self, x: float, y: float) -> None:
        """Move the index to the nearest sample, looking only ahead: a path that passes itself is not cut
        short.
        """
        points = self._points
        best, best_distance = self._index, math.inf
        for k in range(self._index, min(self._index + 25, len(points))):
            distance = math.hypot(points[k][0] - x, points[k][1] - y)
            if distance < best_distance:
                best, best_distance = k, distance
        self._index = best

    def command(self, base: Base) -> tuple[float, float]:
        limits = base.limits
        end_x, end_y = self._points[-1]
        to_goal = math.hypot(end_x - base.x_m, end_y - base.y_m)
        if not self._arrived:
            self._advance(base.x_m, base.y_m)
            at_end = self._index == len(self._points) - 1
            self._arrived = to_goal < self.xy_tolerance_m or (at_end and to_goal < 3 * self.xy_tolerance_m)
        if self._arrived:
            return self._finish(base)
        ahead = self._index
        here = self._to_end[self._index]
        while ahead < len(self._points) - 1 and here - self._to_end[ahead] < self.LOOKAHEAD_M:
            ahead += 1
        tx, ty = self._points[ahead]
        distance = max(math.hypot(tx - base.x_m, ty - base.y_m), 1e-6)
        error = wrap(math.atan2(ty - base.y_m, tx - base.x_m) - base.yaw_rad)
        if abs(error) > (0.8 if self._aligned else 0.1):
            self._aligned = False
            return 0.0, math.copysign(
                min(limits.max_yaw_rate, _ramp(abs(error), limits.yaw_accel) + 0.05), error
            )
        self._aligned = True
        speed = min(self.speed, limits.max_speed, max(_ramp(here, limits.accel), 0.04))
        speed *= max(0.3, math.cos(error) - 0.5 * abs(math.sin(error)))
        yaw_rate = 2.0 * speed * math.sin(error) / distance + 0.5 * error
        return speed, clamp(yaw_rate, limits.max_yaw_rate)

    def _finish(self, base: Base) -> tuple[float, float]:
        if abs(base.speed) > 0.01 and not base.slipping:
            return 0.0, 0.0
        if self.goal_yaw_rad is None:
            self.done = True
            return 0.0, 0.0
        error = wrap(self.goal_yaw_rad - base.yaw_rad)
        if abs(error) < self.yaw_tolerance_rad and abs(base.yaw_rate) < 0.15:
            self.done = True
            return 0.0, 0.0
        rate = min(base.limits.max_yaw_rate, _ramp(abs(error), base.limits.yaw_accel) + 0.02)
        return 0.0, math.copysign(rate, error)


class Turn(Motion):
    """Turn in place by a signed angle, which may exceed a full turn."""

    def __init__(self, target_rad: float, rate: float = 1.0) -> None:
        self.target_rad = target_rad
        self.rate = rate
        self.turned_rad = 0.0
        self._start: float | None = None

    def command(self, base: Base) -> tuple[float, float]:
        if self._start is None:
            self._start = base.turned_rad
        self.turned_rad = base.turned_rad - self._start
        left = self.target_rad - self.turned_rad
        if abs(left) < 0.005 or left * self.target_rad <= 0:
            self.done = True
            return 0.0, 0.0
        return 0.0, math.copysign(min(self.rate, _ramp(abs(left), base.limits.yaw_accel) + 0.02), left)


class Straight(Motion):
    """Drive straight by a signed distance (negative: backwards) at a positive speed."""

    def __init__(self, distance_m: float, speed: float) -> None:
        self.distance_m = distance_m
        self.speed = speed
        self.displacement_m = 0.0
        """Straight-line distance from the start, ≥ 0."""
        self._start: Pose | None = None

    def command(self, base: Base) -> tuple[float, float]:
        if self._start is None:
            self._start = base.pose
        self.displacement_m = math.hypot(base.x_m - self._start.x_m, base.y_m - self._start.y_m)
        left = abs(self.distance_m) - self.displacement_m
        if left < 0.002:
            self.done = True
            return 0.0, 0.0
        speed = min(self.speed, max(_ramp(left, base.limits.accel), 0.01))
        correction = clamp(1.5 * wrap(self._start.yaw_rad - base.yaw_rad), 0.3)
        return math.copysign(speed, self.distance_m), correction
