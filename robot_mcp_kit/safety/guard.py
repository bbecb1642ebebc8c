"""The one object between a request and an actuator. The bridge asks it at every step of a goal.

``admit`` (limits, rate, latch; nothing waits) → ``ask`` and ``decided`` (a person or a standing approval) →
``permit`` (interlocks, write-ahead, one goal id) → ``hold`` (while it runs) → ``finished``. Whatever fails on
the way refuses; nothing is sent that was not written down first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from uuid import UUID, uuid4

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.listeners import tell
from robot_mcp_kit.safety import refusals
from robot_mcp_kit.safety.approvals import ApprovalDesk, ApprovalError, Decision, Pending
from robot_mcp_kit.safety.audit import AuditError, Trail
from robot_mcp_kit.safety.clearance import MAX_SENDS, Clearance, Permit, exact_copy, make_permit
from robot_mcp_kit.safety.estop import EstopLatch
from robot_mcp_kit.safety.goal_hash import goal_hash
from robot_mcp_kit.safety.hold import Hold
from robot_mcp_kit.safety.interlocks import Finding, Interlock, Interlocks
from robot_mcp_kit.safety.judging import Judging
from robot_mcp_kit.safety.order import Order
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.recording import Recording
from robot_mcp_kit.safety.refusals import SafetyRefused, refusal_of
from robot_mcp_kit.safety.risk import RiskLevel, is_prohibited
from robot_mcp_kit.safety.rulebook import Rulebook, SkillRules
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.safety.standing import StandingBook
from robot_mcp_kit.skills.base import GoalSpec, Skill
from robot_mcp_kit.skills.config.safety import StandingApprovalSection

logger = logging.getLogger(__name__)


class Guard(Judging, Recording):
    """Lives on one event loop.

    Args:
        rules: of every skill.
        trail: the audit trail; the guard owns it from here on.
        estop: the latch.
        desk: what waits for a person.
        standing: approvals in advance.
        interlocks: the robot's.
        clock: monotonic.
        situation: what is known of the robot now. Must not raise or wait.
    """

    def __init__(
        self,
        rules: Rulebook,
        *,
        trail: Trail,
        estop: EstopLatch,
        desk: ApprovalDesk,
        standing: StandingBook,
        interlocks: Interlocks,
        clock: Clock,
        situation: Callable[[], Situation],
    ) -> None:
        super().__init__(
            rules,
            estop=estop,
            desk=desk,
            standing=standing,
            interlocks=interlocks,
            clock=clock,
            situation=situation,
        )
        Recording.__init__(self, trail)
        self.on_estop: Callable[[str], None] = lambda _reason: None
        """Stops whatever runs; set by the bridge."""
        self.latch_listeners: list[Callable[[str], None]] = []
        """Told of each latch, with the reason, after :attr:`on_estop`."""
        self._holds: set[Hold] = set()
        estop.on_latch = self._latched
        for lock in interlocks.locks:
            lock.on_broken = self._heard_broken
        for ident, why in standing.invalid.items():
            logger.error("the standing approval %s does not hold: %s", ident, why)

    # -- one goal -------------------------------------------------------------------------------------------

    def admit(
        self,
        skill: Skill,
        spec: GoalSpec,
        action: str,
        *,
        requester: Requester,
        arguments: Mapping[str, Any] | None = None,
    ) -> Clearance:
        """Judge a goal as it will be sent. Quick; nothing waits.

        Args:
            skill: what it is a goal of.
            spec: in the form that fits the installed type.
            action: the action's resolved name.
            requester: who asks.
            arguments: as the caller gave them, for the trail.

        Raises:
            SafetyRefused: prohibited, latched, out of limits, too often, or the trail cannot be written.
        """
        robot = self._rules.config.robot.name
        order = Order(skill.name, action, skill.action_type, spec.summary, spec.fields, robot)
        return self.admit_order(order, self._rules.add(skill), requester=requester, arguments=arguments or {})

    def admit_order(
        self, order: Order, rules: SkillRules, *, requester: Requester, arguments: Mapping[str, Any]
    ) -> Clearance:
        """As :meth:`admit`, for what is no skill's goal and has rules of its own.

        Raises:
            SafetyRefused: as :meth:`admit`.
        """
        self._rules.put(order.name, rules)
        at = self._situation()
        clearance = Clearance(
            request_id=str(uuid4()),
            skill=order.name,
            action=order.action,
            risk=rules.risk,
            requester=requester,
            summary=order.summary,
            fields=exact_copy(order.fields),
            goal_hash=goal_hash(order.name, order.action, order.fields),
        )
        self._write(
            clearance,
            "requested",
            skill=order.name,
            action=order.action,
            action_type=order.type,
            risk=rules.risk.value,
            requester=requester.record(),
            arguments=arguments,
            goal=order.summary,
            goal_sha256=clearance.goal_hash,
            robot=order.robot,
        )
        distance_m = rules.distance_m(clearance.fields, at)
        try:
            self._judge(rules, clearance.fields, at)
            self._judge_rate(rules, distance_m)
        except SafetyRefused as error:
            self._refuse(clearance, error)
            raise
        rules.rate.count(self._clock.now(), distance_m)
        return clearance

    def needs_person(self, clearance: Clearance) -> bool:
        """Whether :meth:`ask` would ask a person now."""
        rules = self._rules.of(clearance.skill)
        if clearance.is_safe:
            return False
        if rules.approval != "standing":
            return True
        return self._standing.find(self._wish(clearance.skill, clearance.fields, rules))[0] is None

    def ask(self, clearance: Clearance, task_id: str) -> Pending | None:
        """Begin to ask a person, unless a standing approval covers the goal or nobody needs to be asked.

        Returns:
            what waits now, to be given to :meth:`decided`; ``None``: approved.

        Raises:
            SafetyRefused: too many wait already, latched meanwhile, or the trail cannot be written.
        """
        clearance.task_id = task_id
        if clearance.is_safe:
            clearance.approved = True
            return None
        rules = self._rules.of(clearance.skill)
        try:
            self._check_latch()
            reasons: list[str] = []
            if rules.approval == "standing":
                approval, reasons = self._standing.find(self._wish(clearance.skill, clearance.fields, rules))
                if approval is not None:
                    self._approved(clearance, self._standing_record(approval))
                    return None
            return self.desk.ask(
                task_id=task_id,
                skill=clearance.skill,
                summary=clearance.summary,
                risk=clearance.risk.value,
                goal_hash=clearance.goal_hash,
                requester=clearance.requester,
                note="; ".join(reasons),
            )
        except ApprovalError as error:
            refused = SafetyRefused(refusals.PENDING, error.message)
            self._refuse(clearance, refused)
            raise refused from error
        except SafetyRefused as error:
            self._refuse(clearance, error)
            raise

    async def decided(self, clearance: Clearance, pending: Pending) -> Decision:
        """Wait for the person.

        Raises:
            SafetyRefused: rejected, expired, withdrawn, or the trail cannot be written.
        """
        try:
            decision = await self.desk.wait(pending)
        except asyncio.CancelledError:
            self._refuse(clearance, SafetyRefused(refusals.WITHDRAWN, "The task was cancelled."))
            raise
        if decision.verdict != "approved" or decision.approver is None:
            refused = refusal_of(decision)
            self._refuse(clearance, refused, _person_record(pending, decision))
            raise refused
        self._approved(clearance, _person_record(pending, decision))
        return decision

    async def permit(
        self,
        clearance: Clearance,
        goal_id: UUID,
        ask_too: Callable[[], Awaitable[Finding]] | None = None,
    ) -> Permit:
        """Leave to send the goal now, under this id. The caller sends it without waiting for anything else.

        Everything that may have changed since ``admit`` is judged again: the latch, the limits where the
        robot is now, the interlocks; and once more what is known without asking after the record was synced.

        Args:
            clearance: approved.
            goal_id: of what is sent.
            ask_too: the receiver's own interlock, for RESTRICTED ones. It bounds its own time and does not
                raise.

        Raises:
            SafetyRefused: nothing may be sent; an approval is spent (R25).
        """
        rules = self._rules.of(clearance.skill)
        try:
            findings = await self._before_sending(clearance, rules, ask_too)
            if not clearance.is_safe:
                self._write(
                    clearance,
                    "started",
                    skill=clearance.skill,
                    goal_id=str(goal_id),
                    goal_sha256=clearance.goal_hash,
                    interlocks=[finding.record() for finding in findings],
                )
                clearance.started = True
                await self._sync()
                self._check_latch()
                if rules.risk is RiskLevel.RESTRICTED:
                    self._judge_findings(self._interlocks.glance(clearance.skill))
        except SafetyRefused as error:
            self._refuse(clearance, error)
            raise
        clearance.sends += 1
        clearance.goal_ids.append(str(goal_id))
        return make_permit(clearance, goal_id)

    def not_taken(self, clearance: Clearance) -> None:
        """The server definitely refused the goal: it may be sent once more, under a new id."""
        clearance.refused_sends += 1

    def hold(self, skill: str, on_broken: Callable[[str], None]) -> Hold:
        """Watch over a motion of that skill; ``on_broken`` is called once if something breaks."""
        rules = self._rules.get(skill)

        def escaped() -> str | None:
            if rules is not None and not rules.moves_base:
                return None
            at = self._situation()
            return self._rules.escaped(at.here, at.floor)

        hold = Hold(skill, self._interlocks, self._clock, escaped, on_broken, self._holds.discard)
        self._holds.add(hold)
        if self.estop.reason is not None:  # a goal of before the restart
            hold.trip(f"The emergency stop is latched: {self.estop.reason}.")
        return hold

    def finished(
        self, clearance: Clearance, *, result: str, code: str | None = None, sent: bool = True, said: str = ""
    ) -> None:
        """Write how it ended. Never raises: the motion is over, and the next one will be refused."""
        if clearance.closed or clearance.is_safe:
            return
        clearance.closed = True
        try:
            self._write(clearance, "finished", result=result, code=code, sent=sent, said=said[:300] or None)
        except SafetyRefused:
            logger.critical("the end of request %s was not written down", clearance.request_id)
            return
        self._sync_soon()

    def adopt(self, task_id: str, skill: str, goal_id: str) -> Clearance | None:
        """The request of a task that an earlier process started, so that its end can be written.

        ``None`` when the trail does not know it (a harmless skill, or another trail).
        """
        for request_id, entry in self.trail.state.open.items():
            if entry.get("task_id") == task_id and entry.get("step") == "started":
                rules = self._rules.get(skill)
                clearance = Clearance(
                    request_id=request_id,
                    skill=skill,
                    action="",
                    risk=RiskLevel.RESTRICTED if rules is None else rules.risk,
                    requester=Requester("before the restart"),
                    summary="",
                    fields={},
                    goal_hash="",
                    task_id=task_id,
                    started=True,
                    sends=MAX_SENDS,
                    left=True,
                )
                clearance.goal_ids.append(goal_id)
                return clearance
        return None

    # -- people ---------------------------------------------------------------------------------------------

    def decide(self, token: str, approve: bool, approver: Approver, reason: str = "") -> Pending:
        """As :meth:`ApprovalDesk.decide`; attempts that fail are written down too."""
        try:
            return self.desk.decide(token, approve, approver, reason)
        except ApprovalError as error:
            self.note("approval_refused", code=error.code, approver=approver.principal)
            raise

    def latch(self, reason: str, by: str) -> None:
        """Emergency stop: latch, and stop whatever runs. Anybody may."""
        self.estop.latch(f"{reason} ({by})")

    def reset_estop(self, approver: Approver) -> str | None:
        """Take the latch back; a person's doing. What it was latched for, ``None`` when it was not.

        Raises:
            SafetyRefused: the trail cannot be written, or an e-stop interlock is still broken.
            OSError: the latch's state cannot be written.
        """
        broken = [
            finding
            for lock in self._interlocks.locks
            if lock.section.estop and (finding := lock.glance()) is not None and not finding.ok
        ]
        if broken:
            said = " ".join(f"{finding.name}: {finding.reason}." for finding in broken)
            raise SafetyRefused(refusals.INTERLOCK, f"The emergency stop is still pressed. {said}")
        if self.estop.reason is None:
            return None
        try:
            self.trail.append("estop_reset", approver=approver.principal, was=self.estop.reason)
            self.trail.sync()
        except AuditError as error:
            raise SafetyRefused(refusals.AUDIT, f"{error}.") from error
        return self.estop.reset(approver)

    def stopped(self, reason: str, tasks: Iterable[str], *, note: bool = True) -> None:
        """A stop was asked for. Latches where the file says that every stop does.

        Args:
            reason: for the trail.
            tasks: what was stopped.
            note: write a line of its own; what waited and what ran gets its end written in any case.
        """
        self.desk.withdraw_all("a stop was asked for")
        if note:
            self.note("stop", reason=reason, tasks=list(tasks))
        if self._rules.config.safety.stop_latches:
            self.estop.latch(f"stop: {reason}")

    def end_session(self, session: str) -> None:
        """The session is gone, and what it asked for with it (R33)."""
        gone = self.desk.end_session(session)
        if gone:
            logger.info("%d requests for approval ended with session %s", gone, session[:8])

    def unknown_skill(self, name: str, requester: Requester) -> None:
        """Somebody asked for something that does not exist; prohibited names are remembered (R34).

        Raises:
            SafetyRefused: the name is a prohibited action's.
        """
        if is_prohibited(name):
            self.note("prohibited", name=name[:200], requester=requester.record())
            raise SafetyRefused(refusals.PROHIBITED)

    def conditions(self) -> list[Finding]:
        """What each interlock says now, from what is already here; those that must be asked are left out."""
        found = [lock.glance() for lock in self._interlocks.locks]
        return [finding for finding in found if finding is not None]

    async def aclose(self) -> None:
        """End everything that waits, and close the trail."""
        self.desk.withdraw_all("the bridge ends")
        for hold in list(self._holds):
            hold.close()
        await self._synced_all()
        self.trail.close()

    def release(self) -> None:
        """Close readers and trail; on the thread that the readers belong to. Harmless when repeated."""
        self._interlocks.close()
        self.trail.close()

    # -- inside ---------------------------------------------------------------------------------------------

    async def _before_sending(
        self,
        clearance: Clearance,
        rules: SkillRules,
        ask_too: Callable[[], Awaitable[Finding]] | None,
    ) -> list[Finding]:
        if not clearance.approved or clearance.closed:
            raise SafetyRefused(refusals.CHANGED, "It was not approved.")
        if clearance.sends >= MAX_SENDS or clearance.sends > clearance.refused_sends:
            raise SafetyRefused(refusals.CHANGED, "It was sent already.")
        if not clearance.still_exact():
            raise SafetyRefused(refusals.CHANGED)
        self._judge(rules, clearance.fields, self._situation())
        if rules.risk is not RiskLevel.RESTRICTED:  # R26
            return []
        findings = await self._interlocks.check(clearance.skill)
        if ask_too is not None:
            findings.append(await ask_too())
        self._judge_findings(findings)
        return findings

    def _standing_record(self, approval: StandingApprovalSection) -> dict[str, Any]:
        use = self._standing.use(approval)
        return {
            "policy": "standing",
            "approver": f"standing:{approval.operator}",
            "standing": {
                "id": approval.id,
                "operator": approval.operator,
                "use": use,
                "of": approval.max_count,
                "signature": approval.signature,
            },
        }

    def _approved(self, clearance: Clearance, approval: dict[str, Any]) -> None:
        self._write(
            clearance,
            "decided",
            decision="allowed",
            approval=approval,
            limits=self._rules.of(clearance.skill).checked,
            goal_sha256=clearance.goal_hash,
        )
        clearance.approved = True

    def _refuse(
        self, clearance: Clearance, error: SafetyRefused, approval: dict[str, Any] | None = None
    ) -> None:
        """Write a refusal down; refused it stays whether or not that works."""
        if clearance.closed or clearance.is_safe:
            clearance.closed = True
            return
        error.request_id = clearance.request_id
        decided = clearance.approved
        clearance.closed = True
        data: dict[str, Any] = {"code": error.error_code, "why": error.message, **error.details}
        if approval is not None:
            data["approval"] = approval
        try:
            if decided:
                self._write(clearance, "finished", result="refused", sent=clearance.left, **data)
            else:
                self._write(clearance, "decided", decision="refused", **data)
        except SafetyRefused:
            logger.critical("the refusal of request %s was not written down", clearance.request_id)
            return
        self._sync_soon()

    def _latched(self, reason: str) -> None:
        self.on_estop(reason)
        tell(self.latch_listeners, reason)
        self.desk.withdraw_all("the emergency stop was latched")
        self.note("estop_latched", reason=reason)

    def _heard_broken(self, lock: Interlock, reason: str) -> None:
        for hold in list(self._holds):
            hold.heard(lock, reason)
        if lock.section.estop:
            self.estop.latch(f"{lock.name}: {reason}")


def _person_record(pending: Pending, decision: Decision) -> dict[str, Any]:
    approver = decision.approver
    return {
        "policy": "required",
        "verdict": decision.verdict,
        "approver": None if approver is None else approver.principal,
        "approval_id": pending.approval_id,
        "reason": decision.reason or None,
    }
