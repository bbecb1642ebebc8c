"""Response shapes of proMCP: what a read, a do and a can_do answer. Base version 0.4.0.

A robot's tools may add fields (P47); none of the base ones is renamed or left out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar, get_args
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from robot_mcp_kit.models import UtcTime

PROMCP_VERSION = "0.4.0"
"""The base version that these shapes are a superset of."""

Quality = Literal["good", "stale", "degraded", "error"]
DoStatus = Literal["success", "partial", "failed"]
Permission = Literal[
    "allowed",
    "requires_human_approval",
    "policy_denied",
    "rate_limited",
    "cooldown_active",
    "out_of_range",
    "permission_insufficient",
    "source_unreachable",
    "partition_no_quorum",
]
UnroutableReason = Literal["no_producer", "requirements_unmet", "malformed_request"]

QUALITIES: tuple[str, ...] = get_args(Quality)
STATUSES: tuple[str, ...] = get_args(DoStatus)
PERMISSIONS: tuple[str, ...] = get_args(Permission)
UNROUTABLE_REASONS: tuple[str, ...] = get_args(UnroutableReason)

CONFIRM_BELOW = 0.7
"""A candidate that is matched less surely than this is confirmed before it is used (P42)."""

T = TypeVar("T")


class _Response(BaseModel):
    # What the kit adds is declared; what other servers add is kept.
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class ReadResponse(_Response, Generic[T]):
    """Answer of a ``read_*`` tool.

    ``value`` is null exactly when ``quality`` is ``error`` or nothing is known; ``detail`` then says why.
    """

    value: T | None = Field(description="What was measured; null when it is not known.")
    unit: str | None = Field(None, description="Unit of value; null when it has none or names its own.")
    timestamp: UtcTime = Field(description="When it was measured, not when it was asked for. ISO 8601, UTC.")
    quality: Quality = Field(
        description="good; stale: older than freshness_window_s; degraded: doubtful; error: no value."
    )
    freshness_window_s: float | None = Field(
        None, ge=0, description="Seconds after which a value counts as stale; null: it never does."
    )
    detail: str | None = Field(None, description="One sentence when quality is not good.")

    @model_validator(mode="after")
    def _no_value_without_quality(self) -> Self:
        if self.quality == "error" and self.value is not None:
            raise ValueError("quality error means that there is no value; value must be null")
        if self.quality != "good" and not self.detail:
            raise ValueError(f"quality {self.quality} needs a detail that says why")
        return self


class DoResponse(_Response):
    """Answer of a ``do_*`` tool. ``failed``: nothing was committed; ``partial``: something was."""

    status: DoStatus
    idempotency_key: str = Field(description="As it was given.")
    applied_value: Any = Field(None, description="Measured after the action; null when nothing was measured.")
    previous_value: Any = Field(None, description="Measured before the action; null when not known.")
    side_effects: list[str] = Field(description="What happened besides; of those that can_do announced.")
    compensable: bool = Field(description="Whether compensation_hint undoes this.")
    compensation_hint: str | None = Field(
        None, description="tool param=value …, as JSON values: the call that brings previous_value back."
    )
    timestamp: UtcTime = Field(description="When applied_value was measured. ISO 8601, UTC.")
    replayed: bool = Field(
        False, description="The answer of an earlier call with this key; nothing was done for this one."
    )
    detail: str | None = Field(None, description="What happened, in a sentence.")

    @model_validator(mode="after")
    def _hint_with_compensable(self) -> Self:
        if self.compensable and not self.compensation_hint:
            raise ValueError("compensable needs a compensation_hint")
        if not self.compensable and self.compensation_hint is not None:
            raise ValueError("compensation_hint without compensable; it must be null")
        if self.status == "failed" and (self.compensable or self.applied_value is not None):
            raise ValueError("failed means that nothing was committed: no applied_value, nothing to undo")
        if self.status != "success" and not self.detail:
            raise ValueError(f"status {self.status} needs a detail that says why")
        return self


class CurrentState(_Response):
    """What a candidate's quantity is now."""

    value: Any = None
    unit: str | None = None
    timestamp: UtcTime


class Constraints(_Response):
    """Bounds of one quantity. Robot tools add one entry an argument under ``arguments``."""

    min: float | None = None
    max: float | None = None
    unit: str | None = None
    enum_values: list[str] | None = None


