"""Requests by the thousand against the inbox: never a 500, and nothing unverified is ever accepted.

``ROBOT_MCP_KIT_FUZZ=100000`` asks for that many requests; a short run is part of every test run.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_mcp_kit.client.asgi import EVENTS_PATH, events_app
from robot_mcp_kit.client.inbox import Inbox
from robot_mcp_kit.client.schemas import ArgumentChecker
from robot_mcp_kit.client.templates import expand
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import sign

from .conftest import NOW, SECRET, Signer

REQUESTS = int(os.environ.get("ROBOT_MCP_KIT_FUZZ", "400"))
FUZZ = settings(
    max_examples=REQUESTS,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

_text = st.text(max_size=20) | st.sampled_from(["", "\0", "\ud800", "é", "navigation", "arm", "sha256="])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(
    ["schema_version", "event_id", "task_id", "server", "tool", "type", "seq", "ts", "payload", "extra"]
)
_headers = st.sampled_from(
    ["x-rvc-server", "x-rvc-timestamp", "x-rvc-signature", "content-length", "x-other"]
)
_header_value = st.binary(max_size=30) | st.sampled_from(
    [b"navigation", b"arm", str(NOW).encode(), b"sha256=" + b"0" * 64, b"-1", b"1e9", b"\xd9\xa1"]
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], bytes, bool]:
    """Headers, a body, and whether it is really signed by a server that is known."""
    event: dict[str, Any] = Signer().event(draw(st.integers(1, 50)))
    for _ in range(draw(st.integers(0, 3))):
        event[draw(_fields)] = draw(_json)
    if draw(st.booleans()):
        event.pop(draw(_fields), None)
    text = json.dumps(event, ensure_ascii=draw(st.booleans()))
    body = draw(st.just(text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
    signed = draw(st.booleans())
    headers = {
        b"x-rvc-server": b"navigation",
        b"x-rvc-timestamp": str(NOW).encode(),
        b"x-rvc-signature": f"sha256={sign(SECRET if signed else 'other', NOW, body)}".encode(),
    }
    pairs = list(headers.items())
    changed = False
    for _ in range(draw(st.integers(0, 2))):
        name, value = draw(_headers), draw(_header_value)
        changed = True
        match draw(st.sampled_from(["replace", "add", "drop"])):
            case "replace":
                pairs = [(key, value if key == name.encode() else old) for key, old in pairs]
            case "add":
                pairs.append((name.encode(), value))
            case _:
                pairs = [(key, old) for key, old in pairs if key != name.encode()]
    return pairs, body, signed and not changed


_INBOX = Inbox({"navigation": SECRET, "arm": "another"}, wall_clock=lambda: NOW)
_APP = events_app(_INBOX)


async def _post(headers: list[tuple[bytes, bytes]], body: bytes) -> int:
    sent: list[Any] = []
    parts = iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": EVENTS_PATH, "headers": headers}
    await _APP(scope, receive, send)
    json.loads(sent[1]["body"])
    return int(sent[0]["status"])


def _really_signed(headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    """Judged anew, by other code than the inbox's."""
    found = dict(headers)
    try:
        server = found[b"x-rvc-server"].decode("ascii")
        secret = {"navigation": SECRET, "arm": "another"}[server]
        good = f"sha256={sign(secret, NOW, body)}".encode()
        event = json.loads(body)
        return (
            found[b"x-rvc-timestamp"] == str(NOW).encode()
            and found[b"x-rvc-signature"].lower() == good
            and event["server"] == server
        )
    except (KeyError, ValueError, TypeError):
        return False


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@FUZZ
@given(fuzzed=requests())
def test_no_request_brings_a_500_and_nothing_unverified_is_accepted(
    runner: asyncio.Runner, fuzzed: tuple[list[tuple[bytes, bytes]], bytes, bool]
) -> None:
    """K170, G64."""
    headers, body, signed = fuzzed
    before = _INBOX.book.position
    status = runner.run(_post(headers, body))
    assert status in (200, 400, 401, 411, 413)
    if status == 200:
        assert _really_signed(headers, body)
        TaskEvent.model_validate_json(body)
    else:
        assert _INBOX.book.position == before
    if signed and status == 401:
        assert json.loads(body)["server"] != "navigation", "refused for its server alone"


@settings(FUZZ, max_examples=max(100, REQUESTS // 100))
@given(_json, st.dictionaries(_text, _json, max_size=3))
def test_no_schema_and_no_arguments_bring_the_checker_down(schema: Any, arguments: dict[str, Any]) -> None:
    """A39."""
    checker = ArgumentChecker(copy.deepcopy(schema))
    checker.problems(arguments)


_schema = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "string", "number", "array", "nonsense", 5]),
            "pattern": st.sampled_from(["a+", "(a+)+$", "(?<n>x)", "[", "\\p{L}", 5]),
            "$ref": st.sampled_from(
                [
                    *("#", "#/$defs/a", "#/$defs/a/not", "#/x-other", "#/properties/a", "#a", 5),
                    *("http://evil.example/x.json", "file:///etc/passwd", "http://["),
                ]
            ),
            "enum": st.lists(st.integers(), max_size=2),
            "required": st.lists(_text, max_size=2) | st.integers(),
            "minimum": st.integers() | _text,
            "multipleOf": st.sampled_from([0.5, 1e-300, 3, 0]),
            "$id": st.sampled_from(["http://evil.example/", "http://[", "#a", "", 5]),
            "id": st.sampled_from(["http://evil.example/", "http://["]),
            "$schema": st.sampled_from(
                [
                    *(f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)),
                    *("https://json-schema.org/draft/2019-09/schema", "http://x.example/y"),
                    *("http://[", "", 1, None),
                ]
            ),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(_text, inner, max_size=3)},
        optional={
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.just("a"), inner),
            "not": inner,
            "additionalProperties": inner,
            "dependencies": st.dictionaries(_text, inner | st.lists(_text, max_size=2), max_size=2),
            "x-other": inner,
        },
    ),
    max_leaves=6,
)


@settings(FUZZ, max_examples=max(100, REQUESTS // 100))
@given(_schema, st.dictionaries(_text, _json, max_size=3))
def test_whatever_a_schema_says_nothing_is_fetched_and_nothing_breaks(
    schema: Any, arguments: dict[str, Any]
) -> None:
    """A39: no reference leads out, no pattern takes for ever."""
    checker = ArgumentChecker(schema)
    checker.problems(arguments)
    if isinstance(schema, dict) and isinstance(schema.get("required"), list):
        missing = [name for name in schema["required"] if isinstance(name, str) and name not in arguments]
        if missing and "$" in checker.dropped:
            assert checker.problems(arguments), "required stays required"


@given(st.text(), st.dictionaries(st.sampled_from(["A", "TOKEN"]), st.text(max_size=10)))
def test_expansion_never_shows_a_secret_and_never_fails(template: str, environment: dict[str, str]) -> None:
    """A14, A28."""
    expanded = expand("${TOKEN:-d3f4ult}" + template, environment)
    secret = environment.get("TOKEN") or "d3f4ult"
    if len(secret) > 3 and secret not in template and secret not in environment.get("A", ""):
        assert secret not in expanded.shown()
