"""What an upload would change, counted and said as the protocol does."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.rcp import DiffResult
from robot_mcp_kit.rcp.diff import diff


@pytest.mark.parametrize(
    ("counts", "text"),
    [((3, 1, 2), "+3 -1 ~2 lines"), ((0, 0, 0), "+0 -0 ~0 lines"), ((10_000, 0, 1), "+10000 -0 ~1 lines")],
)
def test_the_summary_is_exact(counts: tuple[int, int, int], text: str) -> None:
    """R42."""
    assert DiffResult("", "", *counts).summary() == text
    assert DiffResult("a", "b").summary() == "+0 -0 ~0 lines"


@settings(max_examples=100, deadline=None)
@given(counts=st.tuples(st.integers(), st.integers(), st.integers()))
def test_the_summary_is_the_protocols_own(counts: tuple[int, int, int], sdk: ModuleType) -> None:
    """R42."""
    assert DiffResult("", "", *counts).summary() == sdk.DiffResult("", "", *counts).summary()


@pytest.mark.parametrize(
    ("local", "controller", "counts"),
    [
        ("a\nb\nc", "a\nb", (1, 0, 0)),
        ("a", "a\nb\nc", (0, 2, 0)),
        ("a\nX\nc", "a\nb\nc", (0, 0, 1)),
        ("a\nX\nY\nc", "a\nb\nc", (1, 0, 1)),
        ("same\ntext", "same\ntext", (0, 0, 0)),
        ("a\nb\n", "", (2, 0, 0)),
        ("", "a\nb\n", (0, 2, 0)),
        ("", "", (0, 0, 0)),
    ],
)
def test_lines_are_counted_once(local: str, controller: str, counts: tuple[int, int, int]) -> None:
    """R43: addition, removal, replacement, equal texts, empty controller code."""
    found = diff(local, controller)
    assert (found.added, found.removed, found.changed) == counts
    assert (found.local_code, found.controller_code) == (local, controller)


def test_lines_that_begin_with_plus_or_minus_signs_count_too() -> None:
    """R43: the protocol's own SDK takes them for a diff's header."""
    assert diff("++ counter\n-- mark", "").summary() == "+2 -0 ~0 lines"


@pytest.mark.parametrize(
    ("local", "controller", "counts"),
    [
        (["new"], [], (1, 0, 0)),
        ([], ["old"], (0, 1, 0)),
        (["new"], ["old"], (0, 0, 1)),
        (["new"], ["old", "older"], (0, 1, 1)),
        ([f"n{n}" for n in range(3000)], [f"o{n}" for n in range(2999)], (1, 0, 2999)),
        ([], [], (0, 0, 0)),
    ],
)
def test_long_programs_are_compared_in_bounded_time(
    local: list[str], controller: list[str], counts: tuple[int, int, int]
) -> None:
    """R43: what is the same at both ends is left out, and the count is the same."""
    head, tail = [f"line {n}" for n in range(100_000)], [f"end {n}" for n in range(100_000)]
    found = diff("\n".join([*head, *local, *tail]), "\n".join([*head, *controller, *tail]))
    assert (found.added, found.removed, found.changed) == counts


LINES = st.lists(
    st.sampled_from(["MoveJ p1", "MoveL p2", "Set do1", "WaitTime 1", "  ! note", ""]), max_size=30
)


@settings(max_examples=80, deadline=None)
@given(local=LINES, controller=LINES)
def test_the_counts_are_the_protocols_own(local: list[str], controller: list[str], sdk: ModuleType) -> None:
    """R43."""

    class Theirs(sdk.RCPAdapter):  # type: ignore[misc, name-defined]
        async def get_program_code(self, module: str) -> str:
            return "\n".join(controller)

    Theirs.__abstractmethods__ = frozenset()
    said: dict[str, Any] = asyncio.run(Theirs().diff_program("m", "\n".join(local)))
    found = diff("\n".join(local), "\n".join(controller))
    assert (found.added, found.removed, found.changed) == (said["added"], said["removed"], said["changed"])
