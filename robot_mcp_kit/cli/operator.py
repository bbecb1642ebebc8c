"""What the operator's commands share: which node, whose key, one call."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robot_mcp_kit.cli.common import EXIT_FAILED, CliError

TIMEOUT_S = 10.0


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that name the node."""
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="the node's state directory (default: ROBOT_MCP_STATE_DIR, else the only one there is under "
        "~/.local/state/robot-mcp-kit)",
    )
    parser.add_argument(
        "--url",
        help="where the node answers, http://HOST:PORT, or ws://HOST:PORT (default: as it announced)",
    )


def add_name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as",
        dest="approver",
        metavar="NAME",
        default=None,
        help="who decides, for the audit trail (default: your user name)",
    )


def state_dir_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Path:
    """The state directory that is meant.

    Raises:
        CliError: none, or several; says which.
    """
    from robot_mcp_kit.safety.state_dir import STATE_DIR_VARIABLE, find_node, known_state_directories

    if args.state_dir:
        return Path(args.state_dir).expanduser()
    given = environ.get(STATE_DIR_VARIABLE, "").strip()
    if given:
        return Path(given)
    known = known_state_directories(environ)
    running = [folder for folder in known if find_node(folder) is not None]
    choice = running or known
    if len(choice) == 1:
        return choice[0]
    if not choice:
        raise CliError("no node has kept anything here yet; name its state directory with --state-dir DIR.")
    listed = "".join(f"\n  --state-dir {folder}" for folder in choice)
    raise CliError(f"there are several nodes; say which one:{listed}")


def approver_name(args: argparse.Namespace) -> str:
    """Who decides."""
    try:
        return str(args.approver or getpass.getuser())
    except (KeyError, OSError) as error:
        raise CliError("your user has no name; say who you are with --as NAME.") from error


class OperatorClient:
    """Calls the operator's API of one node.

    Args:
        args: as :func:`add_node_arguments` made them.

    Raises:
        CliError: no running node, or no key.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        from robot_mcp_kit.errors import ConfigError
        from robot_mcp_kit.safety.assemble import KEY_FILE, OPERATOR_KEY_VARIABLE, operator_key
        from robot_mcp_kit.safety.state_dir import find_node

        folder = None if args.url and os.environ.get(OPERATOR_KEY_VARIABLE) else state_dir_of(args)
        if (
            folder is not None
            and not (folder / KEY_FILE).exists()
            and not os.environ.get(OPERATOR_KEY_VARIABLE)
        ):
            raise CliError(f"{folder}: there is no operator's key; set {OPERATOR_KEY_VARIABLE}.")
        try:
            self._key = operator_key(folder or Path()).get_secret_value()
        except ConfigError as error:
            raise CliError(str(error)) from error
        self.url = args.url
        if self.url is None and folder is not None:
            node = find_node(folder)
            if node is None:
                raise CliError(f"no node runs on {folder}; start it, or give its --url.", EXIT_FAILED)
            self.url = node.url

    def call(self, method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        """One call.

        Raises:
            CliError: no answer, or a refusal, in its own words.
        """
        if self.url.startswith(("ws://", "wss://")):
            from robot_mcp_kit.cli.operator_socket import call_socket

            return call_socket(self.url, self._key, method, path, content)
        import httpx

        try:
            with httpx.Client(trust_env=False, timeout=TIMEOUT_S, follow_redirects=False) as client:
                answer = client.request(
                    method,
                    self.url + path,
                    json=content,
                    headers={"authorization": f"Bearer {self._key}"},
                )
                data = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise CliError(f"{self.url} does not answer: {error}", EXIT_FAILED) from error
        if answer.status_code != 200:
            told = (
                data.get("error", {}).get("message", answer.text) if isinstance(data, dict) else answer.text
            )
            raise CliError(str(told), EXIT_FAILED)
        return dict(data)
