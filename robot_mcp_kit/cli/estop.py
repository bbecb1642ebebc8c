"""``robot-mcp-kit estop``: latch, look, reset."""

from __future__ import annotations

import argparse

from robot_mcp_kit.cli.common import EXIT_OK
from robot_mcp_kit.cli.operator import OperatorClient, add_name_argument, add_node_arguments, approver_name

HELP = "emergency stop in software: stop everything and latch, or reset"
DESCRIPTION = """\
status: whether it is latched, and why. engage: stop everything that moves through the bridge; nothing starts
until it is reset. reset: a person has looked, and motions may start again.

This is no safety-rated emergency stop. It asks the robot's software to stop. Use the red button first."""
EPILOG = """\
examples:
  robot-mcp-kit estop engage --reason "a child on the stairs"
  robot-mcp-kit estop reset --as Ann"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("status", "engage", "reset"))
    parser.add_argument("--reason", default="", help="for engage")
    add_name_argument(parser)
    add_node_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    client = OperatorClient(args)
    if args.what == "engage":
        answer = client.call("POST", "/api/estop", {"reason": args.reason or f"by {approver_name(args)}"})
        print(f"latched: {answer['reason']}")
    elif args.what == "reset":
        answer = client.call("POST", "/api/estop/reset", {"approver": approver_name(args)})
        print(
            "it was not latched" if answer["was"] is None else f"reset; it was latched for: {answer['was']}"
        )
    else:
        estop = client.call("GET", "/api/approvals")["estop"]
        print(f"latched: {estop['reason']}" if estop["latched"] else "not latched")
    return EXIT_OK
