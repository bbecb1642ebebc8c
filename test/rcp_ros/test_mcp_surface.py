"""The protocol's resources and tools over MCP: what they say of themselves, and how they answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from mcp import Client

from robot_mcp_kit.promcp.lint import lint_server
from robot_mcp_kit.server.app import build_mcp_server
from robot_mcp_kit.skills.base import GoalStatus

from .rig import Rig, rigged

TOOLS = ["rcp_read", "rcp_capture_position", "rcp_move_to", "rcp_jog", "rcp_home", "rcp_start_program"]
PLACE = {"x_mm": 600.0, "y_mm": 0.0, "z_mm": 700.0, "rx_deg": 0.0, "ry_deg": 0.0, "rz_deg": 90.0}
MOVED = SimpleNamespace(error_code=SimpleNamespace(val=1, message="", source=""), planning_time=0.1)


@asynccontextmanager
async def served(
    text: str | None = None, *, actions: bool = True, **more: Any
) -> AsyncIterator[tuple[Rig, Client]]:
    async with rigged(text, **more) as rig:
        server = build_mcp_server(
            rig.bridge, rig.manager, name="robot", config=rig.config, rcp=rig.robot(), rcp_actions=actions
        )
        async with Client(server) as client:
            yield rig, client


async def _tools(client: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_tools_name_their_units_and_say_when_not_to_use_them() -> None:
    """R14 R16: the kit's own lint finds nothing."""
    async with served() as (_, client):
        tools = await _tools(client)
        mine = [tools[name] for name in TOOLS]
        report = lint_server([tool.model_dump(by_alias=True, mode="json") for tool in mine], triad=False)
        assert [found.message for found in report.findings() if found.severity != "info"] == []
        for tool in mine:
            assert "ot for " in tool.description or "efused where" in tool.description, tool.name
            assert "repeat" in tool.description or "retry" in tool.description, tool.name
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.input_schema["additionalProperties"] is False
            for name, described in tool.input_schema["properties"].items():
                assert described.get("description"), f"{tool.name}.{name}"
        reads = {name for name in TOOLS if tools[name].annotations.read_only_hint}
        assert reads == {"rcp_read", "rcp_capture_position"}


async def test_without_a_section_the_actions_are_not_offered() -> None:
    """R12: somebody has to choose them."""
    async with served(actions=False) as (_, client):
        assert [name for name in TOOLS if name in await _tools(client)] == TOOLS[:2]


async def test_an_action_that_cannot_be_carried_out_has_no_tool() -> None:
    async with served("robot: {name: bare}\n") as (_, client):
        assert [name for name in TOOLS if name in await _tools(client)] == TOOLS[:2]


@pytest.mark.parametrize(
    "part", ["context", "identity", "joints", "tcp", "io", "programs", "tools", "conventions"]
)
async def test_each_part_is_the_same_as_resource_and_as_answer(part: str) -> None:
    async with served() as (_, client):
        answer = await client.call_tool("rcp_read", {"part": part})
        schema = (await _tools(client))["rcp_read"].output_schema
        jsonschema.validate(answer.structured_content, schema)
        (contents,) = (await client.read_resource(f"robot://{part}")).contents
        text = contents.text  # type: ignore[union-attr]
        told = answer.structured_content
        assert told is not None
        if part == "context":
            assert (contents.mime_type, text) == ("text/plain", told["prompt"])
            assert answer.content[0].text == text  # type: ignore[union-attr]
        else:
            assert json.loads(text) == told


async def test_a_silent_source_is_an_answer_and_not_an_error() -> None:
    """R13."""
    async with served() as (rig, client):
        rig.readings.pose = None
        del rig.readings.signals["DO_lamp"]
        answer = await client.call_tool("rcp_read", {"part": "tcp"})
        assert not answer.is_error
        told = answer.structured_content
        assert told is not None
        assert (told["tcp"], told["missing"]) == (None, {"tcp": "nothing was heard on tool_pose yet"})
        io = (await client.call_tool("rcp_read", {"part": "io"})).structured_content
        assert io is not None
        assert io["missing"] == {"DO_lamp": "nothing was heard on DO_lamp yet"}
        refused = await client.call_tool("rcp_capture_position", {})
        assert refused.is_error


