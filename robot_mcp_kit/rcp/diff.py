"""Two program texts compared line by line."""

from __future__ import annotations

from difflib import SequenceMatcher

from robot_mcp_kit.rcp.models import DiffResult


def diff(local_code: str, controller_code: str) -> DiffResult:
    """What an upload would change (R43).

    A line that was taken out and one that came in count together as one changed line, wherever they are, as
    the protocol has it.
    """
    before, after = controller_code.splitlines(), local_code.splitlines()
    added = removed = 0
    for kind, left, left_end, right, right_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            removed += left_end - left
            added += right_end - right
    changed = min(added, removed)
    return DiffResult(local_code, controller_code, added - changed, removed - changed, changed)
