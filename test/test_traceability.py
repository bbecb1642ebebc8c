"""Every numbered requirement has a test that names it, or a person who judges it.

K: the contract. B: the bridge. L: replay-safe skills. P: proMCP. R: the Robot Context Protocol. A: the chat
app's client. Run this file as a script for the table: which test answers for which line (``K`` ... as
arguments for some of them).
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LINES = {"K": 177, "B": 42, "L": 43, "P": 48, "R": 49, "A": 42}
"""The number of lines under each letter."""
JUDGED_BY_A_PERSON = {
    "K177": "the gates themselves: .ci/run runs tests, lint, format, types and coverage, and fails on any",
    "B14": "bench/stop_latency.py measures it (get_task beside twenty goals at 100 Hz); tests time nothing",
}
"""Lines that no test can answer for, with the reason."""

ALSO_IN = {
    "P": (("server/promcp/", "node/test_promcp.py"), set(range(1, 49)) - set(range(41, 47))),
    "R": (("rcp/",), set(range(1, 50)) - {7, 21, 22, 35, 41}),
}
"""Lines that one place answers for and another one owes as well: the robot's own profiles, not only the
decorators for other servers; adapters, not only the safety layer's ROS goals.
"""

_RANGE = re.compile(r"\b([A-Z])([1-9]\d*)\s*[–-]\s*\1?(\d+)\b")
_NUMBER = re.compile(r"\b([A-Z])([1-9]\d*)\b")
_CASES = re.compile(r"\b[Cc]ases? [A-H]\d+(?:(?:, | and | )[A-H]\d+)*")
"""Faults met in the wild have numbers of their own, of which some look the same."""


def cited(text: str) -> set[str]:
    """The lines that a text names: ``K7``, ``K1-K3``, ``L5-7``; not ``case B14``."""
    text = _CASES.sub("", text)
    found = {f"{letter}{number}" for letter, number in _NUMBER.findall(text)}
    for letter, first, last in _RANGE.findall(text):
        found.update(f"{letter}{number}" for number in range(int(first), int(last) + 1))
    return {line for line in found if line[0] in LINES}


@functools.cache
def which_tests() -> dict[str, list[str]]:
    """For each line the tests whose own docstring names it. Comments and helpers do not count."""
    table: dict[str, list[str]] = {line: [] for letter in LINES for line in lines_of(letter)}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__).resolve():
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name.startswith("Test" if isinstance(node, ast.ClassDef) else "test_"):
                for line in cited(ast.get_docstring(node) or ""):
                    table.setdefault(line, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return table


def lines_of(letter: str) -> list[str]:
    return [f"{letter}{number}" for number in range(1, LINES[letter] + 1)]


@pytest.mark.parametrize("letter", LINES)
def test_every_requirement_has_a_test_that_names_it(letter: str) -> None:
    table = which_tests()
    known = lines_of(letter)
    assert [line for line in table if line[0] == letter and line not in known] == [], "there is no such line"
    assert [line for line in known if not table[line] and line not in JUDGED_BY_A_PERSON] == []
    assert [line for line in known if table[line] and line in JUDGED_BY_A_PERSON] == [], "nobody has to judge"


@pytest.mark.parametrize("letter", ALSO_IN)
def test_what_holds_in_two_places_is_tested_in_both(letter: str) -> None:
    places, numbers = ALSO_IN[letter]
    table = which_tests()
    missing = [n for n in sorted(numbers) if not any(t.startswith(places) for t in table[f"{letter}{n}"])]
    assert missing == []


def test_citations_are_read_as_they_are_written() -> None:
    said = "K1, K20: words. (K3) K5-K7 and B9–B10; L2-4; 11, XK12, K13a, Z5"
    assert cited(said) == {"K1", "K20", "K3", "K5", "K6", "K7", "B9", "B10", "L2", "L3", "L4"}


def main(letters: list[str]) -> int:
    table = which_tests()
    unanswered = 0
    for letter in letters or LINES:
        for line in lines_of(letter):
            person = JUDGED_BY_A_PERSON.get(line)
            unanswered += not table[line] and person is None
            first = (table[line] or [f"(a person) {person or 'NOBODY'}"])[0]
            print(f"{line:<5} {len(table[line]):>3}  {first}")
    return unanswered


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
