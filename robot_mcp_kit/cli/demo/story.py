"""The demo's story: a simulated robot, the bridge, a receiver and an MCP client, from one call to a
measured end.

Everything runs as on a robot: simulator and bridge are processes of their own and talk ROS 2, the tool call
goes over streamable HTTP through the official MCP client, events arrive signed over HTTP, and a witness
process reads goal states and the robot's pose from the ROS graph without asking the bridge.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_mcp_kit.cli.demo.checks import Evidence, PlanarPose
from robot_mcp_kit.cli.demo.children import Child, ChildError, child, guardian
from robot_mcp_kit.client.inbox import TERMINAL_TYPES, Inbox, Receipt
from robot_mcp_kit.client.receiver import EventReceiver
from robot_mcp_kit.client.session import RobotSession, ToolCallError, connect
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.sim.domain import isolated_environment, reserved_domain
from robot_mcp_kit.sim.process import SimProcess, SimProcessError
from robot_mcp_kit.skills.config import NavigateSection, load_config

SKILL = "navigate_to"
READY_TIMEOUT_S = 30.0
AWAITING_APPROVAL = "awaiting_approval"
STATUS_ACCEPTED = 1
STATUS_EXECUTING = 2


class DemoError(Exception):
    """The story could not be told to its end; says at which step."""


@dataclass(frozen=True, slots=True)
class StorySettings:
    """What one run does. ``timeout_s`` bounds the drive, wall seconds."""

    skills_file: Path
    place: str = "kitchen"
    trigger_eta_s: float = 10.0
    real_time_factor: float = 4.0
    timeout_s: float = 120.0
    sim_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Stage:
    """The running system, ready to be called."""

    mcp_url: str
    domain_id: int
    logs: Path
    state_dir: Path
    session: RobotSession
    witness: _WitnessReader
    receipts: asyncio.Queue[Receipt]


@contextlib.asynccontextmanager
async def stage(settings: StorySettings, logs: Path, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Start everything; end everything when the block ends, on every path.

    Raises:
        DemoError: a part did not start; names it and its log.
    """
    loop = asyncio.get_running_loop()
    receipts: asyncio.Queue[Receipt] = asyncio.Queue()
    secret = secrets.token_hex(32)
    async with contextlib.AsyncExitStack() as stack:
        domain_id = stack.enter_context(reserved_domain())
        env = isolated_environment(domain_id)
        guard = await stack.enter_async_context(guardian())
        say(f"simulated robot at {settings.real_time_factor:g} times real time, ROS domain {domain_id}")
        sim = SimProcess(
            domain_id=domain_id,
            real_time_factor=settings.real_time_factor,
            parameters=dict(settings.sim_parameters),
        )
        await _start_sim(stack, sim, logs / "sim.log")
        guard.watch(sim.pid)
        receiver = EventReceiver(
            Inbox(secret), lambda receipt: loop.call_soon_threadsafe(receipts.put_nowait, receipt)
        )
        stack.enter_context(receiver)
        say(f"event receiver at {receiver.url}")
        try:
            watching = await stack.enter_async_context(
                child(
                    "witness",
                    _python("robot_mcp_kit.sim.witness"),
                    env=env,
                    log=logs / "witness.log",
                    guarded_by=guard,
                )
            )
            bridge = await stack.enter_async_context(
                child(
                    "bridge",
                    [
                        *_python("robot_mcp_kit"),
                        *("run", "--skills", str(settings.skills_file), "--port", "0"),
                        *("--ros-args", "-p", "progress_period_s:=0.5"),
                    ],
                    env=env | {"RVC_CALLBACK_URL": receiver.url, "RVC_EVENT_SECRET": secret},
                    log=logs / "bridge.log",
                    guarded_by=guard,
                )
            )
            witness = _WitnessReader(watching)
            await stack.enter_async_context(_running(witness.read()))
            mcp_url = await bridge.wait_for_line("bridge ready ", READY_TIMEOUT_S)
            await witness.ready(READY_TIMEOUT_S)
        except ChildError as error:
            raise DemoError(str(error)) from error
        session = await stack.enter_async_context(connect(mcp_url))
        # What a client does first anyway: the call's time is then neither the connection's nor an import's.
        tools = await session.tool_names()
        await session.call("list_tasks", states=["running"])
        say(f"bridge answers MCP at {mcp_url} with the tools {', '.join(tools)}")
        state_dir = Path(env["ROBOT_MCP_STATE_DIR"])
        yield Stage(mcp_url, domain_id, logs, state_dir, session, witness, receipts)


