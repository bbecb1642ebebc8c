"""Units and frames in names: no number of a robot's tools may be a length, angle, speed or time without
saying so.

MCP's schemas know numbers, not metres. So the name carries the unit (``x_m``, ``yaw_rad``, ``duration_s``),
and a coordinate also its frame: in the name (``x_m_base``), or in a ``frame`` beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

UNITS = (
    *(
        "m",
        "mm",
        "km",
        "rad",
        "deg",
        "s",
        "ms",
        "min",
        "h",
        "hz",
        "n",
        "nm",
        "mps",
        "mps2",
        "radps",
        "radps2",
    ),
    *("kg", "g", "v", "a", "w", "wh", "c", "k", "percent", "ratio", "count", "index", "bytes"),
)
"""Suffixes that are units (``_m``), alone or before a frame (``x_m_base``)."""
WITHOUT_UNIT = frozenset(
    {
        *("percent", "progress_percent", "confidence", "number_of_loops", "seq", "schema_version", "version"),
        *("code", "status", "error_code", "min", "max", "queue", "depth", "retries", "attempts", "loops"),
        *("limit", "offset", "cursor", "total", "waypoint", "missed", "motions"),
    }
)
"""Numbers that have no unit, or whose unit stands beside them (``min``, ``max`` with ``unit``)."""
_COUNTING = re.compile(r"(^|_)(count|index|number|id|seq|code|ratio|scaling|share|percent|factor|level)(_|$)")
_DIMENSION = re.compile(
    r"(^|_)(x|y|z|yaw|roll|pitch|angle|heading|speed|velocity|distance|length|width|height|depth|radius|time|"
    r"timeout|duration|force|effort|torque|mass|position)(_|$)"
)
_QUATERNION = frozenset("xyzw")
"""Together they are an orientation, which has no unit."""
_COORDINATES = ("x", "y", "z")
_FRAME_WORDS = ("map", "base", "odom", "tool", "world", "body", "camera")
_UNIT_NAME = re.compile(rf"(^|_)({'|'.join(UNITS)})(_({'|'.join(_FRAME_WORDS)})(_[a-z]+)?)?$")


def unit_findings(tool: Mapping[str, Any]) -> list[str]:
    """Sentences about numbers without unit and coordinates without frame, in both schemas of a flat tool
    (:func:`robot_mcp_kit.promcp.schemas.flat_tool`).
    """
    found: list[str] = []
    for key, where in (("inputSchema", "argument"), ("responseSchema", "result")):
        schema = tool.get(key)
        if isinstance(schema, Mapping):
            found += _walk(schema, where, (), framed=_mentions_frame(schema))
    return found


def _walk(schema: Mapping[str, Any], where: str, path: tuple[str, ...], *, framed: bool) -> Iterator[str]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        here = framed or _mentions_frame(schema)
        for name, sub in properties.items():
            if not isinstance(sub, Mapping) or (name in _QUATERNION and properties.keys() >= _QUATERNION):
                continue
            at = (*path, name)
            numeric = _holds_numbers(sub) or _dimensional_integer(name, sub)
            if numeric and not has_unit(name) and "unit" not in properties:
                yield f"The {where} {'.'.join(at)} is a number without a unit in its name."
            elif _is_coordinate(name) and not here and not _frame_in_name(name):
                yield f"The {where} {'.'.join(at)} is a coordinate, and nothing says in which frame."
            yield from _walk(sub, where, at, framed=here)
    for key in ("items", "additionalProperties"):
        sub = schema.get(key)
        if isinstance(sub, Mapping):
            yield from _walk(sub, where, path, framed=framed)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for sub in schema.get(key) or ():
            if isinstance(sub, Mapping):
                yield from _walk(sub, where, path, framed=framed)


def has_unit(name: str) -> bool:
    """Whether a name carries a unit, or is one of a number that has none."""
    folded = name.lower()
    return (
        folded in WITHOUT_UNIT
        or bool(_COUNTING.search(folded))
        or (bool(_UNIT_NAME.search(folded)) and folded not in UNITS)
    )


def _dimensional_integer(name: str, schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "integer" and bool(_DIMENSION.search(name.lower()))


def _holds_numbers(schema: Mapping[str, Any]) -> bool:
    """Whether the value itself is a real number (integers count things), or a list of them."""
    kinds = schema.get("type")
    if kinds == "number" or (isinstance(kinds, list) and "number" in kinds):
        return "enum" not in schema
    if kinds == "array" and isinstance(schema.get("items"), Mapping):
        return _holds_numbers(schema["items"])
    return any(
        _holds_numbers(sub)
        for key in ("anyOf", "oneOf")
        for sub in schema.get(key) or ()
        if isinstance(sub, Mapping)
    )


def _is_coordinate(name: str) -> bool:
    return name.split("_")[0] in _COORDINATES and bool(re.search(r"_m(m)?(_|$)", name))


def _frame_in_name(name: str) -> bool:
    return any(word in _FRAME_WORDS for word in name.split("_")[1:])


def _mentions_frame(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and any(
        name == "frame" or name.endswith("_frame") for name in properties
    )
