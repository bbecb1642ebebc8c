"""A client of the protocol's server, as another program would be one: real sockets, plain JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

BOUND_S = 15.0


class WireError(Exception):
    """An error answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data", {})


class Client:
    """Sends requests, sorts answers and notifications."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self.notifications: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.loose: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """Answers without an id that was asked under."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for raw in self.socket:
            message = json.loads(raw)
            if "method" in message:
                self.notifications.put_nowait(message)
            elif message.get("id") in self._answers:
                self._answers.pop(message["id"]).set_result(message)
            else:
                self.loose.put_nowait(message)

    def begin(self, method: str, **params: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self.call(method, **params))

    async def call(self, method: str, **params: Any) -> Any:
        """One request.

        Raises:
            WireError: it was answered with an error.
        """
        ident = next(self._ids)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[ident] = future
        await self.socket.send(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": ident})
        )
        message = await asyncio.wait_for(future, BOUND_S)
        assert message["jsonrpc"] == "2.0"
        if "error" in message:
            raise WireError(message["error"])
        return message["result"]

    async def act(self, action: str, params: dict[str, Any] | None = None) -> Any:
        return await self.call("rcp.action.request", action=action, params=params or {})

    async def raw(self, text: str | bytes) -> dict[str, Any]:
        """Send anything; the answer that belongs to no request."""
        await self.socket.send(text)
        return await asyncio.wait_for(self.loose.get(), BOUND_S)

    async def notified(self, method: str) -> dict[str, Any]:
        """The parameters of the next notification of this name."""
        while True:
            message = await asyncio.wait_for(self.notifications.get(), BOUND_S)
            if message["method"] == method:
                params: dict[str, Any] = message["params"]
                return params

    async def aclose(self) -> None:
        await self.socket.close()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@asynccontextmanager
async def client_of(url: str, bearer: str | None = None, **headers: str) -> AsyncIterator[Client]:
    """Connect.

    Raises:
        websockets.exceptions.InvalidStatus: turned away.
    """
    given = dict(headers)
    if bearer is not None:
        given["Authorization"] = f"Bearer {bearer}"
    socket = await connect(url, additional_headers=given, proxy=None, open_timeout=BOUND_S)
    client = Client(socket)
    try:
        yield client
    finally:
        await client.aclose()
