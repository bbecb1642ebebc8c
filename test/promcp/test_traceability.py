"""Every line P1–P48 of proMCP's requirements has a test that names it.

Run this file as a script for the table: which test answers for which line.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

LINES = range(1, 49)
TESTS = Path(__file__).resolve().parent.parent
WHERE = (
    "promcp",
    "server/promcp",
    "client/test_orchestrating.py",
    "node/test_promcp.py",
    "compat/test_promcp_lint.py",
    "ros/test_world.py",
)
"""Where such tests are; elsewhere P and a number may mean something else."""

_NUMBER = re.compile(r"(?<![\w])P(\d+)\b")
_RANGE = re.compile(r"(?<![\w])P(\d+)\s*[–-]\s*P(\d+)\b")


def cited(text: str) -> set[int]:
    """The line numbers that a text names: ``P7``, ``P1-P3``."""
    found = {int(number) for number in _NUMBER.findall(text)}
    for first, last in _RANGE.findall(text):
        found.update(range(int(first), int(last) + 1))
    return found


def files() -> list[Path]:
    """The test files that may answer."""
    found: list[Path] = []
    for name in WHERE:
        place = TESTS / name
        found += sorted(place.glob("test_*.py")) if place.is_dir() else [place]
    return [path for path in found if path.resolve() != Path(__file__).resolve()]


def which_tests() -> dict[int, list[str]]:
    """For each line the tests whose own docstring names it. Comments and helpers do not count."""
    table: dict[int, list[str]] = {number: [] for number in LINES}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_test and node.name.startswith("test_"):
                for number in cited(ast.get_docstring(node) or ""):
                    table.setdefault(number, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return table


def test_every_line_of_the_requirements_has_a_test() -> None:
    table = which_tests()
    assert sorted(set(table) - set(LINES)) == [], "lines that do not exist"
    missing = [f"P{number}" for number in LINES if not table[number]]
    assert missing == [], f"no test names {', '.join(missing)}"


def test_the_robots_own_surface_answers_for_what_it_promises() -> None:
    """Not only the decorators for other servers: P1–P40 and P47–P48 hold of the profiles themselves."""
    table = which_tests()
    own = ("server/promcp/", "node/test_promcp.py")
    promised = [number for number in LINES if not 41 <= number <= 46]
    missing = [n for n in promised if not any(test.startswith(own) for test in table[n])]
    assert missing == []


def test_citations_are_read_as_they_are_written() -> None:
    assert cited("P1, P20: words. (P3) P5-P7 and P9–P10; 11, XP12, P13a") == {1, 20, 3, 5, 6, 7, 9, 10}


def main() -> int:
    table = which_tests()
    for number in LINES:
        answers = table[number] or ["NOBODY"]
        print(f"P{number:<4} {len(table[number]):>3}  {answers[0]}")
    return sum(not table[number] for number in LINES)


if __name__ == "__main__":
    sys.exit(main())
