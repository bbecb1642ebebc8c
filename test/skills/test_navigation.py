"""navigate_to: from arguments to the goal, from feedback to samples, from the result to what it means."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import GoalSpec, GoalStatus, Pose2D, Sample
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.geometry import Quaternion, quaternion_to_yaw
from robot_mcp_kit.skills.nav2.navigation import POSTCONDITION_CODE, NavigateTo
from robot_mcp_kit.skills.registry import build_skills

from .samples import duration, empty_feedback, feedback, pose

TEXT = """
robot: {frames: [map, odom]}
skills:
  navigate_to:
    action: navigate_to_pose
    type: nav2_msgs/action/NavigateToPose
    behavior_tree: /opt/robot/careful.xml
    nominal_speed_mps: 0.5
    LIMITS
places:
  kitchen: {x_m: 10.0, y_m: 6.5, yaw_rad: 1.5708, aliases: [galley]}
  office: {x_m: 2.0, y_m: 6.5, yaw_rad: 0.0}
"""
LIMITED = "limits: {x_m: [0.0, 12.0], y_m: [0.0, 8.0]}"


def skill(limits: str = LIMITED, where: Pose2D | None = None) -> NavigateTo:
    config = parse_config(TEXT.replace("LIMITS", limits))
    made = build_skills(config, lambda: where)["navigate_to"]
    assert isinstance(made, NavigateTo)
    return made


def goal(arguments: dict[str, Any], made: NavigateTo | None = None) -> GoalSpec:
    made = made or skill()
    return made.goal(parse_arguments(made.arguments, arguments))


def refusal(arguments: dict[str, Any], made: NavigateTo | None = None) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        goal(arguments, made)
    return caught.value


def yaw_of(spec: GoalSpec) -> float:
    return quaternion_to_yaw(Quaternion(**spec.fields["pose"]["pose"]["orientation"]))


def test_a_place_becomes_a_stamped_pose_with_stamp_zero() -> None:
    """Case A5: a wall-clock stamp fails under simulated time."""
    spec = goal({"place": "Kitchen"})
    header = spec.fields["pose"]["header"]
    assert header == {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "map"}
    assert spec.fields["pose"]["pose"]["position"] == {"x": 10.0, "y": 6.5, "z": 0.0}
    assert yaw_of(spec) == pytest.approx(1.5708)
    assert spec.summary == "drive to kitchen (10.00, 6.50) in map"


def test_the_behavior_tree_comes_from_the_configuration_only() -> None:
    assert goal({"place": "kitchen"}).fields["behavior_tree"] == "/opt/robot/careful.xml"
    assert refusal({"place": "kitchen", "behavior_tree": "/tmp/x.xml"}).field == "behavior_tree"


def test_an_alias_is_its_place() -> None:
    assert goal({"place": "galley"}).context["place"] == "kitchen"


def test_a_places_heading_can_be_chosen_otherwise() -> None:
    assert yaw_of(goal({"place": "kitchen", "yaw_rad": 3.0})) == pytest.approx(3.0)


def test_a_quaternion_is_a_heading_too() -> None:
    spec = goal({"x_m": 1, "y_m": 1, "orientation": {"x": 0, "y": 0, "z": 1, "w": 0}})
    assert abs(yaw_of(spec)) == pytest.approx(math.pi)


def test_a_heading_nobody_chose_is_the_way_there() -> None:
    spec = goal({"x_m": 5, "y_m": 5}, skill(where=Pose2D(5.0, 1.0, 0.0)))
    assert yaw_of(spec) == pytest.approx(math.pi / 2)
    assert spec.context["heading_chosen"] is False
    assert spec.est_duration_s == 8.0


def test_without_a_known_position_the_heading_is_zero_and_not_judged() -> None:
    spec = goal({"x_m": 5, "y_m": 5})
    assert yaw_of(spec) == 0.0
    assert spec.context["heading_chosen"] is False
    assert spec.est_duration_s is None


def test_numbers_as_text_are_numbers() -> None:
    """H80."""
    assert goal({"x_m": "1.5", "y_m": "2"}).fields["pose"]["pose"]["position"]["x"] == 1.5


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"place": "kitchn"}, "place", ['Did you mean "kitchen"', "kitchen, office"]),
        ({"place": ""}, "place", ["Places:"]),
        ({"x_m": math.nan, "y_m": 1}, "x_m", ["finite"]),
        ({"x_m": 1, "y_m": math.inf}, "y_m", ["finite"]),
        ({"x_m": 1e999, "y_m": 1}, "x_m", ["finite"]),
        ({"x_m": 1, "y_m": 1, "yaw_rad": "nan"}, "yaw_rad", ["finite"]),
        ({"x_m": 1, "y_m": 1, "yaw_rad": "inf"}, "yaw_rad", ["finite"]),
        ({"x_m": "abc", "y_m": 1}, "x_m", ["number"]),
        ({"x_m": True, "y_m": 1}, "x_m", ["not true or false"]),
        ({"x_m": 1, "y_m": 1, "yaw_rad": 90}, "yaw_rad", ["radians", "1.5708"]),
        ({"x_m": 1, "y_m": 1, "yaw_rad": -180.0}, "yaw_rad", ["3.1416"]),
        ({"place": "kitchen", "yaw_rad": 90}, "yaw_rad", ["1.5708"]),
        ({"x_m": 1, "y_m": 1, "frame": ""}, "frame", ["must not be empty"]),
        ({"x_m": 1, "y_m": 1, "frame": "/map"}, "frame", ["no leading slash", '"map"']),
        ({"x_m": 1, "y_m": 1, "frame": "mapp"}, "frame", ['Did you mean "map"']),
        ({"x_m": 1, "y_m": 1, "frame": "odom"}, "frame", ["limits are in map"]),
        ({"place": "kitchen", "frame": "odom"}, "frame", ["is given in map"]),
        ({"x_m": 13, "y_m": 1}, "x_m", ["0 .. 12"]),
        ({"x_m": 1, "y_m": -0.1}, "y_m", ["0 .. 8"]),
        ({"x_m": 1}, "y_m", ["go together"]),
        ({"y_m": 1}, "x_m", ["go together"]),
        ({}, "x_m", ["place"]),
        ({"place": "kitchen", "x_m": 1}, "x_m", ["not both"]),
        ({"x_m": 1, "y_m": 1, "orientation": {"x": 0, "y": 0, "z": 0, "w": 0}}, "orientation", ["all zeros"]),
        ({"x_m": 1, "y_m": 1, "orientation": {"z": 0.5, "w": 0.5}}, "orientation", ["0.707", "not 1"]),
        ({"x_m": 1, "y_m": 1, "orientation": {"x": 1, "z": 0, "w": 0}}, "orientation", ["tilts"]),
        ({"x_m": 1, "y_m": 1, "orientation": {"z": math.nan, "w": 1}}, "orientation.z", ["finite"]),
        ({"x_m": 1, "y_m": 1, "yaw_rad": 0, "orientation": {"z": 0, "w": 1}}, "orientation", ["not both"]),
        ({"x_m": 1, "y_m": 1, "yaw": 1}, "yaw", ['Did you mean "yaw_rad"']),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(arguments: Any, field: str, words: list[str]) -> None:
    """B7; cases A1, A3, A4, H80."""
    error = refusal(arguments)
    assert error.field == field
    for word in words:
        assert word in error.message


def test_an_unknown_frame_is_answered_with_the_frames() -> None:
    assert refusal({"x_m": 1, "y_m": 1, "frame": "mapp"}).allowed == ["map", "odom"]


def test_a_robot_without_places_says_so() -> None:
    text = TEXT[: TEXT.index("places:")].replace("LIMITS", LIMITED)
    made = build_skills(parse_config(text))["navigate_to"]
    with pytest.raises(ArgumentError, match="no named places"):
        made.goal(parse_arguments(made.arguments, {"place": "kitchen"}))


def test_too_far_away_is_refused_and_so_is_not_knowing_how_far() -> None:
    limits = "limits: {max_distance_m: 3.0}"
    assert "3 m" in refusal({"x_m": 9, "y_m": 1}, skill(limits, Pose2D(1, 1, 0))).message
    assert "not known yet" in refusal({"x_m": 1, "y_m": 1}, skill(limits)).message.replace("  ", " ")
    assert goal({"x_m": 2, "y_m": 1}, skill(limits, Pose2D(1, 1, 0))).fields


def test_other_frames_are_fine_without_limits() -> None:
    spec = goal({"x_m": 2, "y_m": 1, "frame": "odom"}, skill("enabled: true"))
    assert spec.fields["pose"]["header"]["frame_id"] == "odom"


def test_the_schema_names_units_and_refuses_unknown_arguments() -> None:
    schema = skill().arguments.model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"x_m", "y_m", "yaw_rad", "frame", "place", "orientation"}
    assert "radians" in schema["properties"]["yaw_rad"]["description"]
    json.dumps(schema)


# -- feedback ------------------------------------------------------------------------------------


def test_a_reading_has_every_key_and_null_for_unknown() -> None:
    reader = skill().reader(goal({"place": "kitchen"}))
    sample = reader.read(feedback(0.1, 0.0), 0.0)
    assert sample is not None
    assert sample.payload == {
        "eta_s": None,
        "distance_m": None,
        "percent": None,
        "recoveries": 0,
        "elapsed_s": 0.1,
        "pose": {"x_m": 0.0, "y_m": 0.0, "yaw_rad": 0.0, "frame": "map"},
    }


def test_float32_noise_does_not_leave() -> None:
    """F54."""
    reader = skill().reader(goal({"place": "kitchen"}))
    at = pose(7.600000381469727, 6.5)
    sample = reader.read(feedback(2.0, 2.4000000953674316, 4.8, at=at), 0.0)
    assert sample is not None
    assert sample.payload["distance_m"] == 2.4
    assert sample.payload["pose"]["x_m"] == 7.6


def test_a_negative_duration_is_read_with_both_fields() -> None:
    """B17: -0.05 s travels as sec=-1, nanosec=950000000."""
    reader = skill().reader(goal({"place": "kitchen"}))
    for t in (2.0, 2.5):
        message = feedback(t, 0.05, at=pose(10.0, 6.5))
        message.estimated_time_remaining = SimpleNamespace(sec=-1, nanosec=950_000_000)
        sample = reader.read(message, t)
    assert sample is not None
    assert sample.payload["eta_s"] == 0.0
    assert duration(-0.05) == SimpleNamespace(sec=-1, nanosec=950_000_000)


def test_a_message_nobody_filled_says_nothing() -> None:
    """B21."""
    reader = skill().reader(goal({"place": "kitchen"}))
    assert reader.read(empty_feedback(), 0.0) is None


@pytest.mark.parametrize("odd", [None, 5, "text", SimpleNamespace(), SimpleNamespace(current_pose=None)])
def test_odd_messages_do_not_raise(odd: Any) -> None:
    assert skill().reader(goal({"place": "kitchen"})).read(odd, 0.0) is None


def test_a_server_that_does_not_count_time_is_timed_by_us() -> None:
    reader = skill().reader(goal({"place": "kitchen"}))
    samples = []
    for t in range(8):
        message = feedback(0.0, 10.0 - 0.5 * t, 20.0 - t, at=pose(0.5 * t, 6.5))
        samples.append(reader.read(message, 500.0 + t))
    assert [s.time_s for s in samples if s] == [float(t) for t in range(8)]
    assert samples[-1] is not None
    assert samples[-1].eta_s == pytest.approx(13.0)


def test_only_a_rising_count_of_recoveries_is_a_milestone() -> None:
    """B19: 0,1,1,2,0,1 with the reset at a preemption."""
    reader = skill().reader(goal({"place": "kitchen"}))
    counts = [0, 1, 1, 2, 0, 1]
    samples = [reader.read(feedback(2.0 + i, 10.0, recoveries=n), 0.0) for i, n in enumerate(counts)]
    assert [s.milestone for s in samples if s] == [False, True, False, True, False, True]


# -- result --------------------------------------------------------------------------------------


def last(x_m: float, y_m: float = 6.5, yaw_rad: float = 1.5708, frame: str = "map") -> Sample:
    return Sample(payload={}, time_s=9.0, pose=Pose2D(x_m, y_m, yaw_rad, frame))


def result(code: int = 0, message: str = "") -> Any:
    return SimpleNamespace(error_code=code, error_msg=message)


def test_arrival_is_measured() -> None:
    made = skill()
    outcome = made.outcome(GoalStatus.SUCCEEDED, result(), goal({"place": "kitchen"}), last(9.8))
    assert outcome.state == "succeeded"
    assert outcome.result == {
        "goal": {"x_m": 10.0, "y_m": 6.5, "yaw_rad": 1.571, "frame": "map"},
        "place": "kitchen",
        "measured": True,
        "final_pose": {"x_m": 9.8, "y_m": 6.5, "yaw_rad": 1.571, "frame": "map"},
        "position_error_m": 0.2,
        "yaw_error_rad": 0.0,
    }


@pytest.mark.parametrize(
    ("sample", "words"), [(last(6.0), "4.00 m away"), (last(10.0, yaw_rad=-1.5), "turned 3.07 rad off")]
)
def test_a_success_somewhere_else_is_a_failure_that_says_where(sample: Sample, words: str) -> None:
    """B18."""
    outcome = skill().outcome(GoalStatus.SUCCEEDED, result(), goal({"place": "kitchen"}), sample)
    assert outcome.failure is not None
    assert outcome.failure.error_code == POSTCONDITION_CODE
    assert words in outcome.failure.message
    assert "the goal was x 10.00 m" in outcome.failure.message


def test_a_heading_nobody_asked_for_is_not_judged() -> None:
    spec = goal({"x_m": 10, "y_m": 6.5})
    outcome = skill().outcome(GoalStatus.SUCCEEDED, result(), spec, last(10.0, yaw_rad=3.0))
    assert outcome.result is not None
    assert outcome.result["yaw_error_rad"] is None


@pytest.mark.parametrize("sample", [None, last(0.0, frame="odom")])
def test_an_arrival_that_cannot_be_measured_says_so(sample: Sample | None) -> None:
    outcome = skill().outcome(GoalStatus.SUCCEEDED, result(), goal({"place": "kitchen"}), sample)
    assert outcome.result is not None
    assert outcome.result["measured"] is False
    assert outcome.result["position_error_m"] is None


def test_the_robots_own_position_helps_when_feedback_was_late() -> None:
    made = skill(where=Pose2D(9.9, 6.5, 1.5))
    outcome = made.outcome(GoalStatus.SUCCEEDED, result(), goal({"place": "kitchen"}, made), last(8.0))
    assert outcome.state == "succeeded"


def test_a_code_left_over_on_success_is_a_note() -> None:
    """B17: SUCCEEDED with 703."""
    outcome = skill().outcome(GoalStatus.SUCCEEDED, result(703), goal({"place": "kitchen"}), last(10.0))
    assert outcome.result is not None
    assert "NAV2_COLLISION_AHEAD" in outcome.result["note"]


def test_inside_a_wall_fails_by_name_with_a_sentence_and_the_position() -> None:
    outcome = skill().outcome(GoalStatus.ABORTED, result(206), goal({"place": "kitchen"}), last(5.0))
    assert outcome.failure is not None
    assert outcome.failure.error_code == "NAV2_GOAL_OCCUPIED"
    assert "GOAL_OCCUPIED" in outcome.failure.message
    assert "last seen at x 5.00 m" in outcome.failure.message
    assert "navigate_to" in outcome.failure.suggestions


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (GoalStatus.ABORTED, result(), "ROS_ABORTED_NO_REASON"),
        (GoalStatus.ABORTED, SimpleNamespace(), "ROS_ABORTED_NO_REASON"),
        (GoalStatus.CANCELED, result(105), "ROS_CANCELLED_EXTERNALLY"),
        (GoalStatus.UNKNOWN, result(), "ROS_RESULT_EXPIRED"),
        (-59, result(), "ROS_BAD_STATUS"),
    ],
)
def test_the_status_comes_first(status: int, message: Any, code: str) -> None:
    """B15, C26, C27."""
    outcome = skill().outcome(status, message, goal({"place": "kitchen"}), None)
    assert outcome.failure is not None
    assert outcome.failure.error_code == code
