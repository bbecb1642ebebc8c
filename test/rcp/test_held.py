"""The robot's own interlocks over a motion of the protocol: before it begins, and while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from robot_mcp_kit.rcp import RCPError, RCPErrorCode
from robot_mcp_kit.rcp.guarded import GuardedRobot
from robot_mcp_kit.safety.interlocks import Interlock, Reader, Reading
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import InterlockSection
from robot_mcp_kit.testing import FakeClock
from robot_mcp_kit.testing.open_guard import open_guard

from .probe import Probe, Rig

SECTION = InterlockSection.model_validate(
    {
        "topic": "gate",
        "type": "std_msgs/msg/Bool",
        "field": "data",
        "ok": True,
        "max_age_s": 2.0,
        "settle_s": 0.0,
        "hold": True,
    }
)


class Gate(Reader):
    """A told condition."""

    tells = True

    def __init__(self, clock: FakeClock) -> None:
        self._clock, self._at_s, self._value = clock, clock.now(), True
        self._hear: Callable[[Reading], None] = lambda _reading: None

    def tell(self, value: bool) -> None:
        self._value, self._at_s = value, self._clock.now()
        reading = self.latest()
        assert reading is not None
        self._hear(reading)

    async def read(self) -> Reading | None:
        return self.latest()

    def latest(self) -> Reading | None:
        return Reading(SimpleNamespace(data=self._value), self._clock.now() - self._at_s)

    def listen(self, heard: Callable[[Reading], None]) -> None:
        self._hear = heard
        self.tell(True)


@pytest.fixture
async def gated(tmp_path: Path) -> AsyncIterator[tuple[Rig, Gate]]:
    clock = FakeClock(1000.0)
    gate = Gate(clock)
    guard = open_guard(
        RobotConfig.model_validate({"robot": {"name": "cell"}}),
        {},
        clock,
        approve=False,
        interlocks=lambda around: [Interlock("gate", SECTION, gate, around)],
    )
    adapter = Probe()
    rig = Rig(GuardedRobot(adapter, guard, clock=clock, wall=clock.wall), adapter, guard, clock, tmp_path)
    yield rig, gate
    await rig.close()


async def test_a_condition_of_the_robot_is_asked_beside_the_adapters_own(gated: tuple[Rig, Gate]) -> None:
    """R23."""
    rig, gate = gated
    gate.tell(False)
    with pytest.raises(RCPError, match="gate: data is false") as caught:
        await rig.do("move_to")
    assert caught.value.code is RCPErrorCode.INTERLOCKS_FAILED
    assert rig.adapter.calls == []
    await rig.do("set_io")  # R26
    gate.tell(True)
    await rig.do("move_to")
    assert [call[0] for call in rig.adapter.calls] == ["set_io", "move_to"]


@pytest.mark.parametrize("how", ["broken", "silent"])
async def test_a_condition_that_breaks_stops_the_motion(how: str, gated: tuple[Rig, Gate]) -> None:
    """R28: when a value says so, and when none comes any more."""
    rig, gate = gated
    running = await rig.begin()
    if how == "broken":
        gate.tell(False)
    else:
        await rig.clock.advance(2.5)
    await rig.clock.advance(2.5)
    with pytest.raises(RCPError, match="gate") as caught:
        await running.outcome
    assert caught.value.code is RCPErrorCode.INTERLOCKS_FAILED
    assert rig.adapter.stops >= 1


async def test_the_watch_ends_with_the_motion(gated: tuple[Rig, Gate]) -> None:
    """R28: a gate that opens after the end stops nothing."""
    rig, gate = gated
    await rig.do("move_to")
    gate.tell(False)
    for _ in range(10):
        await asyncio.sleep(0)
    assert rig.adapter.stops == 0
