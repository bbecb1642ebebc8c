"""The sequence numbers of one task: which have come, which are missing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal

MAX_GAP_LISTED = 10_000
MAX_RANGES = 200
"""A sender has one gap for each outage of ten minutes; who has more loses track of the oldest, not of
memory.
"""

Arrival = Literal["next", "gap", "late", "again"]


@dataclass(slots=True)
class SeqTrack:
    """What has been received, as a highest number and ranges below it that are missing."""

    highest: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Missing, first to last inclusive, ascending, not touching."""

    def arrive(self, seq: int) -> tuple[Arrival, tuple[int, ...]]:
        """Note ``seq``. Says how it came and, for a gap, which numbers are newly missing (the last
        10,000).
        """
        if seq > self.highest:
            first = self.highest + 1
            self.highest = seq
            if seq == first:
                return "next", ()
            self.ranges.append((first, seq - 1))
            del self.ranges[:-MAX_RANGES]
            return "gap", tuple(range(max(first, seq - MAX_GAP_LISTED), seq))
        for index, (first, last) in enumerate(self.ranges):
            if first <= seq <= last:
                rest = [(first, seq - 1), (seq + 1, last)]
                self.ranges[index : index + 1] = [one for one in rest if one[0] <= one[1]]
                return "late", ()
        return "again", ()

    def forget(self, seq: int) -> None:
        """Take ``seq`` back: it counts as missing."""
        if not any(first <= seq <= last for first, last in self.ranges):
            self.ranges.append((seq, seq))
            self.ranges.sort()

    @property
    def missing_count(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def missing(self) -> list[int]:
        """The missing numbers, ascending, the last 10,000 of them."""
        found: list[int] = []
        for first, last in reversed(self.ranges):
            room = MAX_GAP_LISTED - len(found)
            if room <= 0:
                break
            found += range(last, max(first, last - room + 1) - 1, -1)
        return found[::-1]

    def to_text(self) -> str:
        return json.dumps(self.ranges) if self.ranges else ""

    @classmethod
    def from_text(cls, highest: int, text: str) -> SeqTrack:
        return cls(highest, [(first, last) for first, last in json.loads(text)] if text else [])
