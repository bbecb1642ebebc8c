"""Tasks that another process began: saved as they go, and taken over under their own ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.journal import SavedTask, TaskJournal
from robot_mcp_kit.models import TaskEvent, TaskInfo
from robot_mcp_kit.tasks import TaskContext, TaskManager
from robot_mcp_kit.testing import settle
from robot_mcp_kit.triggers import canonical_key

HALF = {"type": "progress_above", "percent": 50}
MOST = {"type": "progress_above", "percent": 90}


class Notebook(TaskJournal):
    """Keeps what was staged, and notices what was handed to the poster before it."""

    def __init__(self) -> None:
        self.staged: list[SavedTask] = []
        self.flushes = 0

    def stage(self, task: SavedTask) -> None:
        self.staged.append(task)

    def flush(self) -> None:
        self.flushes += 1

    @property
    def last(self) -> SavedTask:
        return self.staged[-1]


class Process:
    """One process's manager."""

    def __init__(self, **more: Any) -> None:
        self.events: list[TaskEvent] = []
        self.notebook = Notebook()
        self.manager = TaskManager(
            "robot", EventPoster("robot"), on_event=self.events.append, journal=self.notebook, **more
        )


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    made = Process()
    yield made
    await made.manager.aclose()


async def forever(ctx: TaskContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def saved_at_half() -> SavedTask:
    """A task of a first process that reported 60 percent."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 60})
        return await forever(ctx)

    first = Process()
    first.manager.start("count", body, triggers=[HALF, MOST], est_duration_s=9.0)
    await settle()
    found = first.notebook.last
    await first.manager.aclose()
    return found


async def test_what_is_saved_is_what_polling_shows() -> None:
    found = await saved_at_half()
    assert found.info.progress == {"percent": 60}
    assert found.seq == 2, "progress and one trigger"
    assert found.fired == (canonical_key(HALF),)
    assert found.cancel_accepted is False


async def test_an_event_is_saved_before_it_is_handed_over(process: Process) -> None:
    """After a crash no number is used twice."""
    seen: list[tuple[int, int]] = []
    process.manager.add_listener(lambda event: seen.append((event.seq, process.notebook.last.seq)))

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({})
        await ctx.emit({})
        await ctx.fire_trigger(HALF)
        return {}

    process.manager.start("count", body, triggers=[HALF])
    await settle()
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert process.notebook.last.info.state == "succeeded"
    assert process.notebook.flushes >= 4


async def test_a_running_task_goes_on_under_its_id(process: Process) -> None:
    found = await saved_at_half()
    contexts: list[TaskContext] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        contexts.append(ctx)
        await ctx.progress({"percent": 95})
        return {"counted": 10}

    taken = process.manager.adopt(found, body)
    assert taken == found.info
    await settle()
    assert contexts[0].triggers == [HALF, MOST]
    assert [(e.task_id, e.type, e.seq) for e in process.events] == [
        (found.info.task_id, "progress", 3),
        (found.info.task_id, "trigger_fired", 4),
        (found.info.task_id, "task_done", 5),
    ]
    assert process.events[1].payload["trigger"] == MOST, "the other one had fired"
    info = process.manager.get(found.info.task_id)
    assert info is not None
    assert (info.state, info.created_at, info.est_duration_s) == ("succeeded", found.info.created_at, 9.0)


async def test_an_adopted_task_can_be_cancelled(process: Process) -> None:
    found = await saved_at_half()
    process.manager.adopt(found, forever)
    await settle()
    info = await process.manager.cancel(found.info.task_id)
    assert info is not None
    assert info.state == "cancelled"
    assert process.events == []


async def test_an_adopted_body_that_fails_fails_the_task(process: Process) -> None:
    found = await saved_at_half()

    async def body(_: TaskContext) -> dict[str, Any]:
        raise TaskError("GONE", "It is gone.")

    process.manager.adopt(found, body)
    await settle()
    assert [(e.type, e.seq, e.payload["error_code"]) for e in process.events] == [("task_failed", 3, "GONE")]


async def test_an_accepted_cancel_wins_over_the_restart(process: Process) -> None:
    """K86: the body was still tearing down when its process died."""
    found = await saved_at_half()
    cancelled = SavedTask(found.info, found.seq, found.fired, cancel_accepted=True)
    assert process.manager.adopt(cancelled, forever).state == "cancelled"
    await settle()
    assert process.events == []
    assert process.notebook.last.info.state == "cancelled"


async def test_an_accepted_cancel_is_saved(process: Process) -> None:
    async def stubborn(ctx: TaskContext) -> dict[str, Any]:
        try:
            return await forever(ctx)
        finally:
            await asyncio.Event().wait()

    info = process.manager.start("count", stubborn)
    await settle()
    cancelling = asyncio.ensure_future(process.manager.cancel(info.task_id))
    await settle()
    assert process.notebook.last.cancel_accepted is True
    assert process.notebook.last.info.state == "running"
    cancelling.cancel()


async def test_finished_tasks_can_be_read_and_go_oldest_first() -> None:
    process = Process(max_finished_retained=2)
    now = datetime(2026, 6, 12, tzinfo=UTC)
    for number in range(3):
        info = TaskInfo(
            task_id=f"robo-{number}",
            server="robot",
            tool="count",
            state="succeeded",
            created_at=now,
            updated_at=now,
            result={"number": number},
        )
        process.manager.adopt(SavedTask(info, 5))
    assert [info.task_id for info in process.manager.list()] == ["robo-1", "robo-2"]
    assert process.notebook.staged == [], "nothing has changed"


async def test_adopting_is_refused_when_it_would_lose_something(process: Process) -> None:
    found = await saved_at_half()
    with pytest.raises(ValueError, match="body"):
        process.manager.adopt(found)
    process.manager.adopt(found, forever)
    with pytest.raises(ValueError, match="known already"):
        process.manager.adopt(found, forever)
    await process.manager.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        process.manager.adopt(found, forever)


async def test_what_was_handed_over_is_not_changed(process: Process) -> None:
    found = await saved_at_half()
    before = found.info.model_copy(deep=True)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 99})
        return {}

    process.manager.adopt(found, body)
    await settle()
    assert found.info == before
