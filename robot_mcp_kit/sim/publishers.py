"""What the robot tells about itself without being asked: clock, odometry, transforms, pose, joints,
battery, and the objects that it sees.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import BatteryState, JointState
from tf2_msgs.msg import TFMessage
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.drive import wrap
from robot_mcp_kit.sim.floorplan import Pose

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

MIN_WALL_PERIOD_S = 0.02
AMCL_MOVE_M = 0.05
AMCL_TURN_RAD = 0.05


class Publishers(threading.Thread):
    """One thread, paced by simulation time (20 Hz odometry) but at most 50 rounds a second of wall time."""

    ODOM_PERIOD_S = 0.05
    BATTERY_PERIOD_S = 1.0
    DETECTION_PERIOD_S = 0.2

    def __init__(self, sim: RobotSim) -> None:
        super().__init__(name="publishers", daemon=True)
        self._sim = sim
        self._world = sim.world
        self._clock_out = None if sim.clock.real_time else sim.create_publisher(Clock, "/clock", 10)
        self._odom = sim.create_publisher(Odometry, "odom", 10)
        latched = QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
        )
        self._amcl = sim.create_publisher(PoseWithCovarianceStamped, "amcl_pose", latched)
        self._tf = sim.create_publisher(TFMessage, "tf", 100)
        self._joints = sim.create_publisher(JointState, "joint_states", 10)
        self._battery = sim.create_publisher(BatteryState, "battery_state", 10)
        self._detections = sim.create_publisher(Detection3DArray, "detected_objects", 10)
        self._detection_due_s = 0.0
        self._amcl_at: Pose | None = None
        self._amcl_rested = False
        self._battery_due_s = 0.0

    def run(self) -> None:
        clock = self._sim.clock
        due = 0.0
        while clock.wait_until(due):
            began = time.monotonic()
            due = max(due + self.ODOM_PERIOD_S, clock.now_s)
            try:
                self._round()
            except Exception as error:
                if clock.closed or not self._sim.context.ok():
                    return  # the context went away under us: that is the shutdown
                self._sim.record_error(error)
                raise
            spare = MIN_WALL_PERIOD_S - (time.monotonic() - began)
            if spare > 0:
                time.sleep(spare)

    def _round(self) -> None:
        now_s, stamp = self._sim.clock.now_s, messages.stamp(self._sim.clock.stamp_s())
        with self._world.lock:
            base = self._world.base
            pose, odom_pose, moving = base.pose, self._world.odom_pose(), base.moving
            speed, yaw_rate = base.speed, base.yaw_rate
            localized = self._world.localized
        if self._clock_out is not None:
            self._clock_out.publish(Clock(clock=stamp))
        odom = Odometry()
        odom.header.stamp = stamp
        odom.header.frame_id = "odom"
        odom.child_frame_id = "base_link"
        odom.pose.pose.position.x = odom_pose.x_m
        odom.pose.pose.position.y = odom_pose.y_m
        odom.pose.pose.orientation = messages.quaternion(odom_pose.yaw_rad)
        odom.twist.twist.linear.x = speed
        odom.twist.twist.angular.z = yaw_rate
        self._odom.publish(odom)
        transforms = [_transform("odom", "base_link", odom_pose, stamp)]
        if localized:
            transforms.append(_transform("map", "odom", self._world.odom_origin, stamp))
            self._publish_amcl(pose, moving, stamp)
        self._tf.publish(TFMessage(transforms=transforms))
        self._publish_joints(stamp)
        self._sim.signals.publish(stamp)
        if now_s >= self._detection_due_s and localized and not self._world.faults.blind:
            self._detection_due_s = now_s + self.DETECTION_PERIOD_S
            self._publish_detections(stamp)
        if now_s >= self._battery_due_s and "battery_state" not in self._world.faults.silent_topics:
            self._battery_due_s = now_s + self.BATTERY_PERIOD_S
            self._publish_battery(stamp)

    def _publish_amcl(self, pose: Pose, moving: bool, stamp: object) -> None:
        """As AMCL: after every bit of motion, and once more when the robot has come to rest."""
        last = self._amcl_at
        moved = (
            last is None
            or math.hypot(pose.x_m - last.x_m, pose.y_m - last.y_m) >= AMCL_MOVE_M
            or abs(wrap(pose.yaw_rad - last.yaw_rad)) >= AMCL_TURN_RAD
        )
        if not moved and (moving or self._amcl_rested):
            return
        self._amcl_at = pose
        self._amcl_rested = not moving
        noise = self._sim.localization_noise_m
        message = PoseWithCovarianceStamped()
        message.header.stamp = stamp
        message.header.frame_id = "map"
        message.pose.pose.position.x = pose.x_m + self._world.random.gauss(0.0, noise)
        message.pose.pose.position.y = pose.y_m + self._world.random.gauss(0.0, noise)
        message.pose.pose.orientation = messages.quaternion(pose.yaw_rad)
        variance = max(noise, 0.01) ** 2
        for index, value in ((0, variance), (7, variance), (35, 0.0004)):
            message.pose.covariance[index] = value
        self._amcl.publish(message)

    def _publish_joints(self, stamp: object) -> None:
        names, positions, velocities = self._sim.joint_state()
        if names and "joint_states" not in self._world.faults.silent_topics:
            message = JointState(name=names, position=positions, velocity=velocities)
            message.header.stamp = stamp
            self._joints.publish(message)

    def _publish_detections(self, stamp: object) -> None:
        """What perception would tell: objects near the robot, in ``map``."""
        message = Detection3DArray()
        message.header.stamp = stamp
        message.header.frame_id = "map"
        with self._world.lock:
            for thing in self._world.visible():
                detection = Detection3D(id=thing.spec.name)
                detection.header = message.header
                guess = ObjectHypothesisWithPose()
                guess.hypothesis.class_id = thing.spec.name
                guess.hypothesis.score = 0.95
                position = guess.pose.pose.position
                position.x, position.y, position.z = float(thing.x_m), float(thing.y_m), float(thing.z_m)
                detection.results = [guess]
                detection.bbox.center = guess.pose.pose
                size = detection.bbox.size
                size.x, size.y, size.z = thing.spec.width_m, thing.spec.width_m, 0.1
                message.detections.append(detection)
        self._detections.publish(message)

    def _publish_battery(self, stamp: object) -> None:
        with self._world.lock:
            battery = self._world.battery
            message = BatteryState(
                voltage=battery.voltage_v,
                current=battery.current_a,
                charge=battery.percentage * battery.capacity_ah,
                capacity=battery.capacity_ah,
                design_capacity=battery.capacity_ah,
                percentage=battery.percentage,
                present=True,
                power_supply_technology=BatteryState.POWER_SUPPLY_TECHNOLOGY_LION,
                power_supply_health=BatteryState.POWER_SUPPLY_HEALTH_GOOD,
            )
            if battery.charging:
                message.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_CHARGING
            elif battery.full:
                message.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_FULL
            else:
                message.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_DISCHARGING
        message.header.stamp = stamp
        self._battery.publish(message)


def _transform(parent: str, child: str, pose: Pose, stamp: object) -> TransformStamped:
    message = TransformStamped()
    message.header.stamp = stamp
    message.header.frame_id = parent
    message.child_frame_id = child
    message.transform.translation.x = pose.x_m
    message.transform.translation.y = pose.y_m
    message.transform.rotation = messages.quaternion(pose.yaw_rad)
    return message
