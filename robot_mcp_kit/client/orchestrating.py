"""An orchestrator for servers under proMCP: ask, read, do, verify, and undo when a chain fails.

::

    orchestrator = Orchestrator({"move": move, "arm": manipulate}, confirm=ask_on_the_screen)
    summary = await orchestrator.run([
        Step(["drive"], {"place": "kitchen"}, server="move", reads=["read_battery_charge"]),
        Step(["pick"], {"object": "cup"}, server="arm", verify={"read_gripper_state": holds_something}),
    ])

It never acts on an answer that has expired, on a reading that failed, or on a match that is not sure; it asks
a person where the convention says so, and it never gives two operations the same key.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from robot_mcp_kit.client.calling import CallFailed, ToolCaller
from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.promcp.contracts import (
    CONFIRM_BELOW,
    Candidate,
    CapabilityReport,
    DoResponse,
    ReadResponse,
)
from robot_mcp_kit.promcp.hints import parse_hint

logger = logging.getLogger(__name__)

ATTEMPTS = 4
CALL_TIMEOUT_S = 60.0
"""Longest wait for one answer; a robot's do answers within 50 s."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 5.0

Why = Literal["confidence", "approval", "degraded", "stale"]
Check = Callable[[Any], str | None]
"""Judges a reading's value after a step: what is wrong, or ``None``."""


class NotFeasible(Exception):
    """``can_do`` says no.

    Attributes:
        report: with the reasons.
    """

    def __init__(self, report: CapabilityReport) -> None:
        reasons = [f"{b.capability}: {b.permission}: {b.reason}" for b in report.blocked]
        reasons += [f"{u.outcome}: {u.reason}: {u.detail}" for u in report.unroutable]
        super().__init__("; ".join(reasons) or "nothing of this server does that")
        self.report = report


class NeedsHuman(Exception):
    """A person has to decide, and did not agree (or nobody can be asked)."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


class ReadingFailed(Exception):
    """A reading has no value; nothing may be decided by it."""


class NotProMcp(ValueError):
    """An answer that is none of the convention's."""


class OutcomeUnknown(Exception):
    """The server could not be reached again: whether it was done is not known.

    Attributes:
        tool, arguments, key: call again with exactly these to find out; that does nothing twice.
    """

    def __init__(self, tool: str, arguments: Mapping[str, Any], key: str, why: str) -> None:
        super().__init__(f"{tool}: not known whether it was done: {why}")
        self.tool, self.arguments, self.key = tool, dict(arguments), key


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked."""

    why: Why
    text: str
    candidate: Candidate | None = None
    reading: str = ""


Confirm = Callable[[Question], bool | Awaitable[bool]]


def nobody(_: Question) -> bool:
    """Nobody can be asked, so the answer is no."""
    return False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is wanted."""

    tags: Sequence[str]
    """Words for it."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the tool that will do it."""
    reads: Sequence[str] = ()
    """Readings that must be good before it."""
    verify: Mapping[str, Check] = field(default_factory=dict)
    """Reading after it, and what it must be like."""
    scope: Sequence[str] | None = None
    server: str = ""
    """Which of the orchestrator's servers (profiles) does it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A step with the answer that it rests on."""

    step: Step
    candidate: Candidate
    report: CapabilityReport


@dataclass(slots=True)
class StepReport:
    """What became of a step."""

    tool: str
    key: str
    server: str = ""
    response: DoResponse | None = None
    mismatches: list[str] = field(default_factory=list)
    """What a reading said after it that it should not."""
    problem: str = ""
    """Why it was not done, or not known to be."""

    @property
    def good(self) -> bool:
        return (
            self.response is not None
            and self.response.status == "success"
            and not self.mismatches
            and not self.problem
        )


R = TypeVar("R", bound=BaseModel)
Outcome = Literal["done", "compensated", "partially_compensated", "failed"]


@dataclass(slots=True)
class ChainSummary:
    """How a chain ended: ``done``; or a step failed, and what was done before it was undone (wholly or in
    part), or there was nothing to undo (``failed``).
    """

    outcome: Outcome
    steps: list[StepReport]
    compensations: list[StepReport] = field(default_factory=list)
    """In the order in which they were carried out: the last step's first."""
    not_undone: list[str] = field(default_factory=list)
    """Tools whose effect is still there."""
    problem: str = ""


