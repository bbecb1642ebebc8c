"""Two program texts compared line by line."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher

from robot_mcp_kit.rcp.models import DiffResult

MAX_PAIRS = 4_000_000
"""Lines of one times lines of the other up to which their order counts: about 2000 lines each."""


def diff(local_code: str, controller_code: str) -> DiffResult:
    """What an upload would change (R43).

    A line that was taken out and one that came in count together as one changed line, wherever they are, as
    the protocol has it. Of texts longer than :data:`MAX_PAIRS` allows only what is between their common
    beginning and end is compared, and there a line that moved does not count: how long it takes stays within
    bounds.
    """
    before, after = controller_code.splitlines(), local_code.splitlines()
    if len(before) * len(after) <= MAX_PAIRS:
        removed, added = _in_order(before, after)
    else:
        removed, added = _in_any_order(before, after)
    changed = min(added, removed)
    return DiffResult(local_code, controller_code, added - changed, removed - changed, changed)


def _in_order(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines went and came."""
    removed = added = 0
    for kind, left, left_end, right, right_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            removed += left_end - left
            added += right_end - right
    return removed, added


def _in_any_order(before: list[str], after: list[str]) -> tuple[int, int]:
    shorter = min(len(before), len(after))
    begin = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    end = next((n for n in range(shorter - begin) if before[-1 - n] != after[-1 - n]), shorter - begin)
    left, right = before[begin : len(before) - end], after[begin : len(after) - end]
    if len(left) * len(right) <= MAX_PAIRS:
        return _in_order(left, right)
    ours, theirs = Counter(right), Counter(left)
    return (theirs - ours).total(), (ours - theirs).total()
