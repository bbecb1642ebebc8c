"""The MCP tasks extension (SEP-2663) over the task manager: no second engine, another way to ask for it.

A client that declares ``io.modelcontextprotocol/tasks`` gets a task instead of a motion's first answer; all
others get the ordinary answer. The task is the contract's own: its id here is the motion's handle, which
nobody guesses and a restarted bridge still knows.

States (L42): running is ``working``, succeeded, failed and INTERNAL are ``completed`` (a robot's failure is a
result with ``isError``), cancelled is ``cancelled``. ``failed`` is for JSON-RPC errors only: a body that
raises :class:`ProtocolFailure`.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import secrets
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolRequestParams, CallToolResult, RequestParams
from mcp.types.jsonrpc import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS
from pydantic import Field

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.models import TaskInfo, format_timestamp
from robot_mcp_kit.server.answers import outcome
from robot_mcp_kit.server.handles import HandleError, Handles

logger = logging.getLogger(__name__)

TASKS = "io.modelcontextprotocol/tasks"
VERSIONS = frozenset({"2026-07-28"})
POLL_INTERVAL_MS = 500
_PROTOCOL_ERROR = "JSONRPC_"
AWAITS_APPROVAL = frozenset({"awaiting_approval", "waiting_for_approval"})
"""Phases in which a person is asked, through a channel that the requester has no part in."""


class TaskParams(RequestParams):
    """Parameters of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of ``tasks/update``."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class ProtocolFailure(TaskError):
    """Raise from a task's body to end the extension's task as ``failed`` with a JSON-RPC error."""

    def __init__(self, message: str, *, code: int = INTERNAL_ERROR) -> None:
        super().__init__(f"{_PROTOCOL_ERROR}{code}", message, recoverable=False)


