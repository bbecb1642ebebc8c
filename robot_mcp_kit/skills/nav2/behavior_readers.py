"""Feedback of Nav2's behaviors. It carries no time, so elapsed time is the bridge's own."""

from __future__ import annotations

import abc
import math
from typing import Any

from robot_mcp_kit.skills.base import FeedbackReader, GoalSpec, Sample
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import duration_s, number
from robot_mcp_kit.skills.triggers import pose_payload

LEAST_ELAPSED_S = 0.5
LEAST_SHARE = 0.02
"""Before so much is done, the speed so far says nothing about the time left."""


class _MotionReader(FeedbackReader):
    """How much of a motion is done, never going back."""

    def __init__(self, where: WhereIsRobot) -> None:
        self._where = where
        self._started_s: float | None = None
        self._done = 0.0

    @abc.abstractmethod
    def _share(self, feedback: Any) -> float | None:
        """Part that is done, 0 to 1, or ``None`` if the message does not say."""

    @abc.abstractmethod
    def _more(self, feedback: Any) -> dict[str, Any]:
        """What the payload says beside ``eta_s`` and ``percent``."""

    def _eta_s(self, elapsed_s: float) -> float | None:
        """Remaining time at the mean speed so far."""
        if elapsed_s < LEAST_ELAPSED_S or self._done < LEAST_SHARE:
            return None
        return max(0.0, (1.0 - self._done) * elapsed_s / self._done)

    def _distance_m(self) -> float | None:
        return None

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        share = self._share(feedback)
        if share is None:
            return None
        if self._started_s is None:
            self._started_s = now_s
        elapsed_s = now_s - self._started_s
        self._done = max(self._done, min(1.0, max(0.0, share)))
        percent = min(99.0, 100.0 * self._done)
        eta_s = self._eta_s(elapsed_s)
        pose = self._where()
        payload: dict[str, Any] = {
            "eta_s": None if eta_s is None else round(eta_s, 1),
            "percent": round(percent, 1),
            **self._more(feedback),
            "elapsed_s": round(elapsed_s, 1),
            "pose": pose_payload(pose),
        }
        return Sample(
            payload=payload,
            time_s=elapsed_s,
            eta_s=eta_s,
            distance_m=self._distance_m(),
            percent=percent,
            pose=pose,
        )


class SpinReader(_MotionReader):
    """``angular_distance_traveled`` is signed like the target and accumulates beyond a full turn (case B20).

    Payload: ``turned_rad``, ``remaining_rad`` (both signed), ``percent``, ``eta_s``.
    """

    def __init__(self, spec: GoalSpec, where: WhereIsRobot) -> None:
        super().__init__(where)
        self._target_rad: float = spec.context["target"]
        self._turned_rad = 0.0

    def _share(self, feedback: Any) -> float | None:
        turned = number(feedback, "angular_distance_traveled")
        if turned is None:
            return None
        self._turned_rad = turned
        return math.copysign(1.0, self._target_rad) * turned / abs(self._target_rad)

    def _more(self, feedback: Any) -> dict[str, Any]:  # noqa: ARG002
        return {
            "turned_rad": round(self._turned_rad, 3),
            "remaining_rad": round(self._target_rad - self._turned_rad, 3),
        }


class StraightReader(_MotionReader):
    """``distance_traveled`` is the straight displacement, never negative.

    Payload: ``traveled_m``, ``distance_m`` (still to go), ``percent``, ``eta_s``.
    """

    def __init__(self, spec: GoalSpec, where: WhereIsRobot) -> None:
        super().__init__(where)
        self._goal_m: float = spec.context["distance_m"]
        self._speed: float = spec.context["speed_mps"]
        self._traveled_m = 0.0

    def _share(self, feedback: Any) -> float | None:
        traveled = number(feedback, "distance_traveled")
        if traveled is None:
            return None
        self._traveled_m = abs(traveled)
        return self._traveled_m / self._goal_m

    def _distance_m(self) -> float | None:
        return max(0.0, self._goal_m - self._traveled_m)

    def _eta_s(self, elapsed_s: float) -> float | None:  # noqa: ARG002 - the speed is commanded
        return max(0.0, self._goal_m - self._traveled_m) / self._speed

    def _more(self, feedback: Any) -> dict[str, Any]:  # noqa: ARG002
        return {
            "traveled_m": round(self._traveled_m, 3),
            "distance_m": round(max(0.0, self._goal_m - self._traveled_m), 3),
        }


class WaitReader(FeedbackReader):
    """``time_left`` ends at or below 0: shown as 0 (case B17).

    Payload: ``eta_s``, ``percent``, ``elapsed_s``. Time is the robot's.
    """

    def __init__(self, wanted_s: float) -> None:
        self._wanted_s = wanted_s

    def read(self, feedback: Any, now_s: float) -> Sample | None:  # noqa: ARG002
        left = duration_s(feedback, "time_left")
        if left is None:
            return None
        left_s = min(self._wanted_s, max(0.0, left))
        elapsed_s = self._wanted_s - left_s
        percent = min(99.0, 100.0 * elapsed_s / self._wanted_s)
        return Sample(
            payload={
                "eta_s": round(left_s, 1),
                "percent": round(percent, 1),
                "elapsed_s": round(elapsed_s, 1),
            },
            time_s=elapsed_s,
            eta_s=left_s,
            percent=percent,
        )
