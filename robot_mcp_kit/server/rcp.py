"""The Robot Context Protocol over MCP: the robot's live context as resources, and its actions as tools.

Names carry the protocol's units: millimetres and degrees, where this server's other tools have metres and
radians. Actions begin the same tasks as the skills that carry them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from robot_mcp_kit.bridge.bridge import Bridge, Started
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.rcp.bridged import BridgeAdapter
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.rcp.errors import NotSupportedError, ParameterError, RCPError
from robot_mcp_kit.rcp.limits import JOINT_AXES
from robot_mcp_kit.rcp.resources import CONTEXT, CONVENTIONS, SCHEME, SOURCES, UNITS
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.server.handles import Handles
from robot_mcp_kit.server.outputs import motion_schema
from robot_mcp_kit.server.rcp_arguments import (
    SPEEDS,
    JogArguments,
    NoArguments,
    ProgramArguments,
    ReadArguments,
    jog_parameters,
    place_arguments,
    place_parameters,
)
from robot_mcp_kit.server.tools import (
    Begin,
    answer_motion,
    argument_refused,
    make_tool,
    motion_input,
    task_refused,
)
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import SkillArguments

READ, CAPTURE = "rcp_read", "rcp_capture_position"
_UNITS = {
    "identity": "degrees, kilograms, millimetres",
    "joints": UNITS["JointState"],
    "tcp": UNITS["TCPPosition.x y z"],
    "io": UNITS["IOSignal.value"],
    "programs": "",
    "tools": UNITS["ToolData"],
}
_WORDS = {
    "identity": "Which robot this is: maker, model, serial, joints with their limits, payload and reach.",
    "joints": "Where each joint is, in the controller's order, and how far and fast it may go.",
    "tcp": "Where the tool centre point is, and what its three rotations mean.",
    "io": "Every input and output now.",
    "programs": "What can be started: the file's programs, skills and behavior trees; what runs is loaded.",
    "tools": "End effectors: offset of the centre point from the flange, and mass.",
}
_TOLD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "missing": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Parts that could not be read, each with the reason.",
        },
        "units": {"description": "Of the numbers."},
        "rotation": {"type": "object", "description": "What rx, ry and rz mean here."},
    },
    "additionalProperties": True,
}
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_MOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


async def facts(robot: BridgedRobot, name: str) -> dict[str, Any]:
    """One resource as data: the part under its own name, its units, and what of it is not known.

    A source that is silent is an answer too: the part is ``null`` and ``missing`` says why.
    """
    if name == CONTEXT:
        report = await robot.context()
        told: dict[str, Any] = to_jsonable(asdict(report.context))
        return {**told, "prompt": report.to_prompt_block(), "missing": dict(report.missing)}
    if name == CONVENTIONS:
        conventions: dict[str, Any] = await robot.read(SCHEME + CONVENTIONS)
        return conventions
    missing: dict[str, str] = {}
    part: Any = None
    try:
        part = await robot.read(SCHEME + name)
    except RCPError as error:
        missing[name] = error.message
    if name == "io" and part is not None:
        missing = robot.silent_signals()
    told = {name: part["signals"] if name == "io" and part is not None else part, "missing": missing}
    if _UNITS[name]:
        told["units"] = _UNITS[name]
    if name == "tcp":
        told["rotation"] = asdict(robot.adapter.rotation_convention())
    return told


def add_rcp_resources(server: MCPServer, robot: BridgedRobot) -> None:
    """``robot://identity``, ``joints``, ``tcp``, ``io``, ``programs``, ``tools``, ``conventions`` and
    ``context``.
    """

    def reader(name: str) -> Callable[[], Any]:
        async def read() -> str:
            return json.dumps(await facts(robot, name), ensure_ascii=False, allow_nan=False)

        return read

    for name in SOURCES:
        units = f" {_UNITS[name].capitalize()}." if _UNITS[name] else ""
        server.resource(
            SCHEME + name,
            name=f"rcp {name}",
            title=name.capitalize(),
            mime_type="application/json",
            description=_WORDS[name] + units,
        )(reader(name))
    server.resource(
        SCHEME + CONVENTIONS,
        name=f"rcp {CONVENTIONS}",
        title="Conventions",
        mime_type="application/json",
        description="Units, what the rotations of a TCP mean here, and what motions may ask for.",
    )(reader(CONVENTIONS))

    @server.resource(
        SCHEME + CONTEXT,
        name="rcp context",
        title="The robot now",
        mime_type="text/plain",
        description=(
            "The robot's live context as text for a prompt, one fact a line; millimetres and degrees. Lines "
            "that begin with 'Not available' name what could not be read."
        ),
    )
    async def context() -> str:
        return (await robot.context()).to_prompt_block()


def rcp_tools(robot: BridgedRobot, bridge: Bridge, handles: Handles, *, actions: bool = True) -> list[Tool]:
    """What can be read, and the actions that this robot offers.

    Args:
        robot: over the bridge.
        bridge: whose skills carry actions out.
        handles: of the motions.
        actions: also the tools that move something.
    """
    tools = [_read_tool(robot), _capture_tool(robot)]
    if actions:
        offered = robot.bridged.actions.offered
        for action, make in _MAKERS.items():
            if action in offered:
                tools.append(make(robot.bridged, bridge, handles))
    return tools


def motion_names(tools: Iterable[Tool]) -> frozenset[str]:
    """Names of those that begin a task."""
    return frozenset(tool.name for tool in tools if tool.name not in (READ, CAPTURE))


# -- reading ------------------------------------------------------------------------------------------------


def _read_tool(robot: BridgedRobot) -> Tool:
    async def call(arguments: dict[str, Any]) -> CallToolResult:
        try:
            wanted = parse_arguments(ReadArguments, arguments)
            data = await facts(robot, wanted.part)
        except ArgumentError as error:
            return argument_refused(error)
        except RCPError as error:
            return task_refused(_task_error(error))
        text = data.get("prompt") or json.dumps(data, ensure_ascii=False, allow_nan=False)
        return CallToolResult(content=[TextContent(type="text", text=str(text))], structured_content=data)

    return make_tool(
        READ,
        call,
        title="Read the robot's context",
        description=(
            "Read what is known of the robot now, in the units of the Robot Context Protocol: joints in "
            "degrees, positions in millimetres, signals 0 or 1 (analog ones 0.0 to 1.0). part: context "
            "(everything, with a text for prompts), identity, joints, tcp, io, programs, tools, or "
            "conventions (units, what rotations mean, limits). Moves nothing and is safe to repeat. What "
            "cannot be read is null, and `missing` says why: do not take it for zero. Not for waiting until "
            "a motion has ended: that is await_task."
        ),
        schema=_closed(ReadArguments),
        output_schema=_TOLD,
        annotations=_READS,
    )


def _capture_tool(robot: BridgedRobot) -> Tool:
    async def call(arguments: dict[str, Any]) -> CallToolResult:
        try:
            parse_arguments(NoArguments, arguments)
            tcp, joints = await robot.adapter.capture_position()
        except ArgumentError as error:
            return argument_refused(error)
        except RCPError as error:
            return task_refused(_task_error(error))
        data = to_jsonable(
            {
                "tcp": asdict(tcp),
                "joints": [asdict(joint) for joint in joints],
                "rotation": asdict(robot.adapter.rotation_convention()),
                "units": f"{_UNITS['tcp']}; joints: {_UNITS['joints']}",
            }
        )
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)

    return make_tool(
        CAPTURE,
        call,
        title="Capture the robot's position",
        description=(
            "Where the tool centre point (millimetres) and every joint (degrees) are now, both at once, for "
            "coming back to later. Moves nothing and is safe to repeat. Refused where one of them is not "
            "known; rcp_read then tells the rest."
        ),
        schema=_closed(NoArguments),
        output_schema=_TOLD,
        annotations=_READS,
    )


# -- moving -------------------------------------------------------------------------------------------------


def _move_tool(adapter: BridgeAdapter, bridge: Bridge, handles: Handles) -> Tool:
    skill = bridge.skills[adapter.actions.skills["move_to"]]
    convention, limits = adapter.rotation_convention(), adapter.motion_limits()
    model = place_arguments(convention.unit)
    unit = "deg" if convention.unit == "deg" else "rad"
    order = f" about {' '.join(convention.order)}" if convention.order else ""
    box = "".join(f" {axis} {low:g} .. {high:g} mm." for axis, (low, high) in sorted(limits.box_mm.items()))
    reach = f" At most {limits.reach_mm:g} mm from its origin." if limits.reach_mm else ""

    def begin(
        arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        given = place_parameters(parse_arguments(model, arguments), adapter.frame)
        return _begin(adapter, "move_to", given, unit, triggers, idempotency_key, requester)

    return _motion_tool(
        "rcp_move_to",
        begin,
        handles,
        title="Move the tool to a place (mm)",
        description=(
            f"Move the tool centre point to x_mm, y_mm, z_mm in {adapter.frame}, turned by rx_{unit}, "
            f"ry_{unit}, rz_{unit} ({convention.fields}, {convention.kind.replace('_', ' ')}{order}). All "
            f"six are needed and none has a default.{reach}{box} Starts the skill {skill.name} "
            "and answers with its task: MoveIt plans around what it knows of. Not for joint positions or "
            f"named targets ({skill.name} has those, in metres and radians), nor for driving. The goal is "
            "absolute, so a retry after a failure is safe once you know why it failed; with an "
            "idempotency_key a repeated call starts nothing new."
        ),
        schema=_in_frame(motion_input(model, skill.trigger_types), adapter.frame),
        output_schema=motion_schema(skill),
    )


def _jog_tool(adapter: BridgeAdapter, bridge: Bridge, handles: Handles) -> Tool:
    skill = bridge.skills[adapter.actions.skills["jog"]]
    axes = adapter.motion_limits().jog_axes
    joints = ", ".join(f"{axis} {name}" for axis, name in zip(JOINT_AXES, adapter.joint_names, strict=False))
    highest = adapter.actions.highest_speed

    def begin(
        arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        if idempotency_key is not None:
            raise ArgumentError("idempotency_key", "a jog takes none: each call is one more step")
        given = jog_parameters(parse_arguments(JogArguments, arguments), axes, highest)
        return _begin(adapter, "jog", given, "deg", triggers, None, requester)

    return _motion_tool(
        "rcp_jog",
        begin,
        handles,
        title="Jog one axis by one step",
        description=(
            f"Move one axis by one small step, of speed times {adapter.step_s:g} s, from where the robot is "
            f"now. axis: {', '.join(axes)} ({joints}); X, Y, Z and RX, RY, RZ are along and about the axes "
            f"of {adapter.frame}. direction: 1 or -1. Speed: speed_deg_s for joints (at most "
            f"{highest('J1'):g}) and for RX, RY, RZ (at most {highest('RX'):g}), speed_mm_s for X, Y, Z (at "
            f"most {highest('X'):g}); MoveIt may take longer. Starts the skill {skill.name} and answers with "
            "its task. For fine corrections only, not for going somewhere. A retry is not safe: each call "
            "is another step, so read the position before you repeat one whose answer was lost."
        ),
        schema=_unkeyed(motion_input(JogArguments, skill.trigger_types, keyed=False), axes),
        output_schema=motion_schema(skill),
    )


def _home_tool(adapter: BridgeAdapter, bridge: Bridge, handles: Handles) -> Tool:
    skill = bridge.skills[adapter.actions.skills["home"]]

    def begin(
        arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        parse_arguments(NoArguments, arguments)
        return _begin(adapter, "home", {}, "deg", triggers, idempotency_key, requester)

    return _motion_tool(
        "rcp_home",
        begin,
        handles,
        title="Move the arm home",
        description=(
            f'Move the arm to its home pose, the target "{adapter.home_target}" of {skill.name}, and answer '
            "with that skill's task. Not for driving the robot to a dock or place. Safe to retry once you "
            "know why it failed; with an idempotency_key a repeated call starts nothing new."
        ),
        schema=motion_input(NoArguments, skill.trigger_types),
        output_schema=motion_schema(skill),
    )


def _program_tool(adapter: BridgeAdapter, bridge: Bridge, handles: Handles) -> Tool:  # noqa: ARG001
    def begin(
        arguments: dict[str, Any], *, triggers: Any, idempotency_key: Any, requester: Requester
    ) -> Started:
        given = parse_arguments(ProgramArguments, arguments)
        return _begin(
            adapter, "start_program", given.model_dump(), "deg", triggers, idempotency_key, requester
        )

    return _motion_tool(
        "rcp_start_program",
        begin,
        handles,
        title="Start a program",
        description=(
            "Start a program by its name: one that the skills file describes, or a skill that needs no "
            f"arguments. Answers with the task of the skill that carries it out. Programs: "
            f"{', '.join(adapter.actions.startable)}. Not for skills that need arguments; they are tools of "
            "their own. Whether a retry is safe is said by the skill's own tool; with an idempotency_key a "
            "repeated call starts nothing new."
        ),
        schema=motion_input(ProgramArguments, ()),
    )


_MAKERS: dict[str, Callable[[BridgeAdapter, Bridge, Handles], Tool]] = {
    "move_to": _move_tool,
    "jog": _jog_tool,
    "home": _home_tool,
    "start_program": _program_tool,
}


def _begin(
    adapter: BridgeAdapter,
    action: str,
    parameters: dict[str, Any],
    unit: str,
    triggers: Any,
    idempotency_key: Any,
    requester: Requester,
) -> Started:
    """Begin an action; its refusals name the arguments that the caller wrote."""
    try:
        adapter.require_connected()
        call = adapter.actions.call(action, parameters)
        return adapter.begin(call, requester=requester, triggers=triggers, idempotency_key=idempotency_key)
    except ParameterError as error:
        own = error.message.removeprefix(f"{error.parameter}: ")
        raise ArgumentError(_named(error.parameter, unit, parameters), own) from error
    except ArgumentError as error:
        raise ArgumentError(
            _named(error.field, unit, parameters), error.message, allowed=error.allowed
        ) from error
    except RCPError as error:
        raise _task_error(error) from error


def _named(field: str, unit: str, parameters: dict[str, Any]) -> str:
    """The caller's name of a parameter of the protocol, or of an argument of the skill behind it."""
    name = field.split()[0].removeprefix("pose.").removesuffix("_m")
    if name in ("x", "y", "z"):
        return f"{name}_mm"
    if name in ("rx", "ry", "rz"):
        return f"{name}_{unit}"
    if name == "speed":
        return SPEEDS[str(parameters.get("axis")) in ("X", "Y", "Z")]
    return field


