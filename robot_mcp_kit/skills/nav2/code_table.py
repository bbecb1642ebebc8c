"""What Nav2's error codes mean, as data. Looked up by :mod:`robot_mcp_kit.skills.nav2.codes`.

Constants and numbers: the action definitions of nav2_msgs (Jazzy, Kilted, Lyrical). The sentences are ours
and written for a planner. Numbers are not unique across action types, so every row says for which family it
holds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Nav2Code:
    """One row.

    ``retry``: the same request may succeed as it is. ``recoverable``: a planner can do something about it, a
    retry or another goal; ``False`` means a person has to change the robot's configuration.
    """

    family: str
    code: int
    constant: str
    error_code: str
    sentence: str
    retry: bool
    recoverable: bool
    suggestions: tuple[str, ...]


_WAIT = "wait_s:30"
_SOON = "wait_s:5"
_ASK = "ask_person"
_GO = "navigate_to"
_LIST = "list_tasks"

# family, code, constant, error_code, retry, recoverable, suggestions, sentence
_Row = tuple[str, int, str, str, bool, bool, tuple[str, ...], str]

_ANY: list[_Row] = [
    ("any", 1, "GOAL_REJECTED", "NAV2_SUBGOAL_REJECTED", True, True, (_SOON, _GO, _ASK),
     "One of Nav2's own servers refused its part of the job, probably because it is not active yet."),
    ("any", 2, "SEND_GOAL_FAILURE", "NAV2_SUBGOAL_SEND_FAILED", True, True, (_GO, _ASK),
     "One of Nav2's own servers did not answer; if a retry ends the same way, somebody has to check Nav2."),
]  # fmt: skip

_CONTROLLER: list[_Row] = [
    ("controller", 100, "UNKNOWN", "NAV2_CONTROLLER_UNKNOWN", True, True, (_GO, _ASK),
     "Following the path failed and the controller gave no reason."),
    ("controller", 101, "INVALID_CONTROLLER", "NAV2_CONTROLLER_INVALID", False, False, (_ASK,),
     "The robot is configured to use a controller that does not exist."),
    ("controller", 102, "TF_ERROR", "NAV2_CONTROLLER_TF", True, True, (_SOON, _ASK),
     "The controller could not find out where the robot is; localization may be lost."),
    ("controller", 103, "INVALID_PATH", "NAV2_CONTROLLER_INVALID_PATH", True, True, (_GO,),
     "The planned path was empty or broken, so there was nothing to follow."),
    ("controller", 104, "PATIENCE_EXCEEDED", "NAV2_CONTROLLER_PATIENCE", True, True, (_WAIT, _GO, _ASK),
     "For too long there was no safe way to move; the robot is probably hemmed in by people or things."),
    ("controller", 105, "FAILED_TO_MAKE_PROGRESS", "NAV2_STUCK", True, True, (_WAIT, _GO, _ASK),
     "The robot hardly moved for too long: it is stuck or something blocks it."),
    ("controller", 106, "NO_VALID_CONTROL", "NAV2_CONTROLLER_NO_CONTROL", True, True, (_WAIT, _GO, _ASK),
     "Every motion the controller could choose would have hit something."),
    ("controller", 107, "CONTROLLER_TIMED_OUT", "NAV2_CONTROLLER_TIMEOUT", True, True, (_SOON, _GO, _ASK),
     "The controller was too slow to answer; the robot's computer may be overloaded."),
    ("controller", 108, "TIMEOUT", "NAV2_CONTROLLER_WAIT_TIMEOUT", True, True, (_SOON, _GO, _ASK),
     "Nav2 waited too long for its controller; the robot's computer may be overloaded."),
]  # fmt: skip


def _planner(base: int, family: str, what: str) -> list[_Row]:
    rows: list[_Row] = [
        (family, base, "UNKNOWN", "NAV2_PLANNER_UNKNOWN", True, True, (_GO, _ASK),
         f"Planning {what} failed and the planner gave no reason."),
        (family, base + 1, "INVALID_PLANNER", "NAV2_PLANNER_INVALID", False, False, (_ASK,),
         "The robot is configured to use a planner that does not exist."),
        (family, base + 2, "TF_ERROR", "NAV2_PLANNER_TF", True, True, (_SOON, _ASK),
         "The planner could not place the goal or the robot on the map; frame or localization is wrong."),
        (family, base + 3, "START_OUTSIDE_MAP", "NAV2_START_OUTSIDE_MAP", False, True, (_ASK,),
         "The robot believes it stands outside its map; its position has to be set again first."),
        (family, base + 4, "GOAL_OUTSIDE_MAP", "NAV2_GOAL_OUTSIDE_MAP", False, True, (_GO,),
         "The goal lies outside the map the robot knows; choose one on the map."),
        (family, base + 5, "START_OCCUPIED", "NAV2_START_OCCUPIED", True, True, (_WAIT, _ASK),
         "The robot's own spot counts as occupied, so no path can start there; something stands very close."),
        (family, base + 6, "GOAL_OCCUPIED", "NAV2_GOAL_OCCUPIED", False, True, (_GO, _WAIT),
         "Something occupies the goal, a wall or an obstacle; choose a free spot about half a metre away."),
        (family, base + 7, "TIMEOUT", "NAV2_PLANNER_TIMEOUT", True, True, (_GO,),
         "Finding a path took too long; a nearer goal or a trip in two parts is easier."),
        (family, base + 8, "NO_VALID_PATH", "NAV2_NO_PATH", True, True, (_WAIT, _GO, _ASK),
         "The robot knows no way from where it is to the goal; a door on the way may be closed."),
    ]  # fmt: skip
    return rows


_ROUTE: list[_Row] = [
    ("route", 400, "UNKNOWN", "NAV2_ROUTE_UNKNOWN", False, False, (_ASK,),
     "The route server failed and gave no reason."),
    ("route", 401, "TF_ERROR", "NAV2_ROUTE_TF_ERROR", False, True, (_SOON, _ASK),
     "The route server could not find out where the robot is on its graph."),
    ("route", 402, "NO_VALID_GRAPH", "NAV2_ROUTE_NO_VALID_GRAPH", False, False, (_ASK,),
     "The route server has no usable graph of routes."),
    ("route", 403, "INDETERMINANT_NODES_ON_GRAPH", "NAV2_ROUTE_INDETERMINANT_NODES_ON_GRAPH", False, True,
     (_GO,),
     "Start or goal could not be matched to a node of the route graph."),
    ("route", 404, "TIMEOUT", "NAV2_ROUTE_TIMEOUT", False, True, (_SOON, _GO),
     "Finding a route on the graph took too long."),
    ("route", 405, "NO_VALID_ROUTE", "NAV2_ROUTE_NO_VALID_ROUTE", False, True, (_GO, _ASK),
     "The route graph has no open route to the goal."),
    ("route", 406, "OPERATION_FAILED", "NAV2_ROUTE_OPERATION_FAILED", False, True, (_ASK,),
     "Something that has to happen along the route (a door, a lift) did not work."),
    ("route", 407, "INVALID_EDGE_SCORER_USE", "NAV2_ROUTE_INVALID_EDGE_SCORER_USE", False, False, (_ASK,),
     "The route server's way of rating edges is configured wrongly."),
]  # fmt: skip

_SMOOTHER: list[_Row] = [
    ("smoother", 500, "UNKNOWN", "NAV2_SMOOTHER_UNKNOWN", True, True, (_GO,),
     "Smoothing the path failed and the smoother gave no reason."),
    ("smoother", 501, "INVALID_SMOOTHER", "NAV2_SMOOTHER_INVALID_SMOOTHER", False, False, (_ASK,),
     "The robot is configured to use a path smoother that does not exist."),
    ("smoother", 502, "TIMEOUT", "NAV2_SMOOTHER_TIMEOUT", True, True, (_GO,),
     "Smoothing the path took too long."),
    ("smoother", 503, "SMOOTHED_PATH_IN_COLLISION", "NAV2_SMOOTHER_SMOOTHED_PATH_IN_COLLISION", True, True,
     (_GO,),
     "The smoothed path would touch an obstacle."),
    ("smoother", 504, "FAILED_TO_SMOOTH_PATH", "NAV2_SMOOTHER_FAILED_TO_SMOOTH_PATH", True, True, (_GO,),
     "The path could not be made smooth."),
    ("smoother", 505, "INVALID_PATH", "NAV2_SMOOTHER_INVALID_PATH", True, True, (_GO,),
     "The path given to the smoother was empty or broken."),
]  # fmt: skip

_WAYPOINTS: list[_Row] = [
    ("waypoints", 600, "UNKNOWN", "NAV2_WAYPOINTS_UNKNOWN", True, True, (_LIST, _GO),
     "The waypoint tour failed without a reason; often navigation itself refused or lost a leg."),
    ("waypoints", 601, "TASK_EXECUTOR_FAILED", "NAV2_WAYPOINT_TASK_FAILED", True, True, (_GO, _ASK),
     "The robot reached a waypoint, but what it had to do there failed."),
    ("waypoints", 602, "NO_VALID_WAYPOINTS", "NAV2_NO_WAYPOINTS", False, True, (_GO,),
     "The list of waypoints was empty or none of them could be used; give at least one pose."),
    ("waypoints", 603, "STOP_ON_MISSED_WAYPOINT", "NAV2_WAYPOINT_MISSED", True, True, (_GO, _ASK),
     "A waypoint could not be reached and this robot ends a tour there; missed_waypoints holds the cause. "
     "Go on from the waypoint after it."),
]  # fmt: skip

_NAVIGATOR_BASES = (("navigate_to_pose", 9000), ("navigate_through_poses", 9100))


def _navigator(family: str, base: int) -> list[_Row]:
    rows: list[_Row] = [
        (family, base, "UNKNOWN", "NAV2_UNKNOWN", True, True, (_GO, _ASK),
         "Navigation failed and gave no reason."),
        (family, base + 1, "FAILED_TO_LOAD_BEHAVIOR_TREE", "NAV2_BT_LOAD_FAILED", False, False, (_ASK,),
         "The robot's behavior tree file is missing or broken."),
        (family, base + 2, "TF_ERROR", "NAV2_GOAL_TF", True, True, (_SOON, _ASK),
         "The goal's frame is unknown to the robot, or the robot does not know where it is yet."),
        (family, base + 3, "TIMEOUT", "NAV2_TIMEOUT", True, True, (_GO,),
         "Navigation took longer than it was allowed to."),
    ]  # fmt: skip
    return rows


def _behavior(family: str, base: int, word: str, doing: str) -> list[_Row]:
    rows: list[_Row] = [
        (family, base, "UNKNOWN", f"NAV2_{word}_UNKNOWN", True, True, (_SOON, _ASK),
         f"{doing} failed without a reason."),
        (family, base + 1, "TIMEOUT", f"NAV2_{word}_TIMEOUT", True, True, (_SOON, _ASK),
         f"{doing} was not complete when its time allowance ran out; allow more time."),
    ]  # fmt: skip
    if word != "WAIT":
        rows.append((family, base + 2, "TF_ERROR", f"NAV2_{word}_TF", True, True, (_SOON, _ASK),
                     f"{doing} failed because the robot's position was not available."))  # fmt: skip
    return rows


def _blocked(family: str, code: int) -> _Row:
    return (family, code, "COLLISION_AHEAD", "NAV2_COLLISION_AHEAD", True, True, (_WAIT, _GO, _ASK),
            "Something is in the way and the robot stopped short of it; look first, then try a "
            "shorter motion or the other direction.")  # fmt: skip


def _invalid(family: str, code: int) -> _Row:
    return (family, code, "INVALID_INPUT", "NAV2_INVALID_INPUT", False, True, (),
            "The motion asked for is impossible (sideways, or speed and distance with different signs); "
            "correct the arguments.")  # fmt: skip


# BackUp and DriveOnHeading number these two the other way round; it is not a slip.
_BEHAVIORS: list[_Row] = [
    *_behavior("spin", 700, "SPIN", "Turning in place"),
    _blocked("spin", 703),
    *_behavior("backup", 710, "BACKUP", "Backing up"),
    _invalid("backup", 713),
    _blocked("backup", 714),
    *_behavior("drive", 720, "DRIVE", "Driving straight"),
    _blocked("drive", 723),
    _invalid("drive", 724),
    *_behavior("teleop", 730, "TELEOP", "Assisted teleoperation"),
    *_behavior("wait", 740, "WAIT", "Waiting"),
]

_DOCKING: list[_Row] = [
    ("docking", 901, "DOCK_NOT_IN_DB", "NAV2_DOCK_UNKNOWN", False, True, (_ASK,),
     "The robot knows no dock of that name."),
    ("docking", 902, "DOCK_NOT_VALID", "NAV2_DOCK_INVALID", False, True, (_ASK,),
     "The kind of dock is unknown, or there is no dock to leave."),
    ("docking", 903, "FAILED_TO_STAGE", "NAV2_DOCK_STAGING_FAILED", True, True, (_WAIT, _GO, _ASK),
     "The robot did not get to the spot in front of the dock: blocked, out of time, or stopped on the way."),
    ("docking", 904, "FAILED_TO_DETECT_DOCK", "NAV2_DOCK_NOT_SEEN", True, True, (_SOON, _ASK),
     "The robot did not see the dock where it should be; its place or its marker may have changed."),
    ("docking", 905, "FAILED_TO_CONTROL", "NAV2_DOCK_CONTROL_FAILED", True, True, (_SOON, _ASK),
     "The last approach to (or away from) the dock failed or took too long."),
    ("docking", 906, "FAILED_TO_CHARGE", "NAV2_DOCK_NOT_CHARGING", True, True, (_SOON, _ASK),
     "The robot touches the dock but gets no current; check the dock's power."),
    ("docking", 907, "TIMEOUT", "NAV2_DOCK_TIMEOUT", True, True, (_SOON, _ASK),
     "The docking server did not finish in the time a behavior tree gave it."),
    ("docking", 999, "UNKNOWN", "NAV2_DOCK_UNKNOWN_ERROR", True, True, (_SOON, _ASK),
     "Docking failed without a reason; the robot's position may not have been available."),
]  # fmt: skip

_NO_VIAPOINTS: _Row = (
    "planner_through_poses", 309, "NO_VIAPOINTS_GIVEN", "NAV2_NO_VIAPOINTS", False, True, (_GO,),
    "There were no poses to plan through; give at least one.",
)  # fmt: skip

_ROWS: list[_Row] = [
    *_ANY,
    *_CONTROLLER,
    *_planner(200, "planner_to_pose", "a path to the goal"),
    *_planner(300, "planner_through_poses", "a path through the poses"),
    _NO_VIAPOINTS,
    *_ROUTE,
    *_SMOOTHER,
    *_WAYPOINTS,
    *_BEHAVIORS,
    *_DOCKING,
    *(row for family, base in _NAVIGATOR_BASES for row in _navigator(family, base)),
]

ROWS: tuple[Nav2Code, ...] = tuple(
    Nav2Code(family, code, constant, error_code, sentence, retry, recoverable, suggestions)
    for family, code, constant, error_code, retry, recoverable, suggestions, sentence in _ROWS
)
"""Every known row; (family, code) is unique."""

FAMILIES: dict[str, frozenset[str]] = {
    "FollowPath": frozenset({"controller"}),
    "ComputePathToPose": frozenset({"planner_to_pose"}),
    "ComputePathThroughPoses": frozenset({"planner_through_poses"}),
    "ComputeRoute": frozenset({"route"}),
    "ComputeAndTrackRoute": frozenset({"route"}),
    "SmoothPath": frozenset({"smoother"}),
    "Spin": frozenset({"spin"}),
    "BackUp": frozenset({"backup"}),
    "DriveOnHeading": frozenset({"drive"}),
    "AssistedTeleop": frozenset({"teleop"}),
    "Wait": frozenset({"wait"}),
    "DockRobot": frozenset({"docking"}),
    "UndockRobot": frozenset({"docking"}),
}
"""Families of the actions that report only their own codes. Row family ``any`` holds for all of them."""

PASS_ON = frozenset({"NavigateToPose", "NavigateThroughPoses", "FollowWaypoints", "FollowGPSWaypoints"})
"""Actions that pass codes on from below (BT navigators; waypoint followers in their entries): all
families.
"""
