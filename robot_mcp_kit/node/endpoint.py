"""The node's HTTP endpoint (or stdio): MCP, the proMCP profiles, and the operator's API.

Imported only after the goals of an earlier process are followed: the MCP half takes longest to import.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from starlette.applications import Starlette

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.node.prepared import Prepared
from robot_mcp_kit.node.settings import END_GRACE_S
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.safety.state_dir import announce, withdraw
from robot_mcp_kit.server.app import MCP_PATH, build_app, build_mcp_server
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.listening import bind
from robot_mcp_kit.server.operator import OperatorAccess, OperatorApi, host_names
from robot_mcp_kit.server.promcp.surface import ProMcpSurface
from robot_mcp_kit.server.serve import serving
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)


async def serve(
    prepared: Prepared,
    bridge: Bridge,
    manager: TaskManager,
    *,
    opened: asyncio.Event,
    closing: asyncio.Event,
) -> None:
    """Answer clients until ``closing`` is set (or, with stdio, the client leaves); then end every motion.

    Args:
        opened: set as soon as the endpoint answers.
        closing: set by somebody else.
    """

    async def closed() -> None:
        await closing.wait()
        # Motions end before connections do: nobody would be left to stop them.
        await manager.aclose(END_GRACE_S)

    told = prepared.rcp
    rcp = None if told is None else await told.robot(prepared.config, bridge, manager)
    server = functools.partial(
        build_mcp_server,
        bridge,
        manager,
        name=prepared.settings.server_name,
        catalog=prepared.catalog,
        handles=Handles(manager, saved=bridge.ledger.saved_task, key=prepared.handle_key),
        config=prepared.config,
        rcp=rcp,
        rcp_actions=told is not None and told.actions,
    )
    async with contextlib.AsyncExitStack() as stack:
        if rcp is not None:
            stack.push_async_callback(rcp.aclose)
            if prepared.settings.rcp_server:
                await stack.enter_async_context(_protocol(prepared, rcp))
        if prepared.listener is None:
            await _over_stdio(prepared, server().run_stdio_async(), opened, closed)
        else:
            await _over_http(prepared, prepared.listener, server, bridge, manager, opened, closed)


def _protocol(prepared: Prepared, robot: BridgedRobot) -> contextlib.AbstractAsyncContextManager[None]:
    """The Robot Context Protocol's own server; its libraries are only needed with it."""
    from robot_mcp_kit.node.rcp_serving import rcp_serving

    return rcp_serving(robot, prepared.settings, prepared.guard.operator_key)


async def _over_stdio(
    prepared: Prepared,
    talk: Coroutine[Any, Any, None],
    opened: asyncio.Event,
    closed: Callable[[], Awaitable[None]],
) -> None:
    if prepared.profiles:
        logger.warning("promcp: the profiles are served over HTTP only, not with stdio")
    async with _operator_only(prepared):
        talking = asyncio.ensure_future(talk)
        ending = asyncio.ensure_future(closed())
        opened.set()
        done, pending = await asyncio.wait({talking, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()


async def _over_http(
    prepared: Prepared,
    listener: socket.socket,
    make_server: Callable[..., Any],
    bridge: Bridge,
    manager: TaskManager,
    opened: asyncio.Event,
    closed: Callable[[], Awaitable[None]],
) -> None:
    settings = prepared.settings
    port = int(listener.getsockname()[1])
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    base = f"http://{shown}:{port}"
    url = f"{base}{MCP_PATH}"
    promcp = _promcp(prepared, bridge, manager, base)
    app = build_app(
        make_server(token=settings.token, observer_token=settings.observer_token, url=url),
        host=settings.host,
        port=port,
        allowed_hosts=settings.allowed_hosts,
        operator=_operator_api(prepared, host_names(settings.host, port, settings.allowed_hosts)),
        promcp=promcp,
    )
    async with serving(app, listener), _announced(prepared, _reachable(settings.host), port):
        logger.info("%s answers MCP at %s", prepared.config.robot.name, url)
        for path in [] if promcp is None else promcp.paths:
            logger.info("proMCP at %s%s", base, path)
        print(f"bridge ready {url}", flush=True)
        opened.set()
        await closed()
        if promcp is not None:
            await promcp.aclose()


def _promcp(prepared: Prepared, bridge: Bridge, manager: TaskManager, base: str) -> ProMcpSurface | None:
    settings = prepared.settings
    if not prepared.profiles:
        return None
    return ProMcpSurface(
        bridge,
        manager,
        prepared.config,
        prepared.profiles,
        name=settings.server_name,
        token=settings.token,
        observer_token=settings.observer_token,
        url=base,
    )


def _operator_api(prepared: Prepared, hosts: frozenset[str]) -> OperatorApi:
    held, secret = prepared.guard, prepared.settings.approval_secret
    return OperatorApi(held.guard, OperatorAccess(held.operator_key, secret, hosts))


@contextlib.asynccontextmanager
async def _operator_only(prepared: Prepared) -> AsyncIterator[None]:
    """With stdio there is no endpoint; the operator's API gets one of its own, on this machine only."""
    listener = bind("127.0.0.1", 0)
    try:
        port = int(listener.getsockname()[1])
        app = Starlette(routes=_operator_api(prepared, host_names("127.0.0.1", port)).routes())
        async with serving(app, listener), _announced(prepared, "127.0.0.1", port):
            yield
    finally:
        listener.close()


@contextlib.asynccontextmanager
async def _announced(prepared: Prepared, host: str, port: int) -> AsyncIterator[None]:
    """While this holds, the operator's tools find the node by its state directory."""
    state_dir = prepared.guard.state_dir
    announce(state_dir, f"http://{host}:{port}")
    try:
        yield
    finally:
        withdraw(state_dir)


def _reachable(host: str) -> str:
    """An address of this machine to reach what listens on ``host``."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on
    return f"[{host}]" if ":" in host else host
