"""When events are sent and sent again, and in which order. Time is the test's; the network is a function."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from robot_mcp_kit import EventPoster, MemoryOutbox, TaskContext, TaskManager, verify
from robot_mcp_kit.testing import FakeClock, RecordingReceiver, Reply, assert_eventually, make_event, settle

if TYPE_CHECKING:
    from test.contract.conftest import Endpoint

SCHEDULE_S = [0.0, 0.5, 2.5, 10.5] + [40.5 + 30 * n for n in range(19)]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_acknowledges(endpoint: Endpoint, clock: FakeClock, status: int) -> None:
    """K113."""
    endpoint.answer = lambda request: httpx.Response(status)
    poster = endpoint.poster()
    await poster.post(make_event())
    await clock.advance(1000)
    assert len(endpoint.requests) == 1
    assert poster.statistics().delivered == 1
    await poster.aclose()


@pytest.mark.parametrize(
    "status",
    [300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 408, 409, 410, 413, 422, 429, 500, 502, 503, 599],
)
async def test_every_other_status_is_tried_again(endpoint: Endpoint, clock: FakeClock, status: int) -> None:
    """K114: redirects are not followed."""
    answers = iter(
        [httpx.Response(status, headers={"location": "http://127.0.0.2/elsewhere"}), httpx.Response(202)]
    )
    endpoint.answer = lambda request: next(answers)
    poster = endpoint.poster()
    await poster.post(make_event())
    await clock.advance(0.5)
    assert endpoint.times_s == [0.0, 0.5]
    assert {request.url.host for request in endpoint.requests} == {"127.0.0.1"}
    assert poster.statistics().delivered == 1
    await poster.aclose()


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectError("[Errno -2] Name or service not known"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed without an answer"),
        httpx.ReadTimeout("slow"),
        httpx.PoolTimeout("pool"),
        ValueError("a bug in a transport"),
    ],
)
async def test_every_failure_of_the_network_is_tried_again(
    endpoint: Endpoint, clock: FakeClock, error: Exception
) -> None:
    """K114, K125: whatever the attempt raises, the worker lives."""
    answers: Any = iter([error, httpx.Response(202)])
    endpoint.answer = lambda request: next(answers)
    poster = endpoint.poster()
    await poster.post(make_event())
    await clock.advance(0.5)
    assert endpoint.times_s == [0.0, 0.5]
    assert poster.statistics().delivered == 1
    await poster.aclose()


async def test_the_schedule_and_its_end(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K115, K116: 23 attempts, the last at 580.5 s, then one ERROR that names the event."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster()
    lost = make_event(7, type="task_done", result={})
    await poster.post(lost)
    await clock.advance(580.4)
    assert errors(caplog) == []
    await clock.advance(10_000)
    assert endpoint.times_s == pytest.approx(SCHEDULE_S)
    assert len(endpoint.times_s) == 23
    (message,) = errors(caplog)
    for word in (lost.event_id, lost.task_id, "task_done", "seq 7", "503"):
        assert word in message
    assert (poster.statistics().dropped, poster.statistics().queued) == (1, 0)
    await poster.aclose()


async def test_the_ten_minutes_include_the_attempts_own_time(clock: FakeClock) -> None:
    """K117: a receiver that takes 20 s to fail gets fewer attempts."""
    times: list[float] = []

    async def slow(request: httpx.Request) -> httpx.Response:
        times.append(clock.now())
        await clock.sleep(20)
        return httpx.Response(500)

    poster = EventPoster(
        "navigation",
        "http://127.0.0.1:9/",
        "s",
        clock=clock,
        wall_clock=clock.wall,
        transport=httpx.MockTransport(slow),
    )
    await poster.post(make_event())
    await clock.advance(2000)
    assert times == pytest.approx([0, 20.5, 42.5, 70.5] + [120.5 + 50 * n for n in range(10)])
    assert max(times) + 20 + 30 <= 620.5
    assert poster.statistics().dropped == 1
    await poster.aclose()


async def test_the_ten_minutes_run_from_the_first_attempt(endpoint: Endpoint, clock: FakeClock) -> None:
    """K117: an event that waited for another has its own ten minutes."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster()
    await poster.post(make_event(1))
    await poster.post(make_event(2))
    await clock.advance(580.5)
    assert {body["seq"] for body in endpoint.bodies[:23]} == {1}
    await clock.advance(580.5)
    assert [body["seq"] for body in endpoint.bodies[23:]] == [2] * 23
    await poster.aclose()


