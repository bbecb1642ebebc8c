"""What a poster needs to start, what a request looks like, and how a poster ends."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import SecretStr
from standardwebhooks import Webhook

from robot_mcp_kit import EventPoster, TaskContext, TaskManager, verify
from robot_mcp_kit.testing import FakeClock, RecordingReceiver, Reply, assert_eventually, make_event, settle

if TYPE_CHECKING:
    from test.contract.conftest import Endpoint


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RVC_CALLBACK_URL", raising=False)
    monkeypatch.delenv("RVC_EVENT_SECRET", raising=False)


def levels(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        r.getMessage() for r in caplog.records if r.levelno == level and r.name.startswith("robot_mcp_kit")
    ]


# -- the request --------------------------------------------------------------------------------------------


async def test_one_post_per_event_with_the_three_headers() -> None:
    """K108, K112: as they arrive at a socket, once each."""
    raw: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line
        )
        raw.append(head)
        raw.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    poster = EventPoster("navigation", f"http://127.0.0.1:{port}/api/agent/events?robot=1", "s3cret")
    await poster.post(make_event(note="é"))
    await poster.drain()
    await poster.aclose()
    server.close()
    head, body = raw
    lines = head.decode("ascii").split("\r\n")
    assert lines[0] == "POST /api/agent/events?robot=1 HTTP/1.1"
    names = [line.split(":")[0].lower() for line in lines[1:] if line]
    for name in ("content-type", "x-rvc-server", "x-rvc-timestamp", "x-rvc-signature"):
        assert names.count(name) == 1
    values = dict(line.split(": ", 1) for line in lines[1:] if line)
    headers = {name.lower(): value for name, value in values.items()}
    assert headers["content-type"] == "application/json"
    assert headers["x-rvc-server"] == json.loads(body)["server"] == "navigation"
    assert headers["x-rvc-timestamp"].isdecimal()
    assert headers["x-rvc-signature"] == (
        "sha256="
        + hmac.new(b"s3cret", headers["x-rvc-timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    )
    assert "webhook-id" not in headers
    assert "é".encode() in body


async def test_every_request_verifies_at_the_receiver() -> None:
    """K111: and the signature is over the very bytes that arrived (K109)."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        for seq in range(1, 21):
            await poster.post(make_event(seq, text="é\u0000🤖" * seq, value=1.0, nan=float("nan")))
        await receiver.wait_for_events(20)
        await poster.aclose()
    assert receiver.problems == []
    for request in receiver.requests:
        timestamp = int(request.headers["x-rvc-timestamp"])
        assert verify(receiver.secret, timestamp, request.body, request.headers["x-rvc-signature"])


