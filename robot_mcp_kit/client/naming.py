"""One name for each tool of all servers, fit for any model's function calling."""

from __future__ import annotations

import hashlib
import re

BUDGET = 64
_SEPARATOR = "__"
_TAIL = 20


def canonical_name(server: str, tool: str) -> str:
    """``<server>__<tool>``, at most 64 of ``A-Z a-z 0-9 _ -``.

    The same for the same two names, always. A longer one keeps its beginning and its end, with a digest of
    the whole in between, so that two long names that differ only in the middle stay two.
    """
    whole = f"{server}{_SEPARATOR}{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", whole)
    if len(name) <= BUDGET:
        return name
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{name[: BUDGET - _TAIL - len(digest) - 2]}_{digest}_{name[-_TAIL:]}"
