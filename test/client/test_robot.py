"""Starting, following, cancelling and finding again, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.reconciling import Reconciler
from robot_mcp_kit.client.robot import (
    NotATask,
    Robot,
    StartRefused,
    StartUnknown,
    StopNotConfirmed,
    TaskFailed,
)
from robot_mcp_kit.client.task_source import ToolTaskSource
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.testing import FakeClock, settle

from .scripted import ScriptedServer


class Rig:
    """A chat app's half that can be killed and opened again over the same server."""

    def __init__(self, path: Path, *, takes_key: bool = True) -> None:
        self.path = path
        self.clock = FakeClock()
        self.server = ScriptedServer("arm", self.clock, takes_key=takes_key)
        self.open()

    def open(self) -> None:
        self.book = TaskBook(self.path, wall_clock=self.clock.wall)
        self.reconciler = Reconciler(self.book, {"arm": ToolTaskSource("arm", self.server)}, clock=self.clock)
        self.reconciler.start()
        self.robot = Robot(
            "arm", self.server, self.book, self.reconciler, clock=self.clock, wall_clock=self.clock.wall
        )
        # A real manager dates its tasks by the real clock.
        self.robot._wall_clock = lambda: 0.0

    async def kill(self) -> None:
        """Nothing is said to anybody."""
        await self.reconciler.aclose()
        self.book.close()

    async def close(self) -> None:
        await self.kill()
        await self.server.manager.aclose()

    async def only_task(self) -> str:
        async with asyncio.timeout(20):
            while not self.server.manager.list():
                await asyncio.sleep(0)
        (info,) = self.server.manager.list()
        return info.task_id


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "chat.db")
    yield rig
    await rig.close()


@pytest.fixture
async def keyless(tmp_path: Path) -> AsyncIterator[Rig]:
    """Over a server that knows no idempotency key, as the contract alone has it."""
    rig = Rig(tmp_path / "chat.db", takes_key=False)
    yield rig
    await rig.close()


async def test_a_run_tells_its_progress_and_returns_the_result(rig: Rig) -> None:
    progress: list[dict[str, Any]] = []
    kinds: list[str] = []

    async def on_update(update: TaskUpdate) -> None:
        kinds.append(update.kind)

    running = asyncio.create_task(
        rig.robot.run("drive", place="kitchen", on_progress=progress.append, on_update=on_update)
    )
    task_id = await rig.only_task()
    rig.server.progress(task_id, eta_s=9)
    rig.server.trigger(task_id, {"type": "eta_below", "seconds": 10})
    await settle()
    rig.server.push(rig.book)
    rig.server.finish(task_id, place="kitchen")
    await settle()
    rig.server.push(rig.book)
    outcome = await asyncio.wait_for(running, 20)
    assert outcome.result == {"place": "kitchen"}
    assert progress == [{"eta_s": 9}]
    assert kinds == ["started", "progress", "trigger_fired", "ended"]


async def test_a_failed_task_cannot_be_taken_for_a_success(rig: Rig) -> None:
    running = asyncio.create_task(rig.robot.run("drive"))
    rig.server.fail(await rig.only_task())
    await rig.clock.advance(3)
    with pytest.raises(TaskFailed, match="DOOR_CLOSED") as caught:
        await running
    assert caught.value.outcome.state == "failed"


async def test_cancelling_the_run_cancels_the_task(rig: Rig) -> None:
    running = asyncio.create_task(rig.robot.run("drive"))
    task_id = await rig.only_task()
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rig.server.info(task_id).state == "cancelled"
    record = rig.book.task("arm", task_id)
    assert record is not None
    assert record.state == "cancelled"


async def test_cancelling_while_the_start_is_on_its_way_cancels_what_it_has_started(rig: Rig) -> None:
    gate = asyncio.Event()
    real = rig.server._drive

    async def slow(**arguments: Any) -> Any:
        answer = await real(**arguments)
        await gate.wait()
        return answer

    rig.server._drive = slow  # type: ignore[method-assign]
    running = asyncio.create_task(rig.robot.run("drive"))
    task_id = await rig.only_task()
    running.cancel()
    await settle()
    assert not running.done(), "first the task must be stopped"
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rig.server.info(task_id).state == "cancelled"


async def test_a_callback_that_raises_stops_the_task(rig: Rig) -> None:
    def broken(_: dict[str, Any]) -> None:
        raise KeyError("oops")

    running = asyncio.create_task(rig.robot.run("drive", on_progress=broken))
    task_id = await rig.only_task()
    rig.server.progress(task_id, eta_s=9)
    await settle()
    rig.server.push(rig.book)
    with pytest.raises(KeyError):
        await asyncio.wait_for(running, 20)
    assert rig.server.info(task_id).state == "cancelled"


async def test_ceasing_to_wait_does_not_touch_the_task(rig: Rig) -> None:
    handle = await rig.robot.start("drive")
    waiting = asyncio.create_task(handle.wait())
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await settle()
    assert rig.server.info(handle.task_id).state == "running"
    rig.server.finish(handle.task_id)
    await rig.clock.advance(3)
    assert (await handle.wait()).state == "succeeded"


async def test_a_task_is_found_again_by_its_id_after_a_crash(rig: Rig) -> None:
    handle = await rig.robot.start("drive")
    await rig.kill()
    rig.server.finish(handle.task_id, place="kitchen")
    await settle()
    rig.open()
    outcome = await asyncio.wait_for(rig.robot.task(handle.task_id).wait(), 20)
    assert outcome.result == {"place": "kitchen"}


