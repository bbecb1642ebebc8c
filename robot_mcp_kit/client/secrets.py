"""Which secret belongs to which server; several at once while one is being replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from robot_mcp_kit.errors import ConfigError

Secret = str | SecretStr
SecretsLike = Secret | Mapping[str, "Secret | Sequence[Secret]"]


class ServerSecrets:
    """The event secrets by server name. Never shows one.

    While a secret is replaced, a server has two: add the new one here, change it at the server, then retire
    the old one. Events signed with either are accepted meanwhile.

    Args:
        secrets: one secret for every server, or for each server's name one secret or a list of them.

    Raises:
        ConfigError: no secret at all, or an empty one, which would accept anybody. (A ValueError.)
    """

    def __init__(self, secrets: SecretsLike) -> None:
        self._for_all: tuple[str, ...] = ()
        self._by_server: dict[str, tuple[str, ...]] = {}
        if isinstance(secrets, (str, SecretStr)):
            self._for_all = (_checked(secrets, "secrets"),)
            return
        for server, given in secrets.items():
            several = [given] if isinstance(given, (str, SecretStr)) else list(given)
            if not several:
                raise ConfigError(f"secrets: the server {server!r} has none; leave it out or give it one")
            self._by_server[server] = tuple(_checked(one, f"secrets[{server!r}]") for one in several)
        if not self._by_server:
            raise ConfigError("secrets: none given; nobody's events could be accepted")

    def __repr__(self) -> str:
        if self._for_all:
            return "ServerSecrets(one for all)"
        counts = ", ".join(f"{server}: {len(several)}" for server, several in self._by_server.items())
        return f"ServerSecrets({counts})"

    def of(self, server: str) -> tuple[str, ...]:
        """The secrets that this server may sign with, newest last; empty for an unknown server."""
        return self._for_all or self._by_server.get(server, ())

    def add(self, server: str, secret: Secret) -> None:
        """From now on this secret is accepted too. Harmless when repeated.

        Raises:
            ConfigError: it is empty, or one secret serves all servers.
        """
        new = _checked(secret, f"secrets[{server!r}]")
        if self._for_all:
            raise ConfigError("secrets: one secret serves all servers; give each its own to replace them")
        if new not in self._by_server.get(server, ()):
            self._by_server[server] = (*self._by_server.get(server, ()), new)

    def retire(self, server: str, secret: Secret) -> None:
        """This secret is accepted no more. Harmless when repeated.

        Raises:
            ConfigError: it is the server's last one.
        """
        old = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
        left = tuple(one for one in self._by_server.get(server, ()) if one != old)
        if not left:
            raise ConfigError(f"secrets: the server {server!r} would be left without one; add the new first")
        self._by_server[server] = left


def _checked(secret: Secret, where: str) -> str:
    value = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: a secret must not be empty; it would accept anybody's events")
    return value
