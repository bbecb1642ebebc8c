"""Pushes task events to the chat app: signed, in order per task, at least once within ten minutes."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import httpx
from pydantic import SecretStr

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.delivery import Sender
from robot_mcp_kit.dispatch import Counters, Dispatcher, log_lost
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.loops import running_loop
from robot_mcp_kit.models import TaskEvent, format_timestamp
from robot_mcp_kit.names import check_server_name
from robot_mcp_kit.outbox import MemoryOutbox, NewEntry, Outbox

logger = logging.getLogger(__name__)

CALLBACK_URL_VARIABLE = "RVC_CALLBACK_URL"
SECRET_VARIABLE = "RVC_EVENT_SECRET"  # noqa: S105  the variable's name, not a secret
MAX_QUIET_BODY_BYTES = 256 * 1024
"""Larger bodies are delivered too, with a WARNING (K51)."""


@dataclass(frozen=True, slots=True)
class PosterStatistics:
    """Counts since the poster was made. An event is in exactly one of queued, in_flight, delivered,
    dropped.
    """

    queued: int
    """Waiting, also between retries."""
    in_flight: int
    """Being sent right now."""
    delivered: int
    retried: int
    """Attempts after the first one of an event."""
    dropped: int
    """Given up after ten minutes, pushed out of a full queue, or posted after the close."""
    overflowed: int
    """Those of ``dropped`` that a full queue pushed out."""
    last_error: str | None
    """What went wrong last, ``None`` while nothing did."""
    oldest_age_s: float | None
    """Seconds since the oldest undelivered event was accepted, ``None`` when there is none."""
    clock_skew_s: float | None
    """The receiver's clock minus ours in seconds, when a 401 or 403 told it."""


def encode_event(event: TaskEvent) -> bytes:
    """The body of one event: nine keys, strict JSON, UTF-8. Serialised once; these bytes are signed and
    sent.
    """
    notes: list[str] = []
    body = {
        "schema_version": event.schema_version,
        "event_id": event.event_id,
        "task_id": event.task_id,
        "server": event.server,
        "tool": event.tool,
        "type": event.type,
        "seq": event.seq,
        "ts": format_timestamp(event.ts),
        "payload": to_jsonable(event.payload, notes=notes),
    }
    if notes:
        logger.warning("event %s of task %s: %s", event.event_id, event.task_id, "; ".join(notes))
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
        "utf-8", "replace"
    )


