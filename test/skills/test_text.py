"""Text from the outside, and "did you mean"."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.skills.text import clean_text, did_you_mean, nearest_first


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("Küche 🤖 \u202e abc\x00", "Küche 🤖 abc"),
        ("zero\u200bwidth", "zerowidth"),
        ("bad \udc81 byte", "bad \ufffd byte"),
        (None, ""),
        (b"bytes", ""),
        (17, ""),
    ],
)
def test_messages_become_one_printable_line(raw: object, clean: str) -> None:
    """C30, F51, F52."""
    assert clean_text(raw) == clean


def test_twenty_kilobytes_are_cut() -> None:
    text = clean_text("x" * 20_000)
    assert len(text) == 300
    assert text.endswith("…")


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_whatever_comes_in_can_be_encoded(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert "\n" not in cleaned
    assert "\x1b" not in cleaned


def test_the_most_similar_name_comes_first() -> None:
    assert nearest_first("kitchn", ["office", "lobby", "kitchen"])[0] == "kitchen"
    assert did_you_mean("kitchn", ["office", "kitchen"]) == ' Did you mean "kitchen"?'
    assert did_you_mean("xyz", ["office", "kitchen"]) == ""
