"""The orchestrator: what it asks first, when it stops for a person, what it repeats, and how it undoes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller
from robot_mcp_kit.client.orchestrating import (
    NeedsHuman,
    NotFeasible,
    NotProMcp,
    Orchestrator,
    OutcomeUnknown,
    Question,
    ReadingFailed,
    Step,
)
from robot_mcp_kit.client.session import RobotSession, SessionCaller
from robot_mcp_kit.testing.clock import FakeClock
from test.server.promcp.rig import Rig, rigged

DRIVE = Step(["drive"], {"place": "kitchen"})


class Told(ToolCaller):
    """A server under proMCP that does what the test says.

    ``script`` answers a tool by its name: a dict, an exception, or a function of the arguments.
    """

    def __init__(self, clock: FakeClock, **script: Any) -> None:
        self.clock, self.script = clock, script
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.candidate: dict[str, Any] = {}
        self.lost = 0
        """So many answers of do tools are lost after they were carried out."""
        self.done: dict[str, dict[str, Any]] = {}

    def now(self, more_s: float = 0.0) -> str:
        return (datetime.fromtimestamp(self.clock.wall(), UTC) + timedelta(seconds=more_s)).isoformat()

    async def accepts(self, tool: str, argument: str) -> bool:
        return True

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> ToolAnswer:
        self.calls.append((tool, dict(arguments)))
        told = self.script.get(tool, {})
        if isinstance(told, list):
            told = told.pop(0)
        if callable(told):
            told = told(arguments)
        if isinstance(told, Exception):
            raise told
        return ToolAnswer("", self._answer(tool, arguments, told))

    def _answer(self, tool: str, arguments: Mapping[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        if tool == "can_do":
            candidate = {
                "capability": "do_drive",
                "source": "robot",
                "confidence": 0.95,
                "permission": "allowed",
                "valid_until": self.now(5.0),
                **self.candidate,
            }
            report = {
                "query_id": str(uuid4()),
                "candidates": [candidate],
                "metadata": {"timestamp": self.now()},
            }
            return {**report, **told}
        if tool.startswith("read_"):
            return {"value": 1, "timestamp": self.now(), "quality": "good", **told}
        key = str(arguments["idempotency_key"])
        if key not in self.done:
            base = {"status": "success", "side_effects": [], "compensable": False, "timestamp": self.now()}
            self.done[key] = {**base, **told, "idempotency_key": key}
        if self.lost > 0:
            self.lost -= 1
            raise CallFailed("robot", "unreachable", "the answer was lost", sent=True)
        return self.done[key]

    def named(self, tool: str) -> list[dict[str, Any]]:
        """Arguments of the calls of a tool."""
        return [arguments for name, arguments in self.calls if name == tool]


def _orchestrator(told: ToolCaller, clock: FakeClock, confirm: Any = None, **more: Any) -> Orchestrator:
    if confirm is not None:
        more["confirm"] = confirm
    return Orchestrator(told, clock=clock, wall_clock=clock.wall, **more)


class Asked:
    """A person who always answers the same, and remembers the questions."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.questions = answer, []

    def __call__(self, question: Question) -> bool:
        self.questions.append(question)
        return self.answer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


# -- P41 ----------------------------------------------------------------------------------------------------


async def test_an_answer_that_has_expired_is_asked_for_anew_before_anything_is_done(clock: FakeClock) -> None:
    """P41: up to valid_until it is used, from then on it is not."""
    told = Told(clock)
    orchestrator = _orchestrator(told, clock)
    plan = await orchestrator.plan(DRIVE)
    await clock.advance(4.9)
    await orchestrator.do(plan)
    assert [name for name, _ in told.calls] == ["can_do", "do_drive"]
    await clock.advance(0.1)
    await orchestrator.do(plan)
    assert [name for name, _ in told.calls] == ["can_do", "do_drive", "can_do", "do_drive"]


async def test_what_is_no_longer_allowed_when_it_is_asked_anew_is_not_done(clock: FakeClock) -> None:
    """P41."""
    told = Told(clock)
    orchestrator = _orchestrator(told, clock)
    plan = await orchestrator.plan(DRIVE)
    await clock.advance(6.0)
    blocked = {
        "capability": "do_drive",
        "source": "robot",
        "permission": "policy_denied",
        "reason": "latched",
    }
    told.script["can_do"] = {"candidates": [], "blocked": [blocked]}
    with pytest.raises(NotFeasible, match="latched") as refused:
        await orchestrator.do(plan)
    assert refused.value.report.blocked[0].permission == "policy_denied"
    assert told.named("do_drive") == []


