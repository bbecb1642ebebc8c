"""Who may talk to the endpoint: loopback by default, a bearer token everywhere else (B41)."""

from __future__ import annotations

import hmac
import ipaddress

from mcp.server.auth.provider import AccessToken, TokenVerifier
from pydantic import SecretStr

from robot_mcp_kit.errors import ConfigError

TOKEN_VARIABLE = "ROBOT_MCP_TOKEN"  # noqa: S105 - the variable's name
SCOPE = "robot:operate"


def is_loopback(host: str) -> bool:
    """Whether ``host`` names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, token: SecretStr | None) -> None:
    """Refuse to listen beyond this machine without a token.

    Raises:
        ConfigError: ``host`` is not loopback and there is no token.
    """
    if not is_loopback(host) and token is None:
        raise ConfigError(
            f"host: '{host}' can be reached from other machines, and everybody there could drive the robot. "
            f"Set {TOKEN_VARIABLE} to a long random value, or listen on 127.0.0.1."
        )


class BearerToken(TokenVerifier):
    """One shared token, compared in constant time."""

    def __init__(self, token: SecretStr) -> None:
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        if hmac.compare_digest(token.encode(), self._token.get_secret_value().encode()):
            return AccessToken(token=token, client_id="operator", scopes=[SCOPE], subject="operator")
        return None
