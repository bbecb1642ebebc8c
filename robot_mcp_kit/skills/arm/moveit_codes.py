"""What MoveIt's result codes mean. Here 1 is success, and 0 is a failure without a reason.

Constants and numbers: ``moveit_msgs/msg/MoveItErrorCodes``. The sentences are ours and written for a planner.
Total: no number raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.text import clean_text

SUCCESS = 1


@dataclass(frozen=True, slots=True)
class MoveItCode:
    """One row; ``retry`` and ``recoverable`` as in :class:`.nav2_table.Nav2Code`."""

    code: int
    constant: str
    error_code: str
    retry: bool
    recoverable: bool
    suggestions: tuple[str, ...]
    sentence: str


_ASK = "ask_person"
_SOON = "wait_s:2"
_WAIT = "wait_s:30"
_TOOL = "{tool}"
"""Stands for the tool that was called."""

_Row = tuple[int, str, str, bool, bool, tuple[str, ...], str]

_ROWS: list[_Row] = [
    (0, "UNDEFINED", "MOVEIT_UNDEFINED", False, False, (_ASK,),
     "MoveIt failed and gave no reason; often the planning pipeline it is configured to use does not exist."),
    (99999, "FAILURE", "MOVEIT_FAILURE", True, True, (_TOOL, _ASK),
     "Planning the arm's motion failed."),
    (-1, "PLANNING_FAILED", "MOVEIT_PLANNING_FAILED", True, True, (_TOOL, _ASK),
     "No way for the arm to the goal was found; another pose, or moving the robot, may help."),
    (-2, "INVALID_MOTION_PLAN", "MOVEIT_INVALID_PLAN", True, True, (_TOOL,),
     "A motion was found but turned out to be unusable; a retry or a lower speed may give another one."),
    (-3, "MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE", "MOVEIT_ENVIRONMENT_CHANGED", True, True,
     (_TOOL, _ASK),
     "Something came into the way of the arm and it stopped; look before planning again."),
    (-4, "CONTROL_FAILED", "MOVEIT_CONTROL_FAILED", True, True, (_TOOL, _ASK),
     "The arm did not follow the motion: it was not where the plan begins, its controller is off, it "
     "deviated, "
     "or a protective stop tripped. Check the emergency stop, then plan again from where it is."),
    (-5, "UNABLE_TO_AQUIRE_SENSOR_DATA", "MOVEIT_NO_SENSOR_DATA", True, True, (_SOON, _ASK),
     "MoveIt got no sensor data."),
    (-6, "TIMED_OUT", "MOVEIT_TIMED_OUT", True, True, (_TOOL, _ASK),
     "Planning or the motion took longer than allowed; if the motion, the arm is slower than planned."),
    (-7, "PREEMPTED", "MOVEIT_PREEMPTED", False, True, ("list_tasks", _ASK),
     "The motion was stopped on somebody's request."),
    (-10, "START_STATE_IN_COLLISION", "MOVEIT_START_STATE_IN_COLLISION", False, True, (_ASK,),
     "The arm counts as touching something where it is now, so it cannot start; somebody has to free it."),
    (-11, "START_STATE_VIOLATES_PATH_CONSTRAINTS", "MOVEIT_START_STATE_VIOLATES_PATH_CONSTRAINTS",
     False, True, (_ASK,),
     "The arm's present position breaks the constraints of the motion."),
    (-26, "START_STATE_INVALID", "MOVEIT_START_STATE_INVALID", False, True, (_ASK,),
     "The arm's present position is not a valid one, mostly a joint beyond its limit."),
    (-12, "GOAL_IN_COLLISION", "MOVEIT_GOAL_IN_COLLISION", False, True, (_TOOL,),
     "At the goal the arm would touch something; choose another pose."),
    (-13, "GOAL_VIOLATES_PATH_CONSTRAINTS", "MOVEIT_GOAL_VIOLATES_PATH_CONSTRAINTS", False, True, (_TOOL,),
     "The goal breaks the constraints of the motion; choose another pose."),
    (-14, "GOAL_CONSTRAINTS_VIOLATED", "MOVEIT_GOAL_CONSTRAINTS_VIOLATED", False, True, (_TOOL,),
     "The arm did not end within the goal's tolerances; choose another pose."),
    (-27, "GOAL_STATE_INVALID", "MOVEIT_GOAL_STATE_INVALID", False, True, (_TOOL,),
     "The goal is not a valid position of the arm; choose another pose."),
    (-28, "UNRECOGNIZED_GOAL_TYPE", "MOVEIT_GOAL_TYPE", False, False, (_ASK,),
     "The planner cannot deal with this kind of goal."),
    (-15, "INVALID_GROUP_NAME", "MOVEIT_INVALID_GROUP_NAME", False, False, (_ASK,),
     "MoveIt knows no planning group of the configured name."),
    (-16, "INVALID_GOAL_CONSTRAINTS", "MOVEIT_INVALID_GOAL_CONSTRAINTS", False, True, (_TOOL, _ASK),
     "MoveIt could not use the goal as it was given."),
    (-17, "INVALID_ROBOT_STATE", "MOVEIT_INVALID_ROBOT_STATE", False, True, (_ASK,),
     "MoveIt does not know a usable present state of the robot."),
    (-18, "INVALID_LINK_NAME", "MOVEIT_INVALID_LINK_NAME", False, False, (_ASK,),
     "MoveIt knows no link of the configured name."),
    (-19, "INVALID_OBJECT_NAME", "MOVEIT_INVALID_OBJECT_NAME", False, True, (_ASK,),
     "MoveIt knows no object of that name in its scene."),
    (-21, "FRAME_TRANSFORM_FAILURE", "MOVEIT_FRAME", False, True, (_TOOL, _ASK),
     "A frame of the goal is unknown to the robot."),
    (-22, "COLLISION_CHECKING_UNAVAILABLE", "MOVEIT_COLLISION_CHECKING_UNAVAILABLE", True, True,
     (_SOON, _ASK),
     "MoveIt cannot check for collisions at the moment."),
    (-23, "ROBOT_STATE_STALE", "MOVEIT_ROBOT_STATE_STALE", True, True, (_SOON, _ASK),
     "The joint positions MoveIt has are missing or too old; check the joint states and the clocks."),
    (-24, "SENSOR_INFO_STALE", "MOVEIT_SENSOR_INFO_STALE", True, True, (_SOON, _ASK),
     "The sensor data MoveIt has are missing or too old."),
    (-25, "COMMUNICATION_FAILURE", "MOVEIT_COMMUNICATION_FAILURE", True, True, (_SOON, _ASK),
     "A part of MoveIt did not answer."),
    (-29, "CRASH", "MOVEIT_CRASH", True, True, (_ASK,),
     "A part of MoveIt crashed."),
    (-30, "ABORT", "MOVEIT_ABORT", True, True, (_ASK,),
     "A part of MoveIt gave up."),
    (-31, "NO_IK_SOLUTION", "MOVEIT_NO_IK", False, True, (_TOOL, "navigate_to"),
     "The arm cannot reach that pose; choose a nearer one or another orientation, or move the robot."),
]  # fmt: skip

CODES: dict[int, MoveItCode] = {row[0]: MoveItCode(*row) for row in _ROWS}
"""Every known failure. 1 (SUCCESS) is none."""


def moveit_failure(code: int, message: object = "", source: object = "", *, tool: str) -> TaskFailure:
    """A failure for ``error_code.val``. ``tool``: the tool that may be called again.

    Unknown numbers give ``MOVEIT_CODE_<n>``. ``message`` and ``source`` are quoted, cleaned and cut.
    """
    row = CODES.get(code)
    said, who = clean_text(message), clean_text(source, 60)
    quoted = f' MoveIt says{f" ({who})" if who else ""}: "{said}"' if said else ""
    if row is None:
        return TaskFailure(
            error_code=f"MOVEIT_CODE_{code}".replace("-", "MINUS_"),
            message=f"MoveIt ended the motion with code {code}, which this kit does not know.{quoted}",
            recoverable=True,
            suggestions=["get_task", _ASK],
        )
    return TaskFailure(
        error_code=row.error_code,
        message=f"{row.sentence} ({row.constant}, MoveIt code {code}.){quoted}",
        recoverable=row.recoverable,
        suggestions=[tool if word == _TOOL else word for word in row.suggestions],
    )
