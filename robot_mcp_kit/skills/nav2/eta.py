"""Time left, from a navigator's feedback. Unknown is ``None``, never 0.

Why the raw numbers cannot be passed on (nav2_bt_navigator, ``navigate_to_pose.cpp``):

* ``estimated_time_remaining`` is 0 whenever the robot is slower than 0.01 m/s: at the start, turning in
  place, waiting for a person. Just above that it says three quarters of an hour.
* ``distance_remaining`` is 0 until the planner answered; on Jazzy and Kilted the first messages of a second
goal
  still measure the *previous* goal's path. It jumps at every replan, and for one sample where a path passes
  near itself.

All times here are the robot's own (``navigation_time``), so simulation at any speed gives the same estimates.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.geometry import distance

ARRIVING_M = 0.1
"""At this distance with a known path, a time of 0 means "arriving"."""
STALE_PATH_S = 1.5
STALE_PATH_CHANGE_M = 0.3
SHORTER_THAN_STRAIGHT_M = 1.0
RESET_BACKWARDS_S = 0.5
CREEPING_MPS = 0.05
"""Slower than this, a distance divided by the speed says nothing about the arrival."""
SPEED_WINDOW_S = 10.0
SPEED_LEAST_S = 1.0
SPEED_STEP_S = 0.1
JUMP_M = 1.0
JUMP_MPS = 4.5
"""A change beyond both is not driving: a replan, or a path that passes near itself."""
JUMP_CONFIRM_S = 0.5
MEDIAN_SAMPLES = 5
MEDIAN_STEP_S = 0.2
MEDIAN_MEMORY_S = 3.0


@dataclass(frozen=True, slots=True)
class EtaReading:
    """What is known after one feedback message; ``None`` is unknown."""

    eta_s: float | None = None
    distance_m: float | None = None
    percent: float | None = None
    reset: bool = False
    """The robot's time went back (a simulation was restarted): earlier samples were forgotten."""


