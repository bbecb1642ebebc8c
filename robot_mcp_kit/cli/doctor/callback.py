"""The checks of the chat app's side: are events received there, is our signature accepted, do clocks agree?

What is posted is signed as events are, but is no event: a receiver that verifies it finds nothing to apply
(it answers 400), so looking changes nothing at the chat app. A second request with a wrong signature tells
whether the receiver judged the signature at all.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from uuid import uuid4

import httpx

from robot_mcp_kit.cli.doctor.report import Line, failed, ok, skipped, warning
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.events import CALLBACK_URL_VARIABLE, SECRET_VARIABLE, EventPoster, encode_event
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import DEFAULT_MAX_SKEW_S, SIGNATURE_PREFIX, sign
from robot_mcp_kit.skills.text import clean_text

TOOL = "doctor"
SKEW_WARNING_S = 30.0
_TIMEOUT_S = 5.0  # as long as the bridge gives one attempt
_SKEWED = re.compile(r"signature is right but (\d+) s")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the receiver answered to one request."""

    status: int
    reason: str
    """Its own words, cleaned."""
    location: str
    skew_s: float | None
    """Its clock minus ours, from the ``Date`` header (whole seconds), ``None`` without one."""


def check_events(environment: Mapping[str, str], server_name: str, *, test_event: bool = False) -> list[Line]:
    """The lines ``events`` and ``clock``.

    Args:
        environment: holds the callback URL and the secret.
        server_name: as the chat app knows this server.
        test_event: post a real event (``watch_event`` of the tool ``doctor``) instead of what is no event.
    """
    url = environment.get(CALLBACK_URL_VARIABLE, "").strip()
    if not url:
        return [
            warning(
                "events",
                f"none are sent: {CALLBACK_URL_VARIABLE} is not set here",
                "set it to the chat app's URL, and RVC_EVENT_SECRET with it; or leave it so, and poll",
            ),
            skipped("clock", "compared with the event receiver's"),
        ]
    secret = environment.get(SECRET_VARIABLE, "")
    try:
        # The bridge's own judgement of name, URL and secret.
        EventPoster(server_name, url, secret)
    except ConfigError as error:
        return [
            failed("events", str(error), "correct the bridge's environment"),
            skipped("clock", "see events"),
        ]
    try:
        with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            body = _test_event(server_name) if test_event else _no_event()
            right = _post(client, url, server_name, secret, body)
            wrong = None
            if not test_event and (right.status < 300 or right.status in (400, 415, 422)):
                wrong = _post(client, url, server_name, f"{secret} but wrong", body)
    except httpx.HTTPError as error:
        return [_unreachable(url, error), skipped("clock", "the receiver did not answer")]
    clock, skewed = _clock(right)
    return [_events(url, right, wrong, skewed=skewed, server_name=server_name), clock]


def _no_event() -> bytes:
    note = "a signature test of robot-mcp-kit doctor; not an event, nothing happened"
    return json.dumps({"schema_version": 1, "tool": TOOL, "note": note}).encode()


def _test_event(server_name: str) -> bytes:
    return encode_event(
        TaskEvent(
            event_id=str(uuid4()),
            task_id=f"doctor-{uuid4().hex[:6]}",
            server=server_name,
            tool=TOOL,
            type="watch_event",
            seq=1,
            ts=datetime.now(UTC),
            payload={"note": "a test by robot-mcp-kit doctor; nothing happened on the robot"},
        )
    )


def _post(client: httpx.Client, url: str, server_name: str, secret: str, body: bytes) -> Reply:
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "X-RVC-Server": server_name,
        "X-RVC-Timestamp": str(timestamp),
        "X-RVC-Signature": SIGNATURE_PREFIX + sign(secret, timestamp, body),
    }
    sent_s = time.time()
    response = client.post(url, content=body, headers=headers)
    halfway_s = (sent_s + time.time()) / 2
    try:
        skew_s = parsedate_to_datetime(response.headers["date"]).timestamp() - halfway_s
    except (KeyError, ValueError, TypeError, OverflowError):
        skew_s = None
    return Reply(
        response.status_code, clean_text(response.text, 200), response.headers.get("location", ""), skew_s
    )


