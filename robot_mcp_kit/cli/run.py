"""``robot-mcp-kit run``: the bridge node in this process."""

from __future__ import annotations

import argparse
from pathlib import Path

from robot_mcp_kit.cli.common import existing_file, require, require_ros, ros_arguments

HELP = "start the bridge: the ROS 2 node with its MCP endpoint"
DESCRIPTION = """\
Start the bridge node in this process: it offers the robot's skills as MCP tools and turns calls into ROS 2
goals.
The same as `ros2 run robot_mcp_kit bridge`; every option sets the node parameter of that name."""
EPILOG = """\
examples:
  robot-mcp-kit run --skills config/skills.yaml
  robot-mcp-kit run --skills skills.yaml --namespace robot7 --port 8766
  robot-mcp-kit run --skills skills.yaml --ros-args -p use_sim_time:=true --log-level debug

RVC_CALLBACK_URL and RVC_EVENT_SECRET in the environment say where events go and how they are signed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--skills", metavar="FILE", help="YAML that names the robot's actions, places and limits"
    )
    parser.add_argument("--host", help="address of the MCP endpoint (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, help="TCP port of the MCP endpoint (default: 8765; 0 = any free one)"
    )
    parser.add_argument(
        "--stdio",
        action="store_true",
        default=None,
        help="speak MCP on standard input and output instead of HTTP (for a client that starts the server)",
    )
    parser.add_argument(
        "--ledger",
        metavar="FILE",
        help="file that tasks and events outlive a crash in (default: memory only)",
    )
    parser.add_argument("--namespace", metavar="NS", help="ROS namespace of the node (default: the root)")
    parser.add_argument(
        "--log-format", choices=("pretty", "json"), help="log lines on stderr (default: pretty)"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="least severe line shown (default: info)",
    )
    parser.add_argument("--ros-args", nargs="...", help="everything after this word goes to ROS unchanged")


def execute(args: argparse.Namespace) -> int:
    argv = node_argv(args)
    require_ros("robot-mcp-kit run")
    require("mcp", "The MCP endpoint", "mcp")
    from robot_mcp_kit.node.main import main

    return main(argv)


def node_argv(args: argparse.Namespace) -> list[str]:
    """The node's own arguments for these options (no program name)."""
    skills = existing_file(args.skills, "--skills") if args.skills else None
    return ros_arguments(
        {
            "skills_file": skills,
            "ledger_file": None if args.ledger is None else str(Path(args.ledger).expanduser().resolve()),
            "host": args.host,
            "port": args.port,
            "stdio": args.stdio,
            "log_format": args.log_format,
            "log_level": args.log_level,
        },
        namespace=args.namespace,
        extra=args.ros_arguments,
    )
