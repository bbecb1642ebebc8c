"""The wire contract's data: one event, one task record, one failure. Text on the wire is UTC and JSON
only.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, PlainSerializer

SCHEMA_VERSION = 1
"""Version of the event body. Receivers ignore unknown keys, so only a breaking change raises it."""

TaskState = Literal["running", "succeeded", "failed", "cancelled"]
EventType = Literal["progress", "trigger_fired", "task_done", "task_failed", "watch_event"]


def _to_utc_milliseconds(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("needs a time zone, such as a trailing 'Z'")
    value = value.astimezone(UTC)
    # Whole milliseconds in memory too, or an event would differ from its own JSON (K9).
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def format_timestamp(value: datetime) -> str:
    """``2026-06-12T14:03:00.123Z``: UTC, always three fractional digits (K17)."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


UtcTime = Annotated[
    datetime,
    AfterValidator(_to_utc_milliseconds),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]
"""An aware datetime in UTC, cut to whole milliseconds."""


class TaskFailure(BaseModel):
    """Why a task failed, written to be read by a planner: a code, a sentence, and the way out."""

    error_code: str
    """Stable machine code, ``DOOR_CLOSED``."""
    message: str
    """One or two sentences for a language model; never a traceback."""
    recoverable: bool = True
    """``False``: do not bother replanning around this."""
    suggestions: list[str] = Field(default_factory=list)
    """Names of tools or actions that may help, ``retry_after_s:300``."""


class TaskEvent(BaseModel):
    """One event as POSTed to the receiver. Unknown keys of an incoming event are ignored (K10)."""

    schema_version: int = SCHEMA_VERSION
    event_id: str
    """uuid4 with hyphens; opaque to receivers, unique per event (K16)."""
    task_id: str
    server: str
    """Name of the capability server; equals the ``X-RVC-Server`` header."""
    tool: str
    """The tool that started the task."""
    type: EventType
    seq: int = Field(ge=1)
    """1, 2, 3 … within one task, over all event types."""
    ts: UtcTime
    """When the event came to be; the same in every delivery attempt."""
    payload: dict[str, Any]


class TaskInfo(BaseModel):
    """A detached snapshot of one task: what polling answers. Poll is the truth, push the optimisation."""

    task_id: str
    server: str
    tool: str
    state: TaskState
    created_at: UtcTime
    updated_at: UtcTime
    triggers: list[dict[str, Any]] = Field(default_factory=list)
    """As attached at the start."""
    est_duration_s: float | None = None
    """The starter's own estimate in seconds."""
    progress: dict[str, Any] | None = None
    """The last progress payload."""
    result: dict[str, Any] | None = None
    """Set when ``state`` is ``succeeded``."""
    failure: TaskFailure | None = None
    """Set when ``state`` is ``failed``."""
