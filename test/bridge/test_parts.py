"""The bridge's small parts on their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from robot_mcp_kit.bridge.progress import ProgressGate
from robot_mcp_kit.bridge.settings import BridgeSettings, RunSettings
from robot_mcp_kit.bridge.waiting import error_of, finish_now, first_of
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.testing.clock import FakeClock, settle


def test_the_gate_lets_the_latest_through_once_a_period() -> None:
    sent: list[dict[str, Any]] = []
    gate = ProgressGate(1.0, sent.append)
    for step in range(25):
        gate.offer({"n": step}, step * 0.1)
    assert [p["n"] for p in sent] == [0, 10, 20]
    gate.offer({"n": "now"}, 2.41, urgent=True)
    gate.offer({"n": "later"}, 2.5)
    gate.tick(2.6)
    assert sent[-1]["n"] == "now"
    gate.tick(3.5)
    gate.tick(9.0)
    gate.flush(9.0)
    assert [p["n"] for p in sent] == [0, 10, 20, "now", "later"]


def test_feedback_exactly_at_the_period_loses_no_sample_to_rounding() -> None:
    sent: list[dict[str, Any]] = []
    gate = ProgressGate(0.1, sent.append)
    for step in range(10):
        gate.offer({}, step * 0.1)
    assert len(sent) == 10


async def test_the_first_of_several_is_the_leftmost_done() -> None:
    clock = FakeClock()
    loop = asyncio.get_running_loop()
    a, b = loop.create_future(), loop.create_future()
    b.set_result(None)
    a.set_result(None)
    assert await first_of(clock, a, b) is a
    waiting = asyncio.ensure_future(first_of(clock, loop.create_future(), timeout_s=3.0))
    await clock.advance(2.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert await waiting is None
    await settle()
    assert clock.sleeping == 0


async def test_a_cancelled_wait_leaves_what_it_waited_for_alone() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(first_of(FakeClock(), future, timeout_s=3.0))
    await settle()
    waiting.cancel()
    await settle()
    assert not future.cancelled()


async def test_what_suspends_cannot_be_finished_now() -> None:
    done: list[int] = []

    async def quick() -> None:
        done.append(1)

    async def slow() -> None:
        await asyncio.sleep(0)

    finish_now(quick())
    assert done == [1]
    with pytest.raises(RuntimeError, match="suspended"):
        finish_now(slow())


async def test_a_dropped_request_is_an_error_and_not_a_cancel() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    assert isinstance(error_of(future), RuntimeError)


def test_a_skills_own_times_win_and_zero_feedback_time_means_never() -> None:
    text = (
        "skills:\n  go:\n    action: a\n    type: nav2_msgs/action/NavigateToPose\n"
        "    server_wait_s: 1.0\n    feedback_timeout_s: 0.0\n"
    )
    section = parse_config(text).skills["go"]
    settings = RunSettings.of(BridgeSettings(acceptance_timeout_s=3.0), section)
    assert (settings.server_wait_s, settings.acceptance_timeout_s) == (1.0, 3.0)
    assert settings.feedback_timeout_s is None
    assert RunSettings.of(BridgeSettings(), None).feedback_timeout_s == 15.0
