"""``can_do``: would it be done now, by which tool, and if not, why not and until when.

The bridge and its guard are asked exactly what they would be asked by a real call; nothing is started,
counted or used up (P38).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, ValidationError

from robot_mcp_kit.bridge.checking import StartPreview
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import UtcTime
from robot_mcp_kit.promcp.contracts import (
    Blocked,
    Candidate,
    CapabilityReport,
    CurrentState,
    Intent,
    Permission,
    ReportContext,
    ReportMetadata,
    Unroutable,
    malformed,
)
from robot_mcp_kit.safety import refusals
from robot_mcp_kit.server.promcp.bounds import RobotConstraints, constraints_of, names_of
from robot_mcp_kit.server.promcp.doing import Doing
from robot_mcp_kit.server.promcp.matching import STOP_WORDS, Vocabulary
from robot_mcp_kit.server.promcp.measuring import Measured, handled_object, measured_in
from robot_mcp_kit.server.promcp.profiles import DO_STOP, Profile
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Skill, SkillArguments
from robot_mcp_kit.skills.routines.routine import Routine

PHYSICAL_S, STATIC_S = 5.0, 300.0
"""How long an answer holds: one that depends on the robot's state, and one that only its file decides."""
_SOON_S = 0.1
INSUFFICIENT = "PERMISSION_INSUFFICIENT"
ONLY_LOOKS = "This client may look and stop; moving the robot needs the operator's token."
STOP_EFFECT = "every running motion ends"

_PERMISSION: Mapping[str, Permission] = {
    refusals.LIMIT: "out_of_range",
    "OUT_OF_REACH": "out_of_range",
    "INVALID_ARGUMENT": "out_of_range",
    refusals.RATE: "rate_limited",
    refusals.PENDING: "rate_limited",
    "ROS_SERVER_UNAVAILABLE": "source_unreachable",
    "ROS_SERVER_AMBIGUOUS": "source_unreachable",
    "ROS_TYPE_UNAVAILABLE": "source_unreachable",
    "ROS_INVALID_GOAL": "source_unreachable",
    "BRIDGE_INACTIVE": "source_unreachable",
    "BRIDGE_LEDGER_UNAVAILABLE": "source_unreachable",
}
"""By error code; any other refusal is one by policy (interlock, latch, busy, a precondition)."""
_STATIC_CODES = frozenset({refusals.PROHIBITED, "INVALID_ARGUMENT", "ROS_TYPE_UNAVAILABLE"})
_WEIGHT: Sequence[Permission] = (
    "permission_insufficient",
    "policy_denied",
    "source_unreachable",
    "out_of_range",
    "rate_limited",
    "cooldown_active",
)
"""Of several reasons the first of these is told as the permission, the others in details."""


class RobotCandidate(Candidate):
    """Adds what a robot's caller needs."""

    current_state: RobotState | None = None
    constraints: RobotConstraints | None = None
    parameters_checked: bool = Field(
        description="false: the intent had no parameters, so limits and reach were not judged."
    )
    would_end: list[str] = Field(
        default_factory=list, description="task_id of each running motion that this one would take over from."
    )
    goal: str | None = Field(None, description="The goal in words.")


class RobotState(CurrentState):
    """What the tool acts on, as measured last."""

    value: Measured | None = None


class RobotBlocked(Blocked):
    """Adds the code, and until when the answer holds."""

    error_code: str | None = None
    confidence: float = Field(ge=0, le=1)
    constraints: RobotConstraints | None = None
    valid_until: UtcTime = Field(description="Ask again after this. ISO 8601, UTC.")


class RobotReport(CapabilityReport):
    """proMCP's report with this robot's candidates."""

    candidates: list[RobotCandidate] = Field(default_factory=list)  # type: ignore[assignment]
    blocked: list[RobotBlocked] = Field(default_factory=list)  # type: ignore[assignment]


RobotCandidate.model_rebuild()
RobotReport.model_rebuild()


@dataclass(frozen=True, slots=True)
class _Refusal:
    permission: Permission
    code: str
    message: str
    details: Mapping[str, Any]
    holds_s: float


