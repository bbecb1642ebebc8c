"""Decorated tools on an MCP server: schemas arrive, and every answer fits its schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from mcp import Client
from mcp.server import MCPServer

from robot_mcp_kit.promcp import (
    Effect,
    Intent,
    PartialEffectError,
    Reading,
    Registry,
    can_do_tool,
    do_tool,
    lint_server,
    read_tool,
)


def _registry() -> Registry:
    registry = Registry()

    @read_tool("Charge of the battery in percent.", unit="percent", registry=registry)
    async def read_battery(broken: bool = False) -> Reading:
        if broken:
            raise OSError("unplugged")
        return Reading(51.0)

    @do_tool(
        "Turn the fan to speed_percent.",
        compensable=True,
        side_effects=["noise"],
        compensation_hint="do_set_fan speed_percent={previous_value}",
        registry=registry,
    )
    async def do_set_fan(speed_percent: float, idempotency_key: str) -> Effect:
        if speed_percent > 100:
            raise ValueError("too fast")
        if speed_percent > 90:
            raise PartialEffectError("it stopped half-way", applied_value=50.0, previous_value=3.0)
        return Effect(speed_percent, 3.0, side_effects=["noise"])

    @can_do_tool("Whether something can be done now.", registry=registry)
    async def can_do(intent: Intent) -> list[Any]:
        return []

    return registry


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_battery", {}),
    ("read_battery", {"broken": True}),
    ("do_set_fan", {"speed_percent": 5, "idempotency_key": "a"}),
    ("do_set_fan", {"speed_percent": 500, "idempotency_key": "b"}),
    ("do_set_fan", {"speed_percent": 95, "idempotency_key": "c"}),
    ("do_set_fan", {"speed_percent": 5, "idempotency_key": ""}),
    ("can_do", {"intent": {"semantic_tags": ["fan"]}}),
    ("can_do", {"intent": {"semantic_tags": []}}),
]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_every_answer_fits_its_declared_schema(mode: str) -> None:
    """P6, both protocol eras."""
    server = MCPServer("fan", log_level="ERROR")
    _registry().register(server)
    async with Client(server, mode=mode) as client:
        listed = (await client.list_tools()).tools
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
        report = lint_server(tools)
        assert report.passes(strict=True), report.to_dict()
        assert not report.codes() & {"R000", "R015"}
        schemas = {tool["name"]: tool["outputSchema"] for tool in tools}
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            jsonschema.validate(result.structured_content, schemas[name])
