"""The result of any action as a JSON Schema: what :class:`MessageConverter` makes of its message."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.skills.goal_schema import CONSTANTS, UNIT, JsonSchema
from robot_mcp_kit.skills.results import SkillResult

NO_UNIT = "Unit: the interface names none."


def facts_schema(result: JsonSchema) -> JsonSchema:
    """The schema of a success: the result's own fields under their own names, and what every skill may add.

    Names of fields belong to the interface and seldom carry a unit, so each number's description does.

    Args:
        result: as :class:`~robot_mcp_kit.skills.goal_schema.GoalSchema` tells it.
    """
    common = SkillResult.model_json_schema()
    own = _object(result)
    return {**own, "properties": {**common["properties"], **own["properties"]}}


def _object(schema: JsonSchema) -> JsonSchema:
    fields = {name: _field(each) for name, each in schema.get("properties", {}).items()}
    return {"type": "object", "properties": fields, "additionalProperties": True}


def _field(schema: JsonSchema) -> JsonSchema:
    match schema["type"]:
        case "object":
            told = _object(schema)
        case "array":
            # Bytes are base64 text; a long list ends with a text that says how many more there are.
            told = {"type": ["array", "string"]}
        case "number":
            told = {"type": ["number", "null"]}  # null: NaN or infinite
        case "integer":
            told = {"type": ["integer", "string"]}  # text: more than a double can hold
        case kind:
            told = {"type": kind}
    words = _words(schema)
    return {**told, "description": words} if words else told


def _words(schema: JsonSchema) -> str:
    own = str(schema.get("description", "")).strip()
    parts = [own if own.endswith((".", "!", "?")) else f"{own}."] if own else []
    if schema.get(UNIT):
        parts.append(f"Unit: {schema[UNIT]}.")
    elif schema["type"] == "number" or _items(schema).get("type") == "number":
        parts.append(NO_UNIT)
    if schema.get(CONSTANTS):
        known = ", ".join(f"{name} = {value}" for name, value in schema[CONSTANTS].items())
        parts.append(f"Values: {known}.")
    return " ".join(parts)


def _items(schema: JsonSchema) -> dict[str, Any]:
    return dict(schema.get("items") or {})
