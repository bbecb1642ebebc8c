"""The feedback of one goal on its way to progress events and triggers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from robot_mcp_kit.bridge.progress import ProgressGate
from robot_mcp_kit.skills.base import FeedbackReader, Sample
from robot_mcp_kit.skills.triggers import TriggerSet

logger = logging.getLogger(__name__)

HELD_FEEDBACK = 1000
"""Feedback that came before the acceptance, at most so many; the oldest go first."""

Emit = Callable[[dict[str, Any]], None]
Fire = Callable[[dict[str, Any], dict[str, Any]], None]


class FeedbackLane:
    """Holds feedback before acceptance, passes it on while the goal runs, drops it after the end (B13).

    Args:
        reader: of this goal, from the skill.
        triggers: evaluated on every sample, also those that no progress event is sent for.
        period_s: least time between two progress events.
        emit: sends a progress payload.
        fire: fires a trigger with its extra.
    """

    def __init__(
        self, reader: FeedbackReader, triggers: TriggerSet, period_s: float, emit: Emit, fire: Fire
    ) -> None:
        self._reader = reader
        self._triggers = triggers
        self._fire = fire
        self._gate = ProgressGate(period_s, emit)
        self._held: deque[Any] = deque(maxlen=HELD_FEEDBACK)
        self._open = False
        self._closed = False
        self._heard_s = 0.0
        self._stalled = False
        self._read_errors = 0
        self.phase = "executing"
        self.last: Sample | None = None

    @property
    def last_payload(self) -> dict[str, Any]:
        """The last reading, empty before the first."""
        return {} if self.last is None else self.last.payload

    def take(self, feedback: Any, now_s: float) -> None:
        """One message, in order."""
        if self._closed:
            return
        if self._open:
            self._digest(feedback, now_s)
        else:
            self._held.append(feedback)

    def open(self, accepted: dict[str, Any], now_s: float) -> None:
        """The goal was accepted: say so, then pass on what was held."""
        self._heard_s = now_s
        self._gate.offer(accepted, now_s, urgent=True)
        self._open = True
        while self._held:
            self._digest(self._held.popleft(), now_s)

    def close(self, now_s: float) -> None:
        """Send what still waits and drop whatever comes later."""
        if not self._closed:
            self._closed = True
            self._held.clear()
            self._gate.flush(now_s)

    def complete(self, now_s: float) -> None:
        """The goal succeeded: percent, which stopped at 99, becomes 100; that also fires a progress_above
        of 100.
        """
        if "percent" in self.last_payload:
            done = {**self.last_payload, "phase": "done", "percent": 100.0, "eta_s": 0.0}
            self._gate.offer(done, now_s, urgent=True)

    def tick(self, now_s: float) -> None:
        """Time passes: send what waited for its period."""
        if self._open and not self._closed:
            self._gate.tick(now_s)

    def watch_silence(self, now_s: float, limit_s: float, note: Callable[[float], str]) -> None:
        """Say once that no feedback came for ``limit_s``; it is unsaid when feedback returns (B12, B18)."""
        for firing in self._triggers.silence(now_s):
            self._fire(firing.trigger, firing.extra)
        silent_s = now_s - self._heard_s
        if silent_s < limit_s or self._stalled:
            return
        self._stalled = True
        stalled = {
            "phase": self.phase,
            "stalled": True,
            "silent_s": round(silent_s, 1),
            "note": note(silent_s),
        }
        self._gate.offer({**self.last_payload, **stalled}, now_s, urgent=True)

    def _digest(self, feedback: Any, now_s: float) -> None:
        self._heard_s = now_s
        try:
            sample = self._reader.read(feedback, now_s)
            evaluation = None if sample is None else self._triggers.evaluate(sample, now_s)
        except Exception:
            # A message that breaks the reading must not end the run (case E47).
            self._read_errors += 1
            if self._read_errors == 1:
                logger.exception("feedback was not readable; later ones of this goal are counted, not logged")
            return
        if sample is None or evaluation is None:
            return
        self.last = sample
        payload = {"phase": self.phase, **sample.payload}
        urgent = sample.milestone or evaluation.emit_progress
        if self._stalled:
            self._stalled = False
            payload["stalled"] = False
            urgent = True
        self._gate.offer(payload, now_s, urgent=urgent)
        for firing in evaluation.firings:
            self._fire(firing.trigger, firing.extra)
