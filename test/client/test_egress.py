"""Where connections go, and where they do not (A6, A7, A8)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from robot_mcp_kit.client.admitting import admitted
from robot_mcp_kit.client.egress import EgressPolicy
from robot_mcp_kit.client.failures import Backoff
from robot_mcp_kit.client.refusals import FailureClass, RefusedError
from robot_mcp_kit.client.supervisor import Supervisor

from .hostile import FakeMcp, resolution, supervised, trusting_host
from .serving import serving

PUBLIC = "93.184.216.34"


def resolver(*answers: str | list[str]) -> Any:
    """Answers one after the other, the last one for ever."""
    left = list(answers)

    async def look_up(host: str, port: int) -> list[str]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return [answer] if isinstance(answer, str) else answer

    return look_up


@pytest.mark.parametrize(
    ("url", "resolves_to", "code"),
    [
        ("http://example.com/mcp", PUBLIC, "plain_http"),
        (f"http://{PUBLIC}/mcp", PUBLIC, "plain_http"),
        ("https://robot.example/mcp", "10.0.0.5", "private_address"),
        ("https://robot.example/mcp", "192.168.1.7", "private_address"),
        ("https://robot.example/mcp", "172.16.0.1", "private_address"),
        ("https://robot.example/mcp", "100.64.1.1", "private_address"),
        ("https://robot.example/mcp", "169.254.1.1", "private_address"),
        ("https://robot.example/mcp", "fd12::1", "private_address"),
        ("https://robot.example/mcp", "fe80::1%eth0", "private_address"),
        ("https://robot.example/mcp", "::ffff:10.0.0.5", "private_address"),
        ("https://robot.example/mcp", "64:ff9b::a00:5", "private_address"),
        ("https://robot.example/mcp", "2002:a00:5::", "private_address"),
        ("https://robot.example/mcp", "::ffff:169.254.169.254", "metadata_address"),
        ("https://robot.example/mcp", "0.0.0.0", "private_address"),
        ("https://robot.example/mcp", "::", "private_address"),
        ("https://robot.example/mcp", "224.0.0.1", "private_address"),
        ("https://robot.example/mcp", "127.0.0.1", "private_address"),
        ("http://robot.example/mcp", "127.0.0.1", "private_address"),
        ("http://2130706433/mcp", "127.0.0.1", "private_address"),
        ("http://0x7f.1/mcp", "127.0.0.1", "private_address"),
        ("http://169.254.169.254/latest", "x", "metadata_address"),
        ("http://[fd00:ec2::254]/latest", "x", "metadata_address"),
        ("https://metadata.google.internal/x", PUBLIC, "metadata_address"),
        ("https://robot.example/mcp", "169.254.169.254", "metadata_address"),
        ("http://10.0.0.5/mcp", "x", "private_address"),
        ("ftp://example.com/", PUBLIC, "bad_scheme"),
        ("file:///etc/passwd", PUBLIC, "bad_scheme"),
        ("http:///mcp", PUBLIC, "bad_url"),
        ("http://[::1/mcp", PUBLIC, "bad_url"),
        ("http://x:99999/mcp", PUBLIC, "bad_url"),
        ("", PUBLIC, "bad_scheme"),
    ],
)
async def test_a_place_that_is_not_allowed_is_refused_by_its_name(
    url: str, resolves_to: str, code: str
) -> None:
    """A6."""
    with pytest.raises(RefusedError) as caught:
        await EgressPolicy(resolver=resolver(resolves_to)).admit(url)
    assert caught.value.refusal.code == code


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    """A6."""
    with pytest.raises(RefusedError):
        await EgressPolicy(resolver=resolver([PUBLIC, "10.0.0.5"])).admit("https://robot.example/")


@pytest.mark.parametrize(
    ("url", "resolves_to", "named"),
    [
        ("http://127.0.0.1:8765/mcp", "x", ()),
        ("http://[::1]:8765/mcp", "x", ()),
        ("http://localhost:8765/mcp", ["::1", "127.0.0.1"], ()),
        ("https://example.com/mcp", PUBLIC, ()),
        ("http://robot.local:8765/mcp", "192.168.1.7", ("robot.local",)),
        ("http://ROBOT.local:8765/mcp", "192.168.1.7", ("robot.local:8765",)),
        ("http://192.168.1.7/mcp", "x", ("192.168.1.7",)),
    ],
)
async def test_this_machine_public_https_and_named_robots_are_allowed(
    url: str, resolves_to: Any, named: tuple[str, ...]
) -> None:
    """A6: and robots live in private ranges."""
    place = await EgressPolicy(named, resolver=resolver(resolves_to)).admit(url)
    assert place.addresses


@pytest.mark.parametrize(
    ("url", "named"),
    [("http://robot.local:9999/", ("robot.local:8765",)), ("http://169.254.169.254/", ("169.254.169.254",))],
)
async def test_naming_a_host_allows_no_other_port_and_never_a_metadata_service(
    url: str, named: tuple[str, ...]
) -> None:
    with pytest.raises(RefusedError):
        await EgressPolicy(named, resolver=resolver("192.168.1.7")).admit(url)


async def test_a_name_that_cannot_be_looked_up_may_come_back() -> None:
    async def nobody(host: str, port: int) -> list[str]:
        raise socket.gaierror("no such name")

    with pytest.raises(RefusedError) as caught:
        await EgressPolicy(resolver=nobody).admit("https://robot.example/")
    assert caught.value.refusal.failure_class is FailureClass.TRANSIENT


async def test_a_refused_place_gets_no_connection_and_no_header() -> None:
    """A6: a real server listens there and hears nothing."""
    app = FakeMcp()
    async with serving(app) as url:
        port = url.rsplit(":", 1)[1]
        entry = {"type": "http", "url": f"http://robot.example:{port}/mcp", "headers": {"X-Key": "s"}}
        host = trusting_host(egress=EgressPolicy(resolver=resolver("127.0.0.1")))
        supervisor = Supervisor(resolution(arm=entry), host)
        with pytest.raises(RefusedError) as caught:
            await supervisor["arm"].catalog()
        await supervisor.aclose()
    assert caught.value.refusal.code == "private_address"
    assert supervisor["arm"].connects == 1
    assert app.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("same_origin", [True, False])
async def test_a_redirect_is_refused_its_target_never_contacted_and_nothing_tried_again(
    status: int, same_origin: bool
) -> None:
    """A7: also within the origin, where the SDK alone would follow."""
    target = FakeMcp()
    async with serving(target) as elsewhere:
        app = FakeMcp(status=status, location="/other" if same_origin else f"{elsewhere}/mcp")
        async with supervised(app, backoff=Backoff(first_s=0.001)) as arm:
            with pytest.raises(RefusedError) as caught:
                await arm.connected()
            assert caught.value.refusal.code == "redirect"
            assert caught.value.refusal.failure_class is FailureClass.CONFIG
            assert arm.connects == 1
            assert arm.state == "failed"
    assert target.asked == []
    assert len(app.asked) <= 2, "the probe and the handshake, once each"


async def test_a_redirect_of_a_call_is_refused_and_the_connection_stays() -> None:
    """A7."""
    target = FakeMcp()
    async with serving(target) as elsewhere:
        app = FakeMcp()
        async with supervised(app) as arm:
            await arm.connected()
            app.status, app.location = 307, f"{elsewhere}/mcp"
            with pytest.raises(Exception, match="redirects"):
                await arm.call("grasp", {"force_n": 1})
            app.status = None
            assert (await arm.call("grasp", {"force_n": 1})).content() == {"did": "grasp"}
    assert target.asked == []


async def test_a_name_that_turns_private_between_admission_and_connection_is_refused() -> None:
    """A8: the server that listens where it now points hears nothing."""
    app = FakeMcp()
    async with serving(app) as url:
        port = url.rsplit(":", 1)[1]
        entry = {"type": "http", "url": f"https://robot.example:{port}/mcp", "headers": {"X-Key": "s"}}
        policy = EgressPolicy(resolver=resolver(PUBLIC, "127.0.0.1"))
        host = trusting_host(egress=policy)
        link = await admitted(resolution(arm=entry).servers["arm"], host)
        assert link.guard is not None

        supervisor = Supervisor(
            resolution(arm=entry), trusting_host(egress=EgressPolicy(resolver=resolver(PUBLIC, "127.0.0.1")))
        )
        with pytest.raises(RefusedError) as caught:
            await supervisor["arm"].connected()
        await supervisor.aclose()
    assert caught.value.refusal.code == "private_address"
    assert app.asked == []


async def test_the_connection_goes_to_the_judged_address_and_the_name_only_to_the_server() -> None:
    """A8: no second look-up stands between the judgement and the connection."""
    app = FakeMcp()
    async with serving(app) as url:
        port = url.rsplit(":", 1)[1]
        host = trusting_host(egress=EgressPolicy(("robot.example",), resolver=resolver("127.0.0.1")))
        supervisor = Supervisor(
            resolution(arm={"type": "http", "url": f"http://robot.example:{port}/mcp"}), host
        )
        assert (await supervisor["arm"].catalog()).complete
        await supervisor.aclose()
    assert {one.headers["host"] for one in app.asked} == {f"robot.example:{port}"}


async def test_the_next_address_is_tried_where_nobody_answers() -> None:
    """G70: localhost is ::1 there and 127.0.0.1 here."""
    app = FakeMcp()
    async with serving(app) as url:
        port = url.rsplit(":", 1)[1]
        host = trusting_host(egress=EgressPolicy(resolver=resolver(["::1", "127.0.0.1"])))
        supervisor = Supervisor(resolution(arm={"type": "http", "url": f"http://localhost:{port}/mcp"}), host)
        assert (await supervisor["arm"].catalog()).complete
        await supervisor.aclose()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """G69."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with supervised(FakeMcp()) as arm:
        assert (await arm.catalog()).complete
    await asyncio.sleep(0)
