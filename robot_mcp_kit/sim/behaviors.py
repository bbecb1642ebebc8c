"""Spin, BackUp, DriveOnHeading, Wait: Nav2's behavior server, 10 Hz each."""

from __future__ import annotations

import abc
import math
from typing import Any

from nav2_msgs.action import BackUp, DriveOnHeading, Spin, Wait

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import SimActionServer, Slot
from robot_mcp_kit.sim.drive import Motion, Straight, Turn

MIN_SPEED = 0.10
LOOK_AHEAD_S = 2.0


class Refused(Exception):
    """The request cannot be carried out; carries the error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Behavior(SimActionServer):
    """One timed behavior. ``OFFSET`` is where its error codes begin."""

    OFFSET = 700
    TITLE = "Behavior"

    @abc.abstractmethod
    def begin(self, request: Any) -> None:
        """Start moving. Raises Refused."""

    @abc.abstractmethod
    def progress(self, request: Any, elapsed_s: float) -> tuple[bool, Any]:
        """Whether it is done, and the feedback."""

    def blocked(self, request: Any) -> int:  # noqa: ARG002
        """Error code when something is in the way, else 0."""
        return 0

    def let_go(self) -> None:
        """Stop the robot."""

    def allowance_s(self, request: Any) -> float:
        """Time allowance in seconds; 0 means no limit."""
        return messages.seconds(request.time_allowance)

    def run(self, slot: Slot) -> None:
        request = slot.request
        try:
            with self.world.lock:
                self.begin(request)
        except Refused as refusal:
            slot.end("aborted", self.result(refusal.code, str(refusal)))
            return
        try:
            self._loop(slot, request)
        finally:
            self.let_go()

    def _loop(self, slot: Slot, request: Any) -> None:
        started_s, allowance_s = self.clock.now_s, self.allowance_s(request)

        def finish(how: Any, code: int = 0, text: str = "") -> None:
            self.let_go()
            result = self.result(code, text)
            result.total_elapsed_time = messages.duration(self.clock.now_s - started_s)
            slot.end(how, result)

        for now_s in self.ticks():
            elapsed_s = now_s - started_s
            if slot.cancel_requested:
                return finish("canceled")
            if self.pending is not None:
                # Nav2 does not replace a running behavior: it ends it, then runs the new one.
                self.log.warning("preempted: stopping, then running the new goal")
                return finish("aborted")
            if self.forced_abort(slot):
                return None
            if allowance_s > 0 and elapsed_s > allowance_s:
                text = f"Exceeded time allowance before reaching the {self.TITLE} goal - Exiting {self.TITLE}"
                return finish("aborted", self.OFFSET + 1, text)
            with self.world.lock:
                done, feedback = self.progress(request, elapsed_s)
                code = 0 if done else self.blocked(request)
            slot.feedback(feedback)
            if done:
                return finish("succeeded")
            if code:
                return finish("aborted", code, f"Collision Ahead - Exiting {self.TITLE}")
        return None


class _Moving(Behavior):
    """A behavior that holds the wheels by a motion."""

    motion: Motion

    def take_wheels(self, motion: Motion) -> None:
        self.motion = motion
        self.world.base.motion = motion

    def let_go(self) -> None:
        self.world.base.stop(self.motion)


class SpinServer(_Moving):
    """``spin``: turn in place by a signed angle."""

    OFFSET, TITLE = 700, "Spin"
    motion: Turn

    def __init__(self, sim: Any) -> None:
        super().__init__(sim, "spin", Spin)

    def acceptable(self, request: Any) -> bool:
        return math.isfinite(request.target_yaw)

    def begin(self, request: Any) -> None:
        self.take_wheels(Turn(float(request.target_yaw)))

    def progress(self, request: Any, elapsed_s: float) -> tuple[bool, Any]:  # noqa: ARG002
        return self.motion.done, Spin.Feedback(angular_distance_traveled=self.motion.turned_rad)


class _Driving(_Moving):
    """Driving straight, with a look ahead for obstacles."""

    COLLISION = 0
    INVALID = 0
    motion: Straight

    def acceptable(self, request: Any) -> bool:
        values = (request.target.x, request.target.y, request.target.z, request.speed)
        return all(math.isfinite(value) for value in values)

    def begin(self, request: Any) -> None:
        if request.target.y != 0.0 or request.target.z != 0.0:
            raise Refused(
                self.INVALID, f"{self.TITLE}: moving in Y and Z is not supported, will only move in X."
            )
        distance_m, speed = self.command(float(request.target.x), float(request.speed))
        self.take_wheels(Straight(distance_m, speed))

    @abc.abstractmethod
    def command(self, x_m: float, speed: float) -> tuple[float, float]:
        """Signed distance and positive speed. Raises Refused."""

    def progress(self, request: Any, elapsed_s: float) -> tuple[bool, Any]:  # noqa: ARG002
        feedback = self.action_type.Feedback(distance_traveled=self.motion.displacement_m)
        return self.motion.done, feedback

    def blocked(self, request: Any) -> int:
        if getattr(request, "disable_collision_checks", False):  # from Kilted on
            return 0
        base, clearance = self.world.base, self.world.planner.clearance
        left = abs(self.motion.distance_m) - self.motion.displacement_m
        reach = min(left, self.motion.speed * LOOK_AHEAD_S)
        sign = math.copysign(1.0, self.motion.distance_m)
        here = clearance.exact(base.x_m, base.y_m)
        for k in range(1, max(1, math.ceil(reach / 0.05)) + 1):
            way = sign * min(reach, k * 0.05)
            x, y = base.x_m + way * math.cos(base.yaw_rad), base.y_m + way * math.sin(base.yaw_rad)
            room = clearance.exact(x, y)
            if room < base.limits.radius_m and room < here:
                return self.COLLISION
        return self.COLLISION if base.bumped else 0


class BackUpServer(_Driving):
    """``backup``: always backwards; the signs of target and speed are ignored, and it never goes below
    0.10 m/s.
    """

    OFFSET, TITLE, COLLISION, INVALID = (
        710,
        "BackUp",
        BackUp.Result.COLLISION_AHEAD,
        BackUp.Result.INVALID_INPUT,
    )

    def __init__(self, sim: Any) -> None:
        super().__init__(sim, "backup", BackUp)

    def command(self, x_m: float, speed: float) -> tuple[float, float]:
        return -abs(x_m), max(abs(speed), MIN_SPEED)


class DriveOnHeadingServer(_Driving):
    """``drive_on_heading``: straight on; distance and speed must have the same sign."""

    OFFSET, TITLE = 720, "DriveOnHeading"
    COLLISION, INVALID = DriveOnHeading.Result.COLLISION_AHEAD, DriveOnHeading.Result.INVALID_INPUT

    def __init__(self, sim: Any) -> None:
        super().__init__(sim, "drive_on_heading", DriveOnHeading)

    def command(self, x_m: float, speed: float) -> tuple[float, float]:
        if (x_m > 0.0) != (speed > 0.0):
            raise Refused(self.INVALID, "Speed and command sign did not match")
        return x_m, max(abs(speed), MIN_SPEED)


class WaitServer(Behavior):
    """``wait``: stand still for a time; the last ``time_left`` is zero or below."""

    OFFSET, TITLE = 740, "Wait"

    def __init__(self, sim: Any) -> None:
        super().__init__(sim, "wait", Wait)

    def allowance_s(self, request: Any) -> float:  # noqa: ARG002
        return 0.0

    def begin(self, request: Any) -> None:
        """Nothing to start."""

    def progress(self, request: Any, elapsed_s: float) -> tuple[bool, Any]:
        left_s = messages.seconds(request.time) - elapsed_s
        return left_s <= 0.0, Wait.Feedback(time_left=messages.duration(left_s))
