"""Keeps one server's connection and catalog through failures, and all servers' together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

from robot_mcp_kit.client.admitting import Host, admitted
from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller
from robot_mcp_kit.client.catalog import Catalog, CatalogTool, ServerCatalog, discover, gone_stale, merged
from robot_mcp_kit.client.connection import Connection, Listed
from robot_mcp_kit.client.definitions import Timeouts
from robot_mcp_kit.client.failures import Backoff
from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError
from robot_mcp_kit.client.resolution import Resolution, Resolved
from robot_mcp_kit.client.result_size import DEFAULT_CHARS
from robot_mcp_kit.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

State = Literal["idle", "connecting", "waiting", "ready", "failed", "closed"]


class ServerSupervisor(ToolCaller):
    """One server: connects when it is needed, reconnects after a loss, and never repeats a call.

    Args:
        resolved: what the name stands for.
        host: who decides and what is allowed.
        backoff: for transient failures to connect.
        clock: for pauses and idleness.
    """

    def __init__(
        self, resolved: Resolved, host: Host, *, backoff: Backoff | None = None, clock: Clock | None = None
    ) -> None:
        self.name = resolved.name
        self.state: State = "idle"
        self.failure: Refusal | None = None
        """Why the last attempt to connect failed; ``None`` after a good one."""
        self._resolved = resolved
        self._host = host
        self._backoff = backoff if backoff is not None else Backoff()
        self._clock: Clock = clock if clock is not None else SystemClock()
        definition = resolved.definition
        self._timeouts = definition.timeouts if definition is not None else Timeouts()
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._catalog: ServerCatalog | None = None
        self._dirty = False
        self._refreshing: asyncio.Task[None] | None = None
        self._idling: asyncio.Task[None] | None = None
        self._closers: set[asyncio.Task[None]] = set()
        self._active = 0
        self._used_at_s = self._clock.now()
        self._failed_at_s = 0.0
        self.connects = 0
        """How many attempts to connect were made."""

    def __repr__(self) -> str:
        return f"ServerSupervisor({self.name!r}, {self.state})"

    # -- connecting -----------------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The open connection; connects if there is none. Callers that come together share one attempt (A35).

        Raises:
            RefusedError: it could not be made, or is not tried again before :meth:`retry`.
        """
        if self.state == "closed":
            raise RefusedError(Refusal("closed", "has been shut down", self.name))
        if self._connection is not None and not self._connection.lost:
            return self._connection
        if self._opening is None:
            if self.state == "failed" and not self._may_try_again():
                assert self.failure is not None  # noqa: S101  set with the state
                raise RefusedError(self.failure)
            self._opening = asyncio.create_task(self._open(), name=f"connect {self.name}")
            self._opening.add_done_callback(_seen)
        return await asyncio.shield(self._opening)

    def _may_try_again(self) -> bool:
        again_s = self._backoff.again_after_s
        transient = self.failure is not None and self.failure.failure_class is FailureClass.TRANSIENT
        return transient and again_s is not None and self._clock.now() >= self._failed_at_s + again_s

    def retry(self) -> None:
        """Leave the state ``failed``: the next use connects again. For a person's button."""
        if self.state == "failed":
            self.state = "idle"

    async def _open(self) -> Connection:
        try:
            attempt = 0
            while True:
                attempt += 1
                self.state = "connecting"
                self.connects += 1
                try:
                    connection = await self._attempt()
                except RefusedError as error:
                    self.failure = error.refusal
                    transient = error.refusal.failure_class is FailureClass.TRANSIENT
                    if not transient or attempt >= self._backoff.attempts:
                        self.state, self._failed_at_s = "failed", self._clock.now()
                        logger.warning("giving up on %s after %d attempts", error.refusal, attempt)
                        raise
                    self.state = "waiting"
                    await self._clock.sleep(self._backoff.pause_s(attempt))
                else:
                    self.state, self.failure = "ready", None
                    return connection
        except asyncio.CancelledError:
            raise RefusedError(Refusal("closed", "has been shut down", self.name)) from None
        finally:
            self._opening = None

    async def _attempt(self) -> Connection:
        await self._drop()
        link = await admitted(self._resolved, self._host)
        connection = Connection(link, self._timeouts, self._list_changed)
        await connection.open()
        try:
            self._connection = connection
            known = self._catalog
            if known is not None and known.identity != connection.identity:
                logger.info("%s is another than before; its catalog is read anew", self.name)
                self._catalog = None
            if self._catalog is None or self._dirty or not self._catalog.complete:
                self._dirty = False
                await self._read_catalog(connection)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._drop()))
            raise
        self._touch()
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    # -- the catalog ----------------------------------------------------------------------------------------

    def _list_changed(self, _listed: Listed) -> None:
        """The one thing that a server's notification does."""
        self._dirty = True
        if self._refreshing is None and self.state != "closed":
            self._refreshing = asyncio.create_task(self._refresh(), name=f"catalog {self.name}")
            self._refreshing.add_done_callback(_seen)

    async def _refresh(self) -> None:
        try:
            while self._dirty:
                self._dirty = False
                connection = self._connection
                if connection is None or connection.lost:
                    self._dirty = True  # read with the next connection
                    return
                await self._read_catalog(connection)
        finally:
            self._refreshing = None

    async def _read_catalog(self, connection: Connection) -> None:
        known = self._catalog
        try:
            fresh = await discover(connection, timeout_s=self._timeouts.discovery_s)
        except CallFailed as error:
            if known is not None:
                self._catalog = gone_stale(known, Refusal(error.reason, error.message, self.name))
            return
        if known is None or not known.complete or fresh.complete:
            self._catalog = fresh
        else:
            self._catalog = gone_stale(known, fresh.failures[0])
        for note in fresh.notes:
            if known is None or note not in known.notes:
                logger.warning("%s", note)

    async def catalog(self) -> ServerCatalog:
        """What the server offers; the last good answer, marked, when asking again fails.

        Raises:
            RefusedError: it cannot be connected and has never answered.
        """
        try:
            await self.connected()
        except RefusedError as error:
            if self._catalog is None:
                raise
            return gone_stale(self._catalog, error.refusal)
        if self._refreshing is not None:
            await asyncio.wait({self._refreshing})
        if self._catalog is None:
            raise RefusedError(Refusal("no_catalog", "its offer could not be read", self.name))
        return self._catalog

    # -- calling --------------------------------------------------------------------------------------------

    async def accepts(self, tool: str, argument: str) -> bool:
        """Whether the tool has an argument of that name."""
        try:
            found = (await self.catalog()).tool(tool)
        except RefusedError as error:
            raise _not_called(error.refusal) from None
        return found is not None and argument in found.checker.properties

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        """Call a tool by the server's own name, once; a failed call is never sent again (A22).

        Raises:
            CallFailed: refused here (``invalid_arguments``, ``unknown_tool``), or no answer.
        """
        bound_s = timeout_s if timeout_s is not None else self._timeouts.call_s
        try:
            async with asyncio.timeout(bound_s):
                connection = await self.connected()
        except TimeoutError:
            raise CallFailed(self.name, "unreachable", "not connected in time", sent=False) from None
        except RefusedError as error:
            raise _not_called(error.refusal) from None
        found = self._check(tool, arguments)
        self._active += 1
        try:
            result = await connection.call(tool, arguments, bound_s)
        except CallFailed as error:
            if error.reason == "timeout":
                self._abandon(connection)
            raise
        except asyncio.CancelledError:
            self._abandon(connection)
            raise
        finally:
            self._active -= 1
            if connection.lost:
                self._lost(connection)
            else:
                self._touch()
        text = "\n".join(block.text for block in result.content if hasattr(block, "text"))
        structured = result.structured_content if isinstance(result.structured_content, dict) else {}
        most = found.max_result_chars if found is not None else DEFAULT_CHARS
        return ToolAnswer(text, structured, bool(result.is_error), most)

    def _check(self, tool: str, arguments: Mapping[str, Any]) -> CatalogTool | None:
        catalog = self._catalog
        found = None if catalog is None else catalog.tool(tool)
        if found is None:
            if catalog is not None and catalog.complete and catalog.stale is None and not self._dirty:
                raise CallFailed(self.name, "unknown_tool", f"has no tool {tool[:80]!r}", sent=False)
            return None
        problems = found.checker.problems(arguments)
        if problems:
            raise CallFailed(self.name, "invalid_arguments", f"{tool}: {'; '.join(problems)}", sent=False)
        return found

    def _abandon(self, connection: Connection) -> None:
        """A process that was not heard to stop working is ended; HTTP requests are on their own (A33)."""
        definition = self._resolved.definition
        if definition is not None and definition.transport == "stdio":
            connection.lost = True

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
            if self.state == "ready":
                self.state = "idle"
        closer = asyncio.ensure_future(connection.aclose())
        self._closers.add(closer)
        closer.add_done_callback(self._closers.discard)

    # -- idleness and the end -------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._used_at_s = self._clock.now()
        if self._timeouts.idle_s is not None and self._idling is None and self.state != "closed":
            self._idling = asyncio.create_task(self._watch_idleness(self._timeouts.idle_s))

    async def _watch_idleness(self, idle_s: float) -> None:
        try:
            while True:
                left_s = self._used_at_s + idle_s - self._clock.now()
                if left_s <= 0 and not self._active:
                    break
                await self._clock.sleep(max(left_s, idle_s / 10))
            if self.state == "ready":
                self.state = "idle"
            await self._drop()
        finally:
            self._idling = None

    async def aclose(self) -> None:
        """Close for good: nothing of it runs any more. Harmless when repeated (A36)."""
        self.state = "closed"
        tasks = [task for task in (self._opening, self._refreshing, self._idling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop()
        await asyncio.gather(*self._closers, return_exceptions=True)


class Supervisor:
    """All servers of a resolution.

    Args:
        resolution: names and what they stand for.
        host: see :class:`~robot_mcp_kit.client.admitting.Host`.
        backoff: see :class:`~robot_mcp_kit.client.failures.Backoff`.
        clock: for pauses.
    """

    def __init__(
        self,
        resolution: Resolution,
        host: Host,
        *,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._problems = resolution.problems
        self._servers = {
            name: ServerSupervisor(resolved, host, backoff=backoff, clock=clock)
            for name, resolved in resolution.servers.items()
        }

    @property
    def servers(self) -> Mapping[str, ServerSupervisor]:
        """By name."""
        return self._servers

    def __getitem__(self, name: str) -> ServerSupervisor:
        return self._servers[name]

    async def catalog(self) -> Catalog:
        """What all servers offer; who could not be asked is in its ``rejected``."""
        asked = await asyncio.gather(
            *(server.catalog() for server in self._servers.values()), return_exceptions=True
        )
        catalogs: list[ServerCatalog] = []
        rejected = [problem for problem in self._problems if problem.code != "unknown_field"]
        for answer in asked:
            if isinstance(answer, ServerCatalog):
                catalogs.append(answer)
            elif isinstance(answer, RefusedError):
                rejected.append(answer.refusal)
            elif isinstance(answer, BaseException):
                raise answer
        return merged(catalogs, rejected)

    async def call(
        self, canonical: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        """Call a tool by its canonical name.

        Raises:
            CallFailed: there is no such tool, or no answer.
        """
        tool = (await self.catalog()).tools.get(canonical)
        if tool is None:
            raise CallFailed("", "unknown_tool", f"no server has a tool {canonical[:80]!r}", sent=False)
        return await self._servers[tool.server].call(tool.name, arguments, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close all. Harmless when repeated."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


def _not_called(refusal: Refusal) -> CallFailed:
    return CallFailed(refusal.server, refusal.code, refusal.message, sent=False)


def _seen(task: asyncio.Task[Any]) -> None:
    """Whoever waited has the error; nobody needs to be told of it twice."""
    if not task.cancelled():
        with contextlib.suppress(BaseException):
            task.exception()
