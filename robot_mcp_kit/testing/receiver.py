"""A real HTTP receiver on 127.0.0.1 that verifies what arrives, remembers it, and misbehaves on request."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from robot_mcp_kit.client.listening import Listener, Posts
from robot_mcp_kit.client.verifying import EventVerifier
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.testing.eventually import assert_eventually

DEFAULT_SECRET = "s3cret"  # noqa: S105  for tests on this machine
_MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """How the receiver treats one request, whatever it thinks of the signature."""

    status: int = 202
    delay_s: float = 0.0
    """Wait before answering."""
    drop: bool = False
    """Handle the request, then close the connection without an answer (K123)."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One POST as it came in."""

    path: str
    headers: dict[str, str]
    """By lower-case name; several of one name are joined with ``", "`` as HTTP does."""
    body: bytes
    at_s: float
    """Monotonic seconds of arrival."""
    connection: int
    """Number of the TCP connection since the start, from 1."""
    problem: str | None
    """Why a receiver must refuse it, ``None`` when it is sound."""

    def json(self) -> Any:
        """The body, parsed by a strict parser: NaN and infinities are refused (K48)."""
        return json.loads(self.body, parse_constant=_refuse_constant)


class RecordingReceiver:
    """Plays the chat app's events endpoint over a real socket.

    Requests are checked as a receiver must (signature, freshness, server header, body) and answered 202, or
    401 or 400 when they are not sound, unless a scripted :class:`Reply` says otherwise. A context manager,
    sync or async; it runs in threads of its own, so that a busy event loop does not slow it.

    ::

        async with RecordingReceiver() as receiver:
            poster = EventPoster("sleeper", receiver.url, receiver.secret)
            ...
            events = await receiver.wait_for_events(3)

    Args:
        secret: verifies signatures.
        servers: names that may send; any by default.
        max_skew_s: allowed age of a request in seconds.
        wall_clock: what "now" is when freshness is checked; the system's time by default.
    """

    def __init__(
        self,
        secret: str = DEFAULT_SECRET,
        *,
        servers: Iterable[str] | None = None,
        max_skew_s: int = 300,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.secret = secret
        self._servers = None if servers is None else set(servers)
        self._max_skew_s = max_skew_s
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        self._events: list[TaskEvent] = []
        self._seen: set[str] = set()
        self._script: deque[Reply] = deque()
        self._default: Reply | None = None
        self._server: _Server | None = None
        self._port = 0
        self._before = 0
        """Connections until the last stop."""
        self._stopping = threading.Event()

    # -- life -----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen; after :meth:`stop` on the same port again."""
        if self._server is not None:
            raise RuntimeError("already listening")
        self._stopping.clear()
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.port
        self._server.start()
        return self

    def stop(self) -> None:
        """Stop listening and cut every connection, as a killed process would. Harmless when stopped."""
        server, self._server = self._server, None
        if server is None:
            return
        server.stop_accepting()
        self._before += server.connections
        server.cut_connections()
        self._stopping.set()  # after the cut, or a reply that was waiting would still go out
        server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what happens to requests ---------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return self._port

    @property
    def url(self) -> str:
        """Where to POST."""
        return f"http://127.0.0.1:{self._port}/api/agent/events"

    def script(self, *replies: Reply | int) -> None:
        """Answer the next requests so, one reply each (a number is a status); afterwards as usual again."""
        with self._lock:
            self._script.extend(Reply(reply) if isinstance(reply, int) else reply for reply in replies)

    def answer_always(self, reply: Reply | int | None) -> None:
        """Answer everything so, until told otherwise; ``None`` goes back to judging requests."""
        with self._lock:
            self._default = Reply(reply) if isinstance(reply, int) else reply

    # -- what came ------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request, in order of arrival, retries and refused ones included."""
        with self._lock:
            return list(self._requests)

    @property
    def events(self) -> list[TaskEvent]:
        """Sound events that were acknowledged or whose answer was dropped, each ``event_id`` once (K123)."""
        with self._lock:
            return list(self._events)

    @property
    def problems(self) -> list[str]:
        """Why requests were not sound; empty when all were."""
        return [request.problem for request in self.requests if request.problem is not None]

    @property
    def connections(self) -> int:
        """How many TCP connections came in."""
        return self._before + (0 if self._server is None else self._server.connections)

    def events_of(self, task_id: str) -> list[TaskEvent]:
        """The events of one task in order of arrival."""
        return [event for event in self.events if event.task_id == task_id]

    def gaps(self, task_id: str) -> list[int]:
        """Sequence numbers that are missing below the highest one seen (K171)."""
        seen = {event.seq for event in self.events_of(task_id)}
        return [seq for seq in range(1, max(seen, default=0)) if seq not in seen]

    async def wait_for_events(self, count: int, *, timeout_s: float = 30.0) -> list[TaskEvent]:
        """Wait until at least ``count`` different events came, and return all."""

        def enough() -> list[TaskEvent]:
            events = self.events
            assert len(events) >= count, f"{len(events)} of {count} events; problems: {self.problems}"  # noqa: S101
            return events

        if count <= 0:
            return self.events
        return await assert_eventually(enough, timeout_s=timeout_s)

    async def wait_for_requests(self, count: int, *, timeout_s: float = 30.0) -> list[ReceivedRequest]:
        """Wait until at least ``count`` requests came, and return all."""
        await assert_eventually(lambda: len(self.requests) >= count, timeout_s=timeout_s)
        return self.requests

    # -- in the server's threads ----------------------------------------------------------------------------

    def _handle(self, request: ReceivedRequest, event: TaskEvent | None) -> Reply:
        with self._lock:
            self._requests.append(request)
            reply = self._script.popleft() if self._script else self._default
            if reply is None:
                reply = Reply(202) if request.problem is None else Reply(_refusal(request.problem))
            applied = reply.drop or 200 <= reply.status < 300
            if applied and event is not None and event.event_id not in self._seen:
                self._seen.add(event.event_id)
                self._events.append(event)
        if reply.delay_s:
            self._stopping.wait(reply.delay_s)
        return reply

    def _judge(self, headers: dict[str, str], body: bytes) -> tuple[str | None, TaskEvent | None]:
        """Why the request must be refused (K170), or the event that it brings."""
        verdict = self._verifier().judge(headers, body)
        if verdict.event is None:
            return verdict.reason, None
        if self._servers is not None and verdict.event.server not in self._servers:
            return f"server {verdict.event.server!r} is unknown", None
        return None, verdict.event

    def _verifier(self) -> EventVerifier:
        """Anew for each request: tests change :attr:`secret`."""
        return EventVerifier(self.secret, max_skew_s=self._max_skew_s, wall_clock=self._wall_clock)


def _refusal(problem: str) -> int:
    return 400 if problem.startswith("signed, but") else 401


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


class _Server(Listener):
    def __init__(self, address: tuple[str, int], receiver: RecordingReceiver) -> None:
        self.receiver = receiver
        super().__init__(address, _Handler, name="recording receiver")


class _Handler(Posts):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), _MAX_BODY_BYTES))
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        receiver, number = self.server.receiver, self.server.number_of(self.request)
        problem, event = receiver._judge(headers, body)
        request = ReceivedRequest(self.path, headers, body, time.monotonic(), number, problem)
        reply = receiver._handle(request, event)
        if reply.drop:
            self.close_connection = True
            return
        self.reply(reply.status, reply.body, reply.headers)

    def do_GET(self) -> None:
        """What a followed redirect would turn a POST into; must never count as delivered."""
        self.reply(200)
