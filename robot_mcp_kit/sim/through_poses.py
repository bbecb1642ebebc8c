"""NavigateThroughPoses: one plan through all poses, which are ticked off as the robot passes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import NavigateThroughPoses

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import Slot
from robot_mcp_kit.sim.navigation import Muxer, Navigator
from robot_mcp_kit.sim.planner import Path, PlanError, Planner

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

PASS_RADIUS_M = 0.5
NO_VIAPOINTS_GIVEN = 209  # plus the offset of this family: 309
PENDING, COMPLETED, FAILED = 0, 1, 3  # WaypointStatus, which Jazzy does not have


class NavigateThroughPosesServer(Navigator):
    """``navigate_through_poses``."""

    UNKNOWN_TREE = messages.code(NavigateThroughPoses.Result, "FAILED_TO_LOAD_BEHAVIOR_TREE", 9101)
    TF_ERROR = messages.code(NavigateThroughPoses.Result, "TF_ERROR", 9102)
    PLANNER_OFFSET = 100

    def __init__(self, sim: RobotSim, muxer: Muxer) -> None:
        self.poses: list[Any] = []
        self.statuses: list[int] = []
        super().__init__(sim, "navigate_through_poses", NavigateThroughPoses, muxer)

    def goal_poses(self, request: Any) -> list[Any]:
        return list(getattr(request.poses, "goals", request.poses))

    def on_start(self, request: Any) -> None:
        self.poses = self.goal_poses(request)
        self.statuses = [PENDING] * len(self.poses)

    def on_tick(self) -> None:
        """Drop passed poses; the last one stays until success."""
        base = self.world.base
        while len(self.targets) > 1:
            target = self.targets[0]
            if math.hypot(base.x_m - target.x_m, base.y_m - target.y_m) > PASS_RADIUS_M:
                return
            self.targets.pop(0)
            self.statuses[len(self.statuses) - len(self.targets) - 1] = COMPLETED

    def find_path(self, planner: Planner, here: tuple[float, float]) -> Path:
        if not self.targets:
            raise PlanError(NO_VIAPOINTS_GIVEN, "No viapoints given")
        return super().find_path(planner, here)

    def send_feedback(self, slot: Slot, now_s: float) -> None:
        feedback = NavigateThroughPoses.Feedback()
        if self.targets:  # with an empty list Nav2 publishes all zeros
            self.fill(feedback, now_s)
            feedback.number_of_poses_remaining = len(self.targets)
        self._tell_statuses(feedback)
        slot.feedback(feedback)

    def final_result(self, code: int, text: str, *, success: bool) -> Any:
        end = COMPLETED if success else FAILED
        self.statuses = [end if status == PENDING else status for status in self.statuses]
        result = self.result(code, text)
        self._tell_statuses(result)
        return result

    def _tell_statuses(self, message: Any) -> None:
        if not hasattr(message, "waypoint_statuses"):  # Jazzy
            return
        from nav2_msgs.msg import WaypointStatus

        message.waypoint_statuses = [
            WaypointStatus(waypoint_status=status, waypoint_index=index, waypoint_pose=self.poses[index])
            for index, status in enumerate(self.statuses)
        ]
