"""A simulated robot made of real ROS 2 action servers: the embedded default, and what tests run against.

Pure modules (no rclpy): ``floorplan``, ``planner``, ``drive``, ``arm``, ``gripper``, ``battery``, ``world``,
``clock``, ``faults``, ``process``. The others are the ROS side. Start it with ``python -m
robot_mcp_kit.sim``.
"""
