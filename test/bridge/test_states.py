"""The transition table: complete, acyclic but for the one retry, and enforced."""

from __future__ import annotations

import itertools

import pytest

from robot_mcp_kit.bridge.states import (
    NOTHING_SENT,
    TRANSITIONS,
    IllegalTransitionError,
    RunState,
    check_transition,
)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(RunState, RunState)))
def test_exactly_the_steps_of_the_table_are_legal(old: RunState, new: RunState) -> None:
    if new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransitionError, match=f"{old.value} to {new.value}"):
            check_transition(old, new)


def test_a_goal_is_never_sent_after_one_that_may_have_been_accepted() -> None:
    """B3: SENDING follows only states in which no goal can be at the server."""
    before_sending = {old for old, follows in TRANSITIONS.items() if RunState.SENDING in follows}
    assert before_sending == {RunState.WAITING_FOR_TURN, RunState.BACKING_OFF}
    assert before_sending <= NOTHING_SENT


def test_every_state_can_end_and_the_end_is_final() -> None:
    assert all(RunState.ENDED in follows for old, follows in TRANSITIONS.items() if old is not RunState.ENDED)
    assert TRANSITIONS[RunState.ENDED] == frozenset()
