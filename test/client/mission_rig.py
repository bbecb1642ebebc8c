"""The chat app, a robot's server and the sleeper, each a process that may be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.testing.open_guard import approve_everything

ROOT = Path(__file__).parents[2]
ROBOT_SECRET, SLEEPER_SECRET = "pl4nt3d-r0b0t-s3cr3t", "pl4nt3d-sl33p3r-s3cr3t"
KEY_FILES = ("operator.key", "ledger.db.handle-key")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Process:
    """One child, started again on the same port with :meth:`start`."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.argv = argv
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self.process is None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Without a chance to say anything."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class MissionRig:
    """Everything of a mission.

    Args:
        folder: for its files.
        domain: the ROS domain of a simulated robot that runs; the robot's server is then the real bridge,
            with a ledger. ``None``: a server without a robot that forgets its tasks when it dies.
        drive_s: how long that one's drives take.
    """

    def __init__(self, folder: Path, *, domain: int | None = None, drive_s: float = 1.2) -> None:
        self.folder = folder
        self.chat_port, self.robot_port, self.sleeper_port = free_port(), free_port(), free_port()
        callback = f"http://127.0.0.1:{self.chat_port}/api/agent/events"
        if domain is None:
            argv = [sys.executable, str(ROOT / "test" / "client" / "fake_robot.py")]
            environment = {"MCP_PORT": str(self.robot_port), "DRIVE_S": str(drive_s)}
        else:
            argv, environment = self._bridge(domain)
        events = {"RVC_CALLBACK_URL": callback, "RVC_EVENT_SECRET": ROBOT_SECRET}
        self.robot = Process(argv, environment | events, folder / "robot.log")
        self.sleeper = Process(
            [sys.executable, str(ROOT / "examples" / "sleeper.py")],
            {
                "MCP_PORT": str(self.sleeper_port),
                "SLEEPER_TICK_S": "0.1",
                "RVC_CALLBACK_URL": callback,
                "RVC_EVENT_SECRET": SLEEPER_SECRET,
            },
            folder / "sleeper.log",
        )
        self.chat = self.make_chat(None)

    def _bridge(self, domain: int) -> tuple[list[str], dict[str, str]]:
        skills = ROOT / "config" / "skills.yaml"
        environment = {**isolated_environment(domain), "ROBOT_MCP_STATE_DIR": str(self.state_dir)}
        approve_everything(self.state_dir, skills)
        options = ["--skills", str(skills), "--port", str(self.robot_port)]
        ledger = ["--ros-args", "-p", f"ledger_file:={self.folder / 'ledger.db'}", "-p", "log_level:=debug"]
        return [sys.executable, "-m", "robot_mcp_kit", "run", *options, *ledger], environment

    @property
    def state_dir(self) -> Path:
        """The real bridge's."""
        return self.folder / "state"

    def make_chat(self, mission: str | None) -> Process:
        arguments = ["--db", str(self.folder / "chat.db"), "--port", str(self.chat_port), "--silence", "0.5"]
        arguments += ["--mission", mission] if mission else []
        return Process(
            [sys.executable, "-m", "examples.chat_app", *arguments],
            {
                "ROBOT_URL": f"http://127.0.0.1:{self.robot_port}/mcp",
                "SLEEPER_URL": f"http://127.0.0.1:{self.sleeper_port}/mcp",
                "ROBOT_EVENT_SECRET": ROBOT_SECRET,
                "SLEEPER_EVENT_SECRET": SLEEPER_SECRET,
            },
            self.folder / "chat.log",
        )

    async def listening(self, port: int, bound_s: float = 40.0) -> None:
        async with asyncio.timeout(bound_s):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    async def servers_up(self) -> None:
        self.robot.start()
        self.sleeper.start()
        await self.listening(self.robot_port)
        await self.listening(self.sleeper_port)

    async def mission(self, mission: str) -> dict[str, Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            answer = await client.get(f"http://127.0.0.1:{self.chat_port}/missions/{mission}")
            return dict(answer.json())

    async def begin(self, mission: str) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            answer = await client.post(
                f"http://127.0.0.1:{self.chat_port}/missions", json={"mission": mission}
            )
            assert answer.status_code == 202

    async def verdict(self, mission: str, bound_s: float = 60.0) -> str:
        """Wait for the end of a mission."""
        async with asyncio.timeout(bound_s):
            while True:
                try:
                    told = await self.mission(mission)
                except httpx.TransportError:
                    told = {}
                if told.get("verdict") is not None:
                    return str(told["verdict"])
                await asyncio.sleep(0.05)

    def close(self) -> None:
        for process in (self.chat, self.robot, self.sleeper):
            process.kill()

    def ends_seen(self) -> dict[str, list[str]]:
        """For each task, the terminal states that the application saw. The chat app must be dead."""
        with sqlite3.connect(self.folder / "chat.db") as db:
            rows = db.execute(
                "SELECT server || ' ' || task_id, state FROM saw_end ORDER BY number"
            ).fetchall()
        db.close()
        seen: dict[str, list[str]] = {}
        for task, state in rows:
            seen.setdefault(task, []).append(state)
        return seen

    def leaks(self) -> list[str]:
        """Files that hold a secret and should not: logs, books, ledger, audit trail."""
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        keys = [file for file in files if file.name in KEY_FILES]
        secrets = [
            ROBOT_SECRET.encode(),
            SLEEPER_SECRET.encode(),
            *(file.read_bytes().strip() for file in keys),
        ]
        scanned = {file: file.read_bytes() for file in files if file not in keys}
        assert sum(map(len, scanned.values())) > 10_000
        return [
            f"{file.name}: secret {number}"
            for file, content in scanned.items()
            for number, secret in enumerate(secrets)
            if secret in content
        ]

    def tasks_known(self) -> set[str]:
        """All tasks in the book."""
        with sqlite3.connect(self.folder / "chat.db") as db:
            rows = db.execute("SELECT server || ' ' || task_id FROM task").fetchall()
        db.close()
        return {row[0] for row in rows}
