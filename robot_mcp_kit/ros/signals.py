"""The robot's inputs and outputs over ROS topics: reading them, and the port that sets one for the bridge.

A command leaves only in :meth:`OutputPort.send_goal`, which the bridge calls with what the guard permitted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from robot_mcp_kit.bridge.base import ActionPort, CancelReply, GoalResponse, GoalResult, GoalWatch
from robot_mcp_kit.errors import ConfigError, GoalFieldError
from robot_mcp_kit.ros.convert import build_message
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.safety.interlocks import MISSING, field_of
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.signals import (
    GROUP_TYPE,
    SET_OUTPUT_TYPE,
    SetOutputSection,
    Signal,
    SignalAddress,
)
from robot_mcp_kit.skills.messages import finite
from robot_mcp_kit.skills.readings import NotKnown
from robot_mcp_kit.skills.signals import OutputResult, command_fields, grouped_value, outputs_of

_LOOK_AGAIN_S = 0.01
_DEPTH = 10
_REJECTED = 1
"""``action_msgs/srv/CancelGoal``: a command that has left cannot be called back."""


@dataclass(slots=True)
class _Heard:
    """The latest message of a topic. Written on the rclpy thread, read on the loop; replaced as a whole."""

    message: Any = None
    heard_s: float = 0.0
    """Monotonic."""
    count: int = 0


class RosSignals:
    """The state of every configured signal. Build and close it on the rclpy thread.

    Args:
        node: the bridge's.
        ros: the rclpy thread.
        io: the signals by name.

    Raises:
        LookupError: a message type is not installed; names its package.
        ConfigError: a type has no such field.
    """

    def __init__(self, node: Any, ros: RosThread, io: Mapping[str, Signal]) -> None:
        self.io = io
        self._node, self._ros = node, ros
        self._heard: dict[tuple[str, str, bool], _Heard] = {}
        self._subscriptions: list[Any] = []
        for name, signal in io.items():
            check_address(f"io.{name}", signal)
        for signal in io.values():
            if _key(signal) not in self._heard:
                self._listen(signal)

    def _listen(self, signal: Signal) -> None:
        heard = self._heard[_key(signal)] = _Heard()

        def received(message: Any) -> None:
            heard.message, heard.heard_s = message, time.monotonic()
            heard.count += 1

        kinds = [QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)]
        if signal.latched:
            kinds = [QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)]
        for kind in kinds:
            self._subscriptions.append(
                self._node.create_subscription(
                    load_interface(signal.type),
                    signal.topic,
                    self._ros.guarded(received),
                    kind,
                    event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
                )
            )

    def close(self) -> None:
        """Stop listening. Harmless when repeated."""
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    def value(self, name: str) -> float:
        """A signal's value now: 0 or 1, or 0.0 to 1.0.

        Raises:
            NotKnown: nothing was heard, or too long ago, or it was no such value.
        """
        signal = self.io[name]
        heard = self._heard[_key(signal)]
        message, age_s = heard.message, time.monotonic() - heard.heard_s
        if message is None:
            raise NotKnown(f"nothing was heard on {signal.topic} yet")
        if age_s > signal.max_age_s:
            raise NotKnown(f"nothing was heard on {signal.topic} for {age_s:.1f} s")
        raw = _raw(message, signal)
        value = None if raw is None else signal.value_of(raw)
        if value is None:
            raise NotKnown(f"{signal.topic} has no value for it")
        return value

    def count(self, name: str) -> int:
        """How many messages of the signal's topic were heard."""
        return self._heard[_key(self.io[name])].count


def _key(signal: Signal) -> tuple[str, str, bool]:
    return signal.topic, signal.type, signal.latched


def _raw(message: Any, address: SignalAddress) -> float | None:
    if address.type == GROUP_TYPE:
        return grouped_value(message, address.group or "", address.interface or "")
    value = field_of(message, address.path)
    if value is MISSING:
        return None
    return float(value) if isinstance(value, bool) else finite(value)


def check_address(where: str, address: SignalAddress) -> None:
    """
    Raises:
        LookupError: the type is not installed.
        ConfigError: it has no such field.
    """
    type_ = load_interface(address.type)
    if address.type != GROUP_TYPE and "[" not in address.path and field_of(type_(), address.path) is MISSING:
        known = ", ".join(sorted(type_.get_fields_and_field_types()))
        raise ConfigError(f"{where}.field: {address.type} has no {address.path}; it has {known}")


@dataclass(slots=True)
class _Output:
    """One output that can be set."""

    signal: Signal
    address: SignalAddress
    type_: Any
    publisher: Any
    whole: bool
    boolean: bool

    def message(self, value: float) -> Any:
        raw = self.signal.raw_of(value)
        fields = command_fields(self.address, raw, whole=self.whole, boolean=self.boolean)
        return build_message(self.type_, fields)


class _NoWatch(GoalWatch):
    """Outputs give no feedback."""

    def close(self) -> None:
        """Nothing to close."""


