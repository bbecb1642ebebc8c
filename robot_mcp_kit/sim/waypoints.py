"""FollowWaypoints: one NavigateToPose goal a waypoint, sent through the real action interface. 20 Hz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nav2_msgs.msg
from nav2_msgs.action import FollowWaypoints, NavigateToPose

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import SimActionServer, Slot
from robot_mcp_kit.sim.inner import InnerClient, InnerGoal

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

PAUSE_S = 0.2
"""What the default task at every waypoint takes."""


class FollowWaypointsServer(SimActionServer):
    """``follow_waypoints``. Missed waypoints end it (``stop_on_failure``) or are listed in the result."""

    rate_hz = 20.0

    def __init__(self, sim: RobotSim) -> None:
        self.client = InnerClient(sim, NavigateToPose, "navigate_to_pose")
        super().__init__(sim, "follow_waypoints", FollowWaypoints)

    def _problem(self, request: Any) -> tuple[int, str]:
        codes = FollowWaypoints.Result
        if not request.poses:
            empty = messages.code(codes, "NO_VALID_WAYPOINTS", 602)
            return empty, "Empty vector of waypoints passed to waypoint following action."
        if request.goal_index >= len(request.poses):
            # Nav2 reads beyond the list here; a simulator that crashes would teach nothing.
            return codes.UNKNOWN, f"goal_index {request.goal_index} is not in a list of {len(request.poses)}"
        return 0, ""

    def run(self, slot: Slot) -> None:
        code, text = self._problem(slot.request)
        if code:
            slot.end("aborted", self.result(code, text))
            return
        self._restart(slot)
        for now_s in self.ticks():
            if self.pending is not None and not self.pending.cancel_requested:
                slot = self.take_pending()
                code, text = self._problem(slot.request)
                if code:
                    self._cancel_inner()
                    slot.end("aborted", self.result(code, text))
                    return
                self._restart(slot)
            if slot.cancel_requested or (self.pending is not None and self.pending.cancel_requested):
                self._cancel_inner()
                self.terminate(slot)
                if self.pending is not None:
                    self.drop_pending()
                return
            if self.forced_abort(slot):
                self._cancel_inner()
                return
            slot.feedback(FollowWaypoints.Feedback(current_waypoint=self._index))
            self._advance(slot, now_s)
            if slot.finished.is_set():
                return

    def _restart(self, slot: Slot) -> None:
        self._index = int(slot.request.goal_index)
        self._loops_left = int(slot.request.number_of_loops)
        self._missed: list[Any] = []
        self._inner: InnerGoal | None = None
        self._next_s = self.clock.now_s

    def _cancel_inner(self) -> None:
        """Nav2 cancels all goals of navigate_to_pose here, also those of others."""
        if self._inner is not None and not self._inner.done:
            self._inner.cancel_all()

    def _advance(self, slot: Slot, now_s: float) -> None:
        inner, poses = self._inner, slot.request.poses
        if inner is None:
            if now_s >= self._next_s and self.client.ready():
                self._inner = self.client.start(NavigateToPose.Goal(pose=poses[self._index]))
            return
        if not inner.done:
            return
        self._inner = None
        if inner.succeeded:
            self._next_s = now_s + PAUSE_S
        elif self._note_missed(slot, inner):
            return
        self._index += 1
        if self._index < len(poses):
            return
        if self._loops_left == 0:
            result = self.result()
            result.missed_waypoints = self._missed
            slot.end("succeeded", result)
            return
        self._loops_left -= 1
        self._index = 0

    def _note_missed(self, slot: Slot, inner: InnerGoal) -> bool:
        """Remember a missed waypoint. ``True`` when that ends the goal."""
        if inner.result is not None:
            code, reason = int(inner.result.error_code), str(inner.result.error_msg)
        else:
            code, reason = FollowWaypoints.Result.UNKNOWN, "navigate_to_pose did not accept the goal"
        self._missed.append(_missed(self._index, slot.request.poses[self._index], code, reason))
        if not self.world.faults.stop_on_failure:
            return False
        text = (
            f"Failed to process waypoint {self._index} in waypoint list and stop on failure is enabled. "
            "Terminating action."
        )
        stopped = messages.code(FollowWaypoints.Result, "STOP_ON_MISSED_WAYPOINT", 603)
        result = self.result(stopped, text)
        result.missed_waypoints = self._missed
        slot.end("aborted", result)
        return True


def _missed(index: int, pose: Any, code: int, text: str) -> Any:
    """An entry of ``missed_waypoints`` as this distribution has it."""
    if not hasattr(nav2_msgs.msg, "WaypointStatus"):  # Jazzy
        return nav2_msgs.msg.MissedWaypoint(index=index, goal=pose, error_code=code)
    status = nav2_msgs.msg.WaypointStatus(waypoint_status=nav2_msgs.msg.WaypointStatus.FAILED)
    status.waypoint_index, status.waypoint_pose = index, pose
    status.error_code, status.error_msg = code, text
    return status
