"""The chat app or the ledger is out of reach while the robot moves: the motion does not care."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.outbox import DEFAULT_MAX_EVENTS
from robot_mcp_kit.skills.base import GoalStatus

from .conftest import nav_feedback, nav_result, settle
from .lives import World, hold_retries, locked, told

KITCHEN = {"place": "kitchen"}
QUARTER_HOUR_S = 900


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


async def test_a_quarter_of_an_hour_without_the_chat_app_loses_no_outcome(world: World) -> None:
    """B27: polling has the truth all the time, what waits is bounded, and it comes in order, each once."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.chat.deaf = True
    known = len(world.chat.of(info.task_id))
    for second in range(1, QUARTER_HOUR_S + 1):
        if second <= QUARTER_HOUR_S // 2:
            goal.feedback(nav_feedback(float(second), 100.0 - second / 10, x_m=second / 100))
        elif second == QUARTER_HOUR_S // 2 + 1:
            goal.feedback(nav_feedback(float(second), 0.1, x_m=10.0))
            goal.finish(GoalStatus.SUCCEEDED, nav_result())
        await world.pass_time(1.0)
        if second == QUARTER_HOUR_S // 2:
            progress = life.info(info.task_id).progress
            assert progress is not None
            assert progress["distance_m"] == pytest.approx(100.0 - second / 10, abs=0.2), "polling knows"
    assert life.info(info.task_id).state == "succeeded"
    assert len(world.chat.of(info.task_id)) == known, "nothing came meanwhile"
    waiting = [body["event_id"] for body in told(world, life, info.task_id)]
    assert known < len(waiting) <= DEFAULT_MAX_EVENTS
    world.chat.deaf = False
    for _ in range(QUARTER_HOUR_S):
        await world.pass_time(1.0)
        if world.chat.of(info.task_id, "task_done"):
            break
    events = world.chat.of(info.task_id)
    assert [event.event_id for event in events] == [
        event_id for event_id in waiting if event_id in world.chat.events
    ]
    assert len(events) > known + QUARTER_HOUR_S // 4, "given up is only what was tried for ten minutes"
    assert events[-1].type == "task_done"
    assert life.poster.statistics().queued == 0


async def test_a_ledger_damaged_under_a_running_bridge_refuses_starts_and_nothing_else(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """B28: fail closed; what runs goes on, and can be stopped."""
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    for end in ("", "-wal"):
        file = life.path.with_name(life.path.name + end)
        with file.open("r+b") as raw:
            raw.write(b"\xff" * file.stat().st_size)
    life.file.connection.execute("PRAGMA shrink_memory")  # or its own copy of the pages would do for a while
    with pytest.raises(TaskError) as refused:
        await life.bridge.start("navigate_to", KITCHEN)
    assert refused.value.error_code == "BRIDGE_LEDGER_UNAVAILABLE"
    assert world.port.requests("send") == [goal.goal_id], "nothing was sent"
    for second in range(1, 6):
        goal.feedback(nav_feedback(float(second), 10.0 - second, x_m=float(second)))
        await world.pass_time(1.0)
    progress = life.info(info.task_id).progress
    assert progress is not None
    assert progress["distance_m"] == pytest.approx(5.0)
    report = await life.bridge.stop("that is enough")
    assert report.all_confirmed is True
    assert world.port.requests("cancel") == [goal.goal_id]
    assert life.info(info.task_id).state == "cancelled"
    assert "cannot be written" in caplog.text


async def test_while_another_program_writes_to_the_ledger_the_bridge_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B28, B22: starts are refused; progress, polling and a stop do not even try to write; then all is there,
    in order.
    """
    life = world.begin()
    info = await life.bridge.start("navigate_to", KITCHEN)
    goal = await world.port.next_goal()
    await settle()
    world.chat.deaf = True
    retries = hold_retries(monkeypatch)
    statements: list[str] = []
    with locked(life.path):
        goal.feedback(nav_feedback(1.0, 10.0, x_m=1.0))
        await world.pass_time(1.0)
        life.file.connection.set_trace_callback(statements.append)
        for second in range(2, 12):
            goal.feedback(nav_feedback(float(second), 12.0 - second, x_m=float(second)))
            await world.pass_time(1.0)
        progress = life.info(info.task_id).progress
        assert progress is not None
        assert progress["distance_m"] == pytest.approx(1.0)
        report = await life.bridge.stop("that is enough")
        assert report.all_confirmed is True
        assert world.port.requests("cancel") == [goal.goal_id]
        assert life.info(info.task_id).state == "cancelled"
        assert {statement.split()[0] for statement in statements} <= {"SELECT"}
        with pytest.raises(TaskError) as refused:
            await life.bridge.start("navigate_to", KITCHEN)
        assert refused.value.error_code == "BRIDGE_LEDGER_UNAVAILABLE"
        assert world.port.requests("send") == [goal.goal_id], "nothing was sent"
        assert retries.pending() == 1
    retries.fire()
    assert retries.pending() == 0
    seqs = [body["seq"] for body in told(world, life, info.task_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) > 5
    assert life.ledger.open_rows() == []
    assert [(task.info.task_id, task.info.state) for task in life.ledger.ended_tasks(10)] == [
        (info.task_id, "cancelled")
    ]
    assert caplog.text.count("cannot be written") == 1
    assert caplog.text.count("can be written again") == 1