async def test_after_a_drop_the_next_event_goes_at_once_and_shows_the_gap(
    endpoint: Endpoint, clock: FakeClock
) -> None:
    """K118."""
    endpoint.answer = lambda request: httpx.Response(503 if clock.now() < 580.5 else 202)
    first_fails = {"left": 23}

    def answer(request: httpx.Request) -> httpx.Response:
        seq = json.loads(request.content)["seq"]
        return httpx.Response(503 if seq == 1 and first_fails["left"] else 202)

    endpoint.answer = answer
    poster = endpoint.poster()
    await poster.post(make_event(1))
    await poster.post(make_event(2))
    await clock.advance(580.5)
    assert endpoint.bodies[-1]["seq"] == 2
    assert endpoint.times_s[-1] == pytest.approx(580.5)
    await poster.aclose()


async def test_each_attempt_is_signed_afresh_over_the_same_bytes(
    endpoint: Endpoint, clock: FakeClock
) -> None:
    """K18, K119: so a receiver with the 300 s rule accepts the twentieth attempt too."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(202 if len(endpoint.requests) == 20 else 500)

    endpoint.answer = answer
    poster = endpoint.poster()
    await poster.post(make_event(note="é"))
    await clock.advance(600)
    assert len(endpoint.requests) == 20
    assert len({request.content for request in endpoint.requests}) == 1
    timestamps = [int(request.headers["x-rvc-timestamp"]) for request in endpoint.requests]
    assert timestamps == [int(1_765_532_000 + due) for due in SCHEDULE_S[:20]]
    for request, timestamp in zip(endpoint.requests, timestamps, strict=True):
        assert verify(
            "s3cret", timestamp, request.content, request.headers["x-rvc-signature"], now_s=timestamp
        )
    signatures = {request.headers["x-rvc-signature"] for request in endpoint.requests}
    assert len(signatures) == len(set(timestamps)) == 19  # 0 s and 0.5 s are one second
    await poster.aclose()


async def test_a_receiver_that_was_down_for_nine_minutes_accepts_what_comes_then() -> None:
    """K119: over a real socket, with the receiver's clock on the same fake time and its 300 s rule on."""
    clock = FakeClock()
    async with RecordingReceiver(wall_clock=clock.wall) as receiver:
        receiver.answer_always(500)
        poster = EventPoster("navigation", receiver.url, receiver.secret, clock=clock, wall_clock=clock.wall)
        for seq in (1, 2, 3):
            await poster.post(make_event(seq))
        attempts = 0
        while (due_s := clock.next_due_s() or 0.0) < 540:
            await clock.advance(due_s - clock.now())
            attempts += 1
            await receiver.wait_for_requests(attempts)
            await assert_eventually(lambda: clock.next_due_s() is not None)
        receiver.answer_always(None)
        await clock.advance(due_s - clock.now())
        events = await receiver.wait_for_events(3)
        await poster.aclose()
    assert [e.seq for e in events] == [1, 2, 3]
    assert receiver.problems == []
    assert attempts == 21


async def test_a_task_in_retry_holds_back_only_itself(endpoint: Endpoint, clock: FakeClock) -> None:
    """K120: one poisoned event must not silence the robot."""

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        return httpx.Response(500 if body["task_id"] == "bad" and clock.now() < 100 else 202)

    endpoint.answer = answer
    poster = endpoint.poster()
    for seq in range(1, 6):
        await poster.post(make_event(seq, task_id="bad"))
        await poster.post(make_event(seq, task_id="good"))
    await settle(200)
    assert [b["seq"] for b in endpoint.bodies if b["task_id"] == "good"] == [1, 2, 3, 4, 5]
    assert [b["seq"] for b in endpoint.bodies if b["task_id"] == "bad"] == [1]
    await clock.advance(101)
    delivered = [b["seq"] for b in endpoint.bodies if b["task_id"] == "bad"]
    assert delivered == [1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5]
    await poster.aclose()


