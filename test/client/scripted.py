"""A capability server without a network: the real TaskManager behind the tool-calling port, failing on
request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit import TaskContext, TaskError, TaskManager
from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller
from robot_mcp_kit.models import TaskEvent, TaskInfo
from robot_mcp_kit.testing import CollectingPoster, FakeClock


class ScriptedServer(ToolCaller):
    """``drive`` starts a task that the test steps: :meth:`progress`, :meth:`finish`.

    Args:
        name: the server's name.
        clock: for the manager's grace.
        takes_key: whether ``drive`` is idempotent under ``idempotency_key``.
    """

    def __init__(self, name: str, clock: FakeClock, *, takes_key: bool = True) -> None:
        self.name = name
        self.clock = clock
        self.takes_key = takes_key
        self.calls: list[str] = []
        self.down = False
        """Nobody answers and nothing arrives."""
        self.lose_answers = 0
        """So many calls are carried out and their answers lost."""
        self.lose_calls = 0
        """So many calls are lost on the way, and nobody can know."""
        self.refuse: str | None = None
        self.restart()

    def restart(self) -> None:
        """A new process that remembers nothing."""
        self.poster = CollectingPoster(self.name)
        self.manager = TaskManager(self.name, self.poster, clock=self.clock)
        self.steps: dict[str, asyncio.Queue[Any]] = {}
        self.keys: dict[str, str] = {}

    @property
    def starts(self) -> int:
        """How many tasks were begun in all."""
        return len(self.manager.list())

    async def accepts(self, tool: str, argument: str) -> bool:
        if self.down:
            raise CallFailed(self.name, "unreachable", "nobody answers", sent=False)
        return self.takes_key and argument == "idempotency_key"

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        self.calls.append(tool)
        await asyncio.sleep(0)
        if self.down:
            raise CallFailed(self.name, "unreachable", "nobody answers", sent=False)
        if self.lose_calls:
            self.lose_calls -= 1
            raise CallFailed(self.name, "timeout", "no answer", sent=True)
        answer = await getattr(self, f"_{tool}")(**arguments)
        if self.lose_answers:
            self.lose_answers -= 1
            raise CallFailed(self.name, "timeout", "no answer", sent=True)
        return answer if isinstance(answer, ToolAnswer) else ToolAnswer(answer)

    async def _drive(
        self, idempotency_key: str | None = None, triggers: list[dict[str, Any]] | None = None, **_: Any
    ) -> Any:
        if self.refuse is not None:
            return ToolAnswer(self.refuse, {"error": {"field": "place"}}, is_error=True)
        if idempotency_key in self.keys:
            known = self.manager.get(self.keys[idempotency_key])
            assert known is not None
            return known.model_dump_json()
        steps: asyncio.Queue[Any] = asyncio.Queue()

        async def body(ctx: TaskContext) -> dict[str, Any]:
            while True:
                step = await steps.get()
                if isinstance(step, Exception):
                    raise step
                if step[0] == "progress":
                    await ctx.progress(step[1])
                elif step[0] == "trigger":
                    await ctx.fire_trigger(step[1], {})
                else:
                    return dict(step[1])

        info = self.manager.start("drive", body, triggers=triggers)
        self.steps[info.task_id] = steps
        if idempotency_key is not None:
            self.keys[idempotency_key] = info.task_id
        return info.model_dump_json()

    async def _get_task(self, task_id: str) -> str:
        info = self.manager.get(task_id)
        return '{"error":"not_found"}' if info is None else info.model_dump_json()

    async def _list_tasks(self, states: list[Any] | None = None) -> str:
        return json.dumps({"tasks": [info.model_dump(mode="json") for info in self.manager.list(states)]})

    async def _cancel_task(self, task_id: str) -> str:
        info = await self.manager.cancel(task_id)
        return (
            '{"error":"not_found"}' if info is None else json.dumps({"task_id": task_id, "state": info.state})
        )

    async def _look(self, **_: Any) -> str:
        return "a cup"

    def progress(self, task_id: str, **payload: Any) -> None:
        self.steps[task_id].put_nowait(("progress", payload))

    def trigger(self, task_id: str, trigger: dict[str, Any]) -> None:
        self.steps[task_id].put_nowait(("trigger", trigger))

    def finish(self, task_id: str, **result: Any) -> None:
        self.steps[task_id].put_nowait(("end", result))

    def fail(self, task_id: str) -> None:
        self.steps[task_id].put_nowait(TaskError("DOOR_CLOSED", "The door is closed."))

    def events(self, task_id: str) -> list[TaskEvent]:
        return self.poster.of(task_id)

    def info(self, task_id: str) -> TaskInfo:
        info = self.manager.get(task_id)
        assert info is not None
        return info

    def push(self, book: TaskBook, *, lose: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        """Deliver every event not yet delivered, but for the sequence numbers in ``lose``."""
        for event in self.poster.events:
            if event.seq not in lose:
                book.take_event(event)
