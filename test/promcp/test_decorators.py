"""The decorators: async functions awaited, one action per key, responses checked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from robot_mcp_kit.promcp import (
    Blocked,
    Candidate,
    Effect,
    Intent,
    PartialEffectError,
    Reading,
    Registry,
    Unroutable,
    can_do_tool,
    do_tool,
    read_tool,
)
from robot_mcp_kit.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(clock=clock, wall_clock=clock.wall)


def _do(registry: Registry, act: Any, **options: Any) -> Any:
    async def do_move(distance_m: float, idempotency_key: str) -> Effect:
        return await act(distance_m)

    return do_tool("Drive distance_m metres.", **({"compensable": False} | options), registry=registry)(
        do_move
    )


# -- read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [True, False])
async def test_a_read_function_is_awaited_or_run_on_a_thread(plain: bool, registry: Registry) -> None:
    """P8: the value, not a coroutine."""
    if plain:

        def read_charge() -> float:
            return 12.0
    else:

        async def read_charge() -> float:  # type: ignore[misc]
            return 12.0

    answer = await read_tool("Charge.", unit="percent", registry=registry)(read_charge)()
    assert (answer.value, answer.unit, answer.quality) == (12.0, "percent", "good")
    assert answer.timestamp == registry.now()


@pytest.mark.parametrize(("age_s", "quality"), [(0.0, "good"), (5.0, "good"), (5.001, "stale")])
async def test_freshness_is_judged_at_its_boundary(age_s: float, quality: str, registry: Registry) -> None:
    """P9 P12: the time of the measurement is reported."""
    measured = registry.now() - timedelta(seconds=age_s)

    async def read_pose() -> Reading:
        return Reading(1.0, timestamp=measured)

    answer = await read_tool("Pose.", freshness_s=5.0, registry=registry)(read_pose)()
    assert answer.quality == quality
    assert abs((answer.timestamp - measured).total_seconds()) < 0.001
    assert answer.freshness_window_s == 5.0


async def test_a_doubtful_source_is_degraded(registry: Registry) -> None:
    """P10."""

    async def read_pose() -> Reading:
        return Reading(1.0, quality="degraded", detail="The covariance is large.")

    answer = await read_tool("Pose.", registry=registry)(read_pose)()
    assert (answer.quality, answer.value, answer.detail) == ("degraded", 1.0, "The covariance is large.")


async def test_a_read_that_fails_is_an_error_with_words_and_no_value(registry: Registry) -> None:
    """P11."""

    async def read_pose() -> float:
        raise OSError("the sensor is unplugged")

    answer = await read_tool("Pose.", registry=registry)(read_pose)()
    assert (answer.quality, answer.value) == ("error", None)
    assert answer.detail == "OSError: the sensor is unplugged"


async def test_a_value_of_the_wrong_kind_is_an_error(registry: Registry) -> None:
    """P6: what the function says it returns is checked."""

    async def read_charge() -> float:
        return "full"  # type: ignore[return-value]

    answer = await read_tool("Charge.", registry=registry)(read_charge)()
    assert (answer.quality, answer.value) == ("error", None)


async def test_parallel_reads_answer_like_sequential_ones(registry: Registry) -> None:
    """P14."""

    async def read_number(index: int) -> int:
        await asyncio.sleep(0)
        return index

    read = read_tool("A number.", registry=registry)(read_number)
    together = await asyncio.gather(*(read(n) for n in range(20)))
    assert [a.value for a in together] == [(await read(n)).value for n in range(20)] == list(range(20))


# -- do -------------------------------------------------------------------------------------------


async def test_the_same_key_acts_once_and_answers_the_same(registry: Registry) -> None:
    """P16 P17."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        return Effect(applied_value=len(motions), previous_value=0)

    move = _do(registry, act)
    first, again = await move(1.0, "k"), await move(1.0, "k")
    assert motions == [1.0]
    assert again.model_copy(update={"replayed": False}) == first
    assert (first.replayed, again.replayed) == (False, True)


async def test_a_second_call_joins_the_running_one(registry: Registry) -> None:
    """P18."""
    motions: list[float] = []
    go = asyncio.Event()

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        await go.wait()
        return Effect(1)

    move = _do(registry, act)
    both = [asyncio.create_task(move(1.0, "k")) for _ in range(2)]
    await asyncio.sleep(0)
    go.set()
    first, second = await asyncio.gather(*both)
    assert motions == [1.0]
    assert first.applied_value == second.applied_value == 1


