"""Any ROS message as strict JSON data, read by attribute along its schema. Pure.

Numbers stay what they are to a reader: float32 without its noise, ``byte`` as a number, byte arrays as
base64, integers that a double cannot hold as text, NaN and infinity as ``null``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from robot_mcp_kit.jsonsafe import clean_text, shortest_float32, to_jsonable
from robot_mcp_kit.skills.goal_schema import ROS_TYPE, JsonSchema

_MISSING = object()
_BYTES = ("byte[]",)


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
        self._schema = schema
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._max_chars = max_chars
        self._readers: dict[str, Callable[[Any, JsonSchema], Any]] = {
            "object": self._object,
            "array": self._array,
            "number": _number,
            "integer": _integer,
            "string": self._text,
        }

    def convert(self, message: Any) -> dict[str, Any]:
        """The message's fields by name. Never raises on odd contents."""
        return self._object(message, self._schema)

    def _value(self, value: Any, schema: JsonSchema) -> Any:
        reader = self._readers.get(schema["type"])
        return to_jsonable(value) if reader is None else reader(value, schema)

    def _object(self, message: Any, schema: JsonSchema) -> dict[str, Any]:
        out = {}
        for name, part in schema["properties"].items():
            value = getattr(message, name, _MISSING)
            if value is not _MISSING:
                out[name] = self._value(value, part)
        return out

    def _array(self, value: Any, schema: JsonSchema) -> Any:
        items = schema["items"]
        if schema[ROS_TYPE] in _BYTES and isinstance(value, list | tuple):
            # rclpy holds a `byte[]` as a list of bytes objects of length one.
            value = b"".join(part if isinstance(part, bytes) else bytes([part & 0xFF]) for part in value)
        if items["type"] not in ("object", "array", "string") or not isinstance(value, list | tuple):
            return to_jsonable(
                value,
                max_array_items=self._max_items,
                max_list_items=self._max_items,
                max_bytes=self._max_bytes,
            )
        kept = value if self._max_items is None else value[: self._max_items]
        out = [self._value(item, items) for item in kept]
        if len(kept) < len(value):
            out.append(f"… {len(value) - len(kept)} more")
        return out

    def _text(self, value: Any, schema: JsonSchema) -> Any:  # noqa: ARG002 - one signature for all kinds
        if not isinstance(value, str):
            return to_jsonable(value)
        text = clean_text(value)
        if self._max_chars is None or len(text) <= self._max_chars:
            return text
        return f"{text[: self._max_chars]}… {len(text) - self._max_chars} more characters"


def _number(value: Any, schema: JsonSchema) -> Any:
    if isinstance(value, float) and schema[ROS_TYPE] == "float32" and math.isfinite(value):
        return shortest_float32(value)
    return to_jsonable(value)


def _integer(value: Any, schema: JsonSchema) -> Any:  # noqa: ARG001 - one signature for all kinds
    if isinstance(value, bytes) and len(value) == 1:
        return value[0]
    return to_jsonable(value)
