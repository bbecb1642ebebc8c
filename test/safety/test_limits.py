"""Limits are checked on the goal that will be sent, by its field paths, and name value and way out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.safety.rates import RateLimiter
from robot_mcp_kit.safety.situation import JointLimit, LimitViolation, Situation
from robot_mcp_kit.safety.universal import check_any_goal
from robot_mcp_kit.safety.urdf import DescriptionError, joint_limits
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config.safety import FieldLimit, Rate, SkillSafety

from .conftest import GOOD, JOINTS, Judge, demo_config

Change = Callable[[dict[str, Any]], Any]


def set_at(*path: str | int, to: Any) -> Change:
    def change(goal: Any) -> None:
        for part in path[:-1]:
            goal = goal[part]
        goal[path[-1]] = to

    return change


def drop(*path: str | int) -> Change:
    def change(goal: Any) -> None:
        for part in path[:-1]:
            goal = goal[part]
        del goal[path[-1]]

    return change


@pytest.mark.parametrize("skill", GOOD)
def test_the_goals_that_the_skills_build_are_within_limits(judge: Judge, skill: str) -> None:
    assert judge.broken(skill, judge.goal(skill)) == []


@pytest.mark.parametrize(
    ("skill", "change", "limit"),
    [
        # Coordinates (R30): missing, NaN, infinite, text, out of the fence.
        ("navigate_to", drop("pose"), "poses"),
        ("navigate_to", drop("pose", "pose", "position", "x"), "poses"),
        ("navigate_to", drop("pose", "pose", "position"), "poses"),
        ("navigate_to", drop("pose", "header"), "poses"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to=math.nan), "finite"),
        ("navigate_to", set_at("pose", "pose", "position", "y", to=math.inf), "finite"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to="3.0"), "poses"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to=True), "poses"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to=13.0), "geofence.keep_in"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to=1.0e300), "geofence.keep_in"),
        ("navigate_to", set_at("pose", "pose", "position", "x", to=11.9), "geofence.keep_in"),
        ("navigate_to", set_at("pose", "pose", "position", to={"x": 6.0, "y": 3.2}), "geofence.keep_out"),
        # Rotations (A1).
        (
            "navigate_to",
            set_at("pose", "pose", "orientation", to={"x": 0, "y": 0, "z": 0, "w": 0}),
            "rotation",
        ),
        ("navigate_to", set_at("pose", "pose", "orientation", to={"z": 90.0, "w": 1.0}), "rotation"),
        ("navigate_to", set_at("pose", "pose", "orientation", "w", to="1"), "rotation"),
        # Frames (A4).
        ("navigate_to", set_at("pose", "header", "frame_id", to=""), "frames"),
        ("navigate_to", set_at("pose", "header", "frame_id", to="/map"), "frames"),
        ("navigate_to", set_at("pose", "header", "frame_id", to="odom"), "frames"),
        ("navigate_to", set_at("pose", "header", "frame_id", to="mаp"), "frames"),  # Cyrillic a
        ("navigate_to", set_at("pose", "header", "frame_id", to="map\u200b"), "frames"),
        ("navigate_to", set_at("pose", "header", "frame_id", to=7), "frames"),
        # A behavior tree is a program that the robot opens.
        ("navigate_to", set_at("behavior_tree", to="/tmp/evil.xml"), "behavior_trees"),
        ("navigate_to", set_at("behavior_tree", to="../../x.xml"), "behavior_trees"),
        (
            "navigate_through",
            set_at("poses", "goals", 1, "pose", "position", "x", to=50.0),
            "geofence.keep_in",
        ),
        ("navigate_through", set_at("poses", "goals", to=[]), "poses"),
        ("follow_waypoints", set_at("poses", 1, "pose", "position", "y", to=-3.0), "geofence.keep_in"),
        ("follow_waypoints", set_at("poses", to=[]), "poses"),
        # Short motions: allowance 0 is "no limit", speed 0 still moves (A10).
        ("spin", set_at("time_allowance", to={"sec": 0, "nanosec": 0}), "max_time_allowance_s"),
        ("spin", set_at("time_allowance", to={"sec": -5, "nanosec": 0}), "max_time_allowance_s"),
        ("spin", set_at("time_allowance", to={"sec": 10**6, "nanosec": 0}), "max_time_allowance_s"),
        ("spin", drop("time_allowance"), "max_time_allowance_s"),
        ("spin", set_at("target_yaw", to=360.0), "max_angle_rad"),
        ("spin", set_at("disable_collision_checks", to=True), "disable_collision_checks"),
        ("back_up", set_at("speed", to=0.0), "max_speed_mps"),
        ("back_up", set_at("speed", to=150.0), "max_speed_mps"),
        ("back_up", set_at("speed", to=-5.0), "max_speed_mps"),
        ("back_up", drop("speed"), "max_speed_mps"),
        ("back_up", set_at("target", "x", to=300.0), "max_distance_m"),
        ("back_up", set_at("target", "x", to=-300.0), "max_distance_m"),
        ("back_up", set_at("target", "x", to=0.0), "target"),
        ("back_up", set_at("target", "y", to=1.0), "target"),
        ("back_up", set_at("disable_collision_checks", to=1), "disable_collision_checks"),
        ("drive_on_heading", set_at("target", "x", to=5.0), "max_distance_m"),
        ("drive_on_heading", set_at("speed", to=math.nan), "finite"),
        ("wait", set_at("time", to={"sec": 0, "nanosec": 0}), "max_duration_s"),
        ("wait", set_at("time", to={"sec": 10**6, "nanosec": 0}), "max_duration_s"),
        ("dock", set_at("max_staging_time", to=0.0), "max_staging_time_s"),
        ("undock", set_at("max_undocking_time", to=1e9), "max_undocking_time_s"),
        # MoveIt reads scaling 0 as full speed (A10).
        ("move_arm", set_at("request", "max_velocity_scaling_factor", to=0.0), "max_velocity_scaling"),
        ("move_arm", set_at("request", "max_velocity_scaling_factor", to=1.0), "max_velocity_scaling"),
        ("move_arm", drop("request", "max_velocity_scaling_factor"), "max_velocity_scaling"),
        (
            "move_arm",
            set_at("request", "max_acceleration_scaling_factor", to=-1.0),
            "max_acceleration_scaling",
        ),
        ("move_arm", set_at("request", "allowed_planning_time", to=0.0), "planning_time"),
        (
            "move_arm",
            set_at("request", "goal_constraints", 0, "joint_constraints", 0, "position", to=6.0),
            "joints",
        ),
        (
            "move_arm",
            set_at("request", "goal_constraints", 0, "joint_constraints", 0, "joint_name", to="left_joint"),
            "joints",
        ),
        (
            "move_arm",
            set_at(
                "planning_options",
                "planning_scene_diff",
                "allowed_collision_matrix",
                to={"entry_names": ["a"]},
            ),
            "allowed_collision_matrix",
        ),
        ("gripper", set_at("command", "max_effort", to=0.0), "max_effort"),
        ("gripper", set_at("command", "max_effort", to=5000.0), "max_effort"),
        ("gripper", set_at("command", "max_effort", to="40"), "max_effort"),
        ("gripper", set_at("command", "position", to=math.nan), "finite"),
        ("follow_joint_trajectory", set_at("trajectory", "points", 1, "positions", 2, to=3.5), "joints"),
        ("follow_joint_trajectory", set_at("trajectory", "joint_names", 0, to="other"), "joints"),
        ("follow_joint_trajectory", set_at("trajectory", "points", 1, "positions", to=[0.0]), "trajectory"),
        ("follow_joint_trajectory", set_at("trajectory", "points", to=[]), "trajectory"),
        (
            "follow_joint_trajectory",
            set_at("trajectory", "points", 0, "velocities", to=[9.0] * 6),
            "joint_speed",
        ),
        (
            "follow_joint_trajectory",
            set_at("trajectory", "points", 1, "time_from_start", to={"sec": 2, "nanosec": 1000}),
            "joint_speed",
        ),
        (
            "follow_joint_trajectory",
            set_at("trajectory", "points", 1, "time_from_start", to={"sec": 1, "nanosec": 0}),
            "trajectory",
        ),
        (
            "follow_joint_trajectory",
            set_at("goal_time_tolerance", to={"sec": 0, "nanosec": 0}),
            "goal_time_tolerance",
        ),
        (
            "execute_trajectory",
            set_at("trajectory", "joint_trajectory", "points", 0, "positions", 0, to=9.0),
            "joints",
        ),
    ],
)
def test_a_goal_that_was_tampered_with_breaks_a_limit(
    judge: Judge, skill: str, change: Change, limit: str
) -> None:
    """Cases A1, A3, A4, A10, R30, R31."""
    goal = judge.goal(skill)
    change(goal)
    assert limit in judge.broken(skill, goal)


def test_a_violation_names_limit_value_and_what_is_allowed(judge: Judge) -> None:
    """R30."""
    goal = judge.goal("navigate_to", x_m=3.0, y_m=3.0)
    goal["pose"]["pose"]["position"]["x"] = 40.0
    with pytest.raises(LimitViolation) as caught:
        judge.limits("navigate_to").check(goal, judge.at)
    text = str(caught.value)
    assert "geofence.keep_in" in text
    assert "40.000" in text
    assert "x 0.2 .. 11.8" in text


WORKSPACE = {"workspace": {"x_m": [0.2, 0.9], "z_m": [0.3, 1.2]}, "workspace_frame": "base_link"}


def tool_pose(judge: Judge) -> dict[str, Any]:
    return judge.goal("move_arm", pose={"x_m": 0.6, "y_m": 0.0, "z_m": 0.7, "pitch_rad": 1.0})


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        (set_at("constraint_region", "primitive_poses", 0, "position", "z", to=9.0), "workspace"),
        (drop("constraint_region", "primitive_poses", 0, "position", "z"), "workspace"),
        (set_at("constraint_region", "primitive_poses", to=[]), "workspace"),
        (set_at("header", "frame_id", to="map"), "workspace"),
        (set_at("target_point_offset", to={"x": 5.0, "y": 0.0, "z": 0.0}), "workspace"),
    ],
)
def test_a_tool_pose_outside_the_workspace_or_in_another_frame_is_refused(change: Change, limit: str) -> None:
    """R30."""
    judge = Judge(demo_config(skills={"move_arm": WORKSPACE}))
    goal = tool_pose(judge)
    assert judge.broken("move_arm", goal) == []
    change(goal["request"]["goal_constraints"][0]["position_constraints"][0])
    assert limit in judge.broken("move_arm", goal)


# -- relative motions ---------------------------------------------------------------------------------------


def test_a_goal_relative_to_the_robot_is_judged_where_it_ends_on_the_map() -> None:
    judge = Judge(
        demo_config(
            geofence={
                "floors": {"a": {"keep_in": {"a": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}}
            },
            frames=["map", "base_link"],
        )
    )
    goal = judge.goal("navigate_to", x_m=1.0, y_m=1.0)
    goal["pose"]["header"]["frame_id"] = "base_link"
    goal["pose"]["pose"]["position"] = {"x": 3.0, "y": 0.0}
    judge.at = Situation(Pose2D(3.0, 4.0, math.pi / 2))
    assert "geofence.keep_in" not in judge.broken("navigate_to", goal)
    judge.at = Situation(Pose2D(3.0, 6.0, math.pi / 2))  # 3 m ahead is y = 9
    assert "geofence.keep_in" in judge.broken("navigate_to", goal)
    judge.at = Situation(None)
    assert "position" in judge.broken("navigate_to", goal)


@pytest.mark.parametrize(
    ("skill", "x", "here", "broken"),
    [
        ("back_up", 0.4, Pose2D(0.4, 4.0, 0.0), True),
        ("back_up", 0.4, Pose2D(0.4, 4.0, math.pi), False),
        ("back_up", -0.4, Pose2D(0.4, 4.0, 0.0), True),  # Nav2 ignores the sign
        ("drive_on_heading", 0.9, Pose2D(11.2, 4.0, 0.0), True),
        ("drive_on_heading", -0.9, Pose2D(11.2, 4.0, 0.0), False),
        ("drive_on_heading", 0.9, Pose2D(6.0, 2.6, math.pi / 2), True),  # across the stairs
    ],
)
def test_straight_motions_may_not_leave_the_fence_or_cross_a_hole(
    judge: Judge, skill: str, x: float, here: Pose2D, broken: bool
) -> None:
    goal = judge.goal(skill)
    goal["target"]["x"] = x
    goal["speed"] = math.copysign(0.15, x)
    judge.at = Situation(here)
    assert any(name.startswith("geofence") for name in judge.broken(skill, goal)) is broken


def test_a_straight_motion_of_a_lost_robot_is_refused(judge: Judge) -> None:
    judge.at = Situation(None)
    assert "position" in judge.broken("back_up", judge.goal("back_up"))


def test_the_distance_from_the_robot_is_limited() -> None:
    judge = Judge(demo_config(skills={"navigate_to": {"max_distance_m": 5.0}}))
    assert "max_distance_m" in judge.broken("navigate_to", judge.goal("navigate_to"))
    judge.at = Situation(Pose2D(9.0, 6.0, 0.0))
    assert judge.broken("navigate_to", judge.goal("navigate_to")) == []
    judge.at = Situation(None)
    assert "max_distance_m" in judge.broken("navigate_to", judge.goal("navigate_to"))


# -- the file's own rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "value", "good"),
    [
        ({"min": 0.0, "max": 1.0}, 1.0, True),
        ({"min": 0.0, "max": 1.0}, 1.1, False),
        ({"max_abs": 1.0}, -1.1, False),
        ({"choices": ["a", "b"]}, "a", True),
        ({"choices": ["a", "b"]}, "c", False),
        ({"choices": [1, 2]}, True, False),
        ({"min": 0.0}, "1", False),
        ({"min": 0.0}, None, False),
    ],
)
def test_any_field_of_any_type_can_be_limited_by_its_path(
    rule: dict[str, Any], value: Any, good: bool
) -> None:
    """R30."""
    judge = Judge(demo_config(skills={"wait": {"fields": {"deep[].inner": rule}}}))
    goal = {**judge.goal("wait"), "deep": [{"inner": value}]}
    assert (judge.broken("wait", goal) == []) is good


def test_a_limited_field_must_be_in_the_goal_unless_the_file_says_otherwise() -> None:
    rule = {"min": 0.0, "max": 1.0}
    judge = Judge(demo_config(skills={"wait": {"fields": {"extra": rule}}}))
    assert judge.broken("wait", judge.goal("wait")) == ["fields.extra"]
    judge = Judge(demo_config(skills={"wait": {"fields": {"extra": {**rule, "required": False}}}}))
    assert judge.broken("wait", judge.goal("wait")) == []


def test_the_safety_section_can_only_narrow_a_skills_own_limit() -> None:
    judge = Judge(demo_config(skills={"back_up": {"max_speed_mps": 99.0}}))
    goal = judge.goal("back_up")
    goal["speed"] = 1.0
    assert "max_speed_mps" in judge.broken("back_up", goal)


def test_a_rule_that_says_nothing_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="max_abs"):
        FieldLimit.model_validate({})
    with pytest.raises(ValueError, match="workspace_frame"):
        SkillSafety.model_validate({"workspace": {"z_m": [0.0, 1.0]}})


def test_odd_contents_are_violations_and_no_exceptions(judge: Judge) -> None:
    """R30."""
    for junk in (None, [], "x", 3, {"pose": None}, {"pose": {"pose": [1, 2]}}, {"poses": "abc"}):
        for skill in GOOD:
            fields = junk if isinstance(junk, dict) else dict.fromkeys(judge.goal(skill), junk)
            assert isinstance(judge.broken(skill, fields), list)


def test_acceleration_between_points_is_limited() -> None:
    judge = Judge(demo_config(skills={"follow_joint_trajectory": {"max_joint_acceleration": 0.3}}))
    row = dict(JOINTS)
    points = [
        {"time_from_start_s": float(2 + index), "joints_rad": {**row, "elbow_joint": value}}
        for index, value in enumerate((1.0, 1.1, 2.0))
    ]
    assert judge.broken("follow_joint_trajectory", judge.goal("follow_joint_trajectory", points=points)) == [
        "max_joint_acceleration"
    ]


# -- the robot description ----------------------------------------------------------------------------------

URDF = """<robot name="r">
<joint name="elbow_joint" type="revolute"><limit lower="-0.1" upper="1.2" velocity="0.2"/></joint>
<joint name="rail" type="prismatic"><limit lower="0" upper="2" velocity="1"/></joint>
<joint name="wheel" type="continuous"><limit velocity="6"/></joint>
<joint name="weld" type="fixed"/></robot>"""


def test_joint_limits_come_from_the_robot_description() -> None:
    """R30."""
    limits = joint_limits(URDF)
    assert limits == {
        "elbow_joint": JointLimit(-0.1, 1.2, 0.2),
        "rail": JointLimit(0.0, 2.0, 1.0),
        "wheel": JointLimit(None, None, 6.0),
    }


def test_the_description_narrows_the_files_limits_and_never_widens_them(judge: Judge) -> None:
    goal = judge.goal("follow_joint_trajectory")
    judge.at = Situation(judge.at.here, described_joints=joint_limits(URDF))
    assert "joints" in judge.broken("follow_joint_trajectory", goal)
    wide = {name: JointLimit(-100.0, 100.0, 100.0) for name in JOINTS}
    judge.at = Situation(judge.at.here, described_joints=wide)
    goal["trajectory"]["points"][1]["positions"][2] = 50.0
    assert "joints" in judge.broken("follow_joint_trajectory", goal)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<robot",
        "<arm/>",
        '<!DOCTYPE r [<!ENTITY a "b">]><robot/>',
        '<robot><joint name="a" type="revolute"><limit upper="nan"/></joint></robot>',
        '<robot><joint name="a" type="revolute"><limit upper="x"/></joint></robot>',
    ],
)
def test_a_description_that_cannot_be_trusted_is_refused(text: str) -> None:
    with pytest.raises(DescriptionError):
        joint_limits(text)


# -- rates --------------------------------------------------------------------------------------------------


def test_a_rate_counts_starts_in_a_sliding_window() -> None:
    rate = RateLimiter(Rate(count=2, per_s=10.0))
    for now_s in (0.0, 1.0):
        assert rate.check(now_s) is None
        rate.count(now_s)
    refused = rate.check(2.0)
    assert refused is not None
    assert (refused.limit, refused.allowed) == ("rate.count", "2 in 10 s; again in 8.0 s")
    assert rate.check(10.0) is None


def test_many_small_moves_are_one_large_move() -> None:
    """R30."""
    rate = RateLimiter(Rate(count=100, per_s=60.0, distance_m=1.0))
    moved, now_s = 0.0, 0.0
    while rate.check(now_s, 0.3) is None:
        rate.count(now_s, 0.3)
        moved, now_s = moved + 0.3, now_s + 1.0
    assert moved == pytest.approx(0.9)
    assert rate.check(61.0, 0.3) is None


def test_a_cooldown_keeps_two_starts_apart() -> None:
    rate = RateLimiter(None, 5.0)
    assert rate.check(0.0) is None
    rate.count(0.0)
    refused = rate.check(4.9)
    assert refused is not None
    assert refused.limit == "cooldown_s"
    assert rate.check(5.0) is None


def test_refused_starts_do_not_use_up_the_rate() -> None:
    rate = RateLimiter(Rate(count=1, per_s=10.0))
    for _ in range(100):
        assert rate.check(0.0) is None


def test_frames_inside_any_goal_are_known_ones() -> None:
    goal = {"where": {"header": {"frame_id": ""}, "point": {"x": 1.0}}, "tool_frame": "odom"}
    assert [one.limit for one in check_any_goal(goal, frozenset({"map"}), frozenset())] == [
        "frames",
        "frames",
    ]
