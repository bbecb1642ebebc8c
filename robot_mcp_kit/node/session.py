"""What exists while the node is configured: tasks, events, bridge and endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.bridge.ledger import LedgerError
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.node.guarding import NodeGuard, make_guard
from robot_mcp_kit.node.rcp import NodeRcp, make_rcp
from robot_mcp_kit.node.settings import NodeSettings
from robot_mcp_kit.outbox_sqlite import SqliteOutbox
from robot_mcp_kit.rcp.bridged.robot import BridgedRobot
from robot_mcp_kit.ros.action_port import RosActionPorts
from robot_mcp_kit.ros.diagnostics import Diagnostics
from robot_mcp_kit.ros.graph import RosActionGraph
from robot_mcp_kit.ros.pose import POSE_READERS, PoseReader
from robot_mcp_kit.ros.schema import RosGoalSchema
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.ros.signals import RosSignals, make_output_port
from robot_mcp_kit.ros.topics import TaskTopics
from robot_mcp_kit.ros.world import RosWorld
from robot_mcp_kit.safety.state_dir import announce, state_directory, withdraw
from robot_mcp_kit.server.app import MCP_PATH, build_app, build_mcp_server
from robot_mcp_kit.server.auth import check_exposure
from robot_mcp_kit.server.handles import Handles, load_key
from robot_mcp_kit.server.operator import OperatorAccess, OperatorApi, host_names
from robot_mcp_kit.server.promcp.profiles import Profile, build_profiles
from robot_mcp_kit.server.promcp.surface import ProMcpSurface
from robot_mcp_kit.server.serve import bind, serving
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig, load_config
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.discovery import ActionCatalog
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.sqlite_file import SqliteFile
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

INACTIVE = TaskFailure(
    error_code="BRIDGE_INACTIVE",
    message="The bridge node is not active, so nothing is started. An operator has to activate it.",
    recoverable=True,
    suggestions=["ask_person"],
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What outlives the process: goals and tasks, and events that were not delivered, in one file."""

    file: SqliteFile
    ledger: SqliteLedger
    outbox: SqliteOutbox


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that can be refused, made before anything runs."""

    settings: NodeSettings
    config: RobotConfig
    skills: dict[str, Skill]
    ports: RosActionPorts
    where: PoseReader
    catalog: ActionCatalog | None
    """What the graph offers, where the skills file says ``discover: true``."""
    listener: socket.socket | None
    """The endpoint's socket; ``None`` with stdio."""
    guard: NodeGuard
    routines: dict[str, Routine]
    world: RosWorld
    signals: RosSignals
    rcp: NodeRcp | None
    profiles: list[Profile]
    """Of the proMCP surface; none without that section."""
    handle_key: bytes | None
    """Signs the handles; kept beside the ledger, so that they outlive the process where tasks do."""
    memory: Memory | None = None
    """``None``: nothing outlives the process."""

    def release(self) -> None:
        """Give the files, the socket and the ROS entities back. On the rclpy thread."""
        self.guard.release()
        if self.memory is not None:
            self.memory.file.close()
        if self.listener is not None:
            self.listener.close()
        self.world.close()
        if self.rcp is not None:
            self.rcp.readings.close()
        self.signals.close()
        self.where.close()
        self.ports.close()


