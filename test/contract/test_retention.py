"""What a manager remembers, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from robot_mcp_kit import TaskContext, TaskError, TaskManager
from robot_mcp_kit.testing import CollectingPoster, settle


async def quick(ctx: TaskContext) -> dict[str, Any]:
    return {}


async def forever(ctx: TaskContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def finished(manager: TaskManager) -> str:
    info = manager.start("t", quick)
    await manager.wait(info.task_id)
    return info.task_id


async def test_two_hundred_finished_tasks_stay_readable(manager: TaskManager) -> None:
    """K99."""
    ids = [await finished(manager) for _ in range(200)]
    assert [info.task_id for info in manager.list()] == ids
    newest = await finished(manager)
    assert manager.get(ids[0]) is None
    assert [info.task_id for info in manager.list()] == [*ids[1:], newest]


async def test_the_oldest_finish_goes_first(poster: CollectingPoster) -> None:
    """K100: not the oldest start."""
    manager = TaskManager("navigation", poster, max_finished_retained=2)
    gates = [asyncio.Event() for _ in range(3)]

    def gated(gate: asyncio.Event) -> Any:
        async def body(ctx: TaskContext) -> dict[str, Any]:
            await gate.wait()
            return {}

        return body

    ids = [manager.start("t", gated(gate)).task_id for gate in gates]
    for index in (2, 0, 1):
        gates[index].set()
        await manager.wait(ids[index])
    assert [info.task_id for info in manager.list()] == [ids[0], ids[1]]


async def test_running_tasks_are_never_evicted(poster: CollectingPoster) -> None:
    """K101: they do not count."""
    manager = TaskManager("navigation", poster, max_finished_retained=1)
    running = [manager.start("t", forever).task_id for _ in range(10)]
    last = [await finished(manager) for _ in range(5)][-1]
    assert [info.task_id for info in manager.list()] == [*running, last]
    await manager.aclose()


async def test_every_ending_counts_as_finished(poster: CollectingPoster) -> None:
    """K102."""
    manager = TaskManager("navigation", poster, max_finished_retained=3)

    async def fails(ctx: TaskContext) -> dict[str, Any]:
        raise TaskError("A", "a")

    ids = []
    for body in (quick, fails, forever):
        info = manager.start("t", body)
        await settle(5)
        await manager.cancel(info.task_id)
        ids.append(info.task_id)
    assert [info.state for info in manager.list()] == ["succeeded", "failed", "cancelled"]
    for gone in ids:
        await finished(manager)
        assert manager.get(gone) is None


async def test_a_limit_of_nothing_forgets_at_once(poster: CollectingPoster) -> None:
    """K103."""
    manager = TaskManager("navigation", poster, max_finished_retained=0)
    info = manager.start("t", forever)
    assert manager.get(info.task_id) is not None
    await settle(5)
    cancelled = await manager.cancel(info.task_id)
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    assert manager.get(info.task_id) is None
    await finished(manager)
    assert manager.list() == []


def test_a_negative_limit_is_refused(poster: CollectingPoster) -> None:
    """K103."""
    with pytest.raises(ValueError, match="max_finished_retained"):
        TaskManager("navigation", poster, max_finished_retained=-1)


async def test_an_evicted_task_is_unknown_everywhere(poster: CollectingPoster) -> None:
    """K104."""
    manager = TaskManager("navigation", poster, max_finished_retained=1)
    gone = await finished(manager)
    await finished(manager)
    assert manager.get(gone) is None
    assert await manager.cancel(gone) is None
    assert manager.annotate(gone, {}) is None
    assert gone not in [info.task_id for info in manager.list()]


async def test_a_new_manager_knows_nothing_of_an_old_id(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K105."""
    old = await finished(manager)
    restarted = TaskManager("navigation", poster)
    assert restarted.get(old) is None
    assert await restarted.cancel(old) is None
    assert restarted.list() == []


async def test_listing_is_in_the_order_of_creation_and_filters(manager: TaskManager) -> None:
    """K106."""

    async def fails(ctx: TaskContext) -> dict[str, Any]:
        raise TaskError("A", "a")

    ids = [manager.start("t", body).task_id for body in (forever, quick, fails, forever, quick)]
    await settle()
    await manager.cancel(ids[3])
    assert [info.task_id for info in manager.list()] == ids
    assert [info.task_id for info in manager.list(["succeeded"])] == [ids[1], ids[4]]
    assert [info.task_id for info in manager.list(["cancelled", "running"])] == [ids[0], ids[3]]


async def test_an_empty_filter_means_none_and_an_unknown_state_is_refused(manager: TaskManager) -> None:
    """K107: never "all"."""
    await finished(manager)
    assert manager.list([]) == []
    with pytest.raises(ValueError, match=r"states.*'done'.*succeeded"):
        manager.list(["running", "done"])  # type: ignore[list-item]
