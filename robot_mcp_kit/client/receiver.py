"""A small verifying HTTP receiver for task events, on the standard library alone.

For terminals, demos and tests of whole systems. A chat app mounts :class:`~robot_mcp_kit.client.inbox.Inbox`
in its own web framework instead.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from types import TracebackType

from robot_mcp_kit.client.inbox import Inbox, Receipt
from robot_mcp_kit.client.listening import Listener, Posts

logger = logging.getLogger(__name__)

EVENTS_PATH = "/api/agent/events"
MAX_BODY_BYTES = 4 * 1024 * 1024
IDLE_TIMEOUT_S = 75.0


class EventReceiver:
    """Serves ``POST /api/agent/events`` in background threads and hands every judged request to a callback.

    Args:
        inbox: verifies and dedupes.
        on_receipt: called for every request, refused and duplicate ones too, one at a time, from a server
        thread.
            When it raises, the sender is answered 500 and the event is accepted again when repeated.
        host: address to bind; default loopback.
        port: TCP port; 0 takes a free one, see :attr:`port`.

    Raises:
        OSError: the address is in use or not ours.
    """

    def __init__(
        self,
        inbox: Inbox,
        on_receipt: Callable[[Receipt], object],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._inbox = inbox
        self._on_receipt = on_receipt
        self._lock = threading.Lock()
        self._server = _Server((host, port), self._judge)
        self.host: str = host
        self.port: int = self._server.port

    @property
    def url(self) -> str:
        """What to put into ``RVC_CALLBACK_URL``."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104
        return f"http://{host}:{self.port}{EVENTS_PATH}"

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        """Stop listening, answer what has come, close every connection. Harmless when called twice."""
        self._server.stop_accepting()
        self._server.finish_answers()
        self._server.cut_connections()
        self._server.server_close()

    def __enter__(self) -> EventReceiver:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _judge(self, headers: list[tuple[str, str]], body: bytes) -> Receipt:
        with self._lock:
            try:
                # One transaction: when the callback fails, the event has not come.
                with self._inbox.book.transaction():
                    receipt = self._inbox.receive(headers, body)
                    self._on_receipt(receipt)
            except Exception:
                logger.exception("the event's callback failed; the sender is asked to repeat it")
                return Receipt(500, reason="the receiver failed to apply the event")
            return receipt


class _Server(Listener):
    def __init__(
        self, address: tuple[str, int], judge: Callable[[list[tuple[str, str]], bytes], Receipt]
    ) -> None:
        self.judge = judge
        super().__init__(address, _Handler, name="event receiver")


class _Handler(Posts):
    timeout = IDLE_TIMEOUT_S
    server: _Server

    def do_POST(self) -> None:
        if self.path.split("?", 1)[0] != EVENTS_PATH:
            self._answer(404, {"error": f"events are posted to {EVENTS_PATH}"}, close=True)
            return
        length_text = self.headers.get("Content-Length", "")
        if not (length_text.isascii() and length_text.isdigit()):
            self._answer(411, {"error": "Content-Length is required"}, close=True)
            return
        length = int(length_text)
        if length > MAX_BODY_BYTES:
            self._answer(413, {"error": f"at most {MAX_BODY_BYTES} bytes"}, close=True)
            return
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        with self.server.answering():
            receipt = self.server.judge(self.headers.items(), body)
            if receipt.status == 200:
                self._answer(200, {"ok": True, "duplicate": receipt.duplicate})
            else:
                self._answer(receipt.status, {"error": receipt.reason})
            self.wfile.flush()

    def do_GET(self) -> None:
        self._answer(405, {"error": f"POST signed events to {EVENTS_PATH}"}, close=True)

    def _answer(self, status: int, content: dict[str, object], *, close: bool = False) -> None:
        headers = {"Content-Type": "application/json"}
        if close:
            headers["Connection"] = "close"
            self.close_connection = True
        self.reply(status, json.dumps(content).encode(), headers)
