"""Feedback to progress, for every action (B9): the fields as the servers really fill them."""

from __future__ import annotations

import array
from typing import Any

import pytest

from robot_mcp_kit.skills.base import Pose2D, Sample
from robot_mcp_kit.skills.triggers import TriggerSet

from .arguments import GOOD, message
from .conftest import Robot
from .samples import duration, empty_feedback, feedback, pose


def payloads(samples: list[Any]) -> list[dict[str, Any]]:
    return [sample.payload for sample in samples if sample is not None]


def percents(samples: list[Any]) -> list[float]:
    return [sample.percent for sample in samples if sample is not None]


def through(time_s: float, distance_m: float, remaining: int, x_m: float = 0.0) -> Any:
    made = feedback(time_s, distance_m, distance_m / 0.5, at=pose(x_m, 4.0))
    made.number_of_poses_remaining = remaining
    made.waypoint_statuses = []
    return made


POSES = {"poses": [{"x_m": 4.0, "y_m": 4.0}, {"x_m": 8.0, "y_m": 4.0}]}


@pytest.mark.parametrize("skill", GOOD)
@pytest.mark.parametrize("odd", [None, 3, "text", message(), message(state=None, desired="x", position="y")])
def test_odd_feedback_says_nothing_and_does_not_raise(robot: Robot, skill: str, odd: Any) -> None:
    """E47."""
    assert robot.read(skill, [odd], **GOOD[skill]) == [None]


def test_poses_that_were_passed_are_a_floor_for_the_percentage(robot: Robot) -> None:
    """A long first leg: passing the first of two poses is at least half of the list."""
    samples = robot.read(
        "navigate_through",
        [
            through(0.0, 0.0, 2),
            through(2.0, 8.0, 2),
            through(4.0, 7.0, 2, 1.0),
            through(6.0, 6.0, 1, 2.0),
            through(8.0, 5.5, 1, 2.5),
        ],
        **POSES,
    )
    told = payloads(samples)
    assert told[0]["eta_s"] is None
    assert [p["poses_remaining"] for p in told] == [2, 2, 2, 1, 1]
    assert told[2]["percent"] == pytest.approx(12.5)
    assert told[3]["percent"] == told[4]["percent"] == 50.0
    assert [s.milestone for s in samples] == [False, False, False, True, False]
    assert told[4]["distance_m"] == 5.5
    assert told[4]["eta_s"] is not None


def test_the_all_zero_message_of_an_empty_list_is_neither_arrival_nor_a_place(robot: Robot) -> None:
    """Case B21."""
    empty = empty_feedback()
    empty.number_of_poses_remaining = 0
    samples = robot.read(
        "navigate_through", [through(2.0, 8.0, 2), empty, through(4.0, 7.0, 2, 1.0)], **POSES
    )
    assert samples[1] is None
    assert samples[2].payload["poses_remaining"] == 2


def test_a_zero_count_of_poses_is_the_fields_default(robot: Robot) -> None:
    samples = robot.read("navigate_through", [through(2.0, 8.0, 0), through(4.0, 7.0, 2)], **POSES)
    assert [p["poses_remaining"] for p in payloads(samples)] == [None, 2]


def at(index: int) -> Any:
    return message(current_waypoint=index)


def test_waypoints_count_through_their_loops(robot: Robot) -> None:
    """The index goes back to 0 at every round; 20 messages a second repeat it."""
    samples = robot.read(
        "follow_waypoints",
        [at(i) for i in (0, 0, 1, 2, 2, 0, 1, 2, 2)],
        period_s=10.0,
        **GOOD["follow_waypoints"],
        number_of_loops=1,
    )
    told = payloads(samples)
    assert [p["loop"] for p in told] == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert percents(samples) == pytest.approx(
        [0, 0, 100 / 6, 200 / 6, 200 / 6, 50, 400 / 6, 500 / 6, 500 / 6]
    )
    assert [s.milestone for s in samples] == [False, False, True, True, False, True, True, True, False]


