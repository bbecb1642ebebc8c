"""The chat app's half of the contract, as small as a test needs it: dedupe, notice gaps, reconcile by
polling.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from robot_mcp_kit.models import TaskEvent, TaskFailure, TaskInfo

CallTool = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Calls an MCP tool by name and gives its text."""


class ChatAppDouble:
    """Knows tasks from events and, where events are missing, from polling (K171).

    Args:
        call_tool: how ``get_task`` and ``list_tasks`` are reached.
    """

    def __init__(self, call_tool: CallTool) -> None:
        self._call_tool = call_tool
        self._seen: set[str] = set()
        self._last_seq: dict[str, int] = {}
        self.applied: list[TaskEvent] = []
        self.polled: list[str] = []
        self.tasks: dict[str, TaskInfo] = {}

    async def take(self, event: TaskEvent) -> bool:
        """Apply an event once; ``False`` for one that came before. A gap in ``seq`` polls the task."""
        if event.event_id in self._seen:
            return False
        self._seen.add(event.event_id)
        self.applied.append(event)
        expected = self._last_seq.get(event.task_id, 0) + 1
        self._last_seq[event.task_id] = max(event.seq, expected - 1)
        if event.seq != expected:
            await self._poll(event.task_id)
        return True

    async def _poll(self, task_id: str) -> None:
        self.polled.append(task_id)
        text = await self._call_tool("get_task", {"task_id": task_id})
        if json.loads(text) != {"error": "not_found"}:
            self.tasks[task_id] = TaskInfo.model_validate_json(text)

    async def restarted(self, expected_running: Iterable[TaskInfo]) -> None:
        """After its own restart: ask what runs; a task that has vanished counts as failed,
        SERVER_RESTARTED.
        """
        listed = json.loads(await self._call_tool("list_tasks", {"states": ["running"]}))["tasks"]
        running = {info["task_id"]: TaskInfo.model_validate(info) for info in listed}
        self.tasks.update(running)
        for info in expected_running:
            if info.task_id in running:
                continue
            text = await self._call_tool("get_task", {"task_id": info.task_id})
            if json.loads(text) == {"error": "not_found"}:
                failure = TaskFailure(
                    error_code="SERVER_RESTARTED",
                    message="The server was restarted and does not know this task.",
                )
                self.tasks[info.task_id] = info.model_copy(update={"state": "failed", "failure": failure})
            else:
                self.tasks[info.task_id] = TaskInfo.model_validate_json(text)