class Capability:
    """Answers ``can_do`` for one profile.

    Args:
        profile: its tools.
        doing: knows bridge, world and file.
    """

    def __init__(self, profile: Profile, doing: Doing) -> None:
        self._profile, self._doing = profile, doing
        config = doing.config
        self._vocabulary = {
            tool: Vocabulary.of(tool, skill, names_of(skill, config))
            for tool, skill in profile.skills.items()
        }
        self._vocabulary[DO_STOP] = Vocabulary(DO_STOP, also=["stop"], usual=STOP_WORDS)

    async def report(self, raw: Any, *, may_operate: bool = True) -> CapabilityReport:
        """The answer to an intent, whatever it looks like; never raises on its contents.

        Args:
            raw: the intent as it came.
            may_operate: whether the caller's role lets it move the robot.
        """
        started = self._doing.now()
        try:
            intent = Intent.model_validate(raw if raw is not None else {})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, ("intent", *first["loc"])))
            return self._malformed(f"{where}: {first['msg']}", started)
        if not intent.words:
            return self._malformed("intent.semantic_tags needs at least one word.", started)
        candidates: list[RobotCandidate] = []
        blocked: list[RobotBlocked] = []
        unroutable: list[Unroutable] = []
        for tool, confidence in self._matches(intent):
            found = await self._judge(tool, confidence, intent, may_operate)
            if isinstance(found, RobotCandidate):
                candidates.append(found)
            elif isinstance(found, RobotBlocked):
                blocked.append(found)
            else:
                unroutable.append(found)
        if not (candidates or blocked or unroutable):
            unroutable = [self._nobody(intent)]
        if any(candidate.permission == "allowed" for candidate in candidates):
            unroutable = []
        else:
            blocked += [self._waits(candidate) for candidate in candidates]
        now = self._doing.now()
        latest = self._doing.bridge.world.latest()
        return RobotReport(
            candidates=candidates,
            blocked=sorted(blocked, key=lambda entry: -entry.confidence),
            unroutable=unroutable,
            context=ReportContext(
                related_reads=list(self._profile.reads),
                current_observations={
                    "running_motions": self._doing.bridge.running(),
                    "robot": None if latest.robot is None else latest.robot.model_dump(mode="json"),
                },
            ),
            metadata=ReportMetadata(
                timestamp=now, total_latency_ms=max(0, round(1000 * (now - started).total_seconds()))
            ),
        )

    def _malformed(self, said: str, now: datetime) -> RobotReport:
        return RobotReport.model_validate(malformed(said, now=now).model_dump(exclude={"feasible"}))

    # -- matching -------------------------------------------------------------------------------------------

    def _matches(self, intent: Intent) -> list[tuple[str, float]]:
        found = [(tool, known.confidence(intent.words)) for tool, known in self._vocabulary.items()]
        scope = None if intent.scope is None else {entry.strip().lower() for entry in intent.scope}
        return sorted(
            ((tool, sure) for tool, sure in found if sure > 0 and self._in_scope(tool, scope)),
            key=lambda match: -match[1],
        )

    def _in_scope(self, tool: str, scope: set[str] | None) -> bool:
        if scope is None:
            return True
        names = {tool, self._source(tool), self._doing.config.robot.name}
        return not scope.isdisjoint(name.lower() for name in names)

    def _source(self, tool: str) -> str:
        """The action that a tool sends goals to; the robot for what is made of several, and for the stop."""
        skill = self._profile.skills.get(tool)
        if skill is None or isinstance(skill, Routine):
            return self._doing.config.robot.name
        return skill.action_name

    def _nobody(self, intent: Intent) -> Unroutable:
        wanted = " ".join(intent.words)
        within = "" if intent.scope is None else f" within {', '.join(intent.scope) or 'an empty scope'}"
        return Unroutable(
            outcome=wanted,
            reason="no_producer",
            detail=f"No tool of this profile does that{within}. It has {', '.join(self._profile.tools)}.",
        )

    # -- judging --------------------------------------------------------------------------------------------

    async def _judge(
        self, tool: str, confidence: float, intent: Intent, may_operate: bool
    ) -> RobotCandidate | RobotBlocked | Unroutable:
        if tool == DO_STOP:
            return self._stop(confidence)
        skill = self._profile.skills[tool]
        if not may_operate:
            refusal = _Refusal("permission_insufficient", INSUFFICIENT, ONLY_LOOKS, {}, STATIC_S)
            return self._blocked(tool, skill, confidence, [refusal])
        arguments: SkillArguments | None = None
        if intent.parameters:
            try:
                arguments = parse_arguments(skill.arguments, intent.parameters)
            except ArgumentError as error:
                return self._misfit(tool, skill, confidence, intent, error)
        try:
            preview = await self._doing.bridge.preview(skill.name, arguments)
        except ArgumentError as error:
            return self._misfit(tool, skill, confidence, intent, error)
        if preview.refused:
            return self._blocked(tool, skill, confidence, [_refusal(error) for error in preview.refused])
        return self._candidate(tool, skill, confidence, arguments, preview)

    def _misfit(
        self, tool: str, skill: Skill, confidence: float, intent: Intent, error: ArgumentError
    ) -> RobotBlocked | Unroutable:
        """Parameters that this tool does not take, lacks, or has outside its bounds."""
        said = f"{tool}: {error.field}: {error.message}"
        top = re.split(r"[.\[]", error.field)[0]
        if top not in skill.arguments.model_fields:
            return Unroutable(outcome=" ".join(intent.words), reason="malformed_request", detail=f"{said}")
        if intent.parameters.get(top) is None:
            return Unroutable(outcome=" ".join(intent.words), reason="requirements_unmet", detail=said)
        allowed = f" Allowed: {', '.join(error.allowed)}." if error.allowed else ""
        refusal = _Refusal("out_of_range", "INVALID_ARGUMENT", f"{said}{allowed}", {}, STATIC_S)
        return self._blocked(tool, skill, confidence, [refusal])

    def _blocked(self, tool: str, skill: Skill, confidence: float, found: Sequence[_Refusal]) -> RobotBlocked:
        first, *others = sorted(found, key=lambda one: _WEIGHT.index(one.permission))
        bounds = [
            f"{one['field']}: {one['allowed']}"
            for refusal in found
            for one in refusal.details.get(
                "violations", [refusal.details] if "allowed" in refusal.details else []
            )
        ]
        details = [f"{one.code}: {one.message}" for one in others]
        details += [f"allowed: {'; '.join(bounds)}"] if bounds else []
        return RobotBlocked(
            capability=tool,
            source=self._source(tool),
            permission=first.permission,
            reason=first.message,
            details=" ".join(details) or None,
            error_code=first.code,
            confidence=confidence,
            constraints=constraints_of(skill, self._doing.config),
            valid_until=self._until(min(one.holds_s for one in found)),
        )

    def _waits(self, candidate: RobotCandidate) -> RobotBlocked:
        """Nothing is feasible without a person, so this is the reason."""
        timeout_s = self._doing.config.safety.approval_timeout_s
        return RobotBlocked(
            capability=candidate.capability,
            source=candidate.source,
            permission=candidate.permission,
            reason=f"A person has to approve it first; a call waits for that, at most {timeout_s:g} s.",
            confidence=candidate.confidence,
            valid_until=candidate.valid_until,
        )

    def _candidate(
        self,
        tool: str,
        skill: Skill,
        confidence: float,
        arguments: SkillArguments | None,
        preview: StartPreview,
    ) -> RobotCandidate:
        ends = [one.approved_until for one in preview.approvals if one.approved_until is not None]
        until = min([self._until(PHYSICAL_S), *ends])
        expected_s = None if preview.spec is None else preview.spec.est_duration_s
        return RobotCandidate(
            capability=tool,
            source=self._source(tool),
            confidence=confidence,
            permission="requires_human_approval" if preview.approval == "person" else "allowed",
            current_state=self._state(skill, arguments),
            constraints=constraints_of(skill, self._doing.config),
            side_effects=self._doing.side_effects(skill),
            valid_until=until,
            estimated_latency_ms=None if expected_s is None else round(1000 * expected_s),
            parameters_checked=arguments is not None,
            would_end=list(preview.replaces),
            goal=None if preview.spec is None else preview.spec.summary,
        )

    def _stop(self, confidence: float) -> RobotCandidate:
        return RobotCandidate(
            capability=DO_STOP,
            source=self._source(DO_STOP),
            confidence=confidence,
            permission="allowed",
            side_effects=[STOP_EFFECT],
            valid_until=self._until(STATIC_S),
            parameters_checked=True,
            would_end=self._doing.bridge.running(),
        )

    def _state(self, skill: Skill, arguments: SkillArguments | None) -> RobotState | None:
        world = self._doing.bridge.world.snapshot()
        name = None if arguments is None else handled_object(skill, arguments, world)
        found = measured_in(world, self._doing.parts(skill), name)
        times = [part.measured_at for part in found.parts.values()]  # type: ignore[attr-defined]
        # The oldest: all of it is at least that new.
        return RobotState(value=found, timestamp=min(times)) if times else None

    def _until(self, seconds: float) -> datetime:
        return self._doing.now() + timedelta(seconds=seconds)


def _refusal(error: TaskError) -> _Refusal:
    details: Mapping[str, Any] = getattr(error, "details", {})
    code = error.error_code
    permission = _PERMISSION.get(code, "policy_denied")
    if permission == "rate_limited" and details.get("limit") == "cooldown_s":
        permission = "cooldown_active"
    holds_s = STATIC_S if code in _STATIC_CODES else PHYSICAL_S
    again_in_s = details.get("again_in_s")
    if isinstance(again_in_s, float):
        holds_s = max(_SOON_S, again_in_s)
    return _Refusal(permission, code, error.message, details, holds_s)
