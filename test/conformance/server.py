"""The fixture server: the suite's tools on a server built, secured and served as the bridge's own.

    python test/conformance/server.py [PORT]

Prints ``ready URL`` when it answers, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType

from mcp.server import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus

from robot_mcp_kit.server.app import MCP_PATH, build_app
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.listening import bind
from robot_mcp_kit.server.pushing import TaskPush
from robot_mcp_kit.server.resources import add_task_resources
from robot_mcp_kit.server.serve import serving
from robot_mcp_kit.server.tasks_extension import TasksExtension
from robot_mcp_kit.server.waiting import await_tool
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster


def _beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"conformance_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build() -> MCPServer:
    """The server; call it on the event loop."""
    from robot_mcp_kit.server.tools import make_tool

    tasks, generic = _beside("tasks_fixture"), _beside("generic_fixture")
    manager = TaskManager("fixture", CollectingPoster())
    handles, bus = Handles(manager), InMemorySubscriptionBus()
    extension = TasksExtension(handles, tasks.TASK_TOOLS, required=tasks.REQUIRED)
    server = MCPServer(
        "conformance-fixture",
        version="1",
        tools=[await_tool(handles, make_tool)],
        extensions=[extension],
        subscriptions=bus,
        log_level="ERROR",
    )
    add_task_resources(server, manager)
    TaskPush(manager, bus).install(server)
    tasks.add_task_tools(server, handles, lambda: extension)
    generic.add_contents(server)
    generic.add_requests_to_the_client(server)
    generic.add_rounds(server)
    return server


async def main(port: int) -> None:
    listener = bind("127.0.0.1", port)
    port = int(listener.getsockname()[1])
    app = build_app(build(), host="127.0.0.1", port=port)
    async with serving(app, listener):
        print(f"ready http://127.0.0.1:{port}{MCP_PATH}", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