def _task_error(error: RCPError) -> TaskError:
    """A refusal of the protocol as this server's other tools tell theirs."""
    if isinstance(error, NotSupportedError):
        return TaskError("RCP_NOT_SUPPORTED", error.message, recoverable=False, suggestions=["ask_person"])
    return TaskError(
        f"RCP_{error.code.name}", error.message, recoverable=True, suggestions=[READ, "ask_person"]
    )


def _motion_tool(
    name: str,
    begin: Begin,
    handles: Handles,
    *,
    title: str,
    description: str,
    schema: dict[str, Any],
    output_schema: dict[str, Any] | None = None,
) -> Tool:
    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        return await answer_motion(begin, arguments, ctx, handles)

    return make_tool(
        name,
        call,
        title=title,
        description=description,
        schema=schema,
        output_schema=output_schema,
        annotations=_MOVES,
        with_context=True,
    )


def _closed(model: type[SkillArguments]) -> dict[str, Any]:
    return {**model.model_json_schema(), "additionalProperties": False}


def _in_frame(schema: dict[str, Any], frame: str) -> dict[str, Any]:
    """The schema with the one frame that coordinates can be in."""
    properties = schema["properties"]
    properties["frame"] = {**properties["frame"], "anyOf": [{"const": frame}, {"type": "null"}]}
    return schema


def _unkeyed(schema: dict[str, Any], axes: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a jog: only the axes that this robot has, and no key to find the motion again by."""
    properties = schema["properties"]
    properties["axis"] = {**properties["axis"], "enum": list(axes)}
    waiting = properties["wait_s"]
    words = waiting["description"].split(" If the connection breaks")[0]
    ends = " If the connection breaks meanwhile the motion is stopped."
    properties["wait_s"] = {**waiting, "description": words + ends}
    return schema
