"""A robot's capability server without a robot, as a process: navigate_to and dock that take as long as they
are told.

Variables: ``MCP_PORT``, ``DRIVE_S``, ``TICK_S``, and the contract's own.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server import MCPServer

from robot_mcp_kit import EventPoster, TaskContext, TaskManager, register_task_tools

DRIVE_S = float(os.environ.get("DRIVE_S", "1.2"))
TICK_S = float(os.environ.get("TICK_S", "0.05"))
# The drive's clock runs faster than ours, so that "10 s remain" comes after a while and not at once.
FACTOR = 15.0 / DRIVE_S

mcp = MCPServer("robot", log_level="WARNING")
poster = EventPoster("robot")
manager = TaskManager("robot", poster)
register_task_tools(mcp, manager)
keys: dict[str, str] = {}
started: list[str] = []


def _start(tool: str, seconds: float, key: str | None, triggers: list[dict[str, Any]] | None) -> str:
    if key is not None and key in keys:
        known = manager.get(keys[key])
        assert known is not None
        return known.model_dump_json()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        left_s = seconds
        while left_s > 0:
            await asyncio.sleep(TICK_S)
            left_s -= TICK_S
            eta_s = max(0.0, left_s * FACTOR)
            await ctx.progress({"eta_s": eta_s, "percent": 100 * (1 - left_s / seconds)})
            for trigger in ctx.triggers:
                if trigger["type"] == "eta_below" and eta_s < trigger["seconds"]:
                    await ctx.fire_trigger(trigger, {"eta_s": eta_s})
        return {"tool": tool}

    info = manager.start(tool, body, triggers=triggers)
    started.append(info.task_id)
    if key is not None:
        keys[key] = info.task_id
    return info.model_dump_json()


@mcp.tool()
async def navigate_to(
    place: str, triggers: list[dict[str, Any]] | None = None, idempotency_key: str | None = None
) -> str:
    """Drive there."""
    return _start("navigate_to", DRIVE_S, idempotency_key, triggers)


@mcp.tool()
async def dock(idempotency_key: str | None = None) -> str:
    """Dock."""
    return _start("dock", DRIVE_S / 2, idempotency_key, None)


if __name__ == "__main__":
    asyncio.run(mcp.run_streamable_http_async(port=int(os.environ["MCP_PORT"])))
