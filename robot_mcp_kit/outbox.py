"""Where accepted events wait for delivery: the port, and the in-memory adapter that the library uses by
default.
"""

from __future__ import annotations

import abc
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

DEFAULT_MAX_EVENTS = 10_000
DEFAULT_MAX_BYTES = 64 * 1024 * 1024

_RANK = {"progress": 0, "watch_event": 1}
_RANKS = 3


def rank(event_type: str) -> int:
    """What goes first when there is no room (K130): 0 progress, 1 watch events, 2 what nobody may miss."""
    return _RANK.get(event_type, 2)


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One accepted event, serialised once. ``key`` rises in the order of acceptance."""

    key: int
    event_id: str
    task_id: str
    server: str
    type: str
    seq: int
    accepted_at_s: float
    """Unix seconds."""
    body: bytes


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An event to be kept; the outbox gives it its key."""

    event_id: str
    task_id: str
    server: str
    type: str
    seq: int
    accepted_at_s: float
    body: bytes


class Outbox(abc.ABC):
    """Bounded store of undelivered events, in order per task. All methods may be called from any thread.

    When it is full, the oldest event of the lowest rank makes room (:func:`rank`), the new one included.
    """

    durable: bool = False
    """Whether the entries outlive the process."""

    @abc.abstractmethod
    def append(self, entry: NewEntry, *, keep: Collection[int] = ()) -> list[OutboxEntry]:
        """Accept an event; returns the events that had to go for it (to be logged by the caller).

        Args:
            entry: the event.
            keep: keys that must not be evicted: their delivery is under way.
        """

    @abc.abstractmethod
    def head(self, task_id: str) -> OutboxEntry | None:
        """The oldest undelivered event of that task."""

    @abc.abstractmethod
    def remove(self, key: int) -> None:
        """Forget an event: delivered, or given up. Unknown keys are ignored."""

    @abc.abstractmethod
    def task_ids(self) -> list[str]:
        """Tasks with undelivered events, by the age of their oldest one."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of undelivered events."""

    @abc.abstractmethod
    def oldest_accepted_at_s(self) -> float | None:
        """Unix seconds at which the oldest undelivered event was accepted."""

    def close(self) -> None:  # noqa: B027  an outbox without resources has nothing to do
        """Release resources. Durable entries stay for the next process."""


class MemoryOutbox(Outbox):
    """Keeps events in this process only.

    Args:
        max_events: most events kept.
        max_bytes: most body bytes kept, whatever the number of events.
        first_key: where keys begin, for an outbox that is part of another one.
    """

    def __init__(
        self,
        *,
        max_events: int = DEFAULT_MAX_EVENTS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        first_key: int = 1,
    ) -> None:
        check_bounds(max_events, max_bytes)
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, OutboxEntry] = OrderedDict()
        # Ordered dictionaries because entries leave from the middle too, and a lane must not keep their
        # traces.
        self._lanes: OrderedDict[str, OrderedDict[int, None]] = OrderedDict()
        self._ranks: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(_RANKS)]
        self._bytes = 0
        self._next_key = first_key

    def append(self, entry: NewEntry, *, keep: Collection[int] = ()) -> list[OutboxEntry]:
        with self._lock:
            key = self._next_key
            self._next_key += 1
            self._entries[key] = OutboxEntry(
                key,
                entry.event_id,
                entry.task_id,
                entry.server,
                entry.type,
                entry.seq,
                entry.accepted_at_s,
                entry.body,
            )
            self._lanes.setdefault(entry.task_id, OrderedDict())[key] = None
            self._ranks[rank(entry.type)][key] = None
            self._bytes += len(entry.body)
            evicted = []
            while len(self._entries) > self._max_events or self._bytes > self._max_bytes:
                victim = self._victim(keep)
                if victim is None:
                    break
                evicted.append(self._forget(victim))
            return evicted

    def _victim(self, keep: Collection[int]) -> int | None:
        for keys in self._ranks:
            for key in keys:
                if key not in keep:
                    return key
        return None

    def _forget(self, key: int) -> OutboxEntry:
        entry = self._entries.pop(key)
        self._bytes -= len(entry.body)
        del self._ranks[rank(entry.type)][key]
        lane = self._lanes[entry.task_id]
        del lane[key]
        if not lane:
            del self._lanes[entry.task_id]
        return entry

    def head(self, task_id: str) -> OutboxEntry | None:
        with self._lock:
            lane = self._lanes.get(task_id)
            return self._entries[next(iter(lane))] if lane else None

    def entries(self) -> list[OutboxEntry]:
        """All of them, in the order of acceptance."""
        with self._lock:
            return list(self._entries.values())

    def remove(self, key: int) -> None:
        with self._lock:
            if key in self._entries:
                self._forget(key)

    def task_ids(self) -> list[str]:
        with self._lock:
            return sorted(self._lanes, key=lambda task_id: next(iter(self._lanes[task_id])))

    def __len__(self) -> int:
        return len(self._entries)

    def oldest_accepted_at_s(self) -> float | None:
        with self._lock:
            return next(iter(self._entries.values())).accepted_at_s if self._entries else None


def check_bounds(max_events: int, max_bytes: int) -> None:
    """Raises ValueError for bounds that could hold nothing."""
    if max_events < 1:
        raise ValueError(f"max_events: must be at least 1, got {max_events}")
    if max_bytes < 1:
        raise ValueError(f"max_bytes: must be at least 1, got {max_bytes}")
