"""Events: which channels, which names, which stamps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from robot_mcp_kit.rcp import AdapterCapabilities, ParameterError, RCPError, RCPErrorCode, RCPEvent
from robot_mcp_kit.rcp.events import CHANNELS, canonical_channel, event_stream, wanted_channels

from .probe import Probe

NOW_S = 1_765_532_000.25


class Source(Probe):
    """Yields what it is given, whatever was asked for."""

    def __init__(self, *events: RCPEvent, declared: Sequence[str] = CHANNELS) -> None:
        super().__init__()
        self.can = AdapterCapabilities(events=list(declared), streaming=True)
        self.events, self.asked, self.closed = events, list[str](), False

    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        self.asked = list(channels)
        return self._stream()

    async def _stream(self) -> AsyncIterator[RCPEvent]:
        try:
            for event in self.events:
                yield event
        finally:
            self.closed = True


async def got(source: Source, *channels: str) -> list[RCPEvent]:
    stream = event_stream(source, channels, wall=lambda: NOW_S)
    assert stream is not None
    return [event async for event in stream]


async def test_only_what_was_asked_for_comes() -> None:
    """R47: whatever the adapter yields."""
    source = Source(*(RCPEvent(channel, {"n": n}) for n, channel in enumerate(CHANNELS)))
    events = await got(source, "safety", "cycle")
    assert [event.channel for event in events] == ["cycle", "safety"]
    assert source.asked == ["cycle", "safety"]


async def test_no_stream_is_no_error() -> None:
    """R47."""
    assert event_stream(Probe(), ["io"]) is None


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("io", "io_changed"),
        ("position", "position_changed"),
        ("program", "program_state"),
        ("safety", "safety"),
        ("error", "error"),
        ("cycle", "cycle"),
        ("IO", "io_changed"),
        (" io_changed ", "io_changed"),
        ("Program_State", "program_state"),
        ("acme.weld_arc", "acme.weld_arc"),
    ],
)
async def test_both_lists_of_names_are_understood_and_one_is_emitted(name: str, channel: str) -> None:
    """R49: what a client asks for, what an adapter declares and what it emits."""
    assert canonical_channel(name) == channel
    source = Source(RCPEvent(name, {"a": 1}), declared=[name])
    for asked in (name, channel):
        (event,) = await got(source, asked)
        assert event.channel == channel
        assert source.asked == [name]


@pytest.mark.parametrize("name", [None, "", "  ", "a\nb", "x" * 65, 7, ["io"]])
def test_what_is_no_name_is_no_channel(name: Any) -> None:
    """R49."""
    with pytest.raises(ParameterError, match="channels"):
        canonical_channel(name)


def test_a_channel_that_the_adapter_does_not_have_is_refused_with_those_it_has() -> None:
    """R47."""
    with pytest.raises(RCPError, match="io_changed, safety") as caught:
        wanted_channels(Source(declared=["io", "safety"]), ["cycle"])
    assert caught.value.code is RCPErrorCode.SUBSCRIPTION_FAILED
    assert wanted_channels(Source(declared=["io", "safety"]), ["*"]) == {
        "io_changed": "io",
        "safety": "safety",
    }


@pytest.mark.parametrize(
    ("stamp", "told"),
    [
        (1_765_532_000_123.0, 1_765_532_000_123.0),
        (0.0, NOW_S * 1000.0),
        (1_765_532_000.0, NOW_S * 1000.0),
        (12.5, NOW_S * 1000.0),
        (-5.0, NOW_S * 1000.0),
        (math.nan, NOW_S * 1000.0),
        (math.inf, NOW_S * 1000.0),
    ],
)
async def test_stamps_are_unix_milliseconds(stamp: float, told: float) -> None:
    """R48: what is none is stamped on arrival."""
    (event,) = await got(Source(RCPEvent("cycle", {}, stamp)), "cycle")
    assert event.timestamp == told


async def test_the_adapters_stream_is_closed_with_the_readers() -> None:
    """R47."""
    source = Source(*(RCPEvent("cycle", {"n": n}) for n in range(3)))
    stream = event_stream(source, ["cycle"])
    assert stream is not None
    async for _ in stream:
        break
    await stream.aclose()
    assert source.closed


async def test_a_subscribe_that_is_written_wrongly_is_named() -> None:
    """R47."""

    class Wrong(Source):
        async def subscribe(self, channels: Sequence[str]) -> Any:  # type: ignore[override]
            return self._stream()

    with pytest.raises(RCPError, match=r"Wrong\.subscribe must return an async iterator"):
        event_stream(Wrong(), ["cycle"])
    await asyncio.sleep(0)


def test_an_event_is_plain_data() -> None:
    """R48."""
    event = RCPEvent("safety", {"a": [1]}, 1.0)
    assert event.to_dict() == {"channel": "safety", "data": {"a": [1]}, "timestamp": 1.0}
