"""A ROS domain that nobody else on this machine uses right now.

Demos, tests and benchmarks must never meet a real robot or each other: each takes a domain of its own and
limits discovery to this machine. Imports no ROS.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# 1..100: usable with every default port range on Linux (domain 0 is everybody's default, above 101 collides
# with ephemeral ports).
_DOMAINS = range(1, 101)


@contextlib.contextmanager
def reserved_domain() -> Iterator[int]:
    """Reserve a ROS domain id until the block ends (an advisory lock on a file in the temporary directory).

    Raises:
        RuntimeError: all of them are taken.
    """
    start = os.getpid() % len(_DOMAINS)
    for offset in range(len(_DOMAINS)):
        domain = _DOMAINS[(start + offset) % len(_DOMAINS)]
        path = Path(tempfile.gettempdir()) / f"robot-mcp-kit-domain-{domain}.lock"
        with open(path, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise RuntimeError("no free ROS domain: 100 robot-mcp-kit processes seem to run on this machine")


@functools.cache
def _state_folders() -> Path:
    """Of this process; gone at its end."""
    folder = Path(tempfile.mkdtemp(prefix="robot-mcp-kit-state-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_state_numbers = itertools.count(1)


def _fresh_state_folder() -> str:
    return str(_state_folders() / str(next(_state_numbers)))


def isolated_environment(domain_id: int) -> dict[str, str]:
    """This process's environment with a ROS domain of its own, discovery limited to this machine, and a
    state directory that no other call gets (unless ``ROBOT_MCP_STATE_DIR`` is set).
    """
    return {
        # A bridge keeps its audit trail and its keys there; nobody writes two bridges' into one.
        "ROBOT_MCP_STATE_DIR": _fresh_state_folder(),
        **os.environ,
        "ROS_DOMAIN_ID": str(domain_id),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "PYTHONUNBUFFERED": "1",
    }
