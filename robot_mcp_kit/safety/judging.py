"""What the guard makes of a goal before anything is written down or counted.

The guard judges with these on its way from request to permit; :meth:`Judging.preview` asks the same questions
for whoever only wants to know, and leaves nothing behind: no count, no use of an approval, no line in the
trail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.safety import refusals
from robot_mcp_kit.safety.approvals import ApprovalDesk
from robot_mcp_kit.safety.estop import EstopLatch
from robot_mcp_kit.safety.interlocks import Finding, Interlocks
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.safety.risk import RiskLevel
from robot_mcp_kit.safety.rulebook import Rulebook, SkillRules
from robot_mcp_kit.safety.situation import LimitViolation, Situation
from robot_mcp_kit.safety.standing import StandingBook, Wish
from robot_mcp_kit.skills.base import GoalSpec, Skill
from robot_mcp_kit.skills.config import RobotConfig


@dataclass(frozen=True, slots=True)
class Preview:
    """What would become of a goal now."""

    refused: list[SafetyRefused] = field(default_factory=list)
    """Every reason against it; empty: it would be let through."""
    approval: Literal["none", "standing", "person"] = "none"
    """Who would have to agree: nobody, an operator who has done so in advance, or a person now."""
    approved_until: datetime | None = None
    """When the standing approval ends."""


class Judging:
    """Knows the rules and the robot's present state. Lives on one event loop.

    Args: see :class:`robot_mcp_kit.safety.guard.Guard`.
    """

    def __init__(
        self,
        rules: Rulebook,
        *,
        estop: EstopLatch,
        desk: ApprovalDesk,
        standing: StandingBook,
        interlocks: Interlocks,
        clock: Clock,
        situation: Callable[[], Situation],
    ) -> None:
        self.estop, self.desk = estop, desk
        self._rules, self._standing, self._interlocks = rules, standing, interlocks
        self._clock, self._situation = clock, situation

    @property
    def config(self) -> RobotConfig:
        """The robot's checked file."""
        return self._rules.config

    async def preview(self, skill: Skill, spec: GoalSpec | None) -> Preview:
        """Judge a goal as :meth:`Guard.admit` to :meth:`Guard.permit` would, and change nothing.

        Args:
            skill: what it would be a goal of.
            spec: in the form that fits the installed type; ``None``: the arguments are not known yet, so
                limits and the bounds of approvals are left out.
        """
        rules, at = self._rules.add(skill), self._situation()
        refused: list[SafetyRefused] = []
        try:
            self._judge(rules, None if spec is None else spec.fields, at)
        except SafetyRefused as error:
            refused.append(error)
        try:
            self._judge_rate(rules, 0.0 if spec is None else rules.distance_m(spec.fields, at))
        except SafetyRefused as error:
            refused.append(error)
        if rules.risk is RiskLevel.RESTRICTED:
            try:
                self._judge_findings(await self._interlocks.check(skill.name))
            except SafetyRefused as error:
                refused.append(error)
        if rules.risk in (RiskLevel.SAFE, RiskLevel.PROHIBITED):
            return Preview(refused)
        if rules.approval == "standing":
            wish = None if spec is None else self._wish(skill.name, spec.fields, rules)
            approval = self._standing.listing(skill.name) if wish is None else self._standing.find(wish)[0]
            if approval is not None:
                return Preview(refused, "standing", approval.not_after)
        if self.desk.is_full():
            refused.append(SafetyRefused(refusals.PENDING))
        return Preview(refused, "person")

    def _judge(self, rules: SkillRules, fields: Mapping[str, Any] | None, at: Situation) -> None:
        """Raises SafetyRefused: prohibited, latched, or out of limits."""
        if rules.risk is RiskLevel.PROHIBITED:
            raise SafetyRefused(refusals.PROHIBITED)
        if rules.risk is not RiskLevel.SAFE:
            self._check_latch()
        if fields is not None:
            try:
                rules.check(fields, at)
            except LimitViolation as error:
                details = {"violations": [violation.record() for violation in error.violations]}
                raise SafetyRefused(refusals.LIMIT, f"{error}.", details) from error
        if rules.moves_base:
            escaped = self._rules.escaped(at.here, at.floor)
            if escaped is not None:
                raise SafetyRefused(refusals.LIMIT, f"geofence: {escaped}; a person has to bring it back.")

    def _judge_rate(self, rules: SkillRules, distance_m: float) -> None:
        """Raises SafetyRefused; counts nothing."""
        broken = rules.rate.check(self._clock.now(), distance_m)
        if broken is not None:
            raise SafetyRefused(refusals.RATE, f"{broken}.", broken.record())

    @staticmethod
    def _judge_findings(findings: Iterable[Finding]) -> None:
        broken = [finding for finding in findings if not finding.ok]
        if broken:
            said = " ".join(f"{finding.name}: {finding.reason}." for finding in broken)
            details = {"interlocks": [finding.record() for finding in broken]}
            raise SafetyRefused(refusals.INTERLOCK, said, details)

    def _check_latch(self) -> None:
        if self.estop.reason is not None:
            raise SafetyRefused(refusals.ESTOP, f"It was latched for: {self.estop.reason}.")

    def _wish(self, skill: str, fields: Mapping[str, Any], rules: SkillRules) -> Wish:
        at = self._situation()
        return Wish(skill, fields, rules.points(fields, at), at)
