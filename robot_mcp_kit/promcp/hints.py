"""Compensation hints: ``do_set_fan speed_percent=3.0``: a tool and its arguments, values as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.jsonsafe import dumps

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_hint(tool: str, arguments: Mapping[str, Any]) -> str:
    """The hint of a call."""
    return " ".join([tool, *(f"{name}={dumps(value)}" for name, value in arguments.items())])


def parse_hint(hint: str) -> tuple[str, dict[str, Any]]:
    """Tool and arguments of a hint.

    Raises:
        ValueError: it is none; says where it stops being one.
    """
    tool, _, rest = hint.strip().partition(" ")
    if not _NAME.fullmatch(tool):
        raise ValueError(f"a hint begins with a tool's name, got {tool!r}")
    arguments: dict[str, Any] = {}
    decoder = json.JSONDecoder()
    rest = rest.strip()
    while rest:
        name, equals, rest = rest.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(f"expected name=value, got {name!r}")
        try:
            arguments[name], end = decoder.raw_decode(rest)
        except ValueError as error:
            raise ValueError(f"{name}: the value is no JSON: {rest[:40]!r}") from error
        if rest[end : end + 1].strip():
            raise ValueError(f"{name}: something follows the value: {rest[end : end + 20]!r}")
        rest = rest[end:].strip()
    return tool, arguments
