"""Everything becomes JSON that everybody reads the same, and nothing raises."""

from __future__ import annotations

import array
import base64
import dataclasses
import enum
import json
import math
from collections import OrderedDict, UserDict, UserList, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from robot_mcp_kit.jsonsafe import MAX_SAFE_INTEGER, clean_text, copy_json, dumps, to_jsonable

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**53, max_value=2**70)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.sets(st.integers(), max_size=3)
    | st.complex_numbers()
    | st.decimals()
    | st.datetimes()
    | st.builds(object)
    | st.sampled_from(["\udc81", "\ud83d\ude00", "a\u0000b", "\u202e"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.none() | st.floats(), inner, max_size=4)
    ),
    max_leaves=20,
)


def check_strict(value: Any) -> None:
    kind = type(value)
    assert kind in (type(None), bool, int, float, str, list, dict)
    if kind is int:
        assert abs(value) <= MAX_SAFE_INTEGER
    elif kind is float:
        assert math.isfinite(value)
    elif kind is str:
        value.encode("utf-8")
    elif kind is list:
        for item in value:
            check_strict(item)
    elif kind is dict:
        for key, item in value.items():
            assert type(key) is str
            key.encode("utf-8")
            check_strict(item)


@given(VALUES)
def test_whatever_comes_leaves_as_strict_json(value: Any) -> None:
    """K47, K48, K50."""
    clean = to_jsonable(value)
    check_strict(clean)
    text = json.dumps(clean, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == clean
    assert dumps(value) == json.dumps(clean, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


@given(VALUES)
def test_converting_twice_changes_nothing_more(value: Any) -> None:
    """K9, K47: what the poster sends is what the poll shows."""
    clean = to_jsonable(value)
    assert to_jsonable(clean) == clean


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_is_kept_as_it_is_and_shares_nothing(value: Any) -> None:
    """K31, K46."""
    notes: list[str] = []
    clean = to_jsonable(value, notes=notes)
    assert clean == value
    assert notes == []
    copied = copy_json(clean)
    assert copied == clean
    for one in (clean, copied):
        if isinstance(value, (dict, list)):
            assert one is not value


class Colour(enum.Enum):
    RED = "red"
    WIDE = float("nan")


class Level(enum.IntEnum):
    HIGH = 2


class Model(BaseModel):
    x: float = float("inf")
    inner: dict[str, Any] = {}


@dataclasses.dataclass
class Data:
    pose: Any
    n: int = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
        (MAX_SAFE_INTEGER + 1, "9007199254740992"),
        (-(2**63), "-9223372036854775808"),
        (1_800_000_000_000_000_000, "1800000000000000000"),
        (float("-inf"), None),
        (-0.0, -0.0),
        (b"\x00\xff", "AP8="),
        (bytearray(b"ab"), "YWI="),
        (memoryview(b"ab"), "YWI="),
        (array.array("d", [1.5, float("nan")]), [1.5, None]),
        (array.array("b", [-1, 2]), [-1, 2]),
        (array.array("B", [0, 255]), "AP8="),
        (array.array("f", [0.1, 1e-3, 3.4028235e38, float("inf")]), [0.1, 0.001, 3.4028235e38, None]),
        (Colour.RED, "red"),
        (Colour.WIDE, None),
        (Level.HIGH, 2),
        (Model(), {"x": None, "inner": {}}),
        (Data(pose=(1, 2)), {"pose": [1, 2], "n": 1}),
        (datetime(2026, 6, 12, 14, 3, tzinfo=UTC), "2026-06-12T14:03:00+00:00"),
        (date(2026, 6, 12), "2026-06-12"),
        (timedelta(seconds=1.5), 1.5),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a/b"), "/a/b"),
        (Decimal("1.10"), "1.10"),
        (deque([1, 2]), [1, 2]),
        (UserList([1]), [1]),
        (UserDict({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ((1, (2,)), [1, [2]]),
        ("Küche 🤖", "Küche 🤖"),
        ("a\udc81b", "a\ufffdb"),
    ],
)
def test_known_values(value: Any, expected: Any) -> None:
    """K47, K48, K50."""
    assert to_jsonable(value) == expected
    assert repr(to_jsonable(value)) == repr(expected) or isinstance(expected, list)


def test_a_float32_of_an_array_is_the_shortest_text_that_is_still_it() -> None:
    values = [0.1, 2.4, 1 / 3, 123456.789, -1e-20]
    stored = array.array("f", values)
    clean = to_jsonable(stored)
    assert array.array("f", clean) == stored
    assert clean[:2] == [0.1, 2.4]


class Bad:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class BadMapping(UserDict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


@pytest.mark.parametrize(
    "make",
    [
        Bad,
        lambda: {Bad()},
        lambda: {"x": Bad()},
        lambda: {Bad(): 1},
        BadMapping,
        lambda: [BadMapping()],
        lambda: 10**5000,
        lambda: {10**5000: 10**50000},
        lambda: Bad,
    ],
)
def test_objects_that_cannot_even_be_printed_do_not_raise(make: Any) -> None:
    """K47, K124."""
    check_strict(to_jsonable(make(), notes=[]))


def test_cycles_and_depth_end() -> None:
    """K47: an object that is only shared is not one that contains itself."""
    loop: dict[str, Any] = {"a": 1}
    loop["itself"] = [loop]
    notes: list[str] = []
    assert to_jsonable(loop, notes=notes) == {"a": 1, "itself": ["<dict that contains itself>"]}
    assert notes == ["$.itself[0]: contains itself; replaced by its string form"]
    shared = [1]
    assert to_jsonable([shared, shared]) == [[1], [1]]
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    check_strict(to_jsonable(deep))
    data = Data(pose=None)
    data.pose = [data]
    check_strict(to_jsonable(data))


def test_arrays_are_cut_with_a_note() -> None:
    """Bulk data is no progress report; plain lists stay whole unless asked."""
    notes: list[str] = []
    clean = to_jsonable({"scan": array.array("d", range(5000))}, notes=notes)["scan"]
    assert clean[:3] == [0.0, 1.0, 2.0]
    assert len(clean) == 4097
    assert clean[-1] == "… 904 more"
    assert notes == ["$.scan: cut to 4096 of 5000 items"]
    assert len(to_jsonable(list(range(5000)))) == 5000
    assert to_jsonable([1, 2, 3, 4], max_list_items=2) == [1, 2, "… 2 more"]
    assert to_jsonable(array.array("d", [1, 2, 3]), max_array_items=None) == [1, 2, 3]
    cut = to_jsonable(b"x" * 70_000, notes=notes)
    assert cut.endswith("… 4464 more bytes")
    assert base64.b64decode(cut.split("…")[0]) == b"x" * 65_536


def test_numpy_is_read_without_being_imported() -> None:
    """K57: arrays of message libraries."""
    numpy = pytest.importorskip("numpy")
    assert to_jsonable(numpy.float32(0.1)) == 0.1
    assert to_jsonable(numpy.float64(0.1)) == 0.1
    assert to_jsonable(numpy.float64("nan")) is None
    assert to_jsonable(numpy.bool_(True)) is True
    assert to_jsonable(numpy.int64(2**60)) == str(2**60)
    assert to_jsonable(numpy.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
    assert to_jsonable(numpy.array([0.1, numpy.nan], dtype="float32")) == [0.1, None]
    assert (
        to_jsonable(numpy.frombuffer(bytes(range(16)), dtype="uint8"))
        == base64.b64encode(bytes(range(16))).decode()
    )
    assert to_jsonable(numpy.zeros((2, 0))) == [[], []]
    big = to_jsonable(numpy.zeros((100, 100)))
    assert (len(big), len(big[0]), big[-1]) == (41, 100, "… 60 more")
    wide = to_jsonable(numpy.zeros((2, 10_000)))
    assert (len(wide), len(wide[0]), wide[0][-1], wide[-1]) == (2, 4097, "… 5904 more", "… 1 more")


@given(st.text(st.characters()))
def test_text_always_encodes_and_only_surrogates_change(text: str) -> None:
    """K49."""
    clean = clean_text(text)
    clean.encode("utf-8")
    assert len(clean) == len(text)
    assert all(
        a == b or (0xD800 <= ord(a) <= 0xDFFF and b == "\ufffd") for a, b in zip(text, clean, strict=True)
    )
