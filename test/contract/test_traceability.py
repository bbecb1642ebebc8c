"""Every line K1–K177 of the contract's requirements has a test that names it, or a person who judges it.

Run this file as a script for the table: which test answers for which line.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

LINES = range(1, 178)

JUDGED_BY_A_PERSON: dict[int, str] = {
    177: "the gates themselves: .ci/run runs tests, lint, format, types and coverage, and fails on any",
}
"""Lines that no test of this suite can answer for, with the reason."""

_NUMBER = re.compile(r"\bK(\d+)\b")
_RANGE = re.compile(r"\bK(\d+)\s*[–-]\s*K(\d+)\b")


def cited(text: str) -> set[int]:
    """The line numbers that a text names: ``K7``, ``K1-K3``."""
    found = {int(number) for number in _NUMBER.findall(text)}
    for first, last in _RANGE.findall(text):
        found.update(range(int(first), int(last) + 1))
    return found


def which_tests(folder: Path) -> dict[int, list[str]]:
    """For each line the tests whose own docstring names it. Comments and helpers do not count."""
    table: dict[int, list[str]] = {number: [] for number in LINES}
    for path in sorted(folder.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_test = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith(
                "test_"
            )
            if not is_test and not (isinstance(node, ast.ClassDef) and node.name.startswith("Test")):
                continue
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for number in cited(ast.get_docstring(node) or ""):
                table.setdefault(number, []).append(f"{path.name}::{node.name}")
    return table


def test_every_line_of_the_contract_has_a_test() -> None:
    table = which_tests(Path(__file__).parent)
    unknown = sorted(set(table) - set(LINES))
    assert unknown == [], f"lines that do not exist: {unknown}"
    missing = [f"K{number}" for number in LINES if not table[number] and number not in JUDGED_BY_A_PERSON]
    assert missing == [], f"no test names {', '.join(missing)}"
    needless = [f"K{number}" for number in JUDGED_BY_A_PERSON if table[number]]
    assert needless == [], f"a test names {', '.join(needless)}, so nobody has to judge it"


def test_citations_are_read_as_they_are_written() -> None:
    assert cited("K1, K20: words. (K3) K5-K7 and K9–K10; 11, XK12, K13a") == {1, 20, 3, 5, 6, 7, 9, 10}


def main() -> int:
    table = which_tests(Path(__file__).parent)
    for number in LINES:
        answers = table[number] or [f"(a person) {JUDGED_BY_A_PERSON.get(number, 'NOBODY')}"]
        print(f"K{number:<4} {len(table[number]):>3}  {answers[0]}")
    return sum(not table[number] and number not in JUDGED_BY_A_PERSON for number in LINES)


if __name__ == "__main__":
    sys.exit(main())