def test_a_tours_eta_waits_for_two_waypoints(robot: Robot) -> None:
    samples = robot.read(
        "follow_waypoints", [at(0), at(1), at(2), at(2)], period_s=10.0, **GOOD["follow_waypoints"]
    )
    # Two of three in 20 s, so the third takes 10, and 10 of those are over with the last message.
    assert [p["eta_s"] for p in payloads(samples)] == [None, None, 10.0, 0.0]


def test_a_tour_that_begins_in_the_middle_begins_at_zero_percent(robot: Robot) -> None:
    samples = robot.read("follow_waypoints", [at(1), at(2)], **GOOD["follow_waypoints"], goal_index=1)
    assert percents(samples) == [0.0, 50.0]


def test_an_index_beyond_the_list_says_nothing(robot: Robot) -> None:
    assert robot.read("follow_waypoints", [at(3), at(-1)], **GOOD["follow_waypoints"]) == [None, None]


def test_one_waypoint_driven_again_and_again_has_no_percentage(robot: Robot) -> None:
    (sample,) = robot.read("follow_waypoints", [at(0)], poses=[{"place": "kitchen"}], number_of_loops=3)
    assert sample.percent is None


def test_tours_take_the_robots_pose_from_where_it_is_known(robot: Robot) -> None:
    robot.at = Pose2D(9.0, 6.0, 0.0)
    (sample,) = robot.read("follow_waypoints", [at(0)], **GOOD["follow_waypoints"])
    assert sample.pose == robot.at
    assert sample.payload["pose"]["x_m"] == 9.0


def turned(angle: float) -> Any:
    return message(angular_distance_traveled=angle)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_spin_is_measured_in_its_own_direction(robot: Robot, sign: float) -> None:
    """Case B20: the angle is signed like the target."""
    samples = robot.read("spin", [turned(sign * a) for a in (0.0, 1.57, 3.14)], angle_rad=sign * 3.14)
    assert percents(samples) == pytest.approx([0.0, 50.0, 99.0])
    assert payloads(samples)[1]["turned_rad"] == sign * 1.57
    assert payloads(samples)[1]["remaining_rad"] == sign * 1.57
    # Half of the way took one second.
    assert payloads(samples)[1]["eta_s"] == 1.0


def test_more_than_a_full_turn_counts_up_and_never_back(robot_of: Any) -> None:
    """Case B20: target -6.5, feedback to -6.5."""
    robot = robot_of("skills: {spin: {action: spin, type: nav2_msgs/action/Spin, max_angle_rad: 7.0}}")
    angles = [-0.1, -1.0, -3.0, -2.9, -5.0, -6.5, 0.2]
    found = percents(robot.read("spin", [turned(a) for a in angles], angle_rad=-6.5))
    assert found == sorted(found)
    assert found[4] == pytest.approx(100 * 5.0 / 6.5)
    assert found[-1] == 99.0


def test_turning_the_wrong_way_is_no_progress(robot: Robot) -> None:
    assert percents(robot.read("spin", [turned(-0.5)], angle_rad=1.0)) == [0.0]


def test_a_spins_eta_is_unknown_until_it_turns(robot: Robot) -> None:
    first, second = robot.read("spin", [turned(0.0), turned(0.001)], period_s=0.1, angle_rad=1.0)
    assert first.eta_s is None
    assert second.eta_s is None


