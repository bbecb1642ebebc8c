"""What the soak scripts run: a bridge process that can be killed, the motion servers, and a chat app."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
from mcp.shared.exceptions import MCPError

from robot_mcp_kit.client.session import RobotSession, ToolCallError, connect
from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.testing.open_guard import approve_everything
from robot_mcp_kit.testing.receiver import RecordingReceiver

HERE = Path(__file__).parent
MOTIONS = 5
BOUND_S = 60.0
ACCEPTANCE_TIMEOUT_S = 3.0
SKILL = """\
  motion{n}:
    action: /motion{n}
    type: test_msgs/action/Fibonacci
    description: Moves motor {n}.
    fields: {{order: {{min: 0, max: 2147483647}}}}
    feedback_timeout_s: 0
"""
TERMINAL = ("task_done", "task_failed")


def write_skills(path: Path, count: int = MOTIONS, policy: str = "refuse") -> Path:
    """A skills file for the motion servers."""
    entries = [SKILL.format(n=n) + f"    policy: {policy}\n" for n in range(count)]
    path.write_text("skills:\n" + "".join(entries))
    return path


class Process:
    """A child whose standard error is read line by line."""

    def __init__(self, arguments: list[str], log: Path, *, domain: int, **environment: str) -> None:
        self.started_s = time.monotonic()
        self.log = log
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**isolated_environment(domain), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.log.open("a") as log:
            for line in self.process.stderr:
                log.write(line)
                log.flush()
                with self._news:
                    self.lines.append(line)
                    self._news.notify_all()

    def first_line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended: {''.join(self.lines[-20:])}"
        return line.strip()

    def wait_for_line(self, text: str, *more: str, bound_s: float = BOUND_S) -> None:
        """Until a line of the log holds all of these."""

        def found() -> bool:
            return any(all(part in line for part in (text, *more)) for line in self.lines)

        with self._news:
            assert self._news.wait_for(found, bound_s), f"no line with {text!r} in {self.log}"

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL, and away with the shared memory that only it used."""
        segments = _segments(self.process.pid)
        self.process.kill()
        self.process.wait()
        for name in segments - _segments():
            for path in (Path("/dev/shm", name), Path("/dev/shm", f"{name}_el")):
                path.unlink(missing_ok=True)
        self.close()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.close()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def _segments(pid: int | None = None) -> set[str]:
    """Fast DDS data segments that a process (all processes) has mapped."""
    found: set[str] = set()
    for maps in [Path(f"/proc/{pid}/maps")] if pid else Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            for line in maps.read_text().splitlines():
                name = line.rpartition("/dev/shm/")[2] if "/dev/shm/fastrtps_" in line else ""
                if name and "port" not in name:
                    found.add(name.split()[0])
    return found


class Bridge(Process):
    """The real node, over a ledger file."""

    def __init__(self, rig: Rig, **parameters: object) -> None:
        values = {
            "skills_file": rig.skills,
            "ledger_file": rig.ledger,
            "port": 0,
            "log_format": "json",
            "acceptance_timeout_s": ACCEPTANCE_TIMEOUT_S,
            "server_name": "soak",
            **parameters,
        }
        words = [word for name, value in values.items() for word in ("-p", f"{name}:={value}")]
        super().__init__(
            ["-m", "robot_mcp_kit", "run", "--ros-args", *words],
            rig.folder / "bridge.log",
            domain=rig.domain,
            RVC_CALLBACK_URL=rig.receiver.url,
            RVC_EVENT_SECRET=rig.receiver.secret,
            ROBOT_MCP_STATE_DIR=str(rig.state_dir),
        )

    def wait_ready(self) -> None:
        self.url = self.first_line().removeprefix("bridge ready ")
        self.ready_s = time.monotonic() - self.started_s


class Rig:
    """Everything of one soak, in one folder."""

    def __init__(self, folder: Path, domain: int, *, motions: int = MOTIONS, policy: str = "refuse") -> None:
        self.folder, self.domain = folder, domain
        self.skills = write_skills(folder / "skills.yaml", motions, policy)
        self.ledger = folder / "ledger.db"
        self.state_dir = folder / "state"
        approve_everything(self.state_dir, self.skills)
        self.journal = folder / "journal.jsonl"
        self.motions = motions
        self.receiver = RecordingReceiver().start()
        self.server: Process | None = None
        self.bridges = 0

    def start_server(self, result_timeout_s: int = 60) -> Process:
        script = [str(HERE / "motions.py"), str(self.journal), str(self.motions), str(result_timeout_s)]
        self.server = Process(script, self.folder / "server.log", domain=self.domain)
        assert self.server.first_line() == "ready"
        return self.server

    def start_bridge(self, **parameters: object) -> Bridge:
        bridge = Bridge(self, **parameters)
        try:
            bridge.wait_ready()
        except BaseException:
            bridge.close()
            raise
        self.bridges += 1
        return bridge

    def executions(self, motion: int) -> int:
        """How often the robot moved for that motion number."""
        return sum(line["motion"] == motion and line["what"] == "begin" for line in self.happened())

    def endings(self, motion: int) -> list[str]:
        return [
            line["ending"] for line in self.happened() if line["motion"] == motion and line["what"] == "end"
        ]

    def happened(self) -> list[dict[str, Any]]:
        text = self.journal.read_text() if self.journal.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    async def until(self, condition: Callable[[], object], bound_s: float = BOUND_S) -> None:
        async with asyncio.timeout(bound_s):
            while not condition():
                await asyncio.sleep(0.02)

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self.receiver.stop()


GONE = (OSError, httpx2.HTTPError, MCPError, TimeoutError, RuntimeError)
"""What a call ends with when the bridge dies under it."""


@contextlib.asynccontextmanager
async def session(bridge: Bridge) -> Any:
    async with connect(bridge.url, timeout_s=20.0) as robot:
        yield robot


async def task(robot: RobotSession, task_id: str) -> dict[str, Any]:
    """The contract's answer; empty when the task is unknown."""
    with contextlib.suppress(ToolCallError):
        found = await robot.call("get_task", task_id=task_id)
        return found if "state" in found else {}
    return {}


async def ended(robot: RobotSession, task_id: str, bound_s: float = BOUND_S) -> dict[str, Any]:
    """The task once it is terminal."""
    info: dict[str, Any] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound_s):
            while (info := await task(robot, task_id)).get("state") == "running":
                await asyncio.sleep(0.05)
    return info


@contextlib.contextmanager
def only_loopback() -> Iterator[None]:
    """Keep proxies and other people's settings out of it."""
    for name in ("RVC_CALLBACK_URL", "RVC_EVENT_SECRET", "ROBOT_MCP_TOKEN"):
        os.environ.pop(name, None)
    yield
