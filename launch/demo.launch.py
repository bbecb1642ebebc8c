"""Start a simulated robot and the bridge that drives it.

``ros2 launch robot_mcp_kit demo.launch.py real_time_factor:=2.0``
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, LogInfo, OpaqueFunction, Shutdown
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

SHARE = FindPackageShare("robot_mcp_kit")


def generate_launch_description() -> LaunchDescription:
    """Arguments, the simulated robot, and bridge.launch.py with the description of that robot."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("namespace", default_value="", description="the robot's namespace"),
            DeclareLaunchArgument(
                "real_time_factor", default_value="1.0", description="simulated seconds a second, 0.1 to 50"
            ),
            DeclareLaunchArgument("port", default_value="8765", description="TCP port of the MCP endpoint"),
            DeclareLaunchArgument(
                "callback_url",
                default_value="",
                description="where events are posted, such as by the chat app",
            ),
            DeclareLaunchArgument(
                "log_level", default_value="info", description="debug, info, warning or error"
            ),
            DeclareLaunchArgument(
                "skills_file",
                default_value=PathJoinSubstitution([SHARE, "config", "skills.yaml"]),
                description="YAML file that describes the simulated robot",
            ),
            OpaqueFunction(function=_robot_and_bridge),
        ]
    )


def _robot_and_bridge(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    text = LaunchConfiguration("real_time_factor").perform(context)
    try:
        factor = float(text)
    except ValueError as error:
        raise ValueError(f"launch argument real_time_factor:={text}: not a number") from error
    passed_on = ("namespace", "port", "callback_url", "log_level", "skills_file")
    return [
        Node(
            package="robot_mcp_kit",
            executable="sim",
            namespace=LaunchConfiguration("namespace"),
            parameters=[{"real_time_factor": factor}],
            on_exit=[LogInfo(msg="the simulated robot has ended"), Shutdown(reason="no robot")],
            output="screen",
        ),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(PathJoinSubstitution([SHARE, "launch", "bridge.launch.py"])),
            launch_arguments={
                **{name: LaunchConfiguration(name) for name in passed_on},
                # The simulator publishes /clock unless its time is the machine's.
                "use_sim_time": "false" if factor == 1.0 else "true",
            }.items(),
        ),
    ]
