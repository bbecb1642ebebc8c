"""The whole thing, as a robot has it: a simulated robot, the bridge and a chat app's receiver, each a process
or server of its own; the MCP client is the official one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.client.inbox import Inbox, Receipt
from robot_mcp_kit.client.receiver import EventReceiver
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.sim.process import SimProcess
from robot_mcp_kit.testing import held
from robot_mcp_kit.testing.open_guard import approve_everything

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "config" / "skills.yaml"
SECRET = "end-to-end-secret"
REAL_TIME_FACTOR = 6.0
BOUND_S = 60.0


class Receiver:
    """A chat app's endpoint that keeps what it verified; can be stopped and started on the same port."""

    def __init__(self, port: int = 0) -> None:
        self.inbox = Inbox(SECRET)
        self.receipts: list[Receipt] = []
        self._news = threading.Condition()
        self._server: EventReceiver | None = None
        self.port = port
        self.start()

    def start(self) -> None:
        self._server = EventReceiver(self.inbox, self._take, port=self.port)
        self._server.start()
        self.port = self._server.port
        self.url = self._server.url

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _take(self, receipt: Receipt) -> None:
        with self._news:
            self.receipts.append(receipt)
            self._news.notify_all()

    def of(self, task_id: str) -> list[TaskEvent]:
        """Verified events of one task, in the order of arrival, duplicates left out."""
        return [r.event for r in self.receipts if r.accepted and r.event and r.event.task_id == task_id]

    def wait_for(self, condition: Callable[[], object], bound_s: float = BOUND_S) -> None:
        with self._news:
            assert self._news.wait_for(condition, bound_s), [
                (r.event.type, r.event.seq) if r.event else r.reason for r in self.receipts
            ]

    def wait_for_end(self, task_id: str) -> list[TaskEvent]:
        self.wait_for(lambda: any(e.type in ("task_done", "task_failed") for e in self.of(task_id)))
        return self.of(task_id)


class BridgeProcess:
    """``robot-mcp-kit run`` in a process of its own."""

    def __init__(
        self,
        domain_id: int,
        log: Path,
        *options: str,
        skills: Path | str = SKILLS,
        environment: dict[str, str] | None = None,
        ready: bool = True,
        approve: bool = True,
    ) -> None:
        """``approve``: the operator has signed a standing approval for every skill of the file."""
        self.log = log
        self.environment = {**isolated_environment(domain_id), **(environment or {})}
        self.state_dir = Path(self.environment["ROBOT_MCP_STATE_DIR"])
        if approve:
            with contextlib.suppress(ConfigError):  # the bridge itself will say so
                approve_everything(self.state_dir, Path(skills))
        self._stderr = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "robot_mcp_kit", "run", "--skills", str(skills), "--port", "0", *options],
            env=self.environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self.url = ""
        if ready:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line.startswith("bridge ready "), log.read_text()
            self.url = line.split()[-1]

    def end(self, number: int = 15, bound_s: float = 15.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(bound_s)
        finally:
            self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._stderr.close()


class Talker:
    """The official MCP client, with the answers unpacked."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.client.call_tool(name, arguments)

    async def start(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert not result.is_error, result.content[0].text
        return str(result.structured_content["task_id"])

    async def task(self, task_id: str) -> dict[str, Any]:
        result = await self.call("get_task", task_id=task_id)
        return dict(json.loads(result.content[0].text))


@pytest.fixture(scope="module")
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    with SimProcess(domain_id=ros_domain_id, real_time_factor=REAL_TIME_FACTOR) as process:
        yield process


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


@pytest.fixture(scope="module")
def bridge(
    ros_domain_id: int, sim: SimProcess, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BridgeProcess]:
    process = BridgeProcess(
        ros_domain_id,
        tmp_path_factory.mktemp("bridge") / "bridge.log",
        environment={"RVC_CALLBACK_URL": receiver.url, "RVC_EVENT_SECRET": SECRET},
    )
    yield process
    code = process.end()
    log = process.log.read_text()
    assert code == 0, log
    assert "Traceback" not in log


@pytest.fixture
async def talk(bridge: BridgeProcess) -> AsyncIterator[Talker]:
    async with held(Client(bridge.url)) as client:
        yield Talker(client)


@pytest.fixture(scope="session")
def connect() -> Callable[[str], contextlib.AbstractAsyncContextManager[Client]]:
    """For modules that keep a bridge of their own."""
    return lambda url: held(Client(url))


@pytest.fixture(scope="session")
def bridge_process() -> type[BridgeProcess]:
    """For modules that keep a bridge of their own."""
    return BridgeProcess


@pytest.fixture(scope="session")
def talker() -> type[Talker]:
    return Talker


@pytest.fixture
def start_bridge(ros_domain_id: int, tmp_path: Path) -> Iterator[Callable[..., BridgeProcess]]:
    """Further bridges, ended with the test."""
    started: list[BridgeProcess] = []

    def start(*options: str, **more: Any) -> BridgeProcess:
        started.append(BridgeProcess(ros_domain_id, tmp_path / f"bridge{len(started)}.log", *options, **more))
        return started[-1]

    yield start
    for process in started:
        process.close()


class Truth:
    """What the ROS graph shows of the robot, seen by a process that knows nothing of the bridge."""

    def __init__(self, domain_id: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "robot_mcp_kit.sim.witness"],
            env=isolated_environment(domain_id),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.poses: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._ready = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.wait_for(lambda: self._ready)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                with self._news:
                    self._ready = self._ready or said["kind"] == "ready"
                    {"pose": self.poses, "status": self.statuses}.get(said["kind"], []).append(said)
                    self._news.notify_all()

    def wait_for(self, condition: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(condition, BOUND_S), [
                (round(s["t_s"], 2), s["goal_id"][:8], s["status"]) for s in self.statuses
            ]

    def next_pose(self) -> dict[str, Any]:
        """A pose that was measured after this call."""
        seen = len(self.poses)
        self.wait_for(lambda: len(self.poses) > seen + 1)
        return self.poses[-1]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._thread.join(5)


@pytest.fixture(scope="module")
def truth(ros_domain_id: int, sim: SimProcess) -> Iterator[Truth]:
    witness = Truth(ros_domain_id)
    yield witness
    witness.close()


class Hand:
    """Throws the simulated robot's switches and tells its truth, from a process of its own."""

    def __init__(self, domain_id: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "robot_mcp_kit.sim.hand"],
            env=isolated_environment(domain_id),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, wish: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wish) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["ok"], answer
        return answer

    def faults(self, **values: Any) -> None:
        self._ask({"faults": values})

    def state(self) -> dict[str, Any]:
        return dict(self._ask({"call": "state"})["state"])

    def call(self, name: str) -> None:
        self._ask({"call": name})

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait(10)


@pytest.fixture(scope="module")
def hand(ros_domain_id: int, sim: SimProcess) -> Iterator[Hand]:
    made = Hand(ros_domain_id)
    yield made
    made.close()


@pytest.fixture
def slow_robot(hand: Hand) -> Iterator[Hand]:
    """A drive that is still on its way when it is stopped, however slow the test is."""
    hand.faults(slow_down=0.05)
    yield hand
    hand.faults(slow_down=1.0)


@pytest.fixture(autouse=True)
def _no_callback_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RVC_CALLBACK_URL", "RVC_EVENT_SECRET", "ROBOT_MCP_TOKEN"):
        if name in os.environ:
            monkeypatch.delenv(name)
