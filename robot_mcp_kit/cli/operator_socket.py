"""The operator's calls to an RCP server, over its WebSocket."""

from __future__ import annotations

import json
import logging
from typing import Any

from robot_mcp_kit.cli.common import EXIT_FAILED, CliError, require

TIMEOUT_S = 10.0


def call_socket(url: str, key: str, method: str, path: str, content: dict[str, Any] | None) -> dict[str, Any]:
    """One call of the operator's API, as the server of the Robot Context Protocol has it.

    Args:
        url: ``ws://HOST:PORT``.
        key: the operator's.
        method: ``GET`` or ``POST``.
        path: of the operator's HTTP API.
        content: its JSON.

    Raises:
        CliError: no answer, or a refusal, in its own words.
    """
    require("websockets", "An RCP server", "rcp")
    given = dict(content or {})
    match method, path:
        case "GET", "/api/approvals":
            asked = "rcp.approvals"
        case "POST", "/api/approvals":
            asked = f"rcp.action.{given.pop('action')}"
            given["wait"] = False
        case "POST", "/api/estop":
            asked = "rcp.estop"
        case "POST", "/api/estop/reset":
            asked = "rcp.estop.reset"
        case _:
            raise CliError(f"an RCP server has no {path}.")
    answer = _ask(url, key, asked, given)
    if path == "/api/approvals" and method == "POST":
        decision = asked.removeprefix("rcp.action.")
        return {**answer, "decision": decision, "approver": f"operator:{given['approver']}"}
    return answer


def _ask(url: str, key: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    headers = {"Authorization": f"Bearer {key}"}
    # At debug level the library writes down the headers, and with them the key.
    quiet = logging.getLogger(__name__)
    quiet.setLevel(logging.INFO)
    try:
        with connect(
            url, additional_headers=headers, proxy=None, open_timeout=TIMEOUT_S, logger=quiet
        ) as socket:
            socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1}))
            while "id" not in (message := json.loads(socket.recv(TIMEOUT_S))):
                continue  # something began to wait at this moment
    except (OSError, WebSocketException, TimeoutError, ValueError) as error:
        raise CliError(f"{url} does not answer: {error}", EXIT_FAILED) from error
    if "error" in message:
        raise CliError(str(message["error"]["message"]), EXIT_FAILED)
    return dict(message["result"])
