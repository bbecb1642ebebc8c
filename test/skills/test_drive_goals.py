"""What is sent for drives, behaviors and docking, and what is refused before anything moves (B7)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.skills.base import GoalSpec, Pose2D, fit_goal

from .arguments import GOOD
from .conftest import Robot

KITCHEN = (10.0, 6.5)


def position(stamped: dict[str, Any]) -> tuple[float, float]:
    at = stamped["pose"]["position"]
    return at["x"], at["y"]


def yaw(stamped: dict[str, Any]) -> float:
    q = stamped["pose"]["orientation"]
    return 2.0 * math.atan2(q["z"], q["w"])


def only(*known: str) -> Any:
    """A type check that knows only these top-level fields."""

    def check(fields: Any) -> None:
        for name in fields:
            if name not in known:
                raise GoalFieldError(name, "no such field")

    return check


@pytest.mark.parametrize("skill", GOOD)
def test_a_goal_repeats_exactly_and_says_what_it_is(robot: Robot, skill: str) -> None:
    first, second = robot.goal(skill, **GOOD[skill]), robot.goal(skill, **GOOD[skill])
    assert first.fields == second.fields
    assert first.summary
    assert "\n" not in first.summary


@pytest.mark.parametrize("skill", GOOD)
def test_descriptions_tell_a_planner_what_it_needs(robot: Robot, skill: str) -> None:
    """What it does, whether a retry is safe, that it answers with a task; every argument is described."""
    tool = robot.skills[skill]
    assert "idempotency_key" in tool.description
    assert len(tool.description) > 250
    assert tool.resources <= {"base", "arm", "gripper", "outputs"}
    assert tool.resources
    schema = tool.arguments.model_json_schema()
    for name, described in schema["properties"].items():
        assert described.get("description"), f"{skill}.{name}"
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("skill", GOOD)
@pytest.mark.parametrize("extra", ["disable_collision_checks", "behavior_tree", "start_state", "speedd"])
def test_no_argument_reaches_a_goal_field_that_is_not_offered(robot: Robot, skill: str, extra: str) -> None:
    refused = robot.refusal(skill, **{**GOOD[skill], extra: True})
    assert refused.field == extra


def test_poses_are_sent_in_order_with_stamp_zero_and_the_collision_checks_left_on(robot: Robot) -> None:
    """Case A5: a wall-clock stamp would fail under simulated time."""
    spec = robot.goal(
        "navigate_through", poses=[{"place": "kitchen"}, {"x_m": 1.0, "y_m": 4.0, "yaw_rad": 1.0}]
    )
    goals = spec.fields["poses"]["goals"]
    assert [position(goal) for goal in goals] == [KITCHEN, (1.0, 4.0)]
    assert yaw(goals[1]) == pytest.approx(1.0)
    for header in (spec.fields["poses"]["header"], *(goal["header"] for goal in goals)):
        assert header == {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "map"}
    for skill in ("spin", "back_up", "drive_on_heading"):
        assert robot.goal(skill, **GOOD[skill]).fields["disable_collision_checks"] is False


def test_headings_nobody_chose_point_along_the_way(robot: Robot) -> None:
    robot.at = Pose2D(1.0, 4.0, 0.0)
    spec = robot.goal("navigate_through", poses=[{"x_m": 1.0, "y_m": 5.0}, {"x_m": 3.0, "y_m": 5.0}])
    first, second = spec.fields["poses"]["goals"]
    assert yaw(first) == pytest.approx(math.pi / 2)
    assert yaw(second) == pytest.approx(0.0)
    assert spec.est_duration_s == pytest.approx((1.0 + 2.0) / 0.5)


def test_a_distribution_that_wants_a_list_of_poses_gets_one(robot: Robot) -> None:
    """Kilted has nav_msgs/Goals, Jazzy a plain list; which one is found out by asking the type."""
    spec = robot.goal("navigate_through", poses=[{"place": "kitchen"}])

    def jazzy(fields: Any) -> None:
        if not isinstance(fields["poses"], list):
            raise GoalFieldError("poses", "must be a list, not an object")

    assert isinstance(fit_goal(spec, lambda fields: None).fields["poses"], dict)
    fitted = fit_goal(spec, jazzy)
    assert [position(pose) for pose in fitted.fields["poses"]] == [KITCHEN]
    assert fitted.context == spec.context
    assert fitted.other_forms == ()


@pytest.mark.parametrize("skill", ["spin", "back_up", "drive_on_heading"])
def test_a_distribution_without_the_collision_switch_gets_the_same_motion(robot: Robot, skill: str) -> None:
    """Jazzy has no such field: there the checks cannot be switched off."""
    spec = robot.goal(skill, **GOOD[skill])
    known = set(spec.fields) - {"disable_collision_checks"}
    fitted = fit_goal(spec, only(*known))
    assert fitted.fields == {name: spec.fields[name] for name in known}


def test_a_tour_that_needs_loops_is_not_sent_to_a_server_without_them(robot: Robot) -> None:
    """Humble's goal has only the poses: then one plain round fits, and a resumed one does not."""
    humble = only("poses")
    fit_goal(robot.goal("follow_waypoints", **GOOD["follow_waypoints"]), humble)
    with pytest.raises(GoalFieldError):
        fit_goal(robot.goal("follow_waypoints", **GOOD["follow_waypoints"], goal_index=1), humble)


