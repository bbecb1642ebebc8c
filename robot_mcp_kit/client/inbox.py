"""The verified inbox for task events: who sent it, is it fresh, has it come before, is one missing (K170,
K171).

Transport-free: hand it the headers and the exact bytes of a ``POST /api/agent/events`` and answer with
:attr:`Receipt.status`. :mod:`~robot_mcp_kit.client.asgi` and :mod:`~robot_mcp_kit.client.receiver` serve it.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from robot_mcp_kit.client.book import Taken, TaskBook
from robot_mcp_kit.client.rows import TaskRecord
from robot_mcp_kit.client.secrets import SecretsLike, ServerSecrets
from robot_mcp_kit.client.verifying import (
    SERVER_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    EventVerifier,
    HeadersLike,
    Refused,
    Verdict,
)
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import DEFAULT_MAX_SKEW_S

__all__ = [
    "SERVER_HEADER",
    "SIGNATURE_HEADER",
    "TERMINAL_TYPES",
    "TIMESTAMP_HEADER",
    "Inbox",
    "Receipt",
    "TaskTrack",
]

logger = logging.getLogger(__name__)

TERMINAL_TYPES = frozenset({"task_done", "task_failed"})
TaskTrack = TaskRecord
"""What has been received of one task."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one request.

    ``status`` is the HTTP status to answer: 200 (also for a duplicate, so that the sender stops), 401 when
    it was not verified, 400 when a verified body is not an event, 503 when it cannot be taken now and should
    be sent again (nobody keeps up, or the disk is full). ``reason`` is empty unless refused, ``refused`` is
    its code. ``event`` is set only when verified. ``gap`` holds the sequence numbers newly found missing
    before this event: poll ``get_task``.
    """

    status: int
    event: TaskEvent | None = None
    duplicate: bool = False
    reason: str = ""
    gap: tuple[int, ...] = ()
    late: bool = False
    """A sequence number lower than one seen before: a gap filled, or the order was broken."""
    refused: Refused | None = None

    @property
    def accepted(self) -> bool:
        """Verified and not seen before: it counts."""
        return self.status == 200 and not self.duplicate


class Inbox:
    """Verifies, applies each event once and watches ``seq`` of every task.

    Args:
        secrets: one secret for every server, or one or several for each server's name (others are refused).
        book: where events go; by default one in memory, of this inbox alone.
        max_skew_s: how far the sender's clock may be off, in either direction, seconds; default 300.
        wall_clock: Unix seconds.

    Raises:
        ConfigError: an empty secret, which would accept anybody. (A ValueError.)
    """

    def __init__(
        self,
        secrets: SecretsLike | ServerSecrets,
        *,
        book: TaskBook | None = None,
        max_skew_s: int = DEFAULT_MAX_SKEW_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.verifier = EventVerifier(secrets, max_skew_s=max_skew_s, wall_clock=wall_clock)
        self.book = book if book is not None else TaskBook(wall_clock=wall_clock)
        self.accepted_count = 0
        self.duplicate_count = 0
        self.refused_count = 0

    def __repr__(self) -> str:
        return f"Inbox(accepted={self.accepted_count}, refused={self.refused_count})"

    @property
    def secrets(self) -> ServerSecrets:
        """To replace one while running."""
        return self.verifier.secrets

    def tasks(self) -> Iterator[TaskTrack]:
        """Tracks of the tasks heard of, oldest first."""
        yield from self.book.tasks()

    def task(self, task_id: str) -> TaskTrack | None:
        """The track of this task, of whichever server, as it is now."""
        return next(iter(self.book.find(task_id)), None)

    def receive(self, headers: HeadersLike, body: bytes) -> Receipt:
        """Judge one request and apply its event. Never raises on what a stranger may send.

        Args:
            headers: the request's headers, as a mapping or (which shows repeated ones) as pairs.
            body: the exact bytes received (the signature covers them, not the parsed JSON).
        """
        verdict = self.verifier.judge(headers, body)
        if verdict.event is None:
            return self.refuse(verdict)
        return self.take([verdict.event])[0]

    def refuse(self, verdict: Verdict) -> Receipt:
        """The receipt of a request that is no event."""
        return self._count(Receipt(verdict.status, reason=verdict.reason, refused=verdict.refused))

    def take(self, events: Sequence[TaskEvent]) -> list[Receipt]:
        """Apply verified events in this order, written down together; the receipt of each.

        Several at once cost less than each for itself.
        """
        try:
            taken = [self._receipt(*pair) for pair in zip(events, self.book.take_events(events), strict=True)]
        except sqlite3.Error as error:
            if len(events) > 1:
                return [self.take([event])[0] for event in events]
            # A full or broken disk: what is not written down does not count, so the sender keeps it.
            logger.error("an event could not be written down: %s", error)
            reason = "the event could not be written down; send it again"
            taken = [Receipt(503, events[0], reason=reason)]
        return [self._count(receipt) for receipt in taken]

    def _count(self, receipt: Receipt) -> Receipt:
        if receipt.status != 200:
            self.refused_count += 1
        elif receipt.duplicate:
            self.duplicate_count += 1
        else:
            self.accepted_count += 1
        return receipt

    @staticmethod
    def _receipt(event: TaskEvent, taken: Taken) -> Receipt:
        if taken.full:
            return Receipt(503, event, reason="events are not being dealt with fast enough; send it again")
        return Receipt(200, event, duplicate=taken.duplicate, gap=taken.gap, late=taken.late)
