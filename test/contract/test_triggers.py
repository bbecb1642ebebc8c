"""Progress, triggers and watch events."""

from __future__ import annotations

import asyncio
import itertools
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit import TaskContext, TaskManager, warn_unknown
from robot_mcp_kit.testing import CollectingPoster
from robot_mcp_kit.triggers import canonical_key, repeats

Body = Callable[[TaskContext], Awaitable[Any]]


class Runner:
    """Runs a body to its end and gives the events before ``task_done``."""

    def __init__(self, manager: TaskManager, poster: CollectingPoster) -> None:
        self._manager = manager
        self._poster = poster

    async def __call__(
        self, body: Body, triggers: list[dict[str, Any]] | None = None
    ) -> list[tuple[str, Any]]:
        async def whole(ctx: TaskContext) -> dict[str, Any]:
            await body(ctx)
            return {}

        info = await self._manager.wait(self._manager.start("t", whole, triggers=triggers).task_id)
        assert info is not None
        assert info.state == "succeeded", info.failure
        events = self._poster.of(info.task_id)
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert events.pop().type == "task_done"
        return [(e.type, e.payload) for e in events]

    async def percents(self, percents: list[Any], *triggers: dict[str, Any]) -> list[tuple[str, Any]]:
        async def body(ctx: TaskContext) -> None:
            for percent in percents:
                await ctx.progress({"percent": percent})

        return await self(body, list(triggers))


@pytest.fixture
def run(manager: TaskManager, poster: CollectingPoster) -> Runner:
    return Runner(manager, poster)


def above(percent: Any, **more: Any) -> dict[str, Any]:
    return {"type": "progress_above", "percent": percent, **more}


def fired(events: list[tuple[str, Any]]) -> list[Any]:
    return [payload for kind, payload in events if kind == "trigger_fired"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


async def test_every_progress_report_is_one_event(run: Runner) -> None:
    """K53: nothing is throttled."""

    async def body(ctx: TaskContext) -> None:
        for n in range(1000):
            await ctx.progress({"n": n})

    assert await run(body) == [("progress", {"n": n}) for n in range(1000)]


async def test_the_last_progress_is_what_polling_shows(manager: TaskManager) -> None:
    """K53."""

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"n": 1})
        await ctx.progress({"n": 2})
        return {}

    info = await manager.wait(manager.start("t", body).task_id)
    assert info is not None
    assert info.progress == {"n": 2}


@pytest.mark.parametrize(
    ("percent", "fires"), [(49.999, 0), (50, 1), (50.0, 1), (50.001, 1), (100, 1), (-1, 0)]
)
async def test_progress_above_fires_at_or_above_its_threshold(
    run: Runner, percent: float, fires: int
) -> None:
    """K54."""
    assert len(fired(await run.percents([percent], above(50)))) == fires


async def test_a_first_report_above_the_threshold_fires_once(run: Runner) -> None:
    """K55."""
    assert len(fired(await run.percents([90, 91, 92], above(50)))) == 1


async def test_falling_and_rising_again_does_not_fire_again(run: Runner) -> None:
    """K56."""
    assert len(fired(await run.percents([60, 40, 60, 10, 99], above(50)))) == 1


class NumpyLike:
    """What a numpy scalar looks like to code that does not import numpy."""

    dtype = "float32"
    shape = ()

    def __init__(self, value: Any) -> None:
        self._value = value

    def tolist(self) -> Any:
        return self._value


@pytest.mark.parametrize("percent", [60, 60.5, Fraction(121, 2), NumpyLike(60.5), 2**70])
async def test_real_numbers_of_any_kind_count(run: Runner, percent: Any) -> None:
    """K57."""
    assert len(fired(await run.percents([percent], above(50)))) == 1


@pytest.mark.parametrize(
    "percent",
    [
        True,
        "60",
        None,
        float("nan"),
        float("inf"),
        -float("inf"),
        [60],
        {"a": 60},
        b"60",
        1j,
        NumpyLike(True),
        10**400,
    ],
)
async def test_what_is_no_finite_number_does_not_fire_and_does_not_raise(run: Runner, percent: Any) -> None:
    """K57."""
    assert fired(await run.percents([percent], above(50))) == []


