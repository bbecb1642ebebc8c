"""Fields by name to messages and back, with the path of the field in every error.

rclpy's generated setters do not check types unless asked to by the environment, so a wrong value would
surface as a C conversion error in the middle of a send. Everything is checked here, before anything leaves.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import rosidl_parser.definition as idl

from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.jsonsafe import MAX_ARRAY_ITEMS, MAX_BYTES
from robot_mcp_kit.ros.interface_types import INTEGER_RANGES, load_interface
from robot_mcp_kit.ros.schema import message_schema
from robot_mcp_kit.skills.message_json import MessageConverter

_FLOATS = ("float", "double", "long double")
_FLOAT32_MAX = 3.4028234663852886e38
_ROUNDS_TO_FLOAT32_MAX = 3.4028235677973366e38
"""Below this: what the largest float32 is in short, 3.4028235e+38, is a little more than it."""
_BYTE_TYPES = ("uint8", "octet", "char")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")


def build_message(cls: Any, fields: Mapping[str, Any], path: str = "") -> Any:
    """Build a message of class ``cls`` from nested fields; what is not named keeps the message's default.

    Numbers must be finite; integers and booleans are not converted into each other. Byte arrays may be given
    as base64 text and 64-bit integers as decimal text, as :func:`message_to_dict` gives them.

    Raises:
        GoalFieldError: unknown field, wrong kind of value, out of the type's range, wrong length. ``path`` is
            dotted, with indices: ``poses[2].pose.orientation.w``.
    """
    if not isinstance(fields, Mapping):
        raise GoalFieldError(path or cls.__name__, f"must be an object with fields, not {_kind(fields)}")
    message = cls()
    types = dict(zip(cls.get_fields_and_field_types(), cls.SLOT_TYPES, strict=True))
    for name, value in fields.items():
        where = f"{path}.{name}" if path else str(name)
        if name not in types:
            near = difflib.get_close_matches(str(name), types, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; it has: {', '.join(types)}"
            raise GoalFieldError(where, f"{cls.__name__} has no such field{hint}")
        setattr(message, name, _value(types[name], value, where))
    return message


def _value(slot: Any, value: Any, path: str) -> Any:
    if isinstance(slot, idl.BasicType):
        return _number(slot.typename, value, path)
    if isinstance(slot, idl.AbstractGenericString):
        if not isinstance(value, str):
            raise GoalFieldError(path, f"must be text, not {_kind(value)}")
        if slot.has_maximum_size() and len(value) > slot.maximum_size:
            raise GoalFieldError(path, f"is {len(value)} characters long, at most {slot.maximum_size} fit")
        return value
    if isinstance(slot, idl.NamespacedType):
        return build_message(load_interface("/".join((*slot.namespaces, slot.name))), value, path)
    if isinstance(slot, (idl.Array, idl.AbstractSequence)):
        return _sequence(slot, value, path)
    raise GoalFieldError(path, f"fields of type {slot} cannot be set")


def _sequence(slot: Any, value: Any, path: str) -> list[Any]:
    if isinstance(value, str) and getattr(slot.value_type, "typename", "") in _BYTE_TYPES:
        value = _decoded(value, path)
    if isinstance(value, (bytes, bytearray)):
        value = list(value)
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise GoalFieldError(path, f"must be a list, not {_kind(value)}")
    if isinstance(slot, idl.Array) and len(value) != slot.size:
        raise GoalFieldError(path, f"must have exactly {slot.size} entries, not {len(value)}")
    if isinstance(slot, idl.AbstractSequence) and slot.has_maximum_size() and len(value) > slot.maximum_size:
        raise GoalFieldError(path, f"has {len(value)} entries, at most {slot.maximum_size} fit")
    return [_value(slot.value_type, item, f"{path}[{i}]") for i, item in enumerate(value)]


def _decoded(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise GoalFieldError(
            path, f"must be a list of numbers 0..255, or base64 text; this text is not ({error})"
        ) from error


def _number(typename: str, value: Any, path: str) -> Any:
    if typename == "boolean":
        if not isinstance(value, bool):
            raise GoalFieldError(path, f"must be true or false, not {_kind(value)}")
        return value
    if typename in ("int64", "uint64") and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GoalFieldError(path, f"must be a number, not {_kind(value)}")
    if typename in _FLOATS:
        number = float(value)
        if not math.isfinite(number):
            raise GoalFieldError(path, "must be a finite number")
        if typename == "float" and abs(number) > _FLOAT32_MAX:
            if abs(number) >= _ROUNDS_TO_FLOAT32_MAX:
                raise GoalFieldError(path, f"{number} does not fit a 32-bit float")
            return math.copysign(_FLOAT32_MAX, number)
        return number
    if isinstance(value, float):
        if not value.is_integer():
            raise GoalFieldError(path, f"must be a whole number, not {value}")
        value = int(value)
    low, high = INTEGER_RANGES[typename]
    if not low <= value <= high:
        raise GoalFieldError(path, f"{value} is outside {low}..{high}")
    if typename == "octet":  # rclpy holds a `byte` as a bytes object of length one
        return bytes([value])
    return value


def _kind(value: Any) -> str:
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return "nothing (null)" if value is None else names.get(type(value), type(value).__name__)


def message_to_dict(message: Any) -> dict[str, Any]:
    """A message as strict JSON data: field names as keys, long arrays capped, NaN as null, byte arrays as
    base64, integers beyond 2^53 as text.
    """
    if not hasattr(message, "get_fields_and_field_types"):
        raise TypeError(f"{type(message).__name__} is not a message")
    cls: Any = type(message)
    return _converter(cls).convert(message)


@functools.cache
def _converter(cls: Any) -> MessageConverter:
    return MessageConverter(message_schema(cls), max_items=MAX_ARRAY_ITEMS, max_bytes=MAX_BYTES)
