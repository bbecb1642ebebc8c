"""``robot-mcp-kit events``: a small verifying receiver for signed task events."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from robot_mcp_kit.cli.common import EXIT_FAILED, EXIT_OK, CliError, parse_address, require

if TYPE_CHECKING:
    from robot_mcp_kit.client.inbox import Inbox, Receipt
    from robot_mcp_kit.client.receiver import EventReceiver

DEFAULT_ADDRESS = "127.0.0.1:8000"
SECRET_VARIABLE = "RVC_EVENT_SECRET"  # noqa: S105 - the variable's name

HELP = "receive, verify and show signed events"
DESCRIPTION = """\
Listen for task events at POST /api/agent/events, as the chat app does: check the signature, the clock (both
ways) and the server's name, count each event once, report missing sequence numbers. Requests that cannot be
verified are answered 401 and the reason is shown. Ctrl-C ends with a summary."""
EPILOG = """\
examples:
  export RVC_EVENT_SECRET=$(openssl rand -hex 32)
  robot-mcp-kit events --listen 127.0.0.1:8000
  RVC_CALLBACK_URL=http://127.0.0.1:8000/api/agent/events robot-mcp-kit run --skills skills.yaml

The secret is read from the environment, never from the command line, where other users of the machine can
see it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        nargs="?",
        const=DEFAULT_ADDRESS,
        default=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help=f"address to listen on (default: {DEFAULT_ADDRESS}; port 0 = any free one, shown at the start)",
    )
    parser.add_argument(
        "--secret-env",
        default=SECRET_VARIABLE,
        metavar="NAME",
        help=f"environment variable that holds the shared secret (default: {SECRET_VARIABLE})",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line on standard output, no bars"
    )


def execute(args: argparse.Namespace) -> int:
    secret = os.environ.get(args.secret_env, "")
    if not secret.strip():
        raise CliError(
            f"the environment variable {args.secret_env} is empty or not set. Give it the secret that the "
            f"robot's server has, for example: export {args.secret_env}=$(openssl rand -hex 32)"
        )
    host, port = parse_address(args.listen)
    if not args.json:
        require("rich", "The live view", "mcp")
    from robot_mcp_kit.client.inbox import Inbox
    from robot_mcp_kit.client.receiver import EventReceiver

    inbox = Inbox(secret)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def listening(show: Callable[[Receipt], None]) -> EventReceiver:
        def shown_or_refused(receipt: Receipt) -> None:
            # Shown before it is acknowledged: what the sender counts as delivered has been seen here.
            try:
                show(receipt)
            except BrokenPipeError:
                stop.set()
                raise

        try:
            return EventReceiver(inbox, shown_or_refused, host=host, port=port)
        except OSError as error:
            raise CliError(
                f"cannot listen on {host}:{port}: {error.strerror or error}", EXIT_FAILED
            ) from error

    run = _run_json if args.json else _run_board
    run(listening, inbox, stop)
    return EXIT_OK


Listening = Callable[[Callable[["Receipt"], None]], "EventReceiver"]


def _run_json(listening: Listening, inbox: Inbox, stop: threading.Event) -> None:
    def write(content: dict[str, object]) -> None:
        print(json.dumps(content), flush=True)

    try:
        receiver = listening(lambda receipt: write(receipt_json(receipt)))
        write({"listening": receiver.url})
        with receiver:
            stop.wait()
        write({"summary": summary(inbox)})
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to do. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_board(listening: Listening, inbox: Inbox, stop: threading.Event) -> None:
    from rich.console import Console

    from robot_mcp_kit.cli.board import TaskBoard

    console = Console(highlight=False, soft_wrap=True)
    with TaskBoard(console) as board:
        receiver = listening(board.show)
        board.say(f"listening at {receiver.url}", "bold")
        with receiver:
            stop.wait()
    for line in summary_lines(inbox):
        console.print(line, markup=False)


def receipt_json(receipt: Receipt) -> dict[str, object]:
    """One line of ``--json``."""
    if receipt.event is None:
        return {"verified": False, "status": receipt.status, "reason": receipt.reason}
    return {
        "verified": True,
        "duplicate": receipt.duplicate,
        "missing_seq": list(receipt.gap),
        "late": receipt.late,
        "event": receipt.event.model_dump(mode="json"),
    }


def summary(inbox: Inbox) -> dict[str, object]:
    """Counts, and for each task what is still missing."""
    return {
        "accepted": inbox.accepted_count,
        "duplicates": inbox.duplicate_count,
        "refused": inbox.refused_count,
        "tasks": [
            {
                "task_id": track.task_id,
                "server": track.server,
                "tool": track.tool,
                "received": track.received,
                "highest_seq": track.highest_seq,
                "missing_seq": sorted(track.missing),
                "ended": track.ended,
            }
            for track in inbox.tasks()
        ],
    }


def summary_lines(inbox: Inbox) -> list[str]:
    lines = [
        f"{inbox.accepted_count} events accepted, {inbox.duplicate_count} duplicates, "
        f"{inbox.refused_count} refused"
    ]
    for track in inbox.tasks():
        missing = f", missing {sorted(track.missing)}" if track.missing else ", none missing"
        ended = "" if track.ended else ", no terminal event"
        lines.append(f"  {track.task_id} {track.tool}: {track.received} events{missing}{ended}")
    return lines
