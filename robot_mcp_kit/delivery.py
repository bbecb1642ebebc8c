"""One delivery attempt of one event: signed afresh, bounded in time, its answer read. And when to try
again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from robot_mcp_kit.clock import WallClock
from robot_mcp_kit.outbox import OutboxEntry
from robot_mcp_kit.signing import SIGNATURE_PREFIX, sign, sign_standard_webhooks, standard_webhooks_key

FIRST_DELAYS_S = (0.5, 2.0, 8.0)
LATER_DELAY_S = 30.0
GIVE_UP_AFTER_S = 600.0
"""Counted from an event's first attempt, the attempts' own time included (K117)."""

_MAX_REPLY_BYTES = 64 * 1024


def retry_delay_s(attempts: int) -> float:
    """Seconds to wait after that many failed attempts: 0.5, 2, 8, then 30 each (K115). No jitter (K126)."""
    return FIRST_DELAYS_S[attempts - 1] if attempts <= len(FIRST_DELAYS_S) else LATER_DELAY_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one attempt."""

    delivered: bool
    error: str = ""
    """For people and logs; never holds the secret or the signature."""
    status: int | None = None
    location: str | None = None
    """Where a redirect points to; redirects are never followed (a followed 302 turns the POST into a GET)."""
    clock_skew_s: float | None = None
    """The receiver's clock minus ours, told by the ``Date`` of a 401 or 403."""

    @property
    def refused(self) -> bool:
        """A 4xx that a repetition will hardly change; 408 and 429 ask for one."""
        return self.status is not None and 400 <= self.status < 500 and self.status not in (408, 429)


class Sender:
    """Holds the one HTTP client of a poster, made on the loop that first sends."""

    def __init__(
        self,
        url: httpx.URL,
        secret: str,
        *,
        wall_clock: WallClock,
        attempt_timeout_s: float,
        max_connections: int,
        standard_webhooks: bool,
        trust_env: bool,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        # httpx writes the URL of each request to its own log, so a password in it travels as a header only.
        self._auth = httpx.BasicAuth(url.username, url.password) if url.userinfo else None
        self._url = url.copy_with(userinfo=b"")
        # Without user, password and query: this one is written to logs.
        self._address = f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"
        self._secret = secret
        self._webhook_key = standard_webhooks_key(secret) if standard_webhooks else None
        self._wall_clock = wall_clock
        self._attempt_timeout_s = attempt_timeout_s
        self._max_connections = max_connections
        self._trust_env = trust_env
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def attempt(self, entry: OutboxEntry) -> Answer:
        """Send once. Raises only CancelledError."""
        try:
            async with asyncio.timeout(self._attempt_timeout_s):
                return await self._send(entry)
        except TimeoutError:
            return Answer(False, f"no answer within {self._attempt_timeout_s:g} s ({self._address})")
        except Exception as exc:  # every failure of one attempt is a reason to try again
            return Answer(False, f"{type(exc).__name__}: {exc} ({self._address})")

    async def _send(self, entry: OutboxEntry) -> Answer:
        client = self._open_client()
        request = client.build_request("POST", self._url, content=entry.body, headers=self._headers(entry))
        response = await client.send(request, auth=self._auth, stream=True)
        try:
            # The status line is the acknowledgement; the rest is read only to keep the connection.
            await self._drain(response)
        finally:
            await response.aclose()
        if 200 <= response.status_code < 300:
            return Answer(True, status=response.status_code)
        return Answer(
            False,
            f"HTTP {response.status_code} ({self._address})",
            response.status_code,
            response.headers.get("location") if 300 <= response.status_code < 400 else None,
            self._skew(response) if response.status_code in (401, 403) else None,
        )

    @staticmethod
    async def _drain(response: httpx.Response) -> None:
        if response.is_stream_consumed:
            return  # a transport that had it all at once
        size = 0
        try:
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > _MAX_REPLY_BYTES:
                    return
        except (httpx.HTTPError, httpx.StreamError):
            return  # the connection is lost, the acknowledgement is not

    def _headers(self, entry: OutboxEntry) -> dict[str, str]:
        timestamp = int(self._wall_clock())
        headers = {
            "Content-Type": "application/json",
            "X-RVC-Server": entry.server,
            "X-RVC-Timestamp": str(timestamp),
            "X-RVC-Signature": SIGNATURE_PREFIX + sign(self._secret, timestamp, entry.body),
        }
        if self._webhook_key is not None:
            headers["webhook-id"] = entry.event_id
            headers["webhook-timestamp"] = str(timestamp)
            headers["webhook-signature"] = sign_standard_webhooks(
                self._webhook_key, entry.event_id, timestamp, entry.body
            )
        return headers

    def _skew(self, response: httpx.Response) -> float | None:
        try:
            return parsedate_to_datetime(response.headers["date"]).timestamp() - self._wall_clock()
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=self._attempt_timeout_s,
                limits=httpx.Limits(
                    max_connections=self._max_connections, max_keepalive_connections=self._max_connections
                ),
                follow_redirects=False,
                trust_env=self._trust_env,
                transport=self._transport,
            )
        return self._client

    async def aclose(self) -> None:
        """Close the client's connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
