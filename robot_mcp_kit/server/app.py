"""The MCP server and its ASGI application, over one bridge."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mcp.server import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.applications import Starlette

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.fastmcp_ext import register_task_tools
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.server.actions import list_actions_tool
from robot_mcp_kit.server.auth import SCOPE, BearerToken, auth_settings
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.operator import OperatorApi, host_names
from robot_mcp_kit.server.promcp.surface import ProMcpSurface
from robot_mcp_kit.server.pushing import TaskPush
from robot_mcp_kit.server.rcp import add_rcp_resources, motion_names, rcp_tools
from robot_mcp_kit.server.requesters import GuardedServer, SessionEnds
from robot_mcp_kit.server.resources import add_prompts, add_robot_resources, add_task_resources
from robot_mcp_kit.server.tasks_extension import TasksExtension
from robot_mcp_kit.server.tools import make_tool, skill_tool, stop_tool
from robot_mcp_kit.server.waiting import await_tool
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.discovery import ActionCatalog
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.version import package_version

MCP_PATH = "/mcp"

INSTRUCTIONS = (
    "This server drives one robot. Starting a skill answers at once with a task (task_id, state running); "
    "the robot moves on while you do other things. Follow a task with get_task, or wait for its end with "
    "await_task and its handle; end it with cancel_task, see all with list_tasks. stop ends every motion at "
    "once. Calls take from milliseconds to many seconds and promise no rate, so plan with them; a control "
    "loop belongs below. Lengths are metres, angles radians, times seconds; poses are in the frame that the "
    "argument names."
)


def build_mcp_server(
    bridge: Bridge,
    manager: TaskManager,
    *,
    name: str,
    token: SecretStr | None = None,
    observer_token: SecretStr | None = None,
    url: str = "",
    catalog: ActionCatalog | None = None,
    handles: Handles | None = None,
    config: RobotConfig | None = None,
    rcp: BridgedRobot | None = None,
    rcp_actions: bool = False,
) -> MCPServer:
    """The MCP server: one tool a skill, ``stop``, and the contract's three task tools.

    Args:
        bridge: starts and stops goals.
        manager: the tasks that the contract's tools report on.
        name: the server's name.
        token: demanded as a bearer token on every request when given.
        observer_token: of clients that may only look; told apart here, and refused.
        url: this endpoint's own URL, for the protected-resource metadata; needed with a token.
        catalog: also offer ``list_actions`` over it.
        handles: of the motions; without them, handles that end with this process.
        config: also offer the robot's skills, places and map as resources, and prompts about them.
        rcp: also offer the robot's context as the Robot Context Protocol has it.
        rcp_actions: also that protocol's actions.
    """
    if handles is None:
        handles = Handles(manager, saved=bridge.ledger.saved_task)
    bus = InMemorySubscriptionBus()
    protocol = [] if rcp is None else rcp_tools(rcp, bridge, handles, actions=rcp_actions)
    server = GuardedServer(
        name,
        version=package_version(),
        instructions=INSTRUCTIONS,
        tools=[
            *(skill_tool(skill, bridge, handles) for skill in bridge.skills.values()),
            await_tool(handles, make_tool),
            stop_tool(bridge),
            *([] if catalog is None else [list_actions_tool(catalog)]),
            *protocol,
        ],
        token_verifier=None if token is None else BearerToken(token, observer_token),
        auth=None if token is None else auth_settings(url, SCOPE),
        extensions=[TasksExtension(handles, frozenset(bridge.skills) | motion_names(protocol))],
        subscriptions=bus,
        log_level="WARNING",
    )
    server.guard = bridge.guard
    register_task_tools(server, manager)
    add_task_resources(server, manager)
    TaskPush(manager, bus).install(server)
    if config is not None:
        add_robot_resources(server, bridge, config)
        add_prompts(server, bridge, config)
    if rcp is not None:
        add_rcp_resources(server, rcp)
    return server


def build_app(
    server: MCPServer,
    *,
    host: str,
    port: int,
    allowed_hosts: Sequence[str] = (),
    operator: OperatorApi | None = None,
    promcp: ProMcpSurface | None = None,
) -> Starlette:
    """The ASGI application with the MCP endpoint at ``/mcp``, the operator's API at ``/api``, and the
    profiles of the proMCP surface under ``/promcp``.

    Host and Origin headers are checked against the address listened on and ``allowed_hosts`` (names under
    which others reach this machine, ``robot.local:8765``): a web page in somebody's browser must not drive
    the robot.
    """
    names = host_names(host, port, allowed_hosts)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=sorted(names),
        allowed_origins=sorted(f"http://{name}" for name in names),
    )
    logging.getLogger(__name__).info("MCP is answered for the hosts %s", ", ".join(sorted(names)))
    app = server.streamable_http_app(streamable_http_path=MCP_PATH, transport_security=security, host=host)
    if operator is not None:
        app.router.routes.extend(operator.routes())
    if isinstance(server, GuardedServer) and server.guard is not None:
        paths = [MCP_PATH, *([] if promcp is None else promcp.paths)]
        app.add_middleware(SessionEnds, guard=server.guard, paths=frozenset(paths))
    if promcp is not None:
        promcp.mount(app, security, host)
    return app