def prepare(ros: RosSide, settings: NodeSettings) -> Prepared:
    """Check and create what a session needs. On the rclpy thread.

    Raises:
        ConfigError: the settings, the skills file, the ledger file, or the address cannot be used.
        LookupError: an action type is not installed.
    """
    check_exposure(settings.host, settings.token)
    config = load_config(settings.skills_file)
    listener = None if settings.stdio else bind(settings.host, settings.port)
    with contextlib.ExitStack() as undo:
        if listener is not None:
            undo.callback(listener.close)
        memory = _open_memory(settings, ros.node.get_fully_qualified_name())
        if memory is not None:
            undo.callback(memory.file.close)
        where = POSE_READERS[config.robot.pose.source](ros.node, ros.thread, config.robot)
        undo.callback(where.close)
        ports = RosActionPorts(ros.node, ros.thread)
        undo.callback(ports.close)
        types = RosGoalSchema()
        skills = build_skills(config, where.pose, types)
        routines = build_routines(config)
        world = RosWorld(ros.node, ros.thread, config, where)
        undo.callback(world.close)
        signals = RosSignals(ros.node, ros.thread, config.io)
        undo.callback(signals.close)
        for name, skill in skills.items():
            section = config.skills[name]
            if isinstance(section, SetOutputSection):
                ports.add_outputs(make_output_port(ros.node, ros.thread, config, signals, section))
            else:
                ports.add(skill.action_name, skill.action_type, skill.stop_topic)  # discovery begins now
        rcp = make_rcp(ros, config, {**skills, **routines}, signals)
        if rcp is not None:
            undo.callback(rcp.readings.close)
        profiles = build_profiles(config, {**skills, **routines})
        name = ros.node.get_fully_qualified_name()
        secrets = [
            secret.get_secret_value()
            for secret in (settings.token, settings.observer_token, settings.approval_secret)
            if secret
        ]
        guard = make_guard(ros, config, skills, where, state_directory(settings.state_dir, name), secrets)
        undo.callback(guard.release)
        handle_key = None if settings.ledger_file is None else load_key(_key_file(settings.ledger_file))
        undo.pop_all()
    catalog = ActionCatalog(config, RosActionGraph(ros.node), types) if config.discover else None
    return Prepared(
        settings=settings,
        config=config,
        skills=skills,
        ports=ports,
        where=where,
        catalog=catalog,
        listener=listener,
        guard=guard,
        routines=routines,
        world=world,
        profiles=profiles,
        signals=signals,
        rcp=rcp,
        handle_key=handle_key,
        memory=memory,
    )


def _key_file(ledger_file: Path) -> Path:
    return ledger_file.with_name(f"{ledger_file.name}.handle-key")


def _open_memory(settings: NodeSettings, owner: str) -> Memory | None:
    if settings.ledger_file is None:
        return None
    try:
        file = SqliteFile(settings.ledger_file, sync=settings.ledger_sync, owner=owner)
        try:
            return Memory(file, SqliteLedger(file), SqliteOutbox(file))
        except BaseException:
            file.close()
            raise
    except ConfigError as error:
        raise ConfigError(f"parameter ledger_file: {error}") from error