async def test_numpy_scalars_count_where_numpy_is_installed(run: Runner) -> None:
    """K57."""
    numpy = pytest.importorskip("numpy")
    for percent in (numpy.float32(60.5), numpy.float64(60.5), numpy.int16(60), numpy.array(60)):
        assert len(fired(await run.percents([percent], above(50)))) == 1
    for percent in (numpy.float32("nan"), numpy.bool_(True), numpy.array([60, 70])):
        assert fired(await run.percents([percent], above(50))) == []


@pytest.mark.parametrize("threshold", ["50", None, True, float("nan"), float("inf"), [50]])
async def test_an_unusable_threshold_never_fires_and_is_told_once(
    run: Runner, caplog: pytest.LogCaptureFixture, threshold: Any
) -> None:
    """K58: per trigger, not per report."""
    events = await run.percents(list(range(0, 101, 5)), above(threshold), {"type": "progress_above"})
    assert fired(events) == []
    assert len(warnings(caplog)) == 2
    assert all("percent" in text for text in warnings(caplog))


async def test_the_triggers_follow_their_progress_in_the_order_attached(run: Runner) -> None:
    """K59, K60, K64: two thresholds passed by one report are two events, with the percentage."""
    events = await run.percents([10, 80, 90], above(75, name="b"), above(50, name="a"), above(85))
    assert events == [
        ("progress", {"percent": 10}),
        ("progress", {"percent": 80}),
        ("trigger_fired", {"trigger": above(75, name="b"), "percent": 80}),
        ("trigger_fired", {"trigger": above(50, name="a"), "percent": 80}),
        ("progress", {"percent": 90}),
        ("trigger_fired", {"trigger": above(85), "percent": 90}),
    ]