async def test_twenty_poisoned_tasks_do_not_silence_the_others(endpoint: Endpoint, clock: FakeClock) -> None:
    """K120: lanes that wait for a retry hold no place among the posts in flight."""
    endpoint.answer = lambda request: httpx.Response(
        500 if json.loads(request.content)["task_id"].startswith("bad") else 202
    )
    poster = endpoint.poster(max_in_flight=2)
    for n in range(20):
        await poster.post(make_event(1, task_id=f"bad-{n}"))
    await poster.post(make_event(1, task_id="good"))
    await settle(300)
    assert "good" in [b["task_id"] for b in endpoint.bodies]
    await poster.aclose()


async def test_a_new_failure_is_retried_at_its_own_time(endpoint: Endpoint, clock: FakeClock) -> None:
    """K115, K120: and not when the older one's half minute is over."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster()
    await poster.post(make_event(task_id="old"))
    await clock.advance(11)
    await poster.post(make_event(task_id="new"))
    await clock.advance(4)
    times = [t for t, b in zip(endpoint.times_s, endpoint.bodies, strict=True) if b["task_id"] == "new"]
    assert times == pytest.approx([11, 11.5, 13.5])
    await poster.aclose()


async def test_at_most_eight_posts_are_in_flight(clock: FakeClock) -> None:
    """K120."""
    flying, most = 0, 0
    release = asyncio.Event()

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await release.wait()
        flying -= 1
        return httpx.Response(202)

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", transport=httpx.MockTransport(handle), clock=clock
    )
    for n in range(30):
        await poster.post(make_event(1, task_id=f"task-{n}"))
    await settle()
    assert (flying, poster.statistics().in_flight, poster.statistics().queued) == (8, 8, 22)
    release.set()
    await poster.drain()
    assert (most, poster.statistics().delivered) == (8, 30)
    await poster.aclose()


async def test_concurrent_posts_of_one_task_arrive_in_the_order_of_acceptance() -> None:
    """K121: over a real socket that answers slowly now and then."""
    async with RecordingReceiver() as receiver:
        receiver.script(*[Reply(202, delay_s=0.005 * (n % 3)) for n in range(30)])
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await asyncio.gather(*(poster.post(make_event(seq)) for seq in range(1, 101)))
        events = await receiver.wait_for_events(100)
        await poster.aclose()
    assert [e.seq for e in events] == list(range(1, 101))


@pytest.mark.parametrize("seed", range(5))
async def test_order_per_task_holds_whatever_fails(clock: FakeClock, seed: int) -> None:
    """K121: many tasks, random failures and lost answers."""
    rng = random.Random(seed)
    applied: dict[str, list[int]] = {}

    async def handle(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        chance = rng.random()
        if chance < 0.25:
            return httpx.Response(503)
        lane = applied.setdefault(body["task_id"], [])
        if body["seq"] not in lane:
            lane.append(body["seq"])
        if chance < 0.4:
            raise httpx.RemoteProtocolError("answer lost")
        return httpx.Response(202)

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", transport=httpx.MockTransport(handle), clock=clock
    )
    for seq in range(1, 21):
        for n in range(12):
            await poster.post(make_event(seq, task_id=f"task-{n}"))
    while poster.statistics().queued or poster.statistics().in_flight:
        await clock.advance(30)
    assert applied == {f"task-{n}": list(range(1, 21)) for n in range(12)}
    await poster.aclose()


async def test_numbers_and_acceptance_are_one_step(endpoint: Endpoint, clock: FakeClock) -> None:
    """K122: threads that report on one task at once never enqueue 5 before 4."""
    accepted: list[int] = []

    class Watching(EventPoster):
        def post_nowait(self, event: Any) -> None:
            accepted.append(event.seq)
            super().post_nowait(event)

    poster = Watching(
        "navigation", "http://127.0.0.1:9/", "s", transport=httpx.MockTransport(endpoint.handle)
    )
    manager = TaskManager("navigation", poster)

    async def body(ctx: TaskContext) -> dict[str, Any]:
        async def report() -> None:
            for n in range(200):
                await ctx.progress({"n": n})

        await asyncio.gather(*(asyncio.to_thread(asyncio.run, report()) for _ in range(4)))
        return {}

    info = await manager.wait(manager.start("t", body).task_id)
    assert info is not None
    assert info.state == "succeeded", info.failure
    assert accepted == list(range(1, 802))
    await poster.drain()
    assert [b["seq"] for b in endpoint.bodies] == accepted
    await poster.aclose()


async def test_a_lost_answer_means_the_same_event_again_and_one_effect() -> None:
    """K123."""
    async with RecordingReceiver() as receiver:
        receiver.script(Reply(drop=True))
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await poster.post(make_event(1))
        await poster.post(make_event(2))
        events = await receiver.wait_for_events(2)
        await poster.aclose()
    assert [e.seq for e in events] == [1, 2]
    assert [r.json()["seq"] for r in receiver.requests] == [1, 1, 2]
    assert receiver.requests[0].body == receiver.requests[1].body


async def test_post_never_waits_and_never_raises(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K124: unserialisable payload, nonsense instead of an event, a closed poster."""
    hanging = asyncio.Event()

    async def hang(request: httpx.Request) -> httpx.Response:
        await hanging.wait()
        return httpx.Response(202)

    poster = EventPoster(
        "navigation", "http://127.0.0.1:9/", "s", transport=httpx.MockTransport(hang), clock=clock
    )
    for seq in range(100):
        await poster.post(make_event(seq + 1))
    loop: dict[str, Any] = {}
    loop["itself"] = loop
    await poster.post(make_event(1, task_id="odd", value=loop, thing=object()))
    await poster.post("nonsense")  # type: ignore[arg-type]
    await poster.post(make_event(1, server="bad\nname"))
    assert poster.statistics().dropped == 2
    assert len(errors(caplog)) == 2
    hanging.set()
    await poster.drain()
    await poster.aclose()
    await poster.post(make_event(101))
    assert poster.statistics().dropped == 3


