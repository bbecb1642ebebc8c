"""Who calls a tool, and what of it is refused before a tool is looked for."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, InputRequiredResult, TextContent
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import SafetyRefused

SESSION_HEADER = "mcp-session-id"


def requester_of(context: Context[Any, Any] | None) -> Requester:
    """The caller of a tool: its session, or what the transport knows of it where the protocol has none, and
    what it calls itself.
    """
    try:
        request_context = None if context is None else context.request_context
    except ValueError:  # outside of a request
        request_context = None
    if request_context is None:
        return Requester("direct", "mcp")
    request = request_context.request
    headers = getattr(request, "headers", None)
    session = None if headers is None else headers.get(SESSION_HEADER)
    if session is None:
        session = "stdio" if request is None else _connection_of(request.scope)
    params = request_context.session.client_params
    client = "" if params is None else f"{params.client_info.name} {params.client_info.version}".strip()
    return Requester(session, "mcp", client)


def _connection_of(scope: Scope) -> str:
    """The name of a caller without a session: whose token it has, and the connection that it uses."""
    peer = scope.get("client")
    role = getattr(scope.get("user"), "display_name", "")
    connection = "unknown connection" if peer is None else f"connection {peer[0]}:{peer[1]}"
    return f"{role}, {connection}" if role else connection


class GuardedServer(MCPServer):
    """Remembers who asked for what is prohibited on every robot, and refuses it."""

    guard: Guard | None = None

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        if self.guard is not None:
            try:
                self.guard.unknown_skill(name, requester_of(context))
            except SafetyRefused as error:
                text = f"Refused, nothing moved. {error.message}"
                data = {"error_code": error.error_code, "message": error.message, "recoverable": False}
                return CallToolResult(
                    content=[TextContent(type="text", text=text)],
                    structured_content={"error": data},
                    is_error=True,
                )
        return await super().call_tool(name, arguments, context)


class SessionEnds:
    """ASGI middleware: tells the guard when a client ends its session, and what it asked for with it (R33).

    Args:
        app: the endpoint.
        guard: told.
        paths: of the endpoints.
    """

    def __init__(self, app: ASGIApp, guard: Guard, paths: frozenset[str]) -> None:
        self._app, self._guard, self._paths = app, guard, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "DELETE" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        session = next(
            (value.decode("latin-1") for key, value in scope["headers"] if key == SESSION_HEADER.encode()),
            None,
        )

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300 and session:
                self._guard.end_session(session)
            await send(message)

        await self._app(scope, receive, watched)