async def tell(
    settings: StorySettings,
    evidence: Evidence,
    on: Stage,
    show: Callable[[Receipt], None],
    say: Callable[[str], None],
) -> None:
    """Call ``navigate_to``, follow it to its end and put what was seen into ``evidence``.

    Raises:
        DemoError: the call was refused.
    """
    triggers = [{"type": "eta_below", "seconds": settings.trigger_eta_s}]
    say(f'client calls {SKILL}(place="{settings.place}", triggers={json.dumps(triggers)})')
    evidence.called_at_s = time.monotonic()
    try:
        evidence.task = await on.session.call(SKILL, place=settings.place, triggers=triggers)
    except ToolCallError as error:
        raise DemoError(f"the call was refused: {error}") from error
    evidence.answered_at_s = time.monotonic()
    task_id = str(evidence.task.get("task_id"))
    answered_ms = (evidence.answered_at_s - evidence.called_at_s) * 1000
    say(f"task {task_id} after {answered_ms:.0f} ms; it goes on by itself")
    asked: set[str] = set()
    try:
        async with asyncio.timeout(settings.timeout_s) as bound:
            while True:
                receipt = await on.receipts.get()
                evidence.receipts.append(receipt)
                show(receipt)
                event = receipt.event
                if event is None or event.task_id != task_id:
                    continue
                if event.type in TERMINAL_TYPES:
                    break
                approval = str(event.payload.get("approval_id", ""))
                if event.payload.get("phase") == AWAITING_APPROVAL and approval not in asked:
                    asked.add(approval)
                    left_s = float(event.payload.get("expires_in_s") or 0.0)
                    _ask(on, event.payload, left_s, say)
                    bound.reschedule(asyncio.get_running_loop().time() + left_s + settings.timeout_s)
    except TimeoutError:
        say(f"no end of the task after {settings.timeout_s:g} s")
    evidence.ended_at_s = time.monotonic()
    evidence.final_task = await on.session.call("get_task", task_id=task_id)
    evidence.measured = await on.witness.pose_after(evidence.ended_at_s)
    evidence.accepted_at_s = on.witness.accepted_after(evidence.called_at_s)
    while not on.receipts.empty():
        receipt = on.receipts.get_nowait()
        evidence.receipts.append(receipt)
        show(receipt)


def _ask(on: Stage, waiting: Mapping[str, Any], left_s: float, say: Callable[[str], None]) -> None:
    """Tell the person at the terminal what waits for them, and how to decide."""
    ident, where = waiting["approval_id"], f"--state-dir {on.state_dir}"
    say(
        f"NOTHING MOVES YET: this drive waits for a person, for {left_s:.0f} s at most, because no standing "
        f"approval of the skills file covers it. Decide in another terminal:\n"
        f"  robot-mcp-kit approve {ident} {where}\n"
        f"  robot-mcp-kit reject {ident} {where}"
    )


def evidence_for(settings: StorySettings) -> Evidence:
    """Empty evidence with the target and the tolerances that the skills file names.

    Raises:
        DemoError: the file has a fault, no such place, or no drive skill.
    """
    try:
        config = load_config(settings.skills_file)
    except ConfigError as error:
        raise DemoError(str(error)) from error
    found = config.find_place(settings.place)
    skill = config.skills.get(SKILL)
    if found is None or not isinstance(skill, NavigateSection):
        raise DemoError(
            f"{settings.skills_file} needs the skill {SKILL} and the place {settings.place}; "
            f"it has the places {', '.join(config.places)}."
        )
    _, place = found
    return Evidence(
        target=PlanarPose(place.x_m, place.y_m, place.yaw_rad, place.frame),
        tolerance_m=skill.goal_tolerance_m,
        yaw_tolerance_rad=skill.yaw_tolerance_rad,
    )


class _WitnessReader:
    """Keeps what the witness process says."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self._ready = asyncio.Event()
        self._news = asyncio.Event()
        self._last_pose: tuple[float, PlanarPose] | None = None
        self._accepted_at_s: list[float] = []

    async def read(self) -> None:
        async for line in self._process.lines():
            content = json.loads(line)
            if content["kind"] == "ready":
                self._ready.set()
            elif content["kind"] == "pose":
                pose = PlanarPose(content["x_m"], content["y_m"], content["yaw_rad"], content["frame"])
                self._last_pose = (content["t_s"], pose)
                self._news.set()
            elif content["status"] in (STATUS_ACCEPTED, STATUS_EXECUTING):
                self._accepted_at_s.append(content["t_s"])

    async def ready(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._ready.wait(), timeout_s)
        except TimeoutError:
            tail = self._process.tail()
            raise ChildError(
                f"no pose and no action server were seen within {timeout_s:g} s.{tail}"
            ) from None

    async def pose_after(self, time_s: float, timeout_s: float = 3.0) -> PlanarPose | None:
        """A pose heard after ``time_s``; the last one heard when the robot says nothing more at rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._last_pose is None or self._last_pose[0] <= time_s:
                    self._news.clear()
                    await self._news.wait()
        return self._last_pose[1] if self._last_pose else None

    def accepted_after(self, time_s: float) -> float | None:
        """When the server first said that a goal sent after ``time_s`` is accepted."""
        return min((at for at in self._accepted_at_s if at >= time_s), default=None)


async def _start_sim(stack: contextlib.AsyncExitStack, sim: SimProcess, log: Path) -> None:
    """Start the simulator in a thread, and see to its end even when the start itself is cancelled."""
    starting = asyncio.ensure_future(asyncio.to_thread(sim.start))

    async def end() -> None:
        # The first stop makes a start that still waits give up; the second ends what it had just started.
        await asyncio.to_thread(sim.stop)
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.to_thread(sim.stop)
        await asyncio.to_thread(log.write_text, "\n".join([*sim.output, ""]), encoding="utf-8")

    stack.push_async_callback(end)
    try:
        await asyncio.shield(starting)
    except SimProcessError as error:
        raise DemoError(str(error)) from error


@contextlib.asynccontextmanager
async def _running(coroutine: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def log_directory() -> Path:
    """A fresh directory for the children's logs."""
    return Path(tempfile.mkdtemp(prefix="robot-mcp-kit-demo-"))