def test_post_from_a_thread_without_any_loop_waits_for_one(endpoint: Endpoint) -> None:
    """K124, K144: kept, then delivered when the poster meets a loop."""
    poster = endpoint.poster()
    poster.post_nowait(make_event(1))
    assert poster.statistics().queued == 1

    async def main() -> None:
        await poster.drain()
        await poster.aclose()

    asyncio.run(main())
    assert [b["seq"] for b in endpoint.bodies] == [1]


async def test_a_failure_inside_the_worker_does_not_end_it(endpoint: Endpoint, clock: FakeClock) -> None:
    """K125: an outbox that breaks now and then."""

    class Broken(MemoryOutbox):
        failures = 3

        def remove(self, key: int) -> None:
            if self.failures:
                self.failures -= 1
                raise OSError("disk")
            super().remove(key)

    poster = endpoint.poster(outbox=Broken())
    await poster.post(make_event(1))
    await poster.post(make_event(2))
    await clock.advance(60)
    assert poster.statistics().queued == 0
    seqs = [b["seq"] for b in endpoint.bodies]
    assert seqs == sorted(seqs)
    assert set(seqs) == {1, 2}
    await poster.aclose()


@pytest.mark.parametrize("retry_after", ["120", "Wed, 21 Oct 2026 07:28:00 GMT", "-5", "abc", "86400"])
async def test_retry_after_does_not_move_the_schedule(
    endpoint: Endpoint, clock: FakeClock, retry_after: str
) -> None:
    """K126."""
    endpoint.answer = lambda request: httpx.Response(429, headers={"retry-after": retry_after})
    poster = endpoint.poster()
    await poster.post(make_event())
    await clock.advance(45)
    assert endpoint.times_s == pytest.approx(SCHEDULE_S[:5])
    await poster.aclose()