class Orchestrator:
    """Uses one server, or several profiles of one robot.

    Args:
        callers: calls the tools; several by the names that steps give them.
        confirm: asks a person; without one every question is answered with no.
        clock: monotonic, for pauses.
        wall_clock: Unix seconds, for ``valid_until``.
        new_key: makes idempotency keys; each is used for one operation.
        attempts: how often a call is made before its outcome counts as unknown.
        wait_s: longest that a motion may take in all, over repeated calls.
    """

    def __init__(
        self,
        callers: ToolCaller | Mapping[str, ToolCaller],
        *,
        confirm: Confirm = nobody,
        clock: Clock | None = None,
        wall_clock: WallClock = time.time,
        new_key: Callable[[], str] = lambda: uuid4().hex,
        attempts: int = ATTEMPTS,
        wait_s: float = 3600.0,
    ) -> None:
        self._callers = {"": callers} if isinstance(callers, ToolCaller) else dict(callers)
        self._confirm = confirm
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wall_clock, self._new_key = wall_clock, new_key
        self._attempts, self._wait_s = attempts, wait_s

    # -- the four steps -------------------------------------------------------------------------------------

    async def plan(self, step: Step) -> Plan:
        """Ask whether it can be done, and a person where that is not sure.

        Raises:
            NotFeasible: it cannot.
            NeedsHuman: the words fit badly, or a person has to approve, and nobody agreed (P42).
            CallFailed, NotProMcp: the server could not be asked.
        """
        intent: dict[str, Any] = {"semantic_tags": list(step.tags), "parameters": dict(step.parameters)}
        if step.scope is not None:
            intent["scope"] = list(step.scope)
        report = await self._call(step.server, "can_do", {"intent": intent}, CapabilityReport)
        waiting = [c for c in report.candidates if c.permission == "requires_human_approval"]
        if report.feasible:
            candidate = next(c for c in report.candidates if c.permission == "allowed")
        elif waiting:
            candidate = waiting[0]
            await self._ask("approval", f"{candidate.capability} needs a person's approval.", candidate)
        else:
            raise NotFeasible(report)
        if candidate.confidence < CONFIRM_BELOW:
            wanted = " ".join(step.tags)
            text = f'Is {candidate.capability} what is meant by "{wanted}"? ({candidate.confidence:g})'
            await self._ask("confidence", text, candidate)
        return Plan(step, candidate, report)

    async def read(self, tool: str, *, server: str = "", **arguments: Any) -> ReadResponse[Any]:
        """A reading that may be acted on.

        Raises:
            ReadingFailed: quality ``error`` (P43).
            NeedsHuman: ``degraded`` or ``stale``, and nobody agreed to go on with it (P43).
            CallFailed, NotProMcp: the server could not be asked.
        """
        reading: ReadResponse[Any] = await self._call(server, tool, arguments, ReadResponse[Any])
        if reading.quality == "error":
            raise ReadingFailed(f"{tool}: {reading.detail}")
        if reading.quality != "good":
            await self._ask(reading.quality, f"{tool} is {reading.quality}: {reading.detail}", reading=tool)
        return reading

    async def do(self, plan: Plan) -> StepReport:
        """Carry a plan out once, and verify it. An answer that has expired is asked for anew first (P41).

        Raises:
            NotFeasible, NeedsHuman: as :meth:`plan`, when it was asked anew.
            OutcomeUnknown: every try to reach the server failed.
        """
        if not self._still_valid(plan.candidate):
            logger.info("%s: the answer has expired; asking again", plan.candidate.capability)
            plan = await self.plan(plan.step)
        report = StepReport(plan.candidate.capability, self._new_key(), plan.step.server)
        report.response = await self._once(report, dict(plan.step.parameters))
        if report.response.status == "success":
            await self._verify(plan.step, report)
        return report

    async def run(self, steps: Sequence[Step]) -> ChainSummary:
        """Carry out a chain; when a step fails, undo what was done, last first, each with a key of its own
        (P46). Never raises for what goes wrong on the way: the summary says it.
        """
        done: list[StepReport] = []
        for step in steps:
            report, problem = await self._take(step)
            if report is not None:
                done.append(report)
                problem = problem or _problem_of(report)
            if problem:
                return await self._undo(done, problem)
        return ChainSummary("done", done)

    # -- inside ---------------------------------------------------------------------------------------------

    async def _take(self, step: Step) -> tuple[StepReport | None, str]:
        try:
            plan = await self.plan(step)
            for tool in step.reads:
                await self.read(tool, server=step.server)
            return await self.do(plan), ""
        except OutcomeUnknown as error:
            return StepReport(error.tool, error.key, step.server, problem=str(error)), str(error)
        except (NotFeasible, NeedsHuman, ReadingFailed, CallFailed, NotProMcp) as error:
            return None, f"{type(error).__name__}: {error}"

    async def _verify(self, step: Step, report: StepReport) -> None:
        """Read the world after a step; what is not as it should be is told, never swallowed (P45)."""
        for tool, check in step.verify.items():
            try:
                reading = await self.read(tool, server=step.server)
                wrong = check(reading.value)
            except Exception as error:
                wrong = f"it could not be verified: {type(error).__name__}: {error}"
            if wrong:
                report.mismatches.append(f"{tool}: {wrong}")

    async def _undo(self, done: Sequence[StepReport], problem: str) -> ChainSummary:
        undone: list[StepReport] = []
        left: list[str] = []
        for report in reversed(done):
            response = report.response
            if response is None:
                left.append(report.tool)  # not known whether it was done, so not known how to undo it
                continue
            if response.status == "failed":
                continue
            if response.compensation_hint is None:
                left.append(report.tool)
                continue
            back = await self._compensate(report.server, response.compensation_hint)
            undone.append(back)
            if not back.good:
                left.append(report.tool)
        outcome: Outcome = "compensated"
        if left:
            outcome = "partially_compensated" if any(b.good for b in undone) else "failed"
        elif not undone:
            outcome = "failed"
        return ChainSummary(outcome, list(done), undone, left, problem)

    async def _compensate(self, server: str, hint: str) -> StepReport:
        report = StepReport(hint, self._new_key(), server)
        try:
            report.tool, arguments = parse_hint(hint)
            report.response = await self._once(report, arguments)
        except (ValueError, OutcomeUnknown, CallFailed) as error:
            report.problem = f"{type(error).__name__}: {error}"
        return report

    async def _once(self, report: StepReport, arguments: dict[str, Any]) -> DoResponse:
        """One operation: repeated under its one key after a lost answer (P44), and while it still runs."""
        tool, key = report.tool, report.key
        end_s = self._clock.now() + self._wait_s
        call = {**arguments, "idempotency_key": key}
        pause_s, failures = _FIRST_PAUSE_S, 0
        while True:
            try:
                response = await self._call(report.server, tool, call, DoResponse)
            except CallFailed as error:
                failures += 1
                if failures >= self._attempts:
                    raise OutcomeUnknown(tool, arguments, key, error.message) from error
                await self._clock.sleep(pause_s)
                pause_s = min(_MAX_PAUSE_S, pause_s * 2)
                continue
            if not getattr(response, "in_progress", False):
                return response
            failures = 0
            if self._clock.now() >= end_s:
                why = f"it still ran after {self._wait_s:g} s"
                raise OutcomeUnknown(tool, arguments, key, why)

    async def _call(self, server: str, tool: str, arguments: Mapping[str, Any], kind: type[R]) -> R:
        caller = self._callers.get(server)
        if caller is None:
            known = ", ".join(self._callers)
            raise NotProMcp(f'{tool}: there is no server "{server}"; known are {known}')
        answer = await caller.call(tool, arguments, timeout_s=CALL_TIMEOUT_S)
        try:
            return kind.model_validate(answer.content())
        except ValidationError as error:
            raise NotProMcp(f"{tool}: its answer is none of proMCP's: {answer.text[:200]!r}") from error

    async def _ask(self, why: Why, text: str, candidate: Candidate | None = None, reading: str = "") -> None:
        question = Question(why, text, candidate, reading)
        answer = self._confirm(question)
        if not (await answer if inspect.isawaitable(answer) else answer):
            raise NeedsHuman(question)

    def _still_valid(self, candidate: Candidate) -> bool:
        return datetime.fromtimestamp(self._wall_clock(), UTC) < candidate.valid_until


def _problem_of(report: StepReport) -> str:
    if report.good:
        return ""
    response = report.response
    if report.mismatches:
        return f"{report.tool}: {'; '.join(report.mismatches)}"
    if response is None:
        return report.problem
    return f"{report.tool}: {response.status}: {response.detail}"