async def test_a_task_of_somebody_else_can_be_followed(rig: Rig) -> None:
    foreign = (await rig.server.call("drive", {})).content()["task_id"]
    with pytest.raises(LookupError):
        rig.robot.task(foreign)
    handle = await rig.robot.adopt(foreign)
    rig.server.finish(foreign)
    await rig.clock.advance(3)
    assert (await handle.wait()).state == "succeeded"
    with pytest.raises(LookupError):
        await rig.robot.adopt("arm-000000")


@pytest.mark.parametrize("takes_key", [True, False])
@pytest.mark.parametrize("lost", ["answer", "call"])
async def test_a_lost_answer_starts_nothing_twice_and_a_lost_call_is_made_good(
    tmp_path: Path, takes_key: bool, lost: str
) -> None:
    """Never a doubled grasp."""
    rig = Rig(tmp_path / "chat.db", takes_key=takes_key)
    if lost == "answer":
        rig.server.lose_answers = 1
    else:
        rig.server.lose_calls = 1
    starting = asyncio.create_task(rig.robot.start("drive", place="kitchen"))
    await rig.clock.advance(5)
    handle = await asyncio.wait_for(starting, 20)
    assert rig.server.starts == 1
    assert rig.server.manager.list()[0].task_id == handle.task_id
    await rig.close()


@pytest.mark.parametrize("takes_key", [True, False])
@pytest.mark.parametrize("arrived", [True, False])
async def test_killed_between_the_call_and_its_answer_the_chat_app_finds_out(
    tmp_path: Path, takes_key: bool, arrived: bool
) -> None:
    rig = Rig(tmp_path / "chat.db", takes_key=takes_key)
    if arrived:
        rig.server.lose_answers = 100
    else:
        rig.server.lose_calls = 100
    starting = asyncio.create_task(rig.robot.start("drive", idempotency_key="mission/1"))
    await settle()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await rig.kill()
    rig.server.lose_answers = rig.server.lose_calls = 0
    rig.open()
    first = await rig.robot.start("drive", idempotency_key="mission/1")
    again = await rig.robot.start("drive", idempotency_key="mission/1")
    assert first.task_id == again.task_id
    assert rig.server.starts == 1
    await rig.close()


async def test_when_it_cannot_be_known_which_task_is_ours_nothing_is_started(keyless: Rig) -> None:
    keyless.server.lose_answers = 1
    starting = asyncio.create_task(keyless.robot.start("drive"))
    await settle()
    await keyless.server._drive()  # and somebody else starts one, too
    await keyless.clock.advance(5)
    with pytest.raises(StartUnknown) as caught:
        await starting
    assert len(caught.value.candidates) == 2
    assert keyless.server.starts == 2


async def test_a_start_that_never_reached_the_server_says_so(rig: Rig) -> None:
    rig.server.down = True
    with pytest.raises(CallFailed) as caught:
        await rig.robot.start("drive")
    assert not caught.value.sent


async def test_a_start_whose_fate_stays_unknown_says_so(rig: Rig) -> None:
    rig.server.lose_calls = 100
    starting = asyncio.create_task(rig.robot.start("drive", idempotency_key="mission/1"))
    await rig.clock.advance(60)
    with pytest.raises(StartUnknown, match="not known whether it has begun"):
        await starting
    assert rig.server.calls.count("drive") <= 4


async def test_a_refusal_names_the_tools_reason_and_leaves_the_key_free(rig: Rig) -> None:
    rig.server.refuse = "place: no such place; there are kitchen, dock"
    with pytest.raises(StartRefused, match="kitchen") as caught:
        await rig.robot.start("drive", idempotency_key="m/1", place="attic")
    assert caught.value.details == {"error": {"field": "place"}}
    rig.server.refuse = None
    await rig.robot.start("drive", idempotency_key="m/1", place="kitchen")


async def test_a_tool_that_starts_no_task_is_told_apart(rig: Rig) -> None:
    with pytest.raises(NotATask):
        await rig.robot.start("look")


async def test_one_key_is_one_call(rig: Rig) -> None:
    await rig.robot.start("drive", idempotency_key="m/1", place="kitchen")
    with pytest.raises(ArgumentError, match="idempotency_key"):
        await rig.robot.start("drive", idempotency_key="m/1", place="dock")


async def test_a_cancel_is_repeated_until_it_is_confirmed(rig: Rig) -> None:
    handle = await rig.robot.start("drive")
    rig.server.lose_calls = 2
    cancelling = asyncio.create_task(handle.cancel())
    await rig.clock.advance(5)
    assert await asyncio.wait_for(cancelling, 20) == "cancelled"
    assert handle.outcome().state == "cancelled"


async def test_a_stop_that_cannot_be_delivered_is_never_called_one(rig: Rig) -> None:
    handle = await rig.robot.start("drive")
    rig.server.down = True
    cancelling = asyncio.create_task(handle.cancel())
    await rig.clock.advance(60)
    with pytest.raises(StopNotConfirmed, match="may still move"):
        await cancelling
    assert handle.record.running


async def test_cancelling_a_finished_task_tells_how_it_ended(rig: Rig) -> None:
    handle = await rig.robot.start("drive")
    rig.server.finish(handle.task_id, place="kitchen")
    await settle()
    assert await handle.cancel() == "succeeded"
    assert handle.outcome().result == {"place": "kitchen"}
