"""Standing approvals: an operator's signed permission in advance, with bounds, place, time and count.

The signature covers every word of the permission, the robot's name included, so none can be widened, moved
to another robot or made up by whoever can edit a file. How often each was used is read back from the audit
trail, so a restart does not fill the count again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from robot_mcp_kit.clock import Clock, WallClock
from robot_mcp_kit.safety.limits import FieldRule
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.skills.config.safety import StandingApprovalSection
from robot_mcp_kit.skills.geometry import Point, point_in_polygon

PREFIX = "hmac-sha256:"
DEMO_KEY = "robot-mcp-kit-demo-operator-key-that-everybody-knows"
"""Signs the simulated robot's standing approval. A real robot has its own key, or nothing starts unasked."""
MAX_STEP_S = 120.0
"""How far the wall clock may run from the monotonic one before windows of time are no longer believed."""
MAX_BACK_S = 5.0


def signing_key(operator_key: str) -> bytes:
    """The key for standing approvals, derived so that the operator's own key signs nothing else with it."""
    return hmac.new(operator_key.encode(), b"robot-mcp-kit standing approval", hashlib.sha256).digest()


def signed_text(approval: StandingApprovalSection) -> bytes:
    """What the signature is over: every field but itself, as canonical JSON."""
    data = approval.model_dump(mode="json", exclude={"signature"})
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def sign(approval: StandingApprovalSection, operator_key: str) -> StandingApprovalSection:
    """The same approval with its signature."""
    digest = hmac.new(signing_key(operator_key), signed_text(approval), hashlib.sha256).hexdigest()
    return approval.model_copy(update={"signature": PREFIX + digest})


def is_signed(approval: StandingApprovalSection, operator_key: str) -> bool:
    """Whether that operator signed exactly this."""
    good = sign(approval, operator_key).signature
    return hmac.compare_digest(good.encode(), approval.signature.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Wish:
    """What a standing approval is asked about."""

    skill: str
    fields: Mapping[str, Any]
    points: Iterable[tuple[str, Point] | None] | None
    """Frames and positions of the goal's poses; ``None`` for goals that have none."""
    at: Situation


class WallWatch:
    """Notices that somebody sets the wall clock, on which windows of time depend.

    Args:
        clock: monotonic.
        wall: Unix seconds.
        last_seen_s: newest time in the audit trail; earlier than that, the clock has gone back.
    """

    def __init__(self, clock: Clock, wall: WallClock, last_seen_s: float | None = None) -> None:
        self._clock, self._wall = clock, wall
        self._offset_s = wall() - clock.now()
        self._newest_s = last_seen_s if last_seen_s is not None else wall()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall(), UTC)

    def distrust(self) -> str | None:
        """Why the wall clock is not believed, or ``None``."""
        now_s = self._wall()
        if now_s < self._newest_s - MAX_BACK_S:
            return f"the clock went back by {self._newest_s - now_s:.0f} s"
        self._newest_s = max(self._newest_s, now_s)
        step_s = now_s - self._clock.now() - self._offset_s
        if abs(step_s) > MAX_STEP_S:
            return f"the clock was set by {step_s:.0f} s since the start"
        return None


class StandingBook:
    """All standing approvals of this robot.

    Args:
        approvals: from the file and from the state directory.
        operator_keys: any of them verifies a signature.
        robot: this robot's name.
        watch: the wall clock.
        uses: how often each was used so far, by id.
    """

    def __init__(
        self,
        approvals: Iterable[StandingApprovalSection],
        operator_keys: Sequence[str],
        robot: str,
        watch: WallWatch,
        uses: Mapping[str, int] | None = None,
    ) -> None:
        self._robot, self._watch = robot, watch
        self.uses: dict[str, int] = dict(uses or {})
        self.valid: list[StandingApprovalSection] = []
        self.invalid: dict[str, str] = {}
        """Id -> why it does not hold, for the log."""
        for approval in approvals:
            fault = self._fault(approval, operator_keys)
            if fault is None:
                self.valid.append(approval)
            else:
                self.invalid[approval.id] = fault

    def _fault(self, approval: StandingApprovalSection, keys: Sequence[str]) -> str | None:
        if approval.robot != self._robot:
            return f"it is for the robot {approval.robot!r}"
        if not any(is_signed(approval, key) for key in keys):
            return "its signature is not the operator's over these words"
        if any(approval.id == other.id for other in self.valid):
            return "another one has the same id"
        return None

    def find(self, wish: Wish) -> tuple[StandingApprovalSection | None, list[str]]:
        """The first that covers the wish, and why the others do not."""
        reasons: list[str] = []
        for approval in self.valid:
            if wish.skill not in approval.skills:
                continue
            why = next(iter(self._uncovered(approval, wish)), None)
            if why is None:
                return approval, reasons
            reasons.append(f"{approval.id}: {why}")
        return None, reasons

    def listing(self, skill: str) -> StandingApprovalSection | None:
        """The first that names the skill and is not used up or out of its time; its bounds and place need a
        goal.
        """
        for approval in self.valid:
            if skill in approval.skills and next(iter(self._spent(approval)), None) is None:
                return approval
        return None

    def use(self, approval: StandingApprovalSection) -> int:
        """Count one motion; the number of uses so far."""
        self.uses[approval.id] = self.uses.get(approval.id, 0) + 1
        return self.uses[approval.id]

    def _spent(self, approval: StandingApprovalSection) -> Iterable[str]:
        if approval.max_count is not None and self.uses.get(approval.id, 0) >= approval.max_count:
            yield f"used {self.uses[approval.id]} of {approval.max_count} times"
        if approval.not_before or approval.not_after or approval.hours:
            yield from self._outside_time(approval)

    def _uncovered(self, approval: StandingApprovalSection, wish: Wish) -> Iterable[str]:
        yield from self._spent(approval)
        for path, rule in approval.bounds.items():
            for violation in FieldRule(path.removeprefix("goal."), rule, "bounds").check(
                wish.fields, wish.at
            ):
                yield str(violation)
        if approval.place is not None:
            yield from self._outside_place(approval, wish)

    def _outside_time(self, approval: StandingApprovalSection) -> Iterable[str]:
        distrust = self._watch.distrust()
        if distrust is not None:
            yield f"its time cannot be checked: {distrust}"
            return
        now = self._watch.now()
        if approval.not_before is not None and now < approval.not_before:
            yield f"not before {approval.not_before.isoformat()}"
        if approval.not_after is not None and now > approval.not_after:
            yield f"not after {approval.not_after.isoformat()}"
        if approval.hours is not None:
            start, end, at = approval.hours.start, approval.hours.end, now.strftime("%H:%M")
            inside = start <= at < end if start < end else at >= start or at < end
            if not inside:
                yield f"only from {start} to {end} UTC"

    @staticmethod
    def _outside_place(approval: StandingApprovalSection, wish: Wish) -> Iterable[str]:
        place = approval.place
        assert place is not None  # noqa: S101 - the caller looked
        corners = [(x, y) for x, y in place.polygon_m]
        points = list(wish.points) if wish.points is not None else []
        if not points:
            here = wish.at.here
            points = [None if here is None else (here.frame, (here.x_m, here.y_m))]
        for placed in points:
            if placed is None:
                yield "where the motion ends or begins is not known"
            elif placed[0] != place.frame or not point_in_polygon(placed[1], corners):
                x, y = placed[1]
                yield f"({x:.2f}, {y:.2f}) in {placed[0]} is outside its place"
