"""What an adapter says its robot may do, as limits for the guard (R8, R30, R31)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.rcp.limits import MotionLimits
from robot_mcp_kit.rcp.models import IOSignal
from robot_mcp_kit.safety.goal_tree import real
from robot_mcp_kit.safety.limits import Fields, Limit, LimitSet
from robot_mcp_kit.safety.rates import RateLimiter
from robot_mcp_kit.safety.risk import RiskLevel
from robot_mcp_kit.safety.rulebook import SkillRules
from robot_mcp_kit.safety.situation import Situation, Violation
from robot_mcp_kit.skills.config.safety import Approval
from robot_mcp_kit.skills.text import did_you_mean

_HAIR = 1e-9


@dataclass(frozen=True, slots=True)
class Facts:
    """What was asked of the adapter for one request."""

    limits: MotionLimits = field(default_factory=MotionLimits)
    reach_mm: float = 0.0
    """0: not known."""
    signals: Mapping[str, IOSignal] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()

    def signal(self, name: object) -> IOSignal | None:
        """The signal of that name, if it is one."""
        return self.signals.get(name) if isinstance(name, str) else None


def rules_of(name: str, risk: RiskLevel, approval: Approval, facts: Callable[[], Facts]) -> SkillRules:
    """The guard's rules for one action."""
    return SkillRules(
        risk=risk,
        approval=approval,
        limits=LimitSet([DeclaredLimit(name, facts)]),
        frames=frozenset(),
        trees=frozenset(),
        rate=RateLimiter(None),
        moves_base=False,
        poses=None,
        is_straight=False,
    )


class DeclaredLimit(Limit):
    """The limits of one action.

    Args:
        action: the protocol's.
        facts: what is known now.
    """

    name = "adapter"

    def __init__(self, action: str, facts: Callable[[], Facts]) -> None:
        self._action, self._facts = action, facts

    def check(self, fields: Fields, at: Situation) -> Iterator[Violation]:  # noqa: ARG002
        facts = self._facts()
        match self._action:
            case "move_to":
                yield from _position(fields, facts)
            case "vision.calibrate_hand_eye":
                for index, pose in enumerate(fields.get("poses") or ()):
                    yield from _position(pose, facts, f"poses[{index}].")
            case "jog":
                yield from _jog(fields, facts.limits)
            case "set_io":
                yield from _output(fields.get("signal"), "signal", facts, digital_only=False)
                yield from _level(fields, facts)
            case "test_device":
                yield from _output(fields.get("output"), "output", facts, digital_only=True)
                yield from _read_back(fields, facts)
                yield from _at_most("pulse_ms", fields.get("pulse_ms"), facts.limits.pulse_ms_max)
            case "start_program":
                yield from _program(fields.get("module"), facts)
            case "upload_program":
                yield from _at_most("code", len(str(fields.get("code"))), facts.limits.max_code_chars)


def _position(fields: Mapping[str, Any], facts: Facts, at: str = "") -> Iterator[Violation]:
    numbers = {axis: real(fields.get(axis)) for axis in ("x", "y", "z", "rx", "ry", "rz")}
    missing = [axis for axis, value in numbers.items() if value is None or not math.isfinite(value)]
    if missing:
        for axis in missing:
            yield Violation("finite", at + axis, fields.get(axis), "a finite number")
        return
    x, y, z, *turns = (value for value in numbers.values() if value is not None)
    limits = facts.limits
    for axis, value in (("x", x), ("y", y), ("z", z)):
        if axis in limits.box_mm:
            yield from _between(f"box_mm.{axis}", at + axis, value, limits.box_mm[axis])
    for axis, value in zip(("rx", "ry", "rz"), turns, strict=True):
        yield from _between("rotation", at + axis, value, limits.rotation)
    reach_mm = facts.reach_mm if limits.reach_mm is None else limits.reach_mm
    distance_mm = math.hypot(x, y, z)
    if reach_mm > 0:
        if not distance_mm <= reach_mm + _HAIR:
            allowed = f"at most {reach_mm:g} mm from the base"
            yield Violation("reach_mm", at + "x y z", distance_mm, allowed, "distance in mm")
    elif not {"x", "y", "z"} <= limits.box_mm.keys():
        allowed = "nothing: the adapter tells neither reach_mm nor a box_mm for x, y and z"
        yield Violation("reach_mm", at + "x y z", distance_mm, allowed, "distance in mm")


def _between(limit: str, where: str, value: float, allowed: tuple[float, float]) -> Iterator[Violation]:
    low, high = allowed
    if not low - _HAIR <= value <= high + _HAIR:
        yield Violation(limit, where, value, f"{low:g} .. {high:g}")


def _at_most(where: str, value: Any, highest: float) -> Iterator[Violation]:
    number = real(value)
    if number is None or not number <= highest:
        yield Violation(f"{where}_max", where, value, f"at most {highest:g}")


def _jog(fields: Mapping[str, Any], limits: MotionLimits) -> Iterator[Violation]:
    axis, direction, speed = fields.get("axis"), fields.get("direction"), real(fields.get("speed"))
    if axis not in limits.jog_axes:
        yield Violation("jog_axes", "axis", axis, ", ".join(limits.jog_axes))
    if isinstance(direction, bool) or direction not in (1, -1):
        yield Violation("direction", "direction", direction, "1 or -1")
    if speed is None or not 0 < speed <= limits.jog_speed_max + _HAIR:
        yield Violation(
            "jog_speed_max", "speed", fields.get("speed"), f"above 0, at most {limits.jog_speed_max:g}"
        )


def _output(name: Any, where: str, facts: Facts, *, digital_only: bool) -> Iterator[Violation]:
    signal = facts.signal(name)
    outputs = sorted(
        one.name for one in facts.signals.values() if one.is_output and (one.is_digital or not digital_only)
    )
    if signal is None or signal.name not in outputs:
        kind = "a digital output" if digital_only else "an output"
        hint = did_you_mean(name, outputs) if isinstance(name, str) else ""
        yield Violation("signals", where, name, f"{kind} of this controller.{hint}")


def _level(fields: Mapping[str, Any], facts: Facts) -> Iterator[Violation]:
    signal, value = facts.signal(fields.get("signal")), real(fields.get("value"))
    if signal is None:
        return
    if signal.is_digital and value not in (0.0, 1.0):
        yield Violation("digital", "value", fields.get("value"), "0 or 1 for a digital output")
    elif value is None or not 0.0 <= value <= 1.0:
        yield Violation("analog", "value", fields.get("value"), "0.0 to 1.0 for an analog output")


def _read_back(fields: Mapping[str, Any], facts: Facts) -> Iterator[Violation]:
    name = fields.get("read_back")
    if name is None:
        return
    inputs = sorted(one.name for one in facts.signals.values() if one.is_digital and not one.is_output)
    if name not in inputs:
        allowed = f"a digital input of this controller.{did_you_mean(str(name), inputs)}"
        yield Violation("signals", "read_back", name, allowed)


def _program(module: Any, facts: Facts) -> Iterator[Violation]:
    if not isinstance(module, str) or module not in facts.programs:
        hint = did_you_mean(module, facts.programs) if isinstance(module, str) else ""
        yield Violation("programs", "module", module, f"a program on this controller.{hint}")
