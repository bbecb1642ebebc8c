"""Asking a server what became of its tasks (the contract's reconciliation tools)."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, cast, get_args

from pydantic import ValidationError

from robot_mcp_kit.client.calling import CallFailed, ToolCaller
from robot_mcp_kit.models import TaskInfo, TaskState

_STATES = frozenset(get_args(TaskState))


class TaskSource(abc.ABC):
    """The truth about one server's tasks. Each method raises :class:`CallFailed` when it cannot be had."""

    @abc.abstractmethod
    async def get_task(self, task_id: str) -> TaskInfo | None:
        """The task as it is, ``None`` when the server does not know it."""

    @abc.abstractmethod
    async def list_tasks(self, states: Sequence[TaskState] | None = None) -> list[TaskInfo]:
        """All tasks, or those in these states."""

    @abc.abstractmethod
    async def cancel_task(self, task_id: str) -> TaskState | None:
        """Cancel it; its state then, ``None`` when the server does not know it."""


class ToolTaskSource(TaskSource):
    """Over ``get_task``, ``list_tasks`` and ``cancel_task``.

    Args:
        server: the server's name, for messages.
        caller: calls its tools.
        timeout_s: longest wait for an answer. A cancel may take the server's grace (5 s) and is given 10 s
        more.
    """

    def __init__(self, server: str, caller: ToolCaller, *, timeout_s: float = 10.0) -> None:
        self._server = server
        self._caller = caller
        self._timeout_s = timeout_s

    async def get_task(self, task_id: str) -> TaskInfo | None:
        content = await self._ask("get_task", {"task_id": task_id})
        if content.get("error") == "not_found":
            return None
        info = self._info(content)
        if info.task_id != task_id:
            raise self._nonsense("get_task", "it answered with another task")
        return info

    async def list_tasks(self, states: Sequence[TaskState] | None = None) -> list[TaskInfo]:
        content = await self._ask("list_tasks", {} if states is None else {"states": list(states)})
        listed = content.get("tasks")
        if not isinstance(listed, list):
            raise self._nonsense("list_tasks", "it answered without a list of tasks")
        return [self._info(entry) for entry in listed]

    async def cancel_task(self, task_id: str) -> TaskState | None:
        content = await self._ask("cancel_task", {"task_id": task_id}, self._timeout_s + 10.0)
        if content.get("error") == "not_found":
            return None
        state = content.get("state")
        if state not in _STATES:
            raise self._nonsense("cancel_task", "it answered without a state")
        return cast(TaskState, state)

    async def _ask(
        self, tool: str, arguments: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        answer = await self._caller.call(tool, arguments, timeout_s=timeout_s or self._timeout_s)
        if answer.is_error:
            raise self._nonsense(tool, "it answered with an error")
        return answer.content()

    def _info(self, content: Any) -> TaskInfo:
        try:
            return TaskInfo.model_validate(content)
        except ValidationError as error:
            raise self._nonsense("TaskInfo", f"{error.error_count()} fields do not fit") from None

    def _nonsense(self, tool: str, what: str) -> CallFailed:
        return CallFailed(self._server, "unreadable_answer", f"{tool}: {what}", sent=True)
