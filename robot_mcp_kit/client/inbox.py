"""A verified inbox for task events: who sent it, is it fresh, seen before, is one missing (K170, K171).

Transport-free: hand it the headers and the exact bytes of a ``POST /api/agent/events`` and answer with
:attr:`Receipt.status`. Not thread-safe; call it from one thread or under a lock.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import DEFAULT_MAX_SKEW_S, parse_timestamp, verify

SERVER_HEADER = "X-RVC-Server"
TIMESTAMP_HEADER = "X-RVC-Timestamp"
SIGNATURE_HEADER = "X-RVC-Signature"

# A sender retries one event for 600 s and a signature is good for 300 s: an id forgotten sooner could be
# applied twice (K29).
REMEMBER_S = 1200.0
MAX_REMEMBERED_EVENTS = 100_000
MAX_TRACKED_TASKS = 2_000
MAX_GAP_LISTED = 10_000
TERMINAL_TYPES = frozenset({"task_done", "task_failed"})


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one request.

    ``status`` is the HTTP status to answer: 200 (also for a duplicate, so that the sender stops), 401 when
    it was not verified, 400 when a verified body is not an event. ``reason`` is empty unless refused.
    ``event`` is set only when verified. ``gap`` holds the sequence numbers newly found missing before this
    event: poll ``get_task``.
    """

    status: int
    event: TaskEvent | None = None
    duplicate: bool = False
    reason: str = ""
    gap: tuple[int, ...] = ()
    late: bool = False
    """A sequence number lower than one seen before: a gap filled, or the order was broken."""

    @property
    def accepted(self) -> bool:
        """Verified and not seen before: apply it."""
        return self.status == 200 and not self.duplicate


@dataclass(slots=True)
class TaskTrack:
    """What has been received of one task."""

    task_id: str
    server: str
    tool: str
    highest_seq: int = 0
    received: int = 0
    missing: set[int] = field(default_factory=set)
    ended: bool = False

    @property
    def contiguous(self) -> bool:
        """Every sequence number from 1 to the highest has arrived."""
        return not self.missing


