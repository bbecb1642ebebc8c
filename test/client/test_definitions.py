"""What a server is: decoding, precedence, overlay, templates (A1-A5, A26-A29)."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.definitions import Timeouts, decode
from robot_mcp_kit.client.materializing import materialize
from robot_mcp_kit.client.refusals import RefusedError
from robot_mcp_kit.client.resolution import resolve
from robot_mcp_kit.client.sources import Source, Tier, document_source, read_source

HTTP = {"type": "http", "url": "http://127.0.0.1:8765/mcp"}


def source(tier: Tier, origin: str = "", **servers: Any) -> Source:
    return document_source(tier, origin or tier.name.lower(), {"servers": servers})


def unreadable(tier: Tier, origin: str = "") -> Source:
    return document_source(tier, origin or tier.name.lower(), {"servers": "oops"})


def test_the_whole_entry_of_the_highest_source_wins_and_every_loser_is_listed() -> None:
    """A1."""
    sources = [
        source(tier, navigation=HTTP | {"url": f"http://127.0.0.1/{tier.name}"}) for tier in reversed(Tier)
    ]
    one = resolve(sources).servers["navigation"]
    assert one.definition is not None
    assert one.definition.url.endswith("MANAGED")
    assert [text.split(":")[0] for text in one.shadowed] == ["local", "project", "user", "plugin"]


def test_a_plugin_does_not_replace_what_the_user_configured_but_adds_names_of_its_own() -> None:
    """A1."""
    resolution = resolve(
        [
            source(Tier.PLUGIN, navigation=HTTP | {"url": "http://127.0.0.1:1/"}, extra=HTTP),
            source(Tier.USER, navigation=HTTP),
        ]
    )
    assert resolution.servers["navigation"].tier is Tier.USER
    assert resolution.servers["extra"].tier is Tier.PLUGIN


def test_entries_are_never_merged() -> None:
    """A2: the winner has no header, whatever the loser has."""
    one = resolve(
        [
            source(Tier.LOCAL, navigation=HTTP),
            source(Tier.USER, navigation=HTTP | {"headers": {"X-Extra": "1"}, "timeouts": {"call_s": 1}}),
        ]
    ).servers["navigation"]
    assert one.definition is not None
    assert one.definition.headers == {}
    assert one.definition.timeouts == Timeouts()


def test_a_malformed_highest_entry_leaves_the_name_without_a_server() -> None:
    """A3."""
    one = resolve(
        [source(Tier.LOCAL, navigation={"type": "http"}), source(Tier.USER, navigation=HTTP)]
    ).servers["navigation"]
    assert not one.usable
    assert one.refusal is not None
    assert (one.refusal.code, one.refusal.field) == ("malformed", "url")
    assert one.shadowed == ("user: user",)


def test_an_unreadable_managed_source_blocks_every_name_from_below_and_no_managed_one() -> None:
    """A4."""
    resolution = resolve(
        [
            unreadable(Tier.MANAGED, "/etc/broken.yaml"),
            source(Tier.MANAGED, "/etc/good.yaml", arm=HTTP),
            source(Tier.USER, navigation=HTTP),
            source(Tier.PLUGIN, extra=HTTP),
        ]
    )
    assert resolution.servers["arm"].usable
    for name in ("navigation", "extra"):
        refusal = resolution.servers[name].refusal
        assert refusal is not None
        assert refusal.code == "managed_source_unreadable"
        assert "/etc/broken.yaml" in refusal.message


@pytest.mark.parametrize("tier", [tier for tier in Tier if tier is not Tier.MANAGED])
def test_an_unreadable_other_source_is_reported_beside_what_resolves(tier: Tier) -> None:
    """A5."""
    resolution = resolve([unreadable(tier, "broken"), source(Tier.PLUGIN, navigation=HTTP)])
    assert resolution.servers["navigation"].usable
    assert [problem.field for problem in resolution.problems] == ["broken"]


@pytest.mark.parametrize("document", [None, [], "x", {}, {"servers": []}, {"servers": {}, "mcpServers": {}}])
def test_a_document_that_is_none_is_unreadable_as_a_whole(document: Any) -> None:
    """A4."""
    assert decode(document).unreadable is not None


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"url": "http://127.0.0.1/"}, "type"),
        ({"type": "http", "url": "http://x", "command": "python"}, "command"),
        ({"type": "http", "url": "http://x", "env": {}}, "env"),
        ({"command": "python", "url": "http://x"}, "type"),
        ({"command": "python", "type": "stdio", "headers": {}}, "headers"),
        ({"command": "python", "args": [1]}, "args"),
        ({"command": "python", "args": "x"}, "args"),
        ({"command": "python", "env": {"A": 1}}, "env.A"),
        ({"command": "python", "env": {"A": None}}, "env.A"),
        (HTTP | {"headers": {"X": True}}, "headers.X"),
        (HTTP | {"headers": {"X": "a\r\nEvil: 1"}}, "headers.X"),
        (HTTP | {"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        (HTTP | {"timeouts": {"call_s": 0}}, "timeouts.call_s"),
        (HTTP | {"timeouts": {"call_s": -1}}, "timeouts.call_s"),
        (HTTP | {"timeouts": {"call_s": float("nan")}}, "timeouts.call_s"),
        (HTTP | {"timeouts": {"call_s": "5"}}, "timeouts.call_s"),
        (HTTP | {"timeouts": {"call_s": True}}, "timeouts.call_s"),
        (HTTP | {"timeouts": {"cal_s": 5}}, "timeouts.cal_s"),
        (HTTP | {"type": "gopher"}, "type"),
        (HTTP | {"requires_trusted_workspace": "no"}, "requires_trusted_workspace"),
        ({"type": "stdio"}, "command"),
        ({"command": "py\0thon"}, "command"),
        ({}, "command"),
        ("http://127.0.0.1/", ""),
        (None, ""),
    ],
)
def test_a_bad_entry_is_refused_by_name_and_its_siblings_survive(entry: Any, field: str) -> None:
    """A27."""
    decoded = decode({"servers": {"bad": entry, "good": HTTP}})
    assert list(decoded.definitions) == ["good"]
    assert decoded.malformed["bad"].field == field
    assert decoded.malformed["bad"].server == "bad"


@pytest.mark.parametrize("name", ["", "naïve", "a\nb", 5, None])
def test_a_name_that_no_header_can_carry_is_refused(name: Any) -> None:
    decoded = decode({"servers": {name: HTTP, "good": HTTP}})
    assert list(decoded.definitions) == ["good"]
    assert len(decoded.malformed) == 1


def test_the_mcp_servers_json_of_other_tools_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "node", "args": ["x.js"], "env": {"K": "v"}, "alwaysAllow": []},'
        ' "b": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp"}, "c": {"type": "sse", "url": "http://x"}}}'
    )
    decoded = read_source(path, Tier.USER).decoded
    assert {name: one.transport for name, one in decoded.definitions.items()} == {
        "a": "stdio",
        "b": "http",
        "c": "sse",
    }
    assert [(note.server, note.field) for note in decoded.notes] == [("a", "alwaysAllow")]


def test_a_yaml_file_is_read_with_its_timeouts(tmp_path: Path) -> None:
    path = tmp_path / "mcp.yaml"
    path.write_text(
        "servers:\n  navigation:\n    type: http\n    url: http://127.0.0.1:8765/mcp\n"
        "    timeouts: {call_s: 5, idle_s: null}\n"
    )
    (definition,) = read_source(path, Tier.USER).decoded.definitions.values()
    assert definition.timeouts == Timeouts(call_s=5.0, idle_s=None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mcp.yaml", "servers: {a: {command: x}, a: {command: y}}"),
        ("mcp.yaml", "servers: [unclosed"),
        ("mcp.yaml", "servers: !!python/object/apply:os.system ['true']"),
        ("mcp.json", '{"servers": {"a": {}, "a": {}}}'),
        ("mcp.json", "{"),
        ("mcp.json", ""),
        ("mcp.json", "[" * 100_000),
        ("mcp.yaml", "x: " + "y" * 2_000_000),
    ],
)
def test_a_file_that_cannot_be_parsed_is_unreadable_and_is_not_quoted(
    tmp_path: Path, name: str, text: str
) -> None:
    """A4, A14."""
    path = tmp_path / name
    path.write_text(text)
    unreadable = read_source(path, Tier.MANAGED).decoded.unreadable
    assert unreadable is not None
    assert len(unreadable.message) < 100


def test_a_file_that_is_not_there_defines_nothing_and_blocks_nothing(tmp_path: Path) -> None:
    resolution = resolve([read_source(tmp_path / "none.yaml", Tier.MANAGED), source(Tier.USER, a=HTTP)])
    assert resolution.servers["a"].usable


def test_a_folder_in_the_place_of_a_managed_file_blocks(tmp_path: Path) -> None:
    """A4."""
    resolution = resolve([read_source(tmp_path, Tier.MANAGED), source(Tier.USER, a=HTTP)])
    assert not resolution.servers["a"].usable


def test_decoding_touches_neither_network_nor_processes_nor_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A26."""

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("decoding must not do that")

    class Sealed(Mapping[str, str]):
        __getitem__ = forbidden
        __iter__ = forbidden  # type: ignore[assignment]
        __len__ = forbidden

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", forbidden)
        patch.setattr(socket, "getaddrinfo", forbidden)
        patch.setattr(subprocess, "Popen", forbidden)
        patch.setattr(os, "environ", Sealed())
        sources = [source(Tier.USER, a=HTTP | {"headers": {"A": "${TOKEN}"}}, b={"command": "${HOME}/x"})]
        resolution = resolve(sources)
    assert all(one.usable for one in resolution.servers.values())


