"""How a task ends, and what is then seen by polling and on the wire."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from robot_mcp_kit import TaskContext, TaskError, TaskInfo, TaskManager
from robot_mcp_kit.testing import CollectingPoster, settle

Run = Callable[[Callable[[TaskContext], Awaitable[Any]]], Awaitable[TaskInfo]]


@pytest.fixture
def run(manager: TaskManager) -> Run:
    async def run(body: Callable[[TaskContext], Awaitable[Any]]) -> TaskInfo:
        info = await manager.wait(manager.start("t", body).task_id)
        assert info is not None
        assert info.state != "running"
        return info

    return run


def raising(error: BaseException) -> Callable[[TaskContext], Awaitable[dict[str, Any]]]:
    async def body(ctx: TaskContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        raise error

    return body


async def test_a_dict_means_success(run: Run, poster: CollectingPoster) -> None:
    """K31, K40."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        return {"pose": {"x_m": 1.5}, "names": ["a"], "none": None}

    info = await run(body)
    assert info.state == "succeeded"
    assert info.result == {"pose": {"x_m": 1.5}, "names": ["a"], "none": None}
    assert info.failure is None
    assert poster.types() == ["task_done"]
    assert poster.events[0].payload == {"result": info.result}


async def test_a_task_error_means_a_structured_failure(run: Run, poster: CollectingPoster) -> None:
    """K32, K40: unwrapped on the wire."""
    info = await run(raising(TaskError("DOOR_CLOSED", "The door is closed.", suggestions=["open_door"])))
    assert info.state == "failed"
    assert info.failure is not None
    expected = {
        "error_code": "DOOR_CLOSED",
        "message": "The door is closed.",
        "recoverable": True,
        "suggestions": ["open_door"],
    }
    assert info.failure.model_dump() == expected
    assert info.result is None
    assert poster.types() == ["task_failed"]
    assert poster.events[0].payload == expected


def test_a_task_error_without_suggestions_has_none() -> None:
    """K33."""
    error = TaskError("A", "Words.", suggestions=None)
    assert error.suggestions == []
    assert str(error) == "Words."
    assert TaskError("A", "b", suggestions="ask").suggestions == ["ask"]


async def test_any_other_exception_is_internal_and_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """K34."""
    info = await run(raising(ZeroDivisionError("no")))
    assert info.failure is not None
    assert info.failure.model_dump() == {
        "error_code": "INTERNAL",
        "message": "no",
        "recoverable": False,
        "suggestions": [],
    }
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert info.task_id in record.getMessage()


async def test_an_exception_without_words_is_named_by_its_type(run: Run) -> None:
    """K35."""
    info = await run(raising(TimeoutError()))
    assert info.failure is not None
    assert info.failure.message == "TimeoutError"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_an_exception_that_cannot_be_printed_is_named_by_its_type(run: Run) -> None:
    """K35."""
    info = await run(raising(Unspeakable()))
    assert info.failure is not None
    assert info.failure.message == "Unspeakable"


@pytest.mark.parametrize("error", [TimeoutError("late"), concurrent.futures.CancelledError("pool")])
async def test_a_time_out_or_a_cancelled_pool_job_is_internal(run: Run, error: Exception) -> None:
    """K36: not cancelled."""
    info = await run(raising(error))
    assert info.state == "failed"
    assert info.failure is not None
    assert info.failure.error_code == "INTERNAL"


async def test_a_group_of_one_task_error_is_that_task_error(run: Run) -> None:
    """K37."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            group.create_task(raising(TaskError("LOST", "Lost.", recoverable=False))(ctx))
        return {}

    info = await run(body)
    assert info.failure is not None
    assert (info.failure.error_code, info.failure.recoverable) == ("LOST", False)
    nested = ExceptionGroup("a", [ExceptionGroup("b", [TaskError("DEEP", "d")])])
    info = await run(raising(nested))
    assert info.failure is not None
    assert info.failure.error_code == "DEEP"


@pytest.mark.parametrize(
    "group",
    [
        ExceptionGroup("both", [TaskError("A", "a"), ValueError("b")]),
        ExceptionGroup("two", [TaskError("A", "a"), TaskError("B", "b")]),
        ExceptionGroup("other", [ValueError("b")]),
    ],
)
async def test_any_other_group_is_internal(run: Run, group: BaseException) -> None:
    """K37."""
    info = await run(raising(group))
    assert info.failure is not None
    assert info.failure.error_code == "INTERNAL"


async def test_a_body_that_cancels_itself_by_raising_is_cancelled(run: Run, poster: CollectingPoster) -> None:
    """K38, K40: and nothing is sent."""
    info = await run(raising(asyncio.CancelledError()))
    assert (info.state, info.result, info.failure) == ("cancelled", None, None)
    assert poster.events == []


class Model(BaseModel):
    x: int = 1


@pytest.mark.parametrize(
    ("value", "name"), [(None, "NoneType"), ([1], "list"), ("text", "str"), (Model(), "Model"), (1, "int")]
)
async def test_anything_but_a_dict_is_a_failure_that_names_its_type(
    run: Run, poster: CollectingPoster, value: object, name: str
) -> None:
    """K39."""

    async def body(ctx: TaskContext) -> object:
        return value

    info = await run(body)
    assert info.failure is not None
    assert info.failure.error_code == "INTERNAL"
    assert name in info.failure.message
    assert poster.types() == ["task_failed"]


async def test_a_body_that_is_no_coroutine_function_is_a_failure(run: Run) -> None:
    """K39."""
    info = await run(lambda ctx: {"x": 1})  # type: ignore[arg-type,return-value]
    assert info.failure is not None
    assert info.failure.error_code == "INTERNAL"


async def test_nothing_comes_after_the_terminal_event(manager: TaskManager, poster: CollectingPoster) -> None:
    """K40: even if the body's helpers go on."""
    contexts: list[TaskContext] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        contexts.append(ctx)
        return {}

    info = manager.start("t", body)
    await manager.wait(info.task_id)
    await contexts[0].progress({"late": True})
    await contexts[0].emit({"late": True})
    assert poster.types() == ["task_done"]


