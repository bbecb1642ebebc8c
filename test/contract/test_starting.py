"""Starting a task: what is there at once, and what stops a start."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from anyio import to_thread

from robot_mcp_kit import EventPoster, TaskContext, TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock, settle


async def nothing(ctx: TaskContext) -> dict[str, Any]:
    return {}


def waiting(release: asyncio.Event) -> Callable[[TaskContext], Any]:
    async def body(ctx: TaskContext) -> dict[str, Any]:
        await release.wait()
        return {}

    return body


async def test_a_task_id_begins_with_four_characters_of_the_server_name(manager: TaskManager) -> None:
    """K12."""
    assert re.fullmatch(r"navi-[0-9a-f]{6}", manager.start("t", nothing).task_id)


@pytest.mark.parametrize(("server", "front"), [("arm", "arm"), ("a", "a"), ("gripper", "grip")])
async def test_a_short_server_name_is_used_whole(server: str, front: str, poster: CollectingPoster) -> None:
    """K13."""
    manager = TaskManager(server, poster)
    assert re.fullmatch(rf"{front}-[0-9a-f]{{6}}", manager.start("t", nothing).task_id)
    await manager.aclose()


async def test_an_id_that_is_still_known_is_not_given_again(poster: CollectingPoster) -> None:
    """K14: neither a running task's nor a retained one's."""
    draws = iter(["aaaaaa", "aaaaaa", "bbbbbb", "aaaaaa", "bbbbbb", "cccccc"])
    manager = TaskManager("navigation", poster, new_suffix=lambda: next(draws))
    first = manager.start("t", nothing)
    second = manager.start("t", waiting(asyncio.Event()))
    await manager.wait(first.task_id)
    third = manager.start("t", nothing)
    assert [first.task_id, second.task_id, third.task_id] == ["navi-aaaaaa", "navi-bbbbbb", "navi-cccccc"]
    await manager.aclose()


async def test_no_id_comes_again_while_others_are_left(poster: CollectingPoster) -> None:
    """K12, K14: histories know tasks by their ids; random digits would repeat 300 times here."""
    manager = TaskManager("navigation", poster, max_finished_retained=0)
    draws = [manager._new_id() for _ in range(100_000)]
    assert len(set(draws)) == len(draws)
    assert all(re.fullmatch(r"navi-[0-9a-f]{6}", task_id) for task_id in draws)
    other = TaskManager("navigation", poster)
    assert len({other._new_id() for _ in range(100)} & set(draws[:100])) < 5


async def test_an_id_that_is_kept_elsewhere_is_not_given_again(poster: CollectingPoster) -> None:
    """K14: by the bridge's ledger, for example, which outlives the finished tasks here."""
    draws = iter(["aaaaaa", "bbbbbb"])
    manager = TaskManager("navigation", poster, new_suffix=lambda: next(draws))
    manager.avoid_ids({"navi-aaaaaa"}.__contains__)
    assert manager.start("t", nothing).task_id == "navi-bbbbbb"
    await manager.aclose()


async def test_a_generator_that_repeats_itself_stops_the_start(poster: CollectingPoster) -> None:
    """K14."""
    manager = TaskManager("navigation", poster, new_suffix=lambda: "aaaaaa")
    manager.start("t", nothing)
    with pytest.raises(RuntimeError, match="free task id"):
        manager.start("t", nothing)
    await manager.aclose()


@pytest.mark.parametrize(
    "name", ["", " ", "näv", "a\nb", "a\x00", "nav\r\nX-Evil: 1", " nav", "nav ", "a\tb", "a\x7f"]
)
def test_server_names_that_no_header_can_carry_are_refused(name: str, poster: CollectingPoster) -> None:
    """K15: by the manager and by the poster."""
    with pytest.raises(ValueError, match="server_name"):
        TaskManager(name, poster)
    with pytest.raises(ValueError, match="server_name"):
        EventPoster(name)


async def test_start_returns_before_the_body_runs(manager: TaskManager) -> None:
    """K21."""
    ran: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        ran.append(1)
        return {}

    info = manager.start("navigate_to", body, triggers=[{"type": "x"}], est_duration_s=12.5)
    assert ran == []
    assert (info.state, info.tool, info.server) == ("running", "navigate_to", "navigation")
    assert (info.triggers, info.est_duration_s) == ([{"type": "x"}], 12.5)
    await manager.wait(info.task_id)
    assert ran == [1]


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 brought eager tasks")
async def test_start_returns_before_the_body_runs_with_eager_tasks(manager: TaskManager) -> None:
    """K21."""
    ran: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        ran.append(1)
        return {}

    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    try:
        info = manager.start("t", body)
        assert ran == []
        done = await manager.wait(info.task_id)
        assert done is not None
        assert done.state == "succeeded"
    finally:
        loop.set_task_factory(None)


