"""Feedback on its way to progress events and triggers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.skills.base import GoalStatus

from .conftest import Rig, nav_feedback, settle

ETA_BELOW_30 = {"type": "eta_below", "seconds": 30}


async def drive(rig: Rig, goal: Any, series: list[tuple[float, float, float]], **more: Any) -> None:
    """Publish (time, eta, distance) rows, the clock following the robot's time."""
    begin = rig.clock.now()
    for time_s, eta_s, distance_m in series:
        await rig.clock.advance(begin + time_s - rig.clock.now())
        goal.feedback(nav_feedback(time_s, distance_m, eta_s, x_m=max(0.0, 10.0 - distance_m), **more))
    await settle()


async def test_the_first_progress_says_accepted_and_not_on_the_way(rig: Rig) -> None:
    """Case A7: acceptance is not motion."""
    task_id, goal = await rig.accepted()
    assert rig.payloads("progress", task_id) == [
        {
            "phase": "accepted",
            "goal": "drive to kitchen (10.00, 6.50) in map",
            "goal_id": str(goal.goal_id),
        }
    ]


async def test_feedback_becomes_progress_with_null_for_unknown(rig: Rig) -> None:
    """B9."""
    task_id, goal = await rig.accepted()
    await rig.clock.advance(1.0)
    goal.feedback(nav_feedback(0.2, 0.0))
    first = rig.payloads("progress", task_id)[-1]
    assert first["phase"] == "executing"
    assert (first["eta_s"], first["distance_m"], first["percent"]) == (None, None, None)
    await rig.clock.advance(2.0)
    goal.feedback(nav_feedback(2.2, 10.0, 20.0))
    second = rig.payloads("progress", task_id)[-1]
    assert (second["eta_s"], second["distance_m"], second["percent"]) == (20.0, 10.0, 0.0)
    assert second["pose"] == {"x_m": 0.0, "y_m": 6.5, "yaw_rad": 1.571, "frame": "map"}
    assert rig.info(task_id).progress == second


async def test_a_hundred_hertz_give_one_progress_a_second(rig: Rig) -> None:
    """B10, case B15."""
    task_id, goal = await rig.accepted()
    for step in range(1000):
        await rig.clock.advance(0.01)
        goal.feedback(nav_feedback(2.0 + step * 0.01, 10.0 - step * 0.005, 20.0 - step * 0.01))
    assert 10 <= len(rig.payloads("progress", task_id)) <= 12


async def test_the_last_sample_before_the_end_is_delivered(rig: Rig) -> None:
    """B10: the last reading goes out although its period is not over."""
    task_id, goal = await rig.accepted()
    await drive(rig, goal, [(2.0, 4.0, 2.0), (2.1, 3.9, 1.95), (2.2, 3.8, 1.9)])
    goal.finish(GoalStatus.ABORTED, SimpleNamespace(error_code=105, error_msg=""))
    await settle()
    assert rig.payloads("progress", task_id)[-1]["distance_m"] == 1.9
    assert rig.events[-1].type == "task_failed"


async def test_a_waiting_sample_goes_out_when_feedback_stops(rig: Rig) -> None:
    task_id, goal = await rig.accepted()
    await drive(rig, goal, [(2.0, 4.0, 2.0), (2.1, 3.9, 1.95)])
    await rig.clock.advance(1.5)
    assert rig.payloads("progress", task_id)[-1]["distance_m"] == 1.95


async def test_success_ends_at_a_hundred_percent(rig: Rig) -> None:
    task_id, goal = await rig.accepted(triggers=[{"type": "progress_above", "percent": 100}])
    await drive(rig, goal, [(2.0, 4.0, 2.0), (3.0, 2.0, 1.0), (4.0, 0.1, 0.05)])
    assert rig.payloads("progress", task_id)[-1]["percent"] < 100
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    assert [event.type for event in rig.events[-3:]] == ["progress", "trigger_fired", "task_done"]
    assert rig.payloads("progress", task_id)[-1]["percent"] == 100.0


async def test_a_recovery_is_told_at_once(rig: Rig) -> None:
    """B19: only a rising count, whatever the period."""
    task_id, goal = await rig.accepted()
    counts = [0, 1, 1, 2, 0, 1]
    seen = []
    for step, count in enumerate(counts):
        await rig.clock.advance(0.01)
        goal.feedback(nav_feedback(2.0 + step * 0.01, 10.0, 20.0, recoveries=count))
        seen.append(len(rig.payloads("progress", task_id)))
    assert [b - a for a, b in zip([1, *seen], seen, strict=False)] == [0, 1, 0, 1, 0, 1]


