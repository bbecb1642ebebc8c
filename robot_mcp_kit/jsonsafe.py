"""One converter to strict JSON values, for everything that leaves the process.

What comes out survives any JSON parser: no NaN, no integer that a double cannot hold, no lone surrogate, no
object. Arrays of message libraries (``array.array``, numpy without importing it) are read by what they can
do.
"""

from __future__ import annotations

import array
import base64
import dataclasses
import enum
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that a JSON reader with doubles keeps exactly; larger ones leave as text."""
MAX_ARRAY_ITEMS = 4096
"""Default cap on numeric arrays (``array.array``, numpy); plain lists are not capped by default."""
MAX_BYTES = 65_536
"""Default cap on the bytes of one binary value before base64."""
MAX_DEPTH = 64
MAX_REPR = 1000

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_jsonable(
    value: Any,
    *,
    notes: list[str] | None = None,
    max_array_items: int | None = MAX_ARRAY_ITEMS,
    max_list_items: int | None = None,
    max_bytes: int | None = MAX_BYTES,
) -> Any:
    """Convert ``value`` to None, bool, int, float, str, list and dict, as a copy that shares nothing with it.

    NaN and infinities become ``None`` (K48); integers beyond 2^53-1 become text; bytes and ``uint8`` arrays
    become base64; numeric arrays become lists; lone surrogates become U+FFFD; keys become text; pydantic
    models, dataclasses, enums, dates, UUIDs and paths become what they stand for. Sets, cycles and all other
    objects become their string form (K47). Never raises on contents.

    Args:
        value: anything.
        notes: collects one line for each value that was replaced or cut, with its path (``$.map.data``).
        max_array_items: longest numeric array; the rest becomes one text element ``… 12 more``. ``None``: no
            cap.
        max_list_items: the same for plain lists and tuples. ``None`` (default): no cap.
        max_bytes: longest binary value in bytes; the rest becomes a suffix ``… 12 more bytes``.
    """
    # The common shape first: most values are already plain and small.
    kind = type(value)
    if kind is bool or value is None:
        return value
    return _Converter(notes, max_array_items, max_list_items, max_bytes).convert(value, "$", 0)


def dumps(value: Any) -> str:
    """Strict, compact JSON text of ``value`` after :func:`to_jsonable`; non-ASCII stays as it is."""
    return json.dumps(to_jsonable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def copy_json(value: Any) -> Any:
    """A deep copy of a value that :func:`to_jsonable` made; several times faster than ``copy.deepcopy``."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value