def _unreachable(url: str, error: httpx.HTTPError) -> Line:
    shown = _without_secrets(url)
    if isinstance(error, httpx.TimeoutException):
        return failed(
            "events",
            f"{shown}: no answer within {_TIMEOUT_S:g} s",
            "is the chat app busy, or a firewall between?",
        )
    if "CERTIFICATE" in str(error).upper():
        return failed(
            "events",
            f"{shown}: its certificate is not trusted: {error}",
            "install the issuer's certificate here",
        )
    return failed(
        "events",
        f"{shown} cannot be reached: {error or type(error).__name__}",
        f"is the chat app running there? Is {CALLBACK_URL_VARIABLE} right, as seen from this machine?",
    )


def _without_secrets(url: str) -> str:
    parsed = httpx.URL(url)
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}{parsed.path}"


def _events(url: str, right: Reply, wrong: Reply | None, *, skewed: bool, server_name: str) -> Line:
    shown, status = _without_secrets(url), right.status
    says = f" ({right.reason})" if right.reason else ""
    refused = wrong is not None and wrong.status in (401, 403)
    if status in (401, 403):
        if skewed:
            return warning("events", f"{shown} refuses us with {status}, which the clocks explain: see below")
        return failed(
            "events",
            f"{shown} is there but refuses our signature with {status}{says}",
            f"{SECRET_VARIABLE} must be the same on both sides (mind quotes in the environment file)",
            f"the receiver must know the server name {server_name!r}",
        )
    if 300 <= status < 400:
        return failed(
            "events",
            f"{shown} redirects ({status}) to {right.location or 'nowhere'}; redirects are never followed",
            f"set {CALLBACK_URL_VARIABLE} to the final address",
        )
    if status in (404, 405, 410):
        return failed(
            "events",
            f"{shown} is there, but takes no events on that path ({status})",
            f"correct the path in {CALLBACK_URL_VARIABLE}, usually /api/agent/events",
        )
    if status in (408, 429):
        return warning(
            "events", f"{shown} is there but busy ({status}); events would be repeated", "try again"
        )
    if status >= 500:
        return failed("events", f"{shown} fails with {status}{says}", "look at the chat app's log")
    if wrong is None and status < 300:
        return ok("events", f"{shown} took a signed test event ({status})")
    if refused:
        return ok("events", f"{shown} accepts our signature, and refuses a wrong one")
    if status < 300 and wrong is not None and wrong.status < 300:
        return warning(
            "events",
            f"{shown} accepts a wrong signature too: anybody who reaches it could speak for the robot",
            "let the receiver verify X-RVC-Signature (robot_mcp_kit.client.Inbox does)",
        )
    return warning(
        "events",
        f"{shown} answers {status}{says}; whether it accepts the signature cannot be told from that",
        "--test-event posts a real event (type watch_event, tool doctor), which settles it",
    )


def _clock(reply: Reply) -> tuple[Line, bool]:
    """The line, and whether the clocks explain a refusal."""
    told = _SKEWED.search(reply.reason)
    skew_s = reply.skew_s
    if told is not None and (skew_s is None or abs(skew_s) <= DEFAULT_MAX_SKEW_S):
        # Our own receiver says it outright; a proxy in between may have written the Date header.
        skew_s = float(told[1])
    if skew_s is None:
        return skipped("clock", "the receiver's answer has no Date header"), False
    words = f"the receiver's clock differs from ours by {skew_s:+.0f} s"
    fix = "synchronise both machines (chrony or systemd-timesyncd)"
    if abs(skew_s) > DEFAULT_MAX_SKEW_S:
        return failed("clock", f"{words}; beyond {DEFAULT_MAX_SKEW_S} s every event is refused", fix), True
    if abs(skew_s) > SKEW_WARNING_S:
        return warning("clock", f"{words}; beyond {DEFAULT_MAX_SKEW_S} s every event is refused", fix), False
    return ok("clock", words if abs(skew_s) >= 2 else "agrees with the receiver's"), False