async def test_all_is_handed_over_before_progress_returns(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K59."""
    counts: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"percent": 80})
        counts.append(len(poster.events))
        return {}

    await manager.wait(manager.start("t", body, triggers=[above(50), above(60)]).task_id)
    assert counts == [3]


async def test_repeating_fires_on_every_report_at_or_above(run: Runner) -> None:
    """K61: level, not edge."""
    events = await run.percents([40, 50, 60, 40, 70], above(50, repeat=True))
    assert [payload["percent"] for payload in fired(events)] == [50, 60, 70]


@pytest.mark.parametrize("repeat", ["true", 1, "yes", [True], None])
async def test_only_boolean_true_repeats(run: Runner, caplog: pytest.LogCaptureFixture, repeat: Any) -> None:
    """K62: and the mistake is told once."""
    assert len(fired(await run.percents([60, 70, 80], above(50, repeat=repeat)))) == 1
    assert len([text for text in warnings(caplog) if "repeat" in text]) == 1


async def test_repeat_false_is_no_mistake(run: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """K62."""
    assert len(fired(await run.percents([60, 70], above(50, repeat=False)))) == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    "trigger",
    [
        {"type": "eta_below", "seconds": 10, "percent": 1},
        {"type": "zone_entered", "zone": "a"},
        {"type": "?"},
    ],
)
async def test_other_types_are_left_alone(
    run: Runner, caplog: pytest.LogCaptureFixture, trigger: dict[str, Any]
) -> None:
    """K63: no event, no exception, no warning from the kit."""
    assert fired(await run.percents([0, 50, 100], trigger)) == []
    assert warnings(caplog) == []


async def test_without_a_percentage_nothing_is_evaluated(run: Runner) -> None:
    """K65."""

    async def body(ctx: TaskContext) -> None:
        await ctx.progress({"percentage": 100, "Percent": 100})

    assert await run(body, [above(0)]) == [("progress", {"percentage": 100, "Percent": 100})]


async def test_the_trigger_is_sent_as_given_and_extra_cannot_replace_it(run: Runner) -> None:
    """K66."""
    trigger = {"type": "eta_below", "seconds": 10, "unknown": {"field": [1]}}

    async def body(ctx: TaskContext) -> None:
        await ctx.fire_trigger(trigger, {"eta_s": 9.4, "trigger": "forged"})

    assert await run(body, [trigger]) == [("trigger_fired", {"trigger": trigger, "eta_s": 9.4})]


async def test_equal_content_is_the_same_trigger(run: Runner) -> None:
    """K67: whatever the key order, the object, or 10 written as 10.0."""

    async def body(ctx: TaskContext) -> None:
        await ctx.fire_trigger(ctx.triggers[0])
        await ctx.fire_trigger({"seconds": 10, "type": "eta_below"})
        await ctx.fire_trigger({"type": "eta_below", "seconds": 10.0})
        for trigger in ctx.triggers:
            await ctx.fire_trigger(trigger)

    twins = [{"type": "eta_below", "seconds": 10}, {"seconds": 10, "type": "eta_below"}]
    assert len(await run(body, twins)) == 1


async def test_two_equal_thresholds_fire_once_together(run: Runner) -> None:
    """K67: the repeating ones too, once a report."""
    assert len(fired(await run.percents([60], above(50), above(50.0)))) == 1
    assert len(fired(await run.percents([60, 70], above(50, repeat=True), above(50, repeat=True)))) == 2


async def test_different_content_is_another_trigger(run: Runner) -> None:
    """K67."""
    different: list[dict[str, Any]] = [
        {"type": "t", "x": 1},
        {"type": "t", "x": True},
        {"type": "t", "x": "1"},
        {"type": "t", "x": None},
        {"type": "t"},
        {"type": "t", "x": [1]},
    ]

    async def body(ctx: TaskContext) -> None:
        for trigger in ctx.triggers:
            await ctx.fire_trigger(trigger)

    assert len(await run(body, different)) == len(different)


async def test_many_at_once_fire_once(run: Runner) -> None:
    """K68."""

    async def body(ctx: TaskContext) -> None:
        await asyncio.gather(*(ctx.fire_trigger({"type": "x", "n": 1}) for _ in range(50)))

    assert len(await run(body, [{"type": "x", "n": 1}])) == 1


async def test_firing_from_threads_fires_once(run: Runner) -> None:
    """K68: a coroutine of the context that another loop drives."""

    async def body(ctx: TaskContext) -> None:
        await asyncio.gather(
            *(asyncio.to_thread(asyncio.run, ctx.fire_trigger({"type": "x"})) for _ in range(20)),
        )

    assert len(await run(body, [{"type": "x"}])) == 1


async def test_each_task_has_its_own_firing(run: Runner) -> None:
    """K69."""

    async def body(ctx: TaskContext) -> None:
        await ctx.fire_trigger({"type": "x"})

    assert len(await run(body, [{"type": "x"}])) == 1
    assert len(await run(body, [{"type": "x"}])) == 1


async def test_a_repeating_trigger_fires_at_every_call(run: Runner) -> None:
    """K70."""

    async def body(ctx: TaskContext) -> None:
        for _ in range(5):
            await ctx.fire_trigger(ctx.triggers[0])

    assert len(await run(body, [{"type": "x", "repeat": True}])) == 5


async def test_nested_values_in_triggers_are_compared(run: Runner) -> None:
    """K71."""

    async def body(ctx: TaskContext) -> None:
        await ctx.fire_trigger({"type": "x", "zones": [{"a": 1, "b": [2]}]})
        await ctx.fire_trigger({"type": "x", "zones": [{"b": [2], "a": 1}]})
        await ctx.fire_trigger({"type": "x", "zones": [{"a": 1, "b": [3]}]})

    nested = [{"type": "x", "zones": [{"a": 1, "b": [n]}]} for n in (2, 3)]
    assert len(await run(body, nested)) == 2


async def test_a_trigger_that_was_not_attached_is_sent_with_a_warning(
    run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """K72."""

    async def body(ctx: TaskContext) -> None:
        await ctx.fire_trigger({"type": "y"})
        await ctx.fire_trigger({"type": "y"})

    assert await run(body, [{"type": "x"}]) == [("trigger_fired", {"trigger": {"type": "y"}})]
    assert len([text for text in warnings(caplog) if "not attached" in text]) == 1


async def test_a_trigger_that_the_body_changes_after_it_fired_does_not_fire_again(run: Runner) -> None:
    """K73."""

    async def body(ctx: TaskContext) -> None:
        (trigger,) = ctx.triggers
        await ctx.fire_trigger(trigger)
        trigger["fired"] = True
        await ctx.fire_trigger(trigger)
        await ctx.progress({"percent": 100})

    assert len(fired(await run(body, [above(50)]))) == 1


async def test_a_watch_event_changes_neither_state_nor_progress(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K74: it shares the sequence."""
    seen: list[Any] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        await ctx.progress({"n": 1})
        await ctx.emit({"object": "cup", "score": 0.9})
        info = manager.get(ctx.task_id)
        assert info is not None
        seen.append((info.state, info.progress))
        return {}

    await manager.wait(manager.start("watch_for", body).task_id)
    assert seen == [("running", {"n": 1})]
    assert (poster.events[1].type, poster.events[1].seq) == ("watch_event", 2)
    assert poster.events[1].payload == {"object": "cup", "score": 0.9}


async def test_a_long_watcher_does_not_grow_the_manager() -> None:
    """K75."""

    class Forgetful(CollectingPoster):
        def post_nowait(self, event: Any) -> None:
            pass

    manager = TaskManager("perception", Forgetful("perception"))
    sizes: list[int] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        for n in range(12_000):
            if n % 10_000 == 1_000:
                sizes.append(tracemalloc.get_traced_memory()[0])
            await ctx.emit({"n": n, "text": "x" * 100})
        return {}

    tracemalloc.start()
    try:
        await manager.wait(manager.start("watch_for", body).task_id)
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 50_000


@pytest.mark.parametrize("ending", ["done", "cancelled"])
async def test_reports_on_an_ended_task_are_ignored_with_one_warning(
    manager: TaskManager, poster: CollectingPoster, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    """K76."""
    kept: list[TaskContext] = []

    async def body(ctx: TaskContext) -> dict[str, Any]:
        kept.append(ctx)
        if ending == "cancelled":
            await asyncio.Event().wait()
        return {}

    info = manager.start("t", body, triggers=[{"type": "x"}])
    while not kept:
        await asyncio.sleep(0)
    await (manager.wait(info.task_id) if ending == "done" else manager.cancel(info.task_id))
    before, count = manager.get(info.task_id), len(poster.events)
    for _ in range(3):
        await kept[0].progress({"percent": 100})
        await kept[0].emit({})
        await kept[0].fire_trigger({"type": "x"})
    assert manager.get(info.task_id) == before
    assert len(poster.events) == count
    assert len(warnings(caplog)) == 1


async def test_calls_from_a_gather_have_contiguous_numbers_in_order(run: Runner) -> None:
    """K77."""

    async def body(ctx: TaskContext) -> None:
        calls: list[Awaitable[None]] = []
        for n in range(100):
            calls += [ctx.progress({"n": n}), ctx.emit({"n": n}), ctx.fire_trigger({"type": "x", "n": n})]
        await asyncio.gather(*calls)

    assert len(await run(body)) == 300  # the runner checks the numbers


def test_unknown_types_are_named_and_the_known_ones_told(caplog: pytest.LogCaptureFixture) -> None:
    """K63: the helper for servers, which must ignore such triggers."""
    triggers = [{"type": "eta_below"}, above(5), {"type": "zone_entred"}, {"seconds": 3}]
    assert warn_unknown(triggers, {"eta_below", "zone_entered"}) == ["zone_entred", "None"]
    assert len(warnings(caplog)) == 2
    assert "eta_below, progress_above, zone_entered" in warnings(caplog)[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TRIGGER = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


@given(TRIGGER, st.randoms())
def test_sameness_ignores_the_order_of_keys(trigger: dict[str, Any], random: Any) -> None:
    """K67."""
    items = list(trigger.items())
    random.shuffle(items)
    assert canonical_key(dict(items)) == canonical_key(trigger)


def same_json(a: Any, b: Any) -> bool:
    """Equality as JSON readers see it, apart from floats that JSON cannot say."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (a != a and b != b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(itertools.starmap(same_json, zip(a, b, strict=True)))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


SMALL = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 1.5])
    | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from("ab"), SMALL), st.dictionaries(st.sampled_from("ab"), SMALL))
def test_sameness_is_equality_of_content(a: dict[str, Any], b: dict[str, Any]) -> None:
    """K67: neither more nor less."""
    assert (canonical_key(a) == canonical_key(b)) is same_json(a, b)


@given(st.dictionaries(st.just("repeat"), JSON))
def test_repeat_is_boolean_true_or_nothing(trigger: dict[str, Any]) -> None:
    """K62."""
    assert repeats(trigger) is (trigger.get("repeat") is True)