@pytest.mark.parametrize(
    ("skill", "arguments"),
    [("back_up", {"distance_m": 0.4}), ("drive_on_heading", {"distance_m": -0.4})],
)
def test_straight_motions_count_their_displacement(
    robot: Robot, skill: str, arguments: dict[str, Any]
) -> None:
    """distance_traveled is never negative, backwards neither; float32 noise is not shown (F54)."""
    samples = robot.read(
        skill, [message(distance_traveled=d) for d in (0.0, 0.10000000149011612, 0.4)], **arguments
    )
    assert percents(samples) == pytest.approx([0.0, 25.0, 99.0])
    told = payloads(samples)
    assert told[1]["traveled_m"] == 0.1
    assert told[1]["distance_m"] == 0.3
    assert told[1]["eta_s"] == pytest.approx(0.3 / 0.15)
    assert samples[1].distance_m == pytest.approx(0.3)
    assert told[2]["eta_s"] == 0.0


@pytest.mark.parametrize(
    ("left_s", "eta_s", "percent"),
    [(4.0, 4.0, 0.0), (1.0, 1.0, 75.0), (0.0, 0.0, 99.0), (-0.05, 0.0, 99.0), (-0.25, 0.0, 99.0)],
)
def test_a_waits_last_word_is_below_zero_and_shown_as_zero(
    robot: Robot, left_s: float, eta_s: float, percent: float
) -> None:
    """Case B17: sec=-1, nanosec=950000000 is -0.05 s."""
    (sample,) = robot.read("wait", [message(time_left=vars(duration(left_s)))], duration_s=4.0)
    assert sample.eta_s == pytest.approx(eta_s)
    assert sample.percent == pytest.approx(percent)


def docking(state: int, retries: int = 0, time_s: float = 1.0) -> Any:
    return message(state=state, num_retries=retries, docking_time=vars(duration(time_s)))


def test_docking_goes_through_its_phases(robot: Robot) -> None:
    samples = robot.read("dock", [docking(s) for s in (0, 1, 1, 2, 3, 4)])
    assert percents(samples) == [0.0, 10.0, 10.0, 40.0, 60.0, 90.0]
    assert [s.milestone for s in samples] == [False, True, False, True, True, True]
    assert payloads(samples)[4]["phase"] == "driving in"
    assert payloads(samples)[4]["eta_s"] is None


def test_a_retry_is_told_by_its_count_and_takes_no_percent_back(robot: Robot) -> None:
    """Kilted never publishes state RETRY: it shows as perception again."""
    samples = robot.read("dock", [docking(3), docking(2, 1), docking(3, 1), docking(5, 2), docking(42, 2)])
    told = payloads(samples)
    assert percents(samples) == [60.0] * 5
    assert [p["retries"] for p in told] == [0, 1, 1, 2, 2]
    assert told[1]["phase"] == told[3]["phase"] == "trying again"
    assert told[4]["phase"] == "state 42"
    assert [s.milestone for s in samples] == [False, True, True, True, True]


def test_moveit_tells_phases_and_its_idle_after_the_end_is_dropped(robot: Robot) -> None:
    samples = robot.read(
        "move_arm",
        [message(state=s) for s in ("PLANNING", "MONITOR", "IDLE")],
        **GOOD["move_arm"],
    )
    assert samples[2] is None
    planning, moving = payloads(samples)
    assert (planning["phase"], planning["percent"], planning["eta_s"]) == ("planning", None, None)
    assert planning["planning_at_most_s"] == 5.0
    assert moving["phase"] == "moving"
    assert samples[0].milestone
    assert samples[1].milestone


def test_an_executed_trajectory_knows_how_long_it_takes(robot: Robot) -> None:
    """There is no percentage on the wire: elapsed over the duration of the goal."""
    samples = robot.read(
        "execute_trajectory",
        [message(state=s) for s in ("MONITOR", "MONITOR", "Trajectory execution is going well", "IDLE")],
        **GOOD["execute_trajectory"],
    )
    told = payloads(samples)
    assert [p["eta_s"] for p in told] == [4.0, 3.0, 2.0]
    assert [p["percent"] for p in told] == [0.0, 25.0, 50.0]
    assert told[2]["phase"] == "trajectory execution is going well"


