"""Schemas of installed interfaces, and messages to JSON and back for every type there is to test with."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.ros

WIDE = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}


def _classes(package: str, kind: str) -> list[str]:
    """Names of every interface of a package that is installed here."""
    if importlib.util.find_spec(package) is None:
        return []
    try:
        module = importlib.import_module(f"{package}.{kind}")
    except ModuleNotFoundError:
        return []
    return sorted(f"{package}/{kind}/{name}" for name in dir(module) if name[0].isupper() and "_" not in name)


def _load(type_name: str) -> Any:
    package, kind, name = type_name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), name)


MESSAGES = [*_classes("test_msgs", "msg")]
ACTIONS = [
    name
    for package in ("test_msgs", "nav2_msgs", "control_msgs", "moveit_msgs", "tf2_msgs")
    for name in _classes(package, "action")
]
PARTS = [(name, part) for name in _classes("test_msgs", "action") for part in ("Goal", "Result", "Feedback")]


def _drawn(data: st.DataObject, schema: dict[str, Any], depth: int = 0) -> Any:
    """Anything that a field of that schema can hold."""
    if schema["type"] == "object":
        return {
            name: _drawn(data, part, depth + 1)
            for name, part in schema["properties"].items()
            if depth < 3 and data.draw(st.booleans())
        }
    if schema["type"] == "array":
        low = schema.get("minItems", 0)
        count = data.draw(st.integers(low, max(low, min(schema.get("maxItems", 3), 3))))
        return [_drawn(data, schema["items"], depth + 1) for _ in range(count)]
    return data.draw(_scalars(schema))


def _scalars(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    ros_type = schema["x-ros-type"]
    match schema["type"]:
        case "integer":
            return st.integers(*WIDE.get(ros_type, (schema["minimum"], schema["maximum"])))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False, width=32 if ros_type == "float32" else 64)
        case "boolean":
            return st.booleans()
    # A C string ends at NUL.
    text = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.text(text, max_size=min(schema.get("maxLength", 8), 8))


def _over_the_wire(message: Any) -> Any:
    from rclpy.serialization import deserialize_message, serialize_message

    return deserialize_message(serialize_message(message), type(message))


def _round_trip(cls: Any, fields: dict[str, Any]) -> None:
    from robot_mcp_kit.ros.convert import build_message, message_to_dict

    sent = _over_the_wire(build_message(cls, fields))
    data = message_to_dict(sent)
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    assert _over_the_wire(build_message(cls, json.loads(text))) == sent


@pytest.mark.parametrize("type_name", MESSAGES)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_message_survives_json_and_the_wire(type_name: str, data: st.DataObject) -> None:
    """B33: every message of test_msgs, with every value it can hold but NaN."""
    from robot_mcp_kit.ros.schema import message_schema

    cls = _load(type_name)
    _round_trip(cls, _drawn(data, message_schema(cls)))


@pytest.mark.parametrize(("type_name", "part"), PARTS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_part_of_an_action_survives_json_and_the_wire(
    type_name: str, part: str, data: st.DataObject
) -> None:
    """B33."""
    from robot_mcp_kit.ros.schema import message_schema

    cls = getattr(_load(type_name), part)
    _round_trip(cls, _drawn(data, message_schema(cls)))


def test_there_is_something_to_test_with() -> None:
    assert {"test_msgs/msg/Arrays", "test_msgs/msg/WStrings", "test_msgs/msg/UnboundedSequences"} <= set(
        MESSAGES
    )
    assert {"test_msgs/action/Fibonacci", "nav2_msgs/action/NavigateToPose"} <= set(ACTIONS)


@pytest.mark.parametrize("action_type", ACTIONS)
def test_every_action_type_has_a_strict_schema_and_makes_a_skill(action_type: str) -> None:
    """B31: nothing but ``action`` and ``type`` in the entry."""
    from robot_mcp_kit.ros.schema import RosGoalSchema
    from robot_mcp_kit.skills.config import parse_config
    from robot_mcp_kit.skills.registry import build_skills

    types = RosGoalSchema()
    for schema in (types.goal(action_type), types.feedback(action_type), types.result(action_type)):
        json.dumps(schema, allow_nan=False)
        assert schema["x-ros-type"] == action_type
        _check_numbers(schema)
    config = parse_config(f"skills:\n  s: {{action: a, type: {action_type}, generic: true}}\n")
    skill = build_skills(config, None, types)["s"]
    shown = skill.arguments.model_json_schema()
    assert list(shown["properties"]) == list(types.goal(action_type)["properties"])
    assert "x-ros-type" not in json.dumps(shown)


def _check_numbers(schema: Any) -> None:
    """F53: no number in it that a JSON reader with doubles would change."""
    if isinstance(schema, dict):
        for value in schema.values():
            _check_numbers(value)
    elif isinstance(schema, list):
        for value in schema:
            _check_numbers(value)
    elif isinstance(schema, int):
        assert abs(schema) <= 2**53 - 1


def _schema(type_name: str) -> dict[str, Any]:
    from robot_mcp_kit.ros.schema import message_schema

    return message_schema(_load(type_name))


def test_integers_have_their_types_range() -> None:
    """B31."""
    fields = _schema("test_msgs/msg/BasicTypes")["properties"]
    ends = {name: (part.get("minimum"), part.get("maximum")) for name, part in fields.items()}
    assert ends["int8_value"] == (-128, 127)
    assert ends["byte_value"] == ends["uint8_value"] == (0, 255)
    assert ends["uint32_value"] == (0, 2**32 - 1)
    assert ends["int64_value"] == (-(2**53) + 1, 2**53 - 1)
    assert ends["float32_value"] == (None, None)
    assert fields["bool_value"]["type"] == "boolean"


def test_arrays_and_texts_have_their_bounds() -> None:
    """B31."""
    arrays = _schema("test_msgs/msg/Arrays")["properties"]
    assert (arrays["int32_values"]["minItems"], arrays["int32_values"]["maxItems"]) == (3, 3)
    bounded = _schema("test_msgs/msg/BoundedSequences")["properties"]["int32_values"]
    assert (bounded.get("minItems"), bounded["maxItems"]) == (None, 3)
    assert "maxItems" not in _schema("test_msgs/msg/UnboundedSequences")["properties"]["int32_values"]
    texts = _schema("test_msgs/msg/Strings")["properties"]
    assert texts["bounded_string_value"]["maxLength"] == 22
    assert "maxLength" not in texts["string_value"]


def test_defaults_are_the_messages_own_and_the_written_ones_are_marked() -> None:
    """B31."""
    fields = _schema("test_msgs/msg/Defaults")["properties"]
    assert {
        name: part["default"] for name, part in fields.items() if name in ("byte_value", "int8_value")
    } == {
        "byte_value": 50,
        "int8_value": -50,
    }
    assert all(part["x-explicit-default"] for part in fields.values())
    plain = _schema("test_msgs/msg/BasicTypes")["properties"]
    assert plain["int8_value"]["default"] == 0
    assert "x-explicit-default" not in plain["int8_value"]
    rotation = _schema("geometry_msgs/msg/Quaternion")["properties"]
    assert rotation["x"]["x-explicit-default"], "a zero that somebody wrote"
    assert rotation["w"]["default"] == 1.0


def test_constants_are_told_with_the_field_they_are_for() -> None:
    from robot_mcp_kit.ros.schema import RosGoalSchema

    result = RosGoalSchema().result("control_msgs/action/FollowJointTrajectory")
    constants = result["properties"]["error_code"]["x-constants"]
    assert constants["SUCCESSFUL"] == 0
    assert constants["GOAL_TOLERANCE_VIOLATED"] == -5
    operation = _schema("moveit_msgs/msg/CollisionObject")["properties"]["operation"]
    assert operation["x-constants"] == {"ADD": 0, "REMOVE": 1, "APPEND": 2, "MOVE": 3}


def test_a_message_within_a_message_is_described_in_place() -> None:
    from robot_mcp_kit.ros.schema import RosGoalSchema

    goal = RosGoalSchema().goal("test_msgs/action/NestedMessage")
    inner = goal["properties"]["nested_field"]
    assert inner["x-ros-type"] == "test_msgs/msg/BasicTypes"
    assert inner["properties"]["float64_value"]["type"] == "number"
    stamp = goal["properties"]["nested_different_pkg"]["properties"]
    assert stamp["nanosec"]["maximum"] == 999_999_999


def test_descriptions_and_units_come_from_the_installed_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B31: comments before and behind a field, ``[m/s]``, and the message's own for a nested one."""
    from robot_mcp_kit.ros import schema as module

    folder = tmp_path / "share/test_msgs/action"
    folder.mkdir(parents=True)
    (folder / "Fibonacci.action").write_text(
        "# Counts up.\n\n# How many numbers\nint32 order 7 # at least two [1/s]\n---\nint32[] sequence\n---\n"
        "int32[] sequence\n"
    )
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    for cached in (module._part, module._parsed):
        cached.cache_clear()
    try:
        goal = module.RosGoalSchema().goal("test_msgs/action/Fibonacci")
    finally:
        for cached in (module._part, module._parsed):
            cached.cache_clear()
    assert goal["description"] == "Counts up."
    order = goal["properties"]["order"]
    assert order["description"] == "How many numbers at least two"
    assert order["x-unit"] == "1/s"
    assert order["x-explicit-default"] is True
    header = _schema("std_msgs/msg/Header")
    assert "stamp" in header["properties"]
    assert header["properties"]["frame_id"]["description"].startswith("Transform frame")


