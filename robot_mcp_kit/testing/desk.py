"""A desk with objects, an arm and a gripper that slips, behind the bridge's ports. No ROS.

Its action servers believe what they are told: the arm says that it arrived, the gripper that it stopped on
something, also when the object falls a moment later. Whoever asks the desk itself knows better, and so does
its perception: :class:`Desk` is the :class:`~robot_mcp_kit.skills.world.World` of a bridge, too.

Example::

    desk = Desk(seed=1, slips=0.3)
    config = parse_config(DESK_CONFIG)
    bridge = Bridge(manager, desk.ports, config, guard=..., routines=build_routines(config), world=desk)
    await bridge.start("pick", {"object": "cup"}, idempotency_key="first")
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.world import (
    MEASURED,
    ArmReading,
    GripperReading,
    RobotPose,
    SeenObject,
    World,
    WorldSnapshot,
    utc_now,
)
from robot_mcp_kit.testing.scripted import ScriptedGoal, ScriptedPort, ScriptedPorts

DESK_CONFIG = """
robot: {name: desk_robot}
skills:
  move_arm:
    action: move_action
    type: moveit_msgs/action/MoveGroup
    arm: arm
    group: arm
    end_effector_link: tool0
    frames: [map]
  gripper:
    action: gripper_cmd
    type: control_msgs/action/GripperCommand
    open_gap_m: 0.085
    effort_n: 20.0
    max_effort_n: 40.0
arms:
  arm:
    joints:
      elbow_joint: {range_rad: [-3.0, 3.0]}
    named_targets:
      home: {joints_rad: {elbow_joint: 2.0}}
      out: {joints_rad: {elbow_joint: 0.5}}
sensors:
  perception: {}
  gripper: {joint: finger_joint, open_gap_m: 0.085}
  arm: {arm: arm}
manipulation:
  arm: move_arm
  gripper: gripper
  handover_target: out
  spots:
    tray: {x_m: 0.5, y_m: -0.3, z_m: 0.0, description: At the edge of the desk.}
"""
"""What the bridge of such a robot is configured with: ``parse_config(DESK_CONFIG)``."""

OPEN_M, FLOOR_M = 0.085, -0.7
REACH_M = 0.03
"""Nearer than this to the tool, an object is between the fingers."""
OBJECTS = {"cup": (0.5, 0.2, 0.0), "pen": (0.4, -0.1, 0.0)}
"""Positions in ``map``, metres; 0 is the desk's top."""
WIDTHS_M = {"cup": 0.06, "pen": 0.012}


