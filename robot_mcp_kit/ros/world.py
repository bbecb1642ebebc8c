"""What the robot's sensors tell, from topics: detected objects, joints, battery, and the pose reader's pose.

Every part carries the time at which its message arrived here; a part that is older than its section allows,
or whose message cannot be read, is not known.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy

from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.pose import PoseReader
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.world import SensorsSection
from robot_mcp_kit.skills.messages import finite, items, number
from robot_mcp_kit.skills.world import (
    MEASURED,
    ArmReading,
    BatteryReading,
    GripperReading,
    RobotPose,
    SeenObject,
    World,
    WorldSnapshot,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
JOINT_STATE, BATTERY_STATE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/BatteryState"
_LOOK_AGAIN_S = 0.02
_FRESH_MESSAGES = 2
"""The first message after a moment may have been measured before it; the second one was not."""

_CHARGING = {1: True, 2: False, 3: False}
"""``sensor_msgs/msg/BatteryState.power_supply_status``: charging, discharging, not charging. Unknown (0) and
full (4) do not say whether it is in a dock.
"""


class _Unreadable(ValueError):
    """A message was heard that does not tell the part."""


@dataclass(slots=True)
class _Heard:
    """The latest of one source. Written on the rclpy thread, read on the loop; each write is one step."""

    message: Any = None
    arrived_s: float = 0.0
    """Unix seconds."""
    heard_s: float = 0.0
    """Monotonic."""
    count: int = 0


class RosWorld(World):
    """Build and close it on the rclpy thread.

    Args:
        node: the bridge's.
        ros: the rclpy thread.
        config: its ``sensors`` section.
        where: tells the robot's pose.

    Raises:
        LookupError: a message type is not installed; names its package.
    """

    def __init__(self, node: Any, ros: RosThread, config: RobotConfig, where: PoseReader) -> None:
        self._node, self._ros, self._where = node, ros, where
        self._sensors: SensorsSection = config.sensors
        arm = self._sensors.arm
        self._arm_joints = {} if arm is None else dict(config.arms[arm.arm].joints)
        self._held: str | None = None
        self._said: set[tuple[str, str]] = set()
        """Which kinds of unreadable data were told of; sensors repeat them many times a second."""
        self._subscriptions: list[Any] = []
        self._perception = self._listen(
            self._sensors.perception, lambda s: (s.type, s.topic), lambda _message: True
        )
        self._gripper = self._listen(
            self._sensors.gripper,
            lambda s: (JOINT_STATE, s.topic),
            lambda message: self._sensors.gripper is not None and self._sensors.gripper.joint in message.name,
        )
        self._arm = self._listen(
            arm,
            lambda s: (JOINT_STATE, s.topic),
            # A driver that has lost a joint still tells the others.
            lambda message: any(joint in message.name for joint in self._arm_joints),
        )
        self._battery = self._listen(
            self._sensors.battery, lambda s: (BATTERY_STATE, s.topic), lambda _message: True
        )

    def _listen(
        self, section: Any, source: Callable[[Any], tuple[str, str]], wanted: Callable[[Any], bool]
    ) -> _Heard:
        heard = _Heard()
        if section is None:
            return heard
        type_name, topic = source(section)

        def received(message: Any) -> None:
            if not wanted(message):
                return
            heard.message, heard.arrived_s, heard.heard_s = message, time.time(), time.monotonic()
            heard.count += 1

        self._subscriptions.append(
            self._node.create_subscription(
                load_interface(type_name),
                topic,
                self._ros.guarded(received),
                # Hears reliable publishers too.
                QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT),
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
        )
        return heard

    def close(self) -> None:
        """Stop listening. Harmless when repeated."""
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    # -- the port -----------------------------------------------------------------------------------------

    def hold(self, name: str | None) -> None:
        self._held = name

    def snapshot(self) -> WorldSnapshot:
        return self._known(any_age=False)

    def latest(self) -> WorldSnapshot:
        return self._known(any_age=True)

    def _known(self, *, any_age: bool) -> WorldSnapshot:
        objects, looked_at = self._part("objects", self._objects, any_age) or (None, None)
        return WorldSnapshot(
            robot=self._part("robot", self._robot, any_age),
            gripper=self._part("gripper", self._gripper_reading, any_age),
            arm=self._part("arm", self._arm_reading, any_age),
            objects=objects,
            looked_at=looked_at,
            battery=self._part("battery", self._battery_reading, any_age),
        )

    def _part(self, name: str, read: Callable[[bool], T | None], any_age: bool) -> T | None:
        """One part, not known when it cannot be read: whatever one sensor tells, the others are still there,
        and nobody who asks for the world stumbles over it.
        """
        try:
            return read(any_age)
        except _Unreadable as error:
            self._say(name, str(error), error)
        except Exception as error:
            self._say(name, type(error).__name__, error)
        return None

    def _say(self, name: str, kind: str, error: Exception) -> None:
        """Each kind once."""
        if (name, kind) not in self._said:
            self._said.add((name, kind))
            logger.error(
                "the %s counts as not known while its message is like this (said once): %s",
                name,
                error,
                exc_info=None if isinstance(error, _Unreadable) else error,
            )

    async def after(
        self, moment: datetime, timeout_s: float = 2.0, parts: frozenset[str] = MEASURED
    ) -> WorldSnapshot:
        """Two messages of each source that come after this call, whatever ``moment`` says of the past."""
        wait_s = max(0.0, (moment - datetime.now(UTC)).total_seconds())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        sources = [
            heard
            for part, section, heard in (
                ("objects", self._sensors.perception, self._perception),
                ("gripper", self._sensors.gripper, self._gripper),
                ("arm", self._sensors.arm, self._arm),
            )
            if part in parts and section is not None
        ]
        wanted = [(heard, heard.count + _FRESH_MESSAGES) for heard in sources]
        end_s = time.monotonic() + timeout_s
        # Counted on another thread, which wakes nobody here.
        while time.monotonic() < end_s and any(heard.count < count for heard, count in wanted):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN_S)
        return self.snapshot()

    # -- parts --------------------------------------------------------------------------------------------

    def _robot(self, any_age: bool) -> RobotPose | None:
        pose, age_s = self._where.pose(any_age=any_age), self._where.age_s()
        if pose is None or age_s is None:
            return None
        position_std_m, yaw_std_rad = self._where.spread() or (None, None)
        return RobotPose(
            x_m=pose.x_m,
            y_m=pose.y_m,
            yaw_rad=pose.yaw_rad,
            frame=pose.frame,
            position_std_m=position_std_m,
            yaw_std_rad=yaw_std_rad,
            measured_at=_utc(time.time() - age_s),
        )

    def _gripper_reading(self, any_age: bool) -> GripperReading | None:
        section, heard = self._sensors.gripper, self._gripper
        message = None if section is None else _fresh(heard, section.max_age_s, any_age)
        if section is None or message is None:
            return None
        position = finite(_positions(message).get(section.joint))
        gap_m = None if position is None else finite(section.gap_of(position))
        if gap_m is None:
            raise _Unreadable(f"{section.topic} names {section.joint} and tells no finite position of it")
        holds = section.holds_something(gap_m)
        return GripperReading(
            gap_m=gap_m,
            holds_something=holds,
            held_object=self._held if holds else None,
            is_open=gap_m >= section.open_gap_m - section.tolerance_m,
            measured_at=_utc(heard.arrived_s),
        )

    def _arm_reading(self, any_age: bool) -> ArmReading | None:
        section, heard = self._sensors.arm, self._arm
        message = None if section is None else _fresh(heard, section.max_age_s, any_age)
        if section is None or message is None:
            return None
        positions, joints = _positions(message), {}
        for joint in self._arm_joints:
            if joint in positions:
                value = finite(positions[joint])
                if value is None:
                    raise _Unreadable(f"{section.topic} tells no finite position of {joint}")
                joints[joint] = round(value, 4)
        if not joints:
            raise _Unreadable(f"{section.topic} names joints of the arm and tells no position of any")
        sliding = {joint for joint, known in self._arm_joints.items() if known.slides}
        return ArmReading(
            joints_rad={joint: value for joint, value in joints.items() if joint not in sliding},
            joints_m={joint: value for joint, value in joints.items() if joint in sliding},
            measured_at=_utc(heard.arrived_s),
        )

    def _battery_reading(self, any_age: bool) -> BatteryReading | None:
        section, heard = self._sensors.battery, self._battery
        message = None if section is None else _fresh(heard, section.max_age_s, any_age)
        if section is None or message is None:
            return None
        charge = number(message, "percentage")  # sensor_msgs/BatteryState: 0 to 1
        charge_percent = None if charge is None else finite(100.0 * charge)
        if charge_percent is None:
            raise _Unreadable(f"{section.topic} tells no finite percentage")
        return BatteryReading(
            charge_percent=round(charge_percent, 1),
            charging=_CHARGING.get(int(message.power_supply_status)),
            measured_at=_utc(heard.arrived_s),
        )

    def _objects(self, any_age: bool) -> tuple[tuple[SeenObject, ...], datetime] | None:
        section, heard = self._sensors.perception, self._perception
        message = None if section is None else _fresh(heard, section.max_age_s, any_age)
        if section is None or message is None:
            return None
        at, likely = _utc(heard.arrived_s), []
        for detection in message.detections:
            try:
                seen = _seen(detection, message.header.frame_id, at)
            except Exception as error:  # the others are seen all the same
                self._say("detected object", type(error).__name__, error)
                continue
            if seen is None:
                words = f"a detection on {section.topic} has no name, frame, finite position or finite score"
                self._say("detected object", words, _Unreadable(words))
            elif seen.confidence >= section.min_confidence:
                likely.append(seen)
        return tuple(likely), at


def _seen(detection: Any, frame: str, at: datetime) -> SeenObject | None:
    """One detection; ``None`` when it has no name, no frame, no position or no score."""
    scored = [result for result in detection.results if finite(result.hypothesis.score) is not None]
    best = max(scored, key=lambda result: result.hypothesis.score, default=None)
    if best is None:
        return None
    position = best.pose.pose.position
    name = detection.id or best.hypothesis.class_id
    frame = detection.header.frame_id or frame
    point = (float(position.x), float(position.y), float(position.z))
    if not name or not frame or not all(math.isfinite(value) for value in point):
        return None
    width_m = float(detection.bbox.size.y)
    return SeenObject(
        name=str(name)[:100],
        x_m=point[0],
        y_m=point[1],
        z_m=point[2],
        frame=frame,
        confidence=min(1.0, max(0.0, float(best.hypothesis.score))),
        width_m=width_m if math.isfinite(width_m) and width_m > 0 else None,
        measured_at=at,
    )


def _positions(message: Any) -> dict[str, Any]:
    """By joint, as far as the message has positions: ``sensor_msgs/msg/JointState`` may leave them out."""
    return dict(zip(items(message, "name"), items(message, "position"), strict=False))


def _fresh(heard: _Heard, max_age_s: float, any_age: bool) -> Any:
    """The message, unless there is none or it is too old."""
    if heard.message is None or (not any_age and time.monotonic() - heard.heard_s > max_age_s):
        return None
    return heard.message


def _utc(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)
