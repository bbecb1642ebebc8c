"""The exact goal as bytes: what is approved, written down and sent has one hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.jsonsafe import to_jsonable


def goal_hash(skill: str, action: str, fields: Mapping[str, Any]) -> str:
    """SHA-256 over skill, action and every field, as canonical JSON. NaN and 1.0 and 1 are three values."""
    text = json.dumps([skill, action, _exact(fields)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _exact(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(inner) for inner in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    return {"other": to_jsonable(value, max_array_items=None, max_bytes=None), "type": type(value).__name__}
