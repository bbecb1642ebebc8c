"""MoveGroup: plan for the arm and let the trajectory controller carry it out, as ``/move_action`` does."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from control_msgs.action import FollowJointTrajectory
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes
from rclpy.action.server import ServerGoalHandle

from robot_mcp_kit.sim import arm, trajectory
from robot_mcp_kit.sim.actions import SimActionServer, SimulationEnded, Slot
from robot_mcp_kit.sim.floorplan import FloatArray, Pose
from robot_mcp_kit.sim.inner import InnerClient
from robot_mcp_kit.sim.world import compose, relative

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

Codes = MoveItErrorCodes
PLANNING_S = 0.3
PIPELINES = ("", "ompl", "move_group")
FLOOR_M = 0.02
MET_RAD = 1e-3


class MoveFailed(Exception):
    """Ends the goal with a MoveIt error code."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code


class MoveGroupServer(SimActionServer):
    """``move_action``. Every goal gets a thread of its own, and nothing keeps two of them apart (as in
    MoveIt).
    """

    rate_hz = 50.0

    def __init__(self, sim: RobotSim) -> None:
        self.client = InnerClient(sim, FollowJointTrajectory, "arm_controller/follow_joint_trajectory")
        super().__init__(sim, "move_action", MoveGroup)

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        slot = Slot(self, handle)
        self._slots[slot.key] = slot
        self.sim.record_goal(self.name, slot.key.hex(), accepted=True)
        threading.Thread(target=self._run_guarded, args=(slot,), name="move_action goal", daemon=True).start()
        self.start_executing(handle)

    def _run_guarded(self, slot: Slot) -> None:
        try:
            self.run(slot)
        except SimulationEnded:
            pass
        except Exception as error:
            self.log.error(f"the simulated server failed: {error!r}")
            self.sim.record_error(error)
        finally:
            self.terminate(slot)

    def result(self, code: int = 0, text: str = "") -> Any:
        result = MoveGroup.Result()
        result.error_code.val = code
        if hasattr(result.error_code, "message"):  # not before Jazzy
            result.error_code.message = text
            result.error_code.source = "" if code == Codes.SUCCESS else "robot_sim"
        return result

    def run(self, slot: Slot) -> None:
        slot.feedback(MoveGroup.Feedback(state="PLANNING"))
        result = self.result(Codes.SUCCESS)
        try:
            self._move(slot, result)
        except MoveFailed as failure:
            failed = self.result(failure.code, str(failure))
            failed.trajectory_start, failed.planned_trajectory = (
                result.trajectory_start,
                result.planned_trajectory,
            )
            slot.end("canceled" if failure.code == Codes.PREEMPTED else "aborted", failed)
        else:
            slot.end("succeeded", result)
        slot.feedback(MoveGroup.Feedback(state="IDLE"))  # after the end: MoveIt does that too

    def _move(self, slot: Slot, result: Any) -> None:
        request, options = slot.request.request, slot.request.planning_options
        if request.pipeline_id not in PIPELINES:
            # MoveIt loses its own FAILURE on the way when it was to execute as well.
            code = Codes.FAILURE if options.plan_only else Codes.UNDEFINED
            raise MoveFailed(code, "" if code == Codes.UNDEFINED else f"no pipeline '{request.pipeline_id}'")
        if request.group_name != arm.GROUP:
            raise MoveFailed(Codes.INVALID_GROUP_NAME, f"Invalid group name: {request.group_name}")
        with self.world.lock:
            start = tuple(self.world.arm.positions)
        result.trajectory_start.joint_state.name = list(arm.JOINT_NAMES)
        result.trajectory_start.joint_state.position = list(start)
        began_s = self.clock.now_s
        self._pause(slot, PLANNING_S)
        if 0.0 < request.allowed_planning_time < PLANNING_S:
            raise MoveFailed(Codes.TIMED_OUT, "planning did not end within allowed_planning_time")
        goal = self._any_goal(request.goal_constraints, start)
        if all(abs(a - b) < MET_RAD for a, b in zip(start, goal, strict=True)):
            if hasattr(result.error_code, "message"):
                result.error_code.message = "Requested path and goal constraints are already met."
            return
        plan = arm.plan(
            start, goal, request.max_velocity_scaling_factor, request.max_acceleration_scaling_factor
        )
        result.planned_trajectory.joint_trajectory = trajectory.to_message(plan)
        if options.plan_only:
            result.planning_time = self.clock.now_s - began_s
            return
        slot.feedback(MoveGroup.Feedback(state="MONITOR"))
        self._execute_plan(slot, plan)
        result.executed_trajectory = result.planned_trajectory

    def _pause(self, slot: Slot, seconds: float) -> None:
        until_s = self.clock.now_s + seconds
        for now_s in self.ticks():
            self._check(slot)
            if now_s >= until_s:
                return

    def _check(self, slot: Slot) -> None:
        if slot.cancel_requested:
            raise MoveFailed(Codes.PREEMPTED)
        faults = self.world.faults
        if 0 < faults.abort_after_s <= self.clock.now_s - slot.started_s and faults.touches(self.name):
            raise MoveFailed(faults.abort_code, "aborted by a simulated fault")

    def _execute_plan(self, slot: Slot, plan: arm.Trajectory) -> None:
        """Send the trajectory to the controller; whatever ends it there fails the motion here."""
        for _ in self.ticks():
            self._check(slot)
            if self.client.ready():
                break
        goal = FollowJointTrajectory.Goal(trajectory=trajectory.to_message(plan))
        inner = self.client.start(goal)
        # MoveIt's own bound, plus what the messages between the servers take: that is wall time, however
        # fast the
        # simulation runs.
        late_s = self.clock.now_s + plan.duration_s * 1.1 + 0.5 + self.sim.wall_slack_s(2.0)
        for now_s in self.ticks():
            if inner.done:
                break
            try:
                self._check(slot)
                if now_s > late_s:
                    raise MoveFailed(Codes.TIMED_OUT, "Timeout reached while executing the trajectory")
            except MoveFailed:
                inner.cancel()
                raise
        if not inner.succeeded:
            raise MoveFailed(Codes.CONTROL_FAILED, "Solution found but controller failed during execution")

    # -- goals -------------------------------------------------------------------------------------

    def _any_goal(self, alternatives: Sequence[Any], start: tuple[float, ...]) -> tuple[float, ...]:
        """Joint positions of the first alternative that can be met."""
        if not alternatives:
            raise MoveFailed(Codes.INVALID_GOAL_CONSTRAINTS, "no goal constraints were given")
        failure: MoveFailed | None = None
        for constraints in alternatives:
            try:
                goal = self._goal(constraints, start)
            except MoveFailed as error:
                failure = failure or error
                continue
            position, _ = arm.forward(goal)
            if float(position[2]) < FLOOR_M:
                failure = failure or MoveFailed(Codes.GOAL_IN_COLLISION, "the goal state is in collision")
                continue
            return goal
        raise failure or MoveFailed(Codes.PLANNING_FAILED)

    def _goal(self, constraints: Any, start: tuple[float, ...]) -> tuple[float, ...]:
        goal = list(start)
        position = self._wanted_position(constraints.position_constraints)
        rotation = self._wanted_rotation(constraints.orientation_constraints)
        if position is not None or rotation is not None:
            if position is None:
                here, _ = arm.forward(start)
                position = (float(here[0]), float(here[1]), float(here[2]))
            try:
                goal = list(arm.inverse(position, rotation, start))
            except arm.NoSolution as error:
                raise MoveFailed(Codes.NO_IK_SOLUTION, str(error)) from None
        elif not constraints.joint_constraints:
            raise MoveFailed(Codes.INVALID_GOAL_CONSTRAINTS, "the goal has no usable constraints")
        for constraint in constraints.joint_constraints:
            if constraint.joint_name not in arm.JOINT_NAMES:
                raise MoveFailed(Codes.INVALID_GOAL_CONSTRAINTS, f"unknown joint '{constraint.joint_name}'")
            index = arm.JOINT_NAMES.index(constraint.joint_name)
            joint = arm.JOINTS[index]
            wanted = min(max(float(constraint.position), joint.low_rad), joint.high_rad)
            if wanted != constraint.position:
                # MoveIt moves such a goal to the limit, with nothing but a line in its log.
                self.log.warning(f"joint {joint.name} is constrained beyond its limit; assuming {wanted:.3f}")
            goal[index] = wanted
        return tuple(goal)

    def _wanted_position(self, constraints: Sequence[Any]) -> tuple[float, float, float] | None:
        for constraint in constraints:
            self._check_link(constraint.link_name)
            poses = constraint.constraint_region.primitive_poses
            if not poses:
                raise MoveFailed(Codes.INVALID_GOAL_CONSTRAINTS, "a position constraint without a region")
            frame = constraint.header.frame_id
            if not frame:
                # As in MoveIt: the constraint fails to configure, which only the log tells; the rest is
                # planned.
                self.log.warning("no frame specified for a position constraint; it is ignored")
                continue
            point = poses[0].position
            return self._in_base(frame, float(point.x), float(point.y), float(point.z))
        return None

    def _wanted_rotation(self, constraints: Sequence[Any]) -> FloatArray | None:
        for constraint in constraints:
            self._check_link(constraint.link_name)
            if not constraint.header.frame_id:
                self.log.warning("no frame specified for an orientation constraint; it is ignored")
                continue
            q = constraint.orientation
            try:
                rotation = arm.rotation_of_quaternion(q.x, q.y, q.z, q.w)
            except ValueError as error:
                raise MoveFailed(Codes.INVALID_GOAL_CONSTRAINTS, str(error)) from None
            yaw_rad = self._ground_frame(constraint.header.frame_id)[1].yaw_rad
            turn = arm.rotation_of_quaternion(0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2))
            turned: FloatArray = turn @ rotation
            return turned
        return None

    def _check_link(self, name: str) -> None:
        if name != arm.TOOL_LINK:
            raise MoveFailed(Codes.INVALID_LINK_NAME, f"the group ends in '{arm.TOOL_LINK}', not in '{name}'")

    def _ground_frame(self, frame: str) -> tuple[float, Pose]:
        """Height of a frame's origin above the floor, and its planar pose in ``base_link``."""
        if frame == "arm_base_link":
            return arm.ARM_BASE[2], Pose(arm.ARM_BASE[0], arm.ARM_BASE[1])
        with self.world.lock:
            if frame in ("base_link", "base_footprint"):
                return 0.0, Pose(0.0, 0.0)
            origin = self.world.to_map(frame, Pose(0.0, 0.0))
            if origin is None:
                raise MoveFailed(Codes.FRAME_TRANSFORM_FAILURE, f"unknown frame '{frame}'")
            return 0.0, relative(self.world.base.pose, origin)

    def _in_base(self, frame: str, x: float, y: float, z: float) -> tuple[float, float, float]:
        height, origin = self._ground_frame(frame)
        ground = compose(origin, Pose(x, y))
        return ground.x_m, ground.y_m, z + height
