"""Events and payloads in words for people."""

from __future__ import annotations

import math
from typing import Any

from robot_mcp_kit.jsonsafe import dumps
from robot_mcp_kit.models import TaskEvent

MAX_LINE_CHARACTERS = 300


def event_words(event: TaskEvent) -> str:
    """What an event says, in one line without its envelope."""
    payload = event.payload
    if event.type == "progress":
        return progress_words(payload)
    if event.type == "trigger_fired":
        extra = {key: value for key, value in payload.items() if key != "trigger"}
        return short(payload.get("trigger")) + (f" at {short(extra)}" if extra else "")
    if event.type == "task_failed":
        words = f"{payload.get('error_code')}: {payload.get('message')}"
        suggestions = payload.get("suggestions")
        return plain(words) + (f" (suggestions: {short(suggestions)})" if suggestions else "")
    if event.type == "task_done":
        return short(payload.get("result"))
    return short(payload)


def progress_words(payload: dict[str, Any]) -> str:
    """``62 %, about 12 s left, 4.10 m, 1 recovery``: whatever of it is known."""
    words: list[str] = []
    percent, eta_s = number(payload.get("percent")), number(payload.get("eta_s"))
    distance_m, recoveries = number(payload.get("distance_m")), number(payload.get("recoveries"))
    if percent is not None:
        words.append(f"{percent:3.0f} %")
    words.append("time left unknown" if eta_s is None else f"about {eta_s:.0f} s left")
    if distance_m is not None:
        words.append(f"{distance_m:.2f} m")
    if recoveries:
        words.append(f"{recoveries:.0f} recover{'y' if recoveries == 1 else 'ies'}")
    phase = payload.get("phase")
    if isinstance(phase, str) and phase:
        words.append(plain(phase))
    return ", ".join(words)


def number(value: object) -> float | None:
    """A finite number, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def short(value: object) -> str:
    """A JSON-like value in at most one line."""
    return "nothing" if value is None else plain(dumps(value))


def plain(text: str) -> str:
    """No control characters (a robot's text must not move the cursor), bounded length."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"