async def test_progress_above_is_not_held_back_by_the_period(rig: Rig) -> None:
    """B10: triggers see every sample."""
    _, goal = await rig.accepted(triggers=[{"type": "progress_above", "percent": 50}])
    await rig.clock.advance(1.0)
    goal.feedback(nav_feedback(2.0, 10.0, 20.0))
    goal.feedback(nav_feedback(2.1, 9.9, 19.8))
    for step in range(1, 60):
        await rig.clock.advance(0.01)
        goal.feedback(nav_feedback(2.1 + step * 0.1, 9.9 - step * 0.1, 19.8 - step * 0.2, x_m=step * 0.1))
        if rig.payloads("trigger_fired"):
            break
    fired = rig.payloads("trigger_fired")
    assert [f["trigger"]["percent"] for f in fired] == [50]
    assert 50.0 <= fired[0]["percent"] < 52.0


async def test_feedback_before_the_acceptance_is_held(rig: Rig) -> None:
    """B13: accepted first, then what came before it."""
    rig.port.acceptance.append("hold")
    info = await rig.start()
    goal = await rig.port.next_goal()
    await settle()
    goal.feedback(nav_feedback(2.0, 9.0, 18.0))
    assert rig.events == []
    goal.accept()
    await rig.clock.advance(1.0)
    payloads = rig.payloads("progress", info.task_id)
    assert [p.get("phase") for p in payloads] == ["accepted", "executing"]
    assert payloads[1]["distance_m"] == 9.0


async def test_feedback_after_the_end_is_dropped(rig: Rig) -> None:
    """B13: nothing follows the terminal event."""
    task_id, goal = await rig.accepted()
    watch = rig.port.watches_of(goal.goal_id)[0]
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    count = len(rig.events)
    watch.on_feedback(nav_feedback(9.0, 1.0, 2.0))
    await rig.clock.advance(5.0)
    assert len(rig.events) == count
    assert rig.events[-1].type == "task_done"
    assert rig.port.watches == []
    assert [e.seq for e in rig.events if e.task_id == task_id] == list(range(1, count + 1))


async def test_silence_is_told_once_and_unsaid_when_feedback_returns(rig: Rig) -> None:
    """B12, case B18."""
    task_id, goal = await rig.accepted()
    await drive(rig, goal, [(2.0, 20.0, 10.0)])
    await rig.clock.advance(14.0)
    assert not any(p.get("stalled") for p in rig.payloads("progress", task_id))
    await rig.clock.advance(20.0)
    stalled = [p for p in rig.payloads("progress", task_id) if p.get("stalled")]
    assert len(stalled) == 1
    assert stalled[0]["distance_m"] == 10.0
    assert stalled[0]["silent_s"] >= 15.0
    assert rig.info(task_id).state == "running"
    goal.feedback(nav_feedback(36.0, 9.9, 19.0))
    assert rig.payloads("progress", task_id)[-1]["stalled"] is False
    await rig.clock.advance(20.0)
    assert len([p for p in rig.payloads("progress", task_id) if p.get("stalled")]) == 2