class Candidate(_Response):
    """A tool that would do what is wanted. Only ``allowed`` ones make a report feasible."""

    capability: str = Field(description="Name of a tool of this server.")
    source: str
    confidence: float = Field(ge=0, le=1, description="How well it matches; below 0.7, ask first.")
    permission: Permission
    current_state: CurrentState | None = None
    constraints: Constraints | None = None
    side_effects: list[str] = Field(default_factory=list)
    valid_until: UtcTime = Field(description="Ask again after this. ISO 8601, UTC.")
    estimated_latency_ms: int | None = Field(None, ge=0)

    @field_validator("permission")
    @classmethod
    def _may_be_used(cls, value: str) -> str:
        if value not in ("allowed", "requires_human_approval"):
            raise ValueError(f"a candidate cannot be {value}; that belongs in blocked")
        return value


class Blocked(_Response):
    """A tool that matches and may not act now."""

    capability: str
    source: str
    permission: Permission
    reason: str = Field(min_length=1)
    details: str | None = None

    @field_validator("permission")
    @classmethod
    def _not_allowed(cls, value: str) -> str:
        if value == "allowed":
            raise ValueError("a blocked capability cannot be allowed")
        return value


class Unroutable(_Response):
    """A wish that no tool of this server fulfils."""

    outcome: str = Field(description="What was wanted.")
    reason: UnroutableReason
    detail: str = Field(min_length=1)


class ReportContext(_Response):
    """What helps to decide."""

    related_reads: list[str] = Field(default_factory=list)
    current_observations: dict[str, Any] = Field(default_factory=dict)


class ReportMetadata(_Response):
    """Of the report itself."""

    timestamp: UtcTime
    total_latency_ms: int = Field(0, ge=0)
    promcp_version: str = PROMCP_VERSION


class CapabilityReport(_Response):
    """Answer of ``can_do``. ``feasible`` follows from the rest and cannot be set (P31)."""

    model_config = ConfigDict(frozen=True)

    query_id: str = Field(default_factory=lambda: str(uuid4()))
    feasible: bool = Field(False, description="Whether a candidate is allowed now.")
    candidates: list[Candidate] = Field(default_factory=list)
    blocked: list[Blocked] = Field(default_factory=list)
    unroutable: list[Unroutable] = Field(default_factory=list)
    context: ReportContext = Field(default_factory=ReportContext)
    metadata: ReportMetadata

    @model_validator(mode="before")
    @classmethod
    def _claimed(cls, data: Any) -> Any:
        """A report from the wire carries ``feasible``; it must be what follows from its candidates."""
        if isinstance(data, dict) and "feasible" in data:
            data = dict(data)
            claimed = data.pop("feasible")
            allowed = any(
                (c.get("permission") if isinstance(c, dict) else getattr(c, "permission", None)) == "allowed"
                for c in data.get("candidates") or []
            )
            if claimed is not allowed:
                raise ValueError(f"feasible is {claimed!r}, which its candidates contradict")
        return data

    @field_validator("query_id")
    @classmethod
    def _is_uuid4(cls, value: str) -> str:
        if UUID(value).version != 4:
            raise ValueError("query_id must be a version 4 UUID")
        return value

    @model_validator(mode="after")
    def _explained(self) -> Self:
        self.candidates.sort(key=lambda candidate: -candidate.confidence)
        feasible = any(candidate.permission == "allowed" for candidate in self.candidates)
        object.__setattr__(self, "feasible", feasible)
        if self.feasible and self.unroutable:
            raise ValueError("unroutable must be empty when a candidate is allowed")
        if not (self.candidates or self.blocked or self.unroutable):
            raise ValueError("not feasible needs a reason in blocked or unroutable")
        return self


class Intent(BaseModel):
    """What a caller wants to know about. ``parameters`` are the arguments that the tool would get."""

    model_config = ConfigDict(extra="allow")

    semantic_tags: list[str] = Field(
        default_factory=list, description="At least one word for what is wanted."
    )
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    scope: list[str] | None = Field(None, description="Only these sources or tools; leave out for all.")

    @property
    def words(self) -> list[str]:
        return [tag.strip() for tag in self.semantic_tags if tag.strip()]


def malformed(detail: str, *, now: datetime, outcome: str = "unknown") -> CapabilityReport:
    """The report on a request that says nothing usable (P29)."""
    return CapabilityReport(
        unroutable=[Unroutable(outcome=outcome, reason="malformed_request", detail=detail)],
        metadata=ReportMetadata(timestamp=now),
    )
