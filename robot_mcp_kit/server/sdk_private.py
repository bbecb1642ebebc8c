"""The two things of the MCP SDK (2.x) that have no public name, and nothing else that is private.

Resource subscriptions of the handshake protocols need a handler for a method that the SDK's high-level server
does not know (its extensions may not bind the specification's own methods), so the low-level server must be
reached; and they last as long as the client's connection, of which a handler is only given a session that is
made anew for each request. A test fails when the SDK changes either, or gives it a public name.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server


def low_level(server: MCPServer) -> Server[Any]:
    """The low-level server below a high-level one."""
    return server._lowlevel_server


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """What lasts as long as the client's session."""
    return ctx.session._connection
