"""Cancelling: the body may tear down, the caller is not kept for ever, and an accepted cancel wins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from robot_mcp_kit import TaskContext, TaskError, TaskInfo, TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock, settle

Body = Callable[[TaskContext], Awaitable[Any]]


async def forever(ctx: TaskContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def stubborn(ctx: TaskContext) -> dict[str, Any]:
    """Ignores every cancel until its test is over."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if getattr(asyncio.current_task(), "give_up", False):
                raise


@pytest.fixture
async def timed(poster: CollectingPoster, clock: FakeClock) -> TaskManager:
    """A manager with the real grace of 5 s on a clock that the test turns."""
    return TaskManager("navigation", poster, clock=clock, wall_clock=clock.wall)


async def begun(manager: TaskManager, body: Body, **options: Any) -> TaskInfo:
    """Start a task and let its body reach its first await."""
    info = manager.start("t", body, **options)
    await settle(5)
    return info


def state(manager: TaskManager, info: TaskInfo) -> str:
    polled = manager.get(info.task_id)
    assert polled is not None
    return polled.state


async def test_the_body_sees_the_cancel_and_cleans_up_and_nothing_is_sent(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K78."""
    seen: list[str] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")
        return {}

    info = await begun(manager, body)
    cancelled = await manager.cancel(info.task_id)
    assert seen == ["cancelled", "cleaned up"]
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    assert poster.events == []


async def test_the_checkpoint_raises_only_after_a_cancel_even_if_the_first_was_swallowed(
    manager: TaskManager,
) -> None:
    """K79."""
    seen: list[str] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        ctx.raise_if_cancelled()
        seen.append("not cancelled")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("swallowed")
        ctx.raise_if_cancelled()
        seen.append("never")
        return {}

    info = await begun(manager, body)
    cancelled = await manager.cancel(info.task_id)
    assert seen == ["not cancelled", "swallowed"]
    assert cancelled is not None
    assert cancelled.state == "cancelled"


async def test_an_unknown_id_is_none(manager: TaskManager) -> None:
    """K80."""
    assert await manager.cancel("navi-000000") is None


@pytest.mark.parametrize("ending", ["succeeded", "failed", "cancelled"])
async def test_cancelling_a_finished_task_changes_nothing(
    timed: TaskManager, poster: CollectingPoster, clock: FakeClock, ending: str
) -> None:
    """K81: any number of times."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        if ending == "failed":
            raise TaskError("A", "a")
        if ending == "cancelled":
            raise asyncio.CancelledError
        return {"n": 1}

    info = await begun(timed, body)
    before, count = timed.get(info.task_id), len(poster.events)
    assert before is not None
    assert before.state == ending
    await clock.advance(60)
    for _ in range(3):
        assert await timed.cancel(info.task_id) == before
    assert len(poster.events) == count


async def test_cancel_before_the_first_step_ends_cancelled(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K82: and the body never runs."""
    ran: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        ran.append(1)
        return {}

    info = manager.start("t", body)
    cancelled = await manager.cancel(info.task_id)
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    await settle()
    assert (state(manager, info), ran, poster.events) == ("cancelled", [], [])


async def test_cancel_between_scheduling_and_the_first_step_ends_cancelled(manager: TaskManager) -> None:
    """K82: the asyncio task exists, but has not begun; its own try block never sees the cancel."""
    for turns in range(4):
        info = manager.start("t", forever)
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = await manager.cancel(info.task_id)
        assert cancelled is not None
        assert cancelled.state == "cancelled"


async def test_a_task_that_somebody_else_cancels_before_its_first_step_is_cancelled(
    manager: TaskManager,
) -> None:
    """K82: not stuck in running."""
    info = manager.start("t", forever)
    await asyncio.sleep(0)
    (task,) = [t for t in asyncio.all_tasks() if info.task_id in t.get_name()]
    task.cancel()
    await settle()
    assert state(manager, info) == "cancelled"


async def test_a_teardown_of_almost_five_seconds_is_waited_for(timed: TaskManager, clock: FakeClock) -> None:
    """K83, K93: polling says running meanwhile."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(4.9)
        return {}

    info = await begun(timed, body)
    cancel = asyncio.create_task(timed.cancel(info.task_id))
    await clock.advance(4.8)
    assert not cancel.done()
    assert state(timed, info) == "running"
    await clock.advance(0.1)
    assert cancel.done()
    assert state(timed, info) == "cancelled"


async def test_a_body_that_ignores_its_cancel_is_given_up_after_five_seconds(
    timed: TaskManager, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K84."""
    info = await begun(timed, stubborn)
    cancel = asyncio.create_task(timed.cancel(info.task_id))
    await clock.advance(4.99)
    assert not cancel.done()
    await clock.advance(0.01)
    cancelled = await cancel
    assert cancelled is not None
    assert cancelled.state == "cancelled"
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert info.task_id in record.getMessage()
    await end_stubborn_bodies()


async def end_stubborn_bodies() -> None:
    for task in asyncio.all_tasks():
        if task.get_name().startswith("task navi-"):
            task.give_up = True  # type: ignore[attr-defined]
            task.cancel()
    await settle()


@pytest.mark.parametrize("later", ["return", "raise", "task error", "cancel"])
async def test_a_left_over_body_changes_nothing_any_more(
    timed: TaskManager, poster: CollectingPoster, clock: FakeClock, later: str
) -> None:
    """K85: whatever it does later."""
    release = asyncio.Event()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        await ctx.progress({"late": True})
        await ctx.emit({"late": True})
        await ctx.fire_trigger({"type": "x"})
        if later == "raise":
            raise ValueError("late")
        if later == "task error":
            raise TaskError("LATE", "late")
        if later == "cancel":
            raise asyncio.CancelledError
        return {"late": True}

    info = await begun(timed, body)
    cancel = asyncio.create_task(timed.cancel(info.task_id))
    await clock.advance(5)
    cancelled = await cancel
    release.set()
    await settle()
    assert timed.get(info.task_id) == cancelled
    assert poster.events == []


async def test_a_body_that_swallows_the_cancel_and_returns_is_cancelled(
    manager: TaskManager, poster: CollectingPoster, caplog: pytest.LogCaptureFixture
) -> None:
    """K86."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"swallowed": True}
        return {}

    info = await begun(manager, body)
    cancelled = await manager.cancel(info.task_id)
    assert cancelled is not None
    assert (cancelled.state, cancelled.result) == ("cancelled", None)
    assert poster.events == []
    assert [r.levelno for r in caplog.records if info.task_id in r.getMessage()] == [logging.WARNING]


@pytest.mark.parametrize("error", [ValueError("teardown"), TaskError("A", "teardown")])
async def test_a_body_that_raises_while_being_cancelled_is_cancelled(
    manager: TaskManager, poster: CollectingPoster, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """K87: the traceback is in the log."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            raise error
        return {}

    info = await begun(manager, body)
    cancelled = await manager.cancel(info.task_id)
    assert cancelled is not None
    assert (cancelled.state, cancelled.failure) == ("cancelled", None)
    assert poster.events == []
    assert any(r.exc_info for r in caplog.records if info.task_id in r.getMessage())


async def test_a_body_that_finished_before_keeps_its_state(manager: TaskManager) -> None:
    """K88: also when nobody had noticed yet."""
    release = asyncio.Event()

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await release.wait()
        return {"n": 1}

    info = await begun(manager, body)
    release.set()
    await asyncio.sleep(0)
    cancelled = await manager.cancel(info.task_id)
    assert cancelled is not None
    assert (cancelled.state, cancelled.result) == ("succeeded", {"n": 1})


async def test_two_cancels_at_once_tear_down_once(timed: TaskManager, clock: FakeClock) -> None:
    """K89."""
    torn_down: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            torn_down.append(1)
            await clock.sleep(1)
            torn_down.append(2)
        return {}

    info = await begun(timed, body)
    cancels = [asyncio.create_task(timed.cancel(info.task_id)) for _ in range(2)]
    await clock.advance(0.5)
    cancels.append(asyncio.create_task(timed.cancel(info.task_id)))
    await clock.advance(0.5)
    assert [i.state if (i := c.result()) else None for c in cancels] == ["cancelled"] * 3
    assert torn_down == [1, 2]


@pytest.mark.parametrize("through", ["body", "child"])
async def test_a_body_that_cancels_its_own_task_does_not_deadlock(
    timed: TaskManager, clock: FakeClock, through: str
) -> None:
    """K90: directly, or from a child that it waits for. No time passes."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        if through == "body":
            await timed.cancel(ctx.task_id)
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(timed.cancel(ctx.task_id))
        return {}

    info = await begun(timed, body)
    await settle()
    assert state(timed, info) == "cancelled"
    assert clock.now() == 0


async def test_a_canceller_that_goes_away_does_not_stop_the_cancel(
    timed: TaskManager, clock: FakeClock
) -> None:
    """K91."""
    torn_down: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(3)
            torn_down.append(1)
        return {}

    info = await begun(timed, body)
    canceller = asyncio.create_task(timed.cancel(info.task_id))
    await settle()
    canceller.cancel()
    await settle()
    assert canceller.cancelled()
    assert state(timed, info) == "running"
    await clock.advance(3)
    assert (state(timed, info), torn_down) == ("cancelled", [1])


async def test_siblings_are_untouched(manager: TaskManager) -> None:
    """K92."""
    one, two = await begun(manager, forever), await begun(manager, forever)
    await manager.cancel(one.task_id)
    assert (state(manager, one), state(manager, two)) == ("cancelled", "running")


async def test_a_cancel_from_another_thread_works(manager: TaskManager) -> None:
    """K80: from a thread with a loop of its own."""
    info = await begun(manager, forever)
    cancelled = await asyncio.to_thread(asyncio.run, manager.cancel(info.task_id))
    assert cancelled is not None
    assert cancelled.state == "cancelled"


class Robot:
    """An external controller that confirms its stop when the test says so."""

    def __init__(self) -> None:
        self.cancel_requests = 0
        self.stopped = asyncio.Event()

    async def drive(self, ctx: TaskContext, clock: FakeClock) -> dict[str, Any]:
        await ctx.progress({"distance_m": 3.0})
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancel_requests += 1
            confirm = asyncio.ensure_future(self.stopped.wait())
            bound = asyncio.ensure_future(clock.sleep(4.5))
            await asyncio.wait({confirm, bound}, return_when=asyncio.FIRST_COMPLETED)
            await ctx.progress({"distance_m": 3.0, "stop_confirmed": self.stopped.is_set()})
            confirm.cancel()
            bound.cancel()
            raise
        return {}


async def test_an_external_controller_is_asked_during_teardown_and_confirms(
    timed: TaskManager, poster: CollectingPoster, clock: FakeClock
) -> None:
    """K94: the last progress says so, and nothing but the first progress was sent."""
    robot = Robot()
    info = await begun(timed, lambda ctx: robot.drive(ctx, clock))
    cancel = asyncio.create_task(timed.cancel(info.task_id))
    await settle()
    assert robot.cancel_requests == 1
    robot.stopped.set()
    cancelled = await cancel
    assert cancelled is not None
    assert (cancelled.state, cancelled.progress) == ("cancelled", {"distance_m": 3.0, "stop_confirmed": True})
    assert poster.types() == ["progress"]


async def test_a_stop_that_is_not_confirmed_is_said_and_a_late_one_updates_the_poll(
    timed: TaskManager, poster: CollectingPoster, clock: FakeClock
) -> None:
    """K94: the state stays cancelled."""
    robot = Robot()
    info = await begun(timed, lambda ctx: robot.drive(ctx, clock))
    cancel = asyncio.create_task(timed.cancel(info.task_id))
    await clock.advance(5)
    cancelled = await cancel
    assert cancelled is not None
    assert (cancelled.state, cancelled.progress) == (
        "cancelled",
        {"distance_m": 3.0, "stop_confirmed": False},
    )
    await clock.advance(2)
    later = timed.annotate(info.task_id, {"stop_confirmed": True})
    assert later == timed.get(info.task_id)
    assert later is not None
    assert (later.state, later.progress) == ("cancelled", {"distance_m": 3.0, "stop_confirmed": True})
    assert later.updated_at > cancelled.updated_at
    assert poster.types() == ["progress"]
    assert timed.annotate("navi-000000", {}) is None
    with pytest.raises(TypeError, match="dict"):
        timed.annotate(info.task_id, [])  # type: ignore[arg-type]


async def test_closing_cancels_all_together(
    timed: TaskManager, poster: CollectingPoster, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K95, K97: twenty stubborn bodies take five seconds, not a hundred, and send nothing."""
    infos = [await begun(timed, stubborn) for _ in range(20)]
    close = asyncio.create_task(timed.aclose())
    await clock.advance(4.9)
    assert not close.done()
    await clock.advance(0.1)
    assert close.done()
    assert {state(timed, info) for info in infos} == {"cancelled"}
    assert poster.events == []
    assert len(timed.list()) == 20
    await end_stubborn_bodies()


async def test_closing_is_idempotent(timed: TaskManager, clock: FakeClock) -> None:
    """K96: empty, twice at once, and again."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(1)
        return {}

    empty = TaskManager("navigation", CollectingPoster())
    await empty.aclose()
    info = await begun(timed, body)
    closes = [asyncio.create_task(timed.aclose()) for _ in range(2)]
    await clock.advance(1)
    assert all(close.done() for close in closes)
    await timed.aclose()
    assert state(timed, info) == "cancelled"


async def test_closing_counts_tasks_that_have_not_begun(manager: TaskManager) -> None:
    """K95."""
    info = manager.start("t", forever)
    await manager.aclose()
    assert state(manager, info) == "cancelled"


async def test_closing_leaves_the_poster_open(timed: TaskManager, poster: CollectingPoster) -> None:
    """K98: its owner closes it afterwards."""
    closed: list[int] = []
    poster.aclose = lambda: closed.append(1)  # type: ignore[method-assign,assignment,return-value]
    await timed.aclose()
    assert closed == []


async def test_a_process_that_has_to_end_waits_less(timed: TaskManager, clock: FakeClock) -> None:
    """K98: the cancel is accepted all the same; a body that ignores it does not hold up the end."""
    info = await begun(timed, stubborn)
    closing = asyncio.ensure_future(timed.aclose(grace_s=1.0))
    await settle(5)
    assert not closing.done()
    await clock.advance(1.0)
    await closing
    assert state(timed, info) == "cancelled"
    for task in asyncio.all_tasks():
        if task.get_name() == f"task {info.task_id}":
            task.give_up = True  # type: ignore[attr-defined]
            task.cancel()
            await asyncio.wait({task})


async def test_a_process_that_has_to_end_waits_less_for_earlier_cancels_too(
    timed: TaskManager, clock: FakeClock
) -> None:
    """B29: a cancel that was asked for just before does not hold up the end for its own five seconds."""
    info = await begun(timed, stubborn)
    asked = asyncio.ensure_future(timed.cancel(info.task_id))
    await clock.advance(1.0)
    closing = asyncio.ensure_future(timed.aclose(grace_s=2.0))
    await clock.advance(1.9)
    assert not closing.done()
    await clock.advance(0.1)
    assert closing.done()
    assert asked.done()
    answer = asked.result()
    assert answer is not None
    assert answer.state == state(timed, info) == "cancelled"
    await end_stubborn_bodies()


async def test_the_end_of_a_process_gives_an_earlier_cancel_no_longer_than_it_had(
    timed: TaskManager, clock: FakeClock
) -> None:
    """K96."""
    info = await begun(timed, stubborn)
    asked = asyncio.ensure_future(timed.cancel(info.task_id))
    await clock.advance(4.5)
    closing = asyncio.ensure_future(timed.aclose(grace_s=3.0))
    await clock.advance(0.5)
    assert asked.done()
    assert closing.done()
    await end_stubborn_bodies()
