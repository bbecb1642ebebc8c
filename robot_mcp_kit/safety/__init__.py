"""Between a tool call and a goal: risk, limits, interlocks, approvals, stop, audit. Pure: no ROS, no MCP.

:class:`robot_mcp_kit.safety.guard.Guard` is the one object that the bridge asks.
"""
