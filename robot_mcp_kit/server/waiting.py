"""The blocking form of a skill and ``await_task``: wait up to a limit, tell progress, and go away cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.server.answers import outcome
from robot_mcp_kit.server.handles import HandleError, Handles
from robot_mcp_kit.server.outputs import await_schema
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

MAX_WAIT_S = 50.0
"""Longest a call blocks. Many clients give up after 60 s, and would then not know the handle."""
AWAIT_TASK = "await_task"
_CANCELS: set[asyncio.Task[object]] = set()


def check_wait(value: Any, *, default_s: float = 0.0) -> float:
    """Seconds to wait: 0 to :data:`MAX_WAIT_S`; more counts as the limit.

    Raises:
        ArgumentError: not a number of seconds.
    """
    if value is None:
        return default_s
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ArgumentError("wait_s", f"expected seconds, 0 to {MAX_WAIT_S:g}")
    return min(float(value), MAX_WAIT_S)


class ProgressTeller:
    """MCP progress notifications of one call: percent, strictly increasing, none after the result.

    Without a progress token in the request nothing is sent.
    """

    def __init__(self, ctx: Context[Any, Any]) -> None:
        self._ctx = ctx
        self._last = -1.0

    async def tell(self, info: TaskInfo) -> None:
        """Send where the task stands, if it went on since."""
        progress = info.progress or {}
        percent = progress.get("percent")
        value = float(percent) if isinstance(percent, int | float) and not isinstance(percent, bool) else 0.0
        # Equal values are news too (a phase, an ETA), but the protocol wants a larger number each time.
        value = min(max(value, self._last + 1e-3), 100.0)
        if value <= self._last:
            return
        self._last = value
        words = [str(progress[key]) for key in ("phase", "goal") if progress.get(key)]
        eta_s = progress.get("eta_s")
        if isinstance(eta_s, int | float):
            words.append(f"{eta_s:g} s to go")
        await self._ctx.report_progress(
            value, 100.0, f"{info.tool} {info.task_id}: {', '.join(words) or info.state}"
        )


async def wait_for_end(
    manager: TaskManager, task_id: str, wait_s: float, *, tell: ProgressTeller | None = None
) -> None:
    """Return when the task has ended, or after ``wait_s``; progress is told meanwhile."""
    ending = asyncio.ensure_future(manager.wait(task_id, wait_s))
    try:
        await while_telling(manager, lambda info: info.task_id == task_id, ending, None, tell=tell)
    finally:
        ending.cancel()


async def while_telling(
    manager: TaskManager,
    ours: Callable[[TaskInfo], bool],
    ending: asyncio.Future[Any],
    wait_s: float | None,
    *,
    tell: ProgressTeller | None = None,
) -> None:
    """Return when ``ending`` is done, or after ``wait_s`` real seconds; the progress of ``ours`` is told
    meanwhile. Neither cancels ``ending`` nor raises what it holds.
    """
    news: asyncio.Queue[TaskInfo] = asyncio.Queue(1)
    loop = asyncio.get_running_loop()

    def changed(info: TaskInfo) -> None:
        if info.state == "running" and ours(info):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_put_latest, news, info)

    async def pass_on() -> None:
        while True:
            info = await news.get()
            if tell is not None:
                await tell.tell(info)

    remove: Callable[[], None] = manager.add_change_listener(changed)
    telling = asyncio.create_task(pass_on())
    try:
        await asyncio.wait({ending}, timeout=wait_s)
    finally:
        remove()
        telling.cancel()
        # Nothing may follow the result, so the last notification is out or dropped before it.
        await asyncio.gather(telling, return_exceptions=True)


def _put_latest(news: asyncio.Queue[TaskInfo], info: TaskInfo) -> None:
    if news.full():
        news.get_nowait()
    news.put_nowait(info)


def cancel_left_alone(manager: TaskManager, task_id: str) -> None:
    """Stop a motion whose caller went away and never learned its handle."""
    logger.warning("task %s: its caller went away while it waited and has no handle; stopping it", task_id)
    task = asyncio.get_running_loop().create_task(manager.cancel(task_id), context=contextvars.Context())
    _CANCELS.add(task)
    task.add_done_callback(_CANCELS.discard)


def refused_handle(error: HandleError) -> CallToolResult:
    """A handle that answers nothing: flagged, with the reason; nothing moved (L15, L16)."""
    return CallToolResult(
        content=[TextContent(type="text", text=error.message)],
        structured_content={"error": {"error_code": error.code, "message": error.message}},
        is_error=True,
    )


def await_tool(handles: Handles, make: Callable[..., Tool]) -> Tool:
    """``await_task``: the outcome of a motion by its handle; starts nothing."""

    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        from robot_mcp_kit.server.tools import argument_refused

        handle = arguments.get("handle")
        unknown = sorted(set(arguments) - {"handle", "wait_s"})
        try:
            if unknown:
                raise ArgumentError(unknown[0], "there is no such argument", allowed=["handle", "wait_s"])
            if not isinstance(handle, str) or not handle:
                raise ArgumentError("handle", "expected the handle that a motion's first answer carried")
            wait_s = check_wait(arguments.get("wait_s"), default_s=MAX_WAIT_S)
            info = handles.find(handle)
            if info.state == "running" and wait_s > 0:
                await wait_for_end(handles.manager, info.task_id, wait_s, tell=ProgressTeller(ctx))
                info = handles.find(handle)
        except ArgumentError as error:
            return argument_refused(error)
        except HandleError as error:
            return refused_handle(error)
        return outcome(info, handles)

    return make(
        AWAIT_TASK,
        call,
        title="Wait for a motion",
        description=(
            "Wait until the motion of this handle has ended, at most wait_s seconds, and tell how it ended: "
            "what was measured after it, or why it failed. Starts nothing and moves nothing, so it is always "
            "safe to call and to repeat; after a lost answer call it again. A motion that still runs is "
            "reported as running, with its progress. The answer is about the attempt that ran, not about the "
            f"world of now. {handles.policy}; afterwards the answer says so and nothing is guessed. Not for "
            "starting a motion, and not for stopping one: that is stop, or cancel_task."
        ),
        schema={
            "type": "object",
            "properties": {
                "handle": {
                    "type": "string",
                    "description": "From the answer of the tool that began the motion.",
                },
                "wait_s": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_WAIT_S,
                    "default": MAX_WAIT_S,
                    "description": "Longest wait in seconds; 0 asks how it stands.",
                },
            },
            "required": ["handle"],
            "additionalProperties": False,
        },
        output_schema=await_schema(),
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
        with_context=True,
    )
