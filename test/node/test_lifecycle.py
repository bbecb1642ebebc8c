"""The node as Nav2 users expect it: managed, configurable, two of them in one graph."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.sim.process import SimProcess

pytestmark = pytest.mark.ros
BOUND_S = 60.0
SAYS_NOTHING = bool(find_spec("rclpy")) and int(version("rclpy").split(".")[0]) < 8
"""Jazzy's rclpy raises where a transition is impossible, and whoever asked for it gets no answer."""
CONFIGURE, CLEANUP, ACTIVATE, DEACTIVATE = 1, 2, 3, 4
SKILLS = Path(__file__).parents[2] / "config" / "skills.yaml"


class Operator:
    """Another node that manages the bridge through its services."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        self.context = rclpy.Context()
        rclpy.init(context=self.context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("operator", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def call(self, service_type: Any, name: str, request: Any) -> Any:
        client = self._clients.setdefault(name, None) or self.node.create_client(service_type, name)
        self._clients[name] = client
        assert client.wait_for_service(BOUND_S), name
        future = client.call_async(request)
        self.executor.spin_until_future_complete(future, 10.0 if SAYS_NOTHING else BOUND_S)
        assert future.done(), name
        return future.result()

    def change(self, transition: int, node: str = "/bridge") -> bool:
        from lifecycle_msgs.srv import ChangeState

        request = ChangeState.Request()
        request.transition.id = transition
        try:
            return bool(self.call(ChangeState, f"{node}/change_state", request).success)
        except AssertionError:
            if not SAYS_NOTHING:
                raise
            return False

    def state(self, node: str = "/bridge") -> str:
        from lifecycle_msgs.srv import GetState

        return str(self.call(GetState, f"{node}/get_state", GetState.Request()).current_state.label)

    def set(self, name: str, value: Any, node: str = "/bridge") -> tuple[bool, str]:
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        (result,) = self.call(SetParameters, f"{node}/set_parameters", request).results
        return result.successful, result.reason

    def describe(self, name: str, node: str = "/bridge") -> Any:
        from rcl_interfaces.srv import DescribeParameters

        request = DescribeParameters.Request(names=[name])
        return self.call(DescribeParameters, f"{node}/describe_parameters", request).descriptors[0]

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def operator(ros_domain_id: int) -> Iterator[Operator]:
    operator = Operator()
    yield operator
    operator.close()


async def _moving(client: Client, task_id: str) -> None:
    async with asyncio.timeout(BOUND_S):
        while True:
            answer = await client.call_tool("get_task", {"task_id": task_id})
            if (json.loads(answer.content[0].text)["progress"] or {}).get("phase") == "executing":
                return
            await asyncio.sleep(0.05)


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("bridge ready "), line
    return line.split()[-1]


async def test_a_managed_node_goes_through_its_states_as_nav2_does(
    slow_robot: Any, start_bridge: Callable[..., Any], operator: Operator
) -> None:
    """B38: unconfigured, inactive (refuses), active, inactive again (stops the robot), cleaned up, back."""
    bridge = start_bridge("--ros-args", "-p", "autostart:=false", ready=False)
    said = await asyncio.to_thread(bridge.process.stdout.readline)
    assert said.strip() == "bridge unconfigured"
    assert await asyncio.to_thread(operator.state) == "unconfigured"
    assert not await asyncio.to_thread(operator.change, ACTIVATE)

    assert await asyncio.to_thread(operator.change, CONFIGURE)
    async with Client(await asyncio.to_thread(_url, bridge.process)) as client:
        refused = await client.call_tool("navigate_to", {"place": "kitchen"})
        assert refused.is_error
        assert refused.structured_content["error"]["error_code"] == "BRIDGE_INACTIVE"

        assert await asyncio.to_thread(operator.change, ACTIVATE)
        assert await asyncio.to_thread(operator.state) == "active"
        started = await client.call_tool("navigate_to", {"place": "kitchen"})
        assert not started.is_error, started.content[0].text
        task_id = started.structured_content["task_id"]
        await _moving(client, task_id)

        slow_robot.faults(refuse_cancel=True)
        assert await asyncio.to_thread(operator.change, DEACTIVATE)
        async with asyncio.timeout(BOUND_S):
            while True:
                answer = await client.call_tool("get_task", {"task_id": task_id})
                info = json.loads(answer.content[0].text)
                if info["state"] != "running":
                    break
                await asyncio.sleep(0.05)
        assert info["state"] == "cancelled"
        assert info["progress"]["stop_confirmed"] is False
        assert (await client.call_tool("navigate_to", {"place": "kitchen"})).is_error
        assert not await asyncio.to_thread(operator.change, CLEANUP), "the robot has refused to stop"
        assert await asyncio.to_thread(operator.state) == "inactive"
        slow_robot.faults(refuse_cancel=False)
        assert (await client.call_tool("stop", {})).structured_content["all_confirmed"]

    async with asyncio.timeout(BOUND_S):
        while not await asyncio.to_thread(operator.change, CLEANUP):
            await asyncio.sleep(0.1)
        assert await asyncio.to_thread(operator.state) == "unconfigured"
        while not await asyncio.to_thread(operator.change, CONFIGURE):
            await asyncio.sleep(0.1)
    async with Client(await asyncio.to_thread(_url, bridge.process)) as client:
        assert (await client.list_tools()).tools
    assert await asyncio.to_thread(bridge.end) == 0
    assert SAYS_NOTHING or "Traceback" not in bridge.log.read_text()


async def test_a_node_that_cannot_be_configured_says_why_and_can_be_mended(
    ros_domain_id: int, start_bridge: Callable[..., Any], operator: Operator, tmp_path: Path
) -> None:
    """B38: configure fails and stays unconfigured; a parameter set right makes it work."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("skils: {}\n")
    bridge = start_bridge("--ros-args", "-p", "autostart:=false", skills=broken, ready=False)
    await asyncio.to_thread(bridge.process.stdout.readline)
    assert not await asyncio.to_thread(operator.change, CONFIGURE)
    assert await asyncio.to_thread(operator.state) == "unconfigured"
    assert "skils" in bridge.log.read_text()
    assert (await asyncio.to_thread(operator.set, "skills_file", str(SKILLS)))[0]
    assert await asyncio.to_thread(operator.change, CONFIGURE)
    await asyncio.to_thread(_url, bridge.process)
    done, reason = await asyncio.to_thread(operator.set, "skills_file", str(broken))
    assert not done
    assert "skills_file" in reason


