"""What a robot can do, as data: arguments with units, goals, feedback, results. Imports neither ROS nor
MCP.
"""
