"""The bridge, with something wrong while it is configured (``test_refusing_to_start.py``).

The first argument is what: ``error`` raises what nobody expects, ``full`` lets no file grow any more.
"""

from __future__ import annotations

import resource
import sys
from typing import Any

from robot_mcp_kit.node import life
from robot_mcp_kit.node.main import main

GROWN = 40_000
"""Bytes: enough for SQLite to open a file, not to put its tables in."""
prepare = life.prepare
fault = sys.argv.pop(1)


def failing(*arguments: Any) -> Any:
    if fault == "error":
        return {}["no such frame"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (GROWN, limits[1]))
    try:
        return prepare(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


life.prepare = failing
sys.exit(main(sys.argv[1:]))
