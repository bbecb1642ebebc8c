"""The port through which tools are called, and what can go wrong on the way."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.client.result_size import shortened


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answered, refusals by the tool included."""

    text: str
    structured: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    max_chars: int = 25_000
    """Of the text that a model may see."""

    def for_model(self) -> str:
        """The text, cut with a word about it when it is longer than a model should get."""
        return shortened(self.text, self.max_chars)

    def content(self) -> dict[str, Any]:
        """The structured content, or the text parsed as JSON; ``{"result": ...}`` around what is no
        object.
        """
        if self.structured and set(self.structured) != {"result"}:
            return dict(self.structured)
        # The contract's own tools answer JSON text, which SDKs wrap as {"result": text}.
        try:
            parsed = json.loads(self.text)
        except (ValueError, RecursionError):
            return {"result": self.text}
        return parsed if isinstance(parsed, dict) else {"result": parsed}


class CallFailed(Exception):
    """A call got no answer.

    Args:
        server: which server.
        reason: a code, ``timeout``, ``unreachable``, ``refused``, ...
        message: a sentence; holds no secret.
        sent: whether the server may have received the call. Only when it surely has not may it be repeated.
    """

    def __init__(self, server: str, reason: str, message: str, *, sent: bool) -> None:
        super().__init__(f"{server}: {message}")
        self.server = server
        self.reason = reason
        self.message = message
        self.sent = sent


class ToolCaller(abc.ABC):
    """Calls the tools of one capability server."""

    @abc.abstractmethod
    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        """Call a tool once.

        Raises:
            CallFailed: there was no answer.
        """

    @abc.abstractmethod
    async def accepts(self, tool: str, argument: str) -> bool:
        """Whether the tool has an argument of that name.

        Raises:
            CallFailed: the server could not be asked.
        """
