"""Requests that wait for a person: one token each, used once, bound to one exact goal (R18-R22, R29, R33).

The token never goes to the one that asked. People get it over the operator's channels; knowing it is not
enough, the channel must prove itself as well.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.safety.principals import Approver, Requester

Verdict = Literal["approved", "rejected", "expired", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Decision:
    """How a request ended."""

    verdict: Verdict
    approver: Approver | None = None
    reason: str = ""


class ApprovalError(Exception):
    """A decision that was not accepted; nothing was changed by it.

    Args:
        code: ``UNKNOWN_TOKEN``, ``SELF_APPROVAL``, ``TOO_MANY_PENDING``.
        message: a sentence for the person.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(slots=True, eq=False)
class Pending:
    """One request that waits."""

    approval_id: str
    """Short, for people and logs; gives no power."""
    token: str = field(repr=False)
    task_id: str
    skill: str
    summary: str
    risk: str
    goal_hash: str
    requester: Requester
    asked_s: float
    expires_s: float
    """Monotonic."""
    outcome: asyncio.Future[Decision] = field(repr=False)
    note: str = ""
    """Why no standing approval covers it."""

    def public(self, now_s: float) -> dict[str, Any]:
        """What an operator's page or terminal shows, the token included."""
        return {
            "approval_id": self.approval_id,
            "token": self.token,
            "task_id": self.task_id,
            "skill": self.skill,
            "goal": self.summary,
            "risk": self.risk,
            "goal_sha256": self.goal_hash,
            "requester": self.requester.record(),
            "note": self.note,
            "expires_in_s": round(max(0.0, self.expires_s - now_s), 1),
        }


class ApprovalDesk:
    """Keeps what waits. Lives on one event loop, so a decision is one step: of two, one finds the token gone.

    Args:
        clock: monotonic; the wall clock has no part in it (R21).
        timeout_s: how long a request may wait.
        max_pending: most at once.
        on_change: told when something begins or ends to wait.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        timeout_s: float,
        max_pending: int,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._timeout_s, self._max_pending = clock, timeout_s, max_pending
        self._pending: dict[str, Pending] = {}
        self.on_change = on_change

    def ask(
        self,
        *,
        task_id: str,
        skill: str,
        summary: str,
        risk: str,
        goal_hash: str,
        requester: Requester,
        note: str = "",
    ) -> Pending:
        """Begin to wait.

        Raises:
            ApprovalError: too many wait already.
        """
        if self.is_full():
            raise ApprovalError(
                "TOO_MANY_PENDING",
                f"{len(self._pending)} requests already wait for a person; decide those first",
            )
        now_s = self._clock.now()
        pending = Pending(
            approval_id=secrets.token_hex(4),
            token=secrets.token_urlsafe(32),
            task_id=task_id,
            skill=skill,
            summary=summary,
            risk=risk,
            goal_hash=goal_hash,
            requester=requester,
            asked_s=now_s,
            expires_s=now_s + self._timeout_s,
            outcome=asyncio.get_running_loop().create_future(),
            note=note,
        )
        self._pending[pending.token] = pending
        self.on_change()
        return pending

    def is_full(self) -> bool:
        """Whether no further request may wait."""
        self._expire()
        return len(self._pending) >= self._max_pending

    def now(self) -> float:
        """The desk's monotonic seconds."""
        return self._clock.now()

    def pending(self) -> list[Pending]:
        """What waits now, oldest first."""
        self._expire()
        return list(self._pending.values())

    def find(self, token: str) -> Pending:
        """The request of a token, or of an approval id's owner who also passed the channel's proof.

        Raises:
            ApprovalError: there is none (any more).
        """
        self._expire()
        for known, pending in self._pending.items():
            # Compared in constant time: how long it takes says nothing about a guess.
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
                return pending
        raise ApprovalError(
            "UNKNOWN_TOKEN",
            "no request waits under this token: it was used, expired, withdrawn, or never was",
        )

    def decide(self, token: str, approve: bool, approver: Approver, reason: str = "") -> Pending:
        """Approve or reject. The token is gone afterwards, whatever becomes of the goal (R20, R25).

        Raises:
            ApprovalError: no such token, or the approver is the requester (R32); the request keeps waiting.
        """
        pending = self.find(token)
        if approver.principal == pending.requester.principal or approver.channel == pending.requester.surface:
            raise ApprovalError("SELF_APPROVAL", "a request cannot be decided by the one that made it")
        verdict: Verdict = "approved" if approve else "rejected"
        self._settle(pending, Decision(verdict, approver, reason))
        return pending

    def withdraw(self, pending: Pending, reason: str) -> None:
        """The request is no longer wanted; harmless when it was decided."""
        self._settle(pending, Decision("withdrawn", reason=reason))

    def withdraw_all(self, reason: str) -> None:
        """Nothing waits any more: a stop, or the end of the node."""
        for pending in list(self._pending.values()):
            self.withdraw(pending, reason)

    def end_session(self, session: str) -> int:
        """What that session asked for is withdrawn (R33); how many."""
        gone = [one for one in self._pending.values() if one.requester.session == session]
        for pending in gone:
            self.withdraw(pending, "the session that asked has ended")
        return len(gone)

    async def wait(self, pending: Pending) -> Decision:
        """Wait for the decision, at most until it expires. Cancelled, the request is withdrawn."""
        timer = asyncio.ensure_future(self._clock.sleep(pending.expires_s - self._clock.now()))
        try:
            waiting: list[asyncio.Future[Any]] = [pending.outcome, timer]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.withdraw(pending, "the task was cancelled")
            raise
        finally:
            timer.cancel()
        if not pending.outcome.done():
            self._settle(pending, Decision("expired"))
        return pending.outcome.result()

    def _expire(self) -> None:
        now_s = self._clock.now()
        for pending in list(self._pending.values()):
            if now_s >= pending.expires_s:
                self._settle(pending, Decision("expired"))

    def _settle(self, pending: Pending, decision: Decision) -> None:
        if self._pending.pop(pending.token, None) is None:
            return
        if not pending.outcome.done():
            pending.outcome.set_result(decision)
        self.on_change()
