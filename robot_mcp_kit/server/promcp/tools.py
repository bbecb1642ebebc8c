"""The ``do_`` tools and ``can_do`` as MCP tools: arguments in, proMCP's responses out."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.promcp.contracts import PROMCP_VERSION, DoResponse, Intent
from robot_mcp_kit.promcp.lint import CAN_DO
from robot_mcp_kit.promcp.memory import MAX_KEY_CHARS
from robot_mcp_kit.promcp.schemas import inline_refs
from robot_mcp_kit.server.answers import facts_of
from robot_mcp_kit.server.auth import may_operate
from robot_mcp_kit.server.promcp.capability import (
    INSUFFICIENT,
    ONLY_LOOKS,
    STOP_EFFECT,
    Capability,
    RobotReport,
)
from robot_mcp_kit.server.promcp.doing import KEPT_WORDS, Doing, Done
from robot_mcp_kit.server.promcp.measuring import BASE, Measured
from robot_mcp_kit.server.promcp.profiles import DO_STOP, Profile, own_words
from robot_mcp_kit.server.requesters import requester_of
from robot_mcp_kit.server.tools import make_tool
from robot_mcp_kit.server.waiting import MAX_WAIT_S, ProgressTeller, check_wait
from robot_mcp_kit.skills.base import Skill

KEY_SCHEMA: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY_CHARS,
    "description": (
        "Any text of your choice, a new one for each motion that is wanted. Repeat the same key and "
        "arguments after a lost answer: that moves nothing again."
    ),
}
WAIT_SCHEMA: dict[str, Any] = {
    "type": "number",
    "minimum": 0,
    "maximum": MAX_WAIT_S,
    "default": MAX_WAIT_S,
    "description": "Longest wait for the end, in seconds; then the answer says in_progress.",
}
_SAYS_WHEN_NOT = re.compile(r"\b([Nn]ot|instead|never|only)\b")
_DO_WORDS = (
    f"Waits for the end, at most {MAX_WAIT_S:g} s; a longer motion answers status partial with in_progress "
    "true: repeat the call with the same key and arguments to go on waiting. The same key never moves the "
    "robot twice, and answers a failure with that failure; with other arguments it is refused. "
    f"{KEPT_WORDS} If the connection breaks the motion goes on; {DO_STOP} ends it. Ask {CAN_DO} first."
)


class RobotDoResponse(DoResponse):
    """proMCP's answer of a do, with what a robot's caller needs besides."""

    applied_value: Measured | None = Field(None, description="Measured after the motion; null: nothing was.")
    previous_value: Measured | None = Field(
        None, description="Measured before the motion; null: nothing was, or another process began it."
    )
    in_progress: bool = Field(
        False, description="The motion has not ended: repeat the call with the same key to go on waiting."
    )
    task_id: str | None = Field(None, description="The motion's id; null: none was begun.")
    error_code: str | None = None
    suggestions: list[str] = Field(default_factory=list, description="What may help: tools, or ask_person.")
    result: dict[str, Any] | None = Field(None, description="The skill's own facts after a success.")
    promcp_version: str = PROMCP_VERSION


class Motions(BaseModel):
    """Motions that run."""

    running_motions: list[str] = Field(description="Their task_ids.")


class StopResponse(DoResponse):
    """proMCP's answer of the stop."""

    applied_value: Motions | None = Field(None, description="What still ran when this was answered.")
    previous_value: Motions | None = Field(None, description="What ran when the stop was asked for.")
    promcp_version: str = PROMCP_VERSION


