"""Text from the outside made fit for a planner and a terminal, and "did you mean"."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Cc control, Cf format (zero width, bidirectional overrides): invisible, and able to reorder what people
# read.
_INVISIBLE = {"Cc", "Cf"}


def clean_text(text: object, max_chars: int = 300) -> str:
    """One line, printable, at most ``max_chars`` characters (ending in an ellipsis when cut).

    Strips ANSI sequences, control and invisible formatting characters, and replaces lone surrogates with
    U+FFFD so that the text can be encoded. Anything that is not a string gives ``""``.
    """
    if not isinstance(text, str):
        return ""
    # Cut early: a hostile 100 MB message must not cost more than its useful part.
    head = _ANSI.sub("", text[: max_chars * 20])
    head = _SURROGATE.sub("\ufffd", head)
    kept = "".join(
        " " if char.isspace() else "" if unicodedata.category(char) in _INVISIBLE else char for char in head
    )
    line = " ".join(kept.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Known names most like ``word``, best first; empty when none is similar."""
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    found = difflib.get_close_matches(word.casefold(), list(by_folded), n=count, cutoff=0.6)
    return [by_folded[name] for name in found]


def nearest_first(word: str, known: Iterable[str]) -> list[str]:
    """All known names, the ones most like ``word`` first, ties by name."""
    folded = word.casefold()
    return sorted(
        known, key=lambda name: (-difflib.SequenceMatcher(None, folded, name.casefold()).ratio(), name)
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean "kitchen"?`` with a leading space, or ``""``."""
    close = nearest(word, known, count=1)
    return f' Did you mean "{close[0]}"?' if close else ""


def counted(count: int, noun: str) -> str:
    """``1 pose``, ``3 poses``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
