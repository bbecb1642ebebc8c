"""What a task's body holds in its hands: progress, triggers, watch events, and the question "was I
cancelled?".
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robot_mcp_kit.records import TaskRecord


class TaskContext:
    """Handed to every task body.

    The async methods never suspend and never wait for the network: when they return, their events are in the
    poster's queue, in order. So they are no cancellation points either, and work in a body's clean-up. A body
    that computes for long must await something else now and then, or nothing else runs on the loop.
    """

    task_id: str
    triggers: list[dict[str, Any]]
    """The triggers that the caller attached. Firing one of these objects means that trigger, even if changed
    since.
    """

    def __init__(
        self,
        record: TaskRecord,
        lock: threading.RLock,
        changed: Callable[[TaskRecord], None],
    ) -> None:
        self.task_id = record.info.task_id
        self.triggers = record.body_triggers
        self._record = record
        self._lock = lock
        self._changed = changed

    async def progress(self, payload: dict[str, Any]) -> None:
        """Store ``payload`` as the last progress and send it; nothing is throttled.

        A numeric ``percent`` also evaluates the attached ``progress_above`` triggers. After an accepted
        cancel the progress is still stored for polling, but nothing is sent.

        Raises:
            TypeError: ``payload`` is not a dict.
        """
        _need_dict("payload", payload)
        with self._lock:
            self._record.progress(payload)
            self._changed(self._record)

    async def fire_trigger(self, trigger: dict[str, Any], extra: dict[str, Any] | None = None) -> None:
        """Send ``trigger_fired`` with ``{"trigger": trigger, **extra}``, at most once per task and trigger.

        Two triggers with equal content are the same one. ``"repeat": true`` sends every time.

        Raises:
            TypeError: ``trigger`` or ``extra`` is not a dict.
        """
        _need_dict("trigger", trigger)
        if extra is not None:
            _need_dict("extra", extra)
        with self._lock:
            self._record.fire_trigger(trigger, extra)

    async def emit(self, payload: dict[str, Any]) -> None:
        """Send a ``watch_event``, for tasks that watch for long.

        Raises:
            TypeError: ``payload`` is not a dict.
        """
        _need_dict("payload", payload)
        with self._lock:
            self._record.emit(payload)

    def raise_if_cancelled(self) -> None:
        """Raise CancelledError once a cancel was accepted, also for a body that swallowed the first one."""
        if self._record.cancel_accepted or not self._record.running:
            raise asyncio.CancelledError


def _need_dict(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{name}: a dict is needed, got {type(value).__name__}")
