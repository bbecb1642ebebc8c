"""Serving an ASGI application on a free port of this machine, inside the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def serving(app: Any, *, port: int = 0) -> AsyncIterator[str]:
    """``http://127.0.0.1:<port>``, answered by ``app`` until the block ends."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="auto", timeout_graceful_shutdown=0
    )
    server = _Quiet(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.002)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
