"""Is this request really from that server, fresh, and a task event? The one place where this is decided.

Transport-free: give it the headers and the exact bytes of the body (K170, C28).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from pydantic import ValidationError

from robot_mcp_kit.client.secrets import SecretsLike, ServerSecrets
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import DEFAULT_MAX_SKEW_S, parse_timestamp, verify

SERVER_HEADER = "X-RVC-Server"
TIMESTAMP_HEADER = "X-RVC-Timestamp"
SIGNATURE_HEADER = "X-RVC-Signature"

MAX_SEQ = 2**53
"""JSON's largest whole number that every reader agrees on."""
MAX_NAME_LENGTH = 256
"""Of ids and names in an event: they are kept, and a server must not fill the disk with one."""

_HEADERS = (SERVER_HEADER.lower(), TIMESTAMP_HEADER.lower(), SIGNATURE_HEADER.lower())
_NAMES = {name.lower(): name for name in (SERVER_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)}

HeadersLike = Mapping[str, str] | Iterable[tuple[str, str]]


class Refused(StrEnum):
    """Why a request is not an event."""

    MISSING_HEADER = "missing_header"
    REPEATED_HEADER = "repeated_header"
    UNKNOWN_SERVER = "unknown_server"
    BAD_TIMESTAMP = "bad_timestamp"
    STALE = "stale"
    BAD_SIGNATURE = "bad_signature"
    WRONG_SERVER = "wrong_server"
    NOT_AN_EVENT = "not_an_event"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a request is worth.

    ``event`` is set only when everything holds. Otherwise ``refused`` says why in a word and ``reason`` in a
    sentence that is safe to print and holds no secret; ``status`` is 401, or 400 for an authentic request
    whose body is no event.
    """

    event: TaskEvent | None
    status: int = 200
    refused: Refused | None = None
    reason: str = ""


class EventVerifier:
    """Judges requests.

    Args:
        secrets: see :class:`~robot_mcp_kit.client.secrets.ServerSecrets`.
        max_skew_s: how far the sender's clock may be off, in either direction, seconds; default 300.
        wall_clock: Unix seconds, to judge a request's age.
    """

    def __init__(
        self,
        secrets: SecretsLike | ServerSecrets,
        *,
        max_skew_s: int = DEFAULT_MAX_SKEW_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.secrets = secrets if isinstance(secrets, ServerSecrets) else ServerSecrets(secrets)
        self._max_skew_s = max_skew_s
        self._wall_clock = wall_clock

    def judge(self, headers: HeadersLike, body: bytes) -> Verdict:
        """Judge one request. Never raises on what a stranger may send.

        Args:
            headers: names are compared without case. Pairs show a header that came twice, a mapping cannot.
            body: the exact bytes received (the signature covers them, not the parsed JSON).
        """
        found: dict[str, str] = {}
        for name, value in headers.items() if isinstance(headers, Mapping) else headers:
            key = name.lower()
            if key in _HEADERS:
                if key in found:
                    return _refuse(Refused.REPEATED_HEADER, f"the header {_NAMES[key]} came twice")
                found[key] = value
        for key in _HEADERS:
            if not found.get(key, "").strip():
                return _refuse(Refused.MISSING_HEADER, f"the header {_NAMES[key]} is missing")
        server, timestamp_text, signature = (found[key] for key in _HEADERS)
        secrets = self.secrets.of(server)
        if not secrets:
            return _refuse(Refused.UNKNOWN_SERVER, f"the server {shown(server)} is not known here")
        timestamp = parse_timestamp(timestamp_text)
        if timestamp is None:
            return _refuse(
                Refused.BAD_TIMESTAMP,
                f"the header {TIMESTAMP_HEADER} is not whole Unix seconds: {shown(timestamp_text)}",
            )
        now_s = math.floor(self._wall_clock())
        if not any(
            verify(secret, timestamp, body, signature, max_skew_s=self._max_skew_s, now_s=now_s)
            for secret in secrets
        ):
            return self._not_authentic(secrets, timestamp, body, signature, now_s)
        return _read(server, body)

    def _not_authentic(
        self, secrets: tuple[str, ...], timestamp: int, body: bytes, signature: str, now_s: int
    ) -> Verdict:
        age_s = now_s - timestamp
        # A second look with the window opened tells a wrong clock from a wrong secret; it never lets
        # anything in.
        if any(
            verify(one, timestamp, body, signature, max_skew_s=abs(age_s), now_s=now_s) for one in secrets
        ):
            direction = "old" if age_s > 0 else "ahead of this clock"
            return _refuse(
                Refused.STALE,
                f"the signature is right but {abs(age_s)} s {direction} ({self._max_skew_s} s allowed)",
            )
        return _refuse(
            Refused.BAD_SIGNATURE,
            "the signature does not match: another secret, or the body was changed on the way",
        )


def _read(server: str, body: bytes) -> Verdict:
    """The event in an authentic body."""
    try:
        event = TaskEvent.model_validate_json(body)
        if b"NaN" in body or b"Infinity" in body:
            json.loads(body, parse_constant=_refuse_constant)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        return _no_event(f"{shown(where)[1:-1]}: {first['msg']}")
    except (ValueError, RecursionError) as error:
        return _no_event(f"body: {error}")
    if event.seq > MAX_SEQ:
        return _no_event(f"seq: at most {MAX_SEQ}")
    for field in ("event_id", "task_id", "server", "tool"):
        text = getattr(event, field)
        if not 0 < len(text) <= MAX_NAME_LENGTH:
            return _no_event(f"{field}: 1 to {MAX_NAME_LENGTH} characters, has {len(text)}")
    if event.server != server:
        # The header is outside the signature (C28): without this, one server could speak for another.
        return _refuse(
            Refused.WRONG_SERVER, f"{SERVER_HEADER} says {shown(server)}, the body says {shown(event.server)}"
        )
    return Verdict(event)


def _refuse(why: Refused, reason: str) -> Verdict:
    return Verdict(None, 401, why, reason)


def _no_event(reason: str) -> Verdict:
    return Verdict(None, 400, Refused.NOT_AN_EVENT, f"signed, but not a task event: {reason}")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def shown(text: str) -> str:
    """A stranger's text in quotes, safe for a terminal: no control characters, short."""
    return ascii(text if len(text) <= 60 else text[:60] + "...")
