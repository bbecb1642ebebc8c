"""A robot whose motions wait for a person, behind real HTTP: the operator's side is real from end to end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import MemoryLedger
from robot_mcp_kit.safety.assemble import AUDIT_FOLDER, build_guard, plain_parts
from robot_mcp_kit.safety.audit_verify import records
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.state_dir import announce
from robot_mcp_kit.server.app import build_app, build_mcp_server
from robot_mcp_kit.server.listening import bind
from robot_mcp_kit.server.operator import OperatorAccess, OperatorApi, host_names
from robot_mcp_kit.server.serve import serving
from robot_mcp_kit.signing import SIGNATURE_PREFIX, sign
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock, assert_eventually, held
from robot_mcp_kit.testing.scripted import ScriptedPort, ScriptedPorts

from .rig import CONFIG

ROOT = Path(__file__).parents[2]
KEY = "the-operators-own-long-key"
SECRET = "shared-with-the-chat-app"


@dataclass(frozen=True, slots=True)
class Said:
    """What a command has said."""

    code: int
    out: str
    err: str


@dataclass
class OperatorRig:
    """Everything of one test."""

    url: str
    guard: Guard
    manager: TaskManager
    port: ScriptedPort
    clock: FakeClock
    state_dir: Path
    http: httpx.AsyncClient

    async def ask(self, client: Client, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """A motion that waits for a person: its task and what the operator sees of it."""
        answer = await client.call_tool("navigate_to", arguments or {"place": "kitchen"})
        task_id = answer.structured_content["task_id"]
        await assert_eventually(lambda: any(one.task_id == task_id for one in self.guard.desk.pending()))
        (shown,) = [one for one in await self.waiting() if one["task_id"] == task_id]
        return task_id, shown

    async def waiting(self) -> list[dict[str, Any]]:
        answer = await self.api("GET", "/api/approvals")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        return list(answer.json()["approvals"])

    async def api(
        self, method: str, path: str, content: Any = None, *, key: str | None = KEY, **headers: str
    ) -> httpx.Response:
        """A call with the operator's key, or another."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            given["authorization"] = f"Bearer {key}"
        body = (
            content
            if isinstance(content, bytes)
            else b""
            if content is None
            else json.dumps(content).encode()
        )
        return await self.http.request(method, path, content=body, headers=given)

    async def decide(self, token: str, action: str = "approve", **more: Any) -> httpx.Response:
        content = {"action": action, "token": token, "approver": "ann", **more}
        return await self.api("POST", "/api/approvals", content)

    async def signed(
        self, content: dict[str, Any], *, secret: str = SECRET, at_s: float | None = None
    ) -> Any:
        """A call as the chat app makes it."""
        body, stamp = json.dumps(content).encode(), int(time.time() if at_s is None else at_s)
        signature = SIGNATURE_PREFIX + sign(secret, stamp, body)
        headers = {"x-rvc-timestamp": str(stamp), "x-rvc-signature": signature}
        return await self.http.post("/api/approvals", content=body, headers=headers)

    async def cli(self, *words: str, **environment: str) -> Said:
        """``robot-mcp-kit``, a process of its own."""
        own = {"ROBOT_MCP_STATE_DIR": str(self.state_dir), "ROBOT_MCP_OPERATOR_KEY": KEY}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "robot_mcp_kit", *words),
            env={**os.environ, **own, **environment},
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())

    def trail(self) -> list[dict[str, Any]]:
        return list(records(self.state_dir / AUDIT_FOLDER))

    def error_of(self, answer: httpx.Response) -> tuple[int, str]:
        return answer.status_code, answer.json()["error"]["code"]


@asynccontextmanager
async def operated(folder: Path, *, secret: str | None = SECRET) -> AsyncIterator[OperatorRig]:
    """The robot, until the block ends; its state directory is in ``folder``."""
    clock, port = FakeClock(1000.0), ScriptedPort()
    config = parse_config(CONFIG)
    skills = build_skills(config)
    guard = build_guard(config, skills, plain_parts(folder, clock=clock, key=KEY))
    manager = TaskManager("robot", CollectingPoster())
    bridge = Bridge(
        manager, ScriptedPorts(port), config, guard=guard, skills=skills, ledger=MemoryLedger(), clock=clock
    )
    server = build_mcp_server(bridge, manager, name="robot", config=config)
    listener = bind("127.0.0.1", 0)
    number = int(listener.getsockname()[1])
    approval_secret = None if secret is None else SecretStr(secret)
    access = OperatorAccess(SecretStr(KEY), approval_secret, host_names("127.0.0.1", number))
    app = build_app(server, host="127.0.0.1", port=number, operator=OperatorApi(guard, access))
    url = f"http://127.0.0.1:{number}"
    try:
        async with serving(app, listener), httpx.AsyncClient(base_url=url, trust_env=False) as http:
            announce(folder, url)
            yield OperatorRig(url, guard, manager, port, clock, folder, http)
            await manager.aclose()
    finally:
        await manager.aclose()
        await bridge.aclose()
        await guard.aclose()


@asynccontextmanager
async def client_of(rig: OperatorRig, mode: str = "auto") -> AsyncIterator[Client]:
    """A client with connections of its own."""
    async with httpx2.AsyncClient(trust_env=False) as http:
        transport = streamable_http_client(f"{rig.url}/mcp", http_client=http)
        async with held(Client(transport, mode=mode)) as client:
            yield client
