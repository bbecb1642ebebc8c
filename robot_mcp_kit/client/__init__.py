"""The chat app's half: receive and verify events, know what every task does, call the robot's tools.

The inbox, the task book and the receiver need nothing but the base install. What serves or calls (the
endpoint for Starlette and FastAPI, robots, server definitions, connections) needs ``robot-mcp-kit[client]``
and is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.consumer import Consumer
from robot_mcp_kit.client.inbox import Inbox, Receipt, TaskTrack
from robot_mcp_kit.client.receiver import EventReceiver
from robot_mcp_kit.client.secrets import ServerSecrets
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.client.verifying import EventVerifier, Refused, Verdict

if TYPE_CHECKING:
    from robot_mcp_kit.client.asgi import events_app, events_route

__all__ = [
    "Consumer",
    "EventReceiver",
    "EventVerifier",
    "Inbox",
    "Receipt",
    "Refused",
    "ServerSecrets",
    "TaskBook",
    "TaskTrack",
    "TaskUpdate",
    "Verdict",
    "events_app",
    "events_route",
]

_LATER = {
    "events_app": "asgi",
    "events_route": "asgi",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_LATER[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("robot_mcp_kit"):
            raise
        raise ImportError(
            f"{name} needs {error.name}, which is not installed: pip install 'robot-mcp-kit[client]'"
        ) from error
    return getattr(module, name)
