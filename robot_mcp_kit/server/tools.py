"""Skills as MCP tools: the arguments go to the bridge as they came, the answer is the task.

The bridge validates (with its own models, so that a misspelt argument is refused and not dropped, as the SDK
would); this module only describes, forwards and phrases the answer.

Each skill's tool has two forms. Without ``wait_s`` it begins the motion and answers at once with the task and
a handle. With it, it blocks until the end or the limit. A caller that goes away while it is blocked never
learns a handle: without an idempotency key its motion is stopped, with one it goes on, because the same call
finds it again (L24).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ConfigDict

from robot_mcp_kit.bridge.bridge import Bridge, Started
from robot_mcp_kit.bridge.stop_report import StopReport
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.server.answers import outcome, started
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.outputs import motion_schema
from robot_mcp_kit.server.requesters import requester_of
from robot_mcp_kit.server.waiting import (
    MAX_WAIT_S,
    ProgressTeller,
    cancel_left_alone,
    check_wait,
    wait_for_end,
)
from robot_mcp_kit.skills.base import Skill, SkillArguments
from robot_mcp_kit.skills.routines.routine import Routine

logger = logging.getLogger(__name__)

TRIGGER_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    "default": [],
}
IDEMPOTENCY_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "null"}],
    "default": None,
    "description": (
        "Any text of your choice. A repeated call with the same key and the same arguments answers with the "
        "same task and moves nothing again; use one whenever you might retry."
    ),
}
WAIT_SCHEMA: dict[str, Any] = {
    "type": "number",
    "minimum": 0,
    "maximum": MAX_WAIT_S,
    "default": 0,
    "description": (
        "Seconds to wait for the end. 0: answer at once with a task and a handle. More: answer how it "
        f"ended, or after so long (at most {MAX_WAIT_S:g}) that it still runs, with the handle for "
        "await_task. If the connection breaks meanwhile the motion is stopped, unless an idempotency_key "
        "was given: then it goes on, and the same call finds it again."
    ),
}


class RawArguments(ArgModelBase):
    """Takes every argument unseen, so that the bridge's own models judge them."""

    model_config = ConfigDict(extra="allow")

    def model_dump_one_level(self) -> dict[str, Any]:
        return {"arguments": dict(self.model_extra or {})}


Handler = Callable[..., Awaitable[CallToolResult]]
"""Called with ``arguments``, and with ``ctx`` where the tool was made ``with_context``."""


def make_tool(
    name: str,
    handler: Handler,
    *,
    title: str,
    description: str,
    schema: dict[str, Any],
    output_model: Any = None,
    output_schema: dict[str, Any] | None = None,
    annotations: ToolAnnotations,
    with_context: bool = False,
) -> Tool:
    """A tool whose handler gets the raw arguments as one dictionary and answers a finished result.

    Results are held to ``output_model`` unless they are flagged; an ``output_schema`` is only published.
    """
    return Tool(
        fn=handler,
        name=name,
        title=title,
        description=description,
        parameters=schema,
        fn_metadata=FuncMetadata(
            arg_model=RawArguments, output_model=output_model, output_schema=output_schema
        ),
        is_async=True,
        context_kwarg="ctx" if with_context else None,
        annotations=annotations,
    )


def input_schema(skill: Skill) -> dict[str, Any]:
    """The JSON Schema of a skill's tool: its own arguments, ``triggers``, ``idempotency_key``, ``wait_s``."""
    return motion_input(skill.arguments, skill.trigger_types)


def motion_input(
    arguments: type[SkillArguments], trigger_types: Collection[str], *, keyed: bool = True
) -> dict[str, Any]:
    """The JSON Schema of a tool that begins a motion.

    Args:
        arguments: its own.
        trigger_types: that its motion can be watched by.
        keyed: it takes an ``idempotency_key``.
    """
    schema = arguments.model_json_schema()
    properties = schema.setdefault("properties", {})
    properties["triggers"] = TRIGGER_SCHEMA | {
        "description": (
            "Conditions to be told of by an event, each at most once, e.g. "
            '{"type": "eta_below", "seconds": 10}. Known here: '
            + (", ".join(sorted(trigger_types)) or "none")
            + "."
        )
    }
    if keyed:
        properties["idempotency_key"] = IDEMPOTENCY_SCHEMA
    properties["wait_s"] = WAIT_SCHEMA
    schema["additionalProperties"] = False
    return schema


