"""One delivery attempt of one event: signed afresh, bounded in time, its answer read. And when to try
again.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Sequence
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
    """Holds the HTTP connections of a poster."""

    def __init__(
        self,
        url: httpx.URL,
        secret: str,
        *,
        wall_clock: WallClock,
        attempt_timeout_s: float,
        max_connections: int,
        standard_webhooks: bool,
        former_secrets: Sequence[str],
        trust_env: bool,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._url = url.copy_with(userinfo=b"")
        # Without user, password and query: this one is written to logs.
        self._address = f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"
        self._secret = secret
        signing = (secret, *former_secrets) if standard_webhooks else ()
        self._webhook_keys = [standard_webhooks_key(each) for each in signing]
        self._wall_clock = wall_clock
        self._attempt_timeout_s = attempt_timeout_s
        self._fixed_headers = {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": "robot-mcp-kit",
        }
        if url.userinfo:
            credentials = base64.b64encode(f"{url.username}:{url.password}".encode()).decode("ascii")
            self._fixed_headers["Authorization"] = f"Basic {credentials}"
        self._extensions = {
            "timeout": dict.fromkeys(("connect", "read", "write", "pool"), attempt_timeout_s),
        }
        self._limits = httpx.Limits(
            max_connections=max_connections, max_keepalive_connections=max_connections
        )
        self._trust_env = trust_env
        # Reading the certificates takes a tenth of a second: not on the loop at the first event, and not for
        # http.
        self._tls: ssl.SSLContext | bool = httpx.create_ssl_context() if url.scheme == "https" else False
        self._given_transport = transport
        self._http: httpx.AsyncBaseTransport | httpx.AsyncClient | None = None

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
        request = httpx.Request(
            "POST",
            self._url,
            content=entry.body,
            headers=self._headers(entry),
            extensions=self._extensions,
        )
        http = self._open()
        # The transport alone: a client would add redirects, cookies, proxies, a log line with the whole URL
        # for every event, and a third of the time.
        if isinstance(http, httpx.AsyncClient):
            response = await http.send(request, auth=None, follow_redirects=False, stream=True)
        else:
            response = await http.handle_async_request(request)
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
            **self._fixed_headers,
            "X-RVC-Server": entry.server,
            "X-RVC-Timestamp": str(timestamp),
            "X-RVC-Signature": SIGNATURE_PREFIX + sign(self._secret, timestamp, entry.body),
        }
        if self._webhook_keys:
            headers["webhook-id"] = entry.event_id
            headers["webhook-timestamp"] = str(timestamp)
            headers["webhook-signature"] = " ".join(
                sign_standard_webhooks(key, entry.event_id, timestamp, entry.body)
                for key in self._webhook_keys
            )
        return headers

    def _skew(self, response: httpx.Response) -> float | None:
        try:
            return parsedate_to_datetime(response.headers["date"]).timestamp() - self._wall_clock()
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def _open(self) -> httpx.AsyncBaseTransport | httpx.AsyncClient:
        """The one keep-alive connection pool, made on the loop that first sends (K128)."""
        if self._http is None:
            if self._given_transport is not None:
                self._http = self._given_transport
            elif self._trust_env:
                self._http = httpx.AsyncClient(verify=self._tls, limits=self._limits, trust_env=True)
            else:
                self._http = httpx.AsyncHTTPTransport(verify=self._tls, limits=self._limits, trust_env=False)
        return self._http

    async def aclose(self) -> None:
        """Close the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()