async def test_starting_sends_nothing_and_seq_rises_by_one_over_all_types(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K22."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({})
        await ctx.emit({})
        await ctx.fire_trigger(ctx.triggers[0])
        await ctx.progress({})
        return {}

    info = manager.start("t", body, triggers=[{"type": "x"}])
    assert poster.events == []
    await manager.wait(info.task_id)
    assert [(e.seq, e.type) for e in poster.events] == [
        (1, "progress"),
        (2, "watch_event"),
        (3, "trigger_fired"),
        (4, "progress"),
        (5, "task_done"),
    ]


async def test_the_first_start_may_come_from_a_worker_thread(manager: TaskManager) -> None:
    """K23: an MCP server runs synchronous tools so, and nothing was started on the loop before."""
    info = await to_thread.run_sync(manager.start, "t", nothing)
    assert info.state == "running"
    done = await manager.wait(info.task_id)
    assert done is not None
    assert done.state == "succeeded"


async def test_start_works_from_any_thread_once_the_loop_is_known(manager: TaskManager) -> None:
    """K23: a ROS executor's thread."""
    manager.bind_loop()
    ids: list[str] = []
    threads = [
        threading.Thread(target=lambda: ids.extend(manager.start("t", nothing).task_id for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len(set(ids)) == 200
    for task_id in ids:
        info = await manager.wait(task_id)
        assert info is not None
        assert info.state == "succeeded"


def test_start_without_any_loop_is_refused_and_leaves_nothing(poster: CollectingPoster) -> None:
    """K24."""
    manager = TaskManager("navigation", poster)
    with pytest.raises(RuntimeError, match="bind_loop"):
        manager.start("t", nothing)
    assert manager.list() == []


def test_start_from_a_thread_after_the_loop_has_ended_is_refused(poster: CollectingPoster) -> None:
    """K24."""
    manager = TaskManager("navigation", poster)

    async def main() -> None:
        manager.bind_loop()

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="loop"):
        manager.start("t", nothing)
    assert manager.list() == []


def test_a_manager_built_outside_works_in_two_runs_after_each_other(poster: CollectingPoster) -> None:
    """K24: nothing in the constructor is bound to a loop."""
    manager = TaskManager("navigation", poster)

    async def once() -> str:
        info = await manager.wait(manager.start("t", nothing).task_id)
        assert info is not None
        return info.state

    assert [asyncio.run(once()), asyncio.run(once())] == ["succeeded", "succeeded"]


async def test_two_loops_at_once_are_refused(manager: TaskManager) -> None:
    """K24: a clear error instead of futures torn between loops."""
    manager.bind_loop()

    async def elsewhere() -> None:
        manager.start("t", nothing)

    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, elsewhere())
    assert manager.list() == []


async def test_start_after_the_close_is_refused(manager: TaskManager) -> None:
    """K25."""
    await manager.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        manager.start("t", nothing)
    assert manager.list() == []


async def test_no_triggers_means_an_empty_list(manager: TaskManager) -> None:
    """K26."""
    assert manager.start("t", nothing, triggers=None).triggers == []


async def test_triggers_are_copied_at_the_start(manager: TaskManager) -> None:
    """K26: the caller's list and dictionaries are its own."""
    seen: list[Any] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        seen.extend(ctx.triggers)
        return {}

    triggers: list[dict[str, Any]] = [{"type": "zone_entered", "zone": {"name": "hall"}}]
    info = manager.start("t", body, triggers=triggers)
    triggers[0]["zone"]["name"] = "changed"
    triggers.append({"type": "more"})
    await manager.wait(info.task_id)
    polled = manager.get(info.task_id)
    assert polled is not None
    assert polled.triggers == seen == [{"type": "zone_entered", "zone": {"name": "hall"}}]


@pytest.mark.parametrize("trigger", ["eta_below", None, 5, ["type", "x"]])
async def test_a_trigger_that_is_no_object_is_refused(manager: TaskManager, trigger: Any) -> None:
    """K27: naming which one."""
    with pytest.raises(ValueError, match=r"triggers\[1\]"):
        manager.start("t", nothing, triggers=[{"type": "x"}, trigger])
    assert manager.list() == []


async def test_a_trigger_without_a_type_is_accepted_with_one_warning(
    manager: TaskManager, poster: CollectingPoster, caplog: pytest.LogCaptureFixture
) -> None:
    """K27: it never fires by itself."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for percent in range(0, 101, 10):
            await ctx.progress({"percent": percent})
        return {}

    await manager.wait(manager.start("t", body, triggers=[{"percent": 5}, {"type": 7, "percent": 5}]).task_id)
    assert "trigger_fired" not in poster.types()
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all("type" in r.getMessage() for r in warnings)


@pytest.mark.parametrize("estimate", [-1, -0.001, float("nan"), float("inf"), "5", True])
async def test_an_impossible_estimate_is_refused(manager: TaskManager, estimate: Any) -> None:
    """K28."""
    with pytest.raises(ValueError, match="est_duration_s"):
        manager.start("t", nothing, est_duration_s=estimate)
    assert manager.list() == []


@pytest.mark.parametrize("estimate", [0, 0.0, 3, 1e9, None])
async def test_a_sound_estimate_is_kept(manager: TaskManager, estimate: float | None) -> None:
    """K28."""
    assert manager.start("t", nothing, est_duration_s=estimate).est_duration_s == estimate


async def test_a_running_task_survives_garbage_collection(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K29: nobody keeps the returned info, and the body waits on something only it knows."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for _ in range(8):
            await asyncio.sleep(0)
        return {}

    for _ in range(20):
        manager.start("t", body)
    for _ in range(5):
        await asyncio.sleep(0)
        gc.collect()
    ids = [info.task_id for info in manager.list()]
    for task_id in ids:
        await manager.wait(task_id)
    assert poster.types() == ["task_done"] * 20


async def test_infos_are_detached_snapshots(manager: TaskManager) -> None:
    """K30: those of start, get, list, wait and cancel."""
    release = asyncio.Event()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"nested": {"a": 1}})
        await release.wait()
        return {"nested": {"a": 1}}

    started = manager.start("t", body, triggers=[{"type": "x", "zones": ["a"]}])
    await settle()
    for info in [started, manager.get(started.task_id), manager.list()[0]]:
        assert info is not None
        info.triggers[0]["zones"].append("changed")
        info.triggers.append({})
        if info.progress:
            info.progress["nested"]["a"] = "changed"
        info.state = "failed"
    release.set()
    done = await manager.wait(started.task_id)
    assert done is not None
    assert (done.state, done.progress, done.result) == (
        "succeeded",
        {"nested": {"a": 1}},
        {"nested": {"a": 1}},
    )
    assert done.triggers == [{"type": "x", "zones": ["a"]}]
    assert done.result is not None
    done.result["nested"]["a"] = "changed"
    cancelled = await manager.cancel(started.task_id)
    assert cancelled is not None
    assert cancelled.result == {"nested": {"a": 1}}


async def test_the_info_of_start_still_says_running_afterwards(manager: TaskManager) -> None:
    """K30."""
    info = manager.start("t", nothing)
    await manager.wait(info.task_id)
    assert info.state == "running"


async def test_the_body_runs_outside_the_requests_context(manager: TaskManager) -> None:
    """K29: nothing of the request, such as its cancel scope or log fields, reaches the body."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("request")
    variable.set("of the request")
    seen: list[str | None] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        seen.append(variable.get(None))
        return {}

    await manager.wait(manager.start("t", body).task_id)
    info = await to_thread.run_sync(manager.start, "t", body)
    await manager.wait(info.task_id)
    assert seen == [None, None]


async def test_a_request_that_is_cancelled_leaves_its_task_running(manager: TaskManager) -> None:
    """K29: a client that goes away."""
    release = asyncio.Event()
    ids: list[str] = []

    async def request() -> None:
        ids.append(manager.start("t", waiting(release)).task_id)
        await asyncio.Event().wait()

    handler = asyncio.create_task(request())
    await settle()
    handler.cancel()
    await asyncio.wait({handler})
    await settle()
    info = manager.get(ids[0])
    assert info is not None
    assert info.state == "running"
    release.set()
    done = await manager.wait(ids[0])
    assert done is not None
    assert done.state == "succeeded"


async def test_times_are_utc_and_updated_at_moves(poster: CollectingPoster) -> None:
    """K19: on progress and at the end, and never before created_at."""
    clock = FakeClock()
    manager = TaskManager("navigation", poster, wall_clock=clock.wall)
    step, release = asyncio.Event(), asyncio.Event()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await step.wait()
        await ctx.progress({})
        await release.wait()
        return {}

    info = manager.start("t", body)
    assert str(info.created_at.tzinfo) == "UTC"
    assert info.updated_at == info.created_at
    await clock.advance(5)
    step.set()
    await settle()
    reported = manager.get(info.task_id)
    assert reported is not None
    assert (reported.updated_at - info.created_at).total_seconds() == 5
    await clock.advance(5)
    release.set()
    done = await manager.wait(info.task_id)
    assert done is not None
    assert (done.updated_at - info.created_at).total_seconds() == 10
    assert done.created_at == info.created_at


async def test_a_wall_clock_that_steps_back_moves_neither_updated_at_nor_the_order(
    poster: CollectingPoster,
) -> None:
    """K19, K20."""
    clock = FakeClock()
    manager = TaskManager("navigation", poster, wall_clock=clock.wall)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"n": 1})
        clock.step_wall(-3600)
        await ctx.progress({"n": 2})
        return {}

    info = manager.start("t", body)
    done = await manager.wait(info.task_id)
    assert done is not None
    assert done.updated_at == done.created_at
    assert [(e.seq, e.type) for e in poster.events] == [(1, "progress"), (2, "progress"), (3, "task_done")]
    assert poster.events[1].ts < poster.events[0].ts
