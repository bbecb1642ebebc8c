"""One simulated robot and one probe for all attacks; bridges that end with their block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.sim.process import SimProcess

from .rig import STRICT, Bridge, Probe, Rig, attacking, skills_file

REAL_TIME_FACTOR = 3.0
Attacked = Callable[..., AbstractAsyncContextManager[Rig]]


@pytest.fixture(scope="package")
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    with SimProcess(domain_id=ros_domain_id, real_time_factor=REAL_TIME_FACTOR) as process:
        yield process


@pytest.fixture(scope="package")
def probe(ros_domain_id: int, sim: SimProcess) -> Iterator[Probe]:
    probe = Probe(ros_domain_id)
    yield probe
    probe.close()


@pytest.fixture
def attacked(ros_domain_id: int, probe: Probe, tmp_path: Path) -> Attacked:
    """A bridge with a client and its operator, ended with the block; on one state directory in one test."""

    @asynccontextmanager
    async def open_one(*, safety: str = STRICT, **more: Any) -> AsyncIterator[Rig]:
        bridge = Bridge(ros_domain_id, tmp_path, skills_file(tmp_path, safety), **more)
        try:
            async with attacking(bridge, probe) as rig:
                yield rig
        finally:
            if bridge.process.poll() is None:
                bridge.end()
            bridge.close()

    return open_one
