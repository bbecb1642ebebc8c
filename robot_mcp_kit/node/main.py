"""Start, run and end the node (``ros2 run robot_mcp_kit bridge``, ``robot-mcp-kit run``)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.node.log import configure_logging
from robot_mcp_kit.node.settings import PARAMETERS, NodeSettings, settings_from
from robot_mcp_kit.ros.parameters import read_parameters
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.server.app import MCP_PATH, build_app, build_mcp_server
from robot_mcp_kit.server.auth import check_exposure
from robot_mcp_kit.server.serve import bind, serving
from robot_mcp_kit.skills.config import RobotConfig, load_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT, SIGTERM, the end of stdin (stdio) or the death of ROS.

    Args:
        arguments: the command line without the program's name, ROS arguments included; ``sys.argv`` if
        ``None``.

    Returns:
        0 after a requested end, 1 when ROS died, 2 when the configuration cannot be used (said on stderr).
    """
    ros = RosSide(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = settings_from(read_parameters(ros.node, PARAMETERS))
        configure_logging(settings.log_format, settings.log_level)
        check_exposure(settings.host, settings.token)
        config = load_config(settings.skills_file)
        return asyncio.run(_run(ros, settings, config))
    except (ConfigError, LookupError) as error:
        print(f"robot-mcp-kit: the bridge does not start.\n{error}", file=sys.stderr)
        return EXIT_CONFIG
    finally:
        ros.close()


async def _run(ros: RosSide, settings: NodeSettings, config: RobotConfig) -> int:
    end = asyncio.Event()
    deaths: list[str] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)

    poster = EventPoster(settings.server_name)
    manager = TaskManager(settings.server_name, poster)

    def ros_died(reason: str) -> None:
        deaths.append(reason)
        bridge.fail_all("ROS_EXECUTOR_DEAD", f"The bridge lost its connection to ROS: {reason}.")
        end.set()

    ports = await ros.start(on_death=ros_died)
    where = await ros.read_pose(config.robot)
    skills = build_skills(config, where.pose)
    for skill in skills.values():
        await ports.create(skill.action_name, skill.action_type)  # discovery begins now
    bridge = Bridge(manager, ports, config, settings=settings.bridge, skills=skills)

    def stop_now() -> None:
        task = loop.create_task(bridge.stop("the ~/stop service was called"))
        stops.add(task)
        task.add_done_callback(stops.discard)

    stops: set[asyncio.Task[object]] = set()
    await ros.offer_stop(stop_now)
    try:
        await _serve(bridge, manager, settings, config, end)
    finally:
        # Motions end before the node does: nobody would be left to stop them.
        await manager.aclose()
        await bridge.aclose()
        await poster.aclose()
    if deaths:
        logger.critical("the node ends: %s", deaths[0])
        return EXIT_FAILED
    return EXIT_OK


async def _serve(
    bridge: Bridge, manager: TaskManager, settings: NodeSettings, config: RobotConfig, end: asyncio.Event
) -> None:
    """Answer MCP until ``end`` is set (or stdin ends). Motions are stopped before connections are closed."""

    async def ended() -> None:
        await end.wait()
        await manager.aclose()

    if settings.stdio:
        server = build_mcp_server(bridge, manager, name=settings.server_name)
        talking = asyncio.create_task(server.run_stdio_async(), name="stdio")
        ending = asyncio.create_task(ended(), name="end")
        done, pending = await asyncio.wait({talking, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()
        return
    listener = bind(settings.host, settings.port)
    with contextlib.closing(listener):
        port = int(listener.getsockname()[1])
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{shown}:{port}{MCP_PATH}"
        server = build_mcp_server(bridge, manager, name=settings.server_name, token=settings.token, url=url)
        app = build_app(server, host=settings.host, port=port, allowed_hosts=settings.allowed_hosts)
        async with serving(app, listener):
            logger.info("%s answers MCP at %s", config.robot.name, url)
            print(f"bridge ready {url}", flush=True)
            await ended()