class Inbox:
    """Verifies, dedupes by ``event_id`` and watches ``seq`` of every task.

    Args:
        secrets: one secret for every server, or a secret for each server name (others are refused).
        max_skew_s: how far the sender's clock may be off, in either direction, seconds; default 300.
        wall_clock: Unix seconds, to judge a request's age.
        monotonic: seconds, for forgetting old event ids.

    Raises:
        ValueError: an empty secret, which would accept anybody.
    """

    def __init__(
        self,
        secrets: str | Mapping[str, str],
        *,
        max_skew_s: int = DEFAULT_MAX_SKEW_S,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        values = [secrets] if isinstance(secrets, str) else list(secrets.values())
        if not values or any(not value.strip() for value in values):
            raise ValueError("secrets: a secret must not be empty; it would accept anybody's events.")
        self._secrets = secrets
        self._max_skew_s = max_skew_s
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._tasks: OrderedDict[str, TaskTrack] = OrderedDict()
        self.accepted_count = 0
        self.duplicate_count = 0
        self.refused_count = 0

    def __repr__(self) -> str:
        return (
            f"Inbox(accepted={self.accepted_count}, refused={self.refused_count}, tasks={len(self._tasks)})"
        )

    def tasks(self) -> Iterator[TaskTrack]:
        """Tracks of the tasks heard of, oldest first."""
        yield from self._tasks.values()

    def task(self, task_id: str) -> TaskTrack | None:
        return self._tasks.get(task_id)

    def receive(self, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Judge one request. Never raises on what a stranger may send.

        Args:
            headers: the request's headers; names are compared without case.
            body: the exact bytes received (the signature covers them, not the parsed JSON).
        """
        receipt = self._judge({name.lower(): value for name, value in headers.items()}, body)
        if receipt.status != 200:
            self.refused_count += 1
        elif receipt.duplicate:
            self.duplicate_count += 1
        else:
            self.accepted_count += 1
        return receipt

    def forget(self, event: TaskEvent) -> None:
        """Applying this event failed: accept it again when the sender repeats it."""
        self._seen.pop(event.event_id, None)
        track = self._tasks.get(event.task_id)
        if track is not None:
            track.missing.add(event.seq)

    def _judge(self, headers: Mapping[str, str], body: bytes) -> Receipt:
        for name in (SERVER_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
            if not headers.get(name.lower(), "").strip():
                return Receipt(401, reason=f"the header {name} is missing")
        server = headers[SERVER_HEADER.lower()]
        secret = self._secrets if isinstance(self._secrets, str) else self._secrets.get(server)
        if secret is None:
            return Receipt(401, reason=f"the server {_shown(server)} is not known here")
        refusal = self._signature_refusal(secret, headers[TIMESTAMP_HEADER.lower()], body, headers)
        if refusal:
            return Receipt(401, reason=refusal)
        try:
            event = TaskEvent.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "body"
            return Receipt(400, reason=f"signed, but not a task event: {where}: {first['msg']}")
        if event.server != server:
            # The header is outside the signature (C28): without this, one server could speak for another.
            reason = f"{SERVER_HEADER} says {_shown(server)}, the body says {_shown(event.server)}"
            return Receipt(401, reason=reason)
        if self._remember(event.event_id):
            return Receipt(200, event=event, duplicate=True)
        gap, late = self._track(event)
        return Receipt(200, event=event, gap=gap, late=late)

    def _signature_refusal(
        self, secret: str, timestamp_text: str, body: bytes, headers: Mapping[str, str]
    ) -> str:
        """Why this request is not authentic or not fresh; empty when it is both."""
        timestamp = parse_timestamp(timestamp_text)
        if timestamp is None:
            return f"the header {TIMESTAMP_HEADER} is not whole Unix seconds: {_shown(timestamp_text)}"
        signature = headers[SIGNATURE_HEADER.lower()]
        now_s = math.floor(self._wall_clock())
        if verify(secret, timestamp, body, signature, max_skew_s=self._max_skew_s, now_s=now_s):
            return ""
        age_s = now_s - timestamp
        # A second look with the skew opened tells a wrong clock from a wrong secret; it never lets anything
        # in.
        if verify(secret, timestamp, body, signature, max_skew_s=abs(age_s), now_s=now_s):
            direction = "old" if age_s > 0 else "ahead of this clock"
            return f"the signature is right but {abs(age_s)} s {direction} ({self._max_skew_s} s allowed)"
        return "the signature does not match: another secret, or the body was changed on the way"

    def _remember(self, event_id: str) -> bool:
        """Whether the id was known already; remembers it otherwise."""
        now = self._monotonic()
        while self._seen:
            oldest, seen_at = next(iter(self._seen.items()))
            if now - seen_at <= REMEMBER_S and len(self._seen) < MAX_REMEMBERED_EVENTS:
                break
            del self._seen[oldest]
        if event_id in self._seen:
            return True
        self._seen[event_id] = now
        return False

    def _track(self, event: TaskEvent) -> tuple[tuple[int, ...], bool]:
        track = self._tasks.get(event.task_id)
        if track is None:
            if len(self._tasks) >= MAX_TRACKED_TASKS:
                ended = next((key for key, value in self._tasks.items() if value.ended), None)
                self._tasks.pop(ended if ended is not None else next(iter(self._tasks)))
            track = TaskTrack(event.task_id, event.server, event.tool)
            self._tasks[event.task_id] = track
        track.received += 1
        track.ended = track.ended or event.type in TERMINAL_TYPES
        if event.seq <= track.highest_seq:
            track.missing.discard(event.seq)
            return (), True
        first_new = track.highest_seq + 1
        gap = tuple(range(max(first_new, event.seq - MAX_GAP_LISTED), event.seq))
        track.missing.update(gap)
        track.highest_seq = event.seq
        return gap, False


def _shown(text: str) -> str:
    """A stranger's text, safe for a terminal: no control characters, short."""
    return ascii(text if len(text) <= 60 else text[:60] + "...")
