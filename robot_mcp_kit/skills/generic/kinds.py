"""What a caller may write for one field of a goal: kinds of values, each with its check and JSON Schema.

Conversions only where nothing is lost: ``"1.5"`` is a number, ``3.0`` an integer, ``true`` neither. Every
error names the argument as the caller knows it.
"""

from __future__ import annotations

import abc
import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.geometry import yaw_to_quaternion
from robot_mcp_kit.skills.goal_schema import ROS_TYPE, JsonSchema
from robot_mcp_kit.skills.messages import duration_fields
from robot_mcp_kit.skills.text import clean_text, nearest_first

FLOAT32_MAX = 3.4028234663852886e38
WIDE_RANGES = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
"""What those types hold; JSON Schema says less, because a reader with doubles would lose the rest."""
MAX_DURATION_S = float(2**31 - 1)
BYTE_TYPES = frozenset({"uint8", "byte", "char"})
MAX_LISTED = 40

_JSON_TYPES = {str: "string", int: "integer", float: "number"}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")


class Kind(abc.ABC):
    """One kind of value."""

    @abc.abstractmethod
    def read(self, value: Any, where: str) -> Any:
        """The goal's value for what the caller wrote.

        Raises:
            ArgumentError: names ``where`` and what would be right.
        """

    @abc.abstractmethod
    def schema(self) -> JsonSchema:
        """What a caller may write."""


