"""A ROS 2 robot's adapter through the kit for adapter authors: real rclpy, a robot in another process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from robot_mcp_kit.bridge.base import ActionPort, ActionPorts
from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.rcp import RCPAdapter, TCPPosition
from robot_mcp_kit.rcp.bridged import BridgeAdapter
from robot_mcp_kit.sim.process import SimProcess
from robot_mcp_kit.skills.config import load_config
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.readings import Description, NotKnown, RobotReadings, ToolPose
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.tasks import TaskManager
from robot_mcp_kit.testing import CollectingPoster
from robot_mcp_kit.testing.adapter_conformance import AdapterConformance
from robot_mcp_kit.testing.eventually import assert_eventually
from robot_mcp_kit.testing.open_guard import open_guard

pytestmark = [pytest.mark.ros, pytest.mark.timeout(120)]
TEMPLATE = Path(__file__).parents[2] / "config" / "skills.yaml"


class Graph:
    """One node for all checks: discovery takes longest, and each check makes everything else anew."""

    context: ClassVar[Any] = None
    node: ClassVar[Any] = None


@pytest.fixture(scope="module", autouse=True)
def robot(ros_domain_id: int) -> Iterator[SimProcess]:
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    with SimProcess(domain_id=ros_domain_id, real_time_factor=2.0) as process:
        Graph.context = rclpy.Context()
        rclpy.init(context=Graph.context, signal_handler_options=SignalHandlerOptions.NO)
        Graph.node = rclpy.create_node("conformance", context=Graph.context)
        yield process
        Graph.node.destroy_node()
        Graph.context.try_shutdown()


class _Late(RobotReadings, ActionPorts):
    """What the node prepares, there while the adapter is connected."""

    def __init__(self) -> None:
        self.readings: Any = None
        self.ports: Any = None

    def _read(self) -> Any:
        if self.readings is None:
            raise NotKnown("not connected")
        return self.readings

    def description(self) -> Description:
        found: Description = self._read().description()
        return found

    def joints(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self._read().joints()
        return found

    def tool(self) -> ToolPose:
        found: ToolPose = self._read().tool()
        return found

    def signal(self, name: str) -> float:
        return float(self._read().signal(name))

    def port(self, action_name: str, action_type: str) -> ActionPort:
        if self.ports is None:
            raise LookupError("not connected")
        found: ActionPort = self.ports.port(action_name, action_type)
        return found

    def action_names(self) -> list[str]:
        return [] if self.ports is None else list(self.ports.action_names())


class OverRos(BridgeAdapter):
    """The adapter as the node has it, with a node of its own that comes and goes with the connection."""

    def __init__(self) -> None:
        self._file = load_config(TEMPLATE)
        assert self._file.rcp is not None
        self._late, skills = _Late(), build_skills(self._file)
        self._tasks = TaskManager("robot", CollectingPoster())
        guard = open_guard(self._file, skills)
        self._own = Bridge(self._tasks, self._late, self._file, guard=guard, skills=skills)
        super().__init__(self._file, self._file.rcp, self._own, self._tasks, self._late)
        self._thread: Any = None
        self._closing = contextlib.ExitStack()

    async def connect(self, config: dict[str, Any]) -> None:
        from robot_mcp_kit.ros.action_port import RosActionPorts
        from robot_mcp_kit.ros.readings import RosReadings
        from robot_mcp_kit.ros.signals import RosSignals, make_output_port
        from robot_mcp_kit.ros.thread import RosThread

        node = Graph.node
        thread = self._thread = RosThread(Graph.context, node, asyncio.get_running_loop())
        thread.start()

        def make() -> None:
            assert self._file.rcp is not None
            signals = RosSignals(node, thread, self._file.io)
            ports = RosActionPorts(node, thread)
            for name, skill in self._own.skills.items():
                section = self._file.skills[name]
                if isinstance(section, SetOutputSection):
                    ports.add_outputs(make_output_port(node, thread, self._file, signals, section))
                else:
                    ports.add(skill.action_name, skill.action_type, skill.stop_topic)
            readings = RosReadings(node, thread, self._file.rcp, signals)
            self._late.readings, self._late.ports = readings, ports
            for closing in (ports.close, readings.close, signals.close):
                self._closing.callback(closing)

        await thread.call(make)
        await assert_eventually(self._heard)
        await super().connect(config)

    def _heard(self) -> bool:
        """Every source has said something."""
        self._late.description(), self._late.joints(), self._late.tool()
        return not self.silent_signals()

    async def disconnect(self) -> None:
        await super().disconnect()
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await self._own.stop("the adapter disconnects")
        await thread.call(self._closing.close)
        self._late.readings = self._late.ports = None
        await asyncio.to_thread(thread.stop)


class TestRosAdapter(AdapterConformance):
    """R6-R16, R28, R45-R49 over real rclpy; the robot moves."""

    may_actuate = True
    within_s = 30.0
    far_pose = TCPPosition(650.0, -250.0, 600.0, 0.0, 0.0, 0.0)
    arrives_within_mm = 5.0
    output = "DO_lamp"

    def make_adapter(self) -> RCPAdapter:
        return OverRos()
