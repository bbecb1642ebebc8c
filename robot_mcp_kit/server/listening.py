"""Where the endpoint listens, and the secrets that open it; imports neither MCP nor an HTTP server."""

from __future__ import annotations

import socket

from pydantic import SecretStr

from robot_mcp_kit import exposure
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.exposure import is_loopback as is_loopback

TOKEN_VARIABLE = "ROBOT_MCP_TOKEN"  # noqa: S105 - the variable's name
OBSERVER_TOKEN_VARIABLE = "ROBOT_MCP_OBSERVER_TOKEN"  # noqa: S105 - the variable's name
APPROVAL_SECRET_VARIABLE = "ROBOT_MCP_APPROVAL_SECRET"  # noqa: S105 - the variable's name


def check_exposure(host: str, token: SecretStr | None) -> None:
    """Refuse to listen beyond this machine without a token.

    Raises:
        ConfigError: ``host`` is not loopback and there is no token.
    """
    exposure.check_exposure(host, token, TOKEN_VARIABLE)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        ConfigError: the address cannot be used; says why.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it every answer waits 40
        # ms for a delayed acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"host, port: cannot listen on {host}:{port} ({error.strerror}); is another bridge running? "
            "Choose another port, or 0 for any free one."
        ) from error
    return listener
