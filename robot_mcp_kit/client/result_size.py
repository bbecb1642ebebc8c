"""How large a result a tool may hand on to a model: a server's wish within fixed bounds, never its order
(A40).
"""

from __future__ import annotations

from typing import Any

DEFAULT_CHARS = 25_000
MOST_CHARS = 500_000
META_KEY = "anthropic/maxResultSizeChars"


def max_result_chars(meta: Any) -> tuple[int, str | None]:
    """The number of characters, and what was wrong with the server's wish, if anything."""
    if not isinstance(meta, dict) or META_KEY not in meta:
        return DEFAULT_CHARS, None
    wish = meta[META_KEY]
    if isinstance(wish, bool) or not isinstance(wish, int):
        return DEFAULT_CHARS, f"{META_KEY} is no whole number; ignored"
    if not DEFAULT_CHARS < wish <= MOST_CHARS:
        return DEFAULT_CHARS, f"{META_KEY} must be above {DEFAULT_CHARS} and at most {MOST_CHARS}; ignored"
    return wish, None


def shortened(text: str, most: int) -> str:
    """``text``, cut with a word about it when it is longer."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: {len(text) - most} of {len(text)} characters]"
