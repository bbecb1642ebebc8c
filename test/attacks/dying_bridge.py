"""The bridge, killed at the moment its first goal would leave: after the audit record, before the goal."""

from __future__ import annotations

import os
import signal
import sys

from robot_mcp_kit.cli.common import require_ros

require_ros("the dying bridge")

from robot_mcp_kit.cli import main  # noqa: E402
from robot_mcp_kit.ros import action_port  # noqa: E402


async def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


action_port.RosActionPort.send_goal = die  # type: ignore[method-assign]
sys.exit(main(sys.argv[1:]))
