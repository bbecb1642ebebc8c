"""``robot-mcp-kit sim``: the simulated robot in this process."""

from __future__ import annotations

import argparse

from robot_mcp_kit.cli.common import CliError, require_ros, ros_arguments

HELP = "start the simulated robot (real ROS 2 action servers)"
DESCRIPTION = """\
Start a simulated robot: real ROS 2 action servers over a floor plan with rooms, a door, obstacles and a dock.
It answers on navigate_to_pose, dock_robot, move_action and the others with the real message types."""
EPILOG = """\
examples:
  robot-mcp-kit sim
  robot-mcp-kit sim --real-time-factor 5
  robot-mcp-kit sim --namespace robot7 --ros-args -p door_blocked:=true"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--real-time-factor", type=float, metavar="X", help="simulated seconds a second (default: 1.0)"
    )
    parser.add_argument("--namespace", metavar="NS", help="ROS namespace of the robot (default: the root)")
    parser.add_argument("--ros-args", nargs="...", help="everything after this word goes to ROS unchanged")


def execute(args: argparse.Namespace) -> int:
    factor = args.real_time_factor
    if factor is not None and not 0 < factor <= 100:
        raise CliError(f"--real-time-factor {factor}: must be above 0 and at most 100.")
    argv = ros_arguments({"real_time_factor": factor}, namespace=args.namespace, extra=args.ros_arguments)
    require_ros("robot-mcp-kit sim")
    from robot_mcp_kit.sim.node import main

    return int(main(argv) or 0)