async def test_a_motion_answers_as_every_motion_does() -> None:
    """R19: with the task of the skill behind it; the same key moves nothing again."""
    async with served() as (rig, client):
        arguments = {**PLACE, "idempotency_key": "first"}
        asked = await client.call_tool("rcp_move_to", arguments)
        told = asked.structured_content
        assert told is not None
        jsonschema.validate(told, (await _tools(client))["rcp_move_to"].output_schema)
        assert (told["tool"], told["state"], told["started_now"]) == ("move_arm", "running", True)
        goal = await asyncio.wait_for(rig.ports["move_action"].next_goal(), 10)
        again = (await client.call_tool("rcp_move_to", arguments)).structured_content
        assert again is not None
        assert (again["task_id"], again["started_now"]) == (told["task_id"], False)
        goal.finish(GoalStatus.SUCCEEDED, MOVED)
        done = (await client.call_tool("await_task", {"handle": told["handle"]})).structured_content
        assert done is not None
        assert done["state"] == "succeeded"
        assert rig.sent == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "words"),
    [
        ("rcp_move_to", {**PLACE, "x_mm": 1400.0}, "x_mm", "at most 1300 mm"),
        ("rcp_move_to", {**PLACE, "frame": "map"}, "frame", "base_link"),
        ("rcp_move_to", {**PLACE, "rz_deg": 361.0}, "rz_deg", "-360 .. 360"),
        ("rcp_jog", {"axis": "J1", "direction": 1}, "speed_deg_s", "is missing; J1 needs it"),
        ("rcp_jog", {"axis": "X", "direction": 1, "speed_deg_s": 5}, "speed_deg_s", "X takes speed_mm_s"),
        ("rcp_jog", {"axis": "X", "direction": 1, "speed_mm_s": 1.0}, "speed_mm_s", "nothing would move"),
        ("rcp_jog", {"axis": "J1", "direction": 1, "speed_deg_s": 11}, "speed_deg_s", "at most 10"),
        (
            "rcp_jog",
            {"axis": "J1", "direction": 1, "speed_deg_s": 5, "idempotency_key": "again"},
            "idempotency_key",
            "each call is one more step",
        ),
        ("rcp_start_program", {"module": "navigate_to"}, "module", "needs arguments"),
        ("rcp_start_program", {"module": "reach_uot"}, "module", "reach_out"),
        ("rcp_read", {"part": "camera"}, "part", "context"),
    ],
)
async def test_a_refusal_names_the_callers_own_argument(
    tool: str, arguments: dict[str, Any], field: str, words: str
) -> None:
    """R30 R31: in the units that were given, not in those of the skill behind."""
    async with served() as (rig, client):
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error
        assert refused.structured_content is not None
        error = refused.structured_content["error"]
        assert (error["error_code"], error["field"]) == ("INVALID_ARGUMENT", field)
        assert words in refused.content[0].text  # type: ignore[union-attr]
        assert rig.sent == 0


async def test_a_place_outside_the_arms_workspace_is_named_in_millimetres() -> None:
    """R30: the skill's own workspace holds, and is told in the protocol's units."""
    from .rig import TEMPLATE

    text = TEMPLATE.read_text(encoding="utf-8").replace("workspace: {}", "workspace: {z_m: [0.3, 1.3]}")
    async with served(text) as (rig, client):
        refused = await client.call_tool("rcp_move_to", {**PLACE, "z_mm": 200.0})
        assert refused.structured_content is not None
        assert refused.structured_content["error"]["field"] == "z_mm"
        assert "300 .. 1300" in refused.content[0].text  # type: ignore[union-attr]
        assert rig.sent == 0


async def test_with_a_rotation_vector_the_arguments_are_radians() -> None:
    """R16."""
    from .rig import TEMPLATE

    text = TEMPLATE.read_text(encoding="utf-8").replace(
        "rotation: roll_pitch_yaw_deg", "rotation: rotation_vector_rad"
    )
    async with served(text) as (rig, client):
        properties = (await _tools(client))["rcp_move_to"].input_schema["properties"]
        assert {"rx_rad", "ry_rad", "rz_rad"} <= properties.keys()
        place = {"x_mm": 600.0, "y_mm": 0.0, "z_mm": 700.0, "rx_rad": 0.0, "ry_rad": 0.0, "rz_rad": 1.0}
        assert not (await client.call_tool("rcp_move_to", place)).is_error
        goal = await asyncio.wait_for(rig.ports["move_action"].next_goal(), 10)
        turned = goal.fields["request"]["goal_constraints"][0]["orientation_constraints"][0]["orientation"]
        assert turned["z"] == pytest.approx(0.479425538604203)
