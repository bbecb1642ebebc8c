"""The response shapes refuse what proMCP forbids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from robot_mcp_kit.promcp.contracts import (
    PERMISSIONS,
    CapabilityReport,
    DoResponse,
    ReadResponse,
    ReportMetadata,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DO: dict[str, Any] = {
    "status": "success",
    "idempotency_key": "k",
    "side_effects": [],
    "compensable": False,
    "timestamp": NOW,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        {"compensable": True},
        {"compensation_hint": "do_x"},
        {"status": "failed"},
        {"status": "failed", "detail": "no", "applied_value": 1},
        {"status": "partial"},
        {"timestamp": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_a_do_response_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    """P16 P24 P25."""
    DoResponse.model_validate(DO)
    with pytest.raises(ValidationError):
        DoResponse.model_validate(DO | wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"quality": "fresh"}, {"quality": "error"}, {"quality": "stale"}, {"quality": "error", "value": 1}],
)
def test_a_read_response_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    """P8 P11."""
    ReadResponse[Any].model_validate({"value": 1, "timestamp": NOW, "quality": "good"})
    with pytest.raises(ValidationError):
        ReadResponse[Any].model_validate({"value": 1, "timestamp": NOW, "quality": "good"} | wrong)


def _candidate(permission: str, confidence: float = 1.0) -> dict[str, Any]:
    return {
        "capability": "do_x",
        "source": "robot",
        "confidence": confidence,
        "permission": permission,
        "valid_until": NOW,
    }


BLOCKED = {"capability": "do_x", "source": "robot", "permission": "policy_denied", "reason": "no"}


@given(
    st.lists(st.tuples(st.sampled_from(["allowed", "requires_human_approval"]), st.floats(0, 1)), max_size=5)
)
def test_feasible_follows_from_the_candidates(found: list[tuple[str, float]]) -> None:
    """P31 P40."""
    report = CapabilityReport.model_validate(
        {
            "candidates": [_candidate(*each) for each in found],
            "blocked": [BLOCKED],
            "metadata": {"timestamp": NOW},
        }
    )
    assert report.feasible is any(permission == "allowed" for permission, _ in found)
    confidences = [candidate.confidence for candidate in report.candidates]
    assert confidences == sorted(confidences, reverse=True)
    again = CapabilityReport.model_validate_json(report.model_dump_json())
    assert again == report


@pytest.mark.parametrize("claimed", [True, "yes", 1])
def test_a_claim_that_the_candidates_contradict_is_refused(claimed: Any) -> None:
    """P31."""
    with pytest.raises(ValidationError, match="contradict"):
        CapabilityReport.model_validate(
            {"feasible": claimed, "blocked": [BLOCKED], "metadata": {"timestamp": NOW}}
        )


def test_a_refusal_needs_a_reason() -> None:
    """P32."""
    with pytest.raises(ValidationError, match="reason"):
        CapabilityReport(metadata=ReportMetadata(timestamp=NOW))


def test_unroutable_contradicts_an_allowed_candidate() -> None:
    """P33."""
    lost = {"outcome": "x", "reason": "no_producer", "detail": "no"}
    with pytest.raises(ValidationError, match="unroutable"):
        CapabilityReport.model_validate(
            {"candidates": [_candidate("allowed")], "unroutable": [lost], "metadata": {"timestamp": NOW}}
        )


def test_what_others_add_is_kept() -> None:
    """P47."""
    answer = DoResponse.model_validate(DO | {"task_id": "robo-1"})
    assert answer.model_dump()["task_id"] == "robo-1"


def test_there_are_nine_permissions() -> None:
    """P35."""
    assert len(PERMISSIONS) == len(set(PERMISSIONS)) == 9
