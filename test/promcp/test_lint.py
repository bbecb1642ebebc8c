"""The lint over tool descriptions: proMCP's rules, and the kit's where those are blind."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.promcp import lint_server
from robot_mcp_kit.promcp.load import LoadError, load_tools
from robot_mcp_kit.promcp.schemas import SchemaError, inline_refs
from robot_mcp_kit.promcp.units import has_unit, unit_findings

_SPEC = importlib.util.spec_from_file_location("promcp_fixtures", Path(__file__).with_name("fixtures.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
fixtures = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fixtures)


def test_a_server_made_with_the_decorators_passes_in_strict_mode_and_was_checked() -> None:
    """P1 P2 P3 P4 P7: no R000 and no R015, so the response schemas were looked at."""
    report = lint_server(fixtures.fan_server().to_list())
    assert report.passes(strict=True), report.to_dict()
    assert not report.codes()


@pytest.mark.parametrize("what", [*fixtures.MUTATIONS, *fixtures.OURS])
def test_each_rule_bites(what: str) -> None:
    """P7: one change to a server that passes, one code."""
    code, change = {**fixtures.MUTATIONS, **fixtures.OURS}[what]
    report = lint_server(fixtures.mutated(change))
    assert code in report.codes(), report.to_dict()


def test_there_are_enough_negative_controls() -> None:
    assert len(fixtures.MUTATIONS) >= 18


def test_warnings_fail_only_in_strict_mode_and_remarks_never() -> None:
    warned = lint_server(fixtures.mutated(fixtures.MUTATIONS["no side effects"][1]))
    assert warned.passes()
    assert not warned.passes(strict=True)
    remarked = lint_server(fixtures.mutated(fixtures.MUTATIONS["no unroutable"][1]))
    assert remarked.passes(strict=True)


def test_the_output_schema_of_mcp_is_read_with_its_references() -> None:
    """P part 1: proMCP's own linter reads neither."""
    tools = fixtures.fan_server().to_list()
    assert "$ref" in json.dumps(tools)
    assert all("responseSchema" not in tool for tool in tools)
    tools[1]["outputSchema"]["properties"].pop("status")
    assert "R004" in lint_server(tools).codes()


def test_without_the_triad_only_units_and_descriptions_are_judged() -> None:
    """L33."""
    tool = {
        "name": "navigateTo",
        "description": "Drive the robot to a point of the map.",
        "inputSchema": {"type": "object", "properties": {"x": {"type": "number"}}},
    }
    assert lint_server([tool], triad=False).codes() == {"K001"}
    assert {"N002", "N003", "K001"} <= lint_server([tool]).codes()


@pytest.mark.parametrize(
    "name", ["x_m", "yaw_rad", "duration_s", "x_m_base", "yaw_rad_map", "battery_percent", "max_speed_mps"]
)
def test_these_names_carry_their_unit(name: str) -> None:
    """L33."""
    assert has_unit(name)


@pytest.mark.parametrize("name", ["x", "y", "z", "angle", "speed", "duration", "yaw", "m", "s", "position"])
def test_these_names_do_not(name: str) -> None:
    """L33."""
    assert not has_unit(name)


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"x_m": {"type": "number"}, "frame": {"type": "string"}}, 0),
        ({"x_m_base": {"type": "number"}}, 0),
        ({"x_m": {"type": "number"}}, 1),
        ({"at": {"type": "object", "properties": {"x_m": {"type": "number"}}}}, 1),
        ({"at": {"type": "object", "properties": {"x": {"type": "number"}}}}, 1),
        (
            {
                "poses": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"yaw": {"type": "number"}}},
                }
            },
            1,
        ),
        ({"distance": {"anyOf": [{"type": "number"}, {"type": "null"}]}}, 1),
        ({"widths": {"type": "array", "items": {"type": "number"}}}, 1),
        ({"timeout": {"type": "integer"}}, 1),
        ({"count": {"type": "integer"}, "loops": {"type": "integer"}}, 0),
        ({"value": {"type": "number"}, "unit": {"type": "string"}}, 0),
        ({name: {"type": "number"} for name in "xyzw"}, 0),
        ({name: {"type": "number"} for name in "xyz"}, 3),
    ],
)
def test_numbers_without_unit_and_coordinates_without_frame_are_found(
    properties: dict[str, Any], found: int
) -> None:
    """L33: in arguments and in results, however deep."""
    schema = {"type": "object", "properties": properties}
    assert len(unit_findings({"inputSchema": schema})) == found
    assert len(unit_findings({"responseSchema": schema})) == found


def test_a_reference_is_put_in_place_and_what_stands_beside_it_wins() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}},
        "$defs": {"A": {"type": "number", "description": "theirs"}},
    }
    assert inline_refs(schema) == {"properties": {"a": {"type": "number", "description": "mine"}}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}}, "contains itself"),
        ({"$ref": "#/$defs/B"}, "there is nothing"),
        ({"$ref": "other.json#/A"}, "within the schema"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_told(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        inline_refs(schema)


# -- files ----------------------------------------------------------------------------------------


def _json(folder: Path) -> Path:
    file = folder / "tools.json"
    file.write_text(json.dumps({"tools": fixtures.fan_server().to_list()}))
    return file


def _yaml(folder: Path) -> Path:
    import yaml

    file = folder / "tools.yaml"
    file.write_text(yaml.safe_dump(fixtures.fan_server().to_list()))
    return file


def _registry(folder: Path) -> Path:
    file = folder / "server.py"
    file.write_text(f"import runpy\nregistry = runpy.run_path({str(fixtures.__file__)!r})['fan_server']()\n")
    return file


def _async_list(folder: Path) -> Path:
    file = folder / "asynchronous.py"
    file.write_text(
        f"import json\nasync def list_tools():\n    return json.load(open({str(_json(folder))!r}))['tools']\n"
    )
    return file


@pytest.mark.parametrize("make", [_json, _yaml, _registry, _async_list])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_tools_are_read_from_a_file(make: Callable[[Path], Path], tmp_path: Path) -> None:
    tools = load_tools(make(tmp_path))
    assert [tool["name"] for tool in tools] == ["read_battery", "do_set_fan", "can_do"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{", "cannot be read"),
        ("a.json", '{"nothing": 1}', "expected a list"),
        ("a.json", "[]", "no tools"),
        ("a.json", "[1]", "a tool is an object"),
        ("a.yaml", "a: [", "cannot be read"),
        ("a.py", "raise RuntimeError('no robot')", "no robot"),
        ("a.py", "x = 1", "no tools"),
        ("a.txt", "", "URL"),
    ],
)
def test_a_file_without_tools_is_told(name: str, text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(LoadError, match=words):
        load_tools(file)


def test_a_file_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such file"):
        load_tools(tmp_path / "tools.json")
