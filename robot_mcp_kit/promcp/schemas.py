"""JSON Schemas in one piece: references put in place, as tools that read no ``$ref`` need them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 32


class SchemaError(ValueError):
    """A reference that leads nowhere, or in a circle."""


def inline_refs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without ``$ref`` and ``$defs``; what stands beside a reference wins over what it refers to.

    Raises:
        SchemaError: a reference to another document or to nothing, or a schema that contains itself.
    """
    result = _inline(dict(schema), schema, ())
    if not isinstance(result, dict):
        raise SchemaError("the schema refers to something that is no schema")
    return result


def _inline(node: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, root, path) for item in node]
    if not isinstance(node, dict):
        return copy.deepcopy(node)
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return {key: _inline(value, root, path) for key, value in node.items() if key != "$defs"}
    if reference in path or len(path) > MAX_DEPTH:
        raise SchemaError(f"{reference}: the schema contains itself, so it cannot be written in one piece")
    beside = {key: value for key, value in node.items() if key not in ("$ref", "$defs")}
    target = _inline(_find(reference, root), root, (*path, reference))
    if not isinstance(target, dict):
        return target
    return {**target, **_inline(beside, root, path)}


def _find(reference: str, root: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        raise SchemaError(f"{reference}: only references within the schema are followed")
    found: Any = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            raise SchemaError(f"{reference}: there is nothing")
        found = found[key]
    return found


def flat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of tools/list as proMCP's own linter reads it: ``responseSchema``, and no references."""
    flat = {key: value for key, value in tool.items() if key not in ("outputSchema", "responseSchema")}
    response = tool.get("responseSchema") or tool.get("response_schema") or tool.get("outputSchema")
    if isinstance(response, Mapping):
        flat["responseSchema"] = inline_refs(response)
    if isinstance(tool.get("inputSchema"), Mapping):
        flat["inputSchema"] = inline_refs(tool["inputSchema"])
    return flat
