"""The Robot Context Protocol's own server in the node. Imported only where the parameters ask for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from pydantic import SecretStr

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.node.settings import NodeSettings
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.rcp.server import RCPServer, RCPServerSettings


@contextlib.asynccontextmanager
async def rcp_serving(
    robot: BridgedRobot, settings: NodeSettings, operator_key: SecretStr
) -> AsyncIterator[None]:
    """JSON-RPC over WebSocket while this holds; the log tells its address.

    Raises:
        ConfigError: the address cannot be used, or is reachable from elsewhere without a token.
    """
    told = RCPServerSettings(
        host=settings.rcp_host,
        port=settings.rcp_port,
        token=settings.rcp_token,
        operator_key=operator_key,
        allowed_hosts=settings.allowed_hosts,
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(RCPServer(robot, told).running())
        except ConfigError as error:
            raise ConfigError(f"parameters rcp_host and rcp_port: {error}") from error
        yield