class OutputPort(ActionPort):
    """Outputs in the form of an action server: a goal is one command, its result what the state then says.

    Build it on the rclpy thread.

    Args:
        node: the bridge's.
        ros: the rclpy thread.
        name: the port's name.
        signals: tells the outputs' states.
        outputs: by name.
        section: how long and how exactly.

    Raises:
        LookupError: a message type is not installed.
        ConfigError: a type has no such field.
    """

    type_name = SET_OUTPUT_TYPE

    def __init__(
        self,
        node: Any,
        ros: RosThread,
        name: str,
        signals: RosSignals,
        outputs: Mapping[str, Signal],
        section: SetOutputSection,
    ) -> None:
        self.name = name
        self._node, self._ros, self._signals, self._section = node, ros, signals, section
        self._outputs: dict[str, _Output] = {}
        self._results: dict[UUID, asyncio.Future[GoalResult]] = {}
        self._confirming: set[asyncio.Task[None]] = set()
        for output, signal in outputs.items():
            assert signal.command is not None  # noqa: S101 - outputs have one
            address = signal.command.address(signal)
            check_address(f"io.{output}.command", address)
            type_ = load_interface(address.type)
            sample = None if address.type == GROUP_TYPE else field_of(type_(), address.path)
            self._outputs[output] = _Output(
                signal,
                address,
                type_,
                node.create_publisher(type_, address.topic, _DEPTH),
                whole=isinstance(sample, int) and not isinstance(sample, bool),
                boolean=isinstance(sample, bool),
            )

    def destroy(self) -> None:
        """Leave the topics. On the rclpy thread."""
        for output in self._outputs.values():
            self._node.destroy_publisher(output.publisher)
        self._outputs.clear()

    def server_ready(self) -> bool:
        return any(output.publisher.get_subscription_count() > 0 for output in self._outputs.values())

    def servers(self) -> dict[bytes, str]:
        # Whoever listens may be a recorder too, so how many there are says nothing.
        return {}

    async def wait_for_server(self, timeout_s: float) -> bool:
        end_s = time.monotonic() + timeout_s
        while not self.server_ready():
            if time.monotonic() >= end_s:
                return False
            await asyncio.sleep(_LOOK_AGAIN_S)
        return True

    def check_goal(self, fields: Mapping[str, Any]) -> None:
        self._read(fields)

    def _read(self, fields: Mapping[str, Any]) -> tuple[_Output, str, float]:
        unknown = sorted(fields.keys() - {"signal", "value"})
        if unknown:
            raise GoalFieldError(unknown[0], "an output's command has signal and value")
        name, value = fields.get("signal"), finite(fields.get("value"))
        if not isinstance(name, str) or name not in self._outputs:
            raise GoalFieldError("signal", f"must be one of {', '.join(self._outputs)}")
        output = self._outputs[name]
        if value is None or not 0.0 <= value <= 1.0 or (output.signal.is_digital and value not in (0.0, 1.0)):
            raise GoalFieldError("value", "must be 0 or 1, or 0.0 to 1.0 for an analog output")
        return output, name, value

    async def send_goal(self, goal_id: UUID, fields: Mapping[str, Any]) -> GoalResponse:
        output, name, value = self._read(fields)
        if output.publisher.get_subscription_count() == 0:
            return GoalResponse(accepted=False)
        message = output.message(value)
        self._results[goal_id] = asyncio.get_running_loop().create_future()
        seen = self._signals.count(name)
        await self._ros.call(lambda: output.publisher.publish(message))
        task = asyncio.create_task(self._confirm(goal_id, name, value, seen), name=f"output {name}")
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)
        return GoalResponse(accepted=True)

    async def _confirm(self, goal_id: UUID, name: str, value: float, seen: int) -> None:
        """Wait until the output's state, told after the command, is what was asked for."""
        signal, end_s = self._outputs[name].signal, time.monotonic() + self._section.confirm_s
        allowed = 0.0 if signal.is_digital else self._section.tolerance
        reads, why = None, "Nothing was heard of its state since."
        status = GoalStatus.ABORTED
        while time.monotonic() < end_s:
            if self._signals.count(name) > seen:
                try:
                    reads, why = self._signals.value(name), ""
                except NotKnown as error:
                    reads, why = None, f"{error}."
                if reads is not None and abs(reads - value) <= allowed:
                    status = GoalStatus.SUCCEEDED
                    break
            await asyncio.sleep(_LOOK_AGAIN_S)
        waiting = self._results.get(goal_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(GoalResult(status=int(status), result=OutputResult(reads, why)))

    async def get_result(self, goal_id: UUID) -> GoalResult:
        waiting = self._results.get(goal_id)
        if waiting is None:  # of an earlier process
            return GoalResult(status=int(GoalStatus.UNKNOWN), result=None)
        result = await asyncio.shield(waiting)
        self._results.pop(goal_id, None)
        return result

    async def cancel_goal(
        self,
        goal_id: UUID,  # noqa: ARG002
        *,
        only_this: bool = False,  # noqa: ARG002
    ) -> CancelReply:
        return CancelReply(code=_REJECTED, canceling=False)

    def watch(
        self,
        goal_id: UUID,  # noqa: ARG002
        *,
        on_feedback: Callable[[Any], None],  # noqa: ARG002
        on_status: Callable[[int], None] | None = None,  # noqa: ARG002
        on_other_goal_executing: Callable[[], None] | None = None,  # noqa: ARG002
    ) -> GoalWatch:
        return _NoWatch()


def make_output_port(
    node: Any, ros: RosThread, config: RobotConfig, signals: RosSignals, section: SetOutputSection
) -> OutputPort:
    """The port of the file's outputs. On the rclpy thread."""
    name = str(node.resolve_service_name(section.action))
    return OutputPort(node, ros, name, signals, outputs_of(config), section)
