"""What a capability server is: one entry of ``mcp.yaml`` or of an ``mcpServers`` JSON, decoded and not more.

Decoding connects to nothing, starts nothing and does not read the environment (A26).

::

    servers:
      navigation:
        type: http
        url: http://127.0.0.1:8765/mcp
        headers: {Authorization: "Bearer ${ROBOT_TOKEN}"}
        event_secrets: ["${NAVIGATION_EVENT_SECRET}"]
        timeouts: {call_s: 30}
      sleeper:
        command: python
        args: [examples/sleeper.py]
        env: {MCP_TRANSPORT: stdio}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robot_mcp_kit.client.refusals import Refusal
from robot_mcp_kit.client.verifying import shown

Transport = Literal["http", "stdio", "sse", "websocket"]

_TRANSPORTS: dict[str, Transport] = {
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "stdio": "stdio",
    "sse": "sse",
    "ws": "websocket",
    "websocket": "websocket",
}
_REMOTE = ("url", "headers")
_LOCAL = ("command", "args", "env", "cwd")
_OTHER = ("type", "timeouts", "auth", "oauth", "headersHelper", "headers_helper")
_OURS = ("event_secrets", "requires_trusted_workspace", "description")
ROOTS = ("servers", "mcpServers")

HOST_AUTH = "host"
"""``auth: host``: the host has registered an authenticator for this server."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Five bounds, each for itself, seconds; ``None`` is no bound."""

    startup_s: float = 20.0
    """From the decision to connect to a session that is ready."""
    request_s: float = 10.0
    """One request that is no tool call, such as a page of tools."""
    discovery_s: float = 60.0
    """All pages of everything together."""
    call_s: float = 30.0
    """One tool call that brings no bound of its own."""
    idle_s: float | None = None
    """A connection that nobody has used for so long is closed."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One server as written down; texts still have their templates. The repr shows no value of env or
    headers.
    """

    name: str
    transport: Transport
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = field(default=None, repr=False)
    timeouts: Timeouts = Timeouts()
    auth: str | None = None
    """What authentication it declares, in a word; ``None`` for none beyond its headers."""
    event_secrets: tuple[str, ...] = field(default=(), repr=False)
    """Templates of the secrets that its events are signed with."""
    requires_trusted_workspace: bool | None = None
    """``None``: as its tier has it."""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One document. A name is in exactly one of ``definitions`` and ``malformed``."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    malformed: dict[str, Refusal] = field(default_factory=dict)
    notes: list[Refusal] = field(default_factory=list)
    """What was ignored; nothing follows from it."""
    unreadable: Refusal | None = None
    """The document as a whole could not be used."""


class _Malformed(Exception):
    def __init__(self, field: str, message: str) -> None:
        self.field, self.message = field, message


def decode(document: Any) -> Decoded:
    """Decode a parsed document; a bad entry does not harm its siblings (A27)."""
    if not isinstance(document, Mapping):
        return Decoded(unreadable=Refusal("not_a_mapping", "the document is not a mapping with 'servers'"))
    roots = [root for root in ROOTS if root in document]
    if len(roots) != 1:
        return Decoded(
            unreadable=Refusal("no_servers", f"exactly one of the keys {' and '.join(ROOTS)} is needed")
        )
    entries = document[roots[0]]
    if not isinstance(entries, Mapping):
        return Decoded(unreadable=Refusal("no_servers", f"{roots[0]} is not a mapping of names to servers"))
    decoded = Decoded()
    for name, entry in entries.items():
        if not (isinstance(name, str) and name and name.isascii() and name.isprintable()):
            decoded.malformed[str(name)] = Refusal("bad_name", f"the name {shown(str(name))} is not usable")
            continue
        try:
            decoded.definitions[name] = _definition(name, entry, decoded.notes)
        except _Malformed as error:
            decoded.malformed[name] = Refusal("malformed", error.message, name, error.field)
    return decoded