class Desk(World):
    """The truth, and what sensors tell of it.

    Args:
        seed: of the slipping.
        slips: share of the grasps that fail, 0 to 1: half of them while the fingers close, half while the
            object is lifted.
    """

    def __init__(self, seed: int = 0, *, slips: float = 0.0) -> None:
        self._slips = slips
        self.arm = _ArmPort(self)
        self.gripper = _GripperPort(self)
        self.ports = ScriptedPorts(self.arm, self.gripper)
        self.set_up(seed)

    def set_up(self, seed: int) -> None:
        """Put everything back, and the motions' count to 0."""
        for port in (self.arm, self.gripper):
            port.goals.clear()
        self._random = random.Random(seed)  # noqa: S311 - a dice, no secret
        self.objects = dict(OBJECTS)
        self.tool = (0.3, 0.0, 0.5)
        self.elbow_rad = 2.0
        self.gap_m = OPEN_M
        self.held: str | None = None
        self.motions = 0
        """Goals that moved the arm or the fingers."""
        self.grasps = 0
        """Times the fingers closed on an object."""
        self._falls_on_lift = False
        self._remembered: str | None = None

    # -- the truth ------------------------------------------------------------------------------------------

    def move_tool(self, to: tuple[float, float, float]) -> None:
        """The arm moves, and with it what is held, as long as it is."""
        lifted = to[2] > self.tool[2]
        self.motions += 1
        self.tool = to
        if self.held is None:
            return
        if lifted and self._falls_on_lift:
            self._drop()
        else:
            self.objects[self.held] = to

    def move_joints(self, elbow_rad: float) -> None:
        self.motions += 1
        self.elbow_rad = elbow_rad

    def move_fingers(self, to_m: float) -> bool:
        """Whether they stopped on something before ``to_m``."""
        self.motions += 1
        opening = to_m > self.gap_m
        self.gap_m = to_m
        if opening:
            self.held, self._falls_on_lift = None, False
            return False
        near = [name for name, at in self.objects.items() if math.dist(at, self.tool) < REACH_M]
        if not near:
            return False
        (name, *_) = near
        self.grasps += 1
        self.gap_m = WIDTHS_M[name]
        self.held = name
        if self._random.random() < self._slips:
            if self._random.random() < 0.5:
                self._drop()
            else:
                self._falls_on_lift = True
        return True

    def _drop(self) -> None:
        """Off the desk; the fingers meet."""
        if self.held is not None:
            x_m, y_m, _ = self.objects[self.held]
            self.objects[self.held] = (x_m, y_m + 0.1, FLOOR_M)
        self.held, self.gap_m, self._falls_on_lift = None, 0.0, False

    # -- what sensors tell ----------------------------------------------------------------------------------

    def hold(self, name: str | None) -> None:
        self._remembered = name

    def snapshot(self) -> WorldSnapshot:
        now = utc_now()
        holds = 0.003 < self.gap_m < OPEN_M - 0.003
        return WorldSnapshot(
            robot=RobotPose(x_m=0.0, y_m=0.0, yaw_rad=0.0, frame="map", measured_at=now),
            gripper=GripperReading(
                gap_m=self.gap_m,
                holds_something=holds,
                held_object=self._remembered if holds else None,
                is_open=self.gap_m >= OPEN_M - 0.003,
                measured_at=now,
            ),
            arm=ArmReading(joints_rad={"elbow_joint": self.elbow_rad}, measured_at=now),
            objects=tuple(
                SeenObject(name=name, x_m=x, y_m=y, z_m=z, frame="map", measured_at=now)
                for name, (x, y, z) in self.objects.items()
            ),
            looked_at=now,
        )

    async def after(
        self,
        moment: datetime,  # noqa: ARG002
        timeout_s: float = 2.0,  # noqa: ARG002
        parts: frozenset[str] = MEASURED,  # noqa: ARG002
    ) -> WorldSnapshot:
        return self.snapshot()


class _DeskPort(ScriptedPort):
    """Carries out what it accepts, after :attr:`gate` has been opened."""

    def __init__(self, desk: Desk, name: str, type_name: str) -> None:
        super().__init__(name, type_name)
        self._desk = desk
        self.gate = asyncio.Event()
        """Closed, goals are accepted and wait: the moment for a connection to break."""
        self.gate.set()

    def begin_executing(self, goal: ScriptedGoal) -> None:
        super().begin_executing(goal)
        if self.gate.is_set():
            asyncio.get_running_loop().call_soon(self._carry_out, goal)
        else:
            waiting = asyncio.ensure_future(self.gate.wait())
            waiting.add_done_callback(lambda _: self._carry_out(goal))

    def _carry_out(self, goal: ScriptedGoal) -> None:
        if not goal.result.done():
            self._do(goal)

    def _do(self, goal: ScriptedGoal) -> None:
        raise NotImplementedError


class _ArmPort(_DeskPort):
    """MoveGroup."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, "/move_action", "moveit_msgs/action/MoveGroup")

    def _do(self, goal: ScriptedGoal) -> None:
        (wanted,) = goal.fields["request"]["goal_constraints"]
        if "joint_constraints" in wanted:
            self._desk.move_joints(wanted["joint_constraints"][0]["position"])
        else:
            self._desk.move_tool(_point(wanted))
        code = SimpleNamespace(val=1, message="", source="")
        goal.finish(GoalStatus.SUCCEEDED, SimpleNamespace(error_code=code))


class _GripperPort(_DeskPort):
    """GripperCommand, whose driver calls fingers that stopped on something a success."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, "/gripper_cmd", "control_msgs/action/GripperCommand")

    def _do(self, goal: ScriptedGoal) -> None:
        wanted_m = goal.fields["command"]["position"]
        stopped = self._desk.move_fingers(wanted_m)
        # What it felt when it stopped; what is there a moment later it does not know.
        felt_m = wanted_m + 0.02 if stopped else wanted_m
        result = SimpleNamespace(position=felt_m, effort=1.0, stalled=stopped, reached_goal=not stopped)
        goal.finish(GoalStatus.SUCCEEDED, result)


def _point(constraints: Mapping[str, Any]) -> tuple[float, float, float]:
    (region,) = constraints["position_constraints"][0]["constraint_region"]["primitive_poses"]
    at = region["position"]
    return float(at["x"]), float(at["y"]), float(at["z"])
