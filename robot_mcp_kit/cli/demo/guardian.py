"""Ends the demo's children when the demo itself was killed and could not do it. Standard library only.

Reads lines from standard input: process ids to remember, or ``done``. When the input ends without ``done``,
the parent is gone: every remembered process is terminated, and killed if it is still there five seconds
later. The parent's death is seen at once, so an id cannot have been given to another process meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

KINDNESS_S = 5.0


def main(lines: Iterable[str] | None = None) -> int:
    """Watch until the end of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides, by closing the pipe
    children: list[int] = []
    for line in sys.stdin if lines is None else lines:
        word = line.strip()
        if word == "done":
            return 0
        children.append(int(word))
    for child in children:
        _send(child, signal.SIGTERM)
    deadline_s = time.monotonic() + KINDNESS_S
    while any(_alive(child) for child in children) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    for child in children:
        _send(child, signal.SIGKILL)
    return 0


def _send(child: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(child, number)


def _alive(child: int) -> bool:
    try:
        os.kill(child, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
