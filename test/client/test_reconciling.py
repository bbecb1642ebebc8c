"""Push is the optimisation, poll is the truth (K171), on a clock that the tests turn."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.reconciling import Reconciler, Timing
from robot_mcp_kit.client.task_source import ToolTaskSource
from robot_mcp_kit.testing import FakeClock, settle

from .scripted import ScriptedServer

TIMING = Timing()


class Rig:
    def __init__(self, path: Path | None = None) -> None:
        self.clock = FakeClock()
        self.server = ScriptedServer("arm", self.clock)
        self.path = path
        self.open()

    def open(self) -> None:
        self.book = TaskBook(self.path, wall_clock=self.clock.wall)
        self.reconciler = Reconciler(self.book, {"arm": ToolTaskSource("arm", self.server)}, clock=self.clock)

    async def drive(self) -> str:
        """A task that the book knows by its start."""
        info = await self.server.call("drive", {})
        task = self.server.info(info.content()["task_id"])
        self.book.take_info("arm", task, "call")
        return task.task_id

    def kinds(self, task_id: str) -> list[tuple[str, str]]:
        return [(u.kind, u.source) for u in self.book.updates_after(0, 10_000) if u.task_id == task_id]

    def polls(self) -> int:
        return self.server.calls.count("get_task") + self.server.calls.count("list_tasks")

    async def close(self) -> None:
        await self.reconciler.aclose()
        await self.server.manager.aclose()
        self.book.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "chat.db")
    yield rig
    await rig.close()


async def test_a_task_whose_server_never_pushes_is_polled_to_its_end(rig: Rig) -> None:
    rig.reconciler.start()
    task_id = await rig.drive()
    rig.server.progress(task_id, eta_s=5)
    await rig.clock.advance(TIMING.unpushed_s)
    rig.server.finish(task_id, place="kitchen")
    await rig.clock.advance(TIMING.unpushed_s)
    assert rig.kinds(task_id) == [("started", "call"), ("progress", "poll"), ("ended", "poll")]
    polls = rig.polls()
    await rig.clock.advance(600)
    assert rig.polls() == polls, "an ended task is asked about no more"


async def test_while_events_come_nothing_is_polled(rig: Rig) -> None:
    rig.reconciler.start()
    task_id = await rig.drive()
    for second in range(120):
        rig.server.progress(task_id, eta_s=120 - second)
        await rig.clock.advance(1.0)
        rig.server.push(rig.book)
    assert rig.polls() <= 1


async def test_after_silence_a_task_is_asked_about(rig: Rig) -> None:
    """The terminal event was lost for good."""
    rig.reconciler.start()
    task_id = await rig.drive()
    rig.server.progress(task_id, eta_s=5)
    await settle()
    rig.server.push(rig.book)
    rig.server.finish(task_id)
    await rig.clock.advance(TIMING.silence_s + 0.1)
    assert rig.kinds(task_id)[-1] == ("ended", "poll")


async def test_a_gap_is_polled_at_once(rig: Rig) -> None:
    """K171."""
    rig.reconciler.start()
    task_id = await rig.drive()
    for percent in (10, 20, 30, 40):
        rig.server.progress(task_id, percent=percent)
    await settle()
    before = rig.polls()
    rig.server.push(rig.book, lose={2, 3})
    await settle()
    assert rig.polls() == before + 1
    assert ("gap", "push") in rig.kinds(task_id)


async def test_after_a_restart_of_the_chat_app_the_running_tasks_are_listed_and_the_others_asked_for(
    rig: Rig,
) -> None:
    """K171."""
    ids = [await rig.drive() for _ in range(5)]
    await rig.reconciler.aclose()
    rig.book.close()
    rig.server.finish(ids[1], place="dock")
    rig.server.fail(ids[3])
    await settle()
    rig.server.calls.clear()

    rig.open()
    rig.reconciler.start()
    await settle()
    assert rig.server.calls == ["list_tasks", "get_task", "get_task"]
    states = {record.task_id: record.state for record in rig.book.tasks()}
    assert [states[task_id] for task_id in ids] == ["running", "succeeded", "running", "failed", "running"]


async def test_a_task_that_has_vanished_is_asked_for_twice_and_then_counts_as_failed(rig: Rig) -> None:
    """K171: SERVER_RESTARTED."""
    rig.reconciler.start()
    task_id = await rig.drive()
    await rig.server.manager.aclose()
    rig.server.restart()
    await rig.clock.advance(TIMING.unpushed_s)
    assert rig.kinds(task_id) == [("started", "call")], "its last events may be on their way"
    await rig.clock.advance(TIMING.vanished_again_s)
    record = rig.book.task("arm", task_id)
    assert record is not None
    assert record.state == "failed"
    assert record.outcome is not None
    assert record.outcome["error_code"] == "SERVER_RESTARTED"


async def test_an_end_that_is_pushed_while_a_task_seems_to_have_vanished_counts(rig: Rig) -> None:
    rig.reconciler.start()
    task_id = await rig.drive()
    rig.server.finish(task_id, place="dock")
    await settle()
    on_their_way = list(rig.server.events(task_id))
    rig.server.restart()
    await rig.clock.advance(TIMING.unpushed_s)
    for event in on_their_way:
        rig.book.take_event(event)
    await rig.clock.advance(60)
    assert rig.kinds(task_id) == [("started", "call"), ("ended", "push")]


async def test_a_server_that_cannot_be_asked_is_reported_and_so_is_its_return(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.reconciler.start()
    task_id = await rig.drive()
    rig.server.down = True
    await rig.clock.advance(300)
    assert rig.kinds(task_id) == [("started", "call"), ("unreachable", "poll")]
    record = rig.book.task("arm", task_id)
    assert record is not None
    assert record.running, "unknown is not failed"
    assert rig.polls() < 40, "asked ever more rarely"
    rig.server.down = False
    rig.server.finish(task_id)
    await rig.clock.advance(TIMING.longest_retry_s + 0.1)
    assert rig.kinds(task_id)[2:] == [("reachable", "poll"), ("ended", "poll")]
    assert caplog.text.count("cannot be asked") == 1


async def test_an_answer_that_is_no_task_is_a_failed_poll_and_no_end(rig: Rig) -> None:
    rig.reconciler.start()
    task_id = await rig.drive()

    async def nonsense(task_id: str) -> str:
        return '{"state": "succeeded"}'

    real, rig.server._get_task = rig.server._get_task, nonsense  # type: ignore[method-assign]
    await rig.clock.advance(30)
    assert ("ended", "poll") not in rig.kinds(task_id)
    rig.server._get_task = real  # type: ignore[method-assign]
    rig.server.finish(task_id)
    await rig.clock.advance(30)
    assert rig.kinds(task_id)[-1] == ("ended", "poll")


async def test_an_answer_about_another_task_is_no_answer(rig: Rig) -> None:
    first, second = await rig.drive(), await rig.drive()
    source = ToolTaskSource("arm", rig.server)
    asked = rig.server._get_task

    async def swapped(task_id: str) -> str:
        return await asked(first)

    rig.server._get_task = swapped  # type: ignore[method-assign]
    with pytest.raises(CallFailed, match="another task"):
        await source.get_task(second)


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_is_lost_doubled_or_restarted_each_task_ends_once_and_as_it_did(
    tmp_path: Path, seed: int
) -> None:
    """The merged stream, against random losses of events, doubled deliveries, outages and restarts of
    both.
    """
    dice = random.Random(seed)
    rig = Rig(tmp_path / "chat.db")
    rig.reconciler.start()
    ids = [await rig.drive() for _ in range(6)]
    lost_ids: set[str] = set()
    for _ in range(80):
        match dice.randrange(8):
            case 0 | 1:
                task_id = dice.choice(ids)
                if task_id in rig.server.steps:
                    rig.server.progress(task_id, percent=dice.randrange(100))
            case 2:
                task_id = dice.choice(ids)
                if task_id in rig.server.steps:
                    (rig.server.finish if dice.random() < 0.5 else rig.server.fail)(task_id)
            case 3:
                await settle()
                rig.server.push(rig.book, lose={dice.randrange(1, 10) for _ in range(4)})
            case 4:
                rig.server.down = dice.random() < 0.5
            case 5:
                await rig.reconciler.aclose()
                rig.book.close()
                rig.open()
                rig.reconciler.start()
            case 6 if dice.random() < 0.2:
                lost_ids |= {i for i in rig.server.steps if rig.server.info(i).state == "running"}
                await rig.server.manager.aclose()
                rig.server.restart()
            case _:
                await rig.clock.advance(dice.random() * 4)
    rig.server.down = False
    for task_id in rig.server.steps:
        rig.server.finish(task_id)
    await rig.clock.advance(120)
    for task_id in ids:
        kinds = [kind for kind, _ in rig.kinds(task_id)]
        assert kinds[0] == "started"
        assert kinds.count("started") == kinds.count("ended") == 1
        assert kinds[kinds.index("ended") + 1 :] in ([], ["corrected"])
        record = rig.book.task("arm", task_id)
        assert record is not None
        if task_id in rig.server.steps:
            assert record.state == rig.server.info(task_id).state
    await rig.close()