# -- P42 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        ({"confidence": 0.69}, "confidence"),
        ({"permission": "requires_human_approval"}, "approval"),
    ],
)
@pytest.mark.parametrize("answer", [True, False])
async def test_what_is_not_sure_or_needs_approval_stops_for_a_person(
    candidate: dict[str, Any], why: str, answer: bool, clock: FakeClock
) -> None:
    """P42: a yes goes on, a no does nothing."""
    told, person = Told(clock), Asked(answer)
    told.candidate = candidate
    orchestrator = _orchestrator(told, clock, person)
    if answer:
        report = await orchestrator.do(await orchestrator.plan(DRIVE))
        assert report.good
    else:
        with pytest.raises(NeedsHuman):
            await orchestrator.plan(DRIVE)
        assert told.named("do_drive") == []
    assert [question.why for question in person.questions] == [why]


async def test_at_the_bound_nobody_is_asked_and_without_a_person_the_answer_is_no(clock: FakeClock) -> None:
    """P42: 0.7 is sure enough."""
    told, person = Told(clock), Asked(False)
    told.candidate = {"confidence": 0.7}
    assert (await _orchestrator(told, clock, person).plan(DRIVE)).candidate.confidence == 0.7
    assert person.questions == []
    told.candidate = {"confidence": 0.5}
    with pytest.raises(NeedsHuman):
        await _orchestrator(told, clock).plan(DRIVE)


# -- P43 ----------------------------------------------------------------------------------------------------


async def test_a_reading_that_failed_ends_the_chain_before_it_acts(clock: FakeClock) -> None:
    """P43: error aborts, and no person can wave it through."""
    told, person = Told(clock), Asked(True)
    told.script["read_pose"] = {"value": None, "quality": "error", "detail": "the localizer is silent"}
    orchestrator = _orchestrator(told, clock, person)
    with pytest.raises(ReadingFailed, match="silent"):
        await orchestrator.read("read_pose")
    summary = await orchestrator.run([Step(["drive"], reads=["read_pose"])])
    assert (summary.outcome, summary.steps) == ("failed", [])
    assert "silent" in summary.problem
    assert told.named("do_drive") == []
    assert person.questions == []


@pytest.mark.parametrize("quality", ["degraded", "stale"])
@pytest.mark.parametrize("answer", [True, False])
async def test_a_doubtful_reading_is_a_persons_decision(quality: str, answer: bool, clock: FakeClock) -> None:
    """P43: degraded escalates, and so does what is too old."""
    told, person = Told(clock), Asked(answer)
    told.script["read_pose"] = {"quality": quality, "detail": "the covariance is large"}
    summary = await _orchestrator(told, clock, person).run([Step(["drive"], reads=["read_pose"])])
    assert [question.why for question in person.questions] == [quality]
    assert "covariance" in person.questions[0].text
    assert summary.outcome == ("done" if answer else "failed")
    assert len(told.named("do_drive")) == int(answer)


# -- P44 ----------------------------------------------------------------------------------------------------


async def test_a_retry_after_a_lost_answer_has_the_same_key_and_a_new_operation_never(
    clock: FakeClock,
) -> None:
    """P44: three tries, one operation; the same step again is another one."""
    told = Told(clock)
    told.lost = 2
    orchestrator = _orchestrator(told, clock)
    first = await _while_time_passes(clock, orchestrator.run([DRIVE]))
    second = await orchestrator.run([DRIVE])
    keys = [arguments["idempotency_key"] for arguments in told.named("do_drive")]
    assert len(keys) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]
    assert (first.outcome, second.outcome) == ("done", "done")
    assert len(told.done) == 2


async def test_when_nobody_answers_any_more_the_outcome_is_unknown_and_the_key_is_told(
    clock: FakeClock,
) -> None:
    """P44: the caller can find out later with exactly that key; nothing is called a failure or a success."""
    told = Told(clock)
    told.lost = 99
    orchestrator = _orchestrator(told, clock, attempts=3)
    plan = await orchestrator.plan(DRIVE)
    with pytest.raises(OutcomeUnknown) as unknown:
        await _while_time_passes(clock, orchestrator.do(plan))
    assert len(told.named("do_drive")) == 3
    assert unknown.value.key == told.named("do_drive")[0]["idempotency_key"]
    told.lost = 0
    answer = await told.call("do_drive", {"idempotency_key": unknown.value.key})
    assert answer.content()["status"] == "success"
    assert len(told.done) == 1


