"""A run's way through the guard: asking a person, leave to send, and being halted while it moves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.ledger import Change
from robot_mcp_kit.bridge.outcomes import RunFailed
from robot_mcp_kit.bridge.run_core import Resumption, RunCore
from robot_mcp_kit.bridge.states import NOTHING_SENT, Ending, RunState
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.safety.approvals import Pending
from robot_mcp_kit.safety.clearance import Clearance, Permit
from robot_mcp_kit.safety.hold import Hold
from robot_mcp_kit.safety.refusals import ESTOP, HELD, SafetyRefused, safety_failure

logger = logging.getLogger(__name__)

OVERTIME = "ROS_RESULT_TIMEOUT"
HALTED_BEFORE = "The bridge restarted meanwhile."
TELL_PERIOD_S = 5.0
"""How often a task that waits for a person says how long it still will."""

_RESULTS = {Ending.SUCCEEDED: "success", Ending.FAILED: "failed", Ending.CANCELLED: "cancelled"}


class GuardedRun(RunCore):
    """What a run asks the guard, and what the guard tells it. The flow is in :mod:`.run`."""

    clearance: Clearance | None = None
    """Of the goal; ``None`` for a goal of before a restart that the trail does not know."""
    halted: TaskFailure | None = None
    """Why the motion was stopped, for safety or after too long a time: the task fails with this."""
    _hold: Hold | None = None
    _has_waited = False
    """For a person, a turn or another try: the world may have changed since the task began."""

    def _be_overdue(self) -> asyncio.Future[None]:
        """Done when a halted goal has not ended within the grace: its task fails then, and is followed on."""
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().create_future()
        return self._overdue

    _overdue: asyncio.Future[None] | None = None

    async def _get_approval(self) -> None:
        """Wait for a person, where nobody has agreed in advance.

        Raises:
            RunFailed: refused; nothing was sent.
            RunStopped: cancelled meanwhile.
        """
        guard, clearance = self._around.guard, self._cleared()
        try:
            pending = guard.ask(clearance, self.task_id)
        except SafetyRefused as error:
            raise RunFailed(error.failure) from error
        if pending is None:
            return
        self._has_waited = True
        self._to(RunState.AWAITING_APPROVAL)
        self._emit(self._waiting_words(pending))
        deciding = asyncio.create_task(guard.decided(clearance, pending), name=f"approval of {self.task_id}")
        self._around.keep(deciding)
        try:
            while not deciding.done():
                got = await first_of(
                    self._clock, deciding, self._fault, self._cancel_asked, timeout_s=TELL_PERIOD_S
                )
                if got is not None:
                    break
                self._around.annotate(self.task_id, {"expires_in_s": self._left_s(pending)})
        finally:
            if not deciding.done():
                deciding.cancel()
        self._check_interrupts()
        try:
            decision = deciding.result()
        except SafetyRefused as error:
            raise RunFailed(error.failure) from error
        who = "" if decision.approver is None else decision.approver.principal
        self._emit({"phase": "approved", "goal": self.spec.summary, "approved_by": who})
        if not self.port.server_ready():
            self._fail("ROS_SERVER_UNAVAILABLE", "It left while the goal waited for a person.")

    def _waiting_words(self, pending: Pending) -> dict[str, Any]:
        left_s = self._left_s(pending)
        return {
            "phase": "awaiting_approval",
            "approval_id": pending.approval_id,
            "risk": pending.risk,
            "goal": self.spec.summary,
            "expires_in_s": left_s,
            "note": (
                f"Waiting for a person to approve: {self.spec.summary}. Nothing moves before that; the "
                f"request ends by itself in {left_s:.0f} s. You cannot approve it."
            ),
        }

    def _left_s(self, pending: Pending) -> float:
        return round(max(0.0, pending.expires_s - self._clock.now()), 1)

    async def _get_permit(self, goal_id: UUID) -> Permit:
        """Leave to send the goal at once.

        Raises:
            RunFailed: refused; nothing was sent.
            RunStopped: cancelled meanwhile.
        """
        asking = asyncio.create_task(
            self._around.guard.permit(self._cleared(), goal_id), name=f"permit of {self.task_id}"
        )
        self._around.keep(asking)
        try:
            await first_of(self._clock, asking, self._fault, self._cancel_asked)
        finally:
            if not asking.done():
                asking.cancel()
        self._check_interrupts()
        try:
            return asking.result()
        except SafetyRefused as error:
            raise RunFailed(error.failure) from error

    def _begin_hold(self) -> None:
        """From here on something may move."""
        if self._hold is None:
            self._hold = self._around.guard.hold(self.skill.name, self._broken)

    def _broken(self, reason: str) -> None:
        logger.error("task %s: halted: %s", self.task_id, reason, extra={"task_id": self.task_id})
        self.halt(safety_failure(HELD, reason))

    def halt(self, failure: TaskFailure) -> None:
        """Stop for safety: what has not left stays, what moves is cancelled, and the task fails with this."""
        if self.state in NOTHING_SENT:
            self.fail(failure)
        elif self.state is not RunState.ENDED and not self.cancel_requested:
            self._halt_with(failure)
            self._cancel(failure.error_code)
        elif self.state is not RunState.ENDED and self._preempted:
            # It stops already, for another task: from here on for safety.
            self._preempted = False
            self._halt_with(failure)
            self._note(Change(cancel_reason=failure.error_code))

    def _halt_with(self, failure: TaskFailure) -> None:
        self.halted = failure
        self._around.keep(asyncio.create_task(self._wait_for_halt(), name=f"halt of {self.task_id}"))

    def _go_on_from(self, resumes: Resumption) -> None:
        super()._go_on_from(resumes)
        if resumes.cancel_reason in (HELD, ESTOP):
            self._halt_with(safety_failure(resumes.cancel_reason, HALTED_BEFORE))
        elif resumes.cancel_reason == OVERTIME:
            limit_s = self._settings.result_timeout_s or 0.0
            self._halt_with(self._bridge_failure(OVERTIME, HALTED_BEFORE, seconds=f"{limit_s:g}"))

    async def _wait_for_halt(self) -> None:
        await first_of(self._clock, self.ended, timeout_s=self._settings.bridge.cancel_grace_s)
        overdue = self._be_overdue()
        if self.state is not RunState.ENDED and not overdue.done():
            overdue.set_result(None)

    def _look_after_safety(self) -> None:
        if self._hold is not None and self.state not in NOTHING_SENT:
            self._hold.tick()

    def _write_end(self, ending: Ending, error_code: str | None) -> None:
        """The trail's last word on this request."""
        if self._hold is not None:
            self._hold.close()
        if self.clearance is not None:
            self._around.guard.finished(
                self.clearance,
                result=_RESULTS[ending],
                code=error_code,
                sent=self.clearance.left,
                said="" if self.stop is None else self.stop.note,
            )

    def _cleared(self) -> Clearance:
        if self.clearance is None:
            raise RuntimeError(f"task {self.task_id}: a goal without clearance")
        return self.clearance