def kind_word(value: Any) -> str:
    """``text``, ``a number`` … as people call a JSON value."""
    words = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return "nothing (null)" if value is None else words.get(type(value), "an object")


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """``float32``, ``float64``: finite."""

    ros_type: str
    low: float | None = None
    high: float | None = None
    unit: str | None = None

    def read(self, value: Any, where: str) -> float:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentError(where, f"must be a number, not {_got(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ArgumentError(where, "must be a finite number")
        if self.ros_type == "float32" and abs(number) > FLOAT32_MAX:
            raise ArgumentError(where, f"{number:g} is more than a 32-bit float holds")
        check_range(number, self.low, self.high, self.unit, where)
        return number

    def schema(self) -> JsonSchema:
        return {"type": "number", **_ends(self.low, self.high)}


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """``int8`` … ``uint64``, ``byte``. Beyond 2^53 also as decimal text."""

    ros_type: str
    least: int
    most: int
    low: float | None = None
    high: float | None = None
    unit: str | None = None

    def read(self, value: Any, where: str) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentError(where, f"must be a whole number, not {_got(value)}")
        if isinstance(value, float):
            if not value.is_integer():
                raise ArgumentError(where, f"must be a whole number, not {value:g}")
            value = int(value)
        whole: int = value
        check_range(whole, self.low, self.high, self.unit, where)
        least, most = WIDE_RANGES.get(self.ros_type, (self.least, self.most))
        if not least <= whole <= most:
            raise ArgumentError(where, f"{_brief(whole)} is outside {least} .. {most}, all that fits")
        return whole

    def schema(self) -> JsonSchema:
        low = self.least if self.low is None else max(self.least, math.ceil(self.low))
        high = self.most if self.high is None else min(self.most, math.floor(self.high))
        return {"type": "integer", **_ends(low, high)}


@dataclass(frozen=True, slots=True)
class Boolean(Kind):
    """``bool``."""

    def read(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise ArgumentError(where, f"must be true or false, not {_got(value)}")
        return value

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """``string``, ``wstring``."""

    max_length: int | None = None

    def read(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise ArgumentError(where, f"must be text, not {_got(value)}")
        if self.max_length is not None and len(value) > self.max_length:
            raise ArgumentError(where, f"is {len(value)} characters long, at most {self.max_length} fit")
        if "\0" in value:
            # A C string would end there, and the server would act on a part of what was asked.
            raise ArgumentError(where, "must not contain the character NUL")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ArgumentError(where, "is not valid Unicode text (it has a lone surrogate)") from None
        return value

    def schema(self) -> JsonSchema:
        return {"type": "string"} | ({} if self.max_length is None else {"maxLength": self.max_length})


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few values, by the words for them."""

    values: Mapping[str, Any]
    """Words as the caller writes them -> the goal's value."""
    raw: tuple[Any, ...] | None = None
    """The values themselves are the words (``[10, 20]``)."""

    def read(self, value: Any, where: str) -> Any:
        if self.raw is not None:
            for allowed in self.raw:
                if value == allowed and isinstance(value, bool) == isinstance(allowed, bool):
                    return allowed
        if isinstance(value, str):
            folded = {word.casefold(): word for word in self.values}
            word = value if value in self.values else folded.get(value.strip().casefold())
            if word is not None:
                return self.values[word]
        words = list(self.values)
        allowed_words = nearest_first(value, words) if isinstance(value, str) else words
        shown = ", ".join(allowed_words[:MAX_LISTED])
        raise ArgumentError(where, f"{_brief(value)} is none of {shown}", allowed=allowed_words[:MAX_LISTED])

    def schema(self) -> JsonSchema:
        words = list(self.values if self.raw is None else self.raw)
        kinds = {_JSON_TYPES.get(type(word)) for word in words}
        return {"enum": words} | ({"type": kinds.pop()} if len(kinds) == 1 else {})


@dataclass(frozen=True, slots=True)
class Seconds(Kind):
    """A ``builtin_interfaces/msg/Duration`` as one number."""

    low: float | None = None
    high: float | None = None

    def read(self, value: Any, where: str) -> dict[str, int]:
        number = Number("float64", self.low, self.high, "s").read(value, where)
        if not -MAX_DURATION_S <= number <= MAX_DURATION_S:
            raise ArgumentError(where, f"{number:g} s is longer than a Duration holds")
        return duration_fields(number)

    def schema(self) -> JsonSchema:
        return {"type": "number", **_ends(self.low, self.high)}


@dataclass(frozen=True, slots=True)
class Yaw(Kind):
    """A ``geometry_msgs/msg/Quaternion`` as one angle about +z, radians."""

    low: float | None = None
    high: float | None = None

    def read(self, value: Any, where: str) -> dict[str, float]:
        number = Number("float64", self.low, self.high, "rad").read(value, where)
        if abs(number) > math.tau:
            raise ArgumentError(
                where,
                f"{number:g} is more than a full turn; the angle is in radians (are these degrees? "
                f"{number:g} degrees are {math.radians(number):.4f} rad)",
            )
        q = yaw_to_quaternion(number)
        return {"x": q.x, "y": q.y, "z": q.z, "w": q.w}

    def schema(self) -> JsonSchema:
        low = -math.tau if self.low is None else self.low
        return {"type": "number", **_ends(low, math.tau if self.high is None else self.high)}


@dataclass(frozen=True, slots=True)
class ListOf(Kind):
    """Arrays and sequences. A list of bytes may also be base64 text."""

    item: Kind
    ros_type: str
    min_items: int | None = None
    max_items: int | None = None

    def read(self, value: Any, where: str) -> list[Any]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = _parsed(value, list)
        if isinstance(value, str) and self.ros_type.removesuffix("[]") in BYTE_TYPES:
            value = _decoded(value, where)
        if not isinstance(value, list | tuple):
            raise ArgumentError(where, f"must be a list, not {_got(value)}")
        count = len(value)
        if self.min_items == self.max_items and self.min_items is not None and count != self.min_items:
            raise ArgumentError(where, f"must have exactly {self.min_items} entries, not {count}")
        if self.min_items is not None and count < self.min_items:
            raise ArgumentError(where, f"must have at least {self.min_items} entries, not {count}")
        if self.max_items is not None and count > self.max_items:
            raise ArgumentError(where, f"must have at most {self.max_items} entries, not {count}")
        return [self.item.read(one, f"{where}[{index}]") for index, one in enumerate(value)]

    def schema(self) -> JsonSchema:
        ends = {"minItems": self.min_items, "maxItems": self.max_items}
        present = {key: end for key, end in ends.items() if end is not None}
        return {"type": "array", "items": self.item.schema(), **present}


def object_of(value: Any, where: str) -> Mapping[str, Any]:
    """A JSON object, also written as text by clients that send nested arguments so."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parsed(value, dict)
    if not isinstance(value, Mapping):
        raise ArgumentError(where, f"must be an object with named fields, not {_got(value)}")
    return value


def check_range(value: float, low: float | None, high: float | None, unit: str | None, where: str) -> None:
    """Both ends are allowed."""
    named = f" {unit}" if unit else ""
    if low is not None and value < low:
        raise ArgumentError(where, f"{value:g}{named} is below {low:g}{named}, the least allowed here")
    if high is not None and value > high:
        raise ArgumentError(where, f"{value:g}{named} is above {high:g}{named}, the most allowed here")


def plain_kind(schema: JsonSchema) -> Kind | None:
    """The kind of a scalar field as its type has it, without further limits; ``None`` for lists and
    messages.
    """
    ros_type = str(schema[ROS_TYPE])
    match schema["type"]:
        case "number":
            return Number(ros_type)
        case "integer":
            return Integer(ros_type, schema["minimum"], schema["maximum"])
        case "boolean":
            return Boolean()
        case "string":
            return Text(schema.get("maxLength"))
    return None


def _ends(low: float | None, high: float | None) -> JsonSchema:
    return {key: end for key, end in (("minimum", low), ("maximum", high)) if end is not None}


def _parsed(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, kind) else text


def _decoded(text: str, where: str) -> list[int]:
    try:
        return list(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise ArgumentError(where, "must be a list of numbers 0 .. 255, or base64 text") from None


def _got(value: Any) -> str:
    word = kind_word(value)
    return f"{word} ({_brief(value)})" if isinstance(value, str) else word


def _brief(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number that long"
    return clean_text(json.dumps(value, ensure_ascii=False, default=str), 60)
