"""Which tools this robot has, for advice that names only tools that exist (B19).

Tables and descriptions speak of tools by their usual names (``navigate_to``); the file may call them
otherwise, or leave them out.
"""

from __future__ import annotations

from collections.abc import Iterable

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.config import RobotConfig

USUAL_NAMES = {
    "navigate_to": "nav2_msgs/action/NavigateToPose",
    "navigate_through": "nav2_msgs/action/NavigateThroughPoses",
    "follow_waypoints": "nav2_msgs/action/FollowWaypoints",
    "spin": "nav2_msgs/action/Spin",
    "back_up": "nav2_msgs/action/BackUp",
    "drive_on_heading": "nav2_msgs/action/DriveOnHeading",
    "wait": "nav2_msgs/action/Wait",
    "dock": "nav2_msgs/action/DockRobot",
    "undock": "nav2_msgs/action/UndockRobot",
    "move_arm": "moveit_msgs/action/MoveGroup",
    "execute_trajectory": "moveit_msgs/action/ExecuteTrajectory",
    "follow_joint_trajectory": "control_msgs/action/FollowJointTrajectory",
}
"""Usual tool name to action type."""

ALWAYS = frozenset({"get_task", "cancel_task", "list_tasks", "stop", "ask_person"})
"""Advice that every bridge can follow; ``wait_s:5`` and the like (with a colon) too."""


class ToolNames:
    """The enabled skills of one robot."""

    def __init__(self, config: RobotConfig) -> None:
        enabled = {name: section for name, section in config.skills.items() if section.enabled}
        self._tools = frozenset(enabled)
        self._by_type: dict[str, str] = {}
        for name, section in enabled.items():
            self._by_type.setdefault(section.type, name)

    def find(self, usual: str) -> str | None:
        """What the tool of that usual name is called here, ``None`` if there is none."""
        if usual in self._tools:
            return usual
        return self._by_type.get(USUAL_NAMES.get(usual, ""))

    def advise(self, sentence: str, usual: str) -> str:
        """``sentence`` with the tool's name for ``{tool}`` and a space behind; ``""`` without that tool."""
        name = self.find(usual)
        return "" if name is None else sentence.format(tool=name) + " "

    def fit(self, failure: TaskFailure) -> TaskFailure:
        """The failure with suggestions that exist here, under their names here, each once."""
        return failure.model_copy(update={"suggestions": self.suggestions(failure.suggestions)})

    def suggestions(self, words: Iterable[str]) -> list[str]:
        found = [word if word in ALWAYS or ":" in word else self.find(word) for word in words]
        return list(dict.fromkeys(word for word in found if word is not None))
