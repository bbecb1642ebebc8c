"""A small HTTP server on the standard library: what the terminal's receiver and the tests' receiver share."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

logger = logging.getLogger(__name__)


class Listener(ThreadingHTTPServer):
    """A thread for each connection, all of which can be cut.

    Args:
        address: host and port; port 0 takes a free one.
        handler: a class of :class:`Posts`.
        name: of the thread that accepts.

    Raises:
        OSError: the address is in use or not ours.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[Posts], *, name: str) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._open: dict[Any, int] = {}
        self._open_lock = threading.Lock()
        self._answering = 0
        self._answered = threading.Condition()
        self.connections = 0
        """How many have come in."""
        super().__init__(address, handler)
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name=name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop_accepting(self) -> None:
        """Harmless before the start and when repeated."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join(timeout=10.0)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """A request whose answer :meth:`finish_answers` waits for."""
        with self._answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._answered:
                self._answering -= 1
                self._answered.notify_all()

    def finish_answers(self, timeout_s: float = 2.0) -> None:
        """Let what was judged be told, or the sender would not know; bounded."""
        with self._answered:
            self._answered.wait_for(lambda: self._answering == 0, timeout_s)

    def cut_connections(self) -> None:
        """End every connection that is open, as a killed process would."""
        with self._open_lock:
            still_open = list(self._open)
        for connection in still_open:
            with contextlib.suppress(OSError):  # the peer was faster
                connection.shutdown(socket.SHUT_RDWR)

    def number_of(self, connection: Any) -> int:
        """Which connection this is, from 1."""
        with self._open_lock:
            return self._open[connection]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self.connections += 1
            self._open[request] = self.connections
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that hangs up is part of the game."""
        logger.debug("connection from %s ended with an error", client_address, exc_info=True)


class Posts(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body in one segment, sent at once: otherwise each answer waits 40 ms for the client's
    # delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            self.close_connection = True  # cut while answering

    def reply(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer the request."""
        given = {"Date": formatdate(usegmt=True), "Content-Length": str(len(body)), **(headers or {})}
        self.send_response_only(status)
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)
