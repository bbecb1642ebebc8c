"""A strict robot to attack: simulated robot, bridge, and a probe that counts what really moved."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from robot_mcp_kit.cli import main
from robot_mcp_kit.signing import SIGNATURE_PREFIX, sign
from robot_mcp_kit.sim.domain import isolated_environment

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TEMPLATE = (ROOT / "config" / "skills.yaml").read_text()
BOUND_S = 40.0
OPERATOR_KEY = "the-operators-own-long-key"
APPROVAL_SECRET = "shared-with-the-chat-app"
STRICT = """
# A person for every motion.
safety:
  approval: required
  approval_timeout_s: 12.0
  max_pending: 5
  geofence:
    floors:
      flat:
        keep_in: {walls: [[0.0, 0.0], [12.0, 0.0], [12.0, 8.0], [0.0, 8.0]]}
        keep_out: {stairs: [[5.0, 3.0], [7.0, 3.0], [7.0, 3.4], [5.0, 3.4]]}
  interlocks:
    estop:
      {topic: estop, type: std_msgs/msg/Bool, field: data, ok: false, max_age_s: 3.0, estop: true}
    door:
      {topic: door, type: std_msgs/msg/Bool, field: data, ok: false, max_age_s: 3.0, hold: true}
  skills:
    spin: {rate: {count: 60, per_s: 60.0}}
    back_up: {rate: {count: 30, per_s: 60.0, distance_m: 0.5}}
