"""GripperCommand as the standard gripper controller serves it: no feedback, stall detection after a
second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from control_msgs.action import GripperCommand

from robot_mcp_kit.sim.actions import SimActionServer, Slot

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

FINGER_JOINT = "gripper_finger_joint"
GOAL_TOLERANCE_M = 0.005
STALL_SPEED = 0.001
STALL_TIMEOUT_S = 1.0


class GripperServer(SimActionServer):
    """``gripper_controller/gripper_cmd``: position is the gap in metres, 0 to 0.085."""

    rate_hz = 20.0

    def __init__(self, sim: RobotSim) -> None:
        super().__init__(sim, "gripper_controller/gripper_cmd", GripperCommand)

    def acceptable(self, request: Any) -> bool:
        return math.isfinite(request.command.position) and math.isfinite(request.command.max_effort)

    def result(self, code: int = 0, text: str = "") -> Any:  # noqa: ARG002
        """There are no error fields in this action."""
        return GripperCommand.Result()

    def run(self, slot: Slot) -> None:
        command = slot.request.command
        gripper = self.world.gripper
        with self.world.lock:
            self.world.command_gripper(float(command.position), float(command.max_effort))
        moved_s = self.clock.now_s
        for now_s in self.ticks():
            with self.world.lock:
                if slot.cancel_requested:
                    gripper.hold_position()
                    slot.end("canceled")  # the default result: position 0.0 is not a measurement
                    return
                if self.pending is not None:
                    slot.end("aborted")
                    return
                if self.forced_abort(slot):
                    gripper.hold_position()
                    return
                state = {"position": gripper.gap_m, "effort": gripper.effort_n}
                if abs(gripper.speed) >= STALL_SPEED:
                    moved_s = now_s
            reached = abs(state["position"] - command.position) < GOAL_TOLERANCE_M
            stalled = not reached and now_s - moved_s > STALL_TIMEOUT_S
            if self.world.faults.gripper_feedback:
                slot.feedback(GripperCommand.Feedback(**state, stalled=stalled, reached_goal=reached))
            if reached or stalled:
                result = GripperCommand.Result(**state, stalled=stalled, reached_goal=reached)
                good = reached or self.world.faults.allow_stalling
                slot.end("succeeded" if good else "aborted", result)
                return