async def test_a_message_that_cannot_be_read_does_not_end_the_run(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """E47."""

    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    task_id, goal = await rig.accepted()
    goal.feedback(Odd())
    goal.feedback(Odd())
    await rig.clock.advance(1.0)
    goal.feedback(nav_feedback(2.0, 10.0, 20.0))
    assert rig.payloads("progress", task_id)[-1]["distance_m"] == 10.0
    assert len([r for r in caplog.records if "not readable" in r.message]) == 1


async def test_an_all_zero_message_in_mid_run_is_no_position_and_no_arrival(rig: Rig) -> None:
    """B21."""
    task_id, goal = await rig.accepted()
    await drive(rig, goal, [(2.0, 20.0, 10.0)])
    empty = nav_feedback(0.0, 0.0)
    empty.current_pose.header.frame_id = ""
    for axis in "xyzw":
        setattr(empty.current_pose.pose.orientation, axis, 0.0)
    await rig.clock.advance(2.0)
    goal.feedback(empty)
    await rig.clock.advance(2.0)
    goal.feedback(nav_feedback(4.0, 9.0, 18.0))
    payload = rig.payloads("progress", task_id)[-1]
    assert payload["distance_m"] == 9.0
    assert all((p.get("percent") or 0) < 99 for p in rig.payloads("progress", task_id))


async def test_eta_below_fires_once_and_not_at_the_start(rig: Rig) -> None:
    """B11, case B11: 0 means unknown; exactly one firing, on the way down."""
    task_id, goal = await rig.accepted(triggers=[ETA_BELOW_30])
    series = [(0.0, 0.0, 0.0), (0.3, 0.0, 12.4), (1.0, 0.0, 12.4), (2.0, 41.0, 12.3), (4.0, 39.0, 11.7)]
    series += [(4.0 + t, 39.0 - t, 11.7 - 0.3 * t) for t in range(1, 11)]
    series += [(14.0 + t, 29.0 - t, 8.7 - 0.3 * t) for t in range(1, 20)]
    await drive(rig, goal, series)
    fired = rig.payloads("trigger_fired", task_id)
    assert len(fired) == 1
    assert fired[0]["trigger"] == ETA_BELOW_30
    assert 28.0 <= fired[0]["eta_s"] < 30.0
    assert "first_estimate" not in fired[0]


async def test_a_trigger_that_never_fired_is_named_in_the_result(rig: Rig) -> None:
    task_id, goal = await rig.accepted(triggers=[ETA_BELOW_30])
    goal.finish(GoalStatus.SUCCEEDED)
    await settle()
    result = rig.info(task_id).result
    assert result is not None
    assert result["triggers_not_fired"] == [ETA_BELOW_30]


async def test_a_stalled_trigger_fires_on_silence(rig: Rig) -> None:
    task_id, goal = await rig.accepted(triggers=[{"type": "stalled", "seconds": 6}])
    await drive(rig, goal, [(2.0, 20.0, 10.0)])
    await rig.clock.advance(5.5)
    assert rig.payloads("trigger_fired", task_id) == []
    await rig.clock.advance(1.0)
    fired = rig.payloads("trigger_fired", task_id)
    assert [f["reason"] for f in fired] == ["no_feedback"]


async def test_a_zone_is_entered_once(rig: Rig) -> None:
    trigger = {"type": "zone_entered", "zone": "Kitchen"}
    task_id, goal = await rig.accepted(triggers=[trigger])
    await drive(rig, goal, [(float(t), 20.0 - t, 10.0 - 0.5 * t) for t in range(20)])
    fired = rig.payloads("trigger_fired", task_id)
    assert [f["trigger"] for f in fired] == [trigger]
    assert fired[0]["pose"]["x_m"] == 6.0


async def test_unknown_trigger_types_are_warned_about_and_ignored(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """B11."""
    _, goal = await rig.accepted(triggers=[{"type": "smell_of_coffee"}])
    await drive(rig, goal, [(2.0, 20.0, 10.0)])
    assert rig.payloads("trigger_fired") == []
    assert "smell_of_coffee" in caplog.text


async def test_a_task_longer_than_allowed_is_cancelled_and_fails() -> None:
    from .conftest import make_rig, take_down

    rig = make_rig(result_timeout_s="60.0")
    task_id, goal = await rig.accepted()
    await rig.clock.advance(59.0)
    assert rig.info(task_id).state == "running"
    await rig.clock.advance(2.0)
    assert rig.code(task_id) == "ROS_RESULT_TIMEOUT"
    assert rig.port.requests("cancel") == [goal.goal_id]
    await take_down(rig)


async def test_no_other_goal_moves_the_same_part_before_one_that_took_too_long_has_ended() -> None:
    """B8: its task fails after the grace at the latest; what it moves may move on."""
    from .conftest import make_rig, take_down

    rig = make_rig(policy="refuse", result_timeout_s="60.0")
    task_id, goal = await rig.accepted()
    rig.port.cancel_policy = "agree"
    await rig.clock.advance(61.0)
    assert rig.bridge.running() == [task_id]
    await rig.clock.advance(6.0)
    assert rig.code(task_id) == "ROS_RESULT_TIMEOUT"
    assert rig.bridge.running() == [task_id], "it is followed on"
    second = await rig.start()
    await settle()
    assert len(rig.port.goals) == 1
    goal.finish(GoalStatus.CANCELED)
    await rig.port.next_goal(2)
    assert rig.info(second.task_id).state == "running"
    await take_down(rig)