class Session:
    """Runs from :meth:`start` to :meth:`close`, both on the loop; built on the rclpy thread.

    Args:
        on_end: told on the loop when the session ends by itself: ``None`` for an orderly end (the stdio
            client left), or the exception.
    """

    def __init__(
        self, ros: RosSide, prepared: Prepared, *, on_end: Callable[[BaseException | None], None]
    ) -> None:
        self.prepared = prepared
        self.bridge: Bridge | None = None
        self._ros = ros
        self._on_end = on_end
        self._rcp: BridgedRobot | None = None
        self._active = False
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
        """Stop every motion; does not wait for the confirmations."""
        if self.bridge is None:
            return
        task = asyncio.create_task(self.bridge.stop(reason))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    def is_moving(self) -> bool:
        """Whether a goal of ours may still run."""
        return self.bridge is not None and bool(self.bridge.running())

    async def close(self) -> None:
        """End everything: motions first, then connections, then what is not delivered yet (bounded)."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._closing.is_set():
            self._on_end(None if task.cancelled() else task.exception())

    async def _run(self) -> None:
        settings, config = self.prepared.settings, self.prepared.config
        memory = self.prepared.memory
        ledger = None if memory is None else memory.ledger
        # What an earlier process did not deliver leaves first; an adopted task's new events come behind it.
        poster = EventPoster(settings.server_name, outbox=None if memory is None else memory.outbox)
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
        diagnostics = Diagnostics(node, thread, self.prepared.ports, poster, lambda: len(bridge.running()))
        try:
            await topics.open()
            await diagnostics.open()
            await self._adopt(bridge)
            await self._serve(bridge, manager)
        finally:
            if self._rcp is not None:
                await self._rcp.aclose()
            await manager.aclose()
            await bridge.aclose()
            await self.prepared.guard.guard.aclose()
            await thread.call(diagnostics.close)
            await thread.call(topics.close)
            await poster.aclose()

    async def _adopt(self, bridge: Bridge) -> None:
        """Before the endpoint opens: nobody may start or ask for anything that is not known yet."""
        try:
            followed = await bridge.adopt()
        except LedgerError as error:
            raise ConfigError(f"parameter ledger_file: {error}") from error
        if followed:
            logger.warning("following %d goals of before: %s", len(followed), ", ".join(followed))

    async def _serve(self, bridge: Bridge, manager: TaskManager) -> None:
        settings, catalog = self.prepared.settings, self.prepared.catalog

        async def closed() -> None:
            await self._closing.wait()
            # Motions end before connections do: nobody would be left to stop them.
            await manager.aclose()

        handles = Handles(manager, saved=bridge.ledger.saved_task, key=self.prepared.handle_key)
        config, told = self.prepared.config, self.prepared.rcp
        rcp = self._rcp = None if told is None else await told.robot(config, bridge, manager)
        rcp_actions = told is not None and told.actions
        if self.prepared.listener is None:
            if self.prepared.profiles:
                logger.warning("promcp: the profiles are served over HTTP only, not with stdio")
            server = build_mcp_server(
                bridge,
                manager,
                name=settings.server_name,
                catalog=catalog,
                handles=handles,
                config=config,
                rcp=rcp,
                rcp_actions=rcp_actions,
            )
            async with self._operator_only():
                talking = asyncio.create_task(server.run_stdio_async(), name="stdio")
                ending = asyncio.create_task(closed(), name="close")
                self._open.set()
                done, pending = await asyncio.wait({talking, ending}, return_when=asyncio.FIRST_COMPLETED)
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
                for task in done:
                    task.result()
            return
        listener = self.prepared.listener
        port = int(listener.getsockname()[1])
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        base = f"http://{shown}:{port}"
        url = f"{base}{MCP_PATH}"
        server = build_mcp_server(
            bridge,
            manager,
            name=settings.server_name,
            token=settings.token,
            observer_token=settings.observer_token,
            url=url,
            catalog=catalog,
            handles=handles,
            config=config,
            rcp=rcp,
            rcp_actions=rcp_actions,
        )
        operator = self._operator_api(host_names(settings.host, port, settings.allowed_hosts))
        promcp = self._promcp(bridge, manager, base)
        app = build_app(
            server,
            host=settings.host,
            port=port,
            allowed_hosts=settings.allowed_hosts,
            operator=operator,
            promcp=promcp,
        )
        async with serving(app, listener), self._announced(_reachable(settings.host), port):
            logger.info("%s answers MCP at %s", self.prepared.config.robot.name, url)
            for path in [] if promcp is None else promcp.paths:
                logger.info("proMCP at %s%s", base, path)
            print(f"bridge ready {url}", flush=True)
            self._open.set()
            await closed()
            if promcp is not None:
                await promcp.aclose()

    def _promcp(self, bridge: Bridge, manager: TaskManager, base: str) -> ProMcpSurface | None:
        settings, prepared = self.prepared.settings, self.prepared
        if not prepared.profiles:
            return None
        return ProMcpSurface(
            bridge,
            manager,
            prepared.config,
            prepared.profiles,
            name=settings.server_name,
            token=settings.token,
            observer_token=settings.observer_token,
            url=base,
        )

    def _operator_api(self, hosts: frozenset[str]) -> OperatorApi:
        held, secret = self.prepared.guard, self.prepared.settings.approval_secret
        return OperatorApi(held.guard, OperatorAccess(held.operator_key, secret, hosts))

    @contextlib.asynccontextmanager
    async def _operator_only(self) -> AsyncIterator[None]:
        """With stdio there is no endpoint; the operator's API gets one of its own, on this machine only."""
        listener = bind("127.0.0.1", 0)
        try:
            port = int(listener.getsockname()[1])
            app = Starlette(routes=self._operator_api(host_names("127.0.0.1", port)).routes())
            async with serving(app, listener), self._announced("127.0.0.1", port):
                yield
        finally:
            listener.close()

    @contextlib.asynccontextmanager
    async def _announced(self, host: str, port: int) -> AsyncIterator[None]:
        """While this holds, the operator's tools find the node by its state directory."""
        state_dir = self.prepared.guard.state_dir
        announce(state_dir, f"http://{host}:{port}")
        try:
            yield
        finally:
            withdraw(state_dir)


def _reachable(host: str) -> str:
    """An address of this machine to reach what listens on ``host``."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on
    return f"[{host}]" if ":" in host else host
