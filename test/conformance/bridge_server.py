"""A bridge over a scripted action server, for the conformance scenarios that need no fixture tools."""

from __future__ import annotations

import asyncio
import logging
import runpy
import sys
from pathlib import Path

from robot_mcp_kit.server.app import MCP_PATH, build_app
from robot_mcp_kit.server.listening import bind
from robot_mcp_kit.server.serve import serving

_RIG = Path(__file__).parents[1] / "server" / "rig.py"


async def main() -> None:
    async with runpy.run_path(str(_RIG))["rigged"]() as rig:
        listener = bind("127.0.0.1", 0)
        port = int(listener.getsockname()[1])
        async with serving(build_app(rig.server, host="127.0.0.1", port=port), listener):
            print(f"ready http://127.0.0.1:{port}{MCP_PATH}", flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
