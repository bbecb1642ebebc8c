"""Triggers on recorded series: at most once, never from the unknown, refused when they cannot work."""

from __future__ import annotations

import math
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.base import Pose2D, Sample
from robot_mcp_kit.skills.config import Zone
from robot_mcp_kit.skills.triggers import Firing, TriggerSet

ZONES = {
    "kitchen": Zone(polygon_m=[[6, 5], [12, 5], [12, 8], [6, 8]]),
    "hall": Zone(polygon_m=[[0, 0], [1, 0], [1, 1]]),
}
KNOWN = frozenset({"eta_below", "distance_below", "zone_entered", "progress_above", "stalled"})
ETA = {"type": "eta_below", "seconds": 30}


def triggers(*attached: dict[str, Any], known: frozenset[str] = KNOWN) -> TriggerSet:
    return TriggerSet(list(attached), ZONES, known)


def sample(time_s: float, **known: Any) -> Sample:
    return Sample(payload={}, time_s=time_s, **known)


def etas(*rows: tuple[float, float | None], attached: dict[str, Any] = ETA) -> list[tuple[float, Firing]]:
    fired = []
    watching = triggers(attached)
    for time_s, eta_s in rows:
        for firing in watching.evaluate(sample(time_s, eta_s=eta_s), time_s).firings:
            fired.append((time_s, firing))
    return fired


def test_a_falling_eta_fires_once() -> None:
    fired = etas(*((float(t), 45.0 - t) for t in range(40)))
    assert [t for t, _ in fired] == [17.0]
    assert fired[0][1] == Firing(ETA, {"eta_s": 28.0, "distance_m": None})


def test_exactly_the_threshold_is_not_below() -> None:
    """K: eta_below is strict."""
    assert etas((0.0, 30.0), (1.0, 30.0), (2.0, 30.0)) == []


def test_unknown_never_fires_and_breaks_the_series() -> None:
    assert etas((0.0, None), (1.0, None)) == []
    assert etas((0.0, 40.0), (1.0, 29.0), (1.3, None), (1.6, 29.0)) == []


def test_one_dip_does_not_fire() -> None:
    """B13: two samples at least half a second apart."""
    assert etas((0.0, 60.0), (1.0, 20.0), (2.0, 58.0), (3.0, 57.0)) == []


def test_two_samples_close_together_are_not_enough() -> None:
    assert etas((0.0, 60.0), (1.0, 20.0), (1.01, 20.0), (1.4, 20.0)) == []
    assert len(etas((0.0, 60.0), (1.0, 20.0), (1.01, 20.0), (1.5, 20.0))) == 1


def test_a_goal_nearer_than_the_threshold_fires_as_first_estimate() -> None:
    fired = etas((0.0, None), (2.0, 12.0), (2.6, 11.4))
    assert [firing.extra.get("first_estimate") for _, firing in fired] == [True]


def test_a_first_estimate_just_above_the_threshold_still_fires_later() -> None:
    fired = etas((0.0, 30.5), (1.0, 29.5), (2.0, 28.5))
    assert len(fired) == 1
    assert "first_estimate" not in fired[0][1].extra


def test_repeat_needs_to_rise_above_the_margin_first() -> None:
    again = {**ETA, "repeat": True}
    falling = [(float(t), 40.0 - t) for t in range(20)]
    wobble = [
        (20.0, 31.0),
        (20.5, 31.0),
        (21.0, 29.0),
        (22.0, 29.0),
        (23.0, 31.0),
        (24.0, 29.0),
        (25.0, 29.0),
    ]
    assert len(etas(*falling, *wobble, attached=again)) == 1
    replan = [(20.0, 50.0), (21.0, 49.0), (22.0, 29.0), (23.0, 28.0)]
    assert len(etas(*falling, *replan, attached=again)) == 2
    assert len(etas(*falling, *replan)) == 1


def test_only_boolean_true_repeats() -> None:
    """K62."""
    falling = [(float(t), 40.0 - t) for t in range(20)]
    replan = [(20.0, 50.0), (21.0, 49.0), (22.0, 29.0), (23.0, 28.0)]
    assert len(etas(*falling, *replan, attached={**ETA, "repeat": 1})) == 1


def test_robot_time_that_goes_back_starts_the_confirmation_anew() -> None:
    assert etas((60.0, 40.0), (60.1, 29.0), (1.0, 29.0), (1.1, 29.0)) == []


def test_distance_below() -> None:
    watching = triggers({"type": "distance_below", "distance_m": 2.0})
    fired = [
        t
        for t in range(12)
        if watching.evaluate(sample(float(t), distance_m=5.0 - 0.5 * t), float(t)).firings
    ]
    assert fired == [8]


def at(x_m: float, y_m: float = 6.0, frame: str = "map") -> Pose2D:
    return Pose2D(x_m, y_m, 0.0, frame)


def zone_firings(poses: list[Pose2D | None], **more: Any) -> list[int]:
    watching = triggers({"type": "zone_entered", "zone": "Kitchen", **more})
    return [
        i for i, pose in enumerate(poses) if watching.evaluate(sample(float(i), pose=pose), float(i)).firings
    ]


