"""The decorated tools of one server: listed, linted, and handed to an MCP framework."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, create_model

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.promcp.lint import LintReport, lint_server

Kind = Literal["read", "do", "can_do"]

_ANNOTATIONS: dict[Kind, dict[str, bool]] = {
    "read": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    "do": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": True},
    "can_do": {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
}


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One decorated tool."""

    name: str
    kind: Kind
    description: str
    call: Callable[..., Awaitable[Any]]
    response: type[BaseModel]
    side_effects: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As tools/list would answer it."""
        fields: dict[str, Any] = {
            name: (p.annotation, ... if p.default is p.empty else p.default)
            for name, p in self.call.__signature__.parameters.items()  # type: ignore[attr-defined]
        }
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": create_model(f"{self.name}_arguments", **fields).model_json_schema(),
            "outputSchema": self.response.model_json_schema(mode="serialization"),
        }


class Registry:
    """Holds the tools of one server.

    Args:
        clock: monotonic time, for how long keys are remembered.
        wall_clock: Unix seconds, for timestamps.
    """

    def __init__(self, *, clock: Clock | None = None, wall_clock: WallClock = time.time) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._wall_clock = wall_clock
        self._tools: dict[str, ToolEntry] = {}

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock(), UTC)

    def add(self, entry: ToolEntry) -> None:
        """Raises ValueError: the name is taken (there is exactly one can_do, too)."""
        if entry.name in self._tools:
            raise ValueError(f"{entry.name}: this registry has one already")
        self._tools[entry.name] = entry

    def names(self, kind: Kind | None = None) -> list[str]:
        return [entry.name for entry in self._tools.values() if kind in (None, entry.kind)]

    def __iter__(self) -> Iterator[ToolEntry]:
        return iter(list(self._tools.values()))

    def __getitem__(self, name: str) -> ToolEntry:
        return self._tools[name]

    def to_list(self) -> list[dict[str, Any]]:
        """All tools as tools/list would answer them."""
        return [entry.to_dict() for entry in self]

    def lint(self) -> LintReport:
        """Check them (:func:`robot_mcp_kit.promcp.lint_server`)."""
        return lint_server(self.to_list())

    def register(self, mcp: Any) -> None:
        """Add every tool to an MCP server object; only its ``.tool()`` is used."""
        for entry in self:
            mcp.tool(name=entry.name, description=entry.description, annotations=_ANNOTATIONS[entry.kind])(
                entry.call
            )


DEFAULT = Registry()
"""Where decorators without ``registry=`` list their tools."""
