"""Inputs and outputs over real rclpy: values, their age, and commands that are seen to have worked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from robot_mcp_kit.errors import ConfigError, GoalFieldError
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.readings import NotKnown

pytestmark = pytest.mark.ros
BOUND_S = 20.0

FILE = """
io:
  DI_door: {kind: digital_input, topic: door, inverted: true}
  AI_tank: {kind: analog_input, topic: tank, type: std_msgs/msg/Float64, range: [4.0, 20.0]}
  DI_latched: {kind: digital_input, topic: latched, latched: true, max_age_s: 1.0e+6}
  DO_lamp: {kind: digital_output, topic: lamp/state, command: {topic: lamp/command}}
  AO_fan:
    kind: analog_output
    topic: fan/state
    type: std_msgs/msg/Float64
    range: [0.0, 255.0]
    command: {topic: fan/command, type: std_msgs/msg/UInt8}
skills:
  set_io: {type: robot_mcp_kit/action/SetOutput, confirm_s: 1.0}
"""


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


class Device:
    """Lamp and fan, and what they were told."""

    def __init__(self, side: Any) -> None:
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from std_msgs.msg import Bool, Float64, UInt8

        self.side, self.commands = side, []
        self.obedient = True
        node = side.node
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.out = {
            "door": node.create_publisher(Bool, "door", 10),
            "tank": node.create_publisher(Float64, "tank", 10),
            "latched": node.create_publisher(Bool, "latched", latched),
            "lamp": node.create_publisher(Bool, "lamp/state", 10),
            "fan": node.create_publisher(Float64, "fan/state", 10),
        }
        self._types = {"door": Bool, "tank": Float64, "latched": Bool, "lamp": Bool, "fan": Float64}
        node.create_subscription(Bool, "lamp/command", lambda m: self._told("lamp", m.data), 10)
        node.create_subscription(UInt8, "fan/command", lambda m: self._told("fan", float(m.data)), 10)

    def _told(self, name: str, value: Any) -> None:
        self.commands.append((name, value))
        if self.obedient:
            self.out[name].publish(self._types[name](data=value))

    async def say(self, name: str, value: Any) -> None:
        await self.side.thread.call(lambda: self.out[name].publish(self._types[name](data=value)))


async def _made(side: Any) -> tuple[Device, Any, Any]:
    from robot_mcp_kit.ros.signals import RosSignals, make_output_port

    config = parse_config(FILE)
    section = config.skills["set_io"]
    assert isinstance(section, SetOutputSection)
    device = await side.thread.call(lambda: Device(side))
    await device.say("latched", True)
    signals = await side.thread.call(lambda: RosSignals(side.node, side.thread, config.io))
    port = await side.thread.call(lambda: make_output_port(side.node, side.thread, config, signals, section))
    await _until(lambda: all(out.get_subscription_count() for out in device.out.values()))
    assert await port.wait_for_server(BOUND_S)
    await _until(lambda: side.node.count_subscribers("fan/command"))
    return device, signals, port


def _known(signals: Any, name: str) -> float | None:
    try:
        return float(signals.value(name))
    except NotKnown:
        return None


async def test_signals_are_told_as_the_protocol_wants_them(ros_side: Any) -> None:
    """R8: 0 or 1, 0.0 to 1.0; what was latched before is heard too."""
    device, signals, _ = await _made(ros_side)
    with pytest.raises(NotKnown, match="nothing was heard on door yet"):
        signals.value("DI_door")
    await device.say("door", True)
    await device.say("tank", 8.0)
    await _until(lambda: _known(signals, "DI_door") is not None and _known(signals, "AI_tank") is not None)
    assert (signals.value("DI_door"), signals.value("AI_tank")) == (0.0, 0.25)
    await _until(lambda: _known(signals, "DI_latched") == 1.0)


async def test_a_signal_that_is_too_old_or_no_number_is_not_known(
    ros_side: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R13."""
    from robot_mcp_kit.ros import signals as module

    device, signals, _ = await _made(ros_side)
    await device.say("tank", 8.0)
    await _until(lambda: _known(signals, "AI_tank") is not None)
    seen = signals.count("AI_tank")
    await device.say("tank", float("nan"))
    await _until(lambda: signals.count("AI_tank") > seen)
    with pytest.raises(NotKnown, match="tank has no value for it"):
        signals.value("AI_tank")
    real = module.time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + 60.0)
    with pytest.raises(NotKnown, match=r"nothing was heard on tank for 6\d\.\d s"):
        signals.value("AI_tank")


async def test_an_output_is_set_and_its_state_confirms_it(ros_side: Any) -> None:
    device, _, port = await _made(ros_side)
    for fields, told in (
        ({"signal": "DO_lamp", "value": 1.0}, ("lamp", True)),
        ({"signal": "AO_fan", "value": 0.5}, ("fan", 128.0)),
    ):
        goal_id = uuid4()
        assert (await port.send_goal(goal_id, fields)).accepted
        result = await asyncio.wait_for(port.get_result(goal_id), BOUND_S)
        assert result.status == GoalStatus.SUCCEEDED
        assert result.result.value == pytest.approx(fields["value"], abs=0.02)
        assert device.commands[-1] == told
    assert (await port.get_result(uuid4())).status == GoalStatus.UNKNOWN


async def test_an_output_that_does_not_follow_is_no_success(ros_side: Any) -> None:
    device, _, port = await _made(ros_side)
    await device.say("lamp", False)
    device.obedient = False
    goal_id = uuid4()
    assert (await port.send_goal(goal_id, {"signal": "DO_lamp", "value": 1.0})).accepted
    result = await asyncio.wait_for(port.get_result(goal_id), BOUND_S)
    assert result.status == GoalStatus.ABORTED
    assert device.commands == [("lamp", True)]


@pytest.mark.parametrize(
    "fields",
    [
        {"signal": "DO_lamp"},
        {"signal": "DO_lamp", "value": float("nan")},
        {"signal": "DO_lamp", "value": 0.5},
        {"signal": "AO_fan", "value": 1.5},
        {"signal": "DI_door", "value": 1.0},
        {"signal": "DO_lamp", "value": 1.0, "more": 1},
    ],
)
async def test_what_is_no_command_is_not_published(ros_side: Any, fields: dict[str, Any]) -> None:
    """R8: also when everything before it let it through."""
    device, _, port = await _made(ros_side)
    with pytest.raises(GoalFieldError):
        port.check_goal(fields)
    with pytest.raises(GoalFieldError):
        await port.send_goal(uuid4(), fields)
    assert device.commands == []


async def test_a_field_that_the_type_has_not_stops_the_start(ros_side: Any) -> None:
    from robot_mcp_kit.ros.signals import RosSignals

    io = parse_config("io:\n  DI: {kind: digital_input, topic: t, field: state}\n").io
    with pytest.raises(ConfigError, match=r"io\.DI\.field: std_msgs/msg/Bool has no state; it has data"):
        await ros_side.thread.call(lambda: RosSignals(ros_side.node, ros_side.thread, io))
