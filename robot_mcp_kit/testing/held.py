"""Fixtures end in another task than they began in; what may not is held by a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeVar

T = TypeVar("T")


@contextlib.asynccontextmanager
async def held(context: contextlib.AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context in one task, whoever uses it, as the SDK's MCP clients demand.

    ::

        @pytest.fixture
        async def client(url):
            async with held(Client(url)) as client:
                yield client

    Args:
        context: entered once; its exception on the way in or out is raised here.
    """
    ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with context as entered:
            ready.set_result(entered)
            await done.wait()

    holding = asyncio.create_task(hold(), name="held context")
    waiting: set[asyncio.Future[Any]] = {holding, ready}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        holding.result()
    try:
        yield ready.result()
    finally:
        done.set()
        await holding
