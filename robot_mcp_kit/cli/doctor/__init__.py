"""``robot-mcp-kit doctor``: one screen that says what is wrong (B40).

Looks, and changes nothing: no goal is sent, no file is written, no event is posted (unless asked to).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robot_mcp_kit.cli.common import EXIT_FAILED, EXIT_OK, CliError, existing_file

if TYPE_CHECKING:
    from robot_mcp_kit.cli.doctor.report import Line

HELP = "look at everything the bridge needs, and say what is wrong"
DESCRIPTION = """\
Check ROS 2, the middleware, interfaces and action servers of the skills file, the robot's pose, the event
receiver with its signature and clock, the endpoint's port and token, the ledger's file and disks. Each line
is ok, a warning or FAILED, with what to do. Run it with the options and the environment of `run`; nothing
moves and nothing is changed. Exit code: 0 nothing FAILED, 1 something did, 2 wrong usage."""
EPILOG = """\
examples:
  robot-mcp-kit doctor --skills skills.yaml
  robot-mcp-kit doctor --skills skills.yaml --namespace robot7 --json
  systemd-run --pty -p User=robot-mcp -p EnvironmentFile=/etc/robot-mcp-kit/bridge.env \\
      robot-mcp-kit doctor --skills /etc/robot-mcp-kit/skills.yaml"""


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at; as ``run`` would be started."""

    skills: str | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    namespace: str = ""
    server_name: str = "robot"
    ledger: str | None = None
    timeout_s: float = 5.0
    min_free_mb: float = 200.0
    test_event: bool = False
    ros_arguments: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--skills", metavar="FILE", help="the robot's YAML; its actions are looked for")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address of the MCP endpoint (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8765, help="its TCP port (default: 8765)")
    parser.add_argument("--namespace", default="", metavar="NS", help="ROS namespace of the node")
    parser.add_argument(
        "--server-name",
        default="robot",
        metavar="NAME",
        help="as the chat app knows this server (default: robot)",
    )
    parser.add_argument("--ledger", metavar="FILE", help="the file that goals are written down in")
    parser.add_argument(
        "--timeout",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="longest look for action servers and the pose (default: 5)",
    )
    parser.add_argument(
        "--min-free-mb",
        type=float,
        default=200.0,
        metavar="MB",
        help="disk space that must be free (default: 200)",
    )
    parser.add_argument(
        "--test-event",
        action="store_true",
        help="post a real event (type watch_event, tool doctor) instead of a signed request that is none",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--ros-args", nargs="...", help="everything after this word goes to ROS unchanged")


def execute(args: argparse.Namespace) -> int:
    if not 0 <= args.port <= 65535:
        raise CliError(f"--port {args.port}: must be from 0 to 65535.")
    if not 0 < args.timeout <= 600:
        raise CliError(f"--timeout {args.timeout:g}: must be above 0 and at most 600 seconds.")
    options = Options(
        skills=existing_file(args.skills, "--skills") if args.skills else None,
        host=args.host,
        port=args.port,
        namespace=args.namespace,
        server_name=args.server_name,
        ledger=args.ledger,
        timeout_s=args.timeout,
        min_free_mb=args.min_free_mb,
        test_event=args.test_event,
        ros_arguments=tuple(args.ros_arguments),
    )
    from robot_mcp_kit.cli.doctor.report import any_failed, as_data, show

    lines = examine(options, os.environ)
    if args.json:
        print(json.dumps(as_data(lines)))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        show(lines, columns=shutil.get_terminal_size((100, 40)).columns, colour=colour)
    return EXIT_FAILED if any_failed(lines) else EXIT_OK


def examine(options: Options, environment: Mapping[str, str]) -> list[Line]:
    """Every check, in the order they are shown. Blocks for up to about half a minute."""
    from robot_mcp_kit.cli.doctor.callback import check_events
    from robot_mcp_kit.cli.doctor.machine import (
        check_disk,
        check_endpoint,
        check_ledger,
        check_packages,
        check_token,
    )

    endpoint, bridge_runs = check_endpoint(options.host, options.port, environment)
    return [
        *_robot(options, environment),
        check_packages(),
        *check_events(environment, options.server_name, test_event=options.test_event),
        endpoint,
        check_token(options.host, environment),
        check_ledger(options.ledger, bridge_runs=bridge_runs),
        check_disk(options.ledger, options.min_free_mb, environment),
    ]


def _robot(options: Options, environment: Mapping[str, str]) -> list[Line]:
    from robot_mcp_kit.cli.doctor.report import any_failed, skipped

    unseen = ("middleware", "interfaces", "graph", "servers", "pose")
    if importlib.util.find_spec("yaml") is None:
        return [skipped(name, "needs the package yaml: see packages") for name in ("ROS 2", *unseen)]
    from robot_mcp_kit.cli.doctor.ros import check_domain, check_ros, check_skills, ros_lines
    from robot_mcp_kit.ros.facts import Question

    found, domain = check_ros(environment), check_domain(environment)
    skills, config = check_skills(options.skills)
    if any_failed([found, domain]):
        why = "not looked at: needs ROS 2" if found.level == "FAILED" else "not looked at: see domain"
        return [found, domain, skills, *(skipped(name, why) for name in unseen)]
    question = Question(
        skills_file=None if config is None else options.skills,
        namespace=options.namespace,
        ros_arguments=list(options.ros_arguments),
        wait_s=options.timeout_s,
    )
    ros, middleware, *rest = ros_lines(question, config, environment)
    return [ros, middleware, domain, skills, *rest]