def test_a_zone_is_entered_from_outside_once() -> None:
    assert zone_firings([at(4), at(5), at(6), at(7), at(5), at(7)]) == [2]


def test_starting_inside_is_not_entering() -> None:
    assert zone_firings([at(7), at(8), at(5), at(7)]) == [3]


def test_unknown_and_foreign_poses_are_neither_inside_nor_outside() -> None:
    assert zone_firings([None, at(7, frame="odom"), at(4, frame="odom"), at(8)]) == []


def test_a_repeating_zone_fires_again_after_a_stay_outside() -> None:
    poses = [at(5), at(7), at(5), at(5), at(7)]
    assert zone_firings(poses, repeat=True) == [1, 4]


def test_a_wobble_at_the_edge_does_not_repeat() -> None:
    watching = triggers({"type": "zone_entered", "zone": "kitchen", "repeat": True})
    times = [0.0, 1.0, 1.1, 1.2, 1.3, 1.4]
    xs = [5.0, 6.1, 5.9, 6.1, 5.9, 6.1]
    fired = [t for t, x in zip(times, xs, strict=True) if watching.evaluate(sample(t, pose=at(x)), t).firings]
    assert fired == [1.0]


def test_progress_above_asks_for_progress_and_leaves_the_firing_to_the_kit() -> None:
    watching = triggers({"type": "progress_above", "percent": 50})
    asked = []
    for percent in (None, 10.0, 49.9, 50.0, 60.0):
        evaluation = watching.evaluate(sample(0.0, percent=percent), 0.0)
        assert evaluation.firings == []
        asked.append(evaluation.emit_progress)
    assert asked == [False, False, False, True, False]
    assert watching.unfired() == []


def test_stalled_fires_when_the_robot_stands_still() -> None:
    watching = triggers({"type": "stalled", "seconds": 5})
    moving = [sample(float(t), distance_m=10.0 - t, pose=at(float(t))) for t in range(4)]
    standing = [sample(3.0 + t, distance_m=7.0, pose=at(3.0)) for t in range(1, 10)]
    fired = [s.time_s for s in moving + standing if watching.evaluate(s, s.time_s).firings]
    assert fired == [8.0]


def test_turning_in_place_is_no_standstill() -> None:
    watching = triggers({"type": "stalled", "seconds": 5})
    for t in range(20):
        pose = Pose2D(0.0, 0.0, math.remainder(0.2 * t, math.tau))
        assert watching.evaluate(sample(float(t), distance_m=7.0, pose=pose), float(t)).firings == []


def test_stalled_fires_on_silence_by_our_own_clock() -> None:
    watching = triggers({"type": "stalled", "seconds": 5})
    watching.evaluate(sample(1000.0, distance_m=7.0), 10.0)
    assert watching.silence(14.9) == []
    assert [f.extra["reason"] for f in watching.silence(15.0)] == ["no_feedback"]
    assert watching.silence(30.0) == []


def test_equal_triggers_count_once() -> None:
    """K67."""
    watching = triggers(ETA, {"seconds": 30.0, "type": "eta_below"})
    watching.evaluate(sample(0.0, eta_s=10.0), 0.0)
    assert len(watching.evaluate(sample(1.0, eta_s=9.0), 1.0).firings) == 1


def test_unfired_triggers_are_known() -> None:
    watching = triggers(ETA, {"type": "distance_below", "distance_m": 1})
    for t in (0.0, 1.0):
        watching.evaluate(sample(t, eta_s=10.0, distance_m=5.0), t)
    assert watching.unfired() == [{"type": "distance_below", "distance_m": 1}]


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        ({"type": "eta_below"}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": "10"}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": True}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": math.nan}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": math.inf}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": 0}, "triggers[0].seconds"),
        ({"type": "eta_below", "seconds": None}, "triggers[0].seconds"),
        ({"type": "distance_below", "seconds": 3}, "triggers[0].distance_m"),
        ({"type": "stalled", "seconds": -1}, "triggers[0].seconds"),
        ({"type": "progress_above", "percent": 101}, "triggers[0].percent"),
        ({"type": "progress_above"}, "triggers[0].percent"),
        ({"type": "zone_entered"}, "triggers[0].zone"),
        ({"type": "zone_entered", "zone": 5}, "triggers[0].zone"),
        ({"type": "zone_entered", "zone": "kichen"}, "triggers[0].zone"),
    ],
)
def test_a_trigger_that_cannot_work_is_refused_at_the_start(trigger: dict[str, Any], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        triggers(trigger)
    assert caught.value.field == field


def test_an_unknown_zone_is_answered_with_the_zones() -> None:
    with pytest.raises(ArgumentError, match='Did you mean "kitchen"') as caught:
        triggers({"type": "zone_entered", "zone": "kichen"})
    assert caught.value.allowed == ["kitchen", "hall"]


@pytest.mark.parametrize("trigger", [{"type": "smell"}, {"type": 5}, {}, {"type": "stalled", "seconds": "x"}])
def test_types_that_are_not_known_here_are_warned_about_and_ignored(
    trigger: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    watching = triggers(trigger, known=frozenset({"eta_below"}))
    assert watching.evaluate(sample(0.0, eta_s=1.0), 0.0).firings == []
    assert "unknown trigger type" in caplog.text
