"""``robot-mcp-kit reject``: a person says no to a motion."""

from __future__ import annotations

import argparse

from robot_mcp_kit.cli import approve
from robot_mcp_kit.cli.operator import add_name_argument, add_node_arguments

HELP = "say no to a motion that waits for a person"
DESCRIPTION = "Refuse a motion that waits: it does not happen, and its task fails as rejected."
EPILOG = """\
examples:
  robot-mcp-kit reject 3f9a11c2 --reason "people in the corridor\""""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("approval_id", help="id (or token) of the request")
    parser.add_argument(
        "--reason", default="", help="told to the one that asked, and kept in the audit trail"
    )
    add_name_argument(parser)
    add_node_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    return approve.decide(args, "reject")
