"""Run the endpoint inside the node's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

_SHUTDOWN_S = 2
KEEP_ALIVE_S = 75
"""How long an idle connection stays open: longer than clients keep theirs (httpx 5 s, aiohttp 15 s). With
uvicorn's 5 s a call could leave just as its connection was closed, and nobody knew whether it arrived.
"""


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without its own signal handlers: the node decides when to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    except SystemExit as error:  # uvicorn leaves so when the application does not start
        raise RuntimeError("the HTTP server ended before it was ready; see the log above") from error


@contextlib.asynccontextmanager
async def serving(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Serve ``app`` on ``listener`` until the block ends (and close it); ready when the block begins.

    Raises:
        RuntimeError: the application did not start.
    """
    config = uvicorn.Config(
        app,
        # The endpoint has no WebSocket, and an installed library for them must not open one.
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    server = _EmbeddedServer(config)
    task = asyncio.create_task(_serve(server, listener), name="http")
    try:
        while not server.started:
            if task.done():
                task.result()
                raise RuntimeError("the HTTP server ended before it was ready")
            await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({task})
        listener.close()
    task.result()
