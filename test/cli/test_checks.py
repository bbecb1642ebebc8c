"""Every check of the demo can fail, and fails alone for the fault it is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.cli.demo.checks import Evidence, PlanarPose, evaluate, falls, report
from robot_mcp_kit.client.inbox import Receipt
from robot_mcp_kit.models import TaskEvent

TASK = "robo-7f3a2b"


def receipt(seq: int, type: str = "progress", **payload: Any) -> Receipt:
    return Receipt(
        200,
        event=TaskEvent(
            event_id=f"00000000-0000-4000-8000-{seq:012d}",
            task_id=TASK,
            server="robot",
            tool="navigate_to",
            type=type,
            seq=seq,
            ts="2026-06-12T14:03:00.123Z",
            payload=payload,
        ),
    )


def good() -> Evidence:
    return Evidence(
        target=PlanarPose(10.0, 6.5, 1.57),
        tolerance_m=0.5,
        yaw_tolerance_rad=0.5,
        called_at_s=100.0,
        answered_at_s=100.01,
        accepted_at_s=100.02,
        ended_at_s=110.0,
        task={"task_id": TASK, "state": "running"},
        final_task={"task_id": TASK, "state": "succeeded"},
        receipts=[
            receipt(1, eta_s=None),
            receipt(2, eta_s=22.0),
            receipt(3, eta_s=15.0),
            receipt(4, eta_s=9.4),
            receipt(5, "trigger_fired", trigger={"type": "eta_below", "seconds": 10}),
            receipt(6, "task_done", result={}),
        ],
        measured=PlanarPose(10.1, 6.5, 1.6),
    )


def test_a_good_run_passes_every_check() -> None:
    content = report(good())
    assert content["ok"] is True
    assert set(content["checks"].values()) == {True}
    assert content["timings"] == {
        "call_to_task_info_s": 0.01,
        "call_to_accepted_s": 0.02,
        "total_s": 10.0,
    }
    json.dumps(content, allow_nan=False)


def without_acceptance(evidence: Evidence) -> None:
    evidence.accepted_at_s = None


def trigger_twice(evidence: Evidence) -> None:
    evidence.receipts.insert(5, receipt(6, "trigger_fired", trigger={"type": "eta_below", "seconds": 10}))
    evidence.receipts[6] = receipt(7, "task_done", result={})


def trigger_never(evidence: Evidence) -> None:
    evidence.receipts[4] = receipt(5, eta_s=9.0)


def rising_eta(evidence: Evidence) -> None:
    evidence.receipts[3] = receipt(4, eta_s=30.0)


def failed_task(evidence: Evidence) -> None:
    evidence.receipts[5] = receipt(6, "task_failed", error_code="NAV2_NO_PATH", message="No route.")
    evidence.final_task = {"task_id": TASK, "state": "failed"}


def poll_disagrees(evidence: Evidence) -> None:
    evidence.final_task = {"task_id": TASK, "state": "running"}


def forged(evidence: Evidence) -> None:
    evidence.receipts.insert(1, Receipt(401, reason="the signature does not match"))


def gap(evidence: Evidence) -> None:
    evidence.receipts[5] = receipt(7, "task_done", result={})


def wrong_order(evidence: Evidence) -> None:
    evidence.receipts[0], evidence.receipts[1] = evidence.receipts[1], evidence.receipts[0]


def far_away(evidence: Evidence) -> None:
    evidence.measured = PlanarPose(10.6, 6.5, 1.57)


def turned(evidence: Evidence) -> None:
    evidence.measured = PlanarPose(10.0, 6.5, -1.57)


def not_measured(evidence: Evidence) -> None:
    evidence.measured = None


def other_frame(evidence: Evidence) -> None:
    evidence.measured = PlanarPose(10.0, 6.5, 1.57, frame="odom")


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (without_acceptance, "accepted"),
        (trigger_twice, "eta_below_fired_exactly_once"),
        (trigger_never, "eta_below_fired_exactly_once"),
        (rising_eta, "eta_falls"),
        (failed_task, "task_done"),
        (poll_disagrees, "task_done"),
        (forged, "all_signatures_valid"),
        (gap, "seq_contiguous"),
        (wrong_order, "seq_contiguous"),
        (far_away, "final_pose_within_tolerance"),
        (turned, "final_pose_within_tolerance"),
        (not_measured, "final_pose_within_tolerance"),
        (other_frame, "final_pose_within_tolerance"),
    ],
)
def test_each_fault_fails_its_own_check_and_no_other(spoil: Callable[[Evidence], None], check: str) -> None:
    evidence = good()
    spoil(evidence)
    assert [name for name, held in evaluate(evidence).items() if not held] == [check]
    assert report(evidence)["ok"] is False


def test_two_progress_events_are_too_few() -> None:
    evidence = good()
    evidence.receipts = [receipt(1, eta_s=20.0), receipt(2, eta_s=10.0), receipt(3, "task_done", result={})]
    checks = evaluate(evidence)
    assert checks["at_least_three_progress_events"] is False
    assert checks["eta_falls"] is False


def test_nothing_received_passes_nothing_that_is_about_events() -> None:
    evidence = good()
    evidence.receipts = []
    checks = evaluate(evidence)
    assert not checks["all_signatures_valid"]
    assert not checks["seq_contiguous"]
    assert not checks["task_done"]


@pytest.mark.parametrize(
    ("etas_s", "expected"),
    [
        ([], False),
        ([3.0], False),
        ([3.0, 2.0], False),
        ([3.0, 2.0, 1.0], True),
        ([3.0, 3.0, 3.0], False),
        ([9.0, 8.0, 12.0, 6.0, 5.0], True),
        ([1.0, 2.0, 3.0, 4.0], False),
        ([5.0, 4.0, 3.0, 6.0], False),
    ],
)
def test_falling_estimates(etas_s: list[float], expected: bool) -> None:
    assert falls(etas_s) is expected