def test_a_goal_that_fits_no_form_tells_what_is_wrong_with_each() -> None:
    spec = GoalSpec({"a": 1}, "x", other_forms=({"b": 1},))
    with pytest.raises(GoalFieldError, match=r"a: no such field.*b: no such field"):
        fit_goal(spec, only("c"))


@pytest.mark.parametrize("skill", ["navigate_through", "follow_waypoints"])
@pytest.mark.parametrize(
    ("poses", "field"),
    [
        ([], "poses"),
        ([{"place": "kitchen"}] * 21, "poses"),
        ([{"place": "kitchen"}, {"place": "kitchn"}], "poses[1].place"),
        ([{"place": "kitchen"}, {"x_m": 1.0}], "poses[1].y_m"),
        ([{"x_m": float("nan"), "y_m": 1.0}], "poses[0].x_m"),
        ([{"x_m": 1.0, "y_m": float("inf")}], "poses[0].y_m"),
        ([{"x_m": 1.0, "y_m": 1.0, "yaw_rad": 90}], "poses[0].yaw_rad"),
        ([{"x_m": 1.0, "y_m": 1.0, "frame": ""}], "poses[0].frame"),
        ([{"x_m": 1.0, "y_m": 1.0, "frame": "/map"}], "poses[0].frame"),
        ([{"x_m": 1.0, "y_m": 1.0, "frame": "mapp"}], "poses[0].frame"),
        ([{"x_m": 99.0, "y_m": 1.0}], "poses[0].x_m"),
        ([{"x_m": 1.0, "y_m": 1.0, "orientation": {"z": 0, "w": 0}}], "poses[0].orientation"),
        ([{"x_m": 1.0, "y_m": 1.0, "orientation": {"z": 3, "w": 4}}], "poses[0].orientation"),
        ([{"x_m": 1.0, "y_m": 1.0, "yaw": 1.0}], "poses[0].yaw"),
        ("kitchen", "poses"),
    ],
)
def test_a_bad_pose_in_a_list_is_named_by_its_place(robot: Robot, skill: str, poses: Any, field: str) -> None:
    """Cases A1, A3, A4, A9, H80."""
    refused = robot.refusal(skill, poses=poses)
    assert refused.field == field
    if field.endswith(("place", "frame")):
        assert refused.allowed
    if field.endswith("yaw_rad"):
        assert "1.5708" in refused.message


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"goal_index": 3}, "goal_index"),
        ({"goal_index": -1}, "goal_index"),
        ({"goal_index": 1.5}, "goal_index"),
        ({"goal_index": True}, "goal_index"),
        ({"number_of_loops": 11}, "number_of_loops"),
        ({"number_of_loops": -1}, "number_of_loops"),
    ],
)
def test_a_tour_begins_within_its_list(robot: Robot, arguments: dict[str, Any], field: str) -> None:
    """Case A9: the waypoint follower reads beyond its list."""
    assert robot.refusal("follow_waypoints", **GOOD["follow_waypoints"], **arguments).field == field


