"""One text that changes whenever what runs, or where it connects, changes, and never when a credential does.

Secrets are not hashed: in their place stands where they come from. Everything else is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from robot_mcp_kit.client.materializing import Materialized
from robot_mcp_kit.client.secrecy import is_credential_name
from robot_mcp_kit.client.templates import Expanded, variables


def fingerprint_input(server: Materialized) -> str:
    """What is hashed: canonical JSON without secrets. For tests and for comparing two by eye."""
    definition = server.definition
    content: dict[str, Any] = {
        "name": definition.name,
        "transport": definition.transport,
        "url": _text(server.url),
        # Header names have no case.
        "headers": {
            key.lower(): _keyed(key, value, definition.headers[key]) for key, value in server.headers.items()
        },
        "command": _text(server.command),
        "args": [_text(value) for value in server.args],
        "env": {key: _keyed(key, value, definition.env[key]) for key, value in server.env.items()},
        "cwd": None if server.cwd is None else _text(server.cwd),
        "timeouts": asdict(definition.timeouts),
        "auth": definition.auth,
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def fingerprint(server: Materialized) -> str:
    """``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(fingerprint_input(server).encode()).hexdigest()


def _text(value: Expanded) -> list[Any]:
    """In pieces, so that a secret's marker cannot be imitated by a literal."""
    return [piece if isinstance(piece, str) else {"secret_of": piece.variable} for piece in value.pieces()]


def _keyed(key: str, value: Expanded, template: str) -> Any:
    if is_credential_name(key):
        return {"secret_under": key.lower(), "variables": variables(template)}
    return _text(value)
