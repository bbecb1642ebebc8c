"""Every numbered behaviour of this half has a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HIGHEST = 42


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for first, last in re.findall(r"\bA(\d+)(?:-A?(\d+))?\b", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_every_behaviour_a1_to_a42_is_named_by_a_test() -> None:
    """A1-A42. Only docstrings of test functions count, not those of modules."""
    named: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and node.name.startswith("test_") and path != Path(__file__):
                named |= _numbers(ast.get_docstring(node) or "")
    assert set(range(1, HIGHEST + 1)) - named == set()
