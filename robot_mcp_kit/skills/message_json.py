"""Any ROS message as strict JSON data, read by attribute along its schema. Pure.

Numbers stay what they are to a reader: float32 without its noise, ``byte`` as a number, byte arrays as
base64, integers that a double cannot hold as text, NaN and infinity as ``null``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from robot_mcp_kit.jsonsafe import MAX_SAFE_INTEGER, clean_text, shortest_float32, to_jsonable
from robot_mcp_kit.skills.goal_schema import ROS_TYPE, JsonSchema

_MISSING = object()
_Reader = Callable[[Any], Any]


class MessageConverter:
    """Converts messages of one kind.

    Args:
        schema: what the message looks like. Fields that a message does not have are left out (distributions
            differ by a field), fields that the schema does not know are not read.
        max_items: longest list; the rest becomes one text element ``… 12 more``. ``None``: no cap.
        max_bytes: longest binary value before base64.
        max_chars: longest text; ``None``: no cap.
    """

    def __init__(
        self,
        schema: JsonSchema,
        *,
        max_items: int | None = None,
        max_bytes: int | None = None,
        max_chars: int | None = None,
    ) -> None:
        self._caps: dict[str, Any] = {
            "max_array_items": max_items,
            "max_list_items": max_items,
            "max_bytes": max_bytes,
        }
        self._max_items = max_items
        self._max_chars = max_chars
        self._read = self._object(schema)

    def convert(self, message: Any) -> dict[str, Any]:
        """The message's fields by name. Never raises on odd contents."""
        return dict(self._read(message))

    # Readers are made once: feedback comes a hundred times a second.

    def _reader(self, schema: JsonSchema) -> _Reader:
        match schema["type"]:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "number":
                return _float32 if schema[ROS_TYPE] == "float32" else _float64
            case "integer":
                return _integer
            case "string":
                return self._text
        return _any

    def _object(self, schema: JsonSchema) -> _Reader:
        readers = [(name, self._reader(part)) for name, part in schema["properties"].items()]

        def read(message: Any) -> dict[str, Any]:
            out = {}
            for name, reader in readers:
                value = getattr(message, name, _MISSING)
                if value is not _MISSING:
                    out[name] = reader(value)
            return out

        return read

    def _array(self, schema: JsonSchema) -> _Reader:
        items = schema["items"]
        one_by_one = items["type"] in ("object", "array", "string")
        item, is_bytes, limit = self._reader(items), schema[ROS_TYPE] == "byte[]", self._max_items

        def read(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                return to_jsonable(value, **self._caps)
            if is_bytes:
                # rclpy holds a `byte[]` as a list of bytes objects of length one.
                value = b"".join(part if isinstance(part, bytes) else bytes([part & 0xFF]) for part in value)
            if not one_by_one:
                return to_jsonable(value, **self._caps)
            kept = value if limit is None else value[:limit]
            out = [item(one) for one in kept]
            if len(kept) < len(value):
                out.append(f"… {len(value) - len(kept)} more")
            return out

        return read

    def _text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return to_jsonable(value)
        text = clean_text(value)
        if self._max_chars is None or len(text) <= self._max_chars:
            return text
        return f"{text[: self._max_chars]}… {len(text) - self._max_chars} more characters"


def _any(value: Any) -> Any:
    return to_jsonable(value)


def _float64(value: Any) -> Any:
    return value if type(value) is float and math.isfinite(value) else to_jsonable(value)


def _float32(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return shortest_float32(value)
    return to_jsonable(value)


def _integer(value: Any) -> Any:
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return value
    if isinstance(value, bytes) and len(value) == 1:
        return value[0]
    return to_jsonable(value)
