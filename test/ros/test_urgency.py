"""What may wait on the way between the rclpy thread and the loop, and what may not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from robot_mcp_kit.skills.base import GoalStatus

pytestmark = pytest.mark.ros
BOUND_S = 30.0


@pytest.fixture
async def port(ros_side: Any, scripted_server: Any) -> Any:
    made = await ros_side.ports.create("/test_urgency", "test_msgs/action/Fibonacci")
    assert await made.wait_for_server(BOUND_S)
    return made


async def test_a_cancel_does_not_wait_behind_a_busy_rclpy_thread(
    port: Any, scripted_server: Any, ros_side: Any
) -> None:
    """B20, B22: the request reaches the server while the rclpy thread still has something else to do."""
    goal_id = uuid4()
    assert (await port.send_goal(goal_id, {"order": 3})).accepted
    await scripted_server.wait("goal", goal=goal_id.hex)
    let_go = threading.Event()
    ros_side.thread.post(lambda: let_go.wait(BOUND_S))
    try:
        cancelling = asyncio.create_task(port.cancel_goal(goal_id))
        await scripted_server.wait("cancel", goal=goal_id.hex)
        assert not cancelling.done(), "its answer comes by the thread that was kept busy"
    finally:
        let_go.set()
    assert (await asyncio.wait_for(cancelling, BOUND_S)).canceling
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "canceled"})
    assert (await port.get_result(goal_id)).status == GoalStatus.CANCELED


async def test_feedback_that_came_before_the_result_is_told_before_it(
    port: Any, scripted_server: Any
) -> None:
    """B13: although feedback travels in batches and a result does not."""
    goal_id = uuid4()
    told: list[int] = []
    port.watch(goal_id, on_feedback=lambda message: told.append(message.sequence[0]))
    assert (await port.send_goal(goal_id, {"order": 3})).accepted
    scripted_server.tell(do="feedback", goal=goal_id.hex, count=50)
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "succeed", "sequence": [1]})
    assert (await port.get_result(goal_id)).status == GoalStatus.SUCCEEDED
    assert told == sorted(told)
    assert len(told) == 50


async def test_what_is_handed_over_soon_runs_once_in_order_and_at_the_latest_when_asked_for(
    ros_side: Any,
) -> None:
    ran: list[int] = []

    def from_the_rclpy_thread() -> None:
        for number in range(5):
            ros_side.thread.hand_over_soon(lambda number=number: ran.append(number))

    await ros_side.thread.call(from_the_rclpy_thread)
    ros_side.thread.run_batch()
    assert ran == [0, 1, 2, 3, 4]
    await ros_side.thread.call(from_the_rclpy_thread)
    async with asyncio.timeout(BOUND_S):
        while len(ran) < 10:
            await asyncio.sleep(0.001)
    await ros_side.thread.call(lambda: None)
    assert ran == [0, 1, 2, 3, 4] * 2


async def test_the_cancels_of_twenty_goals_of_one_server_leave_in_two_waits(
    ros_side: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: and none is lost, as more than ten at once would be that the server has not taken."""
    port = await ros_side.ports.create("/never_answers", "test_msgs/action/Fibonacci")
    loop, answers = asyncio.get_running_loop(), []
    timers: list[Callable[[], None]] = []

    def request(_client: Any, _request: Any, *, urgent: bool = False) -> asyncio.Future[Any]:
        assert urgent
        answers.append(loop.create_future())
        return answers[-1]

    def call_later(_delay: float, callback: Callable[[], None], *_: Any, **__: Any) -> Any:
        timers.append(callback)
        return SimpleNamespace(cancel=lambda: None)

    monkeypatch.setattr(ros_side.thread, "request", request)
    monkeypatch.setattr(loop, "call_later", call_later)
    cancelling = [asyncio.ensure_future(port.cancel_goal(uuid4())) for _ in range(20)]
    left = []
    while len(answers) < 20:
        for _ in range(5):
            await asyncio.sleep(0)
        left.append(len(answers))
        due, timers[:] = list(timers), []
        for timer in due:
            timer()
    waits = [after - before for before, after in zip([0, *left], left, strict=False)]
    assert len(waits) <= 3, waits
    assert max(waits) < 10, waits
    monkeypatch.undo()
    for one in cancelling:
        one.cancel()
    await asyncio.gather(*cancelling, return_exceptions=True)