def test_a_tour_carries_its_first_index_and_extra_rounds(robot: Robot) -> None:
    spec = robot.goal("follow_waypoints", **GOOD["follow_waypoints"], goal_index=2, number_of_loops=1)
    assert spec.fields["goal_index"] == 2
    assert spec.fields["number_of_loops"] == 1
    assert len(spec.fields["poses"]) == 3


@pytest.mark.parametrize(
    ("skill", "arguments", "field", "hint"),
    [
        ("spin", {"angle_rad": 90}, "angle_rad", "1.5708"),
        ("spin", {"angle_rad": 0}, "angle_rad", ""),
        ("spin", {"angle_rad": float("nan")}, "angle_rad", ""),
        ("spin", {"angle_rad": "right"}, "angle_rad", ""),
        ("spin", {"angle_rad": True}, "angle_rad", ""),
        ("spin", {"angle_rad": 1, "time_allowance_s": -1}, "time_allowance_s", ""),
        ("spin", {"angle_rad": 1, "time_allowance_s": 61}, "time_allowance_s", "60"),
        ("back_up", {"distance_m": -0.3}, "distance_m", "backwards"),
        ("back_up", {"distance_m": 0}, "distance_m", ""),
        ("back_up", {"distance_m": 0.6}, "distance_m", "navigate_to"),
        ("back_up", {"distance_m": 0.3, "speed_mps": 0}, "speed_mps", ""),
        ("back_up", {"distance_m": 0.3, "speed_mps": -0.1}, "speed_mps", ""),
        ("back_up", {"distance_m": 0.3, "speed_mps": 0.05}, "speed_mps", "faster"),
        ("back_up", {"distance_m": 0.3, "speed_mps": 0.5}, "speed_mps", "0.2"),
        ("back_up", {"distance_m": 0.4, "speed_mps": 0.1, "time_allowance_s": 1}, "time_allowance_s", "4.0"),
        ("drive_on_heading", {"distance_m": 0}, "distance_m", ""),
        ("drive_on_heading", {"distance_m": -1.5}, "distance_m", "navigate_to"),
        ("drive_on_heading", {"distance_m": -0.3, "speed_mps": -0.1}, "speed_mps", "direction"),
        ("wait", {"duration_s": 0}, "duration_s", ""),
        ("wait", {"duration_s": -3}, "duration_s", ""),
        ("wait", {"duration_s": 601}, "duration_s", "600"),
        ("wait", {"duration_s": float("inf")}, "duration_s", ""),
        ("wait", {}, "duration_s", ""),
        ("dock", {"dock_id": "homedock"}, "dock_id", "home_dock"),
        ("dock", {"dock_id": " "}, "dock_id", ""),
        ("dock", {"max_staging_time_s": -1}, "max_staging_time_s", ""),
        ("dock", {"max_staging_time_s": 121}, "max_staging_time_s", "120"),
        ("undock", {"max_undocking_time_s": 31}, "max_undocking_time_s", "30"),
        ("undock", {"max_undocking_time_s": -1}, "max_undocking_time_s", ""),
    ],
)
def test_an_impossible_motion_is_refused_with_the_field_and_the_way_out(
    robot: Robot, skill: str, arguments: dict[str, Any], field: str, hint: str
) -> None:
    """Cases A3, A10, H80."""
    refused = robot.refusal(skill, **arguments)
    assert refused.field == field
    assert hint in refused.message


