"""proMCP's rules as a lint over tool descriptions, and the kit's own rules where those are blind.

The codes with a letter and a digit of proMCP's linter mean here what they mean there. Codes that begin with
``K`` are the kit's. Nothing is called: names, descriptions and schemas are looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from robot_mcp_kit.promcp.contracts import (
    PERMISSIONS,
    PROMCP_VERSION,
    QUALITIES,
    STATUSES,
    UNROUTABLE_REASONS,
)
from robot_mcp_kit.promcp.schemas import SchemaError, flat_tool
from robot_mcp_kit.promcp.units import unit_findings

Severity = Literal["error", "warning", "info"]

CAN_DO = "can_do"
MAX_TOOLS, MAX_DO_TOOLS = 8, 5
MAX_NAME_CHARS, MIN_DESCRIPTION_CHARS = 64, 20
GENERIC_NAMES = frozenset(
    {f"do_{word}" for word in ("action", "update", "create", "delete", "execute", "run")}
    | {f"read_{word}" for word in ("data", "value", "info")}
)
MUTATING_WORDS = (
    "create",
    "update",
    "delete",
    "set",
    "reset",
    "trigger",
    "send",
    "write",
    "insert",
    "modify",
)
_SNAKE = re.compile(r"[a-z][a-z0-9_]*")
_UNNAMED = "(unnamed)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a tool, or with the server as a whole."""

    severity: Severity
    code: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"severity": self.severity, "code": self.code, "message": self.message}


@dataclass(slots=True)
class LintReport:
    """What was found: for the server, and tool by tool."""

    server: list[Finding] = field(default_factory=list)
    tools: list[tuple[str, list[Finding]]] = field(default_factory=list)

    def findings(self) -> list[Finding]:
        return [*self.server, *(finding for _, found in self.tools for finding in found)]

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings())

    def codes(self) -> set[str]:
        return {finding.code for finding in self.findings()}

    def passes(self, *, strict: bool = False) -> bool:
        """Whether there is no error, with ``strict`` no warning either."""
        return not self.count("error") and not (strict and self.count("warning"))

    def to_dict(self, *, strict: bool = False) -> dict[str, Any]:
        """The same layout as proMCP's own linter prints."""
        return {
            "promcp_version": PROMCP_VERSION,
            "server": [finding.to_dict() for finding in self.server],
            "tools": [
                {"name": name, "findings": [finding.to_dict() for finding in found]}
                for name, found in self.tools
            ],
            "summary": {
                "errors": self.count("error"),
                "warnings": self.count("warning"),
                "info": self.count("info"),
                "pass": self.passes(strict=strict),
            },
        }


def lint_server(tools: Sequence[Mapping[str, Any]], *, triad: bool = True) -> LintReport:
    """Check the tools of one server.

    Args:
        tools: as tools/list answers them (camelCase), with ``outputSchema`` or ``responseSchema``.
        triad: also proMCP's rules; without them only the kit's rules about units and descriptions, which hold
            for any robot's tools.
    """
    report = LintReport(tools=[(_name(tool), lint_tool(tool, triad=triad)) for tool in tools])
    if triad:
        report.server = list(_server(list(tools)))
    return report


def lint_tool(tool: Mapping[str, Any], *, triad: bool = True) -> list[Finding]:
    """Check one tool."""
    try:
        flat = flat_tool(tool)
    except SchemaError as error:
        return [Finding("error", "K003", f"The schema cannot be read: {error}.")]
    found = [Finding("error", "K001", message) for message in unit_findings(flat)]
    if not triad:
        return [*_described(flat), *found]
    return [*_named(flat), *_described(flat), *_input(flat), *_response(flat), *found]


def _name(tool: Mapping[str, Any]) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) and name else _UNNAMED


