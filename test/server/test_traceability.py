"""Every line L1-L43 of what a robot's MCP server owes has a test that names it.

Run this file as a script for the table: which tests answer for which line.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

LINES = range(1, 44)
ROOMS = ("server", "node", "conformance", "bridge", "skills")
_NUMBER = re.compile(r"\bL(\d+)\b(?:\s*[–-]\s*L(\d+)\b)?")


def cited(text: str) -> set[int]:
    """The line numbers that a text names: ``L7``, ``L1-L3``."""
    found: set[int] = set()
    for first, last in _NUMBER.findall(text):
        found.update(range(int(first), int(last or first) + 1))
    return found


def which_tests(root: Path) -> dict[int, list[str]]:
    """For each line the tests whose own docstring names it. Modules, helpers and comments do not count."""
    table: dict[int, list[str]] = {number: [] for number in LINES}
    for room in ROOMS:
        for path in sorted((root / room).rglob("test_*.py")):
            if path.name == Path(__file__).name:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if function and node.name.startswith("test_"):
                    for number in cited(ast.get_docstring(node) or ""):
                        table.setdefault(number, []).append(f"{room}/{path.name}::{node.name}")
    return table


def test_every_line_has_a_test() -> None:
    table = which_tests(Path(__file__).parents[1])
    unknown = sorted(set(table) - set(LINES))
    assert unknown == [], f"lines that do not exist: {unknown}"
    missing = [f"L{number}" for number in LINES if not table[number]]
    assert missing == [], f"no test names {', '.join(missing)}"


def test_citations_are_read_as_they_are_written() -> None:
    assert cited("L1, L20: words. (L3) L5-L7 and L9–L10; 11, XL12, L13a, HTML5") == {1, 20, 3, 5, 6, 7, 9, 10}


def main() -> int:
    table = which_tests(Path(__file__).parents[1])
    for number in LINES:
        print(f"L{number:<3} {len(table[number]):>3}  {'; '.join(table[number]) or 'NOBODY'}")
    return sum(not table[number] for number in LINES)


if __name__ == "__main__":
    sys.exit(main())