async def test_a_motion_that_still_runs_is_waited_for_under_its_key(clock: FakeClock) -> None:
    """P44."""
    told = Told(clock)
    waiting = {"status": "partial", "detail": "still runs", "in_progress": True}

    def once_more(arguments: Mapping[str, Any]) -> dict[str, Any]:
        told.done.clear()
        return waiting if len(told.named("do_drive")) < 3 else {}

    told.script["do_drive"] = once_more
    summary = await _orchestrator(told, clock).run([DRIVE])
    assert summary.outcome == "done"
    assert len({arguments["idempotency_key"] for arguments in told.named("do_drive")}) == 1
    assert len(told.named("do_drive")) == 3


async def _while_time_passes(clock: FakeClock, work: Any) -> Any:
    import asyncio

    task = asyncio.ensure_future(work)
    while not task.done():
        await clock.advance(1.0)
    return await task


# -- P45 ----------------------------------------------------------------------------------------------------


async def test_a_world_that_is_not_as_it_should_be_after_a_success_is_told(clock: FakeClock) -> None:
    """P45: the step is not good, and the words say what was read."""
    told = Told(clock)
    told.script["read_pose"] = {"value": 7}
    step = Step(["drive"], verify={"read_pose": lambda value: None if value == 8 else f"it is {value}"})
    orchestrator = _orchestrator(told, clock)
    report = await orchestrator.do(await orchestrator.plan(step))
    assert report.response is not None
    assert report.response.status == "success"
    assert report.mismatches == ["read_pose: it is 7"]
    assert not report.good
    summary = await orchestrator.run([step])
    assert summary.outcome != "done"
    assert "it is 7" in summary.problem


@pytest.mark.parametrize(
    "reading",
    [
        {"value": None, "quality": "error", "detail": "unplugged"},
        CallFailed("robot", "timeout", "no answer", sent=True),
    ],
)
async def test_what_could_not_be_verified_is_not_called_verified(reading: Any, clock: FakeClock) -> None:
    """P45."""
    told = Told(clock)
    told.script["read_pose"] = reading
    orchestrator = _orchestrator(told, clock)
    step = Step(["drive"], verify={"read_pose": lambda _: None})
    report = await orchestrator.do(await orchestrator.plan(step))
    assert "could not be verified" in report.mismatches[0]
    assert not report.good


# -- P46 ----------------------------------------------------------------------------------------------------


def _undoable(hint: str) -> dict[str, Any]:
    return {"compensable": True, "compensation_hint": hint}


def _chain(clock: FakeClock, **script: Any) -> Told:
    """Three tools by their tags; the third one fails."""
    told = Told(clock, **script)

    def report(arguments: Mapping[str, Any]) -> dict[str, Any]:
        (tag,) = arguments["intent"]["semantic_tags"]
        candidate = {
            "capability": f"do_{tag}",
            "source": "robot",
            "confidence": 1.0,
            "permission": "allowed",
            "valid_until": told.now(5.0),
        }
        return {"candidates": [candidate]}

    told.script["can_do"] = report
    return told


async def test_a_failed_chain_is_undone_last_first_with_new_keys_and_a_summary(clock: FakeClock) -> None:
    """P46."""
    told = _chain(
        clock,
        do_a=_undoable("undo_a n=1"),
        do_b=_undoable('undo_b s="x y"'),
        do_c={"status": "failed", "detail": "stuck"},
    )
    summary = await _orchestrator(told, clock).run([Step(["a"]), Step(["b"]), Step(["c"]), Step(["d"])])
    acted = [(name, arguments) for name, arguments in told.calls if name != "can_do"]
    assert [name for name, _ in acted] == ["do_a", "do_b", "do_c", "undo_b", "undo_a"]
    assert acted[3][1]["s"] == "x y"
    assert acted[4][1]["n"] == 1
    assert len({arguments["idempotency_key"] for _, arguments in acted}) == 5
    assert summary.outcome == "compensated"
    assert [back.tool for back in summary.compensations] == ["undo_b", "undo_a"]
    assert summary.not_undone == []
    assert "stuck" in summary.problem


