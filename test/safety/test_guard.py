"""Nothing leaves that was not judged, agreed to and written down; whatever fails on the way refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.safety import audit
from robot_mcp_kit.safety.approvals import ApprovalError, Pending
from robot_mcp_kit.safety.assemble import build_guard, operator_key, plain_parts
from robot_mcp_kit.safety.audit_verify import audit_key, records, verify
from robot_mcp_kit.safety.clearance import Clearance, Permit
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Reader, Reading
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.safety.rulebook import Rulebook
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.safety.standing import sign
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import GoalSpec, Pose2D
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.config.safety import InterlockSection, StandingApprovalSection
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.testing.clock import FakeClock, settle

from .conftest import FENCE, GOOD, demo_config

KEY = "a key of twenty chars"
ANN = Approver("ann", "operator")
MODEL = Requester("session-1", "mcp", "some model")
ESTOP = {
    "topic": "estop",
    "type": "std_msgs/msg/Bool",
    "field": "data",
    "ok": False,
    "max_age_s": 5.0,
    "settle_s": 0.0,
}


class Topic(Reader):
    tells = True

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.value, self.at_s = clock, False, clock.now()
        self.hear: Callable[[Reading], None] = lambda _reading: None
        self.fails: Exception | None = None

    def publish(self, value: Any) -> None:
        self.value, self.at_s = value, self.clock.now()
        self.hear(Reading(SimpleNamespace(data=value), 0.0))

    async def read(self) -> Reading | None:
        return self.latest()

    def latest(self) -> Reading | None:
        if self.fails is not None:
            raise self.fails
        return Reading(SimpleNamespace(data=self.value), self.clock.now() - self.at_s)

    def listen(self, heard: Callable[[Reading], None]) -> None:
        self.hear = heard
        self.publish(False)


@dataclasses.dataclass
class Rig:
    guard: Guard
    clock: FakeClock
    folder: Path
    topics: dict[str, Topic]
    at: list[Situation]
    skills: dict[str, Any]
    stopped: list[str] = dataclasses.field(default_factory=list)

    def spec(self, skill: str = "navigate_to", **arguments: Any) -> GoalSpec:
        chosen = self.skills[skill]
        return chosen.goal(parse_arguments(chosen.arguments, arguments or GOOD[skill]))

    def admit(self, skill: str = "navigate_to", spec: GoalSpec | None = None, **more: Any) -> Clearance:
        return self.guard.admit(
            self.skills[skill],
            spec or self.spec(skill),
            f"/{skill}",
            requester=more.pop("requester", MODEL),
            arguments=GOOD[skill],
        )

    def asked(self, skill: str = "navigate_to") -> tuple[Clearance, Pending]:
        clearance = self.admit(skill)
        pending = self.guard.ask(clearance, "task-1")
        assert pending is not None
        return clearance, pending

    async def approved(self, skill: str = "navigate_to") -> Clearance:
        clearance, pending = self.asked(skill)
        self.guard.decide(pending.token, True, ANN)
        await self.guard.decided(clearance, pending)
        return clearance

    def trail(self) -> list[dict[str, Any]]:
        return list(records(self.folder / "audit"))

    def events(self) -> list[str]:
        return [record["event"] for record in self.trail()]


def rig_of(folder: Path, standing: list[StandingApprovalSection] | None = None, **safety: Any) -> Rig:
    clock = FakeClock(1000.0)
    topics: dict[str, Topic] = {}
    at = [Situation(Pose2D(3.0, 4.0, 0.0))]

    def reader_for(name: str, _section: InterlockSection) -> Reader:
        return topics.setdefault(name, Topic(clock))

    config = demo_config(**safety)
    skills = build_skills(config, lambda: at[0].here)
    parts = plain_parts(
        folder, clock=clock, wall=clock.wall, key=KEY, situation=lambda: at[0], reader_for=reader_for
    )
    rig = Rig(build_guard(config, skills, parts, standing), clock, folder, topics, at, skills)
    rig.guard.on_estop = rig.stopped.append
    return rig


@pytest.fixture
async def rigs(tmp_path: Path) -> AsyncIterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**more: Any) -> Rig:
        made.append(rig_of(tmp_path, **more))
        return made[-1]

    yield make
    for rig in made:
        await rig.guard.aclose()


def code(caught: pytest.ExceptionInfo[SafetyRefused]) -> str:
    return caught.value.error_code


# -- the way of one goal ------------------------------------------------------------------------------------


async def test_an_approved_goal_gets_one_permit_and_leaves_a_whole_chain(rigs: Callable[..., Rig]) -> None:
    """R18, R19, R34, R37."""
    rig = rigs()
    clearance, pending = rig.asked()
    assert rig.events() == ["opened", "requested"]
    rig.guard.decide(pending.token, True, ANN)
    await rig.guard.decided(clearance, pending)
    goal_id = uuid4()
    permit = await rig.guard.permit(clearance, goal_id)
    assert permit.spend() == rig.spec().fields
    rig.guard.finished(clearance, result="success")
    await rig.guard.aclose()
    chain = [record for record in rig.trail() if record.get("request") == clearance.request_id]
    assert [record["event"] for record in chain] == ["requested", "decided", "started", "finished"]
    requested, decided, started, finished = chain
    assert requested["requester"]["session"] == "session-1"
    assert requested["arguments"] == {"place": "kitchen"}
    assert decided["approval"]["approver"] == "operator:ann"
    assert "poses" in decided["limits"]
    assert started["goal_id"] == str(goal_id)
    assert {record["goal_sha256"] for record in (requested, decided, started)} == {clearance.goal_hash}
    assert finished["result"] == "success"
    assert verify(rig.folder / "audit", audit_key(KEY)).ok


async def test_without_a_section_every_motion_waits_for_a_person(rigs: Callable[..., Rig]) -> None:
    """R18."""
    rig = rigs()
    for skill in GOOD:
        pending = rig.guard.ask(rig.admit(skill), f"task-{skill}")
        assert (pending is None) is (skill == "wait")
        if pending is not None:
            rig.guard.desk.withdraw(pending, "enough")


async def test_a_permit_is_spent_once_and_only_the_guard_makes_one(rigs: Callable[..., Rig]) -> None:
    """R20."""
    rig = rigs()
    clearance = await rig.approved()
    permit = await rig.guard.permit(clearance, uuid4())
    permit.spend()
    with pytest.raises(RuntimeError, match="never sent twice"):
        permit.spend()
    with pytest.raises(TypeError, match=r"Guard\.permit"):
        Permit(clearance, uuid4(), object())


async def test_a_goal_is_sent_again_only_after_a_definite_refusal_and_once(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    clearance = await rig.approved()
    await rig.guard.permit(clearance, uuid4())
    rig.guard.not_taken(clearance)
    await rig.guard.permit(clearance, uuid4())
    rig.guard.not_taken(clearance)
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_GOAL_CHANGED"


async def test_a_second_permit_without_a_refusal_in_between_is_refused(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    clearance = await rig.approved()
    await rig.guard.permit(clearance, uuid4())
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert "sent already" in str(caught.value)


async def test_a_goal_that_nobody_approved_gets_no_permit(rigs: Callable[..., Rig]) -> None:
    """R18."""
    rig = rigs()
    for clearance in (rig.admit(), rig.asked()[0]):
        with pytest.raises(SafetyRefused) as caught:
            await rig.guard.permit(clearance, uuid4())
        assert "not approved" in str(caught.value)


async def test_what_was_approved_is_what_runs(rigs: Callable[..., Rig]) -> None:
    """R19: changing the goal afterwards changes nothing, or is refused."""
    rig = rigs()
    spec = rig.spec()
    clearance = rig.admit(spec=spec)
    pending = rig.guard.ask(clearance, "t")
    assert pending is not None
    rig.guard.decide(pending.token, True, ANN)
    await rig.guard.decided(clearance, pending)
    spec.fields["pose"]["pose"]["position"]["x"] = 1.0
    sent = (await rig.guard.permit(clearance, uuid4())).spend()
    assert sent["pose"]["pose"]["position"]["x"] == 10.0
    other = await rig.approved()
    other.fields["pose"]["pose"]["position"]["x"] = 1.0  # type: ignore[index]
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(other, uuid4())
    assert code(caught) == "SAFETY_GOAL_CHANGED"


async def test_a_rejection_ends_the_goal_and_is_written_down(rigs: Callable[..., Rig]) -> None:
    """R29, R34."""
    rig = rigs()
    clearance, pending = rig.asked()
    rig.guard.decide(pending.token, False, ANN, "children\nin the hall")
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.decided(clearance, pending)
    assert code(caught) == "SAFETY_REJECTED"
    assert "children in the hall" in str(caught.value)
    with pytest.raises(SafetyRefused):
        await rig.guard.permit(clearance, uuid4())
    last = rig.trail()[-1]
    assert (last["event"], last["decision"], last["approval"]["verdict"]) == (
        "decided",
        "refused",
        "rejected",
    )


async def test_an_approval_that_never_comes_expires(rigs: Callable[..., Rig]) -> None:
    """R21."""
    rig = rigs()
    clearance, pending = rig.asked()
    waiting = asyncio.ensure_future(rig.guard.decided(clearance, pending))
    await rig.clock.advance(300.1)
    with pytest.raises(SafetyRefused) as caught:
        await waiting
    assert code(caught) == "SAFETY_APPROVAL_EXPIRED"


async def test_a_cancelled_task_withdraws_its_request(rigs: Callable[..., Rig]) -> None:
    """R20."""
    rig = rigs()
    clearance, pending = rig.asked()
    waiting = asyncio.ensure_future(rig.guard.decided(clearance, pending))
    await settle()
    waiting.cancel()
    await settle()
    with pytest.raises(ApprovalError):
        rig.guard.decide(pending.token, True, ANN)
    assert rig.trail()[-1]["event"] == "approval_refused"
    with pytest.raises(SafetyRefused):
        await rig.guard.permit(clearance, uuid4())


async def test_safe_skills_need_nobody_and_leave_no_entry(rigs: Callable[..., Rig]) -> None:
    """R17."""
    rig = rigs()
    clearance = rig.admit("wait")
    assert rig.guard.ask(clearance, "t") is None
    await rig.guard.permit(clearance, uuid4())
    rig.guard.finished(clearance, result="success")
    assert rig.events() == ["opened"]


async def test_a_raised_level_is_obeyed(rigs: Callable[..., Rig]) -> None:
    """R3."""
    rig = rigs(skills={"wait": {"risk": "GUARDED"}, "spin": {"risk": "PROHIBITED"}})
    assert rig.guard.ask(rig.admit("wait"), "t") is not None
    with pytest.raises(SafetyRefused) as caught:
        rig.admit("spin")
    assert code(caught) == "SAFETY_PROHIBITED"
    assert rig.trail()[-1]["code"] == "SAFETY_PROHIBITED"


# -- refusals before anybody is asked -----------------------------------------------------------------------


async def test_a_goal_outside_the_limits_is_refused_with_limit_value_and_way_out(
    rigs: Callable[..., Rig],
) -> None:
    """R30."""
    rig = rigs(
        geofence={"floors": {"a": {"keep_in": {"a": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}}}
    )
    spec = rig.spec(x_m=5.0, y_m=5.0)
    spec.fields["pose"]["pose"]["position"]["x"] = 14.0
    with pytest.raises(SafetyRefused) as caught:
        rig.admit(spec=spec)
    assert code(caught) == "SAFETY_LIMIT"
    broken = [one["limit"] for one in caught.value.details["violations"]]
    assert "geofence.keep_in" in broken
    assert "x 0 .. 12" in str(caught.value)
    assert [record["event"] for record in rig.trail()][-2:] == ["requested", "decided"]
    assert rig.trail()[-1]["violations"] == caught.value.details["violations"]


async def test_rates_are_limited_for_requests_in_one_instant(rigs: Callable[..., Rig]) -> None:
    rig = rigs(skills={"spin": {"rate": {"count": 2, "per_s": 60.0}}})
    rig.admit("spin")
    rig.admit("spin")
    with pytest.raises(SafetyRefused) as caught:
        rig.admit("spin")
    assert code(caught) == "SAFETY_RATE"
    await rig.clock.advance(60.0)
    rig.admit("spin")


async def test_many_short_drives_are_limited_together(rigs: Callable[..., Rig]) -> None:
    rig = rigs(skills={"back_up": {"rate": {"count": 100, "per_s": 60.0, "distance_m": 1.0}}})
    for _ in range(3):
        rig.admit("back_up")
    with pytest.raises(SafetyRefused) as caught:
        rig.admit("back_up")
    assert "rate.distance_m" in str(caught.value)


async def test_a_robot_outside_its_fence_is_not_driven_further(rigs: Callable[..., Rig]) -> None:
    rig = rigs(
        geofence=FENCE
        | {
            "margin_m": 0.0,
            "floors": {"flat": {"keep_in": {"a": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}},
        }
    )
    rig.at[0] = Situation(Pose2D(-1.0, 4.0, 0.0))
    with pytest.raises(SafetyRefused) as caught:
        rig.admit()
    assert "person has to bring it back" in str(caught.value)


async def test_a_prohibited_name_is_remembered_and_refused(rigs: Callable[..., Rig]) -> None:
    """R27, R34."""
    rig = rigs()
    with pytest.raises(SafetyRefused) as caught:
        rig.guard.unknown_skill("Оverride-Safety", MODEL)
    assert code(caught) == "SAFETY_PROHIBITED"
    rig.guard.unknown_skill("fly", MODEL)
    assert [record["name"] for record in rig.trail() if record["event"] == "prohibited"] == [
        "Оverride-Safety"
    ]


# -- right before sending -----------------------------------------------------------------------------------


async def test_interlocks_are_checked_after_the_approval_and_spend_it(rigs: Callable[..., Rig]) -> None:
    """R23, R25."""
    rig = rigs(interlocks={"estop": ESTOP})
    clearance = await rig.approved()
    rig.topics["estop"].publish(True)
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_INTERLOCK"
    assert "estop: data is true" in str(caught.value)
    rig.topics["estop"].publish(False)
    with pytest.raises(SafetyRefused):
        await rig.guard.permit(clearance, uuid4())
    assert "started" not in rig.events()
    assert rig.trail()[-1]["event"] == "finished"
    assert rig.trail()[-1]["sent"] is False


async def test_an_interlock_that_raises_or_is_stale_refuses(rigs: Callable[..., Rig]) -> None:
    """R24."""
    rig = rigs(interlocks={"estop": ESTOP})
    first = await rig.approved()
    rig.topics["estop"].fails = RuntimeError("bus fault")
    with pytest.raises(SafetyRefused, match="bus fault"):
        await rig.guard.permit(first, uuid4())
    rig.topics["estop"].fails = None
    second = await rig.approved()
    await rig.clock.advance(5.1)
    with pytest.raises(SafetyRefused, match="stale"):
        await rig.guard.permit(second, uuid4())


async def test_guarded_skills_do_not_ask_the_interlocks(rigs: Callable[..., Rig]) -> None:
    """R26."""
    rig = rigs(interlocks={"estop": ESTOP}, skills={"wait": {"risk": "GUARDED"}})
    clearance = await rig.approved("wait")
    rig.topics["estop"].fails = RuntimeError("asked")
    await rig.guard.permit(clearance, uuid4())


async def test_the_started_record_is_on_the_disk_before_the_permit(
    rigs: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R38, R40."""
    rig = rigs()
    clearance = await rig.approved()
    synced: list[list[str]] = []
    real = audit.AuditTrail.sync

    def sync(self: Any) -> None:
        synced.append([record["event"] for record in records(rig.folder / "audit")])
        real(self)

    monkeypatch.setattr(audit.AuditTrail, "sync", sync)
    await rig.guard.permit(clearance, uuid4())
    assert synced[-1][-1] == "started"


