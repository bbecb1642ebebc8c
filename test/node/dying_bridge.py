"""The bridge, whose ROS context goes away when its standard input says a line (``test_ros_gone.py``)."""

from __future__ import annotations

import sys
import threading
from typing import Any

from robot_mcp_kit.node.main import main
from robot_mcp_kit.ros.side import RosSide

started = RosSide.start


def start(self: RosSide, **options: Any) -> None:
    started(self, **options)

    def shut_down() -> None:
        sys.stdin.readline()
        self.context.try_shutdown()

    threading.Thread(target=shut_down, daemon=True).start()


RosSide.start = start  # type: ignore[method-assign]
sys.exit(main(sys.argv[1:]))
