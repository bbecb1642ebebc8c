"""A server as it may be printed, listed, logged and audited: readable, and without a secret (A14)."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.client.materializing import Materialized
from robot_mcp_kit.client.secrecy import masked_argv, masked_literals, masked_url
from robot_mcp_kit.client.templates import Expanded


def projection(server: Materialized) -> dict[str, Any]:
    """Names of headers and variables without their values; command line, folder and URL with their secrets
    masked.

    A value under an env or header name is too often a credential of no recognisable shape to be shown.
    """
    definition = server.definition
    shown: dict[str, Any] = {"name": definition.name, "transport": definition.transport}
    if definition.transport == "stdio":
        words = [server.command.shown(), *(arg.shown() for arg in server.args)]
        shown |= {
            "command": masked_argv(words),
            "cwd": None if server.cwd is None else masked_literals(server.cwd.shown()),
            "env": sorted(server.env),
        }
    else:
        shown |= {"url": _url(server.url), "headers": sorted(server.headers)}
    return shown | {
        "auth": definition.auth,
        "event_secrets": len(server.event_secrets),
        "unset": sorted({refusal.message for refusal in server.unset}),
    }


def endpoint(server: Materialized) -> str:
    """In one line, what tells it from others: its URL or its command line, masked."""
    if server.definition.transport == "stdio":
        return " ".join(projection(server)["command"])
    return _url(server.url)


def _url(url: Expanded) -> str:
    return masked_url(url.shown())
