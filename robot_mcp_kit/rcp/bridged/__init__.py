"""The Robot Context Protocol over this project's own bridge: the adapter of a ROS 2 robot, without rclpy.

What is read comes through the port :class:`robot_mcp_kit.skills.readings.RobotReadings`, in SI units; what
moves goes as a skill's goal through the bridge and its guard. Degrees and millimetres exist only in here.
"""

from robot_mcp_kit.rcp.bridged.adapter import BridgeAdapter

__all__ = ["BridgeAdapter"]
