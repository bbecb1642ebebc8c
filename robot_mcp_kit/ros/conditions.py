"""What the safety layer reads of the robot: topic fields, lifecycle states, the robot description.

Built on the rclpy thread; values are handed to the asyncio loop, and what is known can be asked from there
without waiting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.srv import GetState
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.service import PacedService
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.safety.interlocks import MISSING, Reader, Reading, field_of
from robot_mcp_kit.safety.situation import JointLimit
from robot_mcp_kit.safety.urdf import DescriptionError, describe, joint_limits
from robot_mcp_kit.skills.config.safety import InterlockSection, MessageSource
from robot_mcp_kit.skills.readings import Description

logger = logging.getLogger(__name__)


def _subscribe(
    node: Any, ros: RosThread, type_: Any, topic: str, heard: Callable[[Any], None], *, latched: bool
) -> list[Any]:
    """Hears every publisher: best effort matches reliable ones too; the latched kind needs a second ear."""
    kinds = [QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)]
    if latched:
        kinds.append(QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    return [
        node.create_subscription(
            type_,
            topic,
            ros.guarded(heard),
            kind,
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )
        for kind in kinds
    ]


class TopicReader(Reader):
    """The latest message of a topic, and how old it is.

    Args:
        node: the bridge's.
        ros: the rclpy thread, on which this is built and closed.
        source: topic, type, field, how ages are measured.
        where: the key in the file, for faults.

    Raises:
        ConfigError: the type has no such field, or no stamp where ages are measured from it.
        LookupError: the type is not installed.
    """

    tells = True

    def __init__(self, node: Any, ros: RosThread, source: MessageSource, where: str) -> None:
        type_ = load_interface(source.type)
        empty = type_()
        if field_of(empty, source.field) is MISSING and "[" not in source.field:
            known = ", ".join(sorted(type_.get_fields_and_field_types()))
            raise ConfigError(f"{where}.field: {source.type} has no {source.field}; it has {known}")
        if source.age_from == "stamp" and field_of(empty, "header.stamp") is MISSING:
            raise ConfigError(f"{where}.age_from: {source.type} has no header.stamp; use arrival")
        self._node, self._ros, self._by_stamp = node, ros, source.age_from == "stamp"
        self._latest: tuple[Any, float] | None = None
        self._heard: Callable[[Reading], None] | None = None
        self._subscriptions = _subscribe(
            node, ros, type_, source.topic, self._received, latched=source.latched
        )

    def _received(self, message: Any) -> None:
        """rclpy thread."""
        arrived_s = time.monotonic()
        self._latest = (message, arrived_s)
        heard = self._heard
        if heard is not None:
            self._ros.hand_over(lambda: heard(self._reading(message, arrived_s)))

    def _reading(self, message: Any, arrived_s: float) -> Reading:
        if not self._by_stamp:
            return Reading(message, time.monotonic() - arrived_s)
        stamp, now = message.header.stamp, self._node.get_clock().now()
        return Reading(message, now.nanoseconds * 1e-9 - (stamp.sec + stamp.nanosec * 1e-9))

    def latest(self) -> Reading | None:
        latest = self._latest
        return None if latest is None else self._reading(*latest)

    async def read(self) -> Reading | None:
        return self.latest()

    def listen(self, heard: Callable[[Reading], None]) -> None:
        self._heard = heard

    def close(self) -> None:
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())


class LifecycleReader(Reader):
    """The state of a managed node, asked for each time."""

    def __init__(self, node: Any, ros: RosThread, name: str) -> None:
        self._node = node
        self._service = PacedService(ros, node, GetState, f"{name}/get_state", hold_s=2.0)

    async def read(self) -> Reading | None:
        if not self._service.ready():
            raise LookupError("the node does not answer (its get_state service is not there)")
        answer = await self._service.call(GetState.Request())
        return Reading(str(answer.current_state.label), 0.0)

    def close(self) -> None:
        self._node.destroy_client(self._service.client)


def interlock_reader(node: Any, ros: RosThread, name: str, section: InterlockSection) -> Reader:
    """The reader of one interlock.

    Raises:
        ConfigError, LookupError: see :class:`TopicReader`.
    """
    if section.lifecycle_node is not None:
        return LifecycleReader(node, ros, section.lifecycle_node)
    source = MessageSource.model_validate(
        {
            "topic": section.topic,
            "type": section.type,
            "field": section.field,
            "max_age_s": section.max_age_s,
            "age_from": section.age_from,
            "latched": section.latched,
        }
    )
    return TopicReader(node, ros, source, f"safety.interlocks.{name}")


class FloorReader:
    """Which floor the robot is on, as text; ``None`` while unknown or too old."""

    def __init__(self, node: Any, ros: RosThread, source: MessageSource) -> None:
        self._source = source
        self._reader = TopicReader(node, ros, source, "safety.geofence.floor_from")

    def floor(self) -> str | None:
        reading = self._reader.latest()
        if reading is None or not -1.0 <= reading.age_s <= self._source.max_age_s:
            return None
        value = field_of(reading.value, self._source.field)
        return None if value is MISSING else str(value)

    def close(self) -> None:
        self._reader.close()


class DescriptionReader:
    """The robot description from its latched topic: joint limits, and what else it tells."""

    def __init__(self, node: Any, ros: RosThread, topic: str) -> None:
        self._node = node
        self.joints: dict[str, JointLimit] | None = None
        self.described: Description | None = None
        self._subscriptions = _subscribe(node, ros, String, topic, self._received, latched=True)

    def _received(self, message: Any) -> None:
        """rclpy thread."""
        try:
            self.joints, self.described = joint_limits(message.data), describe(message.data)
        except DescriptionError as error:
            self.joints = self.described = None
            logger.error("the robot description is not used, and goals with joints are refused: %s", error)
            return
        logger.info("joint limits of %d joints come from the robot description", len(self.joints))

    def close(self) -> None:
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())