def test_a_definition_that_cannot_be_read_costs_only_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robot_mcp_kit.ros import schema as module

    folder = tmp_path / "share/test_msgs/action"
    folder.mkdir(parents=True)
    (folder / "Fibonacci.action").write_bytes(b"int32 order\xff\n---\n")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    for cached in (module._part, module._parsed):
        cached.cache_clear()
    try:
        goal = module.RosGoalSchema().goal("test_msgs/action/Fibonacci")
    finally:
        shutil.rmtree(tmp_path / "share")
        for cached in (module._part, module._parsed):
            cached.cache_clear()
    assert goal["properties"]["order"]["type"] == "integer"
    assert "description" not in goal


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_msgs/msg/Empty", "not an action type"),
        ("nope_msgs/action/X", "not installed"),
        ("nav2_msgs/action/NavigateToPoze", 'Did you mean "NavigateToPose"'),
    ],
)
def test_a_type_that_cannot_be_had_says_why(name: str, words: str) -> None:
    from robot_mcp_kit.ros.schema import RosGoalSchema

    with pytest.raises(LookupError, match=words):
        RosGoalSchema().goal(name)


def test_what_json_cannot_hold_leaves_as_what_it_can() -> None:
    """F49, F50, F53, F54."""
    from robot_mcp_kit.ros.convert import build_message, message_to_dict

    cls = _load("test_msgs/msg/BasicTypes")
    message = cls(
        float32_value=0.1, float64_value=math.nan, uint64_value=2**64 - 1, byte_value=b"\x07", int64_value=-5
    )
    data = message_to_dict(_over_the_wire(message))
    assert data["float32_value"] == 0.1
    assert data["float64_value"] is None
    assert data["uint64_value"] == str(2**64 - 1)
    assert data["byte_value"] == 7
    assert data["int64_value"] == -5
    arrays = _load("test_msgs/msg/UnboundedSequences")
    data = message_to_dict(
        arrays(
            byte_values=[b"\x01", b"\xff"],
            uint8_values=[1, 2],
            float32_values=[0.1, math.inf],
            uint64_values=[2**63],
            string_values=["a\udc81"],
        )
    )
    assert base64.b64decode(data["byte_values"]) == b"\x01\xff"
    assert base64.b64decode(data["uint8_values"]) == b"\x01\x02"
    assert data["float32_values"] == [0.1, None]
    assert data["uint64_values"] == [str(2**63)]
    assert data["string_values"] == ["a\ufffd"]
    back = build_message(arrays, {"uint8_values": data["uint8_values"], "byte_values": [1, 255]})
    assert list(back.uint8_values) == [1, 2]
    assert back.byte_values == [b"\x01", b"\xff"]