class Questions:
    """What tasks ask their client. In memory: a restarted server has no body left that would listen."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, tuple[dict[str, Any], asyncio.Future[Any]]]] = {}

    async def ask(self, task_id: str, message: str, schema: dict[str, Any]) -> Any:
        """Ask and wait for the answer. Not for approvals: the requester would approve itself."""
        key = secrets.token_hex(8)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        mine = self._open.setdefault(task_id, {})
        mine[key] = ({"method": "elicitation/create", "params": params}, future)
        try:
            return await future
        finally:
            mine.pop(key, None)
            if not mine:
                self._open.pop(task_id, None)

    def of(self, task_id: str) -> dict[str, Any]:
        return {
            key: request
            for key, (request, future) in self._open.get(task_id, {}).items()
            if not future.done()
        }

    def answer(self, task_id: str, responses: dict[str, Any]) -> None:
        """Hand answers over; unknown and already answered keys are ignored."""
        for key, response in responses.items():
            found = self._open.get(task_id, {}).get(key)
            if found is not None and not found[1].done():
                found[1].set_result(response)


class TasksExtension(Extension):
    """Serves tasks of one manager.

    Args:
        handles: the tasks, their ids here, and how long they are kept.
        tools: tools whose answer names a task (``task_id`` in the structured content); or a test of a name.
        required: of those, the ones that answer only as tasks; to other clients with the missing-capability
            error (-32021).
        poll_interval_ms: suggested to clients.
        result_of: makes the final result of an ended task; the sentences of :func:`outcome` by default.
    """

    identifier = TASKS

    def __init__(
        self,
        handles: Handles,
        tools: Collection[str] | Callable[[str], bool],
        *,
        required: Collection[str] = (),
        poll_interval_ms: int = POLL_INTERVAL_MS,
        result_of: Callable[[TaskInfo], CallToolResult] | None = None,
    ) -> None:
        self.questions = Questions()
        self._handles = handles
        self._is_task_tool = tools if callable(tools) else frozenset(tools).__contains__
        self._required = frozenset(required)
        self._poll_interval_ms = poll_interval_ms
        self._result_of = result_of or (lambda info: outcome(info, handles))
        self._cancels: set[asyncio.Task[object]] = set()

    # -- tools/call ------------------------------------------------------------------------------------------

    def declared(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        """Whether this request's client knows the extension."""
        capabilities = ctx.session.client_capabilities
        known = capabilities.extensions if capabilities is not None else None
        return ctx.protocol_version in VERSIONS and bool(known) and TASKS in (known or {})

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if not self._is_task_tool(params.name):
            return await call_next(ctx)
        if not self.declared(ctx):
            if params.name in self._required:
                require_client_extension(ctx, TASKS)
            return await call_next(ctx)
        arguments = params.arguments or {}
        if "wait_s" in arguments:  # a task does not block
            params.arguments = {key: value for key, value in arguments.items() if key != "wait_s"}
        result = await call_next(ctx)
        task_id = _task_of(result)
        info = None if task_id is None else self._handles.get(task_id)
        # A call that was refused started nothing: its answer is the answer.
        return result if info is None else {"resultType": "task", **self._base(info)}

    # -- tasks/* ---------------------------------------------------------------------------------------------

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get, VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, VERSIONS),
        ]

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        return self.detailed(self._find(ctx, params))

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        self.questions.answer(self._find(ctx, params).task_id, params.input_responses)
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        info = self._find(ctx, params)
        # Acknowledged at once: a robot takes its time to stop, and the poll tells when it has.
        task = asyncio.get_running_loop().create_task(
            self._handles.manager.cancel(info.task_id), context=contextvars.Context()
        )
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)
        return {}

    def _find(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> TaskInfo:
        require_client_extension(ctx, TASKS)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "the Mcp-Name header is not the taskId of the request's body")
        try:
            return self._handles.find(params.task_id)
        except HandleError as error:
            raise MCPError(INVALID_PARAMS, f"taskId: {error.message}", {"error_code": error.code}) from error

    # -- what a task looks like ------------------------------------------------------------------------------

    def status(self, info: TaskInfo) -> str:
        """The extension's word for a task's state."""
        if info.state == "running":
            asked = self.questions.of(info.task_id) or (info.progress or {}).get("phase") in AWAITS_APPROVAL
            return "input_required" if asked else "working"
        if info.state == "cancelled":
            return "cancelled"
        return "failed" if _protocol_error(info) else "completed"

    def _base(self, info: TaskInfo) -> dict[str, Any]:
        base: dict[str, Any] = {
            "taskId": self._handles.mint(info.task_id),
            "status": self.status(info),
            "createdAt": format_timestamp(info.created_at),
            "lastUpdatedAt": format_timestamp(info.updated_at),
            "ttlMs": self._ttl_ms(info),
            "pollIntervalMs": self._poll_interval_ms,
        }
        message = _message(info)
        return {**base, "statusMessage": message} if message else base

    def _ttl_ms(self, info: TaskInfo) -> int | None:
        """From creation. Not bounded while it runs: a running motion is never forgotten."""
        expires: datetime | None = self._handles.expires_at(info)
        return None if expires is None else int((expires - info.created_at).total_seconds() * 1000)

    def detailed(self, info: TaskInfo) -> dict[str, Any]:
        """The answer of ``tasks/get``."""
        task = self._base(info)
        if task["status"] == "input_required":
            # An approval shows no request: the requester has none to answer, a person is asked elsewhere.
            task["inputRequests"] = self.questions.of(info.task_id)
        elif task["status"] == "completed":
            task["result"] = self._result_of(info).model_dump(
                by_alias=True, mode="json", exclude_none=True, exclude={"result_type"}
            )
        elif task["status"] == "failed":
            task["error"] = _protocol_error(info)
        return task


def _task_of(result: Any) -> str | None:
    """The task that a finished tool call names, unless it was refused."""
    if not isinstance(result, CallToolResult) or result.is_error:
        return None
    data = result.structured_content
    if isinstance(data, str):
        data = json.loads(data)
    task_id = data.get("task_id") if isinstance(data, dict) else None
    return task_id if isinstance(task_id, str) else None


def _protocol_error(info: TaskInfo) -> dict[str, Any] | None:
    failure = info.failure
    if failure is None or not failure.error_code.startswith(_PROTOCOL_ERROR):
        return None
    return {"code": int(failure.error_code.removeprefix(_PROTOCOL_ERROR)), "message": failure.message}


def _message(info: TaskInfo) -> str | None:
    if info.failure is not None:
        return info.failure.message
    progress = info.progress or {}
    if info.state == "cancelled":
        note = progress.get("note")
        return note if isinstance(note, str) else None
    words = [str(progress[key]) for key in ("phase", "goal") if progress.get(key)]
    if isinstance(progress.get("eta_s"), int | float):
        words.append(f"{progress['eta_s']:g} s to go")
    return ", ".join(words) or None
