"""One open session with one server, owned by one task, used by any."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcp import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    Implementation,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ServerCapabilities,
    ToolListChangedNotification,
)

from robot_mcp_kit.client.admitting import Link
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.definitions import Timeouts
from robot_mcp_kit.client.failures import connect_refusal, request_problem
from robot_mcp_kit.client.refusals import Refusal, RefusedError
from robot_mcp_kit.version import package_version

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 10.0
_MARGIN_S = 1.0

Listed = Literal["tools", "prompts", "resources"]
_LIST_CHANGES: dict[type, Listed] = {
    ToolListChangedNotification: "tools",
    PromptListChangedNotification: "prompts",
    ResourceListChangedNotification: "resources",
}


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Who answered; what was learned from another is not kept (A24)."""

    server: str
    protocol_version: str
    name: str
    version: str


class Connection:
    """Open it with :meth:`open`; close it with :meth:`aclose`.

    Args:
        link: an admitted server.
        timeouts: bounds.
        on_list_changed: told that a list of the server has changed. It is the only thing that a server's
            notifications do here (A25).
    """

    def __init__(self, link: Link, timeouts: Timeouts, on_list_changed: Callable[[Listed], None]) -> None:
        self.name = link.server.name
        self._link = link
        self._timeouts = timeouts
        self._on_list_changed = on_list_changed
        self._client: Client | None = None
        self._opened: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self.lost = False
        self.ignored_notifications = 0

    async def open(self) -> None:
        """Connect and negotiate.

        Raises:
            RefusedError: with its class of failure; nothing is left behind.
        """
        self._opened = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")
        try:
            async with asyncio.timeout(self._timeouts.startup_s):
                await asyncio.shield(self._opened)
        except TimeoutError as error:
            await self.aclose()
            raise RefusedError(connect_refusal(error, self._link)) from None
        except RefusedError:
            await self.aclose()
            raise
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self.aclose()))
            raise

    async def _own(self) -> None:
        assert self._opened is not None  # noqa: S101  made by open
        try:
            async with Client(
                self._link.transport,
                mode="auto",
                cache=None,
                client_info=Implementation(name="robot-mcp-kit", version=package_version()),
                read_timeout_seconds=self._timeouts.request_s,
                message_handler=self._hear,
            ) as client:
                self._client = client
                listening = asyncio.create_task(self._listen(client))
                self._opened.set_result(None)
                try:
                    await self._closing.wait()
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        except asyncio.CancelledError:
            if not self._opened.done():
                self._opened.cancel()
            raise
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(RefusedError(connect_refusal(error, self._link)))
                self._opened.exception()  # open() may have stopped waiting
            else:
                logger.info("the connection to %s ended: %s", self.name, type(error).__name__)
        finally:
            self.lost = True

    async def _hear(self, message: Any) -> None:
        listed = _LIST_CHANGES.get(type(message))
        if listed is not None:
            self._on_list_changed(listed)
        else:
            self.ignored_notifications += 1

    async def _listen(self, client: Client) -> None:
        """The newer protocol sends changes only to who asks for them."""
        capabilities = client.server_capabilities
        tools, prompts, resources = (
            bool(getattr(getattr(capabilities, name), "list_changed", False))
            for name in ("tools", "prompts", "resources")
        )
        if not (tools or prompts or resources):
            return
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as subscription:
                async for _ in subscription:
                    pass  # each comes to the message handler as well

    # -- asking ---------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The SDK's client."""
        if self._client is None or self.lost:
            raise CallFailed(self.name, "connection_lost", "the connection was lost", sent=False)
        return self._client

    @property
    def identity(self) -> ServerIdentity:
        """Who answered."""
        info = self.client.server_info
        return ServerIdentity(
            self.name,
            self.client.protocol_version,
            "" if info is None else info.name,
            "" if info is None else info.version,
        )

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server says it can do."""
        return self.client.server_capabilities

    async def page(self, listed: Listed, cursor: str | None) -> tuple[list[Any], str | None]:
        """One page of a list and the cursor of the next.

        Raises:
            CallFailed: no answer in time, or none that can be used.
        """
        client = self.client
        ask: Any = {
            "tools": client.list_tools,
            "prompts": client.list_prompts,
            "resources": client.list_resources,
        }[listed]
        answer = await self._bounded(ask(cursor=cursor), self._timeouts.request_s)
        return list(getattr(answer, listed)), answer.next_cursor

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout_s: float) -> CallToolResult:
        """Call a tool, once.

        Raises:
            CallFailed: no answer.
        """
        answer = await self._bounded(
            self.client.call_tool(tool, dict(arguments), read_timeout_seconds=timeout_s), timeout_s
        )
        if not isinstance(answer, CallToolResult):
            raise CallFailed(self.name, "unreadable_answer", "the answer is no tool result", sent=True)
        return answer

    async def _bounded(self, asking: Any, timeout_s: float) -> Any:
        try:
            # The SDK's own bound comes first and tells the server; this one holds if it does not.
            async with asyncio.timeout(timeout_s + _MARGIN_S):
                return await asking
        except CallFailed:
            raise
        except Exception as error:
            problem = request_problem(error, self._link)
            self.lost = self.lost or problem.lost
            raise CallFailed(self.name, problem.reason, problem.message, sent=problem.sent) from None

    async def aclose(self) -> None:
        """End the session and what it runs on, within a bound. Harmless when repeated."""
        self._closing.set()
        owner = self._owner
        if owner is None:
            return
        if self._client is None:
            owner.cancel()  # still connecting: nothing to say goodbye to
        await asyncio.wait({owner}, timeout=CLOSE_TIMEOUT_S)
        if not owner.done():
            owner.cancel()
            await asyncio.wait({owner}, timeout=CLOSE_TIMEOUT_S)
        if not owner.done():
            logger.error("the connection to %s could not be closed", self.name)

    def last_problem(self) -> Refusal | None:
        """What this side found wrong last."""
        return self._link.last_problem
