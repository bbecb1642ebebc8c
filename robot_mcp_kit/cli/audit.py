"""``robot-mcp-kit audit``: check the trail, and read it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from robot_mcp_kit.cli.common import EXIT_FAILED, EXIT_OK, CliError
from robot_mcp_kit.cli.operator import state_dir_of

HELP = "verify or show the audit trail"
DESCRIPTION = """\
verify: read every record, check the chain of hashes and its end, and say which requests have no known end.
Exit code 1 if anything was changed, removed or cut off. show: the records, one a line.

Works with and without a running node."""
EPILOG = """\
examples:
  robot-mcp-kit audit verify
  robot-mcp-kit audit show --task robot-3f9a11
  robot-mcp-kit audit show --json | jq 'select(.event == "decided")'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("verify", "show"))
    parser.add_argument("--task", metavar="ID", help="show: only what belongs to this task")
    parser.add_argument("--last", type=int, metavar="N", help="show: only the last N records")
    parser.add_argument("--json", action="store_true", help="the records (or the verdict) as JSON")
    parser.add_argument("--state-dir", metavar="DIR", help="the node's state directory")


def execute(args: argparse.Namespace) -> int:
    from robot_mcp_kit.safety.assemble import AUDIT_FOLDER

    folder = state_dir_of(args) / AUDIT_FOLDER
    return _verify(args, folder) if args.what == "verify" else _show(args, folder)


def _key(state_dir: Path) -> bytes | None:
    from robot_mcp_kit.errors import ConfigError
    from robot_mcp_kit.safety.assemble import KEY_FILE, OPERATOR_KEY_VARIABLE, operator_key
    from robot_mcp_kit.safety.audit_verify import audit_key

    if not os.environ.get(OPERATOR_KEY_VARIABLE) and not (state_dir / KEY_FILE).exists():
        return None
    try:
        return audit_key(operator_key(state_dir).get_secret_value())
    except ConfigError as error:
        raise CliError(str(error)) from error


def _verify(args: argparse.Namespace, folder: Path) -> int:
    from robot_mcp_kit.safety.audit import AuditError
    from robot_mcp_kit.safety.audit_verify import verify

    try:
        found = verify(folder, _key(folder.parent))
    except (AuditError, OSError) as error:
        raise CliError(str(error), EXIT_FAILED) from error
    if args.json:
        verdict = {
            "ok": found.ok,
            "records": found.records,
            "files": found.files,
            "faults": [str(fault) for fault in found.faults],
            "notes": found.notes,
            "open": found.open,
        }
        print(json.dumps(verdict))
    else:
        print("\n".join(found.lines()))
    return EXIT_OK if found.ok else EXIT_FAILED


def _show(args: argparse.Namespace, folder: Path) -> int:
    from robot_mcp_kit.safety.audit_verify import one_line, records

    found = list(records(folder))
    if not found:
        raise CliError(f"{folder}: there is no audit trail", EXIT_FAILED)
    if args.task:
        requests = {record.get("request") for record in found if record.get("task_id") == args.task}
        found = [record for record in found if record.get("request") and record["request"] in requests]
    if args.last is not None:
        found = found[-args.last :] if args.last > 0 else []
    for record in found:
        print(json.dumps(record) if args.json else one_line(record))
    return EXIT_OK
