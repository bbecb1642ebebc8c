"""A small server made with the decorators, and what breaks each rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from robot_mcp_kit.promcp import Effect, Intent, Registry, can_do_tool, do_tool, read_tool

Tools = list[dict[str, Any]]


def fan_server(registry: Registry | None = None) -> Registry:
    """Three tools that pass every rule."""
    registry = registry if registry is not None else Registry()

    @read_tool("Charge of the battery in percent. Not for its voltage.", unit="percent", registry=registry)
    async def read_battery() -> float:
        return 51.0

    @do_tool(
        "Turn the fan to speed_percent of its full speed. Not for the heater.",
        compensable=True,
        side_effects=["noise"],
        compensation_hint="do_set_fan speed_percent={previous_value}",
        registry=registry,
    )
    async def do_set_fan(speed_percent: float, idempotency_key: str) -> Effect:
        return Effect(speed_percent, 3.0, side_effects=["noise"])

    @can_do_tool("Whether something can be done now. Ask before every do tool.", registry=registry)
    async def can_do(intent: Intent) -> list[Any]:
        return []

    return registry


def flat_tools() -> Tools:
    """The same as proMCP's own linter reads it."""
    from robot_mcp_kit.promcp.schemas import flat_tool

    return [flat_tool(tool) for tool in fan_server().to_list()]


def named(tools: Tools, name: str) -> dict[str, Any]:
    return next(tool for tool in tools if tool.get("name") == name)


def response(tools: Tools, name: str) -> dict[str, Any]:
    found: dict[str, Any] = named(tools, name)["responseSchema"]["properties"]
    return found


def _rename(old: str, new: str) -> Callable[[Tools], None]:
    return lambda tools: named(tools, old).update(name=new)


def _drop(tool: str, field: str) -> Callable[[Tools], None]:
    return lambda tools: response(tools, tool).pop(field)


def _drop_item(list_name: str, field: str) -> Callable[[Tools], None]:
    return lambda tools: response(tools, "can_do")[list_name]["items"]["properties"].pop(field)


def _enum(tool: str, field: str, values: list[str]) -> Callable[[Tools], None]:
    return lambda tools: response(tools, tool)[field].update(enum=values)


def _item_enum(list_name: str, field: str) -> Callable[[Tools], None]:
    return lambda tools: response(tools, "can_do")[list_name]["items"]["properties"][field].update(
        enum=["perhaps"]
    )


def _describe(tool: str, text: str) -> Callable[[Tools], None]:
    return lambda tools: named(tools, tool).update(description=text)


def _copies(tool: str, count: int) -> Callable[[Tools], None]:
    def change(tools: Tools) -> None:
        for number in range(count):
            tools.append(copy.deepcopy(named(tools, tool)) | {"name": f"{tool}_{number}"})

    return change


MUTATIONS: dict[str, tuple[str, Callable[[Tools], Any]]] = {
    "no name": ("N001", lambda tools: named(tools, "read_battery").pop("name")),
    "not snake case": ("N002", _rename("read_battery", "read_Battery")),
    "no prefix": ("N003", _rename("read_battery", "battery")),
    "start prefix": ("N003", _rename("do_set_fan", "start_fan")),
    "bare read": ("N004", _rename("read_battery", "read_")),
    "bare do": ("N005", _rename("do_set_fan", "do_")),
    "long name": ("N006", _rename("read_battery", "read_" + "x" * 60)),
    "generic name": ("N007", _rename("do_set_fan", "do_action")),
    "no description": ("D001", _describe("read_battery", "")),
    "short description": ("D002", _describe("read_battery", "Battery charge.")),
    "mutating word": ("D003", _describe("read_battery", "Charge of the battery, without any offset.")),
    "no intent": ("I001", lambda tools: named(tools, "can_do")["inputSchema"]["properties"].pop("intent")),
    "no tags": (
        "I002",
        lambda tools: named(tools, "can_do")["inputSchema"]["properties"]["intent"]["properties"].pop(
            "semantic_tags"
        ),
    ),
    "no key": (
        "I003",
        lambda tools: named(tools, "do_set_fan")["inputSchema"]["properties"].pop("idempotency_key"),
    ),
    "no response": ("R000", lambda tools: named(tools, "do_set_fan").pop("responseSchema")),
    "no value": ("R001", _drop("read_battery", "value")),
    "no timestamp": ("R001", _drop("read_battery", "timestamp")),
    "no quality": ("R001", _drop("read_battery", "quality")),
    "foreign quality": (
        "R002",
        _enum("read_battery", "quality", ["good", "stale", "degraded", "error", "x"]),
    ),
    "incomplete quality": ("R003", _enum("read_battery", "quality", ["good", "stale"])),
    "quality without enum": ("R003", lambda tools: response(tools, "read_battery")["quality"].pop("enum")),
    "no status": ("R004", _drop("do_set_fan", "status")),
    "do without timestamp": ("R004", _drop("do_set_fan", "timestamp")),
    "foreign status": ("R005", _enum("do_set_fan", "status", ["success", "partial", "failed", "done"])),
    "no compensable": ("R006", _drop("do_set_fan", "compensable")),
    "no key back": ("R007", _drop("do_set_fan", "idempotency_key")),
    "no side effects": ("R008", _drop("do_set_fan", "side_effects")),
    "no query id": ("R009", _drop("can_do", "query_id")),
    "no feasible": ("R009", _drop("can_do", "feasible")),
    "candidate without validity": ("R010", _drop_item("candidates", "valid_until")),
    "foreign permission": ("R012", _item_enum("candidates", "permission")),
    "blocked without reason": ("R013", _drop_item("blocked", "reason")),
    "unroutable without detail": ("R014", _drop_item("unroutable", "detail")),
    "foreign reason": ("R014", _item_enum("unroutable", "reason")),
    "no unroutable": ("R015", _drop("can_do", "unroutable")),
    "read with side effects": (
        "SE001",
        lambda tools: response(tools, "read_battery").update(side_effects={"type": "array"}),
    ),
    "no can_do": ("S001", lambda tools: tools.remove(named(tools, "can_do"))),
    "two can_do": ("S002", lambda tools: tools.append(copy.deepcopy(named(tools, "can_do")))),
    "same name twice": ("S003", lambda tools: tools.append(copy.deepcopy(named(tools, "read_battery")))),
    "nine tools": ("S004", _copies("read_battery", 6)),
    "six do tools": ("S005", _copies("do_set_fan", 5)),
}
"""What is done to the tools, and the code that must appear."""

OURS: dict[str, tuple[str, Callable[[Tools], Any]]] = {
    "key not required": (
        "K002",
        lambda tools: named(tools, "do_set_fan")["inputSchema"].update(required=["speed_percent"]),
    ),
    "no unit": ("K004", _drop("read_battery", "unit")),
    "no applied value": ("K005", _drop("do_set_fan", "applied_value")),
    "no previous value": ("K005", _drop("do_set_fan", "previous_value")),
    "no hint": ("K005", _drop("do_set_fan", "compensation_hint")),
    "speed without unit": (
        "K001",
        lambda tools: named(tools, "do_set_fan")["inputSchema"]["properties"].update(
            speed={"type": "number"}
        ),
    ),
    "reference to nothing": (
        "K003",
        lambda tools: named(tools, "do_set_fan").update(responseSchema={"$ref": "#/$defs/Nothing"}),
    ),
}
"""Where proMCP's own linter is blind."""


def mutated(change: Callable[[Tools], Any]) -> Tools:
    tools = flat_tools()
    change(tools)
    return tools
