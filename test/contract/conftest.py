"""A manager whose events are kept instead of sent, and a poster whose network is a function."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings

from robot_mcp_kit import EventPoster, TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock

# A busy machine is no failure; HYPOTHESIS_PROFILE=thorough is for the long run before a release.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "thorough", max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SECRET = "s3cret"
URL = "http://127.0.0.1:9/api/agent/events"


@dataclass
class Endpoint:
    """The receiver's side of an injected transport. ``answer`` decides; every request is kept."""

    clock: FakeClock
    answer: Callable[[httpx.Request], httpx.Response | Exception] = lambda request: httpx.Response(202)
    requests: list[httpx.Request] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.times_s.append(self.clock.now())
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    def poster(self, name: str = "navigation", **options: Any) -> EventPoster:
        options.setdefault("clock", self.clock)
        options.setdefault("wall_clock", self.clock.wall)
        return EventPoster(name, URL, SECRET, transport=httpx.MockTransport(self.handle), **options)


@pytest.fixture
def poster() -> CollectingPoster:
    return CollectingPoster()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def endpoint(clock: FakeClock) -> Endpoint:
    return Endpoint(clock)


@pytest.fixture
async def manager(poster: CollectingPoster) -> AsyncIterator[TaskManager]:
    manager = TaskManager("navigation", poster, cancel_grace_s=2.0)
    yield manager
    await manager.aclose()
