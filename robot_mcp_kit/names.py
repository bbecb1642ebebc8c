"""Server names, which become an HTTP header and the front of task ids, and the rest of those ids."""

from __future__ import annotations

import secrets
from collections.abc import Callable

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


def task_suffixes() -> Callable[[], str]:
    """Makes the six hexadecimal digits of task ids (K12), none twice before all 16,777,216 came once.

    A walk in steps of one odd length meets every number; where it begins and the length are random.
    """
    count = 16**6
    step = secrets.randbelow(count // 2) * 2 + 1
    at = secrets.randbelow(count)

    def draw() -> str:
        nonlocal at
        at = (at + step) % count
        return f"{at:06x}"

    return draw
