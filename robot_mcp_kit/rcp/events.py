"""What happens at the robot, as a stream of events: names of channels, filtering, stamps."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from robot_mcp_kit.clock import WallClock
from robot_mcp_kit.rcp.errors import ParameterError, RCPError, RCPErrorCode
from robot_mcp_kit.rcp.models import RCPEvent

if TYPE_CHECKING:
    from robot_mcp_kit.rcp.adapter import RCPAdapter

logger = logging.getLogger(__name__)

CHANNELS = ("io_changed", "position_changed", "program_state", "error", "cycle", "safety")
"""The protocol's channels. An adapter may have further ones of its maker's."""
EVERYTHING = "*"
"""Asks for every channel that the adapter declares."""
MAX_CHANNELS = 64
_ALSO_CALLED = {"io": "io_changed", "position": "position_changed", "program": "program_state"}
_EARLIEST_MS = 1e11
"""Early in 1973. What is smaller is no Unix time in milliseconds (it is in seconds, or since boot)."""


def canonical_channel(name: object) -> str:
    """The protocol's name of a channel; its short forms are accepted (R49), other names stay as they are.

    Raises:
        ParameterError: no name.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 64:
        raise ParameterError("channels", f"{str(name)[:80]!r} is no channel; the protocol has {CHANNELS}")
    folded = name.strip().casefold()
    return _ALSO_CALLED.get(folded, folded if folded in CHANNELS else name.strip())


def wanted_channels(adapter: RCPAdapter, channels: object) -> dict[str, str]:
    """The asked channels by the protocol's name, each with the name that the adapter declares it under.

    Raises:
        ParameterError: not a list of names.
        RCPError: the adapter does not have one of them (code 2003); tells which it has.
    """
    if not isinstance(channels, list | tuple) or not channels or len(channels) > MAX_CHANNELS:
        raise ParameterError("channels", f"must be a list of 1 to {MAX_CHANNELS} channel names")
    declared = {canonical_channel(name): name for name in adapter.capabilities().events}
    asked = [canonical_channel(name) for name in channels]
    if EVERYTHING in asked:
        return declared
    unknown = [name for name in asked if name not in declared]
    if unknown:
        has = ", ".join(sorted(declared)) or "none"
        raise RCPError(
            f"channels: this adapter does not have {', '.join(sorted(unknown))}; it has: {has}",
            code=RCPErrorCode.SUBSCRIPTION_FAILED,
            data={"channels": sorted(declared)},
        )
    return {name: declared[name] for name in asked}


def event_stream(
    adapter: RCPAdapter, channels: Iterable[str], *, wall: WallClock = time.time
) -> EventStream | None:
    """The adapter's events of these channels and no others (R47), named as the protocol does, stamped in Unix
    milliseconds (R48).

    Args:
        adapter: asked once.
        channels: as for :func:`wanted_channels`.
        wall: Unix seconds, for events without a usable stamp.

    Returns:
        ``None`` when the adapter has no stream, which is no error.

    Raises:
        ParameterError: see :func:`wanted_channels`.
        RCPError: see :func:`wanted_channels`; or the adapter's ``subscribe`` is written wrongly.
    """
    wanted = wanted_channels(adapter, list(channels))
    source = adapter.subscribe(sorted(wanted.values()))
    if source is None:
        return None
    if inspect.iscoroutine(source):
        source.close()
    if not hasattr(source, "__aiter__"):
        raise RCPError(
            f"{type(adapter).__name__}.subscribe must return an async iterator or None, not "
            f"{type(source).__name__}; an `async def` with `yield` in it does"
        )
    return EventStream(aiter(source), frozenset(wanted), wall)


class EventStream:
    """The filtered events of one subscription. Close it with :meth:`aclose`, read or not."""

    def __init__(self, source: AsyncIterator[RCPEvent], wanted: frozenset[str], wall: WallClock) -> None:
        self._source, self._wanted, self._wall = source, wanted, wall
        self._complained = False

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> RCPEvent:
        while True:
            event = await anext(self._source)
            channel = canonical_channel(event.channel)
            if channel in self._wanted:
                return replace(event, channel=channel, timestamp=self._stamp(event, channel))

    async def aclose(self) -> None:
        """Read no more. Harmless when repeated."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    def _stamp(self, event: RCPEvent, channel: str) -> float:
        stamp = event.timestamp
        if math.isfinite(stamp) and stamp >= _EARLIEST_MS:
            return stamp
        if stamp and not self._complained:
            self._complained = True
            logger.warning("%s: the stamp %r is not in Unix milliseconds", channel, stamp)
        return self._wall() * 1000.0
