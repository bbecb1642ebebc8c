"""Pushes task events to the chat app: signed, in order per task, at least once within ten minutes."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import json
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass

import httpx
from pydantic import SecretStr

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.delivery import GIVE_UP_AFTER_S, Answer, Sender, retry_delay_s
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.models import TaskEvent, format_timestamp
from robot_mcp_kit.names import check_server_name
from robot_mcp_kit.outbox import MemoryOutbox, NewEntry, Outbox, OutboxEntry

logger = logging.getLogger(__name__)

CALLBACK_URL_VARIABLE = "RVC_CALLBACK_URL"
SECRET_VARIABLE = "RVC_EVENT_SECRET"  # noqa: S105  the variable's name, not a secret
MAX_QUIET_BODY_BYTES = 256 * 1024
"""Larger bodies are delivered too, with a WARNING (K51)."""
MAX_QUIET_SKEW_S = 60.0


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


class _Lane:
    """One task's place in the schedule. It is in exactly one of: ready, in flight, delayed."""

    __slots__ = ("attempts", "first_attempt_s", "key", "task_id")

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.key = 0
        self.attempts = 0
        self.first_attempt_s = 0.0


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
        self._sender = (
            None
            if url is None
            else Sender(
                url,
                _secret(secret),
                wall_clock=wall_clock,
                attempt_timeout_s=attempt_timeout_s,
                max_connections=max_in_flight,
                standard_webhooks=standard_webhooks,
                trust_env=trust_env,
                transport=transport,
            )
        )
        self._bind_lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generation = 0
        # The schedule; touched only on the loop.
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._delayed: list[tuple[float, int, _Lane]] = []
        self._order = itertools.count()
        self._workers: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due_s = 0.0
        self._flying: set[int] = set()
        self._drained: list[asyncio.Future[None]] = []
        self._closing = False
        self._closer: asyncio.Task[None] | None = None

        self._count_lock = threading.Lock()
        self._delivered = 0
        self._retried = 0
        self._dropped = 0
        self._overflowed = 0
        self._last_error: str | None = None
        self._last_location: str | None = None
        self._clock_skew_s: float | None = None
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
            self._count_dropped()
            logger.exception("an event could not be accepted and is dropped")

    def _accept(self, event: TaskEvent) -> None:
        if self._sender is None:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("no callback URL; event not sent: %s", encode_event(event).decode())
            return
        if self._closing:
            self._count_dropped()
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
        for evicted in self._outbox.append(entry, keep=self._flying):
            self._count_dropped(overflow=True)
            _log_lost(evicted, "the queue is full")
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
        if self._sender is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        with self._bind_lock:
            loop = self._loop
            if running is not None and running is not loop and (loop is None or not loop.is_running()):
                # First use, or the earlier loop has ended: everything undelivered moves here.
                self._bind(running)
                return
        if loop is None:
            return  # stays in the outbox until the poster meets a loop
        if running is loop:
            self._wake(task_id)
            return
        try:
            loop.call_soon_threadsafe(self._wake, task_id)
        except RuntimeError:  # that loop was closed just now; the next post on a loop takes over
            logger.debug("the poster's loop is closed; events wait for another one")

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None and self._sender is not None:
            self._sender.abandon_client()
        self._loop = loop
        self._generation += 1
        self._lanes.clear()
        self._ready.clear()
        self._delayed.clear()
        self._workers.clear()
        self._flying.clear()
        self._timer = None
        for task_id in self._outbox.task_ids():
            self._wake(task_id)

    # -- the schedule (on the loop) -------------------------------------------------------------------------

    def _wake(self, task_id: str | None) -> None:
        if task_id is not None and task_id not in self._lanes:
            lane = self._lanes[task_id] = _Lane(task_id)
            self._ready.append(lane)
        self._staff()

    def _staff(self) -> None:
        """As many workers as there are ready lanes, up to the limit; workers leave when nothing is ready."""
        loop = self._loop
        assert loop is not None  # noqa: S101  only called after _bind
        while len(self._workers) < self._max_in_flight and len(self._workers) - len(self._flying) < len(
            self._ready
        ):
            worker = loop.create_task(self._work(self._generation), context=contextvars.Context())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self, generation: int) -> None:
        try:
            await self._serve(generation)
        finally:
            # At once and not in the done callback: _staff must not count a worker that has just left.
            me = asyncio.current_task()
            if me is not None:
                self._workers.discard(me)

    async def _serve(self, generation: int) -> None:
        while self._ready and generation == self._generation:
            lane = self._ready.popleft()
            entry = self._outbox.head(lane.task_id)
            if entry is None:
                self._retire(lane)
                continue
            if entry.key != lane.key:
                lane.key = entry.key
                lane.attempts = 0
                lane.first_attempt_s = self._clock.now()
            lane.attempts += 1
            if lane.attempts > 1:
                self._retried += 1
            self._flying.add(entry.key)
            try:
                assert self._sender is not None  # noqa: S101
                answer = await self._sender.attempt(entry)
            finally:
                if generation == self._generation:
                    self._flying.discard(entry.key)
            if generation != self._generation:
                return  # another loop has taken over meanwhile
            try:
                self._settle(lane, entry, answer)
            except Exception:
                # A broken outbox must not end the lane: the event is tried again, at worst delivered twice.
                logger.exception("after an attempt for event %s of task %s", entry.event_id, entry.task_id)
                self._delay(lane, retry_delay_s(lane.attempts))

    def _settle(self, lane: _Lane, entry: OutboxEntry, answer: Answer) -> None:
        if answer.delivered:
            self._outbox.remove(entry.key)
            self._delivered += 1
            self._ready.append(lane)
            return
        self._last_error = f"{answer.error} ({self._address})"
        self._tell_failure(lane, entry, answer)
        if self._closing:
            self._retire(lane)
            return
        delay_s = retry_delay_s(lane.attempts)
        elapsed_s = self._clock.now() - lane.first_attempt_s
        refused = (
            self._fail_fast_4xx and answer.status is not None and 400 <= answer.status < 500
        ) and answer.status not in (408, 429)
        if refused or elapsed_s + delay_s > GIVE_UP_AFTER_S:
            self._outbox.remove(entry.key)
            self._count_dropped()
            _log_lost(
                entry, f"given up after {lane.attempts} attempts in {elapsed_s:.1f} s: {self._last_error}"
            )
            self._ready.append(lane)
            return
        self._delay(lane, delay_s)

    def _tell_failure(self, lane: _Lane, entry: OutboxEntry, answer: Answer) -> None:
        logger.log(
            logging.WARNING if lane.attempts == 1 else logging.INFO,
            "attempt %d for %s event %s (seq %d) of task %s: %s",
            lane.attempts,
            entry.type,
            entry.event_id,
            entry.seq,
            entry.task_id,
            self._last_error,
        )
        if answer.location is not None and answer.location != self._last_location:
            self._last_location = answer.location
            logger.error(
                "%s redirects to %s; redirects are not followed, change %s",
                self._address,
                answer.location,
                CALLBACK_URL_VARIABLE,
            )
        if answer.clock_skew_s is not None:
            self._clock_skew_s = answer.clock_skew_s
            if abs(answer.clock_skew_s) > MAX_QUIET_SKEW_S and lane.attempts == 1:
                logger.error(
                    "the receiver refuses events and its clock is %.0f s ahead of ours: set the time here",
                    answer.clock_skew_s,
                )

    def _retire(self, lane: _Lane) -> None:
        self._lanes.pop(lane.task_id, None)
        if not self._lanes:
            waiting, self._drained = self._drained, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _delay(self, lane: _Lane, delay_s: float) -> None:
        due_s = self._clock.now() + delay_s
        heapq.heappush(self._delayed, (due_s, next(self._order), lane))
        if self._timer is None or self._timer.done() or due_s < self._timer_due_s:
            if self._timer is not None:
                self._timer.cancel()
            assert self._loop is not None  # noqa: S101
            self._timer_due_s = due_s
            self._timer = self._loop.create_task(self._tick(), context=contextvars.Context())

    async def _tick(self) -> None:
        while self._delayed:
            now_s = self._clock.now()
            self._timer_due_s = self._delayed[0][0]
            if self._timer_due_s > now_s:
                await self._clock.sleep(self._timer_due_s - now_s)
                continue
            self._ready.append(heapq.heappop(self._delayed)[2])
            self._staff()

    # -- looking and closing --------------------------------------------------------------------------------

    def statistics(self) -> PosterStatistics:
        """Counts for health pages and tests. From any thread."""
        oldest = self._outbox.oldest_accepted_at_s()
        in_flight = len(self._flying)
        return PosterStatistics(
            queued=max(0, len(self._outbox) - in_flight),
            in_flight=in_flight,
            delivered=self._delivered,
            retried=self._retried,
            dropped=self._dropped,
            overflowed=self._overflowed,
            last_error=self._last_error,
            oldest_age_s=None if oldest is None else max(0.0, self._wall_clock() - oldest),
            clock_skew_s=self._clock_skew_s,
        )

    async def drain(self) -> None:
        """Wait until nothing is queued or in flight. Bound it with ``asyncio.timeout``; an outage lasts."""
        if self._sender is None:
            return
        self.resume()
        running = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not running:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.drain(), self._loop))
        elif self._lanes and self._loop is not None:
            future: asyncio.Future[None] = self._loop.create_future()
            self._drained.append(future)
            await future

    async def aclose(self) -> None:
        """One last immediate attempt for what is queued, within ``close_grace_s``, then stop (K140).

        Idempotent. Undelivered events are counted in the log; a durable outbox keeps them for the next
        process.
        """
        running = asyncio.get_running_loop()
        loop = self._loop
        if loop is not None and loop is not running and loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.aclose(), loop))
            return
        if self._closer is None or self._closer.get_loop() is not running:
            if self._closing:
                return
            self._closing = True
            self._closer = running.create_task(self._close(), context=contextvars.Context())
        # A cancelled caller does not leave the poster half closed.
        await asyncio.shield(self._closer)

    async def _close(self) -> None:
        try:
            if self._sender is not None:
                if len(self._outbox):
                    self._kick(None)
                await self._last_attempts()
                await self._sender.aclose()
                left = len(self._outbox)
                if left and self._outbox.durable:
                    logger.warning("closed with %d events undelivered; the outbox keeps them", left)
                elif left:
                    logger.warning("closed with %d events undelivered; they are lost", left)
        finally:
            self._outbox.close()

    async def _last_attempts(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            return  # never used
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.wait({self._timer})
        self._ready.extend(lane for _, _, lane in self._delayed)
        self._delayed.clear()
        self._staff()
        bound = asyncio.ensure_future(self._clock.sleep(self._close_grace_s))
        while self._workers and not bound.done():
            await asyncio.wait({bound, *self._workers}, return_when=asyncio.FIRST_COMPLETED)
        bound.cancel()
        leftover = set(self._workers)
        for worker in leftover:
            worker.cancel()
        await asyncio.wait({bound, *leftover})
        self._ready.clear()
        self._lanes.clear()

    def _count_dropped(self, *, overflow: bool = False) -> None:
        with self._count_lock:  # several threads may post
            self._dropped += 1
            self._overflowed += overflow


def _log_lost(entry: OutboxEntry, why: str) -> None:
    logger.error(
        "lost %s event %s (seq %d) of task %s: %s", entry.type, entry.event_id, entry.seq, entry.task_id, why
    )


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
