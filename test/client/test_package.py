"""What ``robot_mcp_kit.client`` offers, and what it needs for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

import robot_mcp_kit.client as client

BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"mcp", "mcp_types", "httpx2", "starlette", "yaml", "jsonschema"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from robot_mcp_kit import client

inbox = client.Inbox("secret", book=client.TaskBook())
receiver = client.EventReceiver(inbox, print)
receiver.close()
for name in ("Robot", "Reconciler", "Timing", "EgressPolicy", "TaskFailed"):
    getattr(client, name)
refused = []
for name in ("Supervisor", "events_app", "connect", "read_source", "McpTasks"):
    try:
        getattr(client, name)
    except ImportError as error:
        assert "robot-mcp-kit[client]" in str(error), error
        refused.append(name)
print(*refused)
"""


def test_every_name_that_is_offered_is_there() -> None:
    for name in client.__all__:
        assert getattr(client, name).__module__.startswith("robot_mcp_kit."), name
        assert name in dir(client)


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Inbx'"):
        client.Inbx  # noqa: B018


def test_the_base_install_receives_and_the_rest_says_what_it_needs() -> None:
    """A26: importing the package connects to nothing and needs neither MCP nor a web framework."""
    done = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Supervisor", "events_app", "connect", "read_source", "McpTasks"]
