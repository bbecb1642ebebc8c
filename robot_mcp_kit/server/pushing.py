"""Changes of tasks, pushed to MCP clients that asked: ``robot-task://{task_id}`` and ``robot://tasks``.

2026-07-28 clients listen with ``subscriptions/listen``; clients of the handshake protocols subscribe to a
resource and hear it on their session's stream. Both are told only that something changed and read it then, so
a lost notification costs a poll and nothing else: poll is the truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import weakref
from typing import Any

from mcp.server import MCPServer
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.server.sdk_private import connection_of, low_level
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

TASK_SCHEME = "robot-task://"
TASKS_URI = "robot://tasks"
MAX_URIS_PER_SESSION = 200
SEND_BOUND_S = 5.0


def task_uri(task_id: str) -> str:
    return f"{TASK_SCHEME}{task_id}"


class TaskPush:
    """Watches a manager's tasks and tells those who subscribed. Lives on one event loop.

    A task that changes faster than its readers are told is told once for several changes; the end is always
    told after everything else.

    Args:
        manager: whose tasks.
        bus: the server's, for 2026-07-28 clients.
    """

    def __init__(self, manager: TaskManager, bus: SubscriptionBus) -> None:
        self._manager, self._bus = manager, bus
        self._sessions: weakref.WeakKeyDictionary[Connection, set[str]] = weakref.WeakKeyDictionary()
        self._changed: dict[str, None] = {}
        self._running: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sender: asyncio.Task[None] | None = None
        self._remove = manager.add_change_listener(self._on_change)

    def install(self, server: MCPServer) -> None:
        """Serve ``resources/subscribe`` and ``resources/unsubscribe`` of the handshake protocols."""
        below = low_level(server)
        below.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        below.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    def close(self) -> None:
        """Watch no longer."""
        self._remove()
        if self._sender is not None:
            self._sender.cancel()

    async def _subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        uris = self._sessions.setdefault(connection_of(ctx), set())
        if len(uris) < MAX_URIS_PER_SESSION:
            uris.add(str(params.uri))
        else:
            logger.warning("a session subscribed to more than %d resources; ignored", MAX_URIS_PER_SESSION)
        return EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        self._sessions.get(connection_of(ctx), set()).discard(str(params.uri))
        return EmptyResult()

    # -- telling --------------------------------------------------------------------------------------------

    def _on_change(self, info: TaskInfo) -> None:
        """On whichever thread reports, under the manager's lock: only hands over."""
        loop = self._loop
        if loop is None:
            try:
                loop = self._loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # nobody can have subscribed before the loop runs
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._note, info.task_id, info.state == "running")

    def _note(self, task_id: str, running: bool) -> None:
        if (task_id in self._running) is not running:
            self._running.add(task_id) if running else self._running.discard(task_id)
            self._changed[TASKS_URI] = None
        # Behind what is already waiting, so that an end is never told before the changes it follows.
        self._changed.pop(task_uri(task_id), None)
        self._changed[task_uri(task_id)] = None
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(
                self._send_all(), context=contextvars.Context()
            )

    async def _send_all(self) -> None:
        while self._changed:
            uri = next(iter(self._changed))
            del self._changed[uri]
            await self._bus.publish(ResourceUpdated(uri=uri))
            for connection, uris in list(self._sessions.items()):
                if uri in uris:
                    await self._send(connection, uri)

    async def _send(self, connection: Connection, uri: str) -> None:
        try:
            async with asyncio.timeout(SEND_BOUND_S):
                await connection.send_resource_updated(uri)
        except Exception as error:  # a session that is gone must not keep the others from their news
            logger.info("a subscribed session is gone: %r", error)
            self._sessions.pop(connection, None)
