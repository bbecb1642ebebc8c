"""Any action as a skill: what a caller sees, what is sent, what is refused, and how the end is read."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError, ConfigError
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import GoalStatus, Outcome, Skill
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills

from .samples import duration, pose
from .schemas import Types

HEAD = "skills:\n  grasp:\n    action: grasp\n    type: arm_msgs/action/Grasp\n"
FEW = "    others: hidden\n    fields:\n      width: {as: width_m, min: 0.01, max: 0.1, unit: m}\n"


def build(entry: str = "", robot: str = "") -> Skill:
    return build_skills(parse_config(robot + HEAD + entry, "robot.yaml"), None, Types())["grasp"]


def complaint(entry: str) -> str:
    with pytest.raises(ConfigError) as caught:
        build(entry)
    return str(caught.value)


def schema_of(skill: Skill) -> dict[str, Any]:
    return skill.arguments.model_json_schema()


def goal_of(skill: Skill, **arguments: Any) -> dict[str, Any]:
    return skill.goal(parse_arguments(skill.arguments, arguments)).fields


def refusal(skill: Skill, **arguments: Any) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        goal_of(skill, **arguments)
    return caught.value


# -- what a caller sees --------------------------------------------------------------------------------


def test_without_settings_the_whole_goal_is_shown() -> None:
    """B31: with its ranges, lengths, defaults and words."""
    schema = schema_of(build())
    fields = schema["properties"]
    assert list(fields) == [
        *("target", "width", "mode", "speed", "careful", "label", "timeout", "fingers", "via", "mask"),
        "stamp_ns",
    ]
    assert fields["width"] == {"type": "number", "description": "Opening of the fingers. Unit: m."}
    assert fields["mode"]["maximum"] == 255
    assert fields["mode"]["description"] == "Values: SOFT = 1, HARD = 2."
    assert fields["speed"] == {"type": "number", "default": 0.5}
    assert fields["label"] == {"type": "string", "maxLength": 10, "default": ""}
    assert fields["fingers"]["maxItems"] == 4
    assert fields["target"]["properties"]["pose"]["properties"]["position"]["required"] == ["x", "y", "z"]
    assert schema["additionalProperties"] is False


def test_a_number_without_a_default_must_be_given_and_nothing_else() -> None:
    """A number is never guessed; stamps, texts, lists and switches have an empty value that means none."""
    schema = schema_of(build())
    assert schema["required"] == ["target", "width", "mode", "timeout"]
    assert "required" not in schema["properties"]["target"]["properties"]["header"]
    assert schema["properties"]["timeout"]["required"] == ["sec"]


def test_required_can_be_decided_by_the_entry() -> None:
    skill = build("    fields:\n      target: {required: false}\n      label: {required: true}\n")
    assert schema_of(skill)["required"] == ["width", "mode", "label", "timeout"]
    sent = goal_of(skill, width=1, mode=1, label="a", timeout={"sec": 1})
    assert "target" not in sent, "its own default"


def test_hidden_fields_are_not_shown_and_keep_their_default() -> None:
    """B32."""
    skill = build("    fields:\n      target: {hidden: true}\n      timeout: {hidden: true}\n")
    assert not {"target", "timeout"} & set(schema_of(skill)["properties"])
    assert goal_of(skill, width=0.1, mode=1) == {"width": 0.1, "mode": 1}
    error = refusal(skill, width=0.1, mode=1, target={})
    assert (error.field, "configuration" in error.message) == ("target", True)


def test_others_hidden_shows_only_what_is_named() -> None:
    skill = build(FEW)
    assert list(schema_of(skill)["properties"]) == ["width_m"]
    assert goal_of(skill, width_m=0.05) == {"width": 0.05}


def test_a_named_field_shows_below_a_hidden_one() -> None:
    skill = build("    fields:\n      target: {hidden: true}\n      target.pose.position.x: {as: x_m}\n")
    fields = schema_of(skill)["properties"]
    assert "target" not in fields
    assert fields["x_m"]["type"] == "number"


def test_a_renamed_field_moves_to_the_top_and_its_value_stays_in_place() -> None:
    """B32."""
    skill = build(
        FEW
        + "      target.pose.position.x: {as: x_m}\n"
        + "      target.pose.position.y: {as: y_m}\n"
        + "      goal.target.header.frame_id: map\n"
        + "      target.pose.orientation: {as: yaw_rad, form: yaw}\n"
    )
    assert schema_of(skill)["required"] == ["x_m", "y_m", "yaw_rad", "width_m"]
    sent = goal_of(skill, x_m=1, y_m="2.5", yaw_rad=math.pi / 2, width_m=0.05)
    assert sent["target"]["header"] == {"frame_id": "map"}
    assert sent["target"]["pose"]["position"] == {"x": 1.0, "y": 2.5}
    half = 0.5**0.5
    assert sent["target"]["pose"]["orientation"] == pytest.approx({"x": 0, "y": 0, "z": half, "w": half})


def test_the_elements_of_a_list_have_settings_of_their_own() -> None:
    skill = build(
        "    others: hidden\n    fields:\n"
        "      via: {min_items: 1, max_items: 2}\n"
        "      via[].header.frame_id: base_link\n"
        "      via[].header.stamp: {hidden: true}\n"
        "      via[].pose.position.x: {as: x_m, max: 1}\n"
        "      via[].pose.orientation: {hidden: true}\n"
        "      fingers[]: {min: 0, max: 1}\n"
        "      fingers: {}\n"
    )
    item = schema_of(skill)["properties"]["via"]["items"]
    assert set(item["properties"]) == {"x_m", "pose"}
    one = {"x_m": 0.5, "pose": {"position": {"y": 1, "z": 2}}}
    assert goal_of(skill, via=[one])["via"] == [
        {"header": {"frame_id": "base_link"}, "pose": {"position": {"x": 0.5, "y": 1.0, "z": 2.0}}}
    ]
    assert refusal(skill, via=[one, one | {"x_m": 2}]).field == "via[1].x_m"
    assert "at least 1" in refusal(skill, via=[]).message
    assert refusal(skill, via=[one], fingers=[0.5, 1.5]).field == "fingers[1]"


def test_choices_are_words_for_values() -> None:
    """B32."""
    skill = build("    others: hidden\n    fields:\n      mode: {choices: {gentle: SOFT, firm: 2}}\n")
    assert schema_of(skill)["properties"]["mode"] == {"enum": ["gentle", "firm"], "type": "string"}
    assert goal_of(skill, mode="Firm") == {"mode": 2}
    error = refusal(skill, mode="gentel")
    assert (error.field, error.allowed[0]) == ("mode", "gentle")
    assert refusal(skill, mode=2).field == "mode"


def test_choices_may_be_the_values_or_the_interfaces_constants() -> None:
    skill = build(
        "    others: hidden\n    fields:\n"
        "      mode: {choices: [SOFT, HARD]}\n      speed: {choices: [0.5, 1]}\n"
    )
    fields = schema_of(skill)["properties"]
    assert fields["mode"]["enum"] == ["SOFT", "HARD"]
    assert fields["speed"] == {"enum": [0.5, 1.0], "type": "number", "default": 0.5}
    assert goal_of(skill, mode="HARD", speed=1) == {"mode": 2, "speed": 1.0}
    assert refusal(skill, mode="SOFT", speed=0.7).field == "speed"


def test_a_default_of_the_entry_is_shown_and_sent() -> None:
    """B32."""
    skill = build(
        "    others: hidden\n    fields:\n      width: {default: 0.05}\n      mode: {default: HARD}\n"
        "      timeout: {as: timeout_s, form: seconds, default: 2.5, max: 10}\n"
    )
    fields = schema_of(skill)["properties"]
    assert (fields["width"]["default"], fields["timeout_s"]["default"]) == (0.05, 2.5)
    assert fields["timeout_s"] == {
        "type": "number",
        "maximum": 10.0,
        "description": "Unit: s.",
        "default": 2.5,
    }
    assert "required" not in schema_of(skill)
    assert goal_of(skill) == {"width": 0.05, "mode": 2, "timeout": {"sec": 2, "nanosec": 500_000_000}}
    assert goal_of(skill, width=None, timeout_s=4)["timeout"] == {"sec": 4, "nanosec": 0}


def test_fixed_values_are_always_sent() -> None:
    """B32: scalars, constants by name, whole messages, lists, durations in seconds."""
    skill = build(
        FEW + "      mode: HARD\n      careful: true\n      fingers: [0.1, 0.2]\n      timeout: 1.5\n"
        "      target.pose.position: {fixed: {x: 1, z: 0.5}}\n"
    )
    assert list(schema_of(skill)["properties"]) == ["width_m"]
    assert goal_of(skill, width_m=0.05) == {
        "target": {"pose": {"position": {"x": 1.0, "z": 0.5}}},
        "width": 0.05,
        "mode": 2,
        "careful": True,
        "timeout": {"sec": 1, "nanosec": 500_000_000},
        "fingers": [0.1, 0.2],
    }
    assert refusal(skill, width_m=0.05, mode=1).field == "mode"


def test_one_goal_does_not_change_the_next() -> None:
    skill = build(FEW + "      fingers: [0.1, 0.2]\n")
    goal_of(skill, width_m=0.05)["fingers"].append(9)
    assert goal_of(skill, width_m=0.05)["fingers"] == [0.1, 0.2]


def test_a_default_that_no_caller_may_give_is_not_sent_in_silence() -> None:
    """Case A10: an optional field with limits that its own default is outside of must be given."""
    skill = build(
        "    others: hidden\n    fields:\n      speed: {max: 0.3}\n      label: {choices: [a, b]}\n"
        "      fingers: {min_items: 2}\n"
    )
    assert schema_of(skill)["required"] == ["speed", "label", "fingers"]


def test_a_frame_is_one_of_the_robots_and_the_map_frame_by_default() -> None:
    """B7; case A4."""
    skill = build("", robot="robot: {map_frame: world, frames: [world, base]}\n")
    rest = {"width": 0.1, "mode": 1, "timeout": {"sec": 1}}
    position = {"position": {"x": 1, "y": 2, "z": 3}}
    sent = goal_of(skill, target={"pose": position}, via=[{"pose": position}], **rest)
    assert sent["target"]["header"]["frame_id"] == "world"
    assert sent["via"][0]["header"]["frame_id"] == "world"
    assert "stamp" not in sent["target"]["header"], "zero: now (case A5)"
    sent = goal_of(skill, target={"header": {"frame_id": "base"}, "pose": position}, **rest)
    assert sent["target"]["header"]["frame_id"] == "base"
    for frame in ("", "/world", "wrld"):
        error = refusal(skill, target={"header": {"frame_id": frame}, "pose": position}, **rest)
        assert error.field == "target.header.frame_id"
        assert set(error.allowed) == {"world", "base"}


def test_a_hidden_frame_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    build(FEW + "      target.pose.position: {}\n")
    assert "target.header.frame_id is hidden" in caplog.text
    caplog.clear()
    build(FEW + "      target.pose.position: {}\n      target.header.frame_id: map\n")
    assert caplog.text == ""


def test_what_the_model_reads_says_what_it_does_and_how_to_follow_it() -> None:
    skill = build("    title: Grasp a thing\n    description: Closes the fingers.\n    resources: [arm]\n")
    assert skill.title == "Grasp a thing"
    assert skill.description.startswith("Closes the fingers. Answers at once with a task")
    assert "is refused" in skill.description
    assert skill.resources == {"arm"}
    assert build().title == "Grasp"


# -- what is refused -----------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "target": {"pose": {"position": {"x": 1, "y": 2, "z": 3}}},
    "width": 0.1,
    "mode": 1,
    "timeout": {"sec": 1},
}


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"widht": 1}, "widht", 'Did you mean "width"?'),
        ({"target": {"pose": {"positon": {}}}}, "target.pose.positon", 'Did you mean "position"?'),
        ({"target": {"pose": {"position": {"x": 1, "y": 2}}}}, "target.pose.position.z", "must be given"),
        ({"target": 5}, "target", "object with named fields"),
        ({"target": "home"}, "target", "object with named fields"),
        ({"width": None}, "width", "must be given"),
        ({"width": math.nan}, "width", "finite"),
        ({"width": 10**400}, "width", "finite"),
        ({"width": "nan"}, "width", "not text"),
        ({"width": 1e300}, "width", "32-bit"),
        ({"width": True}, "width", "not true or false"),
        ({"width": [1]}, "width", "not a list"),
        ({"mode": 256}, "mode", "0 .. 255"),
        ({"mode": 1.5}, "mode", "whole number"),
        ({"mode": "SOFT"}, "mode", "whole number"),
        ({"careful": 1}, "careful", "true or false"),
        ({"careful": "yes"}, "careful", "true or false"),
        ({"label": "x" * 11}, "label", "at most 10"),
        ({"label": 5}, "label", "must be text"),
        ({"label": "a\0b"}, "label", "NUL"),
        ({"label": "\udc81"}, "label", "surrogate"),
        ({"fingers": [1, 2, 3, 4, 5]}, "fingers", "at most 4"),
        ({"fingers": [1, "two"]}, "fingers[1]", "must be a number"),
        ({"fingers": {"0": 1}}, "fingers", "must be a list"),
        ({"mask": "%%"}, "mask", "base64"),
        ({"mask": [256]}, "mask[0]", "0 .. 255"),
        ({"timeout": {"sec": 1, "nanosec": 10**9}}, "timeout.nanosec", "999999999"),
        ({"stamp_ns": 2**63}, "stamp_ns", "outside"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_the_caller_knows(
    arguments: dict[str, Any], field: str, words: str
) -> None:
    """B7; case A3."""
    error = refusal(build(), **{**GOOD, **arguments})
    assert error.field == field
    assert words in error.message


@pytest.mark.parametrize(
    ("rotation", "words"),
    [
        ({"x": 0, "y": 0, "z": 0, "w": 0}, "all zero"),
        ({"z": 0.7}, "1.221"),
        ({"x": 2}, "not 1"),
    ],
)
def test_what_is_no_rotation_is_refused(rotation: dict[str, float], words: str) -> None:
    """B7; case A1."""
    target = {"pose": {"position": {"x": 1, "y": 2, "z": 3}, "orientation": rotation}}
    error = refusal(build(), **{**GOOD, "target": target})
    assert error.field == "target.pose.orientation"
    assert words in error.message
    listed = refusal(build(), **{**GOOD, "via": [target]})
    assert listed.field == "via[0].pose.orientation"


def test_a_rotation_that_is_nearly_one_is_normalised() -> None:
    target = {"pose": {"position": {"x": 1, "y": 2, "z": 3}, "orientation": {"z": 0.707, "w": 0.707}}}
    sent = goal_of(build(), **{**GOOD, "target": target})["target"]["pose"]["orientation"]
    assert math.isclose(math.hypot(*sent.values()), 1.0)


def test_degrees_for_radians_are_refused() -> None:
    """H80."""
    skill = build(
        "    others: hidden\n    fields:\n      target.pose.orientation: {as: yaw_rad, form: yaw}\n"
    )
    assert "1.5708" in refusal(skill, yaw_rad=90).message
    assert schema_of(skill)["required"] == ["yaw_rad"]


def test_limits_are_told_with_their_unit() -> None:
    error = refusal(build(FEW), width_m=0.2)
    assert str(error) == "width_m: 0.2 m is above 0.1 m, the most allowed here"


def test_what_loses_nothing_is_converted() -> None:
    """H80: numbers as text, whole floats, nested arguments as text, base64, long integers as text."""
    sent = goal_of(
        build(),
        target=json.dumps(GOOD["target"]),
        width="0.1",
        mode=1.0,
        timeout={"sec": "3"},
        fingers="[1, 2]",
        mask="AQI=",
        stamp_ns=str(2**62),
    )
    assert sent["target"]["pose"]["position"] == {"x": 1.0, "y": 2.0, "z": 3.0}
    assert (sent["width"], sent["mode"], sent["timeout"]) == (0.1, 1, {"sec": 3})
    assert (sent["fingers"], sent["mask"], sent["stamp_ns"]) == ([1.0, 2.0], [1, 2], 2**62)


def test_two_ways_to_write_one_request_are_the_same_request() -> None:
    """B6: what an idempotency key is compared with."""
    model = build(FEW).arguments
    written = parse_arguments(model, {"width_m": "0.05"}).model_dump(mode="json", exclude_none=True)
    assert written == parse_arguments(model, {"width_m": 0.05}).model_dump(mode="json", exclude_none=True)
    other = parse_arguments(model, {"width_m": 0.06}).model_dump(mode="json", exclude_none=True)
    assert written != other


# -- the entry -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "line", "words"),
    [
        ("widht: 1", 6, ["skills.grasp.fields.widht", 'Did you mean "width"?']),
        ("goal.widht: 1", 6, ["fields.goal.widht"]),
        ("target.pose.x: 1", 6, ["has no field", "It has: position, orientation"]),
        ("via.header: {hidden: true}", 6, ["via is a list; write via[].header"]),
        ("width[]: 1", 6, ["width is float32, not a list"]),
        ("width.x: 1", 6, ["has no fields"]),
        ("width: wide", 6, ["fields.width", "must be a number"]),
        ("mode: MEDIUM", 6, ["no constant", "SOFT, HARD"]),
        ("mode: {fixed: 300}", 6, ["fields.mode.fixed", "0 .. 255"]),
        ("mode: {max: 300}", 6, ["fields.mode.max", "uint8 holds"]),
        ("mode: {min: 1.2, max: 1.8}", 6, ["no whole number"]),
        ("width:", 6, ["fields.width", "{} to show it"]),
        ("width: {min: 2, max: 1}", 6, ["min (2) is more than max (1)"]),
        ("width: {default: 3, max: 1}", 6, ["fields.width.default", "above 1"]),
        ("width: {default: 1, required: true}", 6, ["default and required contradict"]),
        ("width: {fixed: 1, min: 0}", 6, ["fixed and min contradict"]),
        ("width: {hidden: true, as: w}", 6, ["hidden and as contradict"]),
        ("width: {choices: [1, 2], max: 5}", 6, ["choices and max contradict"]),
        ("width: {choices: []}", 6, ["choices is empty"]),
        ("width: {choices: [1, wide]}", 6, ["fields.width.choices", "must be a number"]),
        ("label: {choices: [a, A]}", 6, ["two of them read the same"]),
        ("label: {min: 1}", 6, ["min does not fit label, which is string"]),
        ("label: {max_length: 50}", 6, ["only 10 characters fit"]),
        ("fingers: {max_items: 9}", 6, ["at most 4"]),
        ("fingers[]: 1", 6, ["is for the list fingers"]),
        ("via[]: {}", 6, ["via[].name"]),
        ("careful: {choices: [true]}", 6, ["choices does not fit careful"]),
        ("width: {form: seconds}", 6, ["form", "builtin_interfaces/msg/Duration"]),
        ("target: {default: {}}", 6, ["default does not fit target"]),
        ("width: {as: mode}", 6, ['two arguments called "mode"']),
        ("width: {as: triggers}", 6, ['"triggers"', "as"]),
        ("width: {as: 2nd}", 6, ["fields.width.as"]),
        ("width: {bounds: 3}", 6, ["bounds", "Known here: fixed, hidden, as"]),
        ("speed: {max: 0.1, required: false}", 6, ["fields.speed.required", "0.5", "write a default"]),
        ("target.pose..x: 1", 6, ["fields.target.pose..x"]),
        ("target: {fixed: {}}\n      target.pose.position.x: 1", 7, ["has no effect", "target is fixed"]),
        ("via: {hidden: true}\n      via[].header.frame_id: map", 7, ["via is hidden as a whole"]),
        ("width: 1\n      goal.width: 2", 7, ['the same field as "width"']),
        (
            "timeout: {form: seconds, as: t}\n      timeout.sec: 1",
            7,
            ["has no effect", "timeout is shown as seconds"],
        ),
        (
            "target: {required: false}\n      target.pose.position.x: {min: 1}",
            6,
            ["fields.target.required", "no caller may give"],
        ),
    ],
)
def test_settings_that_do_not_fit_stop_the_start(fields: str, line: int, words: list[str]) -> None:
    """B32: with file, line and key."""
    said = complaint(f"    fields:\n      {fields}\n")
    assert f"robot.yaml, line {line}" in said
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("progress: {percent: shar}", ["progress.percent", 'Did you mean "share"?']),
        ("progress: {percent: phase}", ["phase is string"]),
        ("progress: {eta_s: {field: left, scale: 0}}", ["scale is 0"]),
        ("progress: {pose: left}", ["geometry_msgs/msg/PoseStamped is needed"]),
        ("progress: {percent: 'samples[]'}", ["a list has no single value"]),
        ("success_when: {succes: true}", ["success_when.succes", 'Did you mean "success"?']),
        ("success_when: {success: 1}", ["success is bool and is never 1"]),
        ("success_when: {error: 0}", ["a single value is needed"]),
        ("success_when: {success: {min: 1}}", ["min and max are for numbers"]),
        ("success_when: {force: {min: 2, max: 1}}", ["min (2) is more than max (1)"]),
        ("success_when: {force: {}}", ["write the value that means success"]),
        ("success_when: {error.code: SLIPED}", ['Did you mean "SLIPPED"?']),
        ("error_code_field: force", ["error_code_field", "a whole number or text is needed"]),
        ("error_code_field: error.text", ["none_value must say"]),
        ("error_text_field: error.code", ["text is needed"]),
        ("none_value: 3", ["without error_code_field"]),
        ("error_prefix: lower", ["error_prefix"]),
        ("generic: false", ["generic"]),
        ("resources: arm", ["resources"]),
    ],
)
def test_what_cannot_be_read_stops_the_start(entry: str, words: list[str]) -> None:
    said = complaint(f"    {entry}\n")
    assert "robot.yaml, line " in said
    for word in words:
        assert word in said


def test_all_faults_of_all_entries_are_told_at_once() -> None:
    text = HEAD + "    fields: {a: 1, b: 2}\n" + HEAD.removeprefix("skills:\n").replace("  grasp:", "  two:")
    with pytest.raises(ConfigError) as caught:
        build_skills(parse_config(text + "    fields: {c: 1}\n", "robot.yaml"), None, Types())
    assert str(caught.value).count("robot.yaml, line") == 3


def test_a_type_that_is_not_installed_stops_the_start() -> None:
    text = HEAD.replace("arm_msgs", "leg_msgs")
    with pytest.raises(ConfigError, match=r"robot.yaml, line 4, skills.grasp.type: .*not installed"):
        build_skills(parse_config(text, "robot.yaml"), None, Types())
    with pytest.raises(ConfigError, match="needs ROS 2"):
        build_skills(parse_config(text, "robot.yaml"))


# -- feedback and result -------------------------------------------------------------------------------

PROGRESS = (
    "    progress:\n      percent: {field: share, scale: 100}\n      eta_s: left\n"
    "      distance_m: {field: distance, unknown: -1}\n      pose: at\n"
)


def feedback(share: float, left_s: float, distance: float = 1.0, **more: Any) -> Any:
    fields: dict[str, Any] = {"at": pose(1.0, 2.0), "phase": "closing", "samples": [0.5]}
    return SimpleNamespace(share=share, left=duration(left_s), distance=distance, **(fields | more))


def test_feedback_is_told_field_by_field_and_read_as_progress() -> None:
    """B9."""
    skill = build(PROGRESS)
    assert skill.trigger_types == {"eta_below", "distance_below", "progress_above", "zone_entered", "stalled"}
    reader = skill.reader(skill.goal(parse_arguments(skill.arguments, GOOD)))
    sample = reader.read(feedback(0.25, 3.5, samples=[0.1, math.nan, math.inf]), 10.0)
    assert sample is not None
    assert (sample.percent, sample.eta_s, sample.distance_m) == (25.0, 3.5, 1.0)
    assert sample.pose is not None
    assert sample.pose.x_m == 1.0
    assert sample.payload["percent"] == 25.0
    assert sample.payload["feedback"]["samples"] == [0.1, None, None]
    assert sample.payload["feedback"]["left"] == {"sec": 3, "nanosec": 500_000_000}
    json.dumps(sample.payload, allow_nan=False)
    later = reader.read(feedback(0.25, 3.5), 12.5)
    assert later is not None
    assert later.time_s == 2.5


def test_progress_never_goes_back_and_unknown_is_null() -> None:
    """B9, B17, H76."""
    skill = build(PROGRESS)
    reader = skill.reader(skill.goal(parse_arguments(skill.arguments, GOOD)))
    percents = []
    for share in (0.1, 0.4, 0.2, math.nan, 7.0):
        sample = reader.read(feedback(share, -0.05, -1), 0.0)
        assert sample is not None
        percents.append(sample.percent)
    assert percents == [10.0, 40.0, 40.0, 40.0, 99.0]
    assert sample.eta_s == 0.0
    assert sample.distance_m is None
    assert sample.payload["distance_m"] is None


def test_without_a_progress_section_there_is_nothing_to_trigger_on() -> None:
    skill = build()
    assert skill.trigger_types == frozenset()
    reader = skill.reader(skill.goal(parse_arguments(skill.arguments, GOOD)))
    sample = reader.read(feedback(0.5, 1), 0.0)
    assert sample is not None
    assert list(sample.payload) == ["feedback"]


def test_feedback_of_another_distribution_is_read_as_far_as_it_goes() -> None:
    """F55."""
    skill = build(PROGRESS)
    reader = skill.reader(skill.goal(parse_arguments(skill.arguments, GOOD)))
    sample = reader.read(SimpleNamespace(phase="\udc81", extra=1, samples=None), 0.0)
    assert sample is not None
    assert sample.payload["feedback"] == {"phase": "\ufffd", "samples": None}
    assert (sample.percent, sample.eta_s, sample.pose) == (None, None, None)


def test_long_lists_are_capped() -> None:
    skill = build("    max_list_items: 3\n")
    reader = skill.reader(skill.goal(parse_arguments(skill.arguments, GOOD)))
    sample = reader.read(feedback(0.5, 1, samples=[1.0] * 10, phase="x" * 5000), 0.0)
    assert sample is not None
    assert sample.payload["feedback"]["samples"] == [1.0, 1.0, 1.0, "… 7 more"]
    assert sample.payload["feedback"]["phase"].endswith("… 3000 more characters")


READ = (
    "    success_when: {success: true, force: {min: 0.5}}\n    error_code_field: error.code\n"
    "    none_value: OK\n    error_text_field: error.text\n"
)


def end(
    entry: str, status: int, *, success: bool = True, code: int = 0, text: str = "", force: float = 1.0
) -> Outcome:
    skill = build(entry)
    result = SimpleNamespace(success=success, error=SimpleNamespace(code=code, text=text), force=force)
    return skill.outcome(status, result, skill.goal(parse_arguments(skill.arguments, GOOD)), None)


def test_success_is_status_first() -> None:
    """B15: without a word in the entry the status decides, whatever the fields say."""
    outcome = end("", GoalStatus.SUCCEEDED, success=False, code=-3, force=0.10000000149011612)
    assert outcome.state == "succeeded"
    assert outcome.result == {"success": False, "error": {"code": -3, "text": ""}, "force": 0.1}


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ({"success": False}, "GRASP_NOT_SUCCESSFUL", "success is false and not true"),
        ({"force": 0.4}, "GRASP_NOT_SUCCESSFUL", "force is 0.4 and not at least 0.5"),
        ({"force": math.nan}, "GRASP_NOT_SUCCESSFUL", "force is nan"),
        ({"success": False, "code": -3, "text": "it\x1b[31m slid"}, "GRASP_SLIPPED", "-3 (SLIPPED): it slid"),
    ],
)
def test_a_success_that_the_result_denies_is_a_failure(what: dict[str, Any], code: str, words: str) -> None:
    """B18."""
    outcome = end(READ, GoalStatus.SUCCEEDED, **what)
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert outcome.failure.error_code == code
    assert words in outcome.failure.message


def test_a_success_with_a_left_over_code_says_so() -> None:
    """B17."""
    outcome = end(READ, GoalStatus.SUCCEEDED, code=-3)
    assert outcome.state == "succeeded"
    assert outcome.result is not None
    assert "-3 (SLIPPED)" in outcome.result["note"]
    assert "note" not in (end(READ, GoalStatus.SUCCEEDED).result or {})


@pytest.mark.parametrize(
    ("entry", "what", "code", "words"),
    [
        (
            READ,
            {"code": -3, "text": "slid"},
            "GRASP_SLIPPED",
            "grasp gave up: error code -3 (SLIPPED): slid.",
        ),
        (READ, {"code": -9}, "GRASP_ERROR_MINUS_9", "error code -9."),
        (READ + "    error_prefix: HAND\n", {"code": 7}, "HAND_ERROR_7", "error code 7."),
        (READ, {"code": 0, "text": "no idea"}, "ROS_ABORTED_NO_REASON", "no idea"),
        ("", {"code": -3}, "ROS_ABORTED_NO_REASON", '"code": -3'),
    ],
)
def test_an_aborted_goal_carries_the_native_code(
    entry: str, what: dict[str, Any], code: str, words: str
) -> None:
    """B15."""
    outcome = end(entry, GoalStatus.ABORTED, **what)
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert outcome.failure.error_code == code
    assert words in outcome.failure.message


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (GoalStatus.CANCELED, "ROS_CANCELLED_EXTERNALLY"),
        (GoalStatus.UNKNOWN, "ROS_RESULT_EXPIRED"),
        (17, "ROS_BAD_STATUS"),
    ],
)
def test_the_fields_of_other_ends_are_no_reason(status: int, code: str) -> None:
    """B15: their results are default-constructed."""
    outcome = end(READ, status, code=-3)
    assert outcome.failure is not None
    assert outcome.failure.error_code == code
