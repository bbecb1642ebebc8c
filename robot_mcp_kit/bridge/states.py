"""The states of one goal's run, and which may follow which."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """Where a run stands. A goal may be on the wire from SENDING on."""

    PREPARED = "prepared"
    """Validated and written down; nothing sent."""
    WAITING_FOR_SERVER = "waiting_for_server"
    AWAITING_APPROVAL = "awaiting_approval"
    """A person has to agree first."""
    WAITING_FOR_TURN = "waiting_for_turn"
    """Goals of other action servers that move the same part of the robot are being stopped first."""
    SENDING = "sending"
    """The goal left, its acceptance is awaited."""
    BACKING_OFF = "backing_off"
    """Refused once; the one retry, under a new id, is due in a moment."""
    SEARCHING = "searching"
    """No answer came: looking for our goal id instead of sending again."""
    RESUMING = "resuming"
    """The bridge restarted: looking for the goal that the one before sent, or was about to. Never sends."""
    EXECUTING = "executing"
    """Accepted (not necessarily moving yet)."""
    CANCELLING = "cancelling"
    """A cancel is on the wire; the terminal result is awaited."""
    ENDED = "ended"


class Ending(StrEnum):
    """How an ENDED run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = RunState
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    _S.PREPARED: frozenset({_S.WAITING_FOR_SERVER, _S.ENDED}),
    _S.WAITING_FOR_SERVER: frozenset({_S.AWAITING_APPROVAL, _S.WAITING_FOR_TURN, _S.ENDED}),
    _S.AWAITING_APPROVAL: frozenset({_S.WAITING_FOR_TURN, _S.ENDED}),
    _S.WAITING_FOR_TURN: frozenset({_S.SENDING, _S.ENDED}),
    _S.SENDING: frozenset({_S.EXECUTING, _S.BACKING_OFF, _S.SEARCHING, _S.ENDED}),
    _S.BACKING_OFF: frozenset({_S.SENDING, _S.ENDED}),
    _S.SEARCHING: frozenset({_S.EXECUTING, _S.CANCELLING, _S.ENDED}),
    _S.RESUMING: frozenset({_S.EXECUTING, _S.CANCELLING, _S.ENDED}),
    _S.EXECUTING: frozenset({_S.CANCELLING, _S.ENDED}),
    _S.CANCELLING: frozenset({_S.ENDED}),
    _S.ENDED: frozenset(),
}
"""Everything else raises :class:`IllegalTransitionError`. SENDING appears on both sides of BACKING_OFF only:
a goal that may have been accepted is never followed by a second one; and nothing leads from RESUMING back to
SENDING."""

NOTHING_SENT = frozenset(
    {_S.PREPARED, _S.WAITING_FOR_SERVER, _S.AWAITING_APPROVAL, _S.WAITING_FOR_TURN, _S.BACKING_OFF}
)
"""In these states no goal of this run is, or may be, at a server."""

PERHAPS_ACCEPTED = frozenset({_S.SENDING, _S.SEARCHING})
"""A goal in these states may have been lost on the way, or the server may still take it."""


def after_restart(state: RunState) -> RunState:
    """Where a run goes on whose bridge ended while it was in ``state``: nowhere if nothing had been sent."""
    return RunState.ENDED if state in NOTHING_SENT else RunState.RESUMING


class IllegalTransitionError(RuntimeError):
    """A fault of the bridge itself: a step the table does not allow."""

    def __init__(self, old: RunState, new: RunState) -> None:
        super().__init__(f"a run cannot go from {old.value} to {new.value}")
        self.old, self.new = old, new


def check_transition(old: RunState, new: RunState) -> None:
    """Raises IllegalTransitionError unless :data:`TRANSITIONS` allows the step."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransitionError(old, new)
