"""What exists while the node is configured: tasks, events, bridge and endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
from collections.abc import Callable

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import LedgerError
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.node.prepared import Prepared
from robot_mcp_kit.node.settings import END_GRACE_S, EVENTS_GRACE_S
from robot_mcp_kit.ros.diagnostics import Diagnostics
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.ros.thread import RosGoneError
from robot_mcp_kit.ros.topics import TaskTopics
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

ENDPOINT = "robot_mcp_kit.node.endpoint"
HEAD_START_S = 0.5
"""So long the chat app is told about followed goals before the imports of the endpoint slow that down."""
INACTIVE = TaskFailure(
    error_code="BRIDGE_INACTIVE",
    message="The bridge node is not active, so nothing is started. An operator has to activate it.",
    recoverable=True,
    suggestions=["ask_person"],
)


class Session:
    """Runs from :meth:`start` to :meth:`close`, both on the loop; built on the rclpy thread.

    Args:
        on_end: told on the loop when the session ends by itself: ``None`` for an orderly end (the stdio
            client left), or the exception.
        active: skills may start from the first moment on.
    """

    def __init__(
        self,
        ros: RosSide,
        prepared: Prepared,
        *,
        on_end: Callable[[BaseException | None], None],
        active: bool = False,
    ) -> None:
        self.prepared = prepared
        self.bridge: Bridge | None = None
        self.follows = False
        """Whether what an earlier process left is followed, so that a stop reaches it."""
        self._stop_asked: str | None = None
        """A stop that came before that."""
        self._ros = ros
        self._on_end = on_end
        self._active = active
        self._closing = asyncio.Event()
        self._open: asyncio.Event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stops: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="session")
        self._task.add_done_callback(self._ended)

    async def opened(self) -> None:
        """Wait until the endpoint answers (or the session failed)."""
        if self._task is None:
            raise RuntimeError("the session was not started")
        waiting = asyncio.ensure_future(self._open.wait())
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def activate(self) -> None:
        """Let skills start."""
        self._active = True
        if self.bridge is not None:
            self.bridge.refusing = None

    def deactivate(self) -> None:
        """Start nothing more and stop what runs."""
        self._active = False
        if self.bridge is not None:
            self.bridge.refusing = INACTIVE
        self.stop("the node was deactivated")

    def stop(self, reason: str) -> None:
        """Stop every motion; does not wait for the confirmations.

        While the session starts, this is remembered until the goals of before are followed.
        """
        if self.bridge is None or not self.follows:
            logger.warning("stop (%s): as soon as the goals of before are followed", reason)
            self._stop_asked = reason
            return
        task = asyncio.create_task(self.bridge.stop(reason))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    def is_moving(self) -> bool:
        """Whether a goal of ours may still run."""
        return self.bridge is not None and bool(self.bridge.glance())

    async def close(self) -> None:
        """End everything: motions first, then connections, then what is not delivered yet (bounded)."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if not self._closing.is_set():
            self._on_end(error)
        elif error is not None:
            logger.error("the session did not end in order", exc_info=error)

    async def _run(self) -> None:
        settings, config = self.prepared.settings, self.prepared.config
        memory = self.prepared.memory
        ledger = None if memory is None else memory.ledger
        # What an earlier process did not deliver leaves first; an adopted task's new events come behind it.
        outbox = None if memory is None else memory.outbox
        poster = EventPoster(settings.server_name, outbox=outbox, close_grace_s=EVENTS_GRACE_S)
        manager = TaskManager(settings.server_name, poster, journal=ledger)
        bridge = Bridge(
            manager,
            self.prepared.ports,
            config,
            guard=self.prepared.guard.guard,
            settings=settings.bridge,
            skills=self.prepared.skills,
            routines=self.prepared.routines,
            world=self.prepared.world,
            ledger=ledger,
        )
        bridge.refusing = None if self._active else INACTIVE
        self.bridge = bridge
        node, thread = self._ros.node, self._ros.thread
        topics = TaskTopics(node, thread, manager)

        def running() -> int:
            """On the rclpy thread. What ended before it began is cleared away on the loop."""
            thread.hand_over(bridge.running)
            return len(bridge.glance())

        diagnostics = Diagnostics(node, thread, self.prepared.ports, poster, running)
        try:
            await topics.open()
            await diagnostics.open()
            if await self._adopt(bridge):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(poster.drain(), HEAD_START_S)
            # A third of all imports: the robot's goals are followed first, clients can wait.
            endpoint = await asyncio.to_thread(importlib.import_module, ENDPOINT)
            # What is here by now stays. Looked through for garbage again and again, it would hold everything
            # up for a tenth of a second each time, a stop as well.
            gc.freeze()
            await endpoint.serve(self.prepared, bridge, manager, opened=self._open, closing=self._closing)
        finally:
            await manager.aclose(END_GRACE_S)
            await bridge.aclose()
            await self.prepared.guard.guard.aclose()
            with contextlib.suppress(RosGoneError):
                await thread.call(diagnostics.close)
                await thread.call(topics.close)
            await poster.aclose()

    async def _adopt(self, bridge: Bridge) -> list[str]:
        """Before the endpoint opens: nobody may start or ask for anything that is not known yet."""
        try:
            followed = await bridge.adopt()
        except LedgerError as error:
            raise ConfigError(f"parameter ledger_file: {error}") from error
        self.follows = True
        if self._stop_asked is not None:
            self.stop(self._stop_asked)
        if followed:
            logger.warning("following %d goals of before: %s", len(followed), ", ".join(followed))
        return followed
