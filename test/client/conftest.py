"""What the tests of the chat app's half share: signed requests, scripted capability servers, real local
servers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from robot_mcp_kit.signing import sign

SECRET = "s3cret"
NOW = 1_800_000_000


class Signer:
    """Signs events as a capability server does."""

    def __init__(self, secret: str = SECRET, server: str = "navigation") -> None:
        self.secret = secret
        self.server = server

    def event(self, seq: int = 1, *, task_id: str = "navi-7f3a2b", **changes: Any) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "event_id": f"{task_id}/{seq}",
            "task_id": task_id,
            "server": self.server,
            "tool": "navigate_to",
            "type": "progress",
            "seq": seq,
            "ts": f"2026-06-12T14:{seq // 60 % 60:02d}:{seq % 60:02d}.123Z",
            "payload": {"eta_s": 100 - seq},
        } | changes

    def headers(self, body: bytes, at: float = NOW) -> dict[str, str]:
        return {
            "X-RVC-Server": self.server,
            "X-RVC-Timestamp": str(int(at)),
            "X-RVC-Signature": "sha256=" + sign(self.secret, int(at), body),
        }

    def request(self, seq: int = 1, *, at: float = NOW, **changes: Any) -> tuple[dict[str, str], bytes]:
        body = json.dumps(self.event(seq, **changes)).encode()
        return self.headers(body, at), body


@pytest.fixture
def signer() -> Signer:
    return Signer()