async def test_the_same_key_with_other_arguments_is_refused(registry: Registry) -> None:
    """P19; 1 and 1.0 are the same."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        return Effect(1)

    move = _do(registry, act)
    await move(1.0, "k")
    assert (await move(1, "k")).replayed
    refused = await move(2.0, "k")
    assert (refused.status, refused.applied_value, motions) == ("failed", None, [1.0])
    assert "other arguments" in refused.detail


async def test_other_keys_act_again(registry: Registry) -> None:
    """P20."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        return Effect(1)

    move = _do(registry, act)
    await move(1.0, "a")
    await move(1.0, "b")
    assert len(motions) == 2


@pytest.mark.parametrize("key", ["", "   ", "x" * 201, 5, None])
async def test_a_blank_or_odd_key_is_refused_before_anything_happens(key: Any, registry: Registry) -> None:
    """P15."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        return Effect(1)

    answer = await _do(registry, act)(1.0, key)
    assert (answer.status, motions) == ("failed", [])
    assert "idempotency_key" in answer.detail


async def test_a_key_is_remembered_for_the_stated_time(registry: Registry, clock: FakeClock) -> None:
    """P21: at the end of the window it is still known, after it it counts as new, as the description says."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        return Effect(1)

    move = _do(registry, act, key_window_s=60.0)
    assert "remembered for 60 s" in registry["do_move"].description
    await move(1.0, "k")
    await clock.advance(60.0)
    assert (await move(1.0, "k")).replayed
    await clock.advance(0.1)
    assert not (await move(1.0, "k")).replayed
    assert len(motions) == 2


async def test_the_key_of_a_running_action_does_not_expire(registry: Registry, clock: FakeClock) -> None:
    """L19, for decorated tools."""
    motions: list[float] = []
    go = asyncio.Event()

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        await go.wait()
        return Effect(1)

    move = _do(registry, act, key_window_s=60.0)
    first = asyncio.create_task(move(1.0, "k"))
    await asyncio.sleep(0)
    await clock.advance(1000.0)
    second = asyncio.create_task(move(1.0, "k"))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(first, second)
    assert len(motions) == 1


async def test_a_failed_attempt_replays_as_failed(registry: Registry) -> None:
    """P22 P28."""
    motions: list[float] = []

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        raise RuntimeError("the wheel is stuck")

    move = _do(registry, act)
    for _ in range(2):
        answer = await move(1.0, "k")
        assert (answer.status, answer.detail) == ("failed", "RuntimeError: the wheel is stuck")
    assert len(motions) == 1


async def test_a_caller_that_goes_away_does_not_end_the_action(registry: Registry) -> None:
    """A framework cancels its handler when the client leaves; the retry joins what runs."""
    motions: list[float] = []
    started, go = asyncio.Event(), asyncio.Event()

    async def act(distance_m: float) -> Effect:
        motions.append(distance_m)
        started.set()
        await go.wait()
        return Effect(7)

    move = _do(registry, act)
    gone = asyncio.create_task(move(1.0, "k"))
    await started.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    again = asyncio.create_task(move(1.0, "k"))
    await asyncio.sleep(0)
    go.set()
    assert (await again).applied_value == 7
    assert len(motions) == 1


async def test_a_motion_that_moved_and_failed_is_partial(registry: Registry) -> None:
    """P25."""

    async def act(_: float) -> Effect:
        raise PartialEffectError("it hit the door", applied_value=0.4, side_effects=["robot_moved"])

    answer = await _do(registry, act, side_effects=["robot_moved"])(1.0, "k")
    assert (answer.status, answer.applied_value, answer.side_effects) == ("partial", 0.4, ["robot_moved"])


async def test_the_hint_is_filled_with_what_was_measured(registry: Registry) -> None:
    """P23."""

    async def act(_: float) -> Effect:
        return Effect(applied_value=1.02, previous_value=0.25)

    move = _do(registry, act, compensable=True, compensation_hint="do_move distance_m={previous_value}")
    answer = await move(1.0, "k")
    assert answer.compensation_hint == "do_move distance_m=0.25"
    refused = await move(9.0, "k")
    assert (refused.compensable, refused.compensation_hint) == (False, None)


async def test_without_compensation_there_is_no_hint(registry: Registry) -> None:
    """P24."""

    async def act(_: float) -> Effect:
        return Effect(1)

    assert (await _do(registry, act)(1.0, "k")).compensation_hint is None


