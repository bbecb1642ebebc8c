"""Who may talk to the endpoint: loopback by default, a bearer token everywhere else (B41)."""

from __future__ import annotations

import hmac
from typing import Any

from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from pydantic import AnyHttpUrl, SecretStr

SCOPE, OBSERVE = "robot:operate", "robot:observe"
"""What a token allows: to move the robot, or only to look (and to stop). Who may move may look."""


class BearerToken(TokenVerifier):
    """Shared tokens, compared in constant time.

    Args:
        token: of clients that may move the robot.
        observer: of clients that may only look; ``None``: there are none.
    """

    def __init__(self, token: SecretStr, observer: SecretStr | None = None) -> None:
        self._roles = [("operator", token, [SCOPE, OBSERVE])]
        if observer is not None:
            self._roles.append(("observer", observer, [OBSERVE]))

    async def verify_token(self, token: str) -> AccessToken | None:
        for role, secret, scopes in self._roles:
            if hmac.compare_digest(token.encode(), secret.get_secret_value().encode()):
                return AccessToken(token=token, client_id=role, scopes=scopes, subject=role)
        return None


def auth_settings(url: str, scope: str) -> AuthSettings:
    """What an endpoint at ``url`` demands of a token."""
    return AuthSettings(
        issuer_url=AnyHttpUrl(url),
        resource_server_url=AnyHttpUrl(url),
        required_scopes=[scope],
        validate_token_resource=False,
    )


def may_operate(context: Context[Any, Any]) -> bool:
    """Whether the caller's token lets it move the robot; where no token is demanded, everybody may."""
    request = context.request_context.request
    credentials = None if request is None else request.scope.get("auth")
    return credentials is None or SCOPE in credentials.scopes
