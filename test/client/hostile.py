"""Real MCP servers on this machine that behave as a test tells them to, well or badly, and remember what
they were asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.client.activation import ApprovalAdmission
from robot_mcp_kit.client.admitting import Host
from robot_mcp_kit.client.approvals import SqliteApprovals
from robot_mcp_kit.client.resolution import Resolution, resolve
from robot_mcp_kit.client.sources import Tier, document_source
from robot_mcp_kit.client.supervisor import Supervisor

from .serving import serving

TOOL = {
    "name": "grasp",
    "description": "Grasp.",
    "inputSchema": {
        "type": "object",
        "properties": {"force_n": {"type": "number", "maximum": 40}},
        "required": ["force_n"],
    },
}


@dataclass
class Asked:
    """One request."""

    http_method: str
    headers: dict[str, str]
    method: str
    params: dict[str, Any]


@dataclass
class FakeMcp:
    """Speaks the handshake protocol (2025-11-25) as an ASGI application."""

    tools: list[dict[str, Any]] = field(default_factory=lambda: [dict(TOOL)])
    page_size: int = 1000
    capabilities: dict[str, Any] = field(default_factory=lambda: {"tools": {"listChanged": True}})
    version: str = "1.0"
    protocol: str = "2025-11-25"
    asked: list[Asked] = field(default_factory=list)
    status: int | None = None
    """Answer everything with it."""
    location: str = ""
    answer: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None
    """Takes over: returns a result, ``None`` for the usual one, or a tuple (code, message) for an error."""
    raw: Callable[[str, Any, asyncio.Future[Any]], Awaitable[bool]] | None = None
    """Takes over the wire: ``await raw(method, send, gone)``, True if it has answered. ``gone``: the client
    has.
    """
    unauthorized: int = 0
    """So many requests are refused with 401."""
    call: Callable[[dict[str, Any]], Awaitable[Any]] | None = None
    streams: list[asyncio.Queue[dict[str, Any]]] = field(default_factory=list)

    def methods(self) -> list[str]:
        return [one.method for one in self.asked if one.http_method == "POST"]

    def count(self, method: str) -> int:
        return self.methods().count(method)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification to whoever listens."""
        for stream in self.streams:
            stream.put_nowait({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        content = json.loads(body) if body else {}
        method = str(content.get("method", ""))
        self.asked.append(Asked(scope["method"], headers, method, content.get("params") or {}))
        if self.raw is not None:
            gone = asyncio.ensure_future(self._gone(receive))
            try:
                if await self.raw(method, send, gone):
                    return
            finally:
                gone.cancel()
        if self.unauthorized:
            self.unauthorized -= 1
            await reply(send, 401, b"")
        elif self.status is not None:
            await reply(send, self.status, b"", {"location": self.location} if self.location else {})
        elif scope["method"] == "GET":
            await self._stream(receive, send)
        elif scope["method"] != "POST":
            await reply(send, 200, b"")
        elif "id" not in content:
            await reply(send, 202, b"")
        else:
            await self._answer(content, method, send)

    async def _answer(self, content: dict[str, Any], method: str, send: Any) -> None:
        result = None
        if self.answer is not None:
            result = await self.answer(method, content.get("params") or {})
        if result is None:
            result = await self._usual(method, content.get("params") or {})
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": content["id"]}
        if isinstance(result, tuple):
            told["error"] = {"code": result[0], "message": result[1]}
        else:
            told["result"] = result
        more = {"mcp-session-id": "s"} if method == "initialize" else {}
        await reply(send, 200, json.dumps(told).encode(), {"content-type": "application/json", **more})

    async def _usual(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return {
                "protocolVersion": self.protocol,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "fake", "version": self.version},
            }
        if method == "tools/list":
            first = int(params.get("cursor") or 0)
            page: dict[str, Any] = {"tools": self.tools[first : first + self.page_size]}
            if first + self.page_size < len(self.tools):
                page["nextCursor"] = str(first + self.page_size)
            return page
        if method == "tools/call":
            if self.call is not None:
                return await self.call(params)
            return {"content": [{"type": "text", "text": json.dumps({"did": params["name"]})}]}
        return (-32601, "Method not found")

    async def _stream(self, receive: Any, send: Any) -> None:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.streams.append(queue)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        gone = asyncio.ensure_future(self._gone(receive))
        try:
            while True:
                getting = asyncio.ensure_future(queue.get())
                await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    getting.cancel()
                    return
                data = f"data: {json.dumps(getting.result())}\n\n".encode()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            gone.cancel()
            self.streams.remove(queue)

    async def _gone(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


async def reply(send: Any, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def resolution(**servers: Any) -> Resolution:
    resolved = resolve([document_source(Tier.USER, "test", {"servers": servers})])
    for one in resolved.servers.values():
        assert one.refusal is None, one.refusal
    return resolved


def trusting_host(**more: Any) -> Host:
    """A host whose user's definitions are approved by being there."""
    return Host(ApprovalAdmission(SqliteApprovals(), implicit=frozenset({Tier.USER})), **more)


@contextlib.asynccontextmanager
async def supervised(
    app: FakeMcp, *, host: Host | None = None, backoff: Any = None, clock: Any = None, **entry: Any
) -> AsyncIterator[Any]:
    """A supervisor of one server, ``arm``, over ``app`` on a real socket."""
    async with serving(app) as url:
        servers = {"arm": {"type": "http", "url": f"{url}/mcp"} | entry}
        supervisor = Supervisor(resolution(**servers), host or trusting_host(), backoff=backoff, clock=clock)
        try:
            yield supervisor["arm"]
        finally:
            await supervisor.aclose()