async def test_a_stop_before_the_node_is_configured_is_kept_for_the_goals_of_before(
    slow_robot: Any, truth: Any, start_bridge: Callable[..., Any], ros_domain_id: int, tmp_path: Path
) -> None:
    """B24, B37: nothing is stopped yet, and the answer says so; later the bridge stops what it adopts."""
    from std_srvs.srv import Trigger

    ledger = ("--ledger", str(tmp_path / "ledger.db"))
    killed = start_bridge(*ledger)
    async with Client(killed.url) as client:
        known = {s["goal_id"] for s in truth.statuses}
        task_id = (await client.call_tool("navigate_to", {"place": "kitchen"})).structured_content["task_id"]
        await asyncio.to_thread(
            truth.wait_for, lambda: {s["goal_id"] for s in truth.statuses if s["status"] == 2} - known
        )
    killed.process.kill()
    killed.process.wait()
    bridge = start_bridge(*ledger, "--ros-args", "-p", "autostart:=false", ready=False)
    assert (await asyncio.to_thread(bridge.process.stdout.readline)).strip() == "bridge unconfigured"
    operator = Operator()  # made now, it never saw the killed node's service
    try:
        said = await asyncio.to_thread(operator.call, Trigger, "/bridge/stop", Trigger.Request())
        assert not said.success
        assert "not configured" in said.message
        assert await asyncio.to_thread(operator.change, CONFIGURE)
        async with Client(await asyncio.to_thread(_url, bridge.process)) as client:
            async with asyncio.timeout(BOUND_S):
                while True:
                    answer = await client.call_tool("get_task", {"task_id": task_id})
                    info = json.loads(answer.content[0].text)
                    if info["state"] != "running":
                        break
                    await asyncio.sleep(0.05)
        assert info["state"] == "cancelled"
        await asyncio.to_thread(truth.wait_for, lambda: truth.statuses[-1]["status"] == 5)
        said = await asyncio.to_thread(operator.call, Trigger, "/bridge/stop", Trigger.Request())
        assert said.success
    finally:
        operator.close()
    assert await asyncio.to_thread(bridge.end) == 0


async def test_parameters_carry_descriptions_and_ranges(bridge: Any, operator: Operator) -> None:
    """B35."""
    port = await asyncio.to_thread(operator.describe, "port")
    assert "TCP port" in port.description
    assert (port.integer_range[0].from_value, port.integer_range[0].to_value) == (0, 65535)
    period = await asyncio.to_thread(operator.describe, "progress_period_s")
    assert period.floating_point_range[0].from_value > 0


async def test_two_robots_in_one_graph_are_driven_apart(
    sim: Any, truth: Any, ros_domain_id: int, start_bridge: Callable[..., Any]
) -> None:
    """B35: by namespace; the other robot does not notice."""
    before = len(truth.statuses)
    with SimProcess(domain_id=ros_domain_id, real_time_factor=6.0, namespace="r2"):
        bridge = start_bridge("--namespace", "r2")
        async with Client(bridge.url) as client:
            started = await client.call_tool("navigate_to", {"place": "office"})
            task_id = started.structured_content["task_id"]
            async with asyncio.timeout(BOUND_S):
                while True:
                    answer = await client.call_tool("get_task", {"task_id": task_id})
                    info = json.loads(answer.content[0].text)
                    if info["state"] != "running":
                        break
                    await asyncio.sleep(0.05)
        assert info["state"] == "succeeded", info
    active = [s for s in truth.statuses[before:] if s["status"] in (1, 2)]
    assert not active, "no goal reached the robot without a namespace"
