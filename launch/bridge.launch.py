"""Start the bridge beside a robot whose action servers are already running.

``ros2 launch robot_mcp_kit bridge.launch.py skills_file:=/path/to/my_robot.yaml``

An argument that is left out does not override what ``params_file`` says.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch_ros.actions import Node

# Launch argument and node parameter of one name -> type of the parameter, description.
PARAMETERS = {
    "skills_file": (str, "YAML file that describes this robot: its actions, frames, limits, places, zones"),
    "ledger_file": (str, "file that tasks and undelivered events outlive a crash in (default: memory only)"),
    "host": (str, "address of the MCP endpoint (node's default: 127.0.0.1, this machine only)"),
    "port": (int, "TCP port of the MCP endpoint (node's default: 8765)"),
    "server_name": (str, "name of this server in events, as the chat app knows it"),
    "log_level": (str, "debug, info, warning or error"),
    "log_format": (str, "pretty or json"),
    "use_sim_time": (bool, "follow /clock instead of this machine's clock: true or false"),
}


def generate_launch_description() -> LaunchDescription:
    """Arguments and the node."""
    arguments = [
        DeclareLaunchArgument(
            "params_file", default_value="", description="ROS parameter file for the bridge"
        ),
        DeclareLaunchArgument(
            "namespace",
            default_value="",
            description="the robot's namespace, where its relative action names are",
        ),
        DeclareLaunchArgument(
            "callback_url",
            default_value="",
            description="where events are posted (default: RVC_CALLBACK_URL; the secret: RVC_EVENT_SECRET)",
        ),
    ]
    for name, (_, description) in PARAMETERS.items():
        arguments.append(DeclareLaunchArgument(name, default_value="", description=description))
    return LaunchDescription([*arguments, OpaqueFunction(function=_bridge)])


def _bridge(context: LaunchContext) -> list[Node]:
    given = {name: value for name, value in context.launch_configurations.items() if value != ""}
    values = {name: _value(name, given[name]) for name in PARAMETERS if name in given}
    parameters = [given["params_file"]] if "params_file" in given else []
    if values:
        parameters.append(values)
    return [
        Node(
            package="robot_mcp_kit",
            executable="bridge",
            namespace=given.get("namespace", ""),
            parameters=parameters,
            additional_env={"RVC_CALLBACK_URL": given["callback_url"]} if "callback_url" in given else {},
            output="screen",
        )
    ]


def _value(name: str, text: str) -> str | int | bool:
    kind = PARAMETERS[name][0]
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"launch argument {name}:={text}: say true or false")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError as error:
        raise ValueError(f"launch argument {name}:={text}: not a number") from error
