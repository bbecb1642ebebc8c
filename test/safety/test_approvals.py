"""A token is unguessable, used once, dies in time, and never comes from the one that asked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from robot_mcp_kit.safety.approvals import ApprovalDesk, ApprovalError, Pending
from robot_mcp_kit.safety.estop import EstopLatch
from robot_mcp_kit.safety.goal_hash import goal_hash
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.safety.standing import DEMO_KEY, StandingBook, WallWatch, Wish, is_signed, sign
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config.safety import SafetySection, StandingApprovalSection
from robot_mcp_kit.testing.clock import FakeClock, settle

ANN = Approver("ann", "operator")


def desk(clock: FakeClock, *, timeout_s: float = 300.0, max_pending: int = 3) -> ApprovalDesk:
    return ApprovalDesk(clock, timeout_s=timeout_s, max_pending=max_pending)


def ask(one: ApprovalDesk, session: str = "s1", **more: Any) -> Pending:
    given = {
        "task_id": "t",
        "skill": "spin",
        "summary": "turn",
        "risk": "RESTRICTED",
        "goal_hash": "h",
        "requester": Requester(session, "mcp"),
        **more,
    }
    return one.ask(**given)


async def test_an_approval_is_told_to_the_one_that_waits() -> None:
    """R18."""
    one = desk(FakeClock())
    pending = ask(one)
    waiting = asyncio.ensure_future(one.wait(pending))
    await settle()
    one.decide(pending.token, True, ANN)
    decision = await waiting
    assert (decision.verdict, decision.approver) == ("approved", ANN)
    assert one.pending() == []


async def test_a_rejection_is_told_with_its_reason() -> None:
    """R29."""
    one = desk(FakeClock())
    pending = ask(one)
    one.decide(pending.token, False, ANN, "people in the corridor")
    decision = await one.wait(pending)
    assert (decision.verdict, decision.reason) == ("rejected", "people in the corridor")


async def test_a_token_works_once() -> None:
    """R20."""
    one = desk(FakeClock())
    pending = ask(one)
    one.decide(pending.token, True, ANN)
    for approve in (True, False):
        with pytest.raises(ApprovalError) as caught:
            one.decide(pending.token, approve, ANN)
        assert caught.value.code == "UNKNOWN_TOKEN"
    assert (await one.wait(pending)).verdict == "approved"


async def test_of_many_approvals_at_once_one_counts() -> None:
    """R22."""
    one = desk(FakeClock())
    pending = ask(one)

    async def approve() -> bool:
        await asyncio.sleep(0)
        try:
            one.decide(pending.token, True, ANN)
        except ApprovalError:
            return False
        return True

    assert sum(await asyncio.gather(*(approve() for _ in range(50)))) == 1


@pytest.mark.parametrize(("after_s", "good"), [(299.9, True), (300.1, False)])
async def test_a_token_lives_for_300_seconds(after_s: float, good: bool) -> None:
    """R21."""
    clock = FakeClock()
    one = desk(clock)
    pending = ask(one)
    await clock.advance(after_s)
    if good:
        one.decide(pending.token, True, ANN)
    else:
        with pytest.raises(ApprovalError):
            one.decide(pending.token, True, ANN)
        assert (await one.wait(pending)).verdict == "expired"


async def test_setting_the_wall_clock_does_not_make_a_token_live_longer() -> None:
    """R21."""
    clock = FakeClock()
    one = desk(clock)
    pending = ask(one)
    clock.step_wall(-100_000.0)
    await clock.advance(300.1)
    with pytest.raises(ApprovalError):
        one.decide(pending.token, True, ANN)


async def test_what_waits_expires_by_itself() -> None:
    """R21."""
    clock = FakeClock()
    one = desk(clock, timeout_s=10.0)
    waiting = asyncio.ensure_future(one.wait(ask(one)))
    await clock.advance(10.1)
    assert (await waiting).verdict == "expired"


async def test_tokens_are_long_and_different_and_not_in_what_is_printed() -> None:
    """R20."""
    one = desk(FakeClock(), max_pending=200)
    found = [ask(one) for _ in range(100)]
    assert len({pending.token for pending in found}) == 100
    assert all(len(pending.token) >= 43 for pending in found)  # 256 bits
    assert found[0].token not in repr(found[0])


@pytest.mark.parametrize("guess", ["", "x", "é", "\ud800", "0" * 10_000])
async def test_a_guess_is_refused_and_the_request_keeps_waiting(guess: str) -> None:
    """R20."""
    one = desk(FakeClock())
    pending = ask(one)
    with pytest.raises(ApprovalError):
        one.decide(guess, True, ANN)
    with pytest.raises(ApprovalError):
        one.decide(pending.approval_id, True, ANN)
    assert one.pending() == [pending]


@pytest.mark.parametrize("approver", [Approver("s1", "mcp"), Approver("s2", "mcp")])
async def test_no_session_of_the_requesters_surface_can_approve(approver: Approver) -> None:
    """R32: not its own request and not that of another session."""
    one = desk(FakeClock())
    pending = ask(one)
    with pytest.raises(ApprovalError) as caught:
        one.decide(pending.token, True, approver)
    assert caught.value.code == "SELF_APPROVAL"
    assert one.pending() == [pending]


async def test_requests_die_with_their_session_and_only_those() -> None:
    """R33."""
    one = desk(FakeClock())
    first, second = ask(one, "s1"), ask(one, "s2")
    assert one.end_session("s1") == 1
    assert (await one.wait(first)).verdict == "withdrawn"
    assert one.pending() == [second]


async def test_a_cancelled_wait_withdraws_the_request() -> None:
    """R20."""
    one = desk(FakeClock())
    pending = ask(one)
    waiting = asyncio.ensure_future(one.wait(pending))
    await settle()
    waiting.cancel()
    await settle()
    with pytest.raises(ApprovalError):
        one.decide(pending.token, True, ANN)


async def test_a_flood_of_requests_is_refused() -> None:
    one = desk(FakeClock(), max_pending=3)
    for _ in range(3):
        ask(one)
    with pytest.raises(ApprovalError) as caught:
        ask(one)
    assert caught.value.code == "TOO_MANY_PENDING"


def test_no_configuration_makes_an_approval_wait_longer_than_300_seconds() -> None:
    """R21."""
    with pytest.raises(ValueError, match="300"):
        SafetySection.model_validate({"approval_timeout_s": 301.0})


# -- the hash -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"x": 1.0000000000000002},
        {"x": 1},
        {"x": "1.0"},
        {"x": True},
        {"x": 1.0, "y": 0.0},
        {"x": [1.0]},
        {},
        {"X": 1.0},
        {"x": -1.0},
        {"x": None},
    ],
)
def test_any_other_goal_has_another_hash(other: dict[str, Any]) -> None:
    """R19."""
    assert goal_hash("spin", "/spin", other) != goal_hash("spin", "/spin", {"x": 1.0})
    assert goal_hash("spin2", "/spin", {"x": 1.0}) != goal_hash("spin", "/spin", {"x": 1.0})
    assert goal_hash("spin", "/r2/spin", {"x": 1.0}) != goal_hash("spin", "/spin", {"x": 1.0})


def test_the_order_of_fields_does_not_matter_to_the_hash() -> None:
    """R19."""
    assert goal_hash("a", "b", {"x": 1.0, "y": {"p": 1, "q": 2}}) == goal_hash(
        "a", "b", {"y": {"q": 2, "p": 1}, "x": 1.0}
    )


# -- standing approvals -------------------------------------------------------------------------------------

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def standing(**more: Any) -> StandingApprovalSection:
    return sign(
        StandingApprovalSection.model_validate(
            {"id": "flat", "operator": "ann", "robot": "bot", "skills": ["navigate_to"], **more}
        ),
        "key",
    )


def book(
    *approvals: StandingApprovalSection,
    key: str | None = "key",
    clock: FakeClock | None = None,
    uses: dict[str, int] | None = None,
) -> StandingBook:
    clock = clock or FakeClock(wall_s=NOW.timestamp())
    return StandingBook(approvals, [key] if key else [], "bot", WallWatch(clock, clock.wall), uses)


def wish(*points: tuple[str, tuple[float, float]] | None, here: Pose2D | None = None, **fields: Any) -> Wish:
    return Wish("navigate_to", fields, points or None, Situation(here))


def covered(found: StandingBook, wanted: Wish) -> bool:
    return found.find(wanted)[0] is not None


def test_a_signed_standing_approval_covers_its_skills() -> None:
    """R18."""
    found = book(standing())
    assert covered(found, wish())
    assert not covered(found, Wish("spin", {}, None, Situation()))


@pytest.mark.parametrize(
    "change",
    [
        {"skills": ["navigate_to", "move_arm"]},
        {"max_count": 1000},
        {"not_after": NOW + timedelta(days=999)},
        {"robot": "bot2"},
        {"operator": "bob"},
        {"signature": "hmac-sha256:" + "0" * 64},
        {"signature": ""},
        {"signature": "é"},
    ],
)
def test_a_standing_approval_that_was_changed_or_made_up_does_not_hold(change: dict[str, Any]) -> None:
    """R18, R32."""
    forged = standing().model_copy(update=change)
    found = book(forged)
    assert not covered(found, wish())
    assert "flat" in found.invalid


def test_another_key_or_none_verifies_nothing() -> None:
    """R32."""
    assert not covered(book(standing(), key="other"), wish())
    assert not covered(book(standing(), key=None), wish())
    assert not is_signed(standing(), DEMO_KEY)


def test_two_with_one_id_cannot_share_or_double_a_count() -> None:
    found = book(standing(max_count=1), standing(max_count=5))
    assert len(found.valid) == 1


def test_the_count_holds_also_over_a_restart() -> None:
    found = book(standing(max_count=2))
    for _ in range(2):
        approval, _ = found.find(wish())
        assert approval is not None
        found.use(approval)
    assert not covered(found, wish())
    assert not covered(book(standing(max_count=2), uses={"flat": 2}), wish())


def test_bounds_are_on_the_goals_fields() -> None:
    found = book(standing(bounds={"speed": [0.0, 0.2]}))
    assert covered(found, wish(speed=0.2))
    assert not covered(found, wish(speed=0.3))
    assert not covered(found, wish())


SQUARE = {"frame": "map", "polygon_m": [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]]}


@pytest.mark.parametrize(
    ("points", "here", "good"),
    [
        ([("map", (1.0, 1.0))], None, True),
        ([("map", (1.0, 1.0)), ("map", (5.0, 1.0))], None, False),
        ([("odom", (1.0, 1.0))], None, False),
        ([None], Pose2D(1.0, 1.0, 0.0), False),
        ([], Pose2D(1.0, 1.0, 0.0), True),
        ([], Pose2D(5.0, 1.0, 0.0), False),
        ([], None, False),
    ],
)
def test_the_place_holds_for_every_pose_or_for_where_the_robot_is(
    points: list[Any], here: Pose2D | None, good: bool
) -> None:
    assert covered(book(standing(place=SQUARE)), wish(*points, here=here)) is good


@pytest.mark.parametrize(
    ("window", "good"),
    [
        ({"not_before": NOW - timedelta(hours=1), "not_after": NOW + timedelta(hours=1)}, True),
        ({"not_before": NOW + timedelta(seconds=1)}, False),
        ({"not_after": NOW - timedelta(seconds=1)}, False),
        ({"hours": {"start": "08:00", "end": "18:00"}}, True),
        ({"hours": {"start": "12:01", "end": "18:00"}}, False),
        ({"hours": {"start": "22:00", "end": "06:00"}}, False),
        ({"hours": {"start": "11:00", "end": "06:00"}}, True),
    ],
)
def test_the_window_of_time_holds(window: dict[str, Any], good: bool) -> None:
    assert covered(book(standing(**window)), wish()) is good


def test_setting_the_clock_back_or_forward_opens_no_window() -> None:
    clock = FakeClock(wall_s=NOW.timestamp())
    over = book(standing(not_after=NOW - timedelta(hours=1)), clock=clock)
    clock.step_wall(-7200.0)
    assert not covered(over, wish())
    clock = FakeClock(wall_s=NOW.timestamp())
    soon = book(standing(not_before=NOW + timedelta(hours=1)), clock=clock)
    clock.step_wall(7200.0)
    assert not covered(soon, wish())


def test_a_clock_before_the_trails_last_record_is_not_believed() -> None:
    clock = FakeClock(wall_s=NOW.timestamp())
    watch = WallWatch(clock, clock.wall, NOW.timestamp() + 3600)
    assert "went back" in str(watch.distrust())


def test_times_need_a_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        StandingApprovalSection.model_validate(
            {
                "id": "a",
                "operator": "a",
                "robot": "b",
                "skills": ["c"],
                "not_after": datetime(2026, 1, 1),  # noqa: DTZ001
            }
        )


# -- the latch ----------------------------------------------------------------------------------------------


def test_the_latch_holds_over_a_restart_until_a_person_resets_it(tmp_path: Any) -> None:
    clock, stopped = FakeClock(), []
    file = tmp_path / "estop.json"
    latch = EstopLatch(file, clock.wall, stopped.append)
    assert not latch.latched
    assert latch.latch("button")
    assert not latch.latch("button again")
    assert stopped == ["button"]
    again = EstopLatch(file, clock.wall)
    assert again.reason == "button"
    assert again.reset(ANN) == "button"
    assert again.reset(ANN) is None
    assert not EstopLatch(file, clock.wall).latched


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"latched": 0}', '{"latched": null}', "null"])
def test_a_state_that_cannot_be_read_is_latched(tmp_path: Any, content: str) -> None:
    file = tmp_path / "estop.json"
    file.write_text(content)
    assert EstopLatch(file, FakeClock().wall).latched


def test_a_latch_that_cannot_be_written_holds_and_stops_all_the_same(tmp_path: Any) -> None:
    stopped: list[str] = []
    latch = EstopLatch(tmp_path / "missing" / "estop.json", FakeClock().wall, stopped.append)
    latch.latch("button")
    assert latch.latched
    assert stopped == ["button"]
    with pytest.raises(OSError):
        latch.reset(ANN)
    assert latch.latched
