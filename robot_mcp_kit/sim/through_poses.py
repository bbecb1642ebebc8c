"""NavigateThroughPoses: one plan through all poses, which are ticked off as the robot passes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import NavigateThroughPoses
from nav2_msgs.msg import WaypointStatus

from robot_mcp_kit.sim.actions import Slot
from robot_mcp_kit.sim.navigation import Muxer, Navigator
from robot_mcp_kit.sim.planner import Path, PlanError, Planner

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

PASS_RADIUS_M = 0.5
NO_VIAPOINTS_GIVEN = 209  # plus the offset of this family: 309


class NavigateThroughPosesServer(Navigator):
    """``navigate_through_poses``."""

    UNKNOWN_TREE = NavigateThroughPoses.Result.FAILED_TO_LOAD_BEHAVIOR_TREE
    TF_ERROR = NavigateThroughPoses.Result.TF_ERROR
    PLANNER_OFFSET = 100

    def __init__(self, sim: RobotSim, muxer: Muxer) -> None:
        self.statuses: list[WaypointStatus] = []
        super().__init__(sim, "navigate_through_poses", NavigateThroughPoses, muxer)

    def goal_poses(self, request: Any) -> list[Any]:
        return list(getattr(request.poses, "goals", request.poses))

    def on_start(self, request: Any) -> None:
        self.statuses = [
            WaypointStatus(waypoint_status=WaypointStatus.PENDING, waypoint_index=index, waypoint_pose=pose)
            for index, pose in enumerate(self.goal_poses(request))
        ]

    def on_tick(self) -> None:
        """Drop passed poses; the last one stays until success."""
        base = self.world.base
        while len(self.targets) > 1:
            target = self.targets[0]
            if math.hypot(base.x_m - target.x_m, base.y_m - target.y_m) > PASS_RADIUS_M:
                return
            self.targets.pop(0)
            self.statuses[
                len(self.statuses) - len(self.targets) - 1
            ].waypoint_status = WaypointStatus.COMPLETED

    def find_path(self, planner: Planner, here: tuple[float, float]) -> Path:
        if not self.targets:
            raise PlanError(NO_VIAPOINTS_GIVEN, "No viapoints given")
        return super().find_path(planner, here)

    def send_feedback(self, slot: Slot, now_s: float) -> None:
        feedback = NavigateThroughPoses.Feedback()
        if self.targets:  # with an empty list Nav2 publishes all zeros
            self.fill(feedback, now_s)
            feedback.number_of_poses_remaining = len(self.targets)
        feedback.waypoint_statuses = self.statuses
        slot.feedback(feedback)

    def final_result(self, code: int, text: str, *, success: bool) -> Any:
        for status in self.statuses:
            if status.waypoint_status == WaypointStatus.PENDING:
                status.waypoint_status = WaypointStatus.COMPLETED if success else WaypointStatus.FAILED
        result = self.result(code, text)
        result.waypoint_statuses = self.statuses
        return result
