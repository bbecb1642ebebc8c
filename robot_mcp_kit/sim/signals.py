"""What the robot tells beside its motion: its description, the pose of its tool, and its inputs and outputs.

Outputs: a lamp (on or off) and a fan (0 to 1). Inputs: the contact of the dock. An output is commanded on
``<name>/command`` and tells its state on ``<name>/state``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool, Float64, String

from robot_mcp_kit.sim.arm import ARM_BASE, JOINTS, OFFSETS, TOOL_LINK, forward, quaternion_of_rotation

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

MODEL = "flat_robot"
_AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}


def description() -> str:
    """The robot as URDF: its joints with their limits, links without shape."""
    links = ["arm_base_link", *(joint.name.replace("_joint", "_link") for joint in JOINTS[:-1]), TOOL_LINK]
    lines = [f'<robot name="{MODEL}">', *(f'  <link name="{name}"/>' for name in ["base_link", *links])]
    lines += [
        '  <joint name="arm_base_joint" type="fixed">',
        f'    <parent link="base_link"/><child link="arm_base_link"/>{_origin(ARM_BASE)}',
        "  </joint>",
    ]
    # What follows a joint is where the next one begins; the last one is followed by nothing.
    origins = ((0.0, 0.0, 0.0), *OFFSETS[:-1])
    for joint, parent, child, origin in zip(JOINTS, links[:-1], links[1:], origins, strict=True):
        lines += [
            f'  <joint name="{joint.name}" type="revolute">',
            f'    <parent link="{parent}"/><child link="{child}"/>{_origin(origin)}',
            f'    <axis xyz="{_AXES[joint.axis]}"/>',
            f'    <limit lower="{joint.low_rad}" upper="{joint.high_rad}" velocity="{joint.max_rate}" '
            'effort="50"/>',
            "  </joint>",
        ]
    return "\n".join([*lines, "</robot>"])


def _origin(at: tuple[float, float, float]) -> str:
    return f'<origin xyz="{at[0]} {at[1]} {at[2]}"/>'


class Signals:
    """Publishers and command subscriptions of one simulated robot."""

    def __init__(self, sim: RobotSim) -> None:
        self._sim = sim
        self.lamp = False
        self.fan = 0.0
        latched = QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
        )
        self._description = sim.create_publisher(String, "robot_description", latched)
        self._described = False
        self._tool = sim.create_publisher(PoseStamped, "tool_pose", 10)
        self._contact = sim.create_publisher(Bool, "dock_contact", 10)
        self._lamp = sim.create_publisher(Bool, "lamp/state", 10)
        self._fan = sim.create_publisher(Float64, "fan/state", 10)
        sim.create_subscription(Bool, "lamp/command", self._on_lamp, 10)
        sim.create_subscription(Float64, "fan/command", self._on_fan, 10)

    def _on_lamp(self, message: Bool) -> None:
        self._sim.count("lamp/command:set")
        if not self._sim.world.faults.outputs_stuck:
            self.lamp = bool(message.data)

    def _on_fan(self, message: Float64) -> None:
        self._sim.count("fan/command:set")
        if not self._sim.world.faults.outputs_stuck and math.isfinite(message.data):
            self.fan = min(1.0, max(0.0, float(message.data)))

    def reset(self) -> None:
        """As at the start."""
        self.lamp, self.fan = False, 0.0

    def tool_in_base(self) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
        """Position (m) and quaternion (x, y, z, w) of the tool in ``base_link``."""
        with self._sim.world.lock:
            position, rotation = forward(self._sim.world.arm.positions)
        at = (float(position[0]), float(position[1]), float(position[2]))
        return at, quaternion_of_rotation(rotation)

    def truth(self) -> dict[str, Any]:
        position, quaternion = self.tool_in_base()
        return {
            "tool_in_base": {"position_m": list(position), "quaternion": list(quaternion)},
            "io": {
                "lamp": self.lamp,
                "fan": self.fan,
                "dock_contact": self._sim.world.docked_at is not None,
            },
        }

    def publish(self, stamp: object) -> None:
        """One round."""
        silent = self._sim.world.faults.silent_topics
        if not self._described and "robot_description" not in silent:
            self._described = True
            self._description.publish(String(data=description()))
        if "tool_pose" not in silent:
            self._tool.publish(self._tool_message(stamp))
        if "dock_contact" not in silent:
            self._contact.publish(Bool(data=self._sim.world.docked_at is not None))
        if "lamp/state" not in silent:
            self._lamp.publish(Bool(data=self.lamp))
        if "fan/state" not in silent:
            self._fan.publish(Float64(data=self.fan))

    def _tool_message(self, stamp: object) -> PoseStamped:
        position, quaternion = self.tool_in_base()
        message = PoseStamped()
        message.header.stamp = stamp
        message.header.frame_id = "base_link"
        at, turned = message.pose.position, message.pose.orientation
        at.x, at.y, at.z = position
        turned.x, turned.y, turned.z, turned.w = quaternion
        return message
