"""Every line R1-R49 of the protocol's requirements has a test that names it.

Run this file as a script for the table: which test answers for which line.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

LINES = range(1, 50)
FOLDERS = ("rcp", "rcp_ros", "safety", "attacks")
"""Risk levels, approvals and audit are the safety layer's, and tested with it; the adapter over a
bridge is tested with the bridge.
"""

_NUMBER = re.compile(r"\bR(\d+)\b")
_RANGE = re.compile(r"\bR(\d+)\s*[–-]\s*R(\d+)\b")
TEST = Path(__file__).parents[1]


def cited(text: str) -> set[int]:
    """The line numbers that a text names: ``R7``, ``R1-R3``."""
    found = {int(number) for number in _NUMBER.findall(text)}
    for first, last in _RANGE.findall(text):
        found.update(range(int(first), int(last) + 1))
    return found


def which_tests(*folders: str) -> dict[int, list[str]]:
    """For each line the tests whose own docstring names it alone or with others, ranges not counted: a class
    or a table that stands for many lines answers for none of them.
    """
    table: dict[int, list[str]] = {number: [] for number in LINES}
    for path in sorted(path for folder in folders for path in (TEST / folder).glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith(
                "test_"
            ):
                continue
            text = _RANGE.sub("", ast.get_docstring(node) or "")
            for number in cited(text):
                table.setdefault(number, []).append(f"{path.parent.name}/{path.name}::{node.name}")
    return table


def test_every_line_of_the_protocol_has_a_test() -> None:
    table = which_tests(*FOLDERS)
    unknown = sorted(set(table) - set(LINES))
    assert unknown == [], f"lines that do not exist: {unknown}"
    missing = [f"R{number}" for number in LINES if not table[number]]
    assert missing == [], f"no test names {', '.join(missing)}"


def test_every_line_that_an_adapter_can_break_is_tested_with_adapters() -> None:
    """The safety layer's own tests are about ROS goals; over adapters each line is tested again."""
    table = which_tests("rcp")
    missing = [f"R{number}" for number in LINES if not table[number]]
    assert missing == [], f"no test of test/rcp names {', '.join(missing)}"


def test_citations_are_read_as_they_are_written() -> None:
    assert cited("R1, R20: words. (R3) R5-R7 and R9–R10; 11, XR12, R13a") == {1, 20, 3, 5, 6, 7, 9, 10}


def main() -> int:
    table = which_tests(*FOLDERS)
    for number in LINES:
        answers = table[number] or ["NOBODY"]
        print(f"R{number:<4} {len(table[number]):>3}  {answers[0]}")
    return sum(not answers for answers in table.values())


if __name__ == "__main__":
    sys.exit(main())