async def test_the_server_header_is_the_bodys_when_managers_share_a_poster() -> None:
    """K112, K145: one poster, several managers."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("robot", receiver.url, receiver.secret)
        managers = [TaskManager(name, poster) for name in ("navigation", "perception")]

        async def body(ctx: TaskContext) -> dict[str, Any]:
            await ctx.progress({})
            return {}

        for manager in managers:
            manager.start("t", body)
        events = await receiver.wait_for_events(4)
        await poster.aclose()
    assert receiver.problems == []
    assert {event.server for event in events} == {"navigation", "perception"}


@pytest.mark.parametrize("secret", ["s3cret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
async def test_standard_webhooks_headers_verify_with_the_official_library(secret: str) -> None:
    """K108: optional headers beside ours; the library that receivers have is the judge."""
    async with RecordingReceiver(secret=secret) as receiver:
        poster = EventPoster("navigation", receiver.url, secret, standard_webhooks=True)
        sent = make_event(note="é")
        await poster.post(sent)
        await receiver.wait_for_events(1)
        await poster.aclose()
    assert receiver.problems == []
    (request,) = receiver.requests
    library = Webhook(secret if secret.startswith("whsec_") else secret.encode())
    assert library.verify(request.body, request.headers) == request.json()
    assert request.headers["webhook-id"] == sent.event_id
    tampered = request.body.replace(b"navi", b"mavi")
    with pytest.raises(Exception, match="signature"):
        library.verify(tampered, request.headers)


async def test_while_a_secret_is_replaced_receivers_with_either_one_verify() -> None:
    """G66: a space-separated list of signatures; a third secret verifies none of them."""
    async with RecordingReceiver(secret="new") as receiver:
        poster = EventPoster(
            "navigation", receiver.url, "new", standard_webhooks=True, former_secrets=["old"]
        )
        await poster.post(make_event())
        await receiver.wait_for_events(1)
        await poster.aclose()
    assert receiver.problems == []
    (request,) = receiver.requests
    for secret in ("new", "old"):
        assert Webhook(secret.encode()).verify(request.body, request.headers) == request.json()
    with pytest.raises(Exception, match="signature"):
        Webhook(b"other").verify(request.body, request.headers)


def test_a_secret_that_standard_webhooks_cannot_use_stops_the_start() -> None:
    """K134."""
    with pytest.raises(ValueError, match="whsec_"):
        EventPoster("navigation", "http://127.0.0.1:9/", "whsec_AAE", standard_webhooks=True)
    EventPoster("navigation", "http://127.0.0.1:9/", "whsec_AAE")


# -- configuration ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", "   ", "\n"])
async def test_without_a_url_tasks_work_and_events_are_logged_at_debug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    """K132, K133: a blank variable counts as unset."""
    if value is not None:
        monkeypatch.setenv("RVC_CALLBACK_URL", value)
    caplog.set_level(logging.DEBUG, "robot_mcp_kit")
    poster = EventPoster("navigation")
    manager = TaskManager("navigation", poster)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 1})
        return {}

    info = await manager.wait(manager.start("t", body).task_id)
    assert info is not None
    assert info.state == "succeeded"
    assert [("progress" in text, "task_done" in text) for text in levels(caplog, logging.DEBUG)] == [
        (True, False),
        (False, True),
    ]
    assert poster.statistics().queued == 0
    await poster.drain()
    await poster.aclose()


@pytest.mark.parametrize("secret", [None, "", "  "])
def test_a_url_without_a_secret_stops_the_start(monkeypatch: pytest.MonkeyPatch, secret: str | None) -> None:
    """K134, K135: naming the variable, wherever the URL came from."""
    with pytest.raises(ValueError, match="RVC_EVENT_SECRET"):
        EventPoster("navigation", "http://127.0.0.1:9/", secret)
    monkeypatch.setenv("RVC_CALLBACK_URL", "http://127.0.0.1:9/")
    if secret is not None:
        monkeypatch.setenv("RVC_EVENT_SECRET", secret)
    with pytest.raises(ValueError, match="RVC_EVENT_SECRET"):
        EventPoster("navigation")


def test_a_secret_without_a_url_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """K136."""
    monkeypatch.setenv("RVC_EVENT_SECRET", "s")
    assert EventPoster("navigation").statistics().queued == 0


async def test_arguments_beat_the_environment_which_is_read_at_construction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K137: not at import."""
    async with (
        RecordingReceiver(secret="from the environment") as one,
        RecordingReceiver(secret="argument") as two,
    ):
        monkeypatch.setenv("RVC_CALLBACK_URL", one.url)
        monkeypatch.setenv("RVC_EVENT_SECRET", one.secret)
        by_environment = EventPoster("navigation")
        by_arguments = EventPoster("navigation", two.url, SecretStr("argument"))
        off = EventPoster("navigation", "")
        monkeypatch.setenv("RVC_CALLBACK_URL", "http://127.0.0.1:9/")
        monkeypatch.setenv("RVC_EVENT_SECRET", "changed")
        for seq, poster in enumerate([by_environment, by_arguments, off], 1):
            await poster.post(make_event(seq))
        assert [e.seq for e in await one.wait_for_events(1)] == [1]
        assert [e.seq for e in await two.wait_for_events(1)] == [2]
        for poster in (by_environment, by_arguments, off):
            await poster.aclose()
    assert (one.problems, two.problems) == ([], [])


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000/x",
        "ftp://127.0.0.1/x",
        "http://",
        "http:///x",
        "events",
        "http://[::1/x",
        "unix:/tmp/x",
        "http://a:b/",
    ],
)
def test_a_url_that_cannot_be_posted_to_stops_the_start(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """K138."""
    with pytest.raises(ValueError, match="callback_url"):
        EventPoster("navigation", url, "s")
    monkeypatch.setenv("RVC_CALLBACK_URL", url)
    with pytest.raises(ValueError, match="RVC_CALLBACK_URL"):
        EventPoster("navigation", secret="s")


def test_construction_needs_no_loop() -> None:
    """K139: and what was built at import time works on the loop that comes later."""
    with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)

        async def main() -> None:
            await poster.post(make_event())
            await receiver.wait_for_events(1)
            await poster.aclose()

        asyncio.run(main())


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_proxy_variables_do_not_apply(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """K129: nor does a NO_PROXY that httpx cannot read break the client."""
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "[::1]")
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await poster.post(make_event())
        await receiver.wait_for_events(1)
        await poster.aclose()