async def test_an_interlock_that_breaks_while_the_record_is_synced_still_refuses(
    rigs: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23."""
    rig = rigs(interlocks={"estop": ESTOP})
    clearance = await rig.approved()
    real = rig.guard.trail.sync_soon

    async def slow() -> None:
        await real()
        rig.topics["estop"].publish(True)

    monkeypatch.setattr(rig.guard.trail, "sync_soon", slow)
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_INTERLOCK"
    assert rig.trail()[-1]["sent"] is False


async def test_a_robot_that_was_moved_while_the_approval_waited_is_judged_again(
    rigs: Callable[..., Rig],
) -> None:
    """R30."""
    rig = rigs(
        geofence={"floors": {"a": {"keep_in": {"a": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}}}
    )
    clearance = await rig.approved("back_up")
    rig.at[0] = Situation(Pose2D(0.1, 4.0, 0.0))
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_LIMIT"


# -- the trail fails ----------------------------------------------------------------------------------------


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def fill() -> None:
        def write(fd: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(audit.os, "write", write)

    return fill


async def test_nothing_starts_when_the_trail_cannot_be_written(
    rigs: Callable[..., Rig], full_disk: Callable[[], None]
) -> None:
    """R38, at every step."""
    rig = rigs()
    approved = await rig.approved()
    _, pending = rig.asked()
    clearance, other = rig.asked()
    rig.guard.decide(other.token, True, ANN)
    full_disk()
    with pytest.raises(SafetyRefused) as caught:
        rig.admit()
    assert code(caught) == "SAFETY_AUDIT_UNAVAILABLE"
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.decided(clearance, other)
    assert code(caught) == "SAFETY_AUDIT_UNAVAILABLE"
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(approved, uuid4())
    assert code(caught) == "SAFETY_AUDIT_UNAVAILABLE"
    rig.guard.latch("button", "test")
    assert rig.stopped
    assert rig.guard.estop.latched
    assert pending.outcome.done()


async def test_a_failed_sync_refuses(rigs: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    """R38."""
    rig = rigs()
    clearance = await rig.approved()

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(audit.os, "fsync", fails)
        with pytest.raises(SafetyRefused) as caught:
            await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_AUDIT_UNAVAILABLE"
    with pytest.raises(SafetyRefused):
        rig.admit()


async def test_a_trail_cut_off_under_the_running_node_refuses(rigs: Callable[..., Rig]) -> None:
    """R35, R38."""
    rig = rigs()
    clearance = await rig.approved()
    (file,) = (rig.folder / "audit").glob("*.jsonl")
    content = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.permit(clearance, uuid4())
    assert code(caught) == "SAFETY_AUDIT_UNAVAILABLE"
    file.write_bytes(content)


# -- emergency stop -----------------------------------------------------------------------------------------


async def test_the_latch_refuses_everything_at_every_step_until_a_person_resets_it(
    rigs: Callable[..., Rig],
) -> None:
    rig = rigs()
    approved = await rig.approved()
    waiting, pending = rig.asked()
    rig.guard.latch("red button", "chat")
    assert rig.stopped == ["red button (chat)"]
    with pytest.raises(SafetyRefused) as caught:
        rig.admit()
    assert code(caught) == "SAFETY_ESTOP_LATCHED"
    with pytest.raises(SafetyRefused):
        await rig.guard.permit(approved, uuid4())
    with pytest.raises(ApprovalError):
        rig.guard.decide(pending.token, True, ANN)
    with pytest.raises(SafetyRefused):
        await rig.guard.decided(waiting, pending)
    assert rig.admit("wait").is_safe
    assert rig.guard.reset_estop(ANN) == "red button (chat)"
    await rig.guard.permit(await rig.approved(), uuid4())
    assert [e for e in rig.events() if e.startswith("estop")] == ["estop_latched", "estop_reset"]


async def test_an_emergency_stop_interlock_latches_and_is_not_reset_while_pressed(
    rigs: Callable[..., Rig],
) -> None:
    rig = rigs(interlocks={"estop": {**ESTOP, "estop": True}})
    rig.topics["estop"].publish(True)
    assert rig.guard.estop.latched
    assert len(rig.stopped) == 1
    with pytest.raises(SafetyRefused, match="still pressed"):
        rig.guard.reset_estop(ANN)
    rig.topics["estop"].publish(False)
    with pytest.raises(SafetyRefused) as caught:
        rig.admit()
    assert code(caught) == "SAFETY_ESTOP_LATCHED"
    rig.guard.reset_estop(ANN)
    rig.admit()


async def test_the_latch_outlives_the_process(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.guard.latch("button", "test")
    await rig.guard.aclose()
    again = rigs()
    with pytest.raises(SafetyRefused) as caught:
        again.admit()
    assert code(caught) == "SAFETY_ESTOP_LATCHED"


async def test_every_stop_latches_where_the_file_says_so(rigs: Callable[..., Rig]) -> None:
    """R28."""
    rig = rigs(stop_latches=True)
    rig.guard.stopped("enough", ["t1"])
    assert rig.guard.estop.latched


async def test_a_stop_withdraws_what_waits_and_does_not_latch_by_itself(rigs: Callable[..., Rig]) -> None:
    """R28."""
    rig = rigs()
    _, pending = rig.asked()
    rig.guard.stopped("enough", [])
    with pytest.raises(ApprovalError):
        rig.guard.decide(pending.token, True, ANN)
    rig.admit()


# -- while it moves -----------------------------------------------------------------------------------------


async def test_a_held_interlock_stops_the_motion_at_once_and_once(rigs: Callable[..., Rig]) -> None:
    rig = rigs(interlocks={"estop": {**ESTOP, "hold": True}, "other": ESTOP})
    told: list[str] = []
    hold = rig.guard.hold("navigate_to", told.append)
    rig.topics["other"].publish(True)
    assert told == []
    rig.topics["estop"].publish(True)
    rig.topics["estop"].publish(False)
    rig.topics["estop"].publish(True)
    assert told == ["estop: data is true, it must be false."]
    hold.close()


async def test_a_held_interlock_that_falls_silent_stops_the_motion(rigs: Callable[..., Rig]) -> None:
    rig = rigs(interlocks={"estop": {**ESTOP, "hold": True}})
    told: list[str] = []
    hold = rig.guard.hold("navigate_to", told.append)
    hold.tick()
    assert told == []
    await rig.clock.advance(5.2)
    hold.tick()
    assert "stale" in told[0]


async def test_a_robot_that_leaves_the_fence_is_stopped(rigs: Callable[..., Rig]) -> None:
    rig = rigs(
        geofence={"floors": {"a": {"keep_in": {"a": [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}}}}
    )
    told: list[str] = []
    drive = rig.guard.hold("navigate_to", told.append)
    arm = rig.guard.hold("move_arm", told.append)
    rig.at[0] = Situation(Pose2D(12.5, 4.0, 0.0))
    arm.tick()
    assert told == []
    drive.tick()
    assert "geofence: the robot is at (12.50, 4.00)" in told[0]


async def test_a_closed_watch_says_nothing(rigs: Callable[..., Rig]) -> None:
    rig = rigs(interlocks={"estop": {**ESTOP, "hold": True}})
    told: list[str] = []
    rig.guard.hold("navigate_to", told.append).close()
    rig.topics["estop"].publish(True)
    assert told == []


# -- standing approvals -------------------------------------------------------------------------------------


def flat(**more: Any) -> StandingApprovalSection:
    return sign(
        StandingApprovalSection.model_validate(
            {"id": "flat", "operator": "ann", "robot": "demo_robot", "skills": ["navigate_to"], **more}
        ),
        KEY,
    )


async def test_a_standing_approval_lets_a_goal_through_and_the_trail_shows_it(
    rigs: Callable[..., Rig],
) -> None:
    """R18, R34."""
    rig = rigs(standing=[flat(max_count=2)])
    for use in (1, 2):
        clearance = rig.admit()
        assert rig.guard.ask(clearance, f"t{use}") is None
        await rig.guard.permit(clearance, uuid4())
        standing = rig.trail()[-2]["approval"]["standing"]
        assert (standing["id"], standing["operator"], standing["use"], standing["of"]) == (
            "flat",
            "ann",
            use,
            2,
        )
    pending = rig.guard.ask(rig.admit(), "t3")
    assert pending is not None
    assert "used 2 of 2 times" in pending.note


async def test_the_count_of_a_standing_approval_holds_over_a_restart(rigs: Callable[..., Rig]) -> None:
    rig = rigs(standing=[flat(max_count=1)])
    assert rig.guard.ask(rig.admit(), "t1") is None
    await rig.guard.aclose()
    again = rigs(standing=[flat(max_count=1)])
    assert again.guard.ask(again.admit(), "t2") is not None


async def test_where_a_person_is_required_a_standing_approval_does_not_help(
    rigs: Callable[..., Rig],
) -> None:
    """R18."""
    rig = rigs(standing=[flat()], skills={"navigate_to": {"approval": "required"}})
    assert rig.guard.ask(rig.admit(), "t1") is not None


async def test_a_standing_approval_does_not_widen_limits(rigs: Callable[..., Rig]) -> None:
    """R30."""
    rig = rigs(standing=[flat()])
    spec = rig.spec()
    spec.fields["pose"]["pose"]["position"]["x"] = 99.0
    with pytest.raises(SafetyRefused):
        rig.admit(spec=spec)


# -- sessions, restarts, configuration ----------------------------------------------------------------------


async def test_a_request_dies_with_its_session(rigs: Callable[..., Rig]) -> None:
    """R33."""
    rig = rigs()
    clearance, pending = rig.asked()
    rig.guard.end_session("session-1")
    with pytest.raises(SafetyRefused) as caught:
        await rig.guard.decided(clearance, pending)
    assert code(caught) == "SAFETY_APPROVAL_WITHDRAWN"


async def test_a_started_goal_is_taken_up_after_a_restart_and_its_end_written(
    rigs: Callable[..., Rig],
) -> None:
    """R40."""
    rig = rigs()
    clearance = await rig.approved()
    await rig.guard.permit(clearance, uuid4())
    rig.guard.trail._release()  # as a killed process leaves it
    again = rigs()
    taken = again.guard.adopt("task-1", "navigate_to", clearance.goal_ids[0])
    assert taken is not None
    assert taken.request_id == clearance.request_id
    with pytest.raises(SafetyRefused):
        await again.guard.permit(taken, uuid4())
    assert again.guard.adopt("task-2", "navigate_to", "x") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("skills: {navigate_to: {risk: SAFE}}", "never lowered"),
        ("skills: {navigate_two: {risk: PROHIBITED}}", 'Did you mean "navigate_to"'),
        ("interlocks: {a: {lifecycle_node: n, skills: [fly]}}", 'no skill "fly"'),
        ("skills: {navigate_to: {max_sped_mps: 1.0}}", "unknown key"),
        (
            "geofence: {floors: {a: {keep_in: {a: [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]}}}}",
            "may not be sent there",
        ),
        ("approval: none", "required"),
    ],
)
def test_a_section_that_contradicts_itself_stops_the_start_and_names_file_line_and_key(
    text: str, said: str
) -> None:
    """Prompt errors instead of a robot that moves by a rule nobody meant."""
    source = (
        "skills: {navigate_to: {action: a, type: nav2_msgs/action/NavigateToPose}}\n"
        "places: {far: {x_m: 50.0, y_m: 0.0, yaw_rad: 0.0}}\n"
        f"safety: {{{text}}}\n"
    )

    def start() -> None:
        config = parse_config(source, "robot.yaml")
        Rulebook(config, build_skills(config))

    with pytest.raises(ConfigError) as caught:
        start()
    assert said in str(caught.value)
    assert "robot.yaml, line " in str(caught.value)


def test_a_skill_named_like_a_prohibited_action_stops_the_start() -> None:
    """R27."""
    source = 'skills: {"disable-eStop": {action: wait, type: nav2_msgs/action/Wait}}\n'
    config = parse_config(source, "robot.yaml")
    with pytest.raises(ConfigError, match="prohibited"):
        Rulebook(config, build_skills(config))


def test_the_operators_key_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    """R32."""
    first = operator_key(tmp_path / "state", {})
    assert operator_key(tmp_path / "state", {}) == first
    file = tmp_path / "state" / "operator.key"
    assert file.stat().st_mode & 0o077 == 0
    assert first.get_secret_value() not in repr(first)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        operator_key(tmp_path / "state", {})
    with pytest.raises(ConfigError, match="at least"):
        operator_key(tmp_path / "state", {"ROBOT_MCP_OPERATOR_KEY": "short"})
