"""Where this machine may connect to, decided before any connection: the one way in (A6, A8).

Loopback is allowed. Private ranges, where robots live, only for hosts that the operator has named; metadata
services never. Plain http only where private is allowed, or on loopback.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError
from robot_mcp_kit.client.secrecy import origin_of

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]

_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("fd00:ec2::254", "fe80::a9fe:a9fe"),
    )
)
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata", "instance-data"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Admitted:
    """A place to connect to: a name that was looked up, and what it leads to."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...]
    """All of them judged; the connection goes to one of these."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


class EgressPolicy:
    """Judges URLs.

    Args:
        private_hosts: hosts in private ranges that are allowed, as written in URLs: names or addresses,
            ``robot.local``, ``192.168.1.20``; with a port, ``robot.local:8765``, only that port.
        resolver: looks names up; the system's by default.
    """

    def __init__(self, private_hosts: Collection[str] = (), *, resolver: Resolver | None = None) -> None:
        self._private_hosts = frozenset(host.lower() for host in private_hosts)
        self._resolver = resolver if resolver is not None else system_resolver

    async def admit(self, url: str, *, server: str = "") -> Admitted:
        """Look the host up and judge every address that it has.

        Raises:
            RefusedError: with the reason; nothing was connected to.
        """
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise _refused(server, "bad_url", "is not a URL") from None
        if scheme not in ("http", "https"):
            raise _refused(server, "bad_scheme", f"{origin_of(url)}: only http and https are spoken")
        if not host:
            raise _refused(server, "bad_url", "has no host")
        host = host.rstrip(".")
        port = port or (443 if scheme == "https" else 80)
        if host in _METADATA_NAMES:
            raise _refused(server, "metadata_address", f"{host} is a metadata service")
        addresses = await self._addresses(host, port, server)
        named = host in self._private_hosts or f"{host}:{port}" in self._private_hosts
        all_loopback = True
        for address in addresses:
            self._judge(server, host, address, named)
            all_loopback = all_loopback and address.is_loopback
        if scheme == "http" and not (all_loopback or named):
            raise _refused(
                server,
                "plain_http",
                f"{host}: http without encryption only to this machine or named hosts",
            )
        return Admitted(scheme, host, port, tuple(str(address) for address in addresses))

    async def _addresses(self, host: str, port: int, server: str) -> list[Address]:
        try:
            return [_plain(ipaddress.ip_address(host.partition("%")[0]))]
        except ValueError:
            pass  # a name
        try:
            found = await self._resolver(host, port)
            addresses = [_plain(ipaddress.ip_address(text.partition("%")[0])) for text in found]
        except (OSError, ValueError, UnicodeError):
            addresses = []
        if not addresses:
            # A robot's name may come back with the robot.
            raise _refused(
                server, "name_unknown", f"the name {host} cannot be looked up", FailureClass.TRANSIENT
            )
        return addresses

    def _judge(self, server: str, host: str, address: Address, named: bool) -> None:
        if address in _METADATA:
            raise _refused(server, "metadata_address", f"{host} is a metadata service's address")
        if address.is_loopback:
            # A public name that points here is how a web page reaches what listens on this machine.
            if not (host == "localhost" or host.endswith(".localhost") or _is_address(host) or named):
                raise _refused(server, "private_address", f"{host} is a name for this machine itself")
            return
        if address.is_unspecified or address.is_multicast or (address.is_reserved and not address.is_private):
            raise _refused(server, "private_address", f"{host} is no address of one machine")
        if not address.is_global and not named:
            raise _refused(
                server,
                "private_address",
                f"{host} is in a private range; name it in private_hosts if it is the robot",
            )


def _refused(
    server: str, code: str, message: str, failure_class: FailureClass = FailureClass.CONFIG
) -> RefusedError:
    return RefusedError(Refusal(code, message, server, "url", failure_class))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(address: Address) -> Address:
    """What an IPv6 address that wraps an IPv4 one leads to."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and int(address) >> 32 == 0 and int(address) > 1:
            inner = ipaddress.IPv4Address(int(address))
        if inner is not None:
            return inner
    return address


async def system_resolver(host: str, port: int) -> list[str]:
    """All addresses of a name, in the system's order."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
