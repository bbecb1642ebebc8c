"""A whole capability server in one file: it sleeps, tells how it goes, and can be cancelled.

    python examples/sleeper.py                                  streamable HTTP on http://127.0.0.1:9100/mcp
    MCP_TRANSPORT=sse MCP_PORT=9100 python examples/sleeper.py  the old SSE transport, http://127.0.0.1:9100/sse
    MCP_TRANSPORT=stdio python examples/sleeper.py              for a client that starts its servers itself

Variables, of this example only: ``MCP_TRANSPORT``, ``MCP_PORT``, ``SLEEPER_TICK_S`` (seconds between two
reports, default 1). Of the kit: ``RVC_CALLBACK_URL`` and ``RVC_EVENT_SECRET`` say where events go; without
them it runs alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from types import FrameType
from typing import Any

from mcp.server import MCPServer

from robot_mcp_kit import EventPoster, TaskContext, TaskError, TaskManager, register_task_tools, warn_unknown

TRANSPORT = os.environ.get("MCP_TRANSPORT", "streamable-http")
PORT = int(os.environ.get("MCP_PORT", "9100"))
TICK_S = float(os.environ.get("SLEEPER_TICK_S", "1"))

mcp = MCPServer("sleeper")
poster = EventPoster("sleeper")
manager = TaskManager("sleeper", poster)
register_task_tools(mcp, manager)


@mcp.tool()
def sleep_task(duration_s: float, fail: bool = False, triggers: list[dict[str, Any]] | None = None) -> str:
    """Start a task that sleeps for duration_s seconds. Returns at once with a task_id.

    fail: end with the failure FAKE_FAILURE instead of a result.
    triggers: {"type": "eta_below", "seconds": N} fires once when less than N seconds remain;
    {"type": "progress_above", "percent": P} fires once at P percent.
    """
    if not math.isfinite(duration_s) or duration_s < 0:
        raise ValueError("duration_s must be a finite number of seconds >= 0")
    warn_unknown(triggers or [], {"eta_below"})

    async def body(ctx: TaskContext) -> dict[str, Any]:
        ticks = int(duration_s / TICK_S + 1e-9)
        for tick in range(1, ticks + 1):
            ctx.raise_if_cancelled()
            await asyncio.sleep(TICK_S)
            slept_s = tick * TICK_S
            eta_s = max(0.0, duration_s - slept_s)
            await ctx.progress({"eta_s": eta_s, "percent": min(100.0, 100 * slept_s / duration_s)})
            for trigger in ctx.triggers:
                if trigger.get("type") == "eta_below" and eta_s < trigger["seconds"]:
                    await ctx.fire_trigger(trigger, {"eta_s": eta_s})
        await asyncio.sleep(max(0.0, duration_s - ticks * TICK_S))
        if fail:
            raise TaskError(
                "FAKE_FAILURE", "The sleeper was asked to fail.", suggestions=["retry_without_fail"]
            )
        return {"slept_s": duration_s}

    info = manager.start("sleep_task", body, triggers=triggers, est_duration_s=duration_s)
    return info.model_dump_json()


async def serve() -> None:
    """Run until interrupted, then cancel what runs and give queued events a last chance."""
    try:
        if TRANSPORT == "stdio":
            await mcp.run_stdio_async()
        elif TRANSPORT == "sse":
            await mcp.run_sse_async(port=PORT)
        elif TRANSPORT == "streamable-http":
            await mcp.run_streamable_http_async(port=PORT)
        else:
            raise SystemExit(f"MCP_TRANSPORT: streamable-http, sse or stdio, got {TRANSPORT!r}")
    finally:
        await manager.aclose()
        await poster.aclose()


def stop(_signum: int, _frame: FrameType | None) -> None:
    """A service manager's SIGTERM ends like Ctrl-C, so that ``finally`` runs."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
