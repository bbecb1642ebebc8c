"""Risk levels of the Robot Context Protocol as constants; every skill is mapped to one (R1-R7).

Configuration and adapters can raise a level, never lower it. A name that is not in the table is unknown and
refused; the protocol's own SDK would take it for GUARDED, which asks a person to approve something nobody
has judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from robot_mcp_kit.safety.names import contains, is_plain, skeleton


class RiskLevel(StrEnum):
    """Ordered from harmless to forbidden."""

    SAFE = "SAFE"
    """At once."""
    GUARDED = "GUARDED"
    """A person approves."""
    RESTRICTED = "RESTRICTED"
    """A person approves, and the interlocks must hold."""
    PROHIBITED = "PROHIBITED"
    """Never."""

    @property
    def rank(self) -> int:
        return list(RiskLevel).index(self)


ACTION_RISK: Mapping[str, RiskLevel] = MappingProxyType(
    {
        "stop": RiskLevel.SAFE,
        "read": RiskLevel.SAFE,
        "validate": RiskLevel.SAFE,
        "validate_program": RiskLevel.SAFE,
        "capture_position": RiskLevel.SAFE,
        "diff_program": RiskLevel.SAFE,
        "disable_freedrive": RiskLevel.SAFE,
        "upload_program": RiskLevel.GUARDED,
        "set_io": RiskLevel.GUARDED,
        "modify_tool_data": RiskLevel.GUARDED,
        "enable_freedrive": RiskLevel.GUARDED,
        "test_device": RiskLevel.GUARDED,
        "move_to": RiskLevel.RESTRICTED,
        "start_program": RiskLevel.RESTRICTED,
        "jog": RiskLevel.RESTRICTED,
        "home": RiskLevel.RESTRICTED,
        "vision.calibrate_hand_eye": RiskLevel.RESTRICTED,
    }
)
"""Protocol action -> level."""

PROHIBITED_ACTIONS: frozenset[str] = frozenset({"override_safety", "disable_estop", "modify_safety_config"})
"""Refused whatever anybody configures, implements or approves."""

ACTION_OF_TYPE: Mapping[str, str] = MappingProxyType(
    {
        "nav2_msgs/action/NavigateToPose": "move_to",
        "nav2_msgs/action/NavigateThroughPoses": "move_to",
        "nav2_msgs/action/FollowWaypoints": "move_to",
        "nav2_msgs/action/DockRobot": "move_to",
        "nav2_msgs/action/UndockRobot": "move_to",
        "nav2_msgs/action/Spin": "jog",
        "nav2_msgs/action/BackUp": "jog",
        "nav2_msgs/action/DriveOnHeading": "jog",
        # Stands still: the same as asking for a stop.
        "nav2_msgs/action/Wait": "stop",
        # Plans; moves nothing.
        "nav2_msgs/action/ComputePathToPose": "validate",
        "nav2_msgs/action/ComputePathThroughPoses": "validate",
        "moveit_msgs/action/MoveGroup": "move_to",
        "control_msgs/action/GripperCommand": "move_to",
        "control_msgs/action/ParallelGripperCommand": "move_to",
        # The caller's own motion program.
        "moveit_msgs/action/ExecuteTrajectory": "start_program",
        "control_msgs/action/FollowJointTrajectory": "start_program",
        # This node's own: outputs.
        "robot_mcp_kit/action/SetOutput": "set_io",
    }
)
"""Which protocol action a goal of that ROS action type is."""

OTHER_TYPES = "start_program"
"""Any other action type: something on the robot runs, and nothing more is known of it."""


class UnknownActionError(LookupError):
    """No protocol action has that name."""


def is_prohibited(name: str) -> bool:
    """Whether a name is, or contains, a prohibited action, whatever its case, spacing or alphabet."""
    return any(contains(name, action) for action in PROHIBITED_ACTIONS)


def action_named(name: str) -> str:
    """The protocol's own spelling of an action that is not prohibited, however it was written (R5).

    Raises:
        UnknownActionError: not in the table (R4).
    """
    if is_plain(name.strip()) and not is_prohibited(name):
        wanted = skeleton(name)
        for action in ACTION_RISK:
            if skeleton(action) == wanted:
                return action
    raise UnknownActionError(f'"{name[:80]}" is no action of the protocol')


def risk_of_action(name: str) -> RiskLevel:
    """The level of a protocol action by its name, however written.

    Raises:
        UnknownActionError: not in the table (R4).
    """
    return RiskLevel.PROHIBITED if is_prohibited(name) else ACTION_RISK[action_named(name)]


def risk_of_skill(
    name: str, action_name: str, action_type: str, configured: RiskLevel | str | None = None
) -> RiskLevel:
    """The level of a skill: what the protocol says of its action type, or more if configured.

    Args:
        name: tool name.
        action_name: ROS action it sends goals to.
        action_type: that action's type.
        configured: can only raise (R3).
    """
    if any(is_prohibited(part) for part in (name, action_name, action_type.rsplit("/", 1)[-1])):
        return RiskLevel.PROHIBITED
    fixed = ACTION_RISK[ACTION_OF_TYPE.get(action_type, OTHER_TYPES)]
    if configured is None:
        return fixed
    return max(fixed, RiskLevel(configured), key=lambda level: level.rank)
