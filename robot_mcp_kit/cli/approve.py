"""``robot-mcp-kit approve`` and ``reject``: a person decides about a motion."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from robot_mcp_kit.cli.common import EXIT_FAILED, EXIT_OK, CliError
from robot_mcp_kit.cli.operator import (
    OperatorClient,
    add_name_argument,
    add_node_arguments,
    approver_name,
    state_dir_of,
)

HELP = "show what waits for a person, and approve it"
DESCRIPTION = """\
Without an argument: show which motions wait for a person. With the id of one: let it happen, once, exactly as
shown. With --standing: sign a permission in advance and give it to the node (from its next start on)."""
EPILOG = """\
examples:
  robot-mcp-kit approve
  robot-mcp-kit approve 3f9a11c2
  robot-mcp-kit approve 3f9a11c2 --as "Ann, shift lead"
  robot-mcp-kit approve --standing night-tour.yaml

A standing approval is a YAML file:
  id: night-tour
  operator: Ann
  robot: demo_robot              # robot.name of the skills file
  skills: [navigate_to]
  place: {frame: map, polygon_m: [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}
  hours: {start: "20:00", end: "05:00"}     # UTC
  not_after: 2026-12-31T23:59:59Z
  max_count: 100

The operator's key is read from the environment (ROBOT_MCP_OPERATOR_KEY) or from the node's state
directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("approval_id", nargs="?", help="id (or token) of the request")
    parser.add_argument("--standing", metavar="FILE", help="sign this standing approval for the node")
    parser.add_argument("--reason", default="", help="for the audit trail")
    add_name_argument(parser)
    add_node_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    if args.standing:
        if args.approval_id:
            raise CliError("give either the id of a request or --standing, not both.")
        return _sign(args)
    if not args.approval_id:
        return show(OperatorClient(args))
    return decide(args, "approve")


def decide(args: argparse.Namespace, action: str) -> int:
    """Approve or reject one request."""
    client = OperatorClient(args)
    token = _token_of(client, args.approval_id)
    content = {"action": action, "token": token, "approver": approver_name(args), "reason": args.reason}
    answer = client.call("POST", "/api/approvals", content)
    print(f"{answer['decision']}: task {answer['task_id']}, by {answer['approver']}")
    return EXIT_OK


def show(client: OperatorClient) -> int:
    """List what waits."""
    state = client.call("GET", "/api/approvals")
    estop = state["estop"]
    if estop["latched"]:
        print(f"EMERGENCY STOP latched: {estop['reason']}  (robot-mcp-kit estop reset)")
    if not state["approvals"]:
        print("nothing waits for a person")
    for pending in state["approvals"]:
        print("\n".join(_lines(pending)))
    return EXIT_OK


def _lines(pending: dict[str, Any]) -> list[str]:
    who = pending["requester"]
    lines = [
        f"{pending['approval_id']}  {pending['risk']}  {pending['skill']}: {pending['goal']}",
        f"    asked by {who['client'] or who['surface']} (session {who['session'][:12]}), task "
        f"{pending['task_id']}, {pending['expires_in_s']:.0f} s left",
        f"    goal {pending['goal_sha256'][:16]}",
    ]
    if pending["note"]:
        lines.append(f"    no standing approval covers it: {pending['note']}")
    return lines


def _token_of(client: OperatorClient, wanted: str) -> str:
    waiting = client.call("GET", "/api/approvals")["approvals"]
    found = [
        pending
        for pending in waiting
        if wanted == pending["token"] or (len(wanted) >= 4 and pending["approval_id"].startswith(wanted))
    ]
    if len(found) == 1:
        return str(found[0]["token"])
    if found:
        raise CliError(f"{wanted} begins several ids: {', '.join(one['approval_id'] for one in found)}.")
    known = ", ".join(one["approval_id"] for one in waiting) or "nothing waits"
    raise CliError(f"no request {wanted} waits for a person ({known}).", EXIT_FAILED)


def _sign(args: argparse.Namespace) -> int:
    from robot_mcp_kit.errors import ConfigError
    from robot_mcp_kit.safety.assemble import STANDING_FOLDER, operator_key, read_standing, write_standing
    from robot_mcp_kit.safety.standing import sign

    folder = state_dir_of(args)
    try:
        approval = sign(read_standing(Path(args.standing)), operator_key(folder).get_secret_value())
        target = folder / STANDING_FOLDER / f"{approval.id}.yaml"
        target.parent.mkdir(exist_ok=True, mode=0o700)
        write_standing(approval, target)
    except ConfigError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{folder}: cannot be written: {error.strerror or error}", EXIT_FAILED) from error
    print(f"{target}\n{approval.id} holds for {approval.robot} from the node's next start on")
    return EXIT_OK
