"""What is known of the robot when a goal is judged, and how a violated limit is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.skills.base import Pose2D


@dataclass(frozen=True, slots=True)
class JointLimit:
    """Of one joint, rad (m for sliding ones), rad/s; ``None``: no limit known."""

    lower: float | None = None
    upper: float | None = None
    speed: float | None = None

    def narrowed(self, other: JointLimit) -> JointLimit:
        """Both hold."""
        return JointLimit(
            _pick(max, self.lower, other.lower),
            _pick(min, self.upper, other.upper),
            _pick(min, self.speed, other.speed),
        )


def _pick(choose: Any, a: float | None, b: float | None) -> float | None:
    known = [value for value in (a, b) if value is not None]
    return choose(known) if known else None


@dataclass(frozen=True, slots=True)
class Situation:
    """The robot now."""

    here: Pose2D | None = None
    """Its base in the map frame; ``None`` while unknown."""
    floor: str | None = None
    """The floor it is on, where that is read from somewhere."""
    described_joints: Mapping[str, JointLimit] | None = field(default=None)
    """From the robot description; ``None`` while it has not arrived."""
    needs_description: bool = False
    """The file says that there is one: goals with joints wait for it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One limit that a goal breaks."""

    limit: str
    """``geofence.keep_in``, ``max_speed_mps``."""
    field: str
    """Path in the goal."""
    value: Any
    allowed: str
    """What would be allowed, in words."""
    why: str = ""
    again_in_s: float | None = None
    """When waiting alone mends it."""

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{self.limit}: {self.field} is {shown(self.value)}{why}; allowed: {self.allowed}"

    def record(self) -> dict[str, Any]:
        """For the audit trail and for a tool's structured answer."""
        told = {
            "limit": self.limit,
            "field": self.field,
            "value": shown(self.value),
            "allowed": self.allowed,
        }
        return told if self.again_in_s is None else {**told, "again_in_s": round(self.again_in_s, 3)}


class LimitViolation(Exception):
    """A goal breaks limits; it is not sent."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(str(one) for one in self.violations))


def shown(value: Any) -> str:
    """A value in a sentence, short whatever it is."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and all(isinstance(part, float | int) for part in value):
        return "(" + ", ".join(f"{part:.3f}" for part in value) + ")"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
