"""Whether an answer's words and its data say the same, fact for fact, and the data fit the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

from robot_mcp_kit.jsonsafe import dumps

_NUMBER = re.compile(r"(?<![\w.#-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w-])")
_IN_WORDS = ("message", "note")
"""Facts that are sentences: they stand in the text as they are."""


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``final_pose.x_m`` and its value, for every leaf; lists count as one."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from leaves(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def facts(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a tool's own facts."""
    return dict(schema["properties"]["result"]["anyOf"][0])


def check(result: Any, schema: Mapping[str, Any]) -> None:
    """Raises AssertionError or ValidationError where the answer, its text and its schema disagree."""
    data = result.structured_content
    jsonschema.validate(data, dict(schema))
    text = "\n".join(block.text for block in result.content)
    known = json.dumps(data, ensure_ascii=False)
    missing = set(_NUMBER.findall(text)) - set(_NUMBER.findall(known))
    assert not missing, f"the text has numbers that the data has not: {missing}\n{text}\n{known}"
    assert len(text.split()) >= 5, f"a bare status word: {text}"  # L9
    if "error" in data:
        assert data["error"]["message"] in text
        return
    told = data["result"] or {}
    declared = facts(schema)
    unknown = told.keys() - declared["properties"].keys()
    assert not unknown, f"facts that the schema does not name: {unknown}"
    if data["state"] == "succeeded":
        absent = set(declared.get("required", ())) - told.keys()
        assert not absent, f"facts that are declared and not told: {absent}"
    if data["state"] == "failed":
        assert data["failure"]["error_code"] in text
        assert data["failure"]["message"].rstrip(".") in text
    if data["started_now"] and data["state"] == "running":
        return
    world = (data["progress"] or {}).get("world") or {} if data["state"] != "running" else {}
    for name, value in [*leaves(told), *leaves(world)]:
        said = f"{name} {dumps(value)}"
        if name in _IN_WORDS:
            said = str(value).rstrip(".")
        assert said in text, f"the text lacks {said}\n{text}"