class EventPoster:
    """Delivers events of one server to one callback URL.

    Order is kept per task: while an event is retried, only later events of *its* task wait. Failures are
    retried after 0.5, 2, 8 and then every 30 s, and given up when the next attempt would come later than 600
    s after the first one. Without a URL the poster only logs at DEBUG, so that a server runs alone.

    Constructing needs no event loop; the loop of the first :meth:`post` (or :meth:`resume`) is used. Events
    may be posted from any thread.

    Args:
        server_name: the ``X-RVC-Server`` name; printable ASCII.
        callback_url: http or https URL; ``None`` reads ``RVC_CALLBACK_URL``. Blank means no delivery.
        secret: shared secret; ``None`` reads ``RVC_EVENT_SECRET``.
        outbox: where events wait; in memory by default. The poster closes it.
        max_in_flight: most posts at once, over all tasks.
        attempt_timeout_s: seconds until one attempt counts as failed.
        close_grace_s: seconds that :meth:`aclose` spends on a last attempt for what is queued.
        standard_webhooks: also send ``webhook-id``, ``webhook-timestamp``, ``webhook-signature``.
        former_secrets: while a secret is being replaced, sign ``webhook-signature`` with these as well, so
            that receivers with either one verify. (``X-RVC-Signature`` has room for one signature; its
            receivers accept two secrets for a while instead.)
        fail_fast_4xx: give an event up at its first 4xx answer other than 408 and 429 instead of retrying it.
        trust_env: let proxy variables apply; off, because a loopback callback must not go to a proxy.
        clock: monotonic time for the schedule.
        wall_clock: Unix seconds for the timestamp header.
        transport: replaces the network in tests.

    Raises:
        ConfigError: URL without http(s) scheme or host; URL without a secret; unusable server name. (A
        ValueError.)
    """

    def __init__(
        self,
        server_name: str,
        callback_url: str | None = None,
        secret: str | SecretStr | None = None,
        *,
        outbox: Outbox | None = None,
        max_in_flight: int = 8,
        attempt_timeout_s: float = 5.0,
        close_grace_s: float = 2.0,
        standard_webhooks: bool = False,
        former_secrets: Sequence[str | SecretStr] = (),
        fail_fast_4xx: bool = False,
        trust_env: bool = False,
        clock: Clock | None = None,
        wall_clock: WallClock = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.server_name = check_server_name(server_name)
        if max_in_flight < 1:
            raise ConfigError(f"max_in_flight: must be at least 1, got {max_in_flight}")
        self._outbox = outbox if outbox is not None else MemoryOutbox()
        self._max_in_flight = max_in_flight
        self._close_grace_s = close_grace_s
        self._fail_fast_4xx = fail_fast_4xx
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wall_clock = wall_clock
        url = _callback_url(callback_url)
        self._address = "" if url is None else f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"
        # A function, because the HTTP client inside belongs to one event loop and the poster may outlive
        # that.
        self._make_sender: Callable[[], Sender] | None = None
        if url is not None:
            self._make_sender = partial(
                Sender,
                url,
                _secret(secret),
                wall_clock=wall_clock,
                attempt_timeout_s=attempt_timeout_s,
                max_connections=max_in_flight,
                standard_webhooks=standard_webhooks,
                former_secrets=[_secret(former) for former in former_secrets],
                trust_env=trust_env,
                transport=transport,
            )
            self._make_sender()  # an unusable secret stops the start, not the first event
        self._counters = Counters()
        self._dispatcher: Dispatcher | None = None
        self._bind_lock = threading.Lock()
        self._closing = False
        self._closer: asyncio.Task[None] | None = None
        if len(self._outbox):
            self.resume()

    def __repr__(self) -> str:
        return f"EventPoster(server_name={self.server_name!r}, callback_url={self._address or None!r})"

    # -- accepting ------------------------------------------------------------------------------------------

    async def post(self, event: TaskEvent) -> None:
        """Accept an event and return at once; delivery goes on in the background. Never raises (K124)."""
        self.post_nowait(event)

    def post_nowait(self, event: TaskEvent) -> None:
        """:meth:`post` without a coroutine: from any thread, never raises, never waits for the network."""
        try:
            self._accept(event)
        except Exception:
            self._counters.count_dropped()
            logger.exception("an event could not be accepted and is dropped")

    def _accept(self, event: TaskEvent) -> None:
        if self._make_sender is None:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("no callback URL; event not sent: %s", encode_event(event).decode())
            return
        if self._closing:
            self._counters.count_dropped()
            logger.warning(
                "the poster is closed; dropped %s event %s (seq %d) of task %s",
                event.type,
                event.event_id,
                event.seq,
                event.task_id,
            )
            return
        body = encode_event(event)
        if len(body) > MAX_QUIET_BODY_BYTES:
            logger.warning("event %s of task %s is large: %d bytes", event.event_id, event.task_id, len(body))
        entry = NewEntry(
            event_id=event.event_id,
            task_id=event.task_id,
            server=check_server_name(event.server),
            type=event.type,
            seq=event.seq,
            accepted_at_s=self._wall_clock(),
            body=body,
        )
        for evicted in self._outbox.append(entry, keep=self._in_flight()):
            self._counters.count_dropped(overflow=True)
            log_lost(evicted, "the queue is full")
        self._kick(event.task_id)

    def resume(self) -> int:
        """Start delivering what a durable outbox still holds from an earlier process.

        Called by itself when the poster is made or used on a running loop.

        Returns:
            the number of undelivered events.
        """
        self._kick(None)
        return len(self._outbox)

    def _kick(self, task_id: str | None) -> None:
        """Tell the loop that there is work; take a loop if there is none (left)."""
        if self._make_sender is None:
            return
        running = running_loop()
        with self._bind_lock:
            dispatcher = self._dispatcher
            if running is not None and (
                dispatcher is None or (running is not dispatcher.loop and not dispatcher.loop.is_running())
            ):
                # First use, or the earlier loop has ended (K144): everything undelivered moves here.
                if dispatcher is not None:
                    dispatcher.abandon()
                self._dispatcher = Dispatcher(
                    running,
                    outbox=self._outbox,
                    sender=self._make_sender(),
                    clock=self._clock,
                    counters=self._counters,
                    max_in_flight=self._max_in_flight,
                    fail_fast_4xx=self._fail_fast_4xx,
                )
                self._dispatcher.wake_all()
                return
        if dispatcher is None or task_id is None:
            return  # it stays in the outbox until the poster meets a loop
        if running is dispatcher.loop:
            dispatcher.wake(task_id)
            return
        try:
            dispatcher.loop.call_soon_threadsafe(dispatcher.wake, task_id)
        except RuntimeError:  # that loop was closed just now; the next post on a loop takes over
            logger.debug("the poster's loop is closed; events wait for another one")

    # -- looking and closing --------------------------------------------------------------------------------

    def statistics(self) -> PosterStatistics:
        """Counts for health pages and tests. From any thread."""
        oldest = self._outbox.oldest_accepted_at_s()
        in_flight = len(self._in_flight())
        counters = self._counters
        return PosterStatistics(
            queued=max(0, len(self._outbox) - in_flight),
            in_flight=in_flight,
            delivered=counters.delivered,
            retried=counters.retried,
            dropped=counters.dropped,
            overflowed=counters.overflowed,
            last_error=counters.last_error,
            oldest_age_s=None if oldest is None else max(0.0, self._wall_clock() - oldest),
            clock_skew_s=counters.clock_skew_s,
        )

    def _in_flight(self) -> Collection[int]:
        return () if self._dispatcher is None else self._dispatcher.in_flight

    async def drain(self) -> None:
        """Wait until nothing is queued or in flight. Bound it with ``asyncio.timeout``; an outage lasts."""
        self.resume()
        dispatcher = self._dispatcher
        if dispatcher is None:
            return
        if dispatcher.loop is asyncio.get_running_loop():
            await dispatcher.drain()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(dispatcher.drain(), dispatcher.loop))

    async def aclose(self) -> None:
        """One last immediate attempt for what is queued, within ``close_grace_s``, then stop (K140).

        Idempotent. Undelivered events are counted in the log; a durable outbox keeps them for the next
        process.
        """
        running = asyncio.get_running_loop()
        dispatcher = self._dispatcher
        if dispatcher is not None and dispatcher.loop is not running and dispatcher.loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.aclose(), dispatcher.loop))
            return
        if self._closer is None:
            self._closing = True
            self._closer = running.create_task(self._close(), context=contextvars.Context())
        elif self._closer.get_loop() is not running:
            return  # closed on a loop that is gone
        # A cancelled caller does not leave the poster half closed.
        await asyncio.shield(self._closer)

    async def _close(self) -> None:
        try:
            if len(self._outbox):
                self._kick(None)
            dispatcher = self._dispatcher
            if dispatcher is not None and dispatcher.loop is asyncio.get_running_loop():
                await dispatcher.close(self._close_grace_s)
            left = len(self._outbox)
            if left and self._make_sender is not None:
                fate = "the outbox keeps them" if self._outbox.durable else "they are lost"
                logger.warning("closed with %d events undelivered; %s", left, fate)
        finally:
            self._outbox.close()


def _callback_url(argument: str | None) -> httpx.URL | None:
    name = "callback_url" if argument is not None else CALLBACK_URL_VARIABLE
    text = (argument if argument is not None else os.environ.get(CALLBACK_URL_VARIABLE, "")).strip()
    if not text:
        return None
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError) as exc:
        raise ConfigError(f"{name}: not a URL ({exc})") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(
            f"{name}: needs http:// or https:// and a host, such as http://127.0.0.1:8000/api/agent/events"
        )
    return url


def _secret(argument: str | SecretStr | None) -> str:
    if isinstance(argument, SecretStr):
        argument = argument.get_secret_value()
    secret = argument if argument is not None else os.environ.get(SECRET_VARIABLE, "")
    if not secret.strip():
        raise ConfigError(f"{SECRET_VARIABLE}: a callback URL is set, so the shared secret must be set too")
    return secret
