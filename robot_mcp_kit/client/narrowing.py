"""Makes a schema that can be checked here out of one that somebody else wrote.

What cannot be expressed is replaced by what accepts anything, never deleted: in a closed object a deleted
property would turn the server's own argument into an unknown one (A39). Nothing is ever fetched.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry

from robot_mcp_kit.client.schema_budget import limited

MAX_DEPTH = 40
MAX_NODES = 5_000
MAX_ROUNDS = 20
MAX_PATTERN_LENGTH = 1_000
MAX_UNBOUNDED_REPEATS = 3
"""Of one pattern: the time that it may take grows with the text's length to this power."""
_SINGLE = (
    *("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else"),
    *("additionalItems", "unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPPINGS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_APPLICATORS = frozenset((*_SINGLE, *_LISTS, *_MAPPINGS))
_LOOSENED = {"not": ("not",), "contains": ("contains",), "oneOf": ("oneOf",), "if": ("if", "then", "else")}
"""Where accepting more inside is accepting less outside -> what then has to go."""
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def dialect_of(schema: Any) -> Any:
    """The validator class of a schema's dialect, 2020-12 where it names none; None for one not known here."""
    if not isinstance(schema, dict):
        return None
    if "$schema" not in schema:
        return jsonschema.Draft202012Validator
    if not isinstance(schema["$schema"], str):
        return None
    try:
        found = validator_for(schema, default=None)
    except ValueError:  # no address at all
        return None
    # Draft 3 puts schemas where the later ones have words.
    return None if found is jsonschema.Draft3Validator else found


class Narrowing:
    """The schema, narrowed.

    Args:
        schema: as the server gave it.

    Attributes:
        schema: what is checked.
        dropped: JSON paths of the parts that accept anything.
        validator: checks instances against ``schema``, within a
            :func:`~robot_mcp_kit.client.schema_budget.budget`.
    """

    def __init__(self, schema: Any) -> None:
        self.dropped: list[str] = []
        self.schema: dict[str, Any] = {}
        self._root = schema if isinstance(schema, dict) else {}
        self._dialect = dialect_of(schema)
        self._nodes = 0
        self._kept: set[str] | None = None
        """References to the places that the last round has kept; ``None``: not known yet."""
        self._walked: set[str] = set()
        if self._dialect is None or not self._narrowed():
            self._give_up()
        dialect = jsonschema.Draft202012Validator if self._dialect is None else self._dialect
        self.validator = limited(dialect)(self.schema, registry=Registry())

    def _narrowed(self) -> bool:
        """Narrow until no reference leads to a place that was narrowed away; whether that came to an end."""
        for _ in range(MAX_ROUNDS):
            self.dropped, self._nodes, self._walked = [], 0, set()
            narrowed = self._narrow(self._root, "$", "#", 0)
            if self._kept == self._walked:
                break
            self._kept = self._walked
        else:
            return False
        self.schema = narrowed if isinstance(narrowed, dict) else {}
        for key in ("$id", "id"):  # all references are local; another base would lead them astray
            self.schema.pop(key, None)
        self._keep_required()
        try:
            self._dialect.check_schema(self.schema)
        except Exception:  # whatever a stranger's schema makes of it
            return False
        return True

    def _give_up(self) -> None:
        self.dropped = ["$"]
        self.schema = {"type": "object"}
        self._keep_required()

    def _keep_required(self) -> None:
        required = self._root.get("required")
        if isinstance(required, list) and all(isinstance(name, str) for name in required):
            self.schema["required"] = required

    def _narrow(self, schema: Any, path: str, pointer: str, depth: int) -> Any:
        """The schema, or one that accepts anything, its place noted."""
        if isinstance(schema, bool):
            return schema
        self._nodes += 1
        if (
            not isinstance(schema, dict)
            or depth > MAX_DEPTH
            or self._nodes > MAX_NODES
            or not self._expressible(schema)
        ):
            self.dropped.append(path)
            return {}
        self._walked.add(pointer)
        narrowed = {key: value for key, value in schema.items() if key != "$schema"}
        loose: set[str] = set()  # keywords in which something was replaced
        for key, name, inner in _inner(schema):
            before = len(self.dropped)
            where = f"{path}.{key}" if name is None else f"{path}.{key}{_step(name)}"
            at = f"{pointer}/{_escaped(key)}" + ("" if name is None else f"/{_escaped(str(name))}")
            replaced = self._narrow(inner, where, at, depth + 1)
            if len(self.dropped) > before:
                loose.add(key)
            if name is None:
                narrowed[key] = replaced
                continue
            if narrowed[key] is schema[key]:
                narrowed[key] = schema[key].copy()
            narrowed[key][name] = replaced
        self._loosen(narrowed, loose, pointer)
        return narrowed

    def _loosen(self, narrowed: dict[str, Any], loose: set[str], pointer: str) -> None:
        """Take out what would refuse more than the server's own schema, now that parts accept anything."""
        gone = {name for key in loose for name in _LOOSENED.get(key, ())}
        if loose:  # what the replaced parts would have evaluated is not known
            gone.update(_UNEVALUATED)
        for name in gone & narrowed.keys():
            del narrowed[name]
            inside = f"{pointer}/{name}"
            self._walked = {one for one in self._walked if one != inside and not one.startswith(f"{inside}/")}

    def _expressible(self, schema: dict[str, Any]) -> bool:
        for key in _REFERENCES:
            if key in schema and not self._resolves(schema[key]):
                return False
        if schema is not self._root:
            if "$schema" in schema and dialect_of(schema) is not self._dialect:
                return False
            if "$id" in schema or ("id" in schema and self._dialect is jsonschema.Draft4Validator):
                return False
        if any(unsendable({key: schema[key] for key in schema if key not in _APPLICATORS})):
            return False
        patterns = [schema["pattern"]] if "pattern" in schema else []
        if isinstance(schema.get("patternProperties"), dict):
            patterns += list(schema["patternProperties"])
        return all(usable_pattern(pattern) for pattern in patterns)

    def _resolves(self, reference: Any) -> bool:
        """Only to a schema within this one that was looked at and kept."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return False
        if self._kept is not None and reference not in self._kept:
            return False
        at: Any = self._root
        for part in reference[2:].split("/") if reference != "#" else ():
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(at, dict) or part not in at:
                return False
            at = at[part]
        # A chain of references that never arrives anywhere would be followed for ever.
        return reference == "#" or not (isinstance(at, dict) and any(key in at for key in _REFERENCES))


def _inner(schema: dict[str, Any]) -> Iterator[tuple[str, str | int | None, Any]]:
    """Keyword, name or index within it, schema: of all schemas directly inside of one."""
    for key in _SINGLE:
        if key in schema and not isinstance(schema[key], list):
            yield key, None, schema[key]
    for key in (*_LISTS, "items"):
        if isinstance(schema.get(key), list):
            for index, one in enumerate(schema[key]):
                yield key, index, one
    for key in _MAPPINGS:
        if isinstance(schema.get(key), dict):
            for name, one in schema[key].items():
                if not (key == "dependencies" and isinstance(one, list)):  # a list there holds names
                    yield key, name, one


def unsendable(value: Any, where: str = "", nested: int = 0) -> Iterator[str]:
    """Places of what JSON cannot carry, or no check can follow, each with words about it."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield f"{where}: no number that JSON can carry"
    elif isinstance(value, int):
        if abs(value) > sys.float_info.max:
            yield f"{where}: no number that JSON can carry"
    elif isinstance(value, Mapping | list | tuple):
        if nested > MAX_DEPTH:
            yield f"{where[:60]}: nested too deeply"
        elif isinstance(value, Mapping):
            for name, inner in value.items():
                yield from unsendable(inner, f"{where}.{name}" if where else str(name), nested + 1)
        else:
            for index, inner in enumerate(value):
                yield from unsendable(inner, f"{where}[{index}]", nested + 1)


def _step(name: str | int) -> str:
    return f"[{name}]" if isinstance(name, int) else f".{name}"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def usable_pattern(pattern: Any) -> bool:
    """Whether a pattern is one of Python's and cannot take for ever on a hostile text."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_LENGTH or not _quick(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|\)|\||[*+]|\{\d+(?:,\d*)?\}|\{,\d+\}|.", re.DOTALL)


def _quick(pattern: str) -> bool:
    """No repeated group that repeats or chooses inside, no reference back, few repeats without a bound."""
    unbounded = 0
    before = ""
    chooses = [False]  # for each open group: whether it can match in more than one way
    closed = False  # the last part was a group's end, and that group can
    for part in _TOKEN.findall(pattern):
        repeats = part in ("*", "+") or (len(part) > 2 and part[0] == "{")
        if re.fullmatch(r"\\[1-9]", part) or (repeats and closed):
            return False
        unbounded += part in ("*", "+") or part.endswith(",}")
        closed = False
        if part == "(":
            chooses.append(False)
        elif part == ")":
            closed = chooses.pop() if len(chooses) > 1 else False
            chooses[-1] = chooses[-1] or closed
        elif repeats or part == "|" or (part == "?" and before != "("):
            chooses[-1] = True
        before = part
    return unbounded <= MAX_UNBOUNDED_REPEATS