def do_tool(tool: str, skill: Skill, profile: Profile, doing: Doing) -> Tool:
    """The tool of a skill in one profile."""

    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        arguments = dict(arguments)
        key = arguments.pop("idempotency_key", None)
        if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS:
            done = doing.refused(
                f"idempotency_key: expected text of 1 to {MAX_KEY_CHARS} characters.", "INVALID_ARGUMENT"
            )
            key = key[:MAX_KEY_CHARS] if isinstance(key, str) else ""
        elif not may_operate(ctx):
            done = doing.refused(ONLY_LOOKS, INSUFFICIENT, ["ask_person"])
        else:
            done = await _do(skill, arguments, key, doing, ctx)
        return _answer(tool, respond(done, key, profile))

    schema = skill.arguments.model_json_schema()
    schema.setdefault("properties", {}).update({"idempotency_key": KEY_SCHEMA, "wait_s": WAIT_SCHEMA})
    schema["required"] = [*schema.get("required", ()), "idempotency_key"]
    schema["additionalProperties"] = False
    return make_tool(
        tool,
        call,
        title=skill.title,
        description=describe_do(skill, profile, doing),
        schema=schema,
        output_model=RobotDoResponse,
        output_schema=do_schema(skill),
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True
        ),
        with_context=True,
    )


async def _do(
    skill: Skill, arguments: dict[str, Any], key: str, doing: Doing, ctx: Context[Any, Any]
) -> Done:
    try:
        wait_s = check_wait(arguments.pop("wait_s", None), default_s=MAX_WAIT_S)
    except ArgumentError as error:
        return doing.refused(f"{error.field}: {error.message}", "INVALID_ARGUMENT")
    return await doing.do(
        skill, arguments, key, requester=requester_of(ctx), wait_s=wait_s, tell=ProgressTeller(ctx)
    )


def describe_do(skill: Skill, profile: Profile, doing: Doing) -> str:
    """What a planner reads: the skill's own words, then how this surface answers."""
    own = profile.words(own_words(skill.briefing()))
    return " ".join(
        [
            own,
            *([] if _SAYS_WHEN_NOT.search(own) else [_not_for(doing.parts(skill))]),
            f"Side effects: {', '.join(doing.side_effects(skill))}.",
            _DO_WORDS,
        ]
    )


def do_schema(skill: Skill) -> dict[str, Any]:
    """What the tool of a skill answers, with the skill's own facts."""
    schema = RobotDoResponse.model_json_schema(mode="serialization")
    schema["properties"]["result"] = {
        "anyOf": [inline_refs(skill.result_schema()), {"type": "null"}],
        "default": None,
        "description": f"Facts of {skill.name}; null until it has succeeded.",
    }
    return schema


def _not_for(parts: frozenset[str]) -> str:
    if parts == {BASE}:
        return "Not for moving the arm or the gripper."
    return "Not for driving." if BASE not in parts else "Not for anything but this."


def respond(done: Done, key: str, profile: Profile) -> RobotDoResponse:
    """The response of a profile: its way back and its suggestions name tools that it has."""
    undo_tool = None if done.undo is None else profile.tool_of(done.undo.skill)
    hint = None if done.undo is None or undo_tool is None else done.undo.hint(undo_tool)
    return RobotDoResponse(
        idempotency_key=key,
        compensable=hint is not None,
        compensation_hint=hint,
        suggestions=profile.suggestions(done.suggestions),
        detail=None if done.detail is None else profile.words(done.detail),
        **done.model_dump(exclude={"undo", "suggestions", "detail"}),
    )


def _answer(tool: str, response: RobotDoResponse) -> CallToolResult:
    data = response.model_dump(mode="json")
    return CallToolResult(
        content=[
            TextContent(type="text", text=json.dumps(data, ensure_ascii=False)),
            TextContent(type="text", text=sentence(tool, response)),
        ],
        structured_content=data,
        is_error=response.status == "failed" or (response.status == "partial" and not response.in_progress),
    )


_LEFT_OUT: Any = {part: {"measured_at", "confidence"} for part in Measured.model_fields}


