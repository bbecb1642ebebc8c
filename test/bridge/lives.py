"""A bridge that dies and lives again over one scripted server: what ``kill -9`` leaves is a copy of the file.

The dead bridge's objects stay in memory, cut off from the server and from the chat app, so nothing they do
matters any more.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from robot_mcp_kit.bridge.base import (
    ActionPort,
    ActionPorts,
    CancelReply,
    GoalResponse,
    GoalResult,
    GoalWatch,
)
from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskEvent, TaskInfo
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.sqlite_file import RETRY_S, SqliteFile
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing.clock import FakeClock, settle
from robot_mcp_kit.testing.open_guard import open_guard
from robot_mcp_kit.testing.scripted import ScriptedPort

from .conftest import CONFIG

TERMINAL = ("task_done", "task_failed")


class Line(ActionPort):
    """The way to the server, until the process at this end dies."""

    def __init__(self, port: ScriptedPort) -> None:
        self.port = port
        self.name, self.type_name = port.name, port.type_name
        self.cut = False

    def server_ready(self) -> bool:
        return self.port.server_ready()

    def servers(self) -> Mapping[bytes, str]:
        return self.port.servers()

    async def wait_for_server(self, timeout_s: float) -> bool:
        return await self.port.wait_for_server(timeout_s)

    def check_goal(self, fields: Mapping[str, Any]) -> None:
        self.port.check_goal(fields)

    async def send_goal(self, goal_id: UUID, fields: Mapping[str, Any]) -> GoalResponse:
        await self._alive()
        return await self.port.send_goal(goal_id, fields)

    async def get_result(self, goal_id: UUID) -> GoalResult:
        await self._alive()
        return await self.port.get_result(goal_id)

    async def cancel_goal(self, goal_id: UUID, *, only_this: bool = False) -> CancelReply:
        await self._alive()
        return await self.port.cancel_goal(goal_id, only_this=only_this)

    async def _alive(self) -> None:
        if self.cut:
            await asyncio.get_running_loop().create_future()

    def watch(
        self,
        goal_id: UUID,
        *,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None = None,
        on_other_goal_executing: Callable[[], None] | None = None,
    ) -> GoalWatch:
        return self.port.watch(
            goal_id,
            on_feedback=self._while_alive(on_feedback),
            on_status=self._while_alive(on_status) if on_status else None,
            on_other_goal_executing=self._while_alive(on_other_goal_executing)
            if on_other_goal_executing
            else None,
        )

    def _while_alive(self, callback: Callable[..., None]) -> Callable[..., None]:
        return lambda *what: None if self.cut else callback(*what)


class Lines(ActionPorts):
    def __init__(self, line: Line) -> None:
        self.line = line

    def port(self, action_name: str, action_type: str) -> ActionPort:
        if action_name.lstrip("/") != self.line.name.lstrip("/") or action_type != self.line.type_name:
            raise LookupError(f"no port for the action '{action_name}' ({action_type})")
        return self.line

    def action_names(self) -> list[str]:
        return [self.line.name]


@dataclass
class ChatApp:
    """Keeps each event once, as it came."""

    events: dict[str, TaskEvent] = field(default_factory=dict)
    deaf: bool = False

    def of(self, task_id: str, *kinds: str) -> list[TaskEvent]:
        return [e for e in self.events.values() if e.task_id == task_id and (not kinds or e.type in kinds)]


class Life:
    """One process of the bridge."""

    def __init__(self, world: World, path: Path, config: str) -> None:
        self.world, self.path = world, path
        self.line = Line(world.port)
        self.file = SqliteFile(path)
        self.ledger = SqliteLedger(self.file, wall_clock=world.clock.now)
        self.poster = EventPoster(
            "robot",
            "http://127.0.0.1:9/events",
            "secret",
            outbox=SqliteOutbox(self.file),
            clock=world.clock,
            transport=httpx.MockTransport(self._deliver),
        )
        self.manager = TaskManager("robot", self.poster, clock=world.clock, journal=self.ledger)
        parsed = parse_config(config)
        skills = build_skills(parsed)
        guard = open_guard(parsed, skills, world.clock)
        self.bridge = Bridge(
            self.manager,
            Lines(self.line),
            parsed,
            guard=guard,
            skills=skills,
            ledger=self.ledger,
            clock=world.clock,
        )

    async def _deliver(self, request: httpx.Request) -> httpx.Response:
        if self.line.cut or self.world.chat.deaf:
            raise httpx.ConnectError("nobody there", request=request)
        event = TaskEvent.model_validate_json(request.content)
        self.world.chat.events.setdefault(event.event_id, event)
        return httpx.Response(202)

    def info(self, task_id: str) -> TaskInfo:
        info = self.manager.get(task_id)
        assert info is not None, f"{task_id} is lost"
        return info

    def code(self, task_id: str) -> str | None:
        failure = self.info(task_id).failure
        return None if failure is None else failure.error_code

    def close(self) -> None:
        self.line.cut = True
        self.file.close()


@dataclass
class World:
    """What outlives a bridge: time, the server, the chat app and the folder."""

    folder: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(1000.0))
    chat: ChatApp = field(default_factory=ChatApp)
    lives: list[Life] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.port = ScriptedPort(clock=self.clock)

    def begin(self, config: str = CONFIG.format(policy="replace", result_timeout_s="null")) -> Life:
        """A process; the second one finds what the first has left."""
        path = self.folder / f"ledger{next(self.numbers)}.db"
        if self.lives:
            self.crash(self.lives[-1], path)
        self.lives.append(Life(self, path, config))
        return self.lives[-1]

    def crash(self, life: Life, to: Path) -> None:
        """``kill -9``: the file as it is now, and silence. Harmless for one that is dead already."""
        if not life.line.cut:
            life.line.cut = True
            for end in ("", "-wal"):
                shutil.copy(f"{life.path}{end}", f"{to}{end}")
        else:
            for end in ("", "-wal"):
                shutil.copy(f"{life.path}.left{end}", f"{to}{end}")

    async def adopted(self, **more: Any) -> Life:
        """A new process after a crash of the last one, its adoption done."""
        life = self.begin(**more)
        await life.bridge.adopt()
        await settle()
        return life

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await settle()

    async def close(self) -> None:
        """End what is left of all processes."""
        for life in self.lives:
            closing = asyncio.ensure_future(life.manager.aclose())
            while not closing.done():
                await self.clock.advance(1.0)
            await life.bridge.aclose()
            closed = asyncio.ensure_future(life.poster.aclose())
            while not closed.done():
                await self.clock.advance(1.0)
            life.close()


@contextmanager
def dying_at(life: Life, write: int, *, after: bool) -> Iterator[Callable[[], bool]]:
    """Let ``life`` die just before or after its ``write``-th commit; yields whether that has happened."""
    file, count = life.file, itertools.count()
    real, dead = file.connection, [False]

    def die() -> None:
        dead[0] = True
        life.line.cut = True
        for end in ("", "-wal"):
            shutil.copy(f"{life.path}{end}", f"{life.path}.left{end}")

    class Dying:
        """The connection, which counts commits."""

        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement != "COMMIT" or dead[0]:
                return real.execute(statement, *values)
            due = next(count) == write
            if due and not after:
                die()
            done = real.execute(statement, *values)
            if due and after:
                die()
            return done

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    file.connection = Dying()  # type: ignore[assignment]
    yield lambda: dead[0]
    file.connection = real


def told(world: World, life: Life, task_id: str) -> list[dict[str, Any]]:
    """Everything the chat app got or will get of a task, by seq."""
    waiting = life.file.connection.execute("SELECT body FROM event WHERE task_id = ?", (task_id,)).fetchall()
    known = {event.event_id: json.loads(event.model_dump_json()) for event in world.chat.of(task_id)}
    known.update({body["event_id"]: body for (raw,) in waiting for body in [json.loads(raw)]})
    return sorted(known.values(), key=lambda body: int(body["seq"]))


@dataclass
class Retries:
    """The timers after failed writes: they fire when the test says so."""

    due: list[asyncio.TimerHandle] = field(default_factory=list)

    def pending(self) -> int:
        """How many would fire."""
        return sum(not timer.cancelled() for timer in self.due)

    def fire(self) -> None:
        """Let all that are due now fire; what they start again stays."""
        due, self.due = self.due, []
        for timer in due:
            if not timer.cancelled():
                timer._run()


def hold_retries(monkeypatch: pytest.MonkeyPatch) -> Retries:
    """Take the running loop's retries of writes into the test's own hands."""
    loop, retries = asyncio.get_running_loop(), Retries()
    real = loop.call_later

    def call_later(delay: float, callback: Callable[..., None], *args: Any, **more: Any) -> Any:
        if delay != RETRY_S:
            return real(delay, callback, *args, **more)
        retries.due.append(asyncio.TimerHandle(loop.time() + delay, callback, args, loop, **more))
        return retries.due[-1]

    monkeypatch.setattr(loop, "call_later", call_later)
    return retries


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else's program is in the middle of writing to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