async def test_proxy_variables_apply_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """K129: the switch works."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret, trust_env=True, close_grace_s=0.05)
        await poster.post(make_event())
        while poster.statistics().last_error is None:
            await asyncio.sleep(0.01)
        await poster.aclose()
        assert receiver.requests == []


async def test_neither_secret_nor_signature_is_in_logs_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    """K143: at any level, through success and failure, nor a password in the URL."""
    caplog.set_level(1)
    secret = "very-secret-value"
    async with RecordingReceiver(secret=secret) as receiver:
        receiver.script(500, 401, Reply(drop=True))
        url = receiver.url.replace("http://", "http://user:pass-in-url@") + "?token=in-query"
        poster = EventPoster("navigation", url, secret, clock=(clock := FakeClock()), standard_webhooks=True)
        await poster.post(make_event())

        async def step() -> object:
            if (due_s := clock.next_due_s()) is not None:
                await clock.advance(due_s - clock.now())
            return receiver.events

        await assert_eventually(step)
        text = caplog.text + repr(poster) + str(poster.statistics()) + repr(vars(poster).keys())
        signatures = [r.headers["x-rvc-signature"] for r in receiver.requests]
        signatures += [r.headers["webhook-signature"] for r in receiver.requests]
        await poster.aclose()
    ours = "\n".join(levels(caplog, logging.WARNING) + levels(caplog, logging.INFO)) + repr(poster)
    assert "pass-in-url" not in ours
    assert "in-query" not in ours
    assert "pass-in-url" not in text
    assert receiver.requests[0].headers["authorization"].startswith("Basic ")
    for hidden in [secret, *signatures, *(s[-30:] for s in signatures)]:
        assert hidden not in text
    assert "navigation" in repr(poster)


@pytest.mark.parametrize("max_in_flight", [0, -1])
def test_a_poster_that_may_send_nothing_is_refused(max_in_flight: int) -> None:
    """K120."""
    with pytest.raises(ValueError, match="max_in_flight"):
        EventPoster("navigation", max_in_flight=max_in_flight)


# -- loops --------------------------------------------------------------------------------------------------


def test_a_poster_moves_to_the_next_loop_when_the_first_has_ended(
    clock: FakeClock, endpoint: Endpoint
) -> None:
    """K144: with what the first one could not deliver, in order."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster()

    async def first() -> None:
        await poster.post(make_event(1))
        await poster.post(make_event(2))
        await settle()

    async def second() -> None:
        await poster.post(make_event(3))
        await poster.drain()
        await poster.aclose()

    asyncio.run(first())
    assert [b["seq"] for b in endpoint.bodies] == [1]
    endpoint.answer = lambda request: httpx.Response(202)
    asyncio.run(second())
    assert [b["seq"] for b in endpoint.bodies] == [1, 1, 2, 3]


def test_a_loop_that_was_only_stopped_does_not_interfere_later(clock: FakeClock) -> None:
    """K144: its answer comes back after another loop has taken over."""
    gate = asyncio.Event()
    sent: list[int] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["seq"])
        if len(sent) == 1:
            await gate.wait()
        return httpx.Response(202)

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", clock=clock, transport=httpx.MockTransport(handle)
    )
    stopped = asyncio.new_event_loop()

    async def first() -> None:
        await poster.post(make_event(1))
        await settle()

    async def second() -> None:
        await poster.post(make_event(2))
        await poster.drain()

    async def later() -> None:
        gate.set()
        await settle()

    stopped.run_until_complete(first())
    asyncio.run(second())
    assert sent == [1, 1, 2]
    stopped.run_until_complete(later())
    stopped.close()
    assert (poster.statistics().delivered, poster.statistics().queued) == (2, 0)
    asyncio.run(poster.aclose())