@pytest.mark.parametrize("given", [{}, {"time_allowance_s": 0}])
@pytest.mark.parametrize(
    ("skill", "arguments", "seconds"),
    [
        ("spin", {"angle_rad": 1.0}, 30),
        ("back_up", {"distance_m": 0.2}, 20),
        ("drive_on_heading", {"distance_m": 0.2}, 30),
    ],
)
def test_there_always_is_a_time_allowance(
    robot: Robot, skill: str, arguments: dict[str, Any], seconds: int, given: dict[str, Any]
) -> None:
    """Case A10: 0 would be "no limit" to Nav2."""
    spec = robot.goal(skill, **arguments, **given)
    assert spec.fields["time_allowance"] == {"sec": seconds, "nanosec": 0}
    longer = robot.goal(skill, **arguments, time_allowance_s=12.25)
    assert longer.fields["time_allowance"] == {"sec": 12, "nanosec": 250_000_000}


def test_backing_up_goes_backwards_and_driving_keeps_one_sign(robot: Robot) -> None:
    """Nav2 refuses a drive whose distance and speed differ in sign (724)."""
    back = robot.goal("back_up", distance_m=0.3, speed_mps=0.2)
    assert back.fields["target"] == {"x": 0.3, "y": 0.0, "z": 0.0}
    assert back.fields["speed"] == 0.2
    assert "backwards" in back.summary
    for distance_m in (0.3, -0.3):
        drive = robot.goal("drive_on_heading", distance_m=distance_m)
        assert drive.fields["target"]["x"] == distance_m
        assert drive.fields["speed"] == math.copysign(0.15, distance_m)
        assert ("backwards" in drive.summary) is (distance_m < 0)


def test_a_spin_keeps_its_direction(robot: Robot) -> None:
    spec = robot.goal("spin", angle_rad=-1.5)
    assert spec.fields["target_yaw"] == -1.5
    assert "right" in spec.summary
    assert spec.est_duration_s == 1.5


def test_a_dock_is_known_by_name_or_alias_and_the_usual_one_by_nothing(robot: Robot) -> None:
    for arguments in ({}, {"dock_id": "Home-Dock"}, {"dock_id": "charger"}):
        fields = robot.goal("dock", **arguments).fields
        assert fields["use_dock_id"] is True
        assert fields["dock_id"] == "home_dock"
        assert fields["navigate_to_staging_pose"] is True
        assert fields["max_staging_time"] == 120.0


DOCK_YAML = """
skills:
  dock:
    action: dock_robot
    type: nav2_msgs/action/DockRobot
    docks:
      east: {{pose: {{x_m: 1.0, y_m: 2.0, yaw_rad: 1.5708}}, type: charger}}
      west: {{id: dock_7}}
    {more}
"""


def test_a_dock_the_server_does_not_know_is_sent_as_a_pose(robot_of: Any) -> None:
    robot = robot_of(DOCK_YAML.format(more=""))
    fields = robot.goal("dock", dock_id="east").fields
    assert fields["use_dock_id"] is False
    assert fields["dock_type"] == "charger"
    assert position(fields["dock_pose"]) == (1.0, 2.0)
    assert robot.goal("dock", dock_id="west").fields["dock_id"] == "dock_7"
    refused = robot.refusal("dock")
    assert refused.field == "dock_id"
    assert refused.allowed == ["east", "west"]


def test_without_configured_docks_any_name_is_passed_on(robot_of: Any) -> None:
    robot = robot_of("skills: {dock: {action: dock_robot, type: nav2_msgs/action/DockRobot}}")
    assert robot.goal("dock", dock_id="bay 3").fields["dock_id"] == "bay 3"
    assert robot.refusal("dock").field == "dock_id"