def sentence(tool: str, response: RobotDoResponse) -> str:
    """The response in words; every fact in it is one of its fields."""
    said = [f"{tool}: {response.status}."]
    if response.detail:
        said.append(response.detail.rstrip(".") + ".")
    if response.error_code:
        said.append(f"Code {response.error_code}.")
    for words, value in (("Before", response.previous_value), ("After", response.applied_value)):
        facts = {} if value is None else value.model_dump(mode="json", exclude_none=True, exclude=_LEFT_OUT)
        if facts:
            said.append(f"{words}: {facts_of(facts)}.")
    if response.side_effects:
        said.append(f"Side effects: {', '.join(response.side_effects)}.")
    if response.compensation_hint:
        said.append(f"To undo it: {response.compensation_hint} (with a new idempotency_key).")
    if response.suggestions:
        said.append(f"Suggestions: {', '.join(response.suggestions)}.")
    if response.replayed:
        said.append("This is the answer of the earlier call with this key; nothing was done for this one.")
    return " ".join(said)


def stop_tool(doing: Doing) -> Tool:
    """``do_stop``: in every profile, for everybody, and never refused."""

    async def call(arguments: dict[str, Any]) -> CallToolResult:
        given, why = arguments.get("idempotency_key"), arguments.get("reason")
        # A missing key is no reason not to stop.
        key = given[:MAX_KEY_CHARS] if isinstance(given, str) and given.strip() else f"stop-{uuid4()}"
        bridge = doing.bridge
        before = bridge.running()
        report = await bridge.stop(why if isinstance(why, str) and why else f"{DO_STOP} was called")
        after = bridge.running()
        response = StopResponse(
            status="success" if report.all_confirmed and not after else "partial",
            idempotency_key=key,
            applied_value=Motions(running_motions=after),
            previous_value=Motions(running_motions=before),
            side_effects=[STOP_EFFECT] if before else [],
            compensable=False,
            timestamp=doing.now(),
            detail=report.message,
        )
        data = response.model_dump(mode="json")
        text = f"{DO_STOP}: {response.status}. {report.message}"
        return CallToolResult(
            content=[
                TextContent(type="text", text=json.dumps(data, ensure_ascii=False)),
                TextContent(type="text", text=text),
            ],
            structured_content=data,
            is_error=response.status != "success",
        )

    return make_tool(
        DO_STOP,
        call,
        title="Stop all motion",
        description=(
            "End every motion that runs, now, whoever began it. Needs no permission and is always safe to "
            "call and to repeat: each call stops again, also with a key that was used before, and a missing "
            "key is made up. status partial: a stop is not confirmed, so do not assume that the robot stands "
            "still. Cannot be undone; begin the motion anew instead. Not a safety-rated emergency stop, and "
            "not for pausing."
        ),
        schema={
            "type": "object",
            "properties": {
                "idempotency_key": KEY_SCHEMA | {"description": "Any text; it is given back."},
                "reason": {"type": "string", "default": "", "description": "For the log."},
            },
            "required": ["idempotency_key"],
        },
        output_model=StopResponse,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def can_do_tool(profile: Profile, doing: Doing) -> Tool:
    """``can_do`` of one profile."""
    capability = Capability(profile, doing)

    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        given = arguments.get("intent")
        if isinstance(given, str):  # some clients send nested arguments as JSON text
            try:
                given = json.loads(given)
            except ValueError:
                given = {"semantic_tags": [], "description": given}
        report = await capability.report(given, may_operate=may_operate(ctx))
        data = report.model_dump(mode="json")
        return CallToolResult(
            content=[TextContent(type="text", text=json.dumps(data, ensure_ascii=False))],
            structured_content=data,
        )

    return make_tool(
        CAN_DO,
        call,
        title="Ask what can be done now",
        description=(
            "Whether something can be done now, by which tool of this profile, and if not, why not. Moves "
            "nothing and uses nothing up. Give semantic_tags (words such as drive, grasp, kitchen), and "
            "parameters, the arguments that you would give the tool, so that limits, reach and approval are "
            "judged too. Use a candidate only with permission allowed and before its valid_until, then ask "
            "again. requires_human_approval: the call waits for a person, who may refuse. A confidence below "
            "0.7 means that the words fit badly: ask a person. Not for reading the robot's state."
        ),
        schema={
            "type": "object",
            "properties": {"intent": Intent.model_json_schema()},
            "required": ["intent"],
        },
        output_model=RobotReport,
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
        with_context=True,
    )
