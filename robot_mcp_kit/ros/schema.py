"""From an installed interface to JSON Schema, with the words its author wrote into the definition.

Types, bounds and defaults come from the generated classes; descriptions, units and explicit defaults from
the ``.action`` and ``.msg`` files in ``share/``, where they are installed and rosidl_adapter can read them.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import rosidl_parser.definition as idl

from robot_mcp_kit.jsonsafe import MAX_SAFE_INTEGER
from robot_mcp_kit.ros.interface_types import INTEGER_RANGES, load_interface
from robot_mcp_kit.skills.goal_schema import (
    CONSTANTS,
    DURATION,
    EXPLICIT_DEFAULT,
    ROS_TYPE,
    TIME,
    UNIT,
    GoalSchema,
    JsonSchema,
)
from robot_mcp_kit.skills.text import clean_text

logger = logging.getLogger(__name__)

MAX_DESCRIPTION_CHARS = 400
_NAMES = {
    "boolean": "bool",
    "octet": "byte",
    "float": "float32",
    "double": "float64",
    "long double": "float64",
}
_BOILERPLATE = re.compile(
    r"^(goal|result|feedback|request|response)( definition| constant)?\W*$|^constant$", re.I
)


class RosGoalSchema(GoalSchema):
    """Schemas of the action types that are installed on this machine."""

    def goal(self, action_type: str) -> JsonSchema:
        return _part(action_type, "Goal")

    def feedback(self, action_type: str) -> JsonSchema:
        return _part(action_type, "Feedback")

    def result(self, action_type: str) -> JsonSchema:
        return _part(action_type, "Result")


@functools.cache
def _part(action_type: str, part: str) -> JsonSchema:
    if action_type.split("/")[1:2] != ["action"]:
        raise LookupError(f"'{action_type}' is not an action type; write it as 'nav2_msgs/action/Spin'")
    words = _action_words(action_type).get(part)
    return _class_schema(getattr(load_interface(action_type), part), action_type, words)


def message_schema(cls: Any) -> JsonSchema:
    """The schema of a generated message class (``test_msgs.msg.BasicTypes``; also an action's goal, feedback
    or result). Cached; not to be changed.
    """
    return _message_schema(cls)


@functools.cache
def _message_schema(cls: Any) -> JsonSchema:
    package, kind = cls.__module__.split(".")[:2]
    name = f"{package}/{kind}/{cls.__name__}"
    action, _, part = cls.__name__.rpartition("_")
    if kind == "action" and part in ("Goal", "Result", "Feedback") and "_" not in action:
        return _part(f"{package}/action/{action}", part)
    return _class_schema(cls, name, _message_words(name) if kind == "msg" else None)


def _class_schema(cls: Any, type_name: str, words: Any) -> JsonSchema:
    instance = cls()
    by_name = {} if words is None else {field.name: field for field in words.fields}
    constants = _constants(cls, words)
    properties: dict[str, JsonSchema] = {}
    slots = dict(zip(cls.get_fields_and_field_types(), cls.SLOT_TYPES, strict=True))
    for name, slot in slots.items():
        value = plain_default(getattr(instance, name), slot)
        schema = dict(_slot_schema(slot))
        told = by_name.get(name)
        # Without the definition's text, a default that is not just empty must have been written there.
        explicit = _any_true(value) if told is None else told.default_value is not None
        if not isinstance(slot, idl.NamespacedType):
            if _is_finite(value):  # NaN is no JSON; it stands for "none" then
                schema["default"] = value
            if explicit:
                schema[EXPLICIT_DEFAULT] = True
        _add_words(schema, told)
        properties[name] = schema
    for name, values in _constants_of_fields(constants, properties).items():
        properties[name][CONSTANTS] = values
    if type_name in (DURATION, TIME):
        properties["nanosec"]["maximum"] = 999_999_999
    schema = {"type": "object", ROS_TYPE: type_name, "properties": properties, "additionalProperties": False}
    text = _text(None if words is None else words.annotations.get("comment"))
    return schema | ({"description": text} if text else {})


def _slot_schema(slot: Any) -> JsonSchema:
    if isinstance(slot, idl.BasicType):
        return _basic_schema(str(slot.typename))
    if isinstance(slot, idl.AbstractGenericString):
        wide = "w" if isinstance(slot, idl.AbstractWString) else ""
        bound = {"maxLength": int(slot.maximum_size)} if slot.has_maximum_size() else {}
        return {"type": "string", ROS_TYPE: f"{wide}string", **bound}
    if isinstance(slot, idl.NamespacedType):
        return message_schema(load_interface("/".join((*slot.namespaces, slot.name))))
    items = _slot_schema(slot.value_type)
    schema: JsonSchema = {"type": "array", "items": items, ROS_TYPE: f"{items[ROS_TYPE]}[]"}
    if isinstance(slot, idl.Array):
        schema |= {"minItems": int(slot.size), "maxItems": int(slot.size)}
    elif slot.has_maximum_size():
        schema["maxItems"] = int(slot.maximum_size)
    return schema


def _basic_schema(typename: str) -> JsonSchema:
    name = _NAMES.get(typename, typename)
    if name == "bool":
        return {"type": "boolean", ROS_TYPE: name}
    if name.startswith("float"):
        return {"type": "number", ROS_TYPE: name}
    low, high = INTEGER_RANGES[typename]
    # A JSON reader with doubles loses larger ones; they travel as text.
    low, high = max(low, -MAX_SAFE_INTEGER), min(high, MAX_SAFE_INTEGER)
    return {"type": "integer", "minimum": low, "maximum": high, ROS_TYPE: name}


def plain_default(value: Any, slot: Any = None) -> Any:
    """A default-constructed value as JSON data: numbers, text, lists; ``byte`` as a number."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: plain_default(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, bytes | bytearray):
        return value[0] if len(value) == 1 else list(value)
    if isinstance(slot, idl.BasicType | idl.AbstractGenericString):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain_default(item) for item in value]
    return value


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_finite(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)