def clean_text(text: str) -> str:
    """``text`` as a plain ``str`` that encodes to UTF-8: lone surrogates become U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text if type(text) is str else str.__str__(text)


def _shortest(value: Any) -> Any:
    """float32 values as the shortest decimal that is still that float32: 0.1, not 0.10000000149011612."""
    if isinstance(value, list):
        return [_shortest(item) for item in value]
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.unpack("f", struct.pack("f", short))[0] == value:
                return short
        except OverflowError:  # rounded up beyond the largest float32
            continue
    return value


def shortest_float32(value: float) -> float:
    """A value that was a float32, as the shortest decimal that is still that float32: 0.1, not
    0.10000000149011612.
    """
    return float(_shortest(value))


class _Converter:
    def __init__(
        self,
        notes: list[str] | None,
        max_array_items: int | None,
        max_list_items: int | None,
        max_bytes: int | None,
    ) -> None:
        self._notes = notes
        self._max_array_items = max_array_items
        self._max_list_items = max_list_items
        self._max_bytes = max_bytes
        self._open: set[int] = set()

    def convert(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return clean_text(value)
        if kind is float:
            return value if math.isfinite(value) else None
        if kind is bool or value is None:
            return value
        if kind is int:
            return self._integer(value)
        if kind is dict or kind is list:
            return self._nested(value, path, depth)
        try:
            return self._other(value, path, depth)
        except Exception as exc:  # an object's own property or iterator may raise anything
            return self._opaque(value, path, f"could not be read ({type(exc).__name__})")

    @staticmethod
    def _integer(value: int) -> int | str:
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return int(value)
        # Python refuses to print integers of thousands of digits in decimal, not in hexadecimal.
        return str(int(value)) if value.bit_length() < 10_000 else hex(value)

    def _nested(self, value: Any, path: str, depth: int) -> Any:
        if id(value) in self._open:
            return self._opaque(
                value, path, "contains itself", text=f"<{type(value).__name__} that contains itself>"
            )
        if depth >= MAX_DEPTH:
            return self._opaque(value, path, f"is nested deeper than {MAX_DEPTH}")
        self._open.add(id(value))
        try:
            if isinstance(value, Mapping):
                return self._mapping(value, path, depth)
            return self._items(value, path, depth, self._max_list_items)
        finally:
            self._open.discard(id(value))

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            name = clean_text(key) if isinstance(key, str) else self._key(key)
            unique = name
            count = 2
            while unique in out:  # {1: …, "1": …}: both are kept
                unique = f"{name}~{count}"
                count += 1
            if unique != name:
                self._note(path, f"two keys read {name!r}; the second is now {unique!r}")
            out[unique] = self.convert(item, f"{path}.{unique}", depth + 1)
        return out

    @staticmethod
    def _key(key: Any) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        try:
            return clean_text(str(key))
        except Exception:
            return f"<{type(key).__name__}>"

    def _items(self, value: Sequence[Any], path: str, depth: int, cap: int | None) -> list[Any]:
        total = len(value)
        kept = value if cap is None or total <= cap else value[:cap]
        out = [self.convert(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(kept)]
        if len(out) < total:
            self._note(path, f"cut to {len(out)} of {total} items")
            out.append(f"… {total - len(out)} more")
        return out

    def _other(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return self.convert(value.value, path, depth)
        if isinstance(value, str):
            return clean_text(value)
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):  # also numpy.float64
            return float(value) if math.isfinite(value) else None
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._binary(bytes(value), path)
        if isinstance(value, array.array):
            if value.typecode == "B":
                return self._binary(value.tobytes(), path)
            plain = _shortest(value.tolist()) if value.typecode == "f" else value
            return self._items(plain, path, depth, self._max_array_items)
        if hasattr(value, "dtype") and hasattr(value, "tolist"):
            return self._numpy(value, path, depth)
        if isinstance(value, BaseModel):
            return self._guarded(value, dict(value), path, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._guarded(value, fields, path, depth)
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, (UUID, PurePath, Decimal)):
            return clean_text(str(value))
        if isinstance(value, (Mapping, list, tuple)) or (
            isinstance(value, Sequence) and not isinstance(value, range) and hasattr(value, "__len__")
        ):
            return self._nested(
                value if isinstance(value, (Mapping, list, tuple)) else list(value), path, depth
            )
        return self._opaque(value, path, f"{type(value).__name__} is not JSON")

    def _guarded(self, owner: Any, fields: dict[str, Any], path: str, depth: int) -> Any:
        """Convert ``fields`` of ``owner`` while remembering ``owner``, so that a cycle through it is seen."""
        if id(owner) in self._open:
            return self._opaque(
                owner, path, "contains itself", text=f"<{type(owner).__name__} that contains itself>"
            )
        self._open.add(id(owner))
        try:
            return self._nested(fields, path, depth)
        finally:
            self._open.discard(id(owner))

    def _numpy(self, value: Any, path: str, depth: int) -> Any:
        shape = getattr(value, "shape", ())
        single = str(value.dtype) in {"float32", "float16"}
        if not shape:
            return self.convert(_shortest(value.tolist()) if single else value.tolist(), path, depth)
        if str(value.dtype) == "uint8" and len(shape) == 1:
            return self._binary(value.tobytes(), path)
        cap = self._max_array_items
        total = int(shape[0])
        row_size = math.prod(shape[1:])
        rows = total if cap is None or total * row_size <= cap else max(1, cap // max(1, row_size))
        if rows == total and row_size * total <= (cap or math.inf):
            plain = value.tolist()
            return self._nested(_shortest(plain) if single else plain, path, depth)
        # Rows that are themselves too long are cut in turn.
        out = [self.convert(row, f"{path}[{index}]", depth + 1) for index, row in enumerate(value[:rows])]
        if total > rows:
            self._note(path, f"cut to {rows} of {total} items")
            out.append(f"… {total - rows} more")
        return out

    def _binary(self, data: bytes, path: str) -> str:
        cap = self._max_bytes
        if cap is None or len(data) <= cap:
            return base64.b64encode(data).decode("ascii")
        self._note(path, f"cut to {cap} of {len(data)} bytes")
        return base64.b64encode(data[:cap]).decode("ascii") + f"… {len(data) - cap} more bytes"

    def _opaque(self, value: Any, path: str, why: str, *, text: str | None = None) -> str:
        self._note(path, f"{why}; replaced by its string form")
        if text is None:
            try:
                text = repr(value) if isinstance(value, (set, frozenset)) else str(value)
            except Exception:
                text = f"<{type(value).__name__}>"
        text = clean_text(text)
        return text if len(text) <= MAX_REPR else text[:MAX_REPR] + "…"

    def _note(self, path: str, text: str) -> None:
        if self._notes is not None:
            self._notes.append(f"{path}: {text}")