"""


def skills_file(folder: Path, safety: str, name: str = "skills.yaml") -> Path:
    """The demo robot with another ``safety`` section."""
    path = folder / name
    path.write_text(TEMPLATE.split("\n# What stands between")[0] + "\n" + safety)
    return path


class Probe:
    """What really happened, counted at the robot."""

    def __init__(self, domain: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "robot_probe.py")],
            env=isolated_environment(domain),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._ready = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        with self._news:
            assert self._news.wait_for(lambda: self._ready, BOUND_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            with self._news:
                self._ready = self._ready or "ready" in said
                if "answer" in said:
                    self._answers[said["answer"]] = said["truth"]
                self._news.notify_all()

    def _order(self, **content: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(content) + "\n")
        self.process.stdin.flush()

    def set(self, **values: bool | str | None) -> None:
        """What the robot's sensors say from now on; ``None``: nothing any more."""
        self._order(set=values)

    def lifecycle(self, transition: str) -> None:
        """Take the managed node ``probe_planner`` through a transition."""
        self._order(lifecycle=transition)

    def describe(self, urdf: str) -> None:
        """Publish a robot description."""
        self._order(describe=urdf)

    def truth(self) -> dict[str, Any]:
        """The world as the simulator knows it."""
        number = next(self._numbers)
        self._order(ask=number)
        with self._news:
            assert self._news.wait_for(lambda: number in self._answers, BOUND_S)
            return dict(self._answers.pop(number))

    def actuations(self) -> int:
        """Goals that any action server of the robot has accepted."""
        return sum(count for name, count in self.truth()["goals"].items() if name.endswith(":accepted"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._thread.join(5)


class Bridge:
    """``robot-mcp-kit run`` in a process of its own, on a state directory that stays."""

    def __init__(
        self,
        domain: int,
        folder: Path,
        skills: Path,
        *,
        options: tuple[str, ...] = (),
        file_limit: int | None = None,
        command: tuple[str, ...] = ("-m", "robot_mcp_kit"),
        ready: bool = True,
    ) -> None:
        self.state_dir = folder / "state"
        self.log = folder / "bridge.log"
        environment = {
            **isolated_environment(domain),
            "ROBOT_MCP_STATE_DIR": str(self.state_dir),
            "ROBOT_MCP_OPERATOR_KEY": OPERATOR_KEY,
            "ROBOT_MCP_APPROVAL_SECRET": APPROVAL_SECRET,
        }
        self._stderr = self.log.open("a")

        def limit() -> None:
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        self.process = subprocess.Popen(
            [sys.executable, *command, "run", "--skills", str(skills), "--port", "0", *options],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if file_limit is not None else self._stderr,
            text=True,
            preexec_fn=limit if file_limit is not None else None,
        )
        self._copier = threading.Thread(target=self._copy, daemon=True)
        if file_limit is not None:
            self._copier.start()
        self.url = ""
        if ready:
            assert self.process.stdout is not None
            # Before it Jazzy's middleware may say that the limit leaves it no shared memory.
            line = next((said for said in self.process.stdout if said.startswith("bridge ready ")), "")
            assert line, self.log.read_text()
            self.url = line.split()[-1].removesuffix("/mcp")

    def _copy(self) -> None:
        """A limit on files holds for the log too, so somebody else writes it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._stderr.write(line)
            self._stderr.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._copier.is_alive():
            self._copier.join(5)
        for pipe in (self.process.stdout, self.process.stderr, self._stderr):
            if pipe is not None:
                pipe.close()


class Session:
    """An MCP client that can misbehave: sends what it likes, keeps or ends its session by hand."""

    def __init__(self, http: httpx.AsyncClient, session_id: str) -> None:
        self.http, self.session_id = http, session_id
        self._numbers = itertools.count(2)

    @classmethod
    async def open(cls, url: str) -> Session:
        http = httpx.AsyncClient(base_url=url, timeout=BOUND_S, trust_env=False)
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "attacker", "version": "1"},
            },
        }
        answer = await http.post("/mcp", json=hello, headers=cls._accept())
        session = cls(http, answer.headers["mcp-session-id"])
        await session._post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return session

    @staticmethod
    def _accept() -> dict[str, str]:
        return {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    async def _post(self, text: str) -> httpx.Response:
        headers = {**self._accept(), "mcp-session-id": self.session_id}
        return await self.http.post("/mcp", content=text.encode("utf-8", "surrogatepass"), headers=headers)

    async def raw(self, tool: str, arguments: str) -> dict[str, Any]:
        """Call a tool with arguments as JSON text that need not be JSON."""
        name = json.dumps(tool)
        text = (
            f'{{"jsonrpc":"2.0","id":{next(self._numbers)},"method":"tools/call",'
            f'"params":{{"name":{name},"arguments":{arguments}}}}}'
        )
        answer = await self._post(text)
        for line in answer.text.splitlines():
            if line.startswith("data:"):
                return dict(json.loads(line[5:]))
        try:
            return dict(answer.json())
        except ValueError:
            return {"error": {"message": answer.text[:200]}}

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.raw(tool, json.dumps(arguments))

    async def task(self, task_id: str) -> dict[str, Any]:
        answer = await self.call("get_task", task_id=task_id)
        return dict(json.loads(answer["result"]["content"][0]["text"]))

    async def end(self) -> int:
        answer = await self.http.delete("/mcp", headers={"mcp-session-id": self.session_id})
        return answer.status_code

    async def close(self) -> None:
        await self.http.aclose()


def code_of(answer: dict[str, Any]) -> str:
    """What a tool call was answered, in one word."""
    if "error" in answer:
        return f"protocol error {answer['error'].get('code', '')}".strip()
    result = answer["result"]
    content = result.get("structuredContent") or {}
    if result.get("isError"):
        return str(content.get("error", {}).get("error_code", result["content"][0]["text"][:40]))
    return "task" if "task_id" in content else "answered"


@dataclass
class Rig:
    """Everything an attack has in its hands."""

    bridge: Bridge
    probe: Probe
    session: Session
    approved: int = 0
    """Actuations that a person (the test as operator) has agreed to."""
    sessions: list[Session] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """Of all that waited."""

    async def another(self) -> Session:
        session = await Session.open(self.bridge.url)
        self.sessions.append(session)
        return session

    # -- the operator ---------------------------------------------------------------------------------------

    async def api(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        key: str | None = OPERATOR_KEY,
        **headers: str,
    ) -> httpx.Response:
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
        return await self.session.http.request(method, path, content=body, headers=given)

    async def signed(
        self,
        content: dict[str, Any],
        *,
        secret: str = APPROVAL_SECRET,
        at_s: float | None = None,
        **more: Any,
    ) -> httpx.Response:
        """A call as the chat app makes it."""
        body = more.get("sent", json.dumps(content).encode())
        stamp = int(time.time() if at_s is None else at_s)
        signature = SIGNATURE_PREFIX + sign(secret, stamp, json.dumps(content).encode())
        headers = {"x-rvc-timestamp": str(stamp), "x-rvc-signature": signature}
        return await self.session.http.post("/api/approvals", content=body, headers=headers)

    async def waiting(self) -> list[dict[str, Any]]:
        return list((await self.api("GET", "/api/approvals")).json()["approvals"])

    async def decide(
        self, token: str, action: str = "approve", *, reason: str = "", **more: Any
    ) -> httpx.Response:
        content = {"action": action, "token": token, "approver": "ann", "reason": reason}
        return await self.api("POST", "/api/approvals", content, **more)

    # -- steps that attacks share ---------------------------------------------------------------------------

    async def ask(
        self, tool: str = "spin", session: Session | None = None, **arguments: Any
    ) -> tuple[str, str]:
        """A harmless motion that waits for a person: its task and its token."""
        session = session or self.session
        answer = await session.call(tool, **(arguments or {"angle_rad": 0.3}))
        assert code_of(answer) == "task", answer
        task_id = answer["result"]["structuredContent"]["task_id"]
        token = ""

        async def there() -> bool:
            nonlocal token
            token = next((one["token"] for one in await self.waiting() if one["task_id"] == task_id), "")
            return bool(token)

        await self.until(there)
        self.tokens.append(token)
        return task_id, token

    async def ended(self, task_id: str, session: Session | None = None) -> dict[str, Any]:
        """The task, once it has ended."""
        found: dict[str, Any] = {}

        async def over() -> bool:
            found.update(await (session or self.session).task(task_id))
            return bool(found["state"] != "running")

        await self.until(over)
        return found

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not await condition():
                await asyncio.sleep(0.05)

    async def settled(self) -> None:
        """Every interlock has been good for long enough."""

        async def good() -> bool:
            said = (await self.api("GET", "/api/approvals")).json()["interlocks"]
            return all(one["ok"] for one in said)

        await self.until(good)

    async def clean(self) -> None:
        """Nothing waits and nothing moves when the next attack begins."""
        self.probe.set(estop=False, door=False)
        await self.settled()
        for pending in await self.waiting():
            await self.decide(pending["token"], "reject")
        await self.session.call("stop")


@contextlib.asynccontextmanager
async def attacking(bridge: Bridge, probe: Probe) -> AsyncIterator[Rig]:
    """A client's session with a bridge that is up, and the operator beside it."""
    session = await Session.open(bridge.url)
    rig = Rig(bridge, probe, session)
    try:
        await rig.settled()
        yield rig
    finally:
        for one in (session, *rig.sessions):
            await one.close()


def leaks(bridge: Bridge, secrets: Iterable[str]) -> list[str]:
    """Files of the bridge (log, audit trail, state) that hold one of these."""
    files = [bridge.log, *(file for file in bridge.state_dir.rglob("*") if file.is_file())]
    scanned = {file: file.read_text(errors="replace") for file in files}
    return [f"{file.name}: {secret[:4]}" for file in files for secret in secrets if secret in scanned[file]]


def audit_file(bridge: Bridge) -> Path:
    return sorted((bridge.state_dir / "audit").glob("*.jsonl"))[-1]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command has said."""

    returncode: int
    stdout: str
    stderr: str


def cli(bridge: Bridge, *words: str) -> Said:
    """``robot-mcp-kit`` as the operator types it, without the start of an interpreter."""
    environment = {"ROBOT_MCP_STATE_DIR": str(bridge.state_dir), "ROBOT_MCP_OPERATOR_KEY": OPERATOR_KEY}
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(words)
    return Said(code, out.getvalue(), err.getvalue())