def skill_tool(skill: Skill, bridge: Bridge, handles: Handles) -> Tool:
    """The tool that starts a skill: answers at once with its task, or waits for the end."""

    def begin(
        arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        return bridge.begin(
            skill.name, arguments, triggers=triggers, idempotency_key=idempotency_key, requester=requester
        )

    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        return await answer_motion(begin, arguments, ctx, handles)

    return make_tool(
        skill.name,
        call,
        title=skill.title,
        description=skill.briefing(),
        schema=input_schema(skill),
        output_schema=motion_schema(skill),
        annotations=_annotations(skill),
        with_context=True,
    )


class Begin(Protocol):
    """Begins a motion: its own arguments, and what every motion's call may say besides."""

    def __call__(
        self, arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        """
        Raises:
            ArgumentError: an argument is wrong; nothing moved.
            TaskError: refused for another reason; nothing moved.
        """
        ...


async def answer_motion(
    begin: Begin, arguments: dict[str, Any], ctx: Context[Any, Any], handles: Handles
) -> CallToolResult:
    """Begin a motion and answer at once, or with ``wait_s`` at its end."""
    arguments = dict(arguments)
    triggers = _from_text(arguments.pop("triggers", None))
    key = arguments.pop("idempotency_key", None)
    try:
        wait_s = check_wait(arguments.pop("wait_s", None))
        begun = begin(arguments, triggers=triggers, idempotency_key=key, requester=requester_of(ctx))
    except ArgumentError as error:
        return argument_refused(error)
    except TaskError as error:
        return task_refused(error)
    info, started_now = begun.info, not begun.existing
    if wait_s <= 0:
        return started(info, handles, started_now=started_now)
    try:
        await wait_for_end(handles.manager, info.task_id, wait_s, tell=ProgressTeller(ctx))
    except asyncio.CancelledError:
        if key is None:
            cancel_left_alone(handles.manager, info.task_id)
        raise
    return outcome(handles.get(info.task_id) or info, handles, started_now=started_now)


def _annotations(skill: Skill) -> ToolAnnotations:
    """Told truthfully, and nothing here relies on them (L36)."""
    reads = isinstance(skill, Routine) and skill.read_only
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=not reads, idempotent_hint=reads, open_world_hint=not reads
    )


def stop_tool(bridge: Bridge) -> Tool:
    """The tool that stops everything this bridge runs. It needs nothing and waits for no goal."""

    async def call(arguments: dict[str, Any]) -> CallToolResult:
        given = arguments.get("reason")
        reason = given if isinstance(given, str) and given else "stop was called"
        if arguments.get("emergency") is True:
            bridge.guard.latch(reason, "a client")
        report = await bridge.stop(reason)
        data = report.model_dump(mode="json")
        return CallToolResult(
            content=[TextContent(type="text", text=json.dumps(data, ensure_ascii=False))],
            structured_content=data,
        )

    return make_tool(
        "stop",
        call,
        title="Stop all motion",
        description=(
            "Stop everything the robot is doing for this bridge, now: every running task is cancelled, "
            "whoever started it. Needs no arguments and is always safe to call and to repeat. It answers "
            "which tasks were stopped and whether each action server confirmed it. With emergency it also "
            "latches: nothing starts any more until a person resets it. This is not a safety-rated "
            "emergency stop."
        ),
        schema={
            "type": "object",
            "properties": {
                "reason": {"type": "string", "description": "For the log.", "default": ""},
                "emergency": {
                    "type": "boolean",
                    "description": "Also latch. Only a person can take that back.",
                    "default": False,
                },
            },
        },
        output_model=StopReport,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def argument_refused(error: ArgumentError) -> CallToolResult:
    """A call with a wrong argument: nothing moved."""
    text = f"{error.field}: {error.message}"
    if error.allowed and not all(name in error.message for name in error.allowed):
        text = f"{text.rstrip('. ')}. Allowed: {', '.join(error.allowed)}."
    return _refused(
        text,
        error_code="INVALID_ARGUMENT",
        field=error.field,
        message=error.message,
        allowed=error.allowed,
    )


def task_refused(error: TaskError) -> CallToolResult:
    """A call that was right but cannot be carried out now: nothing moved."""
    text = error.message
    if error.suggestions:
        text += f" Suggestions: {', '.join(error.suggestions)}."
    return _refused(
        text,
        error_code=error.error_code,
        message=error.message,
        recoverable=error.recoverable,
        suggestions=error.suggestions,
        **(error.details if isinstance(error, SafetyRefused) else {}),
    )


def _refused(text: str, **data: Any) -> CallToolResult:
    """Text for the planner, and the same as structured content."""
    return CallToolResult(
        content=[TextContent(type="text", text=f"Refused, nothing moved. {text}")],
        structured_content={"error": data},
        is_error=True,
    )


def _from_text(value: Any) -> Any:
    """Some clients send nested arguments as JSON text; read it back. Anything else is left to be judged."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