def _any_true(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_any_true(item) for item in value.values())
    if isinstance(value, list):
        return any(_any_true(item) for item in value)
    return bool(value)


# -- constants --------------------------------------------------------------------------------------


def _constants(cls: Any, words: Any) -> dict[str, tuple[str | None, Any]]:
    """Name -> (ROS type if known, value)."""
    meta = type(cls)
    found = getattr(meta, f"_{meta.__name__}__constants", {})
    types = {} if words is None else {constant.name: constant.type for constant in words.constants}
    return {
        name: (types.get(name), value[0] if isinstance(value, bytes) else value)
        for name, value in found.items()
    }


def _constants_of_fields(
    constants: Mapping[str, tuple[str | None, Any]], properties: Mapping[str, JsonSchema]
) -> dict[str, dict[str, Any]]:
    """Which constants describe which field. Definitions do not say; names and types do in practice.

    A constant belongs to the field whose name it begins with (``STATE_IDLE``, ``state``); otherwise to the
    only field of its type, or to the one that is plainly a code.
    """
    out: dict[str, dict[str, Any]] = {}
    scalars = {name: schema for name, schema in properties.items() if "properties" not in schema}
    for constant, (ros_type, value) in constants.items():
        fitting = [name for name, schema in scalars.items() if _may_hold(schema, ros_type, value)]
        named = [name for name in fitting if constant.startswith(f"{name.upper()}_")]
        codes = [name for name in fitting if name in ("error_code", "val", "type", "state", "status", "mode")]
        owner = named[:1] or (fitting if len(fitting) == 1 else codes if len(codes) == 1 else [])
        for name in owner:
            out.setdefault(name, {})[constant] = value
    return out


def _may_hold(schema: JsonSchema, ros_type: str | None, value: Any) -> bool:
    if schema["type"] != {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]:
        return False
    return ros_type is None or schema[ROS_TYPE] == {"char": "uint8"}.get(ros_type, ros_type)


# -- words ------------------------------------------------------------------------------------------


def _add_words(schema: JsonSchema, field: Any) -> None:
    annotations = {} if field is None else field.annotations
    text = _text(annotations.get("comment"))
    if text:
        schema["description"] = text
    unit = clean_text(annotations.get("unit", ""), 20)
    if unit and not unit.isdigit():
        schema[UNIT] = unit


def _text(lines: Iterable[str] | None) -> str:
    kept = [line.strip() for line in lines or () if not _BOILERPLATE.match(line.strip())]
    return clean_text(" ".join(line for line in kept if line), MAX_DESCRIPTION_CHARS)


def _action_words(type_name: str) -> dict[str, Any]:
    parsed = _parsed(type_name)
    if parsed is None:
        return {}
    return {"Goal": parsed.goal, "Result": parsed.result, "Feedback": parsed.feedback}


def _message_words(type_name: str) -> Any:
    return _parsed(type_name)


@functools.cache
def _parsed(type_name: str) -> Any:
    """The definition file as rosidl_adapter reads it, or ``None`` where that is not possible."""
    package, kind, name = type_name.split("/")
    path = _definition_file(package, kind, name)
    if path is None:
        return None
    try:
        from rosidl_adapter import parser
    except ImportError:
        logger.info("rosidl_adapter is not installed: descriptions of interfaces are left out")
        return None
    parse = parser.parse_action_string if kind == "action" else parser.parse_message_string
    try:
        return parse(package, name, path.read_text(encoding="utf-8"))
    except Exception as error:  # any definition that a newer or older rosidl wrote
        logger.info("%s: its comments cannot be read (%s)", path, error)
        return None


def _definition_file(package: str, kind: str, name: str) -> Path | None:
    prefixes = [prefix for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    for prefix in (*prefixes, sys.prefix):
        path = Path(prefix) / "share" / package / kind / f"{name}.{kind}"
        if path.is_file():
            return path
    return None
