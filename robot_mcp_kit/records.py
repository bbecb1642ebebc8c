"""One task's record: what polling shows, and which event comes next. No event loop in here.

Every method is called under the manager's lock, so that taking a sequence number and handing the event over
are one step (K122), and the record is changed before its event goes out (K42: poll is the truth).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from robot_mcp_kit.journal import SavedTask
from robot_mcp_kit.jsonsafe import copy_json, to_jsonable
from robot_mcp_kit.models import EventType, TaskEvent, TaskFailure, TaskInfo, TaskState
from robot_mcp_kit.triggers import canonical_key, finite_number, progress_threshold, repeats, warn_malformed

logger = logging.getLogger(__name__)


def utc(seconds: float) -> datetime:
    """Unix seconds as an aware datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def clean_payload(payload: dict[str, Any], *, task_id: str, what: str) -> dict[str, Any]:
    """A JSON-only copy of what a body handed in (K46, K47); replaced values are told in one WARNING."""
    notes: list[str] = []
    clean: dict[str, Any] = to_jsonable(payload, notes=notes)
    if notes:
        logger.warning("task %s: %s: %s", task_id, what, "; ".join(notes))
    return clean


class TaskRecord:
    """State, last progress, outcome, triggers and sequence of one task."""

    __slots__ = (
        "_attached",
        "_clock",
        "_emit",
        "_fired",
        "_late_warned",
        "cancel_accepted",
        "info",
        "seq",
        "task",
        "teardown",
        "unsaved",
        "waiters",
    )

    def __init__(
        self,
        info: TaskInfo,
        *,
        wall_clock: Callable[[], float],
        emit: Callable[[TaskEvent], None],
    ) -> None:
        self.info = info
        self.seq = 0
        self.cancel_accepted = False
        self.unsaved = True
        """Something changed since :meth:`saved` was last written down."""
        self.task: asyncio.Task[None] | None = None
        self.teardown: asyncio.Task[None] | None = None
        self.waiters: list[asyncio.Future[None]] = []
        self._clock = wall_clock
        self._emit = emit
        self._fired: set[str] = set()
        self._late_warned = False
        # The dictionaries that the body sees, each with its identity as attached: a body that changes one
        # after it fired does not make a new trigger of it (K73).
        self._attached: list[tuple[dict[str, Any], str]] = [
            (copy_json(trigger), canonical_key(trigger)) for trigger in info.triggers
        ]
        if self._attached:
            warn_malformed(info.triggers, task_id=info.task_id)

    @classmethod
    def restored(
        cls,
        saved: SavedTask,
        *,
        wall_clock: Callable[[], float],
        emit: Callable[[TaskEvent], None],
    ) -> TaskRecord:
        """The record of a task that an earlier process saved."""
        record = cls(saved.info.model_copy(deep=True), wall_clock=wall_clock, emit=emit)
        record.seq = saved.seq
        record._fired.update(saved.fired)
        record.unsaved = False
        return record

    def saved(self) -> SavedTask:
        """What another process needs to go on."""
        return SavedTask(self.snapshot(), self.seq, tuple(sorted(self._fired)), self.cancel_accepted)

    @property
    def running(self) -> bool:
        """Whether no terminal state was reached. Still true while a cancelled body tears down (K93)."""
        return self.info.state == "running"

    @property
    def body_triggers(self) -> list[dict[str, Any]]:
        """The attached triggers as the body gets them."""
        return [trigger for trigger, _ in self._attached]

    def snapshot(self) -> TaskInfo:
        """A detached copy (K30)."""
        info = self.info
        return TaskInfo.model_construct(
            task_id=info.task_id,
            server=info.server,
            tool=info.tool,
            state=info.state,
            created_at=info.created_at,
            updated_at=info.updated_at,
            triggers=copy_json(info.triggers),
            est_duration_s=info.est_duration_s,
            progress=copy_json(info.progress),
            result=copy_json(info.result),
            failure=None if info.failure is None else info.failure.model_copy(deep=True),
        )

    def touch(self) -> None:
        """Move ``updated_at``, never backwards (K19)."""
        self.info.updated_at = max(self.info.updated_at, _cut(utc(self._clock())))
        self.unsaved = True

    # -- what a body reports --------------------------------------------------------------------------------

    def progress(self, payload: dict[str, Any]) -> None:
        """Store the last progress, send the event, then the ``progress_above`` triggers it passes (K59)."""
        if not self._accepts("progress", during_teardown=True):
            return
        clean = clean_payload(payload, task_id=self.info.task_id, what="progress")
        self.info.progress = clean
        self.touch()
        if self.cancel_accepted:
            return  # seen by polling only: a cancelled task sends nothing any more (K78)
        self._send("progress", copy_json(clean))
        if self._attached:
            self._evaluate(payload)

    def _evaluate(self, payload: dict[str, Any]) -> None:
        percent = finite_number(payload.get("percent"))
        if percent is None:
            return
        seen: set[str] = set()
        for trigger, key in self._attached:
            threshold = progress_threshold(trigger)
            if threshold is not None and percent >= threshold and key not in seen:
                seen.add(key)  # equal triggers fire once together, the repeating ones too
                self._fire(trigger, key, {"percent": percent})

    def fire_trigger(self, trigger: dict[str, Any], extra: dict[str, Any] | None) -> None:
        """Send ``trigger_fired`` unless this trigger fired before and does not repeat (K67, K70)."""
        if not self._accepts("trigger_fired"):
            return
        key = next((key for attached, key in self._attached if attached is trigger), None)
        if key is None:
            key = canonical_key(trigger)
            if all(key != known for _, known in self._attached) and (
                key not in self._fired or repeats(trigger)
            ):
                logger.warning("task %s: fired a trigger that was not attached: %s", self.info.task_id, key)
        self._fire(trigger, key, extra or {})

    def _fire(self, trigger: dict[str, Any], key: str, extra: dict[str, Any]) -> None:
        if key in self._fired and not repeats(trigger):
            return
        self._fired.add(key)
        payload = {"trigger": trigger, **{name: value for name, value in extra.items() if name != "trigger"}}
        self._send("trigger_fired", clean_payload(payload, task_id=self.info.task_id, what="trigger"))

    def emit(self, payload: dict[str, Any]) -> None:
        """Send a ``watch_event``; state and last progress stay."""
        if self._accepts("watch_event"):
            self._send("watch_event", clean_payload(payload, task_id=self.info.task_id, what="watch event"))

    def _accepts(self, what: str, *, during_teardown: bool = False) -> bool:
        if self.running and (during_teardown or not self.cancel_accepted):
            return True
        if not self._late_warned:  # once a task: a left-over body may go on for hours (K76)
            self._late_warned = True
            state = self.info.state if not self.running else "being cancelled"
            logger.warning(
                "task %s is %s; its %s and later reports are ignored", self.info.task_id, state, what
            )
        return False

    # -- outcomes -------------------------------------------------------------------------------------------

    def succeed(self, result: dict[str, Any]) -> None:
        """``succeeded`` with ``task_done``."""
        clean = clean_payload(result, task_id=self.info.task_id, what="result")
        self.info.result = clean
        self._end("succeeded")
        self._send("task_done", {"result": copy_json(clean)})

    def fail(self, failure: TaskFailure) -> None:
        """``failed`` with ``task_failed``, whose payload is the failure's own fields."""
        self.info.failure = failure
        self._end("failed")
        self._send("task_failed", failure.model_dump())

    def cancelled(self) -> None:
        """``cancelled``; no event."""
        self._end("cancelled")

    def _end(self, state: TaskState) -> None:
        self.info.state = state
        self.touch()

    def _send(self, event_type: EventType, payload: dict[str, Any]) -> None:
        self.seq += 1
        self.unsaved = True
        self._emit(
            TaskEvent.model_construct(
                event_id=str(uuid4()),
                task_id=self.info.task_id,
                server=self.info.server,
                tool=self.info.tool,
                type=event_type,
                seq=self.seq,
                ts=_cut(utc(self._clock())),
                payload=payload,
            )
        )


def _cut(value: datetime) -> datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)
