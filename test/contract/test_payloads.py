"""What bodies hand in, and what leaves: JSON that every parser takes, and nobody else's memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from robot_mcp_kit import EventPoster, TaskContext, TaskInfo, TaskManager, verify
from robot_mcp_kit.events import encode_event
from robot_mcp_kit.testing import CollectingPoster, RecordingReceiver, make_event

Body = Callable[[TaskContext], Awaitable[dict[str, Any]]]


def strict(text: str | bytes) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def run(manager: TaskManager) -> Callable[[Body], Awaitable[TaskInfo]]:
    async def run(body: Body) -> TaskInfo:
        info = await manager.wait(manager.start("t", body).task_id)
        assert info is not None
        return info

    return run


Run = Callable[[Body], Awaitable[TaskInfo]]


async def test_payloads_are_copied_when_handed_in(run: Run, poster: CollectingPoster) -> None:
    """K46: progress, extra, watch events and the result."""
    result: dict[str, Any] = {"deep": {"n": [1]}}

    async def body(ctx: TaskContext) -> dict[str, Any]:
        payload = {"deep": {"n": [1]}}
        await ctx.progress(payload)
        await ctx.emit(payload)
        await ctx.fire_trigger({"type": "x"}, payload)
        payload["deep"]["n"].append("changed")
        payload["more"] = {}
        return result

    info = await run(body)
    result["deep"]["n"].append("changed")
    assert info.progress == info.result == {"deep": {"n": [1]}}
    assert [e.payload for e in poster.events] == [
        {"deep": {"n": [1]}},
        {"deep": {"n": [1]}},
        {"trigger": {"type": "x"}, "deep": {"n": [1]}},
        {"result": {"deep": {"n": [1]}}},
    ]


class Thing:
    def __str__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("value", "seen"),
    [(Thing(), "a thing"), ({1}, "{1}"), (b"\xff\x00", "/wA="), (frozenset(), "frozenset()")],
)
async def test_what_json_cannot_say_becomes_text_and_the_task_goes_on(
    run: Run, poster: CollectingPoster, caplog: pytest.LogCaptureFixture, value: object, seen: str
) -> None:
    """K47."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"value": value})
        return {"value": value}

    info = await run(body)
    assert info.state == "succeeded"
    assert info.progress == info.result == {"value": seen}
    assert strict(info.model_dump_json())["progress"] == {"value": seen}
    for event in poster.events:
        assert strict(encode_event(event))


async def test_replacing_values_is_told_in_one_warning(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """K47."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"a": Thing(), "b": {2}})
        return {}

    await run(body)
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "$.a" in record.getMessage()
    assert "$.b" in record.getMessage()


async def test_nan_and_infinity_are_null_on_the_wire_and_in_the_poll(
    run: Run, poster: CollectingPoster
) -> None:
    """K48."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"eta_s": float("nan"), "list": [float("inf"), -float("inf"), 1.0]})
        return {"x": float("nan")}

    info = await run(body)
    assert info.progress == {"eta_s": None, "list": [None, None, 1.0]}
    assert info.result == {"x": None}
    assert strict(info.model_dump_json())["result"] == {"x": None}
    assert strict(encode_event(poster.events[0]))["payload"] == info.progress


async def test_any_script_arrives_and_still_verifies() -> None:
    """K49: emoji, right-to-left, control characters, and a lone surrogate as U+FFFD."""
    text = "Küche 🤖 \u202e abc\u0000 \udc81"
    async with RecordingReceiver(secret="пароль") as receiver:
        poster = EventPoster("navigation", receiver.url, "пароль")
        await poster.post(make_event(text=text))
        (event,) = await receiver.wait_for_events(1)
        await poster.aclose()
    assert event.payload == {"text": "Küche 🤖 \u202e abc\u0000 \ufffd"}
    assert receiver.problems == []


async def test_keys_of_any_type_become_text(run: Run, poster: CollectingPoster) -> None:
    """K50: and no value is lost when two keys read the same."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        odd: dict[Any, Any] = {1: "c", None: "b", (1, 2): "d", 2.5: "e", "1": "f"}
        await ctx.progress(odd)
        return {}

    info = await run(body)
    assert info.progress == {"1": "c", "null": "b", "(1, 2)": "d", "2.5": "e", "1~2": "f"}
    assert strict(encode_event(poster.events[0]))["payload"] == info.progress


async def test_a_large_payload_is_logged_and_arrives_intact(caplog: pytest.LogCaptureFixture) -> None:
    """K51."""
    large, quiet = "x" * (1024 * 1024), "y" * (200 * 1024)
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await poster.post(make_event(1, data=quiet))
        await poster.post(make_event(2, data=large))
        events = await receiver.wait_for_events(2)
        await poster.aclose()
    assert [e.payload["data"] for e in events] == [quiet, large]
    assert sum("large" in r.getMessage() for r in caplog.records if r.levelno == logging.WARNING) == 1


@pytest.mark.parametrize("payload", [None, [], "text", 5])
async def test_a_payload_that_is_no_dict_is_a_programming_error(
    run: Run, poster: CollectingPoster, payload: Any
) -> None:
    """K52: no sequence number is used for it."""
    errors: list[type[BaseException]] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for call in (ctx.progress, ctx.emit, ctx.fire_trigger):
            try:
                await call(payload)
            except TypeError as exc:
                errors.append(type(exc))
        return {}

    await run(body)
    assert errors == [TypeError] * 3
    assert [(e.seq, e.type) for e in poster.events] == [(1, "task_done")]


async def test_a_poster_sends_json_whatever_the_event_holds() -> None:
    """K47, K48: also for events that no manager made."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await poster.post(make_event(a=float("nan"), b=Thing(), c=2**60))
        (request,) = await receiver.wait_for_requests(1)
        await poster.aclose()
    assert request.json()["payload"] == {"a": None, "b": "a thing", "c": str(2**60)}
    assert verify(
        receiver.secret,
        int(request.headers["x-rvc-timestamp"]),
        request.body,
        request.headers["x-rvc-signature"],
    )
