"""Start, run and end the node (``ros2 run robot_mcp_kit bridge``, ``robot-mcp-kit run``)."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
import sys
from collections.abc import Sequence

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.node.life import Life
from robot_mcp_kit.node.log import configure_logging
from robot_mcp_kit.node.settings import (
    AUTOSTART,
    EXECUTOR,
    LOG_PARAMETERS,
    PARAMETERS,
    executor_setting,
    log_settings,
)
from robot_mcp_kit.ros.parameters import declare_parameters, parameter_values
from robot_mcp_kit.ros.side import RosSide

logger = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 0.0005
"""How long the rclpy thread, or the loop, may keep the other one from Python's lock when both have work. With
Python's 5 ms a stop of twenty goals waited for as many turns: up to 240 ms instead of 50 to the last cancel.
"""
EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node until a signal, its shutdown transition, the end of stdin (stdio) or the death of ROS.

    Args:
        arguments: the command line without the program's name, ROS arguments included; ``sys.argv`` if
        ``None``.

    Returns:
        0 after a requested end, 1 when something died, 2 when the configuration cannot be used (said on
        stderr).
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    ros = RosSide(sys.argv[1:] if arguments is None else arguments)
    try:
        declare_parameters(ros.node, (*PARAMETERS, *LOG_PARAMETERS, AUTOSTART, EXECUTOR))
        configure_logging(*log_settings(parameter_values(ros.node, LOG_PARAMETERS)))
        executor = executor_setting(parameter_values(ros.node, [EXECUTOR]))
        autostart = ros.node.get_parameter(AUTOSTART.name).value
        return asyncio.run(_run(ros, autostart=autostart, executor=executor))
    except (ConfigError, LookupError) as error:
        print(f"robot-mcp-kit: the bridge does not start.\n{error}", file=sys.stderr)
        return EXIT_CONFIG
    finally:
        ros.close()


async def _run(ros: RosSide, *, autostart: bool, executor: str) -> int:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[BaseException | None] = loop.create_future()

    def finish(reason: BaseException | None = None) -> None:
        if not end.done():
            end.set_result(reason)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, finish)

    async def tell(reason: str) -> None:
        try:
            await life.lose_ros("ROS_EXECUTOR_DEAD", f"The bridge lost its connection to ROS: {reason}.")
        finally:
            finish(RuntimeError(reason))

    def ros_died(reason: str) -> None:
        telling.append(asyncio.create_task(tell(reason)))

    telling: list[asyncio.Task[None]] = []

    ros.start(on_death=ros_died, executor=executor)
    life = Life(ros, on_end=finish)
    await ros.offer_stop(functools.partial(life.stop, "the ~/stop service was called"))
    try:
        if autostart:
            await life.bring_up()
        else:
            print("bridge unconfigured", flush=True)
        reason = await end
    finally:
        await life.take_down()
    if isinstance(reason, ConfigError):
        raise reason
    if reason is not None:
        logger.critical("the node ends: %s", reason, exc_info=reason)
        return EXIT_FAILED
    return EXIT_OK
