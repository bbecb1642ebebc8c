"""Finding the event loop from wherever a task is started."""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger(__name__)

HOW_TO = "start the first task on the server's loop, or call TaskManager.bind_loop() there once"


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread, or ``None``."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def find_loop(remembered: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop:
    """The loop that runs bodies: the remembered one while it runs, else the one here, else the caller
    thread's owner.

    MCP servers run synchronous tools in worker threads of anyio, which know the loop that they serve (K23).

    Raises:
        RuntimeError: none found, or a second loop is used while the first one still runs.
    """
    running = running_loop()
    if remembered is not None and remembered.is_running():
        # A second loop in another thread is a mistake that would tear tasks and their futures apart.
        if running is not None and running is not remembered:
            raise RuntimeError(f"the task manager already runs on another event loop; {HOW_TO}")
        return remembered
    found = running if running is not None else _loop_of_worker_thread()
    if found is None:
        raise RuntimeError(f"no event loop to run the task on; {HOW_TO}")
    return found


def _loop_of_worker_thread() -> asyncio.AbstractEventLoop | None:
    try:
        from anyio import from_thread  # comes with httpx
    except ImportError:
        return None
    try:
        return from_thread.run_sync(asyncio.get_running_loop)
    except RuntimeError:
        return None


def resolve(future: asyncio.Future[None]) -> None:
    """Complete a future of any loop, from any thread; a closed loop has nobody waiting."""

    def complete() -> None:
        if not future.done():
            future.set_result(None)

    try:
        future.get_loop().call_soon_threadsafe(complete)
    except RuntimeError:
        logger.debug("a waiter's loop is closed")
