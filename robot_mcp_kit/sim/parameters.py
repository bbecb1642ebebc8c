"""The simulator's ROS parameters: start values (read only) and faults (at any time)."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String
from std_srvs.srv import Trigger

from robot_mcp_kit.sim import faults
from robot_mcp_kit.sim.world import World

DEFAULT_TREE = "navigate_to_pose_w_replanning_and_recovery.xml"


@dataclass(frozen=True, slots=True)
class Start:
    """One start parameter: default, description, and for numbers the range."""

    default: Any
    text: str
    low: float = 0.0
    high: float = 0.0


START: dict[str, Start] = {
    "real_time_factor": Start(
        1.0, "Simulation seconds per wall second; /clock is published unless 1.", 0.1, 50.0
    ),
    "feedback_hz": Start(
        100.0, "Feedback rate of the navigators (simulation time; wall rate ≤ 100 Hz).", 0.5, 100.0
    ),
    "start_x_m": Start(1.5, "Start position, frame map (m).", 0.0, 12.0),
    "start_y_m": Start(4.0, "Start position, frame map (m).", 0.0, 8.0),
    "start_yaw_rad": Start(0.0, "Start heading, frame map (rad).", -3.1416, 3.1416),
    "seed": Start(0, "Seed of all noise.", 0, 2**31 - 1),
    "localization_noise_m": Start(0.0, "Standard deviation of amcl_pose's position (m).", 0.0, 1.0),
    "battery_percentage": Start(0.85, "Charge at the start, 0..1.", 0.0, 1.0),
    "recovery_retries": Start(6, "How many recoveries a navigator tries before it gives up.", 0, 100),
    "result_timeout_s": Start(10, "How long results are kept after the end of a goal (wall s).", 0, 86400),
    "behavior_trees": Start(
        [DEFAULT_TREE], "File names of the behavior trees that exist; the first is the default."
    ),
}


def _descriptor(name: str, start: Start) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(name=name, description=start.text, read_only=True)
    if start.high and isinstance(start.default, float):
        descriptor.floating_point_range = [FloatingPointRange(from_value=start.low, to_value=start.high)]
    elif start.high:
        descriptor.integer_range = [IntegerRange(from_value=int(start.low), to_value=int(start.high))]
    return descriptor


def declare_start(node: Node) -> dict[str, Any]:
    """Declare the start parameters and return their values.

    Raises:
        rclpy.exceptions.InvalidParameterValueException: out of range; names the parameter.
    """
    return {
        name: node.declare_parameter(name, start.default, _descriptor(name, start)).value
        for name, start in START.items()
    }


class FaultSwitches:
    """Faults by parameter, by topic (``~/faults``, JSON) and by service (``~/reset_faults``)."""

    def __init__(self, node: Node, world: World) -> None:
        self._node = node
        self._world = world
        self._objects = {spec.name: spec for spec in world.plan.objects}
        self._bomb: threading.Timer | None = None
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)
        for name in faults.FIELDS:
            default = faults.default(name)
            # An empty list has no element type, so the lists accept any type and are checked here.
            dynamic = isinstance(default, list)
            descriptor = ParameterDescriptor(
                name=name, description=faults.help_text(name), dynamic_typing=dynamic
            )
            node.declare_parameter(name, [""] if dynamic else default, descriptor)
        node.create_subscription(String, "~/faults", self._on_topic, 10)
        node.create_service(Trigger, "~/reset_faults", self._on_reset)

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(faults.default(name), float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        return faults.checked(name, value, doors=self._world.plan.doors, objects=self._objects)

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name in faults.FIELDS:
                try:
                    self._value(parameter.name, parameter.value)
                except ValueError as error:
                    return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        changes = {p.name: self._value(p.name, p.value) for p in parameters if p.name in faults.FIELDS}
        if not changes:
            return
        self._world.apply_faults(changes)
        if "die_after_s" in changes:
            self._arm_bomb(changes["die_after_s"])

    def _arm_bomb(self, after_s: float) -> None:
        if self._bomb is not None:
            self._bomb.cancel()
            self._bomb = None
        if after_s > 0:
            self._bomb = threading.Timer(after_s, os._exit, args=(9,))
            self._bomb.daemon = True
            self._bomb.start()

    def set(self, values: dict[str, Any]) -> list[str]:
        """Set several switches; returns the reasons of those that were refused."""
        problems = [f"{name}: no such fault" for name in values if name not in faults.FIELDS]
        wanted = []
        for name, value in values.items():
            if name in faults.FIELDS:
                default = faults.default(name)
                if isinstance(default, list) and value == []:
                    value = [""]
                elif isinstance(default, float) and type(value) is int:
                    value = float(value)
                wanted.append(Parameter(name, value=value))
        for result in self._node.set_parameters(wanted):
            if not result.successful:
                problems.append(result.reason)
        return problems

    def _on_topic(self, message: String) -> None:
        try:
            values = json.loads(message.data)
            if not isinstance(values, dict):
                raise TypeError("not an object")
            problems = self.set(values)
        except (ValueError, TypeError) as error:
            problems = [f"~/faults wants a JSON object of fault names and values: {error}"]
        for problem in problems:
            self._node.get_logger().error(problem)

    def _on_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        problems = self.set(dict(faults.HEALTHY))
        response.success = not problems
        response.message = "; ".join(problems) or "all faults are off"
        return response
