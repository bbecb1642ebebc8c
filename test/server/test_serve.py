"""The endpoint's socket and the server that runs in the node's loop."""

from __future__ import annotations

import socket

import httpx
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.server.listening import bind, is_loopback
from robot_mcp_kit.server.serve import KEEP_ALIVE_S, serving


def test_small_answers_are_not_held_back() -> None:
    """asyncio switches Nagle's algorithm off only where the socket names its protocol."""
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_an_address_in_use_is_told_with_the_way_out() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} .*another port"):
            bind("127.0.0.1", port)


def test_a_host_that_does_not_exist_is_told() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no\.such\.host\.invalid"):
        bind("no.such.host.invalid", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_these_hosts_are_this_machine_only(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "robot.local", "", "127.0.0.1.evil.example"]
)
def test_these_hosts_are_not(host: str) -> None:
    """B41."""
    assert not is_loopback(host)


async def test_it_serves_while_the_block_runs_and_not_after() -> None:
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    async with httpx.AsyncClient(trust_env=False) as http:
        async with serving(app, listener):
            assert (await http.get(url)).text == "here"
        with pytest.raises(httpx.TransportError):
            await http.get(url)


async def test_an_application_that_cannot_start_is_told() -> None:
    def broken(_: Starlette) -> None:
        raise ValueError("no robot today")

    listener = bind("127.0.0.1", 0)
    with pytest.raises(RuntimeError, match="ended before it was ready"):
        async with serving(Starlette(lifespan=broken), listener):
            pass
    listener.close()


def test_idle_connections_outlive_those_of_the_clients() -> None:
    """A call must not leave on a connection that is being closed: nobody could say whether it arrived."""
    for client in (httpx.Limits(), httpx2.Limits()):
        assert client.keepalive_expiry is not None
        assert client.keepalive_expiry * 2 < KEEP_ALIVE_S
