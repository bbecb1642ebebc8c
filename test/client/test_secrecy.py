"""What is secret, what is hashed and what is shown (A9-A11, A14)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.client.definitions import Definition, decode
from robot_mcp_kit.client.fingerprint import fingerprint, fingerprint_input
from robot_mcp_kit.client.materializing import Materialized, materialize
from robot_mcp_kit.client.projection import endpoint, projection
from robot_mcp_kit.client.secrecy import is_credential_name, masked_argv, masked_literals, masked_url

PLANTED = "pl4nt3d-s3cr3t-v4lu3"
ENVIRONMENT = {"API_TOKEN": PLANTED, "HOST": "127.0.0.1", "NODE_OPTIONS": "--max-old-space-size=512"}


def server(environment: dict[str, str] | None = None, **entry: Any) -> Materialized:
    decoded = decode({"servers": {"a": entry}})
    assert not decoded.malformed, decoded.malformed
    return materialize(decoded.definitions["a"], ENVIRONMENT if environment is None else environment)


def http(environment: dict[str, str] | None = None, **more: Any) -> Materialized:
    return server(environment, **({"type": "http", "url": "http://${HOST}:1/mcp"} | more))


def stdio(environment: dict[str, str] | None = None, **more: Any) -> Materialized:
    return server(environment, **({"command": "python", "args": ["a.py"]} | more))


@pytest.mark.parametrize(
    "name",
    [
        *("TOKEN", "API_TOKEN", "apiKey", "X-Api-Key", "Authorization", "Cookie", "DB_PASSWORD"),
        *("DATABASE_DSN", "GHTOKEN", "client_secret"),
    ],
)
def test_a_credential_is_told_by_its_name(name: str) -> None:
    assert is_credential_name(name)


@pytest.mark.parametrize("name", ["MONKEY", "AUTHOR", "KEYBOARD", "TOKENIZER", "PATH", "X-Name", "PASSIVE"])
def test_an_ordinary_name_is_no_credential(name: str) -> None:
    assert not is_credential_name(name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (stdio(), stdio(command="python3")),
        (stdio(), stdio(args=["b.py"])),
        (stdio(args=["a", "b"]), stdio(args=["b", "a"])),
        (stdio(), stdio(cwd="sub")),
        (stdio(), stdio(timeouts={"call_s": 31})),
        (stdio(), stdio(env={"X": "1"})),
        (stdio(env={"X": "1"}), stdio(env={"X": "2"})),
        (
            stdio(env={"N": "${NODE_OPTIONS}"}),
            stdio({"NODE_OPTIONS": "--require evil"}, env={"N": "${NODE_OPTIONS}"}),
        ),
        (http(), http(url="http://127.0.0.1:2/mcp")),
        (http(), http({"HOST": "127.0.0.2"})),
        (http(), http(headers={"X-Name": "a"})),
        (http(headers={"X-Name": "a"}), http(headers={"X-Name": "b"})),
        (http(), http(auth="host")),
        (
            http(headers={"Authorization": "Bearer ${API_TOKEN}"}),
            http(headers={"Authorization": "Bearer ${B_TOKEN}"}),
        ),
        (http(url="http://${HOST}/${API_TOKEN}"), http(url="http://${HOST}/x${API_TOKEN}")),
    ],
)
def test_whatever_decides_what_runs_or_where_it_connects_changes_the_fingerprint(
    before: Materialized, after: Materialized
) -> None:
    """A9."""
    assert fingerprint(before) != fingerprint(after)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "http", "url": "http://127.0.0.1/", "headers": {"Authorization": "Bearer ${API_TOKEN}"}},
        {"type": "http", "url": "http://127.0.0.1/?t=${API_TOKEN}", "headers": {"X-Name": "v ${API_TOKEN}"}},
        {"type": "http", "url": "http://u:${API_TOKEN}@127.0.0.1/"},
        {
            "command": "x",
            "args": ["--t", "${API_TOKEN}"],
            "env": {"API_KEY": "${API_TOKEN}", "N": "${API_TOKEN}"},
        },
        {"command": "x", "event_secrets": ["${API_TOKEN}"]},
    ],
)
def test_rotating_a_credential_changes_no_fingerprint_and_no_secret_is_in_its_input(
    entry: dict[str, Any],
) -> None:
    """A10."""
    before, after = server(**entry), server({"API_TOKEN": "another"}, **entry)
    assert PLANTED in before.secrets()
    assert fingerprint(before) == fingerprint(after)
    assert PLANTED not in fingerprint_input(before)


def test_a_literal_under_a_credential_name_may_be_rotated_too() -> None:
    """A10."""
    one = http(headers={"Authorization": "Bearer " + PLANTED})
    assert fingerprint(one) == fingerprint(http(headers={"Authorization": "Bearer other"}))
    assert PLANTED not in fingerprint_input(one)


def test_a_default_of_a_credential_variable_is_a_secret() -> None:
    """A14."""
    one = stdio({}, args=["${API_TOKEN:-" + PLANTED + "}"])
    assert PLANTED in one.secrets()
    assert PLANTED not in json.dumps(projection(one)) + endpoint(one) + fingerprint_input(one)


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_argument_lists_have_different_fingerprints(one: list[str], other: list[str]) -> None:
    """A11: also when they join to the same text."""
    made = [materialize(Definition("a", "stdio", command="x", args=tuple(args)), {}) for args in (one, other)]
    assert (fingerprint(made[0]) == fingerprint(made[1])) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [(["a b"], ["a", "b"]), (["a", ""], ["a"]), (['a","b'], ["a", "b"])]
)
def test_argument_lists_that_join_to_the_same_text_differ(one: list[str], other: list[str]) -> None:
    """A11."""
    assert fingerprint(stdio(args=one)) != fingerprint(stdio(args=other))


def test_a_marker_cannot_be_imitated_by_a_literal() -> None:
    real = stdio(args=["${API_TOKEN}"])
    marker = json.dumps([{"secret_of": "API_TOKEN"}])
    assert fingerprint(real) != fingerprint(stdio(args=[marker]))
    assert fingerprint(real) != fingerprint(stdio(args=[real.args[0].shown()]))


def test_the_capitals_of_a_header_name_do_not_matter() -> None:
    assert fingerprint(http(headers={"X-Name": "1"})) == fingerprint(http(headers={"x-name": "1"}))


def test_keys_are_shown_and_values_are_not() -> None:
    """A14."""
    shown = projection(http(headers={"Authorization": "Bearer " + PLANTED, "X-Name": "plain"}))
    assert shown["headers"] == ["Authorization", "X-Name"]
    assert "plain" not in json.dumps(shown)
    assert projection(http())["headers"] == []


def test_an_endpoint_stays_readable_around_its_secrets() -> None:
    """A14."""
    assert endpoint(http()) == "http://127.0.0.1:1/mcp"
    shown = endpoint(stdio(args=["serve.py", "--name", "arm", "--token", PLANTED, "--x=${API_TOKEN}"]))
    assert "serve.py --name arm --token" in shown
    assert "API_TOKEN" in shown
    assert PLANTED not in shown


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{PLANTED}@host/path",
        f"https://host/?api_key={PLANTED}&x=1",
        f"http://host:80/a?x=1&token={PLANTED}",
        f"https://host/#password={PLANTED}",
    ],
)
def test_a_secret_in_a_url_is_masked_and_the_rest_is_not(text: str) -> None:
    """A14."""
    shown = masked_url(text)
    assert PLANTED not in shown
    assert "host" in shown


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrst",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc",
        "AKIAABCDEFGHIJKLMNOP",
        "deadbeef" * 8,
        "A1b2C3d4" * 6,
    ],
)
def test_what_looks_like_a_token_is_masked_wherever_it_stands(secret: str) -> None:
    """A14."""
    assert secret not in masked_literals(f"run with {secret} now")
    assert secret not in " ".join(masked_argv(["x", secret, f"--opt={secret}"]))
    assert "/usr/bin/python3.11" in masked_argv(["/usr/bin/python3.11"])


def test_no_repr_shows_a_secret() -> None:
    """A14."""
    one = http(headers={"Authorization": PLANTED, "X": "${API_TOKEN}"}, event_secrets=[PLANTED])
    other = stdio(args=[PLANTED], env={"API_KEY": PLANTED, "B": "${API_TOKEN}"}, cwd="${API_TOKEN}")
    for thing in (one, other, one.definition, other.definition, one.headers["X"]):
        assert PLANTED not in repr(thing)
        assert PLANTED not in str(thing)
    assert dataclasses.is_dataclass(one)