def following(time_s: float, errors: tuple[float, ...] = (), **more: Any) -> Any:
    return message(
        joint_names=["shoulder_pan_joint", "elbow_joint"],
        desired={"time_from_start": vars(duration(time_s))},
        error={"positions": array.array("d", errors)},
        **more,
    )


def test_the_controllers_own_time_is_the_progress(robot: Robot) -> None:
    """Jazzy has no index; arrays are array.array; beyond the last point the arm settles."""
    samples = robot.read(
        "follow_joint_trajectory",
        [following(1.0, (0.01, -0.03), index=1), following(3.0), following(4.0), following(5.5)],
        period_s=0.05,
        **GOOD["follow_joint_trajectory"],
    )
    told = payloads(samples)
    assert [p["percent"] for p in told] == [25.0, 75.0, 99.0, 99.0]
    assert [p["eta_s"] for p in told] == [3.0, 1.0, 0.0, 0.0]
    assert [p["phase"] for p in told] == ["moving", "moving", "settling", "settling"]
    assert [s.milestone for s in samples] == [False, False, True, False]
    assert (told[0]["largest_error_rad"], told[0]["largest_error_joint"]) == (0.03, "elbow_joint")
    assert (told[0]["point"], told[1]["point"]) == (1, None)
    assert told[1]["largest_error_rad"] is None


def test_a_negative_time_in_the_trajectory_says_nothing(robot: Robot) -> None:
    assert robot.read("follow_joint_trajectory", [following(-0.25)], **GOOD["follow_joint_trajectory"]) == [
        None
    ]


def test_a_grippers_way_is_measured_from_where_it_began(robot: Robot) -> None:
    samples = robot.read(
        "gripper",
        [
            message(position=p, effort=5.0, stalled=s, reached_goal=False)
            for p, s in ((0.08, False), (0.06, False), (0.02, True))
        ],
        command="close",
    )
    assert percents(samples) == pytest.approx([0.0, 25.0, 75.0])
    assert payloads(samples)[2]["position_m"] == 0.02
    assert payloads(samples)[2]["stalled"] is True
    assert samples[2].milestone


def test_a_parallel_grippers_arrays_may_be_empty(robot_of: Any) -> None:
    robot = robot_of(
        "skills: {grip: {action: g, type: control_msgs/action/ParallelGripperCommand, open_gap_m: 0.08, "
        "effort_n: 1, max_effort_n: 1}}"
    )
    states = [{"position": array.array("d", p), "effort": array.array("d")} for p in ([], [0.08], [0.04])]
    samples = robot.read("grip", [message(state=s) for s in states], command="close")
    assert samples[0] is None
    assert percents(samples) == pytest.approx([0.0, 50.0])
    assert samples[2].payload["effort_n"] is None


def fired(robot: Robot, skill: str, samples: list[Sample | None], trigger: dict[str, Any]) -> int:
    triggers = TriggerSet([trigger], robot.config.zones, known=robot.skills[skill].trigger_types)
    return sum(len(triggers.evaluate(s, s.time_s).firings) for s in samples if s is not None)


def test_triggers_fire_on_the_samples_of_other_skills_too(robot: Robot) -> None:
    """B11: each skill offers the types that its feedback can answer."""
    wait = robot.read(
        "wait", [message(time_left=vars(duration(4.0 - i * 0.5))) for i in range(9)], duration_s=4.0
    )
    assert fired(robot, "wait", wait, {"type": "eta_below", "seconds": 2}) == 1
    back = robot.read(
        "back_up", [message(distance_traveled=0.05 * i) for i in range(9)], distance_m=0.4, period_s=0.4
    )
    assert fired(robot, "back_up", back, {"type": "distance_below", "distance_m": 0.2}) == 1
    stuck = robot.read("spin", [turned(0.3)] * 8, angle_rad=1.0)
    assert fired(robot, "spin", stuck, {"type": "stalled", "seconds": 5}) == 1
    assert fired(robot, "spin", stuck, {"type": "distance_below", "distance_m": 5}) == 0
