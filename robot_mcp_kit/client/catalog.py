"""What servers offer: complete, or plainly partial; never one passed off as the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.connection import Connection, Listed, ServerIdentity
from robot_mcp_kit.client.naming import canonical_name
from robot_mcp_kit.client.refusals import FailureClass, Refusal
from robot_mcp_kit.client.result_size import max_result_chars
from robot_mcp_kit.client.schemas import ArgumentChecker

MAX_PAGES = 50
MAX_ITEMS = 5_000
MAX_LIST_BYTES = 8 * 1024 * 1024
"""Of all pages of one list together, as JSON."""
_KINDS: tuple[Listed, ...] = ("tools", "prompts", "resources")


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """One tool."""

    server: str
    name: str
    """As the server calls it."""
    canonical: str
    """As everybody here calls it; unique among all servers."""
    title: str
    description: str
    checker: ArgumentChecker = field(repr=False, compare=False)
    max_result_chars: int = 25_000

    @property
    def input_schema(self) -> dict[str, Any]:
        """For a model's function calling."""
        return self.checker.schema


@dataclass(frozen=True, slots=True)
class ServerCatalog:
    """What one server offered when it was asked."""

    server: str
    identity: ServerIdentity
    tools: tuple[CatalogTool, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    failures: tuple[Refusal, ...] = ()
    """Why a list is not complete, at most one for each kind."""
    notes: tuple[Refusal, ...] = ()
    """What was narrowed or ignored, said once."""
    stale: Refusal | None = None
    """Asking again failed: this is the last good answer."""

    @property
    def complete(self) -> bool:
        """Every declared list was read to its end."""
        return not self.failures

    def tool(self, name: str) -> CatalogTool | None:
        """By the server's own name."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Of all servers."""

    tools: Mapping[str, CatalogTool] = field(default_factory=dict)
    """By canonical name."""
    servers: Mapping[str, ServerCatalog] = field(default_factory=dict)
    rejected: tuple[Refusal, ...] = ()
    """Servers and tools that are not in it, each with the reason."""

    @property
    def complete(self) -> bool:
        """Every server answered, to the end."""
        return not self.rejected and all(one.complete and one.stale is None for one in self.servers.values())


async def discover(connection: Connection, *, timeout_s: float) -> ServerCatalog:
    """Ask a server for all that it declares, page by page. A capability that it does not declare is not
    asked for.

    Does not raise: what could not be read is in :attr:`ServerCatalog.failures`.

    Args:
        connection: open.
        timeout_s: for everything together; each page has the connection's own bound.
    """
    lists: dict[Listed, list[Any]] = {}
    failures: list[Refusal] = []
    capabilities = connection.capabilities
    identity = connection.identity
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    for kind in _KINDS:
        lists[kind] = []
        if getattr(capabilities, kind) is not None:
            failure = await _drain(connection, kind, lists[kind], deadline_s)
            if failure is not None:
                failures.append(failure)
    tools: list[CatalogTool] = []
    notes: list[Refusal] = []
    for one in lists["tools"]:
        tools.append(_tool(connection.name, one, notes))
    return ServerCatalog(
        server=connection.name,
        identity=identity,
        tools=tuple(tools),
        prompts=tuple(str(one.name) for one in lists["prompts"]),
        resources=tuple(str(one.uri) for one in lists["resources"]),
        failures=tuple(failures),
        notes=tuple(notes),
    )


async def _drain(connection: Connection, kind: Listed, into: list[Any], deadline_s: float) -> Refusal | None:
    """Read pages until there are no more; why not, if not."""
    cursor: str | None = None
    size = 0
    seen: set[str] = set()
    for number in range(1, MAX_PAGES + 1):
        left_s = deadline_s - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                items, cursor = await connection.page(kind, cursor)
        except TimeoutError:
            return _partial(connection, kind, "discovery_timeout", f"took too long, at page {number}")
        except CallFailed as error:
            code = {"timeout": "page_timeout", "server_error": "page_rejected"}.get(
                error.reason, error.reason
            )
            return _partial(connection, kind, code, f"page {number} failed: {error.message}")
        size += sum(len(one.model_dump_json()) for one in items)
        if size > MAX_LIST_BYTES:
            return _partial(connection, kind, "list_too_large", f"more than {MAX_LIST_BYTES} bytes")
        into += items
        if cursor is None:
            return None
        if len(into) > MAX_ITEMS:
            return _partial(connection, kind, "too_many_items", f"more than {MAX_ITEMS} entries")
        if cursor in seen:
            return _partial(
                connection, kind, "cursor_repeated", f"page {number} leads back to an earlier one"
            )
        seen.add(cursor)
    return _partial(connection, kind, "too_many_pages", f"more than {MAX_PAGES} pages")


def _partial(connection: Connection, kind: Listed, code: str, message: str) -> Refusal:
    return Refusal(code, f"the list of {kind} is not complete: {message}", connection.name, kind)


def _tool(server: str, tool: Any, notes: list[Refusal]) -> CatalogTool:
    checker = ArgumentChecker(tool.input_schema)
    if checker.dropped:
        notes.append(
            Refusal(
                "schema_narrowed",
                f"accepts anything at {', '.join(checker.dropped[:20])}: not expressible here",
                server,
                tool.name,
            )
        )
    most, complaint = max_result_chars(tool.meta)
    if complaint is not None:
        notes.append(Refusal("result_size_ignored", complaint, server, tool.name))
    return CatalogTool(
        server=server,
        name=tool.name,
        canonical=canonical_name(server, tool.name),
        title=tool.title or tool.name,
        description=tool.description or "",
        checker=checker,
        max_result_chars=most,
    )


def merged(catalogs: Iterable[ServerCatalog], rejected: Iterable[Refusal] = ()) -> Catalog:
    """One catalog of all servers; of two tools with one canonical name, the later one is rejected (A19)."""
    tools: dict[str, CatalogTool] = {}
    servers: dict[str, ServerCatalog] = {}
    refusals = list(rejected)
    for one in catalogs:
        servers[one.server] = one
        refusals += one.failures
        if one.stale is not None:
            refusals.append(one.stale)
        for tool in one.tools:
            first = tools.setdefault(tool.canonical, tool)
            if first is not tool:
                refusals.append(
                    Refusal(
                        "name_collision",
                        f"would be called {tool.canonical}, as {first.server} {first.name} is",
                        tool.server,
                        tool.name,
                    )
                )
    return Catalog(tools, servers, tuple(refusals))


def gone_stale(catalog: ServerCatalog, why: Refusal) -> ServerCatalog:
    """The last good answer, marked (A23)."""
    stale = Refusal(
        "catalog_stale",
        f"could not be read again, this is the last good answer: {why.message}",
        catalog.server,
        failure_class=FailureClass.TRANSIENT,
    )
    return replace(catalog, stale=stale)
