"""What the node does not import: a goal that has to be found again after a restart waits for every import."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import sys
import robot_mcp_kit.node.main
import robot_mcp_kit.node.endpoint
import httpx, structlog
print(*[name for name in ("rich", "pygments", "httpx._main") if name in sys.modules])
import rich.console
"""


def test_the_node_does_without_command_lines_and_whoever_wants_rich_gets_it() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
