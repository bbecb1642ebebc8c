"""The receiver that tests are written against, and the chat app's half in small."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from robot_mcp_kit import EventPoster, TaskContext, TaskManager, sign
from robot_mcp_kit.events import encode_event
from robot_mcp_kit.testing import (
    ChatAppDouble,
    CollectingPoster,
    FakeClock,
    RecordingReceiver,
    Reply,
    assert_eventually,
    make_event,
)
from robot_mcp_kit.testing.receiver import DEFAULT_SECRET


def headers(
    body: bytes, secret: str = DEFAULT_SECRET, *, age_s: int = 0, server: str = "navigation"
) -> dict[str, str]:
    timestamp = int(time.time()) - age_s
    return {
        "x-rvc-server": server,
        "x-rvc-timestamp": str(timestamp),
        "x-rvc-signature": f"sha256={sign(secret, timestamp, body)}",
    }


async def post(receiver: RecordingReceiver, body: bytes, sent: dict[str, str]) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.post(receiver.url, content=body, headers=sent)).status_code


async def test_a_sound_request_is_taken_once_however_often_it_comes() -> None:
    """K170: a duplicate is acknowledged and applied once."""
    body = encode_event(make_event())
    async with RecordingReceiver(servers=["navigation"]) as receiver:
        for _ in range(3):
            assert await post(receiver, body, headers(body)) == 202
    assert len(receiver.requests) == 3
    assert len(receiver.events) == 1


@pytest.mark.parametrize("missing", ["x-rvc-server", "x-rvc-timestamp", "x-rvc-signature"])
async def test_a_request_without_a_header_is_refused(missing: str) -> None:
    """K170."""
    body = encode_event(make_event())
    sent = headers(body)
    del sent[missing]
    async with RecordingReceiver() as receiver:
        assert await post(receiver, body, sent) == 401
    assert missing in receiver.problems[0].lower()
    assert receiver.events == []


async def test_forged_stale_misattributed_and_unknown_requests_are_refused() -> None:
    """K170."""
    body = encode_event(make_event())
    other = encode_event(make_event(server="perception"))
    async with RecordingReceiver(servers=["navigation"]) as receiver:
        assert await post(receiver, body, headers(body, "another secret")) == 401
        assert await post(receiver, body + b" ", headers(body)) == 401
        assert await post(receiver, body, headers(body, age_s=1000)) == 401
        assert await post(receiver, body, headers(body, age_s=-1000)) == 401
        assert await post(receiver, other, headers(other)) == 401
        assert await post(receiver, body, headers(body, server="perception")) == 401
        assert await post(receiver, body, headers(body) | {"x-rvc-timestamp": "+1"}) == 401
        assert await post(receiver, b"{}", headers(b"{}")) == 400
    assert receiver.events == []
    assert len(receiver.problems) == 8


async def test_scripted_replies_come_in_order_and_then_judgement_again() -> None:
    body = encode_event(make_event())
    async with RecordingReceiver() as receiver:
        receiver.script(500, Reply(503, headers={"Retry-After": "5"}))
        assert [await post(receiver, body, headers(body)) for _ in range(3)] == [500, 503, 202]
        receiver.answer_always(404)
        assert await post(receiver, body, headers(body)) == 404
        receiver.answer_always(None)
        receiver.script(Reply(drop=True))
        with pytest.raises(httpx.RemoteProtocolError):
            await post(receiver, body, headers(body))
        assert receiver.requests[-1].json()["seq"] == 1


async def test_a_stopped_receiver_refuses_and_comes_back_on_the_same_port() -> None:
    body = encode_event(make_event())
    receiver = RecordingReceiver()
    async with receiver:
        port = receiver.port
        with pytest.raises(RuntimeError, match="already"):
            receiver.start()
        receiver.stop()
        receiver.stop()
        with pytest.raises(httpx.TransportError):
            await post(receiver, body, headers(body))
        receiver.start()
        assert receiver.port == port
        assert await post(receiver, body, headers(body)) == 202


async def test_stopping_cuts_a_reply_that_is_waiting() -> None:
    body = encode_event(make_event())
    async with RecordingReceiver() as receiver:
        receiver.script(Reply(delay_s=600))
        request = asyncio.create_task(post(receiver, body, headers(body)))
        await receiver.wait_for_requests(1)
        receiver.stop()
        with pytest.raises(httpx.TransportError):
            await request


async def test_waiting_in_vain_says_what_was_there() -> None:
    async with RecordingReceiver() as receiver:
        with pytest.raises(AssertionError, match="0 of 1 events"):
            await receiver.wait_for_events(1, timeout_s=0.05)
    with pytest.raises(AssertionError, match="it was 0"):
        await assert_eventually(lambda: 0, timeout_s=0.01)


def tools(manager: TaskManager) -> Any:
    async def call(name: str, arguments: dict[str, Any]) -> str:
        if name == "get_task":
            info = manager.get(arguments["task_id"])
            return '{"error":"not_found"}' if info is None else info.model_dump_json()
        infos = manager.list(arguments["states"])
        return json.dumps({"tasks": [info.model_dump(mode="json") for info in infos]})

    return call


async def test_a_gap_in_the_numbers_is_polled_and_duplicates_are_not(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K171."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for n in range(4):
            await ctx.progress({"n": n})
        return {"n": 4}

    info = await manager.wait(manager.start("t", body).task_id)
    assert info is not None
    app = ChatAppDouble(tools(manager))
    one, two, _, four, five = poster.events
    assert [await app.take(e) for e in (one, two, two, one)] == [True, True, False, False]
    assert app.polled == []
    await app.take(four)
    assert app.polled == [info.task_id]
    assert app.tasks[info.task_id] == info
    await app.take(five)
    assert app.polled == [info.task_id]


async def test_the_receiver_tells_gaps() -> None:
    """K171."""
    async with RecordingReceiver() as receiver:
        for seq in (1, 2, 5):
            body = encode_event(make_event(seq))
            await post(receiver, body, headers(body))
    assert receiver.gaps("navi-000001") == [3, 4]
    assert receiver.gaps("navi-other") == []


async def test_after_its_restart_the_chat_app_asks_and_fails_what_vanished(poster: CollectingPoster) -> None:
    """K105, K171."""

    async def forever(ctx: TaskContext) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def quick(ctx: TaskContext) -> dict[str, Any]:
        return {}

    old = TaskManager("navigation", poster)
    vanished = old.start("t", forever)
    await old.aclose()
    manager = TaskManager("navigation", poster)
    running, ended = manager.start("t", forever), manager.start("t", quick)
    await manager.wait(ended.task_id)
    app = ChatAppDouble(tools(manager))
    await app.restarted([vanished, running, ended])
    assert {task_id: info.state for task_id, info in app.tasks.items()} == {
        vanished.task_id: "failed",
        running.task_id: "running",
        ended.task_id: "succeeded",
    }
    failure = app.tasks[vanished.task_id].failure
    assert failure is not None
    assert failure.error_code == "SERVER_RESTARTED"
    await manager.aclose()


async def test_the_fake_clock_wakes_in_order_and_only_when_told() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))
        if name == "b":
            await sleeper("again", 1)

    tasks = [asyncio.create_task(sleeper(name, s)) for name, s in [("c", 5.0), ("a", 1.0), ("b", 2.0)]]
    await clock.advance(0)
    assert (woken, clock.sleeping) == ([], 3)
    await clock.advance(3)
    assert woken == [("a", 1.0), ("b", 2.0), ("again", 3.0)]
    assert clock.wall() - FakeClock().wall() == 3
    tasks[0].cancel()
    await clock.advance(100)
    assert (clock.now(), clock.sleeping, len(woken)) == (103.0, 0, 3)


async def test_a_poster_can_be_watched_end_to_end() -> None:
    """The example of the documentation."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("sleeper", receiver.url, receiver.secret)
        await poster.post(make_event(server="sleeper"))
        events = await receiver.wait_for_events(1)
        await poster.aclose()
    assert events[0].server == "sleeper"
