"""Checks a tool's arguments against what its server declares, as far as that can be expressed here.

What cannot be (a foreign dialect, a reference to elsewhere, a pattern that is no Python one) accepts
anything instead of refusing everything, is said once, and never makes a required argument optional (A39).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry

MAX_DEPTH = 40
MAX_NODES = 5_000
_SINGLE = (
    *("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else"),
    *("additionalItems", "unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPPINGS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
# A repeated group that itself repeats can take for ever on a hostile text.
_SLOW_PATTERN = re.compile(r"\([^)]*[*+}][^)]*\)[*+{]|\\[1-9]")


class ArgumentChecker:
    """Checks arguments.

    Args:
        schema: the tool's input schema, as the server gave it.

    Attributes:
        dropped: JSON paths of the parts that accept anything.
    """

    def __init__(self, schema: Any) -> None:
        narrowing = _Narrowing(schema)
        self.schema: dict[str, Any] = narrowing.schema
        self.dropped: list[str] = narrowing.dropped
        self._validator = narrowing.validator

    @property
    def properties(self) -> set[str]:
        """Names of the declared arguments."""
        properties = self.schema.get("properties")
        return set(properties) if isinstance(properties, dict) else set()

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong, each with the place; at most ten, without quoting values."""
        found: list[str] = []
        try:
            for error in self._validator.iter_errors(dict(arguments)):
                where = error.json_path.removeprefix("$.").removeprefix("$") or "arguments"
                found.append(f"{where}: {_words(error)}")
                if len(found) == 10:
                    break
        except RecursionError:
            return found  # a schema that goes round in circles: what it would have said is not known
        return found


def _words(error: Any) -> str:
    keyword, wanted = error.validator, error.validator_value
    if keyword == "required":
        missing = [name for name in wanted if name not in error.instance]
        return f"missing: {', '.join(missing)}"
    if keyword == "additionalProperties":
        known = error.schema.get("properties", {})
        extra = [str(name)[:60] for name in error.instance if name not in known]
        return f"unknown: {', '.join(extra)}; there are {', '.join(known)}"
    if keyword in ("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return f"{keyword} must be {str(wanted)[:120]}"
    return f"does not fit {keyword}"


def _dialect(schema: Any) -> Any:
    """The validator class of the schema's dialect; None for one not known here."""
    if not isinstance(schema, dict):
        return None
    if "$schema" not in schema:
        return jsonschema.Draft202012Validator
    if not isinstance(schema["$schema"], str):
        return None
    try:
        return validator_for(schema, default=None)
    except ValueError:  # no address at all
        return None


class _Narrowing:
    def __init__(self, schema: Any) -> None:
        self.dropped: list[str] = []
        self._root = schema if isinstance(schema, dict) else {}
        self._nodes = 0
        dialect = _dialect(schema)
        if dialect is None:
            self._give_up(self._root)
            dialect = jsonschema.Draft202012Validator
        else:
            narrowed = self._narrow(self._root, "$", 0)
            self.schema = narrowed if isinstance(narrowed, dict) else {}
            self._keep_required(self._root)
            try:
                dialect.check_schema(self.schema)
            except Exception:
                self._give_up(self._root)
        self.validator = dialect(self.schema, registry=Registry())

    def _give_up(self, schema: dict[str, Any]) -> None:
        self.dropped = ["$"]
        self.schema = {"type": "object"}
        self._keep_required(schema)

    def _keep_required(self, schema: dict[str, Any]) -> None:
        required = schema.get("required")
        if isinstance(required, list) and all(isinstance(name, str) for name in required):
            self.schema["required"] = required

    def _narrow(self, schema: Any, path: str, depth: int) -> Any:
        """The schema, or one that accepts anything, its place noted."""
        if isinstance(schema, bool):
            return schema
        self._nodes += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return self._anything(path)
        if not self._expressible(schema):
            return self._anything(path)
        narrowed = dict(schema)
        for key in _SINGLE:
            if key in schema and not isinstance(schema[key], list):
                narrowed[key] = self._narrow(schema[key], f"{path}.{key}", depth + 1)
        for key in (*_LISTS, "items"):
            if isinstance(schema.get(key), list):
                narrowed[key] = [
                    self._narrow(one, f"{path}.{key}[{index}]", depth + 1)
                    for index, one in enumerate(schema[key])
                ]
        for key in _MAPPINGS:
            if isinstance(schema.get(key), dict):
                narrowed[key] = {
                    name: self._narrow(one, f"{path}.{key}.{name}", depth + 1)
                    for name, one in schema[key].items()
                }
        return narrowed

    def _expressible(self, schema: dict[str, Any]) -> bool:
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if key in schema and not self._resolves(schema[key]):
                return False
        if "$id" in schema and schema is not self._root:
            return False
        patterns = [schema["pattern"]] if "pattern" in schema else []
        if isinstance(schema.get("patternProperties"), dict):
            patterns += list(schema["patternProperties"])
        return all(_usable_pattern(pattern) for pattern in patterns)

    def _resolves(self, reference: Any) -> bool:
        """Only within this schema; nothing is ever fetched."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return False
        if reference == "#":
            return True
        if not reference.startswith("#/"):
            return False
        at: Any = self._root
        for part in reference[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(at, dict) or part not in at:
                return False
            at = at[part]
        # A chain of references that never arrives anywhere would be followed for ever.
        return not (isinstance(at, dict) and "$ref" in at)

    def _anything(self, path: str) -> dict[str, Any]:
        self.dropped.append(path)
        return {}


def _usable_pattern(pattern: Any) -> bool:
    if not isinstance(pattern, str) or len(pattern) > 1000 or _SLOW_PATTERN.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
