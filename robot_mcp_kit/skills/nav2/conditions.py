"""What must hold before the base moves, as far as a sensor tells it."""

from __future__ import annotations

from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.tool_names import ToolNames
from robot_mcp_kit.skills.world import WorldSnapshot

DOCKED_CODE = "ROBOT_IS_DOCKED"


def out_of_the_dock(config: RobotConfig) -> tuple[Precondition, ...]:
    """For robots that can leave a dock and tell whether they are being charged: neither planner nor behaviors
    know of the dock, so a drive or a turn in it would push against it.
    """
    tools = ToolNames(config)
    undock = tools.find("undock")
    if undock is None or config.sensors.battery is None:
        return ()

    def check(world: WorldSnapshot, _: SkillArguments) -> str | None:
        battery = world.battery
        if battery is None or battery.charging is not True:
            return None
        return f"The robot is being charged, so it stands in its dock; leave it with {undock} first."

    # A docking server that was restarted may not know that the robot is in the dock; backing up is left then.
    ways_out = tuple(tools.suggestions(("undock", "back_up", "ask_person")))
    return (Precondition(DOCKED_CODE, "the robot is not being charged in its dock", check, ways_out),)