async def test_posts_from_a_second_running_loop_go_through_the_first(endpoint: Endpoint) -> None:
    """K144: never a silent hang."""
    poster = endpoint.poster()
    await poster.post(make_event(1))
    await asyncio.to_thread(asyncio.run, poster.post(make_event(2)))
    await asyncio.to_thread(asyncio.run, poster.drain())
    assert [b["seq"] for b in endpoint.bodies] == [1, 2]
    await asyncio.to_thread(asyncio.run, poster.aclose())
    assert poster.statistics().delivered == 2


# -- closing ------------------------------------------------------------------------------------------------


async def test_closing_makes_one_last_attempt_and_counts_what_is_left(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K140: at once, while sleeping between two retries, and in order."""
    endpoint.answer = lambda request: httpx.Response(
        202 if clock.now() > 10.9 and json.loads(request.content)["task_id"] == "good" else 503
    )
    poster = endpoint.poster()
    for seq in (1, 2, 3):
        await poster.post(make_event(seq, task_id="good"))
        await poster.post(make_event(seq, task_id="bad"))
    await clock.advance(11)
    endpoint.requests.clear()
    before_s = clock.now()
    await poster.aclose()
    assert clock.now() == before_s
    sent = [(b["task_id"], b["seq"]) for b in endpoint.bodies]
    assert [seq for task, seq in sent if task == "good"] == [1, 2, 3]
    assert [seq for task, seq in sent if task == "bad"] == [1]
    assert [text for text in levels(caplog, logging.WARNING) if "3 events undelivered" in text]


async def test_closing_does_not_wait_longer_than_its_bound(clock: FakeClock) -> None:
    """K140: for a receiver that hangs."""

    async def hang(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", clock=clock, transport=httpx.MockTransport(hang)
    )
    await poster.post(make_event())
    await settle()
    close = asyncio.create_task(poster.aclose())
    await clock.advance(1.99)
    assert not close.done()
    await clock.advance(0.01)
    assert close.done()


async def test_closing_is_idempotent_and_leaves_nothing_behind(endpoint: Endpoint, clock: FakeClock) -> None:
    """K141: no asyncio task, an HTTP client that is closed; never used, twice at once, and again."""
    await EventPoster("navigation", "http://127.0.0.1:9/", "s").aclose()
    before = asyncio.all_tasks()
    endpoint.answer = lambda request: httpx.Response(503)
    closed: list[int] = []

    class Transport(httpx.MockTransport):
        async def aclose(self) -> None:
            closed.append(1)

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", clock=clock, transport=Transport(endpoint.handle)
    )
    for n in range(20):
        await poster.post(make_event(1, task_id=f"task-{n}"))
    await settle()
    await asyncio.gather(poster.aclose(), poster.aclose())
    await poster.aclose()
    await settle()
    assert asyncio.all_tasks() == before
    assert closed == [1]


async def test_a_closer_that_goes_away_does_not_leave_the_poster_half_closed(
    endpoint: Endpoint, clock: FakeClock
) -> None:
    """K141."""
    poster = endpoint.poster()
    await poster.post(make_event())
    closer = asyncio.create_task(poster.aclose())
    await asyncio.sleep(0)
    closer.cancel()
    await asyncio.wait({closer})
    await poster.aclose()
    assert poster.statistics().delivered == 1


async def test_an_event_after_the_close_is_dropped_and_said(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """K142."""
    poster = endpoint.poster()
    await poster.aclose()
    late = make_event(5)
    await poster.post(late)
    assert endpoint.requests == []
    assert poster.statistics().dropped == 1
    assert any(late.event_id in text for text in levels(caplog, logging.WARNING))


def test_a_process_with_queued_events_ends_promptly() -> None:
    """K140: an interrupt while the receiver is down."""
    program = """
import asyncio
from robot_mcp_kit import EventPoster
from robot_mcp_kit.testing import make_event
async def main():
    poster = EventPoster("navigation", "http://127.0.0.1:1/", "s")
    for seq in (1, 2, 3):
        await poster.post(make_event(seq))
    await asyncio.sleep(0.2)
    await poster.aclose()
asyncio.run(main())
print("ended")
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "ended\n", result.stderr
    assert "3 events undelivered" in result.stderr
    assert "Traceback" not in result.stderr
