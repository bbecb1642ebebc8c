"""From an adapter and a state directory to a guarded robot, where there is no ROS and no skills file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.guarded import GuardedRobot
from robot_mcp_kit.rcp.timing import Timeouts
from robot_mcp_kit.safety.assemble import build_guard, operator_key, plain_parts
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import SafetySection


@asynccontextmanager
async def guarded_robot(
    adapter: RCPAdapter,
    state_dir: Path,
    *,
    name: str = "rcp",
    key: SecretStr | None = None,
    safety: SafetySection | None = None,
    clock: Clock | None = None,
    wall: WallClock = time.time,
    timeouts: Timeouts | None = None,
) -> AsyncIterator[GuardedRobot]:
    """A guarded robot over its own audit trail, approvals and emergency stop; not yet connected.

    Args:
        adapter: the controller's.
        state_dir: made if it is not there: ``audit``, ``standing``, ``operator.key``, ``estop.json``.
        name: of the robot, for standing approvals, and for the trail while it has told no identity.
        key: the operator's; default: that of the state directory.
        safety: approval policy and timeouts. Interlocks are the adapter's own here.
        clock: monotonic.
        wall: Unix seconds.
        timeouts: how long the adapter may take.

    Raises:
        ConfigError: the state directory or the audit trail cannot be used.
    """
    config = RobotConfig.model_validate({"robot": {"name": name}})
    if safety is not None:
        config = config.model_copy(update={"safety": safety})
    clock = clock if clock is not None else SystemClock()
    key = key if key is not None else operator_key(state_dir)
    guard = build_guard(
        config, {}, plain_parts(state_dir, clock=clock, wall=wall, key=key.get_secret_value())
    )
    robot = GuardedRobot(adapter, guard, clock=clock, wall=wall, timeouts=timeouts)
    try:
        yield robot
    finally:
        try:
            await robot.aclose()
        finally:
            await guard.aclose()
