"""The whole simulated world behind one lock, advanced by one step function. Pure."""

from __future__ import annotations

import math
import random
import threading
from typing import Any

from robot_mcp_kit.sim.arm import Arm, forward
from robot_mcp_kit.sim.battery import Battery
from robot_mcp_kit.sim.clock import SimClock
from robot_mcp_kit.sim.drive import Base, DriveLimits, wrap
from robot_mcp_kit.sim.faults import Faults
from robot_mcp_kit.sim.floorplan import Dock, FloorPlan, Pose, default_floor_plan
from robot_mcp_kit.sim.gripper import GRASP_RADIUS_M, Gripper, Thing, settle
from robot_mcp_kit.sim.planner import Planner

START = Pose(1.5, 4.0, 0.0)
CAMERA_RANGE_M = 2.5
SLIP_LIFT_M = 0.03
BASE_FRAMES = ("base_link", "base_footprint")


class World:
    """Floor plan, robot, objects, faults.

    ``lock`` guards everything here. The physics thread holds it for a batch of steps; servers hold it to
    read a
    consistent picture or to hand over a command.
    """

    def __init__(
        self,
        clock: SimClock,
        *,
        start: Pose = START,
        plan: FloorPlan | None = None,
        limits: DriveLimits | None = None,
        seed: int = 0,
    ) -> None:
        self.lock = threading.RLock()
        self.clock = clock
        self.plan = plan or default_floor_plan()
        self.start = start
        self.base = Base(start, limits)
        self.planner = Planner(self.plan, self.base.limits.radius_m)
        self.battery = Battery()
        self.faults = Faults()
        self.odom_origin = start
        self.random = random.Random(seed)  # noqa: S311  noise, not secrets
        self.docked_at: Dock | None = None
        self.arm = Arm()
        self.gripper = Gripper()
        self.things = {spec.name: Thing.at_rest(spec) for spec in self.plan.objects}
        self._slips_above_m: float | None = None
        """Height of the tool above which the grasp that was just made gives way."""

    def reset(self) -> None:
        """Robot and objects back to where they were at the start. Faults and time stay."""
        with self.lock:
            charge = self.battery.percentage
            self.base = Base(self.start, self.base.limits)
            self.battery = Battery(percentage=charge)
            self.arm = Arm()
            self.gripper = Gripper()
            self.things = {spec.name: Thing.at_rest(spec) for spec in self.plan.objects}
            self.docked_at = None
            self.apply_faults({})

    # -- physics -----------------------------------------------------------------------------------

    def step(self, dt_s: float) -> None:
        """One physics step. The caller holds the lock."""
        self.base.step(dt_s, self.planner.clearance.near)
        self.docked_at = self._contact()
        self.battery.step(
            dt_s, self.base.speed, on_dock=self.docked_at is not None and not self.faults.no_charge
        )
        self.arm.step(dt_s)
        if self.gripper.held is not None and self.gripper.target_m > self.gripper.gap_m:
            self.carry()  # it will be let go soon
        held_before = self.gripper.held
        dropped = self.gripper.step(dt_s)
        if dropped is not None:
            settle(dropped, self.plan)
        if self.gripper.held is not held_before:
            self._decide_slip()
        if self._slips_above_m is not None and self.tool_in_map()[2] > self._slips_above_m:
            self._slips_above_m = None
            self._drop()
        self.clock.advance(dt_s)

    def _contact(self) -> Dock | None:
        base = self.base
        for dock in self.plan.docks.values():
            near = math.hypot(base.x_m - dock.pose.x_m, base.y_m - dock.pose.y_m) < 0.05
            if near and abs(wrap(base.yaw_rad - dock.pose.yaw_rad)) < 0.15:
                return dock
        return None

    def apply_faults(self, changes: dict[str, Any]) -> None:
        """Take over checked fault values."""
        with self.lock:
            for name, value in changes.items():
                setattr(self.faults, name, value)
            self.base.slipping = self.faults.stuck
            self.base.speed_scale = self.faults.slow_down
            self.arm.stuck = self.faults.arm_stuck
            self.planner.block_doors(frozenset(self.faults.blocked_doors))
            if changes.get("drop_object"):
                self._drop()
            if changes.get("move_object"):
                self._put_down(*changes["move_object"].split())
            if changes.get("object_in_gripper"):
                self._put_between_fingers(str(changes["object_in_gripper"]))

    # -- arm and gripper

    def tool_in_map(self) -> tuple[float, float, float]:
        """Where the point between the fingertips is, frame ``map``, metres."""
        position, _ = forward(self.arm.positions)
        ground = compose(self.base.pose, Pose(float(position[0]), float(position[1])))
        return ground.x_m, ground.y_m, float(position[2])

    def command_gripper(self, gap_m: float, max_effort_n: float) -> None:
        """Open or close. What then stands between the fingers is decided now. The caller holds the lock."""
        if self.gripper.between is None or self.gripper.between.distance(self.tool_in_map()) > GRASP_RADIUS_M:
            self.gripper.look(list(self.things.values()), self.tool_in_map())
        self.gripper.command(gap_m, max_effort_n)

    def carry(self) -> None:
        """Bring the position of a held object up to date. The caller holds the lock."""
        if self.gripper.held is not None:
            held = self.gripper.held
            held.x_m, held.y_m, held.z_m = self.tool_in_map()

    def _decide_slip(self) -> None:
        """A new grasp holds or slips; chance decides when it is made."""
        self._slips_above_m = None
        percent = self.faults.slip_percent
        if self.gripper.held is not None and percent > 0 and self.random.uniform(0.0, 100.0) < percent:
            self._slips_above_m = self.tool_in_map()[2] + SLIP_LIFT_M

    def visible(self) -> list[Thing]:
        """What the camera sees: objects within its range, and what is held. The caller holds the lock."""
        self.carry()
        x_m, y_m = self.base.x_m, self.base.y_m
        return [
            thing
            for thing in self.things.values()
            if thing is self.gripper.held or math.hypot(thing.x_m - x_m, thing.y_m - y_m) <= CAMERA_RANGE_M
        ]

    def _drop(self) -> None:
        self.carry()
        dropped = self.gripper.drop()
        if dropped is not None:
            settle(dropped, self.plan)

    def _put_down(self, name: str, x_m: str, y_m: str) -> None:
        thing = self.things[name]
        if self.gripper.held is thing:
            self._drop()
        thing.x_m, thing.y_m = float(x_m), float(y_m)
        settle(thing, self.plan)

    def _put_between_fingers(self, name: str) -> None:
        self._drop()
        thing = self.things[name]
        thing.x_m, thing.y_m, thing.z_m = self.tool_in_map()
        self.gripper.gap_m = max(self.gripper.gap_m, thing.spec.width_m + 0.01)
        self.gripper.target_m = self.gripper.gap_m
        self.gripper.between = thing

    # -- frames ------------------------------------------------------------------------------------

    @property
    def localized(self) -> bool:
        return not self.faults.lose_localization

    def odom_pose(self) -> Pose:
        """The robot in frame ``odom`` (which starts where the robot started)."""
        return relative(self.odom_origin, self.base.pose)

    def to_map(self, frame: str, pose: Pose) -> Pose | None:
        """A pose given in ``frame`` as a pose in ``map``; ``None`` when no transform is known."""
        if not self.localized:
            return None
        if frame == "map":
            return pose
        if frame == "odom":
            return compose(self.odom_origin, pose)
        if frame in BASE_FRAMES:
            return compose(self.base.pose, pose)
        return None


def compose(a: Pose, b: Pose) -> Pose:
    c, s = math.cos(a.yaw_rad), math.sin(a.yaw_rad)
    return Pose(a.x_m + c * b.x_m - s * b.y_m, a.y_m + s * b.x_m + c * b.y_m, wrap(a.yaw_rad + b.yaw_rad))


def relative(a: Pose, b: Pose) -> Pose:
    c, s = math.cos(a.yaw_rad), math.sin(a.yaw_rad)
    dx, dy = b.x_m - a.x_m, b.y_m - a.y_m
    return Pose(c * dx + s * dy, -s * dx + c * dy, wrap(b.yaw_rad - a.yaw_rad))