def test_an_unset_variable_stays_as_it_is_and_is_reported_with_its_field() -> None:
    """A28."""
    decoded = decode({"servers": {"a": HTTP | {"headers": {"X-Name": "hello ${NOBODY} ${SOMEBODY}"}}}})
    server = materialize(decoded.definitions["a"], {"SOMEBODY": "you"})
    assert server.headers["X-Name"].text == "hello ${NOBODY} you"
    assert [(refusal.field, "NOBODY" in refusal.message) for refusal in server.unset] == [
        ("headers.X-Name", True)
    ]


@pytest.mark.parametrize(
    ("environment", "text"),
    [({}, "a-b"), ({"V": ""}, "a-b"), ({"V": "x"}, "a-x"), ({"V": "${W}", "W": "no"}, "a-${W}")],
)
def test_a_default_stands_in_for_what_is_unset_or_empty_and_values_are_not_expanded_again(
    environment: dict[str, str], text: str
) -> None:
    """A28."""
    decoded = decode({"servers": {"a": {"command": "a-${V:-b}"}}})
    assert materialize(decoded.definitions["a"], environment).command.text == text


def test_an_empty_variable_without_default_is_empty() -> None:
    decoded = decode({"servers": {"a": {"command": "a${V}"}}})
    server = materialize(decoded.definitions["a"], {"V": ""})
    assert (server.command.text, server.unset) == ("a", ())


def test_a_disabled_server_stays_listed_with_the_reason_and_comes_back_unchanged() -> None:
    """A29."""
    resolution = resolve([source(Tier.USER, a=HTTP, b=HTTP)])
    off = resolution.with_disabled({"a": "its gripper is being repaired"})
    assert off.servers["a"].disabled == "its gripper is being repaired"
    assert not off.servers["a"].usable
    assert off.servers["a"].definition == resolution.servers["a"].definition
    assert off.servers["b"].usable
    assert off.with_disabled({}) == resolution


def test_switching_off_what_is_not_there_is_an_error() -> None:
    """A29."""
    with pytest.raises(RefusedError) as caught:
        resolve([source(Tier.USER, a=HTTP)]).with_disabled({"typo": "x"})
    assert caught.value.refusal.code == "unknown_server"
