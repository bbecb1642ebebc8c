"""The inbox as a web endpoint for Starlette, FastAPI or any ASGI server.

::

    app = Starlette(routes=[events_route(inbox), ...])
    fastapi_app.router.routes.append(events_route(inbox))

Answers: 200 taken (also when it had come before), 400 authentic but no event, 401 not authentic, 408 the
body did not come in time, 411 or 413 its length is not given right or is too much, 503 with ``Retry-After``:
send it again.
"""

from __future__ import annotations

import asyncio
import json

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from robot_mcp_kit.client.inbox import Inbox, Receipt
from robot_mcp_kit.models import TaskEvent

EVENTS_PATH = "/api/agent/events"
MAX_BODY_BYTES = 4 * 1024 * 1024
BODY_TIMEOUT_S = 10.0
RETRY_AFTER_S = 2

_OK = b'{"ok":true}'
_AGAIN = b'{"ok":true,"duplicate":true}'


class EventsEndpoint:
    """``POST /api/agent/events`` as an ASGI application. Mount it with :func:`events_route`.

    Args:
        inbox: judges and keeps.
        max_body_bytes: larger bodies are answered 413, before they are read to their end.
        body_timeout_s: a body that does not come in time is answered 408.
    """

    def __init__(
        self, inbox: Inbox, *, max_body_bytes: int = MAX_BODY_BYTES, body_timeout_s: float = BODY_TIMEOUT_S
    ) -> None:
        self._inbox = inbox
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s
        self._waiting: list[tuple[TaskEvent, asyncio.Future[Receipt]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        body = await self._body(headers, receive)
        if isinstance(body, int):
            await _answer(send, body, _error(_TROUBLE[body]))
            return
        if body is None:
            return  # the sender is gone; nothing was taken
        verdict = self._inbox.verifier.judge(headers, body)
        if verdict.event is None:
            receipt = self._inbox.refuse(verdict)
        else:
            receipt = await self._written(verdict.event)
        await _answer(send, receipt.status, _content(receipt))

    def _written(self, event: TaskEvent) -> asyncio.Future[Receipt]:
        """Done when the event is written down, together with those that have come at the same time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Receipt] = loop.create_future()
        self._waiting.append((event, future))
        if len(self._waiting) == 1:
            loop.call_soon(self._write)
        return future

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            receipts = self._inbox.take([event for event, _ in waiting])
        except BaseException as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            raise
        for (_, future), receipt in zip(waiting, receipts, strict=True):
            if not future.done():  # its sender may be gone
                future.set_result(receipt)

    async def _body(self, headers: list[tuple[str, str]], receive: Receive) -> bytes | int | None:
        """The body, the status that refuses it, or ``None`` when the sender went away."""
        given = [value for name, value in headers if name == "content-length"]
        if given and not (len(given) == 1 and given[0].isascii() and given[0].isdigit()):
            return 411
        if given and (len(given[0]) > 18 or int(given[0]) > self._max_body_bytes):
            return 413
        try:
            async with asyncio.timeout(self._body_timeout_s):
                return await self._read(receive)
        except TimeoutError:
            return 408

    async def _read(self, receive: Receive) -> bytes | int | None:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > self._max_body_bytes:
                return 413
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


_TROUBLE = {
    408: "the body did not come in time",
    411: "Content-Length: once, and whole bytes",
    413: "the body is too large for an event",
}


def events_route(
    inbox: Inbox,
    path: str = EVENTS_PATH,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_timeout_s: float = BODY_TIMEOUT_S,
) -> Route:
    """The endpoint as a route, for an application that has others; see :class:`EventsEndpoint`."""
    endpoint = EventsEndpoint(inbox, max_body_bytes=max_body_bytes, body_timeout_s=body_timeout_s)
    return Route(path, endpoint=endpoint, methods=["POST"])


def events_app(inbox: Inbox, path: str = EVENTS_PATH) -> Starlette:
    """An application with this endpoint alone."""
    return Starlette(routes=[events_route(inbox, path)])


def _content(receipt: Receipt) -> bytes:
    if receipt.status == 200:
        return _AGAIN if receipt.duplicate else _OK
    return _error(receipt.reason)


def _error(reason: str) -> bytes:
    return json.dumps({"error": reason}).encode()


async def _answer(send: Send, status: int, content: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    if status == 503:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if status in _TROUBLE:
        headers.append((b"connection", b"close"))  # the rest of the body is still on its way
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
