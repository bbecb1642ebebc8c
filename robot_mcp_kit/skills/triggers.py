"""Conditions a caller attached to a task, evaluated on every feedback sample. Pure: returns what fired.

Known types: ``eta_below`` (``seconds``), ``distance_below`` (``distance_m``), ``zone_entered`` (``zone``),
``stalled`` (``seconds``), ``progress_above`` (``percent``). Unknown types are warned about and ignored, as
the contract wants; known ones with a wrong field are refused before anything moves, because a trigger that
silently never fires is worse than no trigger.

Each fires at most once, unless it says ``"repeat": true``; then it has to be re-armed: the value goes back
above the threshold plus a margin, the robot leaves the zone, or it moves again.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.base import Pose2D, Sample
from robot_mcp_kit.skills.config import Zone, fold_name
from robot_mcp_kit.skills.geometry import angle_between, distance
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.triggers import canonical_key, finite_number, repeats, warn_unknown

CONFIRM_S = 0.5
"""A value has to stay below for so long (the robot's time), in at least two samples."""
MOVED_M = 0.05
TURNED_RAD = 0.1

Trigger = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Firing:
    """One trigger to fire now: the dictionary as the caller gave it, and what the event adds to it."""

    trigger: Trigger
    extra: dict[str, Any]


@dataclass(slots=True)
class Evaluation:
    """What one sample brought about."""

    firings: list[Firing] = field(default_factory=list)
    emit_progress: bool = False
    """A ``progress_above`` threshold was crossed: send progress now, the kit fires the trigger on it."""


class _Watcher(abc.ABC):
    """One attached trigger of one type."""

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.repeat = repeats(trigger)
        self.fired = 0
        self._armed = True

    def resume_fired(self) -> None:
        """It fired in an earlier process."""
        self.fired = 1
        self._armed = False

    @property
    def done(self) -> bool:
        return self.fired > 0 and not self.repeat

    def take(self, sample: Sample, now_s: float) -> dict[str, Any] | None:
        """The extra of a firing, or ``None``."""
        extra = None if self.done else self._take(sample, now_s)
        if extra is not None:
            self.fired += 1
        return extra

    def silence(self, now_s: float) -> dict[str, Any] | None:
        """As :meth:`take`, when time passes without feedback."""
        extra = None if self.done else self._silence(now_s)
        if extra is not None:
            self.fired += 1
        return extra

    @abc.abstractmethod
    def _take(self, sample: Sample, now_s: float) -> dict[str, Any] | None: ...

    def _silence(self, now_s: float) -> dict[str, Any] | None:  # noqa: ARG002
        return None


class _Below(_Watcher):
    """``eta_below`` and ``distance_below``: a value that stays under a threshold."""

    def __init__(self, trigger: Trigger, attribute: str, threshold: float, margin: float) -> None:
        super().__init__(trigger)
        self._attribute = attribute
        self._threshold = threshold
        self._margin = margin
        self._armed = True
        self._was_above = False
        self._side: bool | None = None
        self._since_s = 0.0

    def _take(self, sample: Sample, now_s: float) -> dict[str, Any] | None:  # noqa: ARG002
        value: float | None = getattr(sample, self._attribute)
        if value is None:
            self._side = None
            return None
        below = value < self._threshold
        if not below and not self._armed and value < self._threshold + self._margin:
            self._side = None
            return None
        if below is not self._side or sample.time_s < self._since_s:
            self._side, self._since_s = below, sample.time_s
            # The first value above counts at once: only firing needs to be sure.
            self._was_above = self._was_above or not below
            return None
        if sample.time_s - self._since_s < CONFIRM_S - 1e-9:
            return None
        if not below:
            self._armed = True
            return None
        if not self._armed:
            return None
        self._armed = False
        extra: dict[str, Any] = {
            "eta_s": _rounded(sample.eta_s, 1),
            "distance_m": _rounded(sample.distance_m, 2),
        }
        if not self._was_above:
            extra["first_estimate"] = True
        return extra


class _ZoneEntered(_Watcher):
    """Fires at the first pose inside after one outside; starting inside is not entering."""

    def __init__(self, trigger: Trigger, zone: Zone) -> None:
        super().__init__(trigger)
        self._zone = zone
        self._outside_since_s: float | None = None
        self._armed = False

    def _take(self, sample: Sample, now_s: float) -> dict[str, Any] | None:  # noqa: ARG002
        pose = sample.pose
        if pose is None or pose.frame != self._zone.frame:
            return None
        if not self._zone.contains(pose.x_m, pose.y_m):
            if self._outside_since_s is None or sample.time_s < self._outside_since_s:
                self._outside_since_s = sample.time_s
            # After a firing the robot has to stay out for a moment, or an edge would fire at every wobble.
            self._armed = self._armed or self.fired == 0 or sample.time_s - self._outside_since_s >= CONFIRM_S
            return None
        self._outside_since_s = None
        if not self._armed:
            return None
        self._armed = False
        return {"pose": pose_payload(pose), "eta_s": _rounded(sample.eta_s, 1)}


class _Stalled(_Watcher):
    """No progress for some time: the robot stands still (its own time), or says nothing (the bridge's
    time).
    """

    def __init__(self, trigger: Trigger, seconds: float) -> None:
        super().__init__(trigger)
        self._seconds = seconds
        self._best: Sample | None = None
        self._heard_s: float | None = None
        self._armed = True

    def _take(self, sample: Sample, now_s: float) -> dict[str, Any] | None:
        self._heard_s = now_s
        best = self._best
        if best is None or sample.time_s < best.time_s or _has_moved(best, sample):
            self._best = sample
            self._armed = True
            return None
        stood_s = sample.time_s - best.time_s
        if stood_s < self._seconds or not self._armed:
            return None
        self._armed = False
        return {
            "stalled_s": round(stood_s, 1),
            "reason": "no_motion",
            "distance_m": _rounded(sample.distance_m, 2),
        }

    def _silence(self, now_s: float) -> dict[str, Any] | None:
        if self._heard_s is None:
            self._heard_s = now_s
        silent_s = now_s - self._heard_s
        if silent_s < self._seconds or not self._armed:
            return None
        self._armed = False
        return {"stalled_s": round(silent_s, 1), "reason": "no_feedback"}


class _ProgressAbove(_Watcher):
    """Fired by the kit when progress is sent; here only the moment matters. Its "extra" is empty."""

    def __init__(self, trigger: Trigger, percent: float) -> None:
        super().__init__(trigger)
        self._percent = percent

    def _take(self, sample: Sample, now_s: float) -> dict[str, Any] | None:  # noqa: ARG002
        crossed = self.fired == 0 and sample.percent is not None and sample.percent >= self._percent
        return {} if crossed else None


class TriggerSet:
    """The triggers of one task.

    Args:
        triggers: as the caller attached them.
        zones: the robot's named zones.
        known: types the skill can evaluate; others are warned about and ignored.

    Raises:
        ArgumentError: a known type with a missing or wrong field, named like ``triggers[0].seconds``.
    """

    def __init__(
        self, triggers: Sequence[Trigger], zones: Mapping[str, Zone], known: Collection[str] = ()
    ) -> None:
        checked = check_triggers(triggers)
        warn_unknown(checked, known)
        self._watchers: list[_Watcher] = []
        seen: set[str] = set()
        for index, trigger in enumerate(checked):
            kind = trigger.get("type")
            key = canonical_key(trigger)
            if not isinstance(kind, str) or kind not in known or kind not in _BUILDERS or key in seen:
                continue
            seen.add(key)
            self._watchers.append(_BUILDERS[kind](trigger, f"triggers[{index}]", zones))

    def evaluate(self, sample: Sample, now_s: float) -> Evaluation:
        """Take one sample. ``now_s``: the bridge's monotonic time."""
        evaluation = Evaluation()
        for watcher in self._watchers:
            extra = watcher.take(sample, now_s)
            if extra is None:
                continue
            if isinstance(watcher, _ProgressAbove):
                evaluation.emit_progress = True
            else:
                evaluation.firings.append(Firing(watcher.trigger, extra))
        return evaluation

    def silence(self, now_s: float) -> list[Firing]:
        """Time passes without feedback: what fires because of that."""
        found = ((watcher, watcher.silence(now_s)) for watcher in self._watchers)
        return [Firing(watcher.trigger, extra) for watcher, extra in found if extra is not None]

    def resume(self, fired: Collection[str]) -> None:
        """Go on after a restart: these fired before (by :func:`robot_mcp_kit.triggers.canonical_key`).

        Those that repeat have to be re-armed first, as after any firing.
        """
        for watcher in self._watchers:
            if canonical_key(watcher.trigger) in fired:
                watcher.resume_fired()

    def unfired(self) -> list[Trigger]:
        """Triggers evaluated here that never fired (``progress_above`` is the kit's)."""
        return [w.trigger for w in self._watchers if not w.fired and not isinstance(w, _ProgressAbove)]


def check_triggers(triggers: object) -> list[Trigger]:
    """A list of dictionaries with text keys, or an error that says what was expected.

    Raises:
        ArgumentError: on ``triggers`` or ``triggers[i]``.
    """
    example = '[{"type": "eta_below", "seconds": 10}]'
    if triggers is None:
        return []
    if not isinstance(triggers, list | tuple):
        raise ArgumentError("triggers", f"expected a list of objects such as {example}")
    for index, trigger in enumerate(triggers):
        if not isinstance(trigger, dict) or not all(isinstance(key, str) for key in trigger):
            raise ArgumentError(f"triggers[{index}]", f"expected an object as in {example}")
    return [dict(trigger) for trigger in triggers]


def pose_payload(pose: Pose2D | None) -> dict[str, Any] | None:
    """A pose as events carry it: metres and radians, three decimals."""
    if pose is None:
        return None
    return {
        "x_m": round(pose.x_m, 3),
        "y_m": round(pose.y_m, 3),
        "yaw_rad": round(pose.yaw_rad, 3),
        "frame": pose.frame,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _has_moved(before: Sample, after: Sample) -> bool:
    if before.distance_m is not None and after.distance_m is not None:
        nearer = before.distance_m - after.distance_m >= MOVED_M
        replanned = after.distance_m - before.distance_m >= 10 * MOVED_M
        if nearer or replanned:
            return True
    if before.pose is not None and after.pose is not None:
        a, b = before.pose, after.pose
        moved = distance((a.x_m, a.y_m), (b.x_m, b.y_m)) >= MOVED_M
        return moved or angle_between(a.yaw_rad, b.yaw_rad) >= TURNED_RAD
    if before.percent is not None and after.percent is not None:
        return after.percent - before.percent >= 1.0
    return False


def _quantity(trigger: Trigger, name: str, where: str, upper: float | None = None) -> float:
    """A finite number above 0 in a trigger's field."""
    allowed = "a number above 0" if upper is None else f"a number above 0 and at most {upper:g}"
    if name not in trigger:
        raise ArgumentError(f"{where}.{name}", f"is missing; {trigger['type']} needs {allowed}")
    value = finite_number(trigger[name])
    if value is None or value <= 0 or (upper is not None and value > upper):
        raise ArgumentError(f"{where}.{name}", f"expected {allowed}, got {trigger[name]!r}")
    return value


def _eta_below(trigger: Trigger, where: str, zones: Mapping[str, Zone]) -> _Watcher:  # noqa: ARG001
    seconds = _quantity(trigger, "seconds", where)
    return _Below(trigger, "eta_s", seconds, margin=max(2.0, 0.1 * seconds))


def _distance_below(trigger: Trigger, where: str, zones: Mapping[str, Zone]) -> _Watcher:  # noqa: ARG001
    metres = _quantity(trigger, "distance_m", where)
    return _Below(trigger, "distance_m", metres, margin=max(0.5, 0.1 * metres))


def _stalled(trigger: Trigger, where: str, zones: Mapping[str, Zone]) -> _Watcher:  # noqa: ARG001
    return _Stalled(trigger, _quantity(trigger, "seconds", where))


def _progress_above(trigger: Trigger, where: str, zones: Mapping[str, Zone]) -> _Watcher:  # noqa: ARG001
    return _ProgressAbove(trigger, _quantity(trigger, "percent", where, upper=100.0))


def _zone_entered(trigger: Trigger, where: str, zones: Mapping[str, Zone]) -> _Watcher:
    wanted = trigger.get("zone")
    if not isinstance(wanted, str):
        raise ArgumentError(f"{where}.zone", "expected the name of a zone", allowed=sorted(zones))
    for name, zone in zones.items():
        if fold_name(name) == fold_name(wanted):
            return _ZoneEntered(trigger, zone)
    raise ArgumentError(
        f"{where}.zone",
        f'there is no zone "{wanted[:80]}".{did_you_mean(wanted, zones)}',
        allowed=nearest_first(wanted, zones),
    )


_BUILDERS = {
    "eta_below": _eta_below,
    "distance_below": _distance_below,
    "zone_entered": _zone_entered,
    "stalled": _stalled,
    "progress_above": _progress_above,
}
