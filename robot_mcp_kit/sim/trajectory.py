"""FollowJointTrajectory as the joint trajectory controller serves it. Feedback 20 Hz."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from control_msgs.action import FollowJointTrajectory
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import SimActionServer, Slot
from robot_mcp_kit.sim.arm import JOINT_NAMES, Trajectory

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

FEEDBACK_PERIOD_S = 0.05
DEFAULT_GOAL_TOLERANCE_RAD = 0.02
CODES = FollowJointTrajectory.Result


def problem_with(trajectory: JointTrajectory, now_s: float) -> str:
    """Why the controller would refuse a trajectory (the wire carries no reason); empty when it would not."""
    names, points = list(trajectory.joint_names), list(trajectory.points)
    if sorted(names) != sorted(JOINT_NAMES):
        return f"joint_names must be exactly {', '.join(JOINT_NAMES)}"
    if not points:
        return "the trajectory has no points"
    last_s = -1.0
    for point in points:
        time_s = messages.seconds(point.time_from_start)
        if time_s <= last_s:
            return "time_from_start must rise strictly"
        last_s = time_s
        if len(point.positions) != len(names):
            return "every point needs one position a joint"
        if len(point.velocities) not in (0, len(names)) or len(point.accelerations) not in (0, len(names)):
            return "velocities and accelerations: none, or one a joint"
        if len(point.effort):
            return "there is no effort interface"
        if not all(math.isfinite(value) for value in (*point.positions, *point.velocities)):
            return "positions and velocities must be finite"
    if any(abs(v) > 1e-6 for v in points[-1].velocities):
        return "the last point's velocities must be zero"
    start_s = float(trajectory.header.stamp.sec) + trajectory.header.stamp.nanosec * 1e-9
    if start_s > 0 and start_s + last_s < now_s:
        return "the trajectory ends in the past"
    return ""


def from_message(trajectory: JointTrajectory) -> Trajectory:
    """A checked message as a trajectory in the arm's joint order."""
    order = [list(trajectory.joint_names).index(name) for name in JOINT_NAMES]
    times = [max(messages.seconds(point.time_from_start), 1e-3) for point in trajectory.points]
    return Trajectory(times, [tuple(float(p.positions[i]) for i in order) for p in trajectory.points])


def to_message(trajectory: Trajectory) -> JointTrajectory:
    """The other way round; velocities are left out."""
    message = JointTrajectory(joint_names=list(JOINT_NAMES))
    message.points = [
        JointTrajectoryPoint(positions=list(point), time_from_start=messages.duration(time_s))
        for time_s, point in zip(trajectory.times_s, trajectory.points, strict=True)
    ]
    if message.points:
        message.points[-1].velocities = [0.0] * len(JOINT_NAMES)
    return message


class TrajectoryServer(SimActionServer):
    """``arm_controller/follow_joint_trajectory``."""

    rate_hz = 100.0

    def __init__(self, sim: RobotSim) -> None:
        super().__init__(sim, "arm_controller/follow_joint_trajectory", FollowJointTrajectory)

    def acceptable(self, request: Any) -> bool:
        problem = problem_with(request.trajectory, self.clock.stamp_s())
        if problem:
            self.log.error(f"trajectory refused: {problem}")
        return not problem

    def result(self, code: int = 0, text: str = "") -> Any:
        return CODES(error_code=code, error_string=text)

    def deactivated(self) -> Any:
        return self.result(CODES.INVALID_GOAL, "Current goal cancelled during deactivate transition.")

    def run(self, slot: Slot) -> None:
        goal = slot.request
        trajectory = from_message(goal.trajectory)
        path_limits = {t.name: t.position for t in goal.path_tolerance if t.position > 0}
        goal_limits = dict.fromkeys(JOINT_NAMES, DEFAULT_GOAL_TOLERANCE_RAD)
        for tolerance in goal.goal_tolerance:
            if tolerance.position > 0:
                goal_limits[tolerance.name] = tolerance.position
            elif tolerance.position < 0:
                goal_limits.pop(tolerance.name, None)
        patience_s = messages.seconds(goal.goal_time_tolerance)
        arm = self.world.arm
        with self.world.lock:
            arm.follow(trajectory)
        feedback_due_s = self.clock.now_s
        for now_s in self.ticks():
            if slot.cancel_requested:
                self._stop(trajectory)
                slot.end("canceled")  # at once; the arm comes to rest afterwards
                return
            if self.pending is not None:
                text = "Current goal preempted by new incoming action."
                slot.end("aborted", self.result(CODES.INVALID_GOAL, text))
                return
            if self.forced_abort(slot):
                self._stop(trajectory)
                return
            with self.world.lock:
                desired, index = arm.wanted()
                actual, rates, elapsed_s = tuple(arm.positions), list(arm.rates), arm.elapsed_s
                settled = arm.resting
            error = {n: d - a for n, d, a in zip(JOINT_NAMES, desired, actual, strict=True)}
            if now_s >= feedback_due_s:
                feedback_due_s = now_s + FEEDBACK_PERIOD_S
                self._report(slot, desired, actual, rates, elapsed_s, index)
            if elapsed_s < trajectory.duration_s:
                if any(abs(error[name]) > limit for name, limit in path_limits.items() if name in error):
                    self._stop(trajectory)
                    text = "Aborted due to path tolerance violation"
                    slot.end("aborted", self.result(CODES.PATH_TOLERANCE_VIOLATED, text))
                    return
                continue
            if settled and all(
                abs(error[name]) <= limit for name, limit in goal_limits.items() if name in error
            ):
                slot.end("succeeded", self.result(CODES.SUCCESSFUL, "Goal successfully reached!"))
                return
            if patience_s > 0 and elapsed_s > trajectory.duration_s + patience_s:
                self._stop(trajectory)
                late_s = elapsed_s - trajectory.duration_s
                text = f"Aborted due to goal_time_tolerance exceeding by {late_s:.6f} seconds"
                slot.end("aborted", self.result(CODES.GOAL_TOLERANCE_VIOLATED, text))
                return

    def _stop(self, trajectory: Trajectory) -> None:
        with self.world.lock:
            if self.world.arm.trajectory is trajectory:
                self.world.arm.stop()

    def _report(
        self,
        slot: Slot,
        desired: tuple[float, ...],
        actual: tuple[float, ...],
        rates: list[float],
        elapsed_s: float,
        index: int,
    ) -> None:
        elapsed = messages.duration(elapsed_s)
        feedback = FollowJointTrajectory.Feedback(joint_names=list(JOINT_NAMES))
        feedback.header.stamp = messages.stamp(self.clock.stamp_s())
        feedback.desired = JointTrajectoryPoint(positions=list(desired), time_from_start=elapsed)
        feedback.actual = JointTrajectoryPoint(
            positions=list(actual), velocities=rates, time_from_start=elapsed
        )
        feedback.error = JointTrajectoryPoint(
            positions=[d - a for d, a in zip(desired, actual, strict=True)], time_from_start=elapsed
        )
        if hasattr(feedback, "index"):  # not on Jazzy
            feedback.index = index
        slot.feedback(feedback)
