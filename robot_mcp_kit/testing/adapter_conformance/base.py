"""What the checks share: making an adapter, connecting it, running a check on a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.models import TCPPosition

Check = Callable[[RCPAdapter], Awaitable[None]]


class Conformance:
    """Base of the checks. What an adapter's author sets in a subclass:"""

    connect_config: ClassVar[dict[str, Any]] = {}
    """For ``connect``."""
    within_s: ClassVar[float] = 10.0
    """How long any single call may take before the check fails."""
    stop_within_s: ClassVar[float] = 3.0
    """How long a motion may still run after a stop (R28)."""
    may_actuate: ClassVar[bool] = False
    """Leave to move the robot and to set outputs. Without it those checks are skipped."""
    far_pose: ClassVar[TCPPosition | None] = None
    """A pose that the robot may move to and needs at least half a second for, from where it is."""
    arrives_within_mm: ClassVar[float] = 1.0
    """How far from the pose a motion may end along each axis: the controller's own tolerance."""
    output: ClassVar[str | None] = None
    """A digital output that may be switched."""
    sample_program: ClassVar[tuple[str, str] | None] = None
    """Name and text of a program that may be put on the controller."""

    def make_adapter(self) -> RCPAdapter:
        """A new adapter, not connected. To be written."""
        raise NotImplementedError("write make_adapter(self): return a new, unconnected adapter")

    def run(self, check: Check) -> None:
        """Run a check on a connected adapter, and disconnect."""

        async def whole() -> None:
            async with self.connected() as adapter:
                await check(adapter)

        asyncio.run(whole())

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[RCPAdapter]:
        adapter = self.make_adapter()
        await self.bounded(adapter.connect(dict(self.connect_config)), "connect")
        try:
            yield adapter
        finally:
            await self.bounded(adapter.disconnect(), "disconnect")

    async def bounded(self, work: Awaitable[Any], what: str, within_s: float | None = None) -> Any:
        """The result of a call, which must come in time."""
        limit_s = self.within_s if within_s is None else within_s
        try:
            return await asyncio.wait_for(work, limit_s)
        except TimeoutError:
            pytest.fail(f"{what} took longer than {limit_s:g} s")

    def need_actuation(self, adapter: RCPAdapter, *methods: str) -> None:
        """Skip where nothing may move, or the adapter has not written these."""
        if not self.may_actuate:
            pytest.skip("may_actuate is not set: nothing is moved or switched")
        for method in methods:
            if not is_written(adapter, method):
                pytest.skip(f"the adapter has no {method}")


def is_written(adapter: RCPAdapter, method: str) -> bool:
    """Whether the adapter's class has its own version of a method."""
    return getattr(type(adapter), method) is not getattr(RCPAdapter, method)