async def test_a_body_without_an_await_ends_on_the_next_loop_turns(manager: TaskManager) -> None:
    """K41."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        return {}

    info = manager.start("t", body)
    assert info.state == "running"
    for _ in range(3):
        await asyncio.sleep(0)
    polled = manager.get(info.task_id)
    assert polled is not None
    assert polled.state == "succeeded"


async def test_polling_is_never_behind_the_wire(poster: CollectingPoster) -> None:
    """K42: looked at from inside the hand-over of each event."""
    seen: list[tuple[str, str, Any]] = []
    manager = TaskManager("navigation", poster)

    def look(event: Any) -> None:
        info = manager.get(event.task_id)
        assert info is not None
        seen.append((event.type, info.state, info.progress))

    manager.add_listener(look)

    async def good(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"n": 1})
        return {}

    await manager.wait(manager.start("t", good).task_id)
    await manager.wait(manager.start("t", raising(ValueError("x"))).task_id)
    assert seen == [
        ("progress", "running", {"n": 1}),
        ("task_done", "succeeded", {"n": 1}),
        ("task_failed", "failed", None),
    ]


async def test_two_hundred_tasks_at_once_keep_their_own_sequences(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K43."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for n in range(10):
            await ctx.progress({"n": n})
            await asyncio.sleep(0)
        return {}

    ids = [manager.start("t", body).task_id for _ in range(200)]
    for task_id in ids:
        await manager.wait(task_id)
    for task_id in ids:
        assert [e.seq for e in poster.of(task_id)] == list(range(1, 12))


async def test_no_lifecycle_leaves_an_unretrieved_exception(caplog: pytest.LogCaptureFixture) -> None:
    """K44: a whole process with warnings as errors, one task of each ending, and garbage collected."""
    program = """
import asyncio, gc, logging, sys
from robot_mcp_kit import EventPoster, TaskError, TaskManager
logging.getLogger("robot_mcp_kit").setLevel(logging.CRITICAL)
async def ok(ctx): return {}
async def fails(ctx): raise TaskError("A", "a")
async def breaks(ctx): raise ValueError("x")
async def stops(ctx): raise asyncio.CancelledError
async def waits(ctx): await asyncio.Event().wait()
async def stubborn(ctx):
    try: await asyncio.Event().wait()
    except asyncio.CancelledError: raise ValueError("teardown")
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault
    manager = TaskManager("navigation", EventPoster("navigation", ""))
    for body in (ok, fails, breaks, stops, waits, stubborn):
        info = manager.start("t", body)
        await asyncio.sleep(0.01)
        await manager.cancel(info.task_id)
    manager.start("t", waits)
    await manager.cancel(manager.start("t", waits).task_id)
    await manager.aclose()
    del manager
    gc.collect()
asyncio.run(main(), debug=True)
gc.collect()
"""
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(3)"])
def test_an_interrupt_inside_a_body_is_recorded_and_goes_on(error: str) -> None:
    """K45."""
    program = f"""
import asyncio
from robot_mcp_kit import TaskManager
from robot_mcp_kit.testing import CollectingPoster
poster = CollectingPoster()
manager = TaskManager("navigation", poster)
async def body(ctx): raise {error}
async def main():
    manager.start("t", body)
    await asyncio.sleep(60)
try:
    asyncio.run(main())
except BaseException as exc:
    (info,) = manager.list()
    print(type(exc).__name__, info.state, info.failure.error_code, poster.types())
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    name = error.split("(")[0]
    assert result.stdout == f"{name} failed INTERNAL ['task_failed']\n", result.stderr


async def test_waiting_ends_with_the_task_and_its_time_out_is_no_outcome(manager: TaskManager) -> None:
    release = asyncio.Event()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await release.wait()
        return {}

    info = manager.start("t", body)
    early = await manager.wait(info.task_id, timeout_s=0.01)
    assert early is not None
    assert early.state == "running"
    release.set()
    done = await manager.wait(info.task_id, timeout_s=10)
    assert done is not None
    assert done.state == "succeeded"
    assert await manager.wait("navi-unknown") is None


async def test_listeners_get_every_event_and_change_and_may_fail(
    manager: TaskManager, poster: CollectingPoster, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    states: list[Any] = []

    def broken(event: Any) -> None:
        raise ValueError("listener")

    manager.add_listener(broken)
    remove = manager.add_listener(events.append)
    manager.add_change_listener(lambda info: states.append((info.state, info.progress)))

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"n": 1})
        return {}

    info = manager.start("t", body)
    await manager.wait(info.task_id)
    assert events == poster.events
    assert states == [("running", None), ("running", {"n": 1}), ("succeeded", {"n": 1})]
    assert "listener" in caplog.text
    remove()
    remove()
    await manager.wait(manager.start("t", body).task_id)
    assert len(events) == 2
    await settle()
