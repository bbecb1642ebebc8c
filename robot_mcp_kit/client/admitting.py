"""Admit, then construct: every check that stands before a connection, in their one order."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.client.activation import Admission
from robot_mcp_kit.client.authenticating import Authenticator
from robot_mcp_kit.client.definitions import HOST_AUTH, Definition
from robot_mcp_kit.client.egress import EgressPolicy
from robot_mcp_kit.client.http_transport import MAX_RESPONSE_BYTES, GuardedTransport, guarded_http
from robot_mcp_kit.client.materializing import Materialized, materialize
from robot_mcp_kit.client.refusals import Refusal, RefusedError
from robot_mcp_kit.client.resolution import Resolved
from robot_mcp_kit.client.stdio_transport import StdioAuthority, guarded_stdio

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """What this side brings: who decides, where it may connect to, what it may start.

    Args:
        admission: decides whether a definition may be used.
        egress: decides where it may connect to.
        environment: variables for templates; read only after the decision on what to start.
        authority: what may be started; without one nothing is.
        authenticators: by the name of the one server each is for.
        max_response_bytes: most that is taken of one answer, before it is parsed.
    """

    admission: Admission
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    authority: StdioAuthority | None = None
    authenticators: Mapping[str, Authenticator] = field(default_factory=dict, repr=False)
    max_response_bytes: int = MAX_RESPONSE_BYTES


@dataclass(slots=True)
class Link:
    """An admitted server, not yet connected. ``transport`` is entered once."""

    server: Materialized
    transport: AbstractAsyncContextManager[Any]
    guard: GuardedTransport | None = None
    problem: Refusal | None = None
    """What this side found wrong while connected over stdio."""

    @property
    def last_problem(self) -> Refusal | None:
        """What this side found wrong last."""
        return self.problem if self.guard is None else self.guard.last_problem

    @property
    def last_status(self) -> int | None:
        """The last HTTP status of the server."""
        return None if self.guard is None else self.guard.last_status


def unsupported(definition: Definition, host: Host) -> Refusal | None:
    """Why a definition cannot be served here, whatever is approved; nothing is read or contacted for it."""
    if definition.transport not in ("http", "stdio"):
        return Refusal(
            "transport_unsupported",
            f"{definition.transport} is not spoken here; use 'type: http' (streamable HTTP) or stdio",
            definition.name,
            "type",
        )
    if definition.auth == HOST_AUTH:
        if definition.name not in host.authenticators:
            return Refusal(
                "authenticator_missing", "this host has no authenticator for it", definition.name, "auth"
            )
    elif definition.auth is not None:
        return Refusal(
            "authentication_unsupported",
            f"declares the authentication '{definition.auth[:40]}', which is not done here",
            definition.name,
            "auth",
        )
    return None


async def admitted(resolved: Resolved, host: Host) -> Link:
    """Pass every check; nothing is connected or started yet.

    Raises:
        RefusedError: at the first check that fails.
    """
    definition = resolved.definition
    if definition is None:
        raise RefusedError(resolved.refusal or Refusal("malformed", "is malformed", resolved.name))
    if resolved.disabled is not None:
        raise RefusedError(Refusal("disabled", f"is switched off: {resolved.disabled}", resolved.name))
    if (refusal := unsupported(definition, host)) is not None:
        raise RefusedError(refusal)
    if definition.transport == "stdio":
        if host.authority is None:
            raise RefusedError(
                Refusal("no_authority", "this host starts no servers", definition.name, "command")
            )
        host.authority.check(definition)  # before a variable is read
    server = materialize(definition, host.environment)
    for unset in server.unset:
        logger.warning("%s", unset)

    def decide() -> Refusal | None:
        return host.admission.admit(server, resolved.tier, resolved.origin)

    if (refusal := decide()) is not None:
        raise RefusedError(refusal)
    if definition.transport == "stdio":
        return _stdio(server, host, host.authority, decide)
    await host.egress.admit(server.url.text, server=server.name)
    return _http(server, host)


def _http(server: Materialized, host: Host) -> Link:
    guard = GuardedTransport(
        server.name,
        server.url.text,
        host.egress,
        headers={name: value.text for name, value in server.headers.items()},
        authenticator=host.authenticators.get(server.name),
        max_response_bytes=host.max_response_bytes,
    )
    transport = guarded_http(guard, max_event_bytes=min(host.max_response_bytes, MAX_RESPONSE_BYTES))
    return Link(server, transport, guard)


def _stdio(
    server: Materialized,
    host: Host,
    authority: StdioAuthority | None,
    recheck: Callable[[], Refusal | None],
) -> Link:
    if authority is None:
        raise ValueError("authority: needed to start anything")

    def note(problem: Refusal) -> None:
        link.problem = problem

    @contextlib.asynccontextmanager
    async def start() -> AsyncIterator[Any]:
        async with guarded_stdio(
            server,
            authority,
            recheck=recheck,
            max_message_bytes=host.max_response_bytes,
            on_problem=note,
        ) as streams:
            yield streams

    link = Link(server, start())
    return link
