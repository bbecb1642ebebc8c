"""The ``robot-mcp-kit`` command: ``run``, ``sim``, ``rcp``, ``events``, ``demo``, ``doctor``,
``lint``, and for the operator ``approve``, ``reject``, ``estop``, ``audit``.

Each sub-command is a module with ``add_arguments`` and ``execute``. The modules import rclpy, mcp and rich
only inside ``execute``, so that ``--help`` and a typing mistake answer at once and on a machine that has
none of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from robot_mcp_kit.cli import approve, audit, demo, doctor, estop, events, lint, rcp, reject, run, sim
from robot_mcp_kit.cli.common import EXIT_INTERRUPTED, EXIT_USAGE, CliError, split_ros_arguments
from robot_mcp_kit.version import package_version

__all__ = ["build_parser", "main"]

_COMMANDS = {
    "run": run,
    "sim": sim,
    "rcp": rcp,
    "events": events,
    "demo": demo,
    "doctor": doctor,
    "lint": lint,
    "approve": approve,
    "reject": reject,
    "estop": estop,
    "audit": audit,
}
_TAKES_ROS_ARGUMENTS = frozenset({"run", "sim", "doctor"})


def build_parser() -> argparse.ArgumentParser:
    """The whole command line as argparse knows it."""
    parser = argparse.ArgumentParser(
        prog="robot-mcp-kit",
        description="A language model drives a ROS 2 robot through MCP, as tasks one can watch and stop.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, module in _COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(execute=module.execute)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code.

    Args:
        argv: arguments without the program's name; ``None`` takes them from ``sys.argv``.

    Returns:
        0 success, 1 the command's own failure (a check of the demo, ...), 2 wrong usage or something that
        is not installed, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    ros_arguments: list[str] = []
    if command in _TAKES_ROS_ARGUMENTS:
        arguments, ros_arguments = split_ros_arguments(arguments)
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.version:
        print(package_version())
        return 0
    if args.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    args.ros_arguments = ros_arguments
    try:
        return int(args.execute(args))
    except CliError as error:
        print(f"robot-mcp-kit {args.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
