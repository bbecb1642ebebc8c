"""Compensation hints, written and read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.promcp.hints import parse_hint, write_hint

_NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab =", max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(tool=_NAMES, arguments=st.dictionaries(_NAMES, _JSON, max_size=4))
def test_what_is_written_is_read_back(tool: str, arguments: dict[str, Any]) -> None:
    """P23: also values with spaces and equals signs in them."""
    assert parse_hint(write_hint(tool, arguments)) == (tool, arguments)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("", "begins with a tool's name"),
        ("set the fan", "expected name=value"),
        ("do_fan speed=", "no JSON"),
        ("do_fan speed=fast", "no JSON"),
        ("do_fan speed=1x", "something follows"),
        ("do_fan =1", "expected name=value"),
    ],
)
def test_what_is_no_hint_is_told(hint: str, said: str) -> None:
    """P23."""
    with pytest.raises(ValueError, match=said):
        parse_hint(hint)
