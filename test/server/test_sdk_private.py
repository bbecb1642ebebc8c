"""What the kit uses of the MCP SDK without a public name: it is there, it is all, and it is still needed."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.extension import MethodBinding
from mcp.server.lowlevel import Server
from mcp.types import EmptyResult, SubscribeRequestParams

from robot_mcp_kit.server.sdk_private import connection_of, low_level

SERVER = Path(__file__).parents[2] / "robot_mcp_kit" / "server"


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_the_connection_is_one_object_for_all_requests_of_a_client() -> None:
    server = MCPServer("robot", log_level="ERROR")
    seen: list[Any] = []

    async def subscribe(ctx: ServerRequestContext[Any, Any], _: SubscribeRequestParams) -> EmptyResult:
        seen.append((connection_of(ctx), ctx.session))
        return EmptyResult()

    low_level(server).add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    async with Client(server, mode="legacy") as client:
        for _ in range(2):
            await client.session.subscribe_resource("robot://tasks")
    (first, session), (second, other_session) = seen
    assert isinstance(first, Connection)
    assert first is second
    assert session is not other_session, "the session lasts now: use it instead of the private connection"


def test_neither_has_a_public_name_yet() -> None:
    """When this fails, use what has appeared and delete the private access."""
    server = MCPServer("robot", log_level="ERROR")
    public = [name for name in dir(type(server)) if not name.startswith("_")]
    offered = [name for name in public if isinstance(getattr(type(server), name), property)]
    # session_manager exists only once an application was made.
    values = {name: getattr(server, name) for name in offered if name != "session_manager"}
    assert not [name for name, value in values.items() if isinstance(value, Server)]
    fields = {field.name for field in dataclasses.fields(ServerRequestContext)}
    assert not fields & {"connection", "session_id"}
    with pytest.raises(ValueError, match="spec method"):
        MethodBinding("resources/subscribe", SubscribeRequestParams, lambda *_: None)  # type: ignore[arg-type]


def test_nothing_else_of_the_sdk_that_is_private_is_touched() -> None:
    """In the only room that may know the SDK's server half."""
    own = {"_lowlevel_server", "_connection"}
    for path in SERVER.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        private = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        }
        assert private <= (own if path.name == "sdk_private.py" else set()), path
