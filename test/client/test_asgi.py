"""The endpoint, over a real socket where it matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from robot_mcp_kit import EventPoster
from robot_mcp_kit.client.asgi import EVENTS_PATH, events_app, events_route
from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.inbox import Inbox
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.testing import assert_eventually

from .conftest import NOW, SECRET, Signer
from .serving import serving


@pytest.fixture
def inbox() -> Inbox:
    return Inbox({"navigation": SECRET}, wall_clock=lambda: NOW)


@pytest.fixture
async def client(inbox: Inbox) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(events_app(inbox))
    async with httpx.AsyncClient(transport=transport, base_url="http://chat") as client:
        yield client


async def post(client: httpx.AsyncClient, request: tuple[dict[str, str], bytes]) -> httpx.Response:
    headers, body = request
    return await client.post(EVENTS_PATH, content=body, headers=headers)


async def test_a_signed_event_is_taken_and_its_repetition_acknowledged(
    client: httpx.AsyncClient, inbox: Inbox, signer: Signer
) -> None:
    """K170."""
    first = await post(client, signer.request(1))
    again = await post(client, signer.request(1))
    assert (first.status_code, first.json()) == (200, {"ok": True})
    assert (again.status_code, again.json()) == (200, {"ok": True, "duplicate": True})
    assert inbox.accepted_count == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"X-RVC-Signature": "sha256=" + "0" * 64}, 401),
        ({"X-RVC-Signature": "garbage"}, 401),
        ({"X-RVC-Timestamp": str(NOW - 301)}, 401),
        ({"X-RVC-Server": "arm"}, 401),
    ],
)
async def test_a_request_that_is_not_authentic_is_401(
    client: httpx.AsyncClient, inbox: Inbox, signer: Signer, change: dict[str, str], status: int
) -> None:
    """K170, G64."""
    headers, body = signer.request(1)
    answer = await post(client, (headers | change, body))
    assert answer.status_code == status
    assert answer.json()["error"]
    assert inbox.book.position == 0


async def test_another_method_or_path_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get(EVENTS_PATH)).status_code == 405
    assert (await client.post("/api/agent/other")).status_code == 404


async def test_a_body_beyond_the_limit_is_413_and_not_read_to_its_end(inbox: Inbox) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 65536
            yield b"x" * 65536

    async with serving(events_app(inbox)) as url, httpx.AsyncClient() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(f"POST {EVENTS_PATH} HTTP/1.1\r\nHost: chat\r\nContent-Length: 5000000\r\n\r\n".encode())
        assert b"413" in await asyncio.wait_for(reader.readline(), 20)
        writer.close()
        try:
            untold = await client.post(url + EVENTS_PATH, content=endless())
            assert untold.status_code == 413
        except httpx.TransportError:
            pass  # cut off while it was still sending
    assert read < 64 * 1024 * 1024
    assert inbox.accepted_count == inbox.refused_count == 0


async def test_a_body_that_does_not_come_is_given_up(inbox: Inbox, signer: Signer) -> None:
    app = Starlette(routes=[events_route(inbox, body_timeout_s=0.05)])
    async with serving(app) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(f"POST {EVENTS_PATH} HTTP/1.1\r\nHost: chat\r\nContent-Length: 100\r\n\r\nslow".encode())
        line = await asyncio.wait_for(reader.readline(), 20)
        assert b"408" in line
        writer.close()


@pytest.mark.parametrize("length", ["-1", "1.5", "٣", "", "9" * 30])
async def test_a_length_that_is_none_is_refused(inbox: Inbox, length: str) -> None:
    scope = {
        "type": "http",
        "method": "POST",
        "path": EVENTS_PATH,
        "headers": [(b"content-length", length.encode())],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        sent.append(message)

    await events_app(inbox)(scope, receive, send)
    assert sent[0]["status"] in (411, 413)


async def test_a_sender_that_hangs_up_in_the_middle_leaves_no_trace(inbox: Inbox) -> None:
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        raise AssertionError("there is nobody to answer")

    scope = {"type": "http", "method": "POST", "path": EVENTS_PATH, "headers": []}
    await events_app(inbox)(scope, receive, send)
    assert inbox.refused_count == 0


async def test_when_nobody_keeps_up_the_sender_is_told_to_come_again(tmp_path: Path, signer: Signer) -> None:
    book = TaskBook(tmp_path / "chat.db", wall_clock=lambda: NOW, max_backlog=2)
    book.cursor("chat")
    inbox = Inbox(SECRET, book=book, wall_clock=lambda: NOW)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(events_app(inbox)), base_url="http://chat"
    ) as client:
        assert (await post(client, signer.request(1))).status_code == 200
        full = await post(client, signer.request(2))
        assert full.status_code == 503
        assert full.headers["retry-after"]
        book.move_cursor("chat", book.position)
        assert (await post(client, signer.request(2))).status_code == 200
    book.close()


async def test_it_is_one_route_among_others_of_an_application(inbox: Inbox, signer: Signer) -> None:
    async def hello(_: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", hello), events_route(inbox)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat") as client:
        assert (await client.get("/")).text == "hello"
        assert (await post(client, signer.request(1))).status_code == 200


async def test_it_is_a_route_of_a_fastapi_application(inbox: Inbox, signer: Signer) -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()
    app.router.routes.append(events_route(inbox))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat") as client:
        assert (await post(client, signer.request(1))).status_code == 200


async def test_the_kits_own_poster_is_understood(tmp_path: Path) -> None:
    """K111: the two halves of the contract over a real socket."""
    inbox = Inbox({"navigation": SECRET}, book=TaskBook(tmp_path / "chat.db"))
    async with serving(events_app(inbox)) as url:
        poster = EventPoster("navigation", url + EVENTS_PATH, SECRET)
        for seq in range(1, 21):
            await poster.post(TaskEvent.model_validate(Signer().event(seq)))
        await assert_eventually(lambda: inbox.accepted_count == 20)
        await poster.aclose()
    assert inbox.refused_count == 0
    assert [update.seq for update in inbox.book.updates_after(0) if update.seq] == list(range(1, 21))
    inbox.book.close()


async def test_an_event_whose_answer_was_lost_is_applied_once(tmp_path: Path, signer: Signer) -> None:
    """K123: the connection dies between the write and the answer."""
    inbox = Inbox({"navigation": SECRET}, book=TaskBook(tmp_path / "chat.db"), wall_clock=lambda: NOW)
    headers, body = signer.request(1)
    parts = iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        raise OSError("the wire is cut")

    scope = {
        "type": "http",
        "method": "POST",
        "path": EVENTS_PATH,
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    with pytest.raises(OSError, match="cut"):
        await events_app(inbox)(scope, receive, send)
    assert inbox.receive(headers, body).duplicate
    assert [update.kind for update in inbox.book.updates_after(0)] == ["started", "progress"]
    inbox.book.close()