@pytest.mark.parametrize(
    "options",
    [
        {"compensable": True},
        {"compensable": False, "compensation_hint": "do_move distance_m=1"},
        {"compensable": True, "compensation_hint": "do_move distance_m={unknown}"},
    ],
)
def test_a_hint_that_cannot_be_given_is_refused_at_decoration(
    options: dict[str, Any], registry: Registry
) -> None:
    """P part 1: not only after the body ran."""
    with pytest.raises(ValueError, match="hint"):
        _do(registry, None, **options)
    assert registry.names() == []


@pytest.mark.parametrize("name", ["move", "do_", "doMove", "read_move"])
def test_a_name_outside_the_triad_is_refused(name: str, registry: Registry) -> None:
    """P1 P2."""
    with pytest.raises(ValueError, match="do_"):
        _do(registry, None, name=name)


def test_a_do_tool_needs_its_key_argument(registry: Registry) -> None:
    """P15."""

    async def do_move(distance_m: float) -> None: ...

    with pytest.raises(ValueError, match="idempotency_key"):
        do_tool("Move.", compensable=False, registry=registry)(do_move)


def test_a_name_is_taken_once(registry: Registry) -> None:
    """P2 P3."""
    _do(registry, None)
    with pytest.raises(ValueError, match="has one already"):
        _do(registry, None)


# -- can_do ---------------------------------------------------------------------------------------


def _candidate(registry: Registry, confidence: float = 0.9, permission: str = "allowed") -> Candidate:
    return Candidate.model_validate(
        {
            "capability": "do_move",
            "source": "robot",
            "confidence": confidence,
            "permission": permission,
            "valid_until": registry.now() + timedelta(seconds=5),
        }
    )


async def test_candidates_are_sorted_and_make_the_report_feasible(registry: Registry) -> None:
    """P31 P33 P40."""

    async def can_do(intent: Intent) -> list[Any]:
        return [
            _candidate(registry, 0.3),
            Unroutable(outcome="x", reason="no_producer", detail="no"),
            _candidate(registry, 0.8),
        ]

    report = await can_do_tool("Whether.", registry=registry)(can_do)(Intent(semantic_tags=["move"]))
    assert report.feasible
    assert [c.confidence for c in report.candidates] == [0.8, 0.3]
    assert report.unroutable == []


async def test_waiting_for_a_person_is_not_feasible_by_itself(registry: Registry) -> None:
    """P31 P32."""

    async def can_do(intent: Intent) -> list[Any]:
        return [_candidate(registry, permission="requires_human_approval")]

    report = await can_do_tool("Whether.", registry=registry)(can_do)(Intent(semantic_tags=["move"]))
    assert not report.feasible


@pytest.mark.parametrize(
    "intent", [{}, {"semantic_tags": []}, {"semantic_tags": [" "]}, {"semantic_tags": 5}]
)
async def test_an_intent_without_tags_is_malformed_and_no_crash(intent: Any, registry: Registry) -> None:
    """P29."""

    async def can_do(intent: Intent) -> list[Any]:
        raise AssertionError("not asked")

    report = await can_do_tool("Whether.", registry=registry)(can_do)(intent)
    assert [u.reason for u in report.unroutable] == ["malformed_request"]


async def test_nothing_found_is_no_producer(registry: Registry) -> None:
    """P32 P33."""

    async def can_do(intent: Intent) -> list[Any]:
        return []

    report = await can_do_tool("Whether.", registry=registry)(can_do)(Intent(semantic_tags=["fly"]))
    assert (report.feasible, report.unroutable[0].reason) == (False, "no_producer")


async def test_a_query_id_is_new_each_time(registry: Registry) -> None:
    """P30."""

    async def can_do(intent: Intent) -> list[Any]:
        return []

    ask = can_do_tool("Whether.", registry=registry)(can_do)
    reports = [await ask(Intent(semantic_tags=["fly"])) for _ in range(3)]
    assert len({report.query_id for report in reports}) == 3


def test_blocked_and_candidates_hold_only_their_own_permissions(registry: Registry) -> None:
    """P35."""
    with pytest.raises(ValidationError, match="blocked"):
        _candidate(registry, permission="policy_denied")
    with pytest.raises(ValidationError, match="cannot be allowed"):
        Blocked(capability="do_move", source="robot", permission="allowed", reason="?")
