"""Fields to messages and back, over the installed interface packages."""

from __future__ import annotations

import json
import math

import pytest

from robot_mcp_kit.errors import GoalFieldError

pytestmark = pytest.mark.ros


def _build(type_name: str, fields: dict[str, object]) -> object:
    from robot_mcp_kit.ros.convert import build_message
    from robot_mcp_kit.ros.interface_types import load_interface

    return build_message(load_interface(type_name), fields)


def test_nested_fields_arrive_and_the_rest_keeps_its_default() -> None:
    pose = _build(
        "geometry_msgs/msg/PoseStamped", {"header": {"frame_id": "map"}, "pose": {"position": {"x": 1}}}
    )
    assert pose.header.frame_id == "map"
    assert pose.pose.position.x == 1.0
    assert isinstance(pose.pose.position.x, float)
    assert pose.pose.orientation.w == 1.0, "the message's own default, not zero"
    assert (pose.header.stamp.sec, pose.header.stamp.nanosec) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"pose": {"positon": {}}}, "pose.positon", "did you mean 'position'"),
        ({"pose": {"position": {"x": math.nan}}}, "pose.position.x", "finite"),
        ({"pose": {"position": {"x": math.inf}}}, "pose.position.x", "finite"),
        ({"pose": {"position": {"x": "1"}}}, "pose.position.x", "must be a number, not text"),
        ({"pose": {"position": {"x": True}}}, "pose.position.x", "must be a number, not a boolean"),
        ({"pose": {"position": None}}, "pose.position", "must be an object with fields, not nothing"),
        ({"header": {"frame_id": 7}}, "header.frame_id", "must be text"),
        ({"header": {"stamp": {"sec": 2**31}}}, "header.stamp.sec", "outside"),
        ({"header": {"stamp": {"nanosec": -1}}}, "header.stamp.nanosec", "outside"),
        ({"header": {"stamp": {"sec": 1.5}}}, "header.stamp.sec", "whole number"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(fields: dict[str, object], path: str, words: str) -> None:
    """B7."""
    with pytest.raises(GoalFieldError) as caught:
        _build("geometry_msgs/msg/PoseStamped", fields)
    assert caught.value.path == path
    assert words in str(caught.value)


def test_lists_of_messages_name_the_entry() -> None:
    with pytest.raises(GoalFieldError) as caught:
        _build("nav_msgs/msg/Path", {"poses": [{}, {"pose": {"orientation": {"w": "up"}}}]})
    assert caught.value.path == "poses[1].pose.orientation.w"


def test_fixed_and_bounded_lists_keep_their_length() -> None:
    with pytest.raises(GoalFieldError, match="exactly 36"):
        _build("geometry_msgs/msg/PoseWithCovariance", {"covariance": [0.0]})
    with pytest.raises(GoalFieldError, match="at most 3 fit"):
        _build("shape_msgs/msg/SolidPrimitive", {"dimensions": [1, 2, 3, 4]})
    with pytest.raises(GoalFieldError, match="must be a list, not text"):
        _build("nav_msgs/msg/Path", {"poses": "home"})


@pytest.mark.parametrize(
    ("type_name", "fields"),
    [
        ("geometry_msgs/msg/PoseStamped", {"pose": {"position": {"x": 0.1, "y": -2.5, "z": 0.0}}}),
        (
            "test_msgs/msg/BasicTypes",
            {"bool_value": True, "int64_value": 5, "uint8_value": 255, "float32_value": 0.5},
        ),
        ("test_msgs/msg/Strings", {"string_value": "Küche 🤖", "bounded_string_value": "abc"}),
        ("test_msgs/msg/WStrings", {"wstring_value": "ψ"}),
        ("test_msgs/msg/Arrays", {"int32_values": [1, 2, 3], "bool_values": [True, False, True]}),
        ("test_msgs/msg/BoundedSequences", {"float64_values": [0.5, 1.5], "string_values": ["a", "b"]}),
        (
            "test_msgs/msg/UnboundedSequences",
            {"int8_values": [-1, 2], "basic_types_values": [{"int32_value": 4}]},
        ),
        ("test_msgs/msg/Nested", {"basic_types_value": {"uint16_value": 9}}),
    ],
)
def test_what_was_set_is_read_back(type_name: str, fields: dict[str, object]) -> None:
    """B33."""
    from robot_mcp_kit.ros.convert import message_to_dict

    data = message_to_dict(_build(type_name, fields))
    json.dumps(data, allow_nan=False)

    def contains(whole: object, part: object) -> bool:
        if isinstance(part, dict):
            return isinstance(whole, dict) and all(contains(whole[k], v) for k, v in part.items())
        if isinstance(part, list):
            return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
        return whole == part

    assert contains(data, fields), data


def test_numbers_json_cannot_hold_become_null_or_text() -> None:
    """F49, F53: NaN is null, 64-bit integers beyond 2**53 do not leave as numbers."""
    from robot_mcp_kit.ros.convert import message_to_dict
    from robot_mcp_kit.ros.interface_types import load_interface

    message = load_interface("test_msgs/msg/BasicTypes")()
    message.float64_value = math.nan
    message.uint64_value = 2**63
    message.byte_value = b"\x07"
    data = message_to_dict(message)
    assert data["float64_value"] is None
    assert not isinstance(data["uint64_value"], int)
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NavigateToPose", "write it as"),
        ("nav2_msgs/actions/NavigateToPose", "write it as"),
        ("nope_msgs/action/X", "'nope_msgs' of 'nope_msgs/action/X' is not installed"),
        ("std_msgs/msg/Nope", "has no msg 'Nope'"),
    ],
)
def test_a_type_that_cannot_be_had_says_why(name: str, words: str) -> None:
    from robot_mcp_kit.ros.interface_types import load_interface

    with pytest.raises(LookupError, match=words):
        load_interface(name)