def _definition(name: str, entry: Any, notes: list[Refusal]) -> Definition:
    if not isinstance(entry, Mapping):
        raise _Malformed("", "not a mapping")
    transport = _transport(entry)
    foreign = _REMOTE if transport == "stdio" else _LOCAL
    for key in foreign:
        if key in entry:
            raise _Malformed(key, f"does not belong to a server of type {transport}; remove one of the two")
    for key in entry:
        if key not in (*_REMOTE, *_LOCAL, *_OTHER, *_OURS):
            notes.append(Refusal("unknown_field", "is not known here and is ignored", name, str(key)))
    definition = Definition(
        name=name,
        transport=transport,
        url=_text(entry, "url"),
        headers=_texts(entry, "headers"),
        command=_text(entry, "command"),
        args=_list(entry, "args"),
        env=_texts(entry, "env"),
        cwd=_text(entry, "cwd") if entry.get("cwd") is not None else None,
        timeouts=_timeouts(entry.get("timeouts")),
        auth=_auth(entry),
        event_secrets=_list(entry, "event_secrets"),
        requires_trusted_workspace=_flag(entry, "requires_trusted_workspace"),
        description=_text(entry, "description"),
    )
    if transport == "stdio" and not definition.command:
        raise _Malformed("command", "is missing")
    if transport != "stdio" and not definition.url:
        raise _Malformed("url", "is missing")
    lowered = [header.lower() for header in definition.headers]
    if len(set(lowered)) < len(lowered):
        raise _Malformed("headers", "one header is given twice, in different capitals")
    return definition


def _transport(entry: Mapping[str, Any]) -> Transport:
    kind = entry.get("type")
    if kind is None:
        if "url" in entry:
            raise _Malformed("type", "is missing; a server with a url says 'type: http'")
        return "stdio"
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise _Malformed("type", f"{shown(str(kind))} is none of {', '.join(_TRANSPORTS)}")
    return _TRANSPORTS[kind]


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise _Malformed(key, f"must be text, is {type(value).__name__}")
    if "\0" in value:
        raise _Malformed(key, "has a NUL in it")
    return value


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key, {})
    if not isinstance(value, Mapping):
        raise _Malformed(key, f"must be a mapping, is {type(value).__name__}")
    for name, one in value.items():
        if not isinstance(name, str) or not name:
            raise _Malformed(key, f"the name {shown(str(name))} is not text")
        if not isinstance(one, str) or any(c in one for c in "\0\r\n"):
            raise _Malformed(f"{key}.{name}", "must be one line of text; put it in quotes")
    return dict(value)


def _list(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise _Malformed(key, "must be a list of texts; put numbers in quotes")
    return tuple(value)


def _flag(entry: Mapping[str, Any], key: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise _Malformed(key, "must be true or false")
    return value


def _auth(entry: Mapping[str, Any]) -> str | None:
    for key in ("oauth", "headersHelper", "headers_helper"):
        if entry.get(key) is not None:
            return key
    auth = entry.get("auth")
    if isinstance(auth, Mapping):
        auth = auth.get("type")
    if auth is not None and not isinstance(auth, str):
        raise _Malformed("auth", "must be a word or a mapping with a type")
    return auth


def _timeouts(value: Any) -> Timeouts:
    if value is None:
        return Timeouts()
    if not isinstance(value, Mapping):
        raise _Malformed("timeouts", "must be a mapping")
    given: dict[str, float | None] = {}
    for key, seconds in value.items():
        if key not in Timeouts.__dataclass_fields__:
            raise _Malformed(f"timeouts.{key}", f"is none of {', '.join(Timeouts.__dataclass_fields__)}")
        if seconds is None and key == "idle_s":
            given[key] = None
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise _Malformed(f"timeouts.{key}", "must be a number of seconds")
        if not (math.isfinite(seconds) and seconds > 0):
            raise _Malformed(f"timeouts.{key}", "must be above 0")
        given[key] = float(seconds)
    return Timeouts(**given)  # type: ignore[arg-type]
