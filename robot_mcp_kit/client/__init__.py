"""The chat app's half: receive and verify events, know what every task does, call the robot's tools.

The inbox, the task book and the receiver need nothing but the base install. Everything else is imported when
it is first used; what serves or calls (the endpoint for Starlette and FastAPI, server definitions,
connections) needs ``robot-mcp-kit[client]``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.consumer import Consumer
from robot_mcp_kit.client.inbox import Inbox, Receipt, TaskTrack
from robot_mcp_kit.client.orchestrating import Orchestrator, Step
from robot_mcp_kit.client.receiver import EventReceiver
from robot_mcp_kit.client.secrets import ServerSecrets
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.client.verifying import EventVerifier, Refused, Verdict

if TYPE_CHECKING:
    from robot_mcp_kit.client.activation import Admission, ApprovalAdmission, Workspace
    from robot_mcp_kit.client.admitting import Host
    from robot_mcp_kit.client.approvals import Approver, Identity, SqliteApprovals
    from robot_mcp_kit.client.asgi import events_app, events_route
    from robot_mcp_kit.client.authenticating import Authenticator
    from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller
    from robot_mcp_kit.client.catalog import Catalog
    from robot_mcp_kit.client.egress import EgressPolicy
    from robot_mcp_kit.client.failures import Backoff
    from robot_mcp_kit.client.materializing import materialize
    from robot_mcp_kit.client.mcp_tasks import McpTasks
    from robot_mcp_kit.client.reconciling import Reconciler, Timing
    from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError
    from robot_mcp_kit.client.resolution import resolve
    from robot_mcp_kit.client.robot import (
        NotATask,
        Robot,
        StartRefused,
        StartUnknown,
        StopNotConfirmed,
        TaskFailed,
        TaskHandle,
        TaskOutcome,
    )
    from robot_mcp_kit.client.session import RobotSession, ToolCallError, connect
    from robot_mcp_kit.client.sources import Tier, document_source, read_source
    from robot_mcp_kit.client.stdio_transport import StdioAuthority
    from robot_mcp_kit.client.supervisor import Supervisor
    from robot_mcp_kit.client.task_source import TaskSource, ToolTaskSource

__all__ = [
    "Admission",
    "ApprovalAdmission",
    "Approver",
    "Authenticator",
    "Backoff",
    "CallFailed",
    "Catalog",
    "Consumer",
    "EgressPolicy",
    "EventReceiver",
    "EventVerifier",
    "FailureClass",
    "Host",
    "Identity",
    "Inbox",
    "McpTasks",
    "NotATask",
    "Orchestrator",
    "Receipt",
    "Reconciler",
    "Refusal",
    "Refused",
    "RefusedError",
    "Robot",
    "RobotSession",
    "ServerSecrets",
    "SqliteApprovals",
    "StartRefused",
    "StartUnknown",
    "StdioAuthority",
    "Step",
    "StopNotConfirmed",
    "Supervisor",
    "TaskBook",
    "TaskFailed",
    "TaskHandle",
    "TaskOutcome",
    "TaskSource",
    "TaskTrack",
    "TaskUpdate",
    "Tier",
    "Timing",
    "ToolAnswer",
    "ToolCallError",
    "ToolCaller",
    "ToolTaskSource",
    "Verdict",
    "Workspace",
    "connect",
    "document_source",
    "events_app",
    "events_route",
    "materialize",
    "read_source",
    "resolve",
]

_LATER = {
    "Admission": "activation",
    "ApprovalAdmission": "activation",
    "Workspace": "activation",
    "Host": "admitting",
    "Approver": "approvals",
    "Identity": "approvals",
    "SqliteApprovals": "approvals",
    "events_app": "asgi",
    "events_route": "asgi",
    "Authenticator": "authenticating",
    "CallFailed": "calling",
    "ToolAnswer": "calling",
    "ToolCaller": "calling",
    "Catalog": "catalog",
    "EgressPolicy": "egress",
    "Backoff": "failures",
    "materialize": "materializing",
    "McpTasks": "mcp_tasks",
    "Reconciler": "reconciling",
    "Timing": "reconciling",
    "FailureClass": "refusals",
    "Refusal": "refusals",
    "RefusedError": "refusals",
    "resolve": "resolution",
    "NotATask": "robot",
    "Robot": "robot",
    "StartRefused": "robot",
    "StartUnknown": "robot",
    "StopNotConfirmed": "robot",
    "TaskFailed": "robot",
    "TaskHandle": "robot",
    "TaskOutcome": "robot",
    "RobotSession": "session",
    "ToolCallError": "session",
    "connect": "session",
    "Tier": "sources",
    "document_source": "sources",
    "read_source": "sources",
    "StdioAuthority": "stdio_transport",
    "Supervisor": "supervisor",
    "TaskSource": "task_source",
    "ToolTaskSource": "task_source",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