async def test_a_step_that_failed_half_way_is_undone_too(clock: FakeClock) -> None:
    """P46: partial, with a hint of its own."""
    told = _chain(clock, do_a={"status": "partial", "detail": "half", **_undoable("undo_a")})
    summary = await _orchestrator(told, clock).run([Step(["a"])])
    assert [back.tool for back in summary.compensations] == ["undo_a"]
    assert summary.outcome == "compensated"


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"do_b": {}}, ["do_b"]),
        ({"undo_b": {"status": "failed", "detail": "no way back"}}, ["do_b"]),
        ({"do_b": _undoable("not a hint at all")}, ["do_b"]),
    ],
)
async def test_what_could_not_be_undone_is_named_and_the_rest_is_undone(
    change: dict[str, Any], left: list[str], clock: FakeClock
) -> None:
    """P46."""
    script = {
        "do_a": _undoable("undo_a"),
        "do_b": _undoable("undo_b"),
        "do_c": {"status": "failed", "detail": "stuck"},
        **change,
    }
    summary = await _orchestrator(_chain(clock, **script), clock).run([Step([t]) for t in "abc"])
    assert (summary.outcome, summary.not_undone) == ("partially_compensated", left)
    assert [back.tool for back in summary.compensations if back.good] == ["undo_a"]


async def test_an_unknown_outcome_is_not_undone_blindly(clock: FakeClock) -> None:
    """P44 P46: it may or may not have been done; the summary says so."""
    told = _chain(
        clock, do_a=_undoable("undo_a"), do_b=CallFailed("robot", "timeout", "no answer", sent=True)
    )
    summary = await _while_time_passes(
        clock, _orchestrator(told, clock, attempts=2).run([Step(["a"]), Step(["b"])])
    )
    assert summary.outcome == "partially_compensated"
    assert summary.not_undone == ["do_b"]
    assert "not known" in summary.problem


async def test_an_answer_that_is_not_the_conventions_is_told(clock: FakeClock) -> None:
    told = Told(clock, can_do={"query_id": "7"})
    with pytest.raises(NotProMcp, match="can_do"):
        await _orchestrator(told, clock).plan(DRIVE)
    with pytest.raises(NotProMcp, match='no server "attic"'):
        await _orchestrator(told, clock).plan(Step(["drive"], server="attic"))


# -- with the robot's own profiles --------------------------------------------------------------------------


@asynccontextmanager
async def _robot() -> AsyncIterator[tuple[Rig, Callable[..., Orchestrator]]]:
    async with rigged() as rig:
        callers = {name: SessionCaller(RobotSession(client), name) for name, client in rig.clients.items()}
        yield rig, lambda **more: Orchestrator(callers, **more)


def _holds(value: Mapping[str, Any]) -> str | None:
    return None if value["holds_something"] else "nothing is held"


MISSION = [
    Step(["drive"], {"x_m": 1.0, "y_m": 0.5}, server="move", reads=["read_battery_charge"]),
    Step(["pick"], {"object": "cup"}, server="manipulate", verify={"read_gripper_state": _holds}),
]


async def test_a_mission_over_two_profiles_is_done_and_verified() -> None:
    """P41 P45: through the real client and the real bridge."""
    async with _robot() as (rig, make):
        summary = await make().run(MISSION)
        assert summary.outcome == "done", summary
        assert rig.flat.held == "cup"
        assert abs(rig.flat.at.x_m - 1.0) < 0.1


async def test_a_mission_that_slips_is_undone_to_where_the_robot_stood() -> None:
    """P45 P46: the pick is partial and cannot be undone, the drive is."""
    from test.server.promcp.rig import Flat

    async with rigged(flat=Flat(3, slips=1.0)) as rig:
        callers = {name: SessionCaller(RobotSession(client), name) for name, client in rig.clients.items()}
        summary = await Orchestrator(callers).run(MISSION)
        assert summary.outcome in ("partially_compensated", "compensated")
        assert "do_navigate_to" in [back.tool for back in summary.compensations if back.good]
        assert abs(rig.flat.at.x_m) < 0.1
        assert "GRASP_FAILED" in str(summary.steps[-1].response) or "pick" in summary.problem


async def test_a_low_battery_stops_a_mission_for_a_person() -> None:
    """P43."""
    async with _robot() as (rig, make):
        rig.flat.charge_percent = 5.0
        summary = await make().run(MISSION)
        assert (summary.outcome, rig.flat.goals) == ("failed", [])
        assert "low" in summary.problem
        assert (
            await make(confirm=lambda question: question.why == "degraded").run(MISSION)
        ).outcome == "done"
