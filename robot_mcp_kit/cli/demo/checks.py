"""What the demo claims, as checks over its evidence. Pure, so that each check can be shown to fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.cli.words import number
from robot_mcp_kit.client.inbox import TERMINAL_TYPES, Receipt
from robot_mcp_kit.models import TaskEvent

LEAST_PROGRESS_EVENTS = 3


@dataclass(frozen=True, slots=True)
class PlanarPose:
    """Metres and radians in ``frame``."""

    x_m: float
    y_m: float
    yaw_rad: float
    frame: str = "map"

    def as_dict(self) -> dict[str, Any]:
        return {
            "x_m": round(self.x_m, 4),
            "y_m": round(self.y_m, 4),
            "yaw_rad": round(self.yaw_rad, 4),
            "frame": self.frame,
        }


@dataclass(slots=True)
class Evidence:
    """Everything one run of the story left behind.

    ``accepted_at_s``, ``called_at_s`` and ``answered_at_s`` are readings of the machine's monotonic clock,
    which is the same in every process; ``accepted_at_s`` was read by a witness process from the action
    server's own status topic. ``measured`` is what that witness saw, not what the bridge reported.
    """

    target: PlanarPose
    tolerance_m: float
    yaw_tolerance_rad: float
    called_at_s: float = 0.0
    answered_at_s: float | None = None
    accepted_at_s: float | None = None
    ended_at_s: float | None = None
    task: dict[str, Any] | None = None
    final_task: dict[str, Any] | None = None
    receipts: list[Receipt] = field(default_factory=list)
    measured: PlanarPose | None = None

    def events(self) -> list[TaskEvent]:
        """This task's verified events in order of arrival, each once."""
        task_id = (self.task or {}).get("task_id")
        return [
            receipt.event
            for receipt in self.receipts
            if receipt.event is not None and receipt.accepted and receipt.event.task_id == task_id
        ]

    def error_m(self) -> float | None:
        """Distance between where the robot is and where it was sent, metres."""
        if self.measured is None or self.measured.frame != self.target.frame:
            return None
        return math.hypot(self.measured.x_m - self.target.x_m, self.measured.y_m - self.target.y_m)

    def yaw_error_rad(self) -> float | None:
        if self.measured is None or self.measured.frame != self.target.frame:
            return None
        return abs(math.remainder(self.measured.yaw_rad - self.target.yaw_rad, math.tau))


def evaluate(evidence: Evidence) -> dict[str, bool]:
    """Each claim of the demo by name. All must hold."""
    events = evidence.events()
    progress = [event for event in events if event.type == "progress"]
    etas_s = [eta for event in progress if (eta := number(event.payload.get("eta_s"))) is not None]
    fired = [
        event for event in events if event.type == "trigger_fired" and _trigger_type(event) == "eta_below"
    ]
    terminal = [event for event in events if event.type in TERMINAL_TYPES]
    final = evidence.final_task or {}
    error_m, yaw_error_rad = evidence.error_m(), evidence.yaw_error_rad()
    return {
        "accepted": evidence.accepted_at_s is not None,
        "at_least_three_progress_events": len(progress) >= LEAST_PROGRESS_EVENTS,
        "eta_falls": falls(etas_s),
        "eta_below_fired_exactly_once": len(fired) == 1,
        "task_done": [event.type for event in terminal] == ["task_done"]
        and final.get("state") == "succeeded",
        "all_signatures_valid": bool(events)
        and all(receipt.event is not None for receipt in evidence.receipts),
        "seq_contiguous": bool(events) and [event.seq for event in events] == list(range(1, len(events) + 1)),
        "final_pose_within_tolerance": error_m is not None
        and yaw_error_rad is not None
        and error_m <= evidence.tolerance_m
        and yaw_error_rad <= evidence.yaw_tolerance_rad,
    }


def falls(etas_s: Sequence[float]) -> bool:
    """Whether the estimates fall: the last is below the first, and at least three of them form a falling row.

    An estimate may rise for a moment (a detour, a slow turn), so not every step has to fall.
    """
    best: list[int] = []
    for index, eta in enumerate(etas_s):
        before = [best[earlier] for earlier in range(index) if etas_s[earlier] > eta]
        best.append(1 + max(before, default=0))
    return max(best, default=0) >= LEAST_PROGRESS_EVENTS and etas_s[-1] < etas_s[0]


def report(evidence: Evidence) -> dict[str, Any]:
    """The demo's one JSON object."""
    checks = evaluate(evidence)
    error_m, yaw_error_rad = evidence.error_m(), evidence.yaw_error_rad()
    return {
        "ok": all(checks.values()),
        "checks": checks,
        "task": evidence.task,
        "final_task": evidence.final_task,
        "events": [
            {"verified": True, "duplicate": receipt.duplicate, "event": receipt.event.model_dump(mode="json")}
            if receipt.event is not None
            else {"verified": False, "status": receipt.status, "reason": receipt.reason}
            for receipt in evidence.receipts
        ],
        "timings": {
            "call_to_task_info_s": _since(evidence.called_at_s, evidence.answered_at_s),
            "call_to_accepted_s": _since(evidence.called_at_s, evidence.accepted_at_s),
            "total_s": _since(evidence.called_at_s, evidence.ended_at_s),
        },
        "measured": {
            "pose": evidence.measured.as_dict() if evidence.measured else None,
            "target": evidence.target.as_dict(),
            "error_m": None if error_m is None else round(error_m, 4),
            "yaw_error_rad": None if yaw_error_rad is None else round(yaw_error_rad, 4),
            "tolerance_m": evidence.tolerance_m,
            "yaw_tolerance_rad": evidence.yaw_tolerance_rad,
        },
    }


def _since(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else round(end_s - start_s, 6)


def _trigger_type(event: TaskEvent) -> object:
    trigger = event.payload.get("trigger")
    return trigger.get("type") if isinstance(trigger, dict) else None
