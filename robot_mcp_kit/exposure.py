"""Who can reach a listening socket: this machine only, unless a token guards it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from pydantic import SecretStr

from robot_mcp_kit.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Whether ``host`` names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, token: SecretStr | None, variable: str) -> None:
    """Refuse to listen beyond this machine without a token.

    Args:
        host: where it would listen.
        token: asked of every client.
        variable: of the environment, that the token comes from.

    Raises:
        ConfigError: ``host`` is not loopback and there is no token.
    """
    if not is_loopback(host) and token is None:
        raise ConfigError(
            f"host: '{host}' can be reached from other machines, and everybody there could drive the robot. "
            f"Set {variable} to a long random value, or listen on 127.0.0.1."
        )


def host_names(host: str, port: int, allowed_hosts: Sequence[str] = ()) -> frozenset[str]:
    """Host headers that mean this endpoint."""
    return frozenset(
        {f"{host}:{port}", f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", *allowed_hosts}
    )
