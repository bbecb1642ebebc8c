"""Call a robot's tools from Python, over the official MCP client. Needs ``robot-mcp-kit[mcp]``."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller


class ToolCallError(Exception):
    """A tool answered that it refuses or failed.

    Attributes:
        tool: the tool's name.
        message: its words.
        structured: its structured content, ``{}`` when there was none.
    """

    def __init__(self, tool: str, message: str, structured: Mapping[str, Any]) -> None:
        super().__init__(f"{tool}: {message}")
        self.tool = tool
        self.message = message
        self.structured = dict(structured)


class RobotSession:
    """An open connection to one MCP endpoint. Get one from :func:`connect`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tool_names(self) -> list[str]:
        """Names of all tools, over every page."""
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await self.client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return names

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured content, or its JSON text parsed.

        Raises:
            ToolCallError: the tool answered with an error; nothing moved if it says so.
        """
        result = await self.client.call_tool(tool, arguments)
        text = _text(result)
        structured = result.structured_content
        if result.is_error:
            raise ToolCallError(tool, text, structured if isinstance(structured, dict) else {})
        if isinstance(structured, dict) and set(structured) != {"result"}:
            return structured
        # The contract's own tools answer JSON text, which the SDK wraps as {"result": text}.
        try:
            parsed = json.loads(text)
        except ValueError:
            return {"result": text}
        return parsed if isinstance(parsed, dict) else {"result": parsed}


class SessionCaller(ToolCaller):
    """The tool-calling port over one open connection.

    Args:
        session: from :func:`connect`.
        name: for messages.
    """

    def __init__(self, session: RobotSession, name: str = "robot") -> None:
        self._session, self._name = session, name

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        try:
            result = await self._session.client.call_tool(
                tool, dict(arguments), read_timeout_seconds=timeout_s
            )
        except Exception as error:  # whatever the transport raises: the call may have arrived
            message = f"{tool}: no answer: {type(error).__name__}"
            raise CallFailed(self._name, "unreachable", message, sent=True) from error
        structured = result.structured_content
        return ToolAnswer(
            text=_text(result),
            structured=structured if isinstance(structured, dict) else {},
            is_error=bool(result.is_error),
        )

    async def accepts(self, tool: str, argument: str) -> bool:
        cursor: str | None = None
        while True:
            page = await self._session.client.list_tools(cursor=cursor)
            for listed in page.tools:
                if listed.name == tool:
                    return argument in listed.input_schema.get("properties", {})
            cursor = page.next_cursor
            if cursor is None:
                return False


@contextlib.asynccontextmanager
async def connect(
    url: str, *, token: str | None = None, timeout_s: float = 30.0, mode: str = "auto"
) -> AsyncIterator[RobotSession]:
    """Connect over streamable HTTP.

    Args:
        url: the endpoint, ``http://127.0.0.1:8765/mcp``.
        token: bearer token, when the bridge demands one.
        timeout_s: longest wait for any answer.
        mode: ``auto``, ``legacy`` (handshake protocols) or a protocol version.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    failure: Exception | None = None
    try:
        # trust_env: a robot's address on this machine must not go to a proxy.
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout_s, trust_env=False) as http,
            Client(
                streamable_http_client(url, http_client=http), read_timeout_seconds=timeout_s, mode=mode
            ) as client,
        ):
            try:
                yield RobotSession(client)
            except Exception as error:
                # The SDK's task groups would wrap the block's own exception in exception groups.
                failure = error
    except asyncio.CancelledError as cancelled:
        # The SDK's own scope takes the end of an asyncio.TaskGroup in the block for a cancellation, and the
        # block's exception would be lost. One that somebody else's scope asked for comes again by itself.
        if failure is None or not str(cancelled).startswith("Cancelled via cancel scope"):
            raise
    if failure is not None:
        raise failure


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