def _properties(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(properties) if isinstance(properties, Mapping) else {}


def _required(schema: Any) -> set[str]:
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return set(required) if isinstance(required, list) else set()


def _named(tool: Mapping[str, Any]) -> Iterable[Finding]:
    name = _name(tool)
    if name == _UNNAMED:
        yield Finding("error", "N001", "The tool has no name.")
        return
    if name == CAN_DO:
        return
    if not _SNAKE.fullmatch(name):
        yield Finding("error", "N002", f"{name!r} is not snake case that begins with a letter.")
    if not name.startswith(("read_", "do_")):
        yield Finding("error", "N003", f"{name!r} begins with neither read_ nor do_, and is not can_do.")
    if name == "read_":
        yield Finding("error", "N004", "A name needs more than read_.")
    if name == "do_":
        yield Finding("error", "N005", "A name needs more than do_.")
    if len(name) > MAX_NAME_CHARS:
        yield Finding("warning", "N006", f"The name has {len(name)} characters, more than {MAX_NAME_CHARS}.")
    if name in GENERIC_NAMES:
        yield Finding("warning", "N007", f"{name!r} says nothing about what it is for.")


def _described(tool: Mapping[str, Any]) -> Iterable[Finding]:
    text = tool.get("description") or ""
    if not text:
        yield Finding("warning", "D001", "There is no description, so a model can only guess.")
        return
    if len(text) < MIN_DESCRIPTION_CHARS:
        yield Finding(
            "warning", "D002", f"The description has only {len(text)} characters; say when not to use it."
        )
    if _name(tool).startswith("read_"):
        words = [word for word in MUTATING_WORDS if word in text.lower()]
        if words:
            yield Finding(
                "warning",
                "D003",
                f"A read's description has {', '.join(words)} in it (also inside other words).",
            )


def _input(tool: Mapping[str, Any]) -> Iterable[Finding]:
    name, schema = _name(tool), tool.get("inputSchema")
    properties = _properties(schema)
    if name == CAN_DO:
        intent = properties.get("intent")
        if intent is None:
            yield Finding("error", "I001", "can_do has no intent argument.")
        elif not _open_object(intent) and "semantic_tags" not in _properties(intent):
            yield Finding("error", "I002", "The intent declares no semantic_tags.")
    elif name.startswith("do_"):
        if "idempotency_key" not in properties:
            yield Finding("error", "I003", "A do tool needs an idempotency_key argument.")
        elif "idempotency_key" not in _required(schema):
            yield Finding(
                "warning", "K002", "idempotency_key is not required, so a retry without it acts twice."
            )


def _open_object(schema: Any) -> bool:
    """An object that declares nothing, so that anything may be in it."""
    return isinstance(schema, Mapping) and schema.get("type") == "object" and not _properties(schema)


def _response(tool: Mapping[str, Any]) -> Iterable[Finding]:
    name, schema = _name(tool), tool.get("responseSchema")
    if schema is None:
        yield Finding("info", "R000", "No response schema is declared, so the response is not checked.")
        return
    properties = _properties(schema)
    if name.startswith("read_"):
        yield from _read_response(properties)
    elif name.startswith("do_"):
        yield from _do_response(properties)
    elif name == CAN_DO:
        yield from _report(properties)


def _missing(wanted: Sequence[str], there: Mapping[str, Any], code: str, what: str) -> Iterable[Finding]:
    for name in wanted:
        if name not in there:
            yield Finding("error", code, f"The {what} has no {name}.")


def _values(schema: Any) -> set[Any]:
    """Values of an enum; none declared is none, whatever the type."""
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    return set(values) if isinstance(values, list) else set()


def _read_response(properties: Mapping[str, Any]) -> Iterable[Finding]:
    yield from _missing(("value", "timestamp", "quality"), properties, "R001", "response")
    if "quality" in properties:
        values = _values(properties["quality"])
        if foreign := values - set(QUALITIES):
            yield Finding("error", "R002", f"quality has values that do not exist: {_listed(foreign)}.")
        if missing := set(QUALITIES) - values:
            yield Finding("error", "R003", f"quality does not declare {_listed(missing)}.")
    if "side_effects" in properties:
        yield Finding("error", "SE001", "A read has no side effects; this response declares some.")
    if "unit" not in properties:
        yield Finding("warning", "K004", "The response has no unit, so a number in it means nothing.")


def _do_response(properties: Mapping[str, Any]) -> Iterable[Finding]:
    wanted = ("status", "idempotency_key", "compensable", "timestamp")
    yield from _missing(wanted, properties, "R004", "response")
    if foreign := _values(properties.get("status")) - set(STATUSES):
        yield Finding("error", "R005", f"status has values that do not exist: {_listed(foreign)}.")
    if "compensable" not in properties:
        yield Finding("error", "R006", "The response does not say whether it can be undone (compensable).")
    if "idempotency_key" not in properties:
        yield Finding("error", "R007", "The response does not repeat the idempotency_key.")
    if "side_effects" not in properties:
        yield Finding("warning", "R008", "The response has no side_effects.")
    for name in ("applied_value", "previous_value", "compensation_hint"):
        if name not in properties:
            yield Finding("warning", "K005", f"The response has no {name}.")


def _report(properties: Mapping[str, Any]) -> Iterable[Finding]:
    yield from _missing(("query_id", "feasible", "candidates", "blocked"), properties, "R009", "report")
    if "candidates" in properties:
        item = _properties(_item(properties["candidates"]))
        wanted = ("capability", "source", "confidence", "permission", "valid_until")
        yield from _missing(wanted, item, "R010", "candidate")
        if foreign := _values(item.get("permission")) - set(PERMISSIONS):
            yield Finding("error", "R012", f"permission has values that do not exist: {_listed(foreign)}.")
    if "blocked" in properties:
        item = _properties(_item(properties["blocked"]))
        yield from _missing(("capability", "source", "permission", "reason"), item, "R013", "blocked entry")
    if "unroutable" not in properties:
        yield Finding(
            "info", "R015", "The report has no unroutable list, so a wish nobody fulfils has no answer."
        )
        return
    item = _properties(_item(properties["unroutable"]))
    yield from _missing(("outcome", "reason", "detail"), item, "R014", "unroutable entry")
    if foreign := _values(item.get("reason")) - set(UNROUTABLE_REASONS):
        yield Finding("error", "R014", f"reason has values that do not exist: {_listed(foreign)}.")


def _item(schema: Any) -> Any:
    return schema.get("items") if isinstance(schema, Mapping) else None


def _server(tools: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    names = Counter(tool.get("name") or "" for tool in tools)
    if not names[CAN_DO]:
        yield Finding("error", "S001", "There is no can_do.")
    if names[CAN_DO] > 1:
        yield Finding("error", "S002", f"There are {names[CAN_DO]} can_do; exactly one is right.")
    for name, count in names.items():
        for _ in range(count - 1):
            yield Finding("error", "S003", f"The name {name!r} is there more than once.")
    if len(tools) > MAX_TOOLS:
        yield Finding(
            "warning", "S004", f"{len(tools)} tools are more than {MAX_TOOLS}; split them into profiles."
        )
    acting = sum(name.startswith("do_") * count for name, count in names.items())
    if acting > MAX_DO_TOOLS:
        yield Finding("warning", "S005", f"{acting} do tools are more than {MAX_DO_TOOLS}.")


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values)))
