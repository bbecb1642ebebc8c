"""What changes at a robot, as the protocol's events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.rcp.errors import RCPError
from robot_mcp_kit.rcp.models import IOState, JointState, RCPEvent, TCPPosition
from robot_mcp_kit.tasks import TaskManager

if TYPE_CHECKING:
    from robot_mcp_kit.rcp.bridged.adapter import BridgeAdapter

_T = TypeVar("_T")

CHANNELS = ("io_changed", "position_changed", "program_state", "safety")
LOOK_S = 0.2
"""How often signals and positions are looked at."""
MOVED_DEG, MOVED_MM = 0.05, 0.5
"""A position that changed less is the same."""
_QUEUE = 256


async def changes(
    adapter: BridgeAdapter, bridge: Bridge, manager: TaskManager, channels: Sequence[str]
) -> AsyncIterator[RCPEvent]:
    """Events of these channels until the iterator is closed. A reader that is too slow loses the oldest."""
    queue: asyncio.Queue[RCPEvent] = asyncio.Queue(_QUEUE)
    loop = asyncio.get_running_loop()

    def put(event: RCPEvent) -> None:
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(event)

    def task_changed(info: TaskInfo) -> None:
        told = {"program": info.tool, "task_id": info.task_id, "state": info.state}
        phase = (info.progress or {}).get("phase")
        if states.get(info.task_id) != (info.state, phase):
            states[info.task_id] = (info.state, phase)
            if info.state != "running":
                states.pop(info.task_id)
            loop.call_soon_threadsafe(put, RCPEvent("program_state", {**told, "phase": phase}))

    def latched(reason: str) -> None:
        loop.call_soon_threadsafe(put, RCPEvent("safety", {"emergency_stop": True, "reason": reason}))

    states: dict[str, tuple[str, Any]] = {}
    remove = manager.add_change_listener(task_changed) if "program_state" in channels else (lambda: None)
    if "safety" in channels:
        bridge.guard.latch_listeners.append(latched)
    looking = loop.create_task(_look(adapter, channels, put), name="rcp changes")
    try:
        while True:
            yield await queue.get()
    finally:
        looking.cancel()
        remove()
        if latched in bridge.guard.latch_listeners:
            bridge.guard.latch_listeners.remove(latched)


async def _look(adapter: BridgeAdapter, channels: Sequence[str], put: Callable[[RCPEvent], None]) -> None:
    """Compare now and then; the first look is what later ones are compared with."""
    seen = _Seen()
    while True:
        if "io_changed" in channels:
            for name, value in seen.new_signals(await _read(adapter.get_io)).items():
                put(RCPEvent("io_changed", {"signal": name, "value": value}))
        if "position_changed" in channels:
            moved = seen.moved(await _read(adapter.get_joints), await _read(adapter.get_tcp))
            if moved:
                put(RCPEvent("position_changed", moved))
        await asyncio.sleep(LOOK_S)


async def _read(source: Callable[[], Awaitable[_T]]) -> _T | None:
    """``None`` where it says nothing just now."""
    try:
        return await source()
    except RCPError:
        return None


class _Seen:
    """What was told last."""

    def __init__(self) -> None:
        self._signals: dict[str, float] | None = None
        self._joints: dict[str, float] = {}
        self._place: tuple[float, float, float] | None = None

    def new_signals(self, io: IOState | None) -> dict[str, float]:
        """Values that are others than before."""
        now = {} if io is None else {signal.name: signal.value for signal in io.signals}
        before = self._signals
        self._signals = {**(before or {}), **now}
        return {} if before is None else {name: v for name, v in now.items() if before.get(name) != v}

    def moved(self, joints: list[JointState] | None, tcp: TCPPosition | None) -> dict[str, Any]:
        """What has moved since it was told last; empty when nothing has."""
        told: dict[str, Any] = {}
        if joints is not None:
            now = {joint.name: joint.position_deg for joint in joints}
            away = [abs(value - self._joints.get(name, value)) for name, value in now.items()]
            if max(away, default=0.0) > MOVED_DEG:
                told["joints_deg"] = now
            if told or not self._joints:
                self._joints = now
        if tcp is not None:
            place = (tcp.x, tcp.y, tcp.z)
            if self._place is not None and math.dist(place, self._place) > MOVED_MM:
                told["tcp_mm"] = list(place)
            if "tcp_mm" in told or self._place is None:
                self._place = place
        return told