async def test_a_hung_receiver_is_a_failed_attempt() -> None:
    """K127: each attempt has its own time-out, over a real socket."""
    async with RecordingReceiver() as receiver:
        receiver.script(Reply(202, delay_s=60))
        poster = EventPoster("navigation", receiver.url, receiver.secret, attempt_timeout_s=1.0)
        await poster.post(make_event(1))
        requests = await receiver.wait_for_requests(2)
        await poster.drain()
        await poster.aclose()
    assert requests[0].body == requests[1].body
    assert "no answer within 1 s" in (poster.statistics().last_error or "")


def test_an_attempt_has_five_seconds_unless_told_otherwise() -> None:
    """K127: and the bound covers the whole attempt, not each read of a receiver that trickles."""
    import inspect

    assert inspect.signature(EventPoster).parameters["attempt_timeout_s"].default == 5.0


async def test_a_receiver_that_trickles_is_a_failed_attempt() -> None:
    """K127: it sends a byte now and then for ever."""
    seen = 0

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        try:
            while True:
                writer.write(b"H" if seen > 1 else b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        except (OSError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    poster = EventPoster(
        "navigation", f"http://127.0.0.1:{port}/", "s", attempt_timeout_s=0.5, close_grace_s=0.05
    )
    await poster.post(make_event(1))
    async with asyncio.timeout(20):
        while poster.statistics().retried == 0:
            await asyncio.sleep(0.01)
    await poster.aclose()
    server.close()
    assert poster.statistics().delivered == 0


async def test_deliveries_survive_garbage_collection(endpoint: Endpoint, clock: FakeClock) -> None:
    """K29: the loop itself keeps running tasks only weakly."""
    poster = endpoint.poster()
    for n in range(50):
        await poster.post(make_event(task_id=f"task-{n}"))
        if n % 10 == 0:
            gc.collect()
            await asyncio.sleep(0)
    await poster.drain()
    assert len(endpoint.requests) == 50
    await poster.aclose()


async def test_twenty_events_use_one_connection() -> None:
    """K128."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        for seq in range(1, 21):
            await poster.post(make_event(seq))
        await receiver.wait_for_events(20)
        await poster.aclose()
    assert receiver.connections == 1


async def test_a_receiver_that_closes_idle_connections_loses_nothing() -> None:
    """K114: the stale keep-alive connection is a transport error like any other."""
    async with RecordingReceiver() as receiver:
        poster = EventPoster("navigation", receiver.url, receiver.secret)
        await poster.post(make_event(1))
        await receiver.wait_for_events(1)
        receiver.stop()
        receiver.start()
        await poster.post(make_event(2))
        events = await receiver.wait_for_events(2)
        await poster.aclose()
    assert [e.seq for e in events] == [1, 2]


@pytest.mark.parametrize("outbox_events", [10, 100])
async def test_an_overflow_drops_progress_first_and_what_ends_a_task_last(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture, outbox_events: int
) -> None:
    """K130, K131: each loss is an ERROR; the order of what survives is kept."""
    endpoint.answer = lambda request: httpx.Response(503)
    poster = endpoint.poster(outbox=MemoryOutbox(max_events=outbox_events))
    kinds = ["progress"] * 7 + ["watch_event", "trigger_fired", "task_done"]
    total = outbox_events * 5
    for n in range(total):
        await poster.post(make_event(n + 1, task_id=f"task-{n % 3}", type=kinds[n % 10]))
    await settle()
    assert len(errors(caplog)) == total - outbox_events == poster.statistics().overflowed
    first_attempts = list(endpoint.bodies)
    endpoint.answer = lambda request: httpx.Response(202)
    await clock.advance(100)
    survivors = endpoint.bodies[len(first_attempts) :]
    for task in {b["task_id"] for b in survivors}:
        seqs = [b["seq"] for b in survivors if b["task_id"] == task]
        assert seqs == sorted(seqs)
    important = [b for b in survivors if b["type"] in ("trigger_fired", "task_done")]
    # A fifth of what was posted is important, and exactly that many places there are.
    assert len(important) >= outbox_events - 8
    await poster.aclose()


async def test_memory_stays_bounded_during_an_outage(endpoint: Endpoint, clock: FakeClock) -> None:
    """K131: by events and by bytes."""
    endpoint.answer = lambda request: httpx.ConnectError("down")
    logging.getLogger("robot_mcp_kit.events").setLevel(logging.CRITICAL)
    poster = endpoint.poster(outbox=MemoryOutbox(max_events=500, max_bytes=200_000))
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for n in range(4_000):
            await poster.post(make_event(n + 1, task_id=f"task-{n % 40}", text="x" * 600))
            if n in (1_000, 3_999):
                await settle(5)
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        logging.getLogger("robot_mcp_kit.events").setLevel(logging.NOTSET)
    endpoint.requests.clear()
    assert poster.statistics().queued < 300  # 200 kB of bodies
    assert sizes[1] - sizes[0] < 200_000
    await poster.aclose()


async def test_clients_that_are_told_to_give_up_at_once_can_be(endpoint: Endpoint, clock: FakeClock) -> None:
    """K114: retrying a 4xx is the rule; ``fail_fast_4xx`` is the exception for those who ask."""
    endpoint.answer = lambda request: httpx.Response(400 if json.loads(request.content)["seq"] == 1 else 429)
    poster = endpoint.poster(fail_fast_4xx=True)
    await poster.post(make_event(1))
    await poster.post(make_event(2))
    await clock.advance(1)
    assert [b["seq"] for b in endpoint.bodies] == [1, 2, 2]
    await poster.aclose()


async def test_a_redirect_is_told_with_its_target_once(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K114: the operator is told where to."""
    endpoint.answer = lambda request: httpx.Response(307, headers={"location": "http://127.0.0.1:9/new/"})
    poster = endpoint.poster()
    await poster.post(make_event(1))
    await clock.advance(100)
    (message,) = errors(caplog)
    assert "http://127.0.0.1:9/new/" in message
    await poster.aclose()


async def test_a_wrong_clock_is_told_and_shown(
    endpoint: Endpoint, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """K119: a robot that booted in 1970 learns it from the receiver's Date."""
    endpoint.answer = lambda request: httpx.Response(401, headers={"date": "Fri, 12 Dec 2025 10:33:20 GMT"})
    poster = endpoint.poster(wall_clock=lambda: 0.0)
    await poster.post(make_event(1))
    await clock.advance(1)
    skew = poster.statistics().clock_skew_s
    assert skew == pytest.approx(1_765_535_600, abs=4000)
    assert any("clock" in text for text in errors(caplog))
    await poster.aclose()


async def test_the_statistics_tell_where_every_event_is(endpoint: Endpoint, clock: FakeClock) -> None:
    """K130."""
    endpoint.answer = lambda request: httpx.Response(503 if clock.now() < 100 else 202)
    poster = endpoint.poster()
    empty = poster.statistics()
    assert (empty.queued, empty.delivered, empty.oldest_age_s, empty.last_error) == (0, 0, None, None)
    for seq in (1, 2, 3):
        await poster.post(make_event(seq))
    await clock.advance(10.5)
    waiting = poster.statistics()
    assert (waiting.queued, waiting.in_flight, waiting.delivered, waiting.retried) == (3, 0, 0, 3)
    assert waiting.oldest_age_s == pytest.approx(10.5)
    assert waiting.last_error is not None
    assert "503" in waiting.last_error
    await clock.advance(200)
    done = poster.statistics()
    assert (done.queued, done.delivered, done.dropped, done.oldest_age_s) == (0, 3, 0, None)
    await poster.aclose()
