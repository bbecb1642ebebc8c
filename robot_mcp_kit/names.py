"""Server names: they become an HTTP header and the front of task ids."""

from __future__ import annotations

from robot_mcp_kit.errors import ConfigError


def check_server_name(name: str) -> str:
    """Return ``name`` if it can be an HTTP header value as it is (K15).

    Raises:
        ConfigError: empty, not printable ASCII, or with space at an end (which HTTP would strip). (A
        ValueError.)
    """
    if not isinstance(name, str) or not name:
        raise ConfigError("server_name: must not be empty")
    if not name.isascii() or not name.isprintable() or name != name.strip():
        raise ConfigError(f"server_name: {name!r} must be printable ASCII without space at the ends")
    return name
