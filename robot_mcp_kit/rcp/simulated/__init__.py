"""A simulated robot for those without one: six joints that take their time, signals, programs, tools."""

from robot_mcp_kit.rcp.simulated.robot import SimulatedAdapter

__all__ = ["SimulatedAdapter"]
