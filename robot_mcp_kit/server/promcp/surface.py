"""The proMCP surface: one MCP server a profile, mounted beside ``/mcp`` in the same application."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import Route

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.promcp.registry import Registry
from robot_mcp_kit.server.auth import OBSERVE, BearerToken, auth_settings
from robot_mcp_kit.server.promcp.doing import Doing
from robot_mcp_kit.server.promcp.profiles import PATH, Profile
from robot_mcp_kit.server.promcp.reading import add_reads
from robot_mcp_kit.server.promcp.tools import can_do_tool, do_tool, stop_tool
from robot_mcp_kit.server.requesters import GuardedServer
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.version import package_version


class ProMcpSurface:
    """All profiles of one robot, over one bridge.

    Args:
        bridge: starts and stops motions.
        manager: its tasks.
        config: the checked file.
        profiles: from :func:`robot_mcp_kit.server.promcp.profiles.build_profiles`; at least one.
        name: the servers' name; the profile's is added.
        token: demanded as a bearer token on every request when given.
        observer_token: of clients that may only look and stop.
        url: of this process, ``http://127.0.0.1:8765``; needed with a token.
        clock: monotonic.
        wall_clock: Unix seconds, for timestamps and for how old a reading is.
    """

    def __init__(
        self,
        bridge: Bridge,
        manager: TaskManager,
        config: RobotConfig,
        profiles: Sequence[Profile],
        *,
        name: str,
        token: SecretStr | None = None,
        observer_token: SecretStr | None = None,
        url: str = "",
        clock: Clock | None = None,
        wall_clock: WallClock = time.time,
        **more: Any,
    ) -> None:
        clock = clock if clock is not None else SystemClock()
        self.profiles = list(profiles)
        self.doing = Doing(bridge, manager, config, clock=clock, wall_clock=wall_clock, **more)
        self.servers: dict[str, MCPServer] = {}
        """By profile."""
        for profile in self.profiles:
            server = GuardedServer(
                f"{name}-{profile.name}",
                version=package_version(),
                instructions=self._instructions(profile),
                tools=[
                    can_do_tool(profile, self.doing),
                    *(do_tool(tool, skill, profile, self.doing) for tool, skill in profile.skills.items()),
                    stop_tool(self.doing),
                ],
                token_verifier=None if token is None else BearerToken(token, observer_token),
                auth=None if token is None else auth_settings(f"{url}{profile.path}", OBSERVE),
                log_level="WARNING",
            )
            server.guard = bridge.guard
            registry = Registry(clock=clock, wall_clock=wall_clock)
            add_reads(registry, profile.reads, bridge.world, config, manager)
            registry.register(server)
            self.servers[profile.name] = server

    @property
    def paths(self) -> list[str]:
        """Of all endpoints."""
        return [PATH, *(profile.path for profile in self.profiles)]

    def mount(self, app: Starlette, security: TransportSecuritySettings, host: str) -> None:
        """Serve the profiles in an application; before it starts."""
        parts = []
        for profile in self.profiles:
            part = self.servers[profile.name].streamable_http_app(
                streamable_http_path=profile.path, transport_security=security, host=host
            )
            app.router.routes.extend(part.routes)
            parts.append(part)
        first = next(r for r in parts[0].routes if isinstance(r, Route) and r.path == self.profiles[0].path)
        app.router.routes.append(Route(PATH, endpoint=first.endpoint))
        outer = app.router.lifespan_context

        @contextlib.asynccontextmanager
        async def lifespan(running: Any) -> AsyncIterator[Any]:
            async with contextlib.AsyncExitStack() as stack:
                state = await stack.enter_async_context(outer(running))
                for part in parts:
                    await stack.enter_async_context(part.router.lifespan_context(part))
                yield state

        app.router.lifespan_context = lifespan

    async def aclose(self) -> None:
        """Wait for no motion any more; they belong to the bridge."""
        await self.doing.aclose()

    def _instructions(self, profile: Profile) -> str:
        others = [
            f"{other.name} at {other.path}"
            + (f" ({other.description.rstrip('.')})" if other.description else "")
            for other in self.profiles
            if other is not profile
        ]
        return " ".join(
            [
                f"This server is the profile {profile.name} of one robot.",
                *([f"{profile.description.rstrip('.')}."] if profile.description else []),
                "Ask can_do with words and parameters first; read what you need; do with a new "
                "idempotency_key for each motion; then read again whether the world is as wanted. do_stop "
                "ends every motion and is never refused.",
                *([f"Other profiles of the same robot: {'; '.join(others)}."] if others else []),
                "Lengths are metres, angles radians, times seconds; poses name their frame.",
            ]
        )
