"""Real rclpy: scripted action servers in processes of their own, and one rclpy thread for the test."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.sim.domain import isolated_environment

BOUND_S = 30.0


class ScriptedServer:
    """The process of ``scripted_server.py``, driven from the test."""

    def __init__(
        self, action_name: str, domain_id: int, result_timeout_s: int = 10, env: dict[str, str] | None = None
    ) -> None:
        script = Path(__file__).with_name("scripted_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), action_name, str(result_timeout_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=isolated_environment(domain_id) | (env or {}),
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("ready")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()

    def tell(self, **step: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(step) + "\n")
        self.process.stdin.flush()

    def wait_for(self, event: str, **where: Any) -> dict[str, Any]:
        """Blocks until such an event was printed; bounded."""

        def found() -> dict[str, Any] | None:
            return next(
                (
                    e
                    for e in self.events
                    if e["event"] == event and all(e.get(k) == v for k, v in where.items())
                ),
                None,
            )

        with self._news:
            assert self._news.wait_for(found, BOUND_S), f"no {event} {where} among {self.events}"
        result = found()
        assert result is not None
        return result

    async def wait(self, event: str, **where: Any) -> dict[str, Any]:
        return await asyncio.to_thread(lambda: self.wait_for(event, **where))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._reader.join(5)


@pytest.fixture(scope="module")
def scripted_server(ros_domain_id: int, request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    server = ScriptedServer(f"/{request.module.__name__.split('.')[-1]}", ros_domain_id)
    yield server
    server.close()


@pytest.fixture
def start_server(ros_domain_id: int) -> Iterator[Callable[..., ScriptedServer]]:
    """Starts further servers, ended with the test."""
    servers: list[ScriptedServer] = []

    def start(action_name: str, **options: Any) -> ScriptedServer:
        servers.append(ScriptedServer(action_name, ros_domain_id, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class RosSide:
    """A node on an rclpy thread of its own, for one test."""

    def __init__(self, name: str) -> None:
        import rclpy
        from rclpy.signals import SignalHandlerOptions

        from robot_mcp_kit.ros.action_port import RosActionPorts
        from robot_mcp_kit.ros.thread import RosThread

        self.context = rclpy.Context()
        rclpy.init(context=self.context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(name, context=self.context)
        self.deaths: list[str] = []
        self.thread = RosThread(
            self.context, self.node, asyncio.get_running_loop(), on_death=self.deaths.append
        )
        self.thread.start()
        self.ports = RosActionPorts(self.node, self.thread)

    def close(self) -> None:
        self.thread.stop()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
async def ros_side(ros_domain_id: int) -> AsyncIterator[RosSide]:
    side = RosSide("test_client")
    yield side
    side.close()