class EtaEstimator:
    """State of one goal's estimate. Feed every feedback message in order.

    Args:
        goal: the target, for the check that a path is not shorter than the straight line; frames must match.
    """

    def __init__(self, goal: Pose2D | None = None) -> None:
        self._goal = goal
        self._percent: float | None = None
        self._time_s: float | None = None
        self._forget()

    def _forget(self) -> None:
        self._first_distance_m: float | None = None
        self._settled = False
        self._distance_m: float | None = None
        self._distance_time_s = 0.0
        self._longest_m: float | None = None
        self._jump: tuple[float, float] | None = None
        self._steps: deque[tuple[float, float, float]] = deque()
        self._step_from: tuple[float, float] | None = None
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=MEDIAN_SAMPLES)

    def update(
        self,
        *,
        time_s: float,
        distance_m: float | None,
        time_left_s: float | None,
        pose: Pose2D | None = None,
    ) -> EtaReading:
        """Take one feedback message.

        Args:
            time_s: the robot's time since the goal began (``navigation_time``).
            distance_m: ``distance_remaining``, length of the path left.
            time_left_s: ``estimated_time_remaining``; 0 means unknown, unless the robot is arriving.
            pose: where the robot is.
        """
        reset = self._time_s is not None and time_s < self._time_s - RESET_BACKWARDS_S
        if reset:
            self._forget()
        self._time_s = time_s
        if distance_m is None or distance_m < 0 or self._is_other_goals_path(distance_m, pose):
            return self._reading(None, reset)
        if not self._settled and not self._settle(time_s, distance_m):
            return self._reading(None, reset)
        trusted = self._without_jumps(time_s, distance_m)
        if trusted is None:
            return self._reading(self._smoothed(time_s), reset)
        self._distance_m, self._distance_time_s = trusted, time_s
        self._longest_m = max(trusted, self._longest_m or 0.0)
        self._measure_speed(time_s, trusted)
        raw = self._raw_eta(trusted, time_left_s)
        if raw is None:
            self._arrivals.clear()
        elif not self._arrivals or time_s - self._arrivals[-1][0] >= MEDIAN_STEP_S - 1e-9:
            self._arrivals.append((time_s, time_s + raw))
        self._count_percent(trusted)
        return self._reading(self._smoothed(time_s), reset)

    def _is_other_goals_path(self, distance_m: float, pose: Pose2D | None) -> bool:
        """No path is shorter than the straight line: such a length belongs to another goal."""
        if self._goal is None or pose is None or pose.frame != self._goal.frame:
            return False
        straight = distance((pose.x_m, pose.y_m), (self._goal.x_m, self._goal.y_m))
        return straight > distance_m + SHORTER_THAN_STRAIGHT_M

    def _settle(self, time_s: float, distance_m: float) -> bool:
        """Whether the path can be believed to be this goal's: it was replaced, or there was time to do so."""
        if self._first_distance_m is None:
            self._first_distance_m = distance_m
        replaced = abs(distance_m - self._first_distance_m) > STALE_PATH_CHANGE_M
        self._settled = distance_m > 0 and (replaced or time_s >= STALE_PATH_S)
        return self._settled

    def _without_jumps(self, time_s: float, distance_m: float) -> float | None:
        """The distance, or ``None`` while a jump waits for its confirmation."""
        if self._distance_m is None:
            return distance_m
        limit = max(JUMP_M, JUMP_MPS * (time_s - self._distance_time_s))
        if abs(distance_m - self._distance_m) <= limit:
            self._jump = None
            return distance_m
        if self._jump is None or abs(distance_m - self._jump[1]) > limit:
            self._jump = (time_s, distance_m)
            return None
        if time_s - self._jump[0] < JUMP_CONFIRM_S:
            return None
        self._jump = None
        self._step_from = None
        self._arrivals.clear()
        return distance_m

    def _measure_speed(self, time_s: float, distance_m: float) -> None:
        """Keep the last seconds of progress along the path; jumps are no progress."""
        if self._step_from is None:
            self._step_from = (time_s, distance_m)
            return
        since, before = self._step_from
        if time_s - since < SPEED_STEP_S - 1e-9:
            return
        if abs(distance_m - before) <= max(JUMP_M, JUMP_MPS * (time_s - since)):
            self._steps.append((time_s, time_s - since, before - distance_m))
        self._step_from = (time_s, distance_m)
        while self._steps and self._steps[0][0] < time_s - SPEED_WINDOW_S:
            self._steps.popleft()

    def _speed_mps(self) -> float | None:
        duration = sum(step[1] for step in self._steps)
        if duration < SPEED_LEAST_S:
            return None
        speed = sum(step[2] for step in self._steps) / duration
        return speed if speed >= CREEPING_MPS else None

    def _raw_eta(self, distance_m: float, time_left_s: float | None) -> float | None:
        if distance_m <= ARRIVING_M:
            return max(0.0, time_left_s or 0.0)
        if time_left_s is not None and time_left_s > 0 and distance_m / time_left_s >= CREEPING_MPS:
            return time_left_s
        speed = self._speed_mps()
        return None if speed is None else distance_m / speed

    def _smoothed(self, time_s: float) -> float | None:
        """Median of the last arrival times minus now: one odd sample does not count, and there is no lag."""
        recent = [at for seen, at in self._arrivals if seen >= time_s - MEDIAN_MEMORY_S]
        return max(0.0, statistics.median(recent) - time_s) if recent else None

    def _count_percent(self, distance_m: float) -> None:
        if self._longest_m:
            done = min(99.0, max(0.0, 100.0 * (1.0 - distance_m / self._longest_m)))
            self._percent = done if self._percent is None else max(self._percent, done)

    def _reading(self, eta_s: float | None, reset: bool) -> EtaReading:
        return EtaReading(eta_s, self._distance_m if self._settled else None, self._percent, reset)
