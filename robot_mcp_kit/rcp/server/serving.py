"""Listening: who gets a connection, and for how long the server runs."""

from __future__ import annotations

import contextlib
import hmac
import http
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.exposure import check_exposure, host_names
from robot_mcp_kit.rcp.guarded import GuardedRobot
from robot_mcp_kit.rcp.server.connection import Connection
from robot_mcp_kit.rcp.server.settings import DEFAULT_PORT as DEFAULT_PORT
from robot_mcp_kit.rcp.server.settings import TOKEN_VARIABLE, RCPServerSettings

logger = logging.getLogger(__name__)

_PING_S = 20.0
_library = logging.getLogger(f"{__name__}.websockets")
# At debug level the library writes down the headers, and with them whatever opens the robot.
_library.setLevel(logging.INFO)


class RCPServer:
    """Serves one guarded robot. Nothing listens before :meth:`running`.

    Args:
        robot: connected or not; it is not closed here.
        settings: where, who, how much.
        clock: monotonic.

    Raises:
        ConfigError: it would listen beyond this machine without a token, or client and operator would bring
            the same secret.
    """

    def __init__(
        self, robot: GuardedRobot, settings: RCPServerSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings if settings is not None else RCPServerSettings()
        check_exposure(self._settings.host, self._settings.token, TOKEN_VARIABLE)
        token, key = self._settings.token, self._settings.operator_key
        if token is not None and key is not None and _same(token, key.get_secret_value()):
            raise ConfigError(
                f"{TOKEN_VARIABLE}: must differ from the operator's key, or clients could approve"
            )
        self._robot = robot
        self._clock = clock if clock is not None else SystemClock()
        self._clients: set[Connection] = set()
        self._operators: set[Connection] = set()
        self._server: Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._server is None:
            raise RuntimeError("the server does not run")
        return int(next(iter(self._server.sockets)).getsockname()[1])

    @property
    def url(self) -> str:
        host = self._settings.host
        return f"ws://{f'[{host}]' if ':' in host else host}:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RCPServer]:
        """Listen until the block ends; then every connection is closed.

        Raises:
            ConfigError: the address cannot be used.
        """
        settings = self._settings
        try:
            self._server = await serve(
                self._serve,
                settings.host,
                settings.port,
                process_request=self._admit,
                max_size=settings.max_message_bytes,
                compression=None,
                server_header=None,
                ping_interval=_PING_S,
                ping_timeout=_PING_S,
                close_timeout=2.0,
                logger=_library,
            )
        except OSError as error:
            raise ConfigError(
                f"host, port: cannot listen on {settings.host}:{settings.port} ({error.strerror or error})"
            ) from error
        try:
            logger.info("RCP on %s", self.url)
            yield self
        finally:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Before anything is upgraded."""
        headers, settings = request.headers, self._settings

        def refuse(status: http.HTTPStatus, message: str) -> Response:
            logger.warning("a client was turned away: %s", message)
            return connection.respond(status, message + "\n")

        if request.path.partition("?")[0] != "/":
            return refuse(http.HTTPStatus.NOT_FOUND, "the protocol is served at /")
        if headers.get("Host", "") not in host_names(settings.host, self.port, settings.allowed_hosts):
            return refuse(http.HTTPStatus.MISDIRECTED_REQUEST, "this host name is not answered")
        origin = headers.get("Origin")
        if origin is not None and origin not in settings.allowed_origins:
            return refuse(http.HTTPStatus.FORBIDDEN, "no page of this origin may connect")
        is_operator = self._is_operator(request)
        if not is_operator and not self._may_come(request):
            return refuse(http.HTTPStatus.UNAUTHORIZED, "a token is needed: Authorization: Bearer <token>")
        group = self._operators if is_operator else self._clients
        most = settings.max_operators if is_operator else settings.max_connections
        if len(group) >= most:
            return refuse(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{most} connections are open already")
        return None

    def _may_come(self, request: Request) -> bool:
        """A client brings the token where one is set; whoever brings anything else is not let in without."""
        bearer = _bearer(request)
        if self._settings.token is None:
            return bearer is None
        return bearer is not None and _same(self._settings.token, bearer)

    def _is_operator(self, request: Request) -> bool:
        key, bearer = self._settings.operator_key, _bearer(request)
        return key is not None and bearer is not None and _same(key, bearer)

    async def _serve(self, socket: ServerConnection) -> None:
        request = socket.request
        if request is None:
            return
        is_operator = self._is_operator(request)
        group = self._operators if is_operator else self._clients
        most = self._settings.max_operators if is_operator else self._settings.max_connections
        if len(group) >= most:  # several were admitted at once
            await socket.close(1013, "too many connections")
            return
        connection = Connection(
            self._robot,
            socket,
            self._settings,
            self._clock,
            is_operator=is_operator,
            client=request.headers.get("User-Agent", ""),
            all_operators=self._operators,
        )
        group.add(connection)
        try:
            with contextlib.suppress(ConnectionClosed):
                async for raw in socket:
                    await connection.received(raw)
        finally:
            group.discard(connection)
            await connection.ended()


def _bearer(request: Request) -> str | None:
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _same(secret: SecretStr, given: str) -> bool:
    return hmac.compare_digest(secret.get_secret_value().encode(), given.encode())
