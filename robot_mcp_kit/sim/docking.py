"""DockRobot and UndockRobot: staging, perception, approach, charging, retries. 50 Hz."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import DockRobot, NavigateToPose, UndockRobot

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import SimActionServer, Slot
from robot_mcp_kit.sim.drive import FollowPath, Motion, Straight
from robot_mcp_kit.sim.floorplan import Dock, Pose
from robot_mcp_kit.sim.inner import InnerClient, InnerGoal
from robot_mcp_kit.sim.planner import Path

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

PERCEPTION_S = 1.0
PERCEPTION_TIMEOUT_S = 5.0
APPROACH_TIMEOUT_S = 30.0
CHARGE_TIMEOUT_S = 5.0
CHARGE_S = 1.0
MAX_RETRIES = 3
APPROACH_SPEED = 0.15
STAGING_TOLERANCE_M = 0.5
DETECTION_M = 0.5


def _done(goal: InnerGoal, _now_s: float) -> bool:
    return goal.done


class DockingFailed(Exception):
    """One of the phases failed; carries the error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class DockingCanceled(Exception):
    """Cancelled or replaced; carries the code that surfaces with it."""

    def __init__(self, code: int = 0) -> None:
        super().__init__("canceled")
        self.code = code


class _DockingServer(SimActionServer):
    rate_hz = 50.0
    _motion: Motion | None = None

    def run(self, slot: Slot) -> None:
        try:
            result = self.work(slot)
            if not slot.finished.is_set() and result is not None:
                slot.end("succeeded", result)
        except DockingFailed as failure:
            slot.end("aborted", self.failure(failure.code, str(failure)))
        except DockingCanceled as stopped:
            code = stopped.code
            slot.end("canceled", self.failure(code, "staging was canceled" if code else ""))
        finally:
            self.world.base.stop(self._motion)

    def work(self, slot: Slot) -> Any:
        """Returns the result of success, or None to end without any."""
        raise NotImplementedError

    def failure(self, code: int, text: str) -> Any:
        result = self.result(code, text)
        result.success = False
        return result

    def dock_type(self, name: str) -> str:
        """The type meant by a request. Raises DockingFailed 902."""
        known = sorted({dock.dock_type for dock in self.world.plan.docks.values()})
        if not name and len(known) == 1:
            return known[0]
        if name not in known:
            raise DockingFailed(DockRobot.Result.DOCK_NOT_VALID, f"Dock type '{name}' is not valid")
        return name

    def wait_for(
        self,
        slot: Slot,
        until: Callable[[float], bool],
        timeout_s: float,
        failure: DockingFailed,
        cancel_code: int = 0,
    ) -> None:
        """Loop until something is true.

        Raises:
            DockingFailed: the given failure, after the timeout.
            DockingCanceled: cancelled, preempted, or ended by a fault.
        """
        started_s = self.clock.now_s
        for now_s in self.ticks():
            if slot.cancel_requested or self.pending is not None or self.forced_abort(slot):
                raise DockingCanceled(cancel_code)
            self.report(slot, now_s)
            if until(now_s):
                return
            if now_s - started_s > timeout_s:
                raise failure

    def report(self, slot: Slot, now_s: float) -> None:
        """Publish feedback."""

    def move(self, motion: Motion) -> Motion:
        with self.world.lock:
            self._motion = self.world.base.motion = motion
        return motion


class DockRobotServer(_DockingServer):
    """``dock_robot``."""

    def __init__(self, sim: RobotSim) -> None:
        self.client = InnerClient(sim, NavigateToPose, "navigate_to_pose")
        self._state = 0
        self._retries = 0
        super().__init__(sim, "dock_robot", DockRobot)

    def report(self, slot: Slot, now_s: float) -> None:
        slot.feedback(
            DockRobot.Feedback(
                state=self._state,
                docking_time=messages.duration(now_s - slot.started_s),
                num_retries=self._retries,
            )
        )

    def failure(self, code: int, text: str) -> Any:
        result = super().failure(code, text)
        result.num_retries = self._retries
        return result

    def _dock(self, request: Any) -> Dock:
        """The dock that is meant; one given by pose need not exist."""
        codes = DockRobot.Result
        if request.use_dock_id:
            dock = self.world.plan.docks.get(request.dock_id)
            if dock is None:
                raise DockingFailed(
                    codes.DOCK_NOT_IN_DB, f"Dock with id '{request.dock_id}' is not in the database"
                )
            return dock
        kind = self.dock_type(request.dock_type)
        pose = self.world.to_map(request.dock_pose.header.frame_id, messages.planar(request.dock_pose))
        if pose is None:
            raise DockingFailed(
                codes.UNKNOWN, f"Transform of the dock pose from '{request.dock_pose.header.frame_id}' failed"
            )
        back = Pose(
            pose.x_m - 0.65 * math.cos(pose.yaw_rad), pose.y_m - 0.65 * math.sin(pose.yaw_rad), pose.yaw_rad
        )
        return Dock("", kind, pose, back)

    def _seen(self, dock: Dock) -> Dock | None:
        """The real dock near the place where the given one should be."""
        if self.world.faults.dock_hidden:
            return None
        for real in self.world.plan.docks.values():
            if math.hypot(real.pose.x_m - dock.pose.x_m, real.pose.y_m - dock.pose.y_m) < DETECTION_M:
                return real
        return None

    def work(self, slot: Slot) -> Any:
        self._state, self._retries = 0, 0
        codes = DockRobot.Result
        dock = self._dock(slot.request)
        if self.world.docked_at is not None:
            return self.result()
        if slot.request.navigate_to_staging_pose:
            self._stage(slot, dock)
        dock = self._perceive(slot, dock)
        while True:
            try:
                self._approach(slot, dock)
                self._charge(slot)
            except DockingFailed as failure:
                if self._retries >= MAX_RETRIES:
                    raise
                self.log.warning(f"{failure}; backing off to try again")
                self._retries += 1
                self._back_off(slot, dock)
                continue
            result = self.result(codes.NONE)
            result.num_retries = self._retries
            return result

    def _stage(self, slot: Slot, dock: Dock) -> None:
        """Phase 1: drive to the staging pose by a NavigateToPose goal of our own."""
        failed = DockRobot.Result.FAILED_TO_STAGE
        base, staging = self.world.base, dock.staging
        if math.hypot(base.x_m - staging.x_m, base.y_m - staging.y_m) < STAGING_TOLERANCE_M:
            return
        self._state = DockRobot.Feedback.NAV_TO_STAGING_POSE
        pose = messages.pose_stamped(staging, "map", 0.0)
        patience_s = 5.0 + self.sim.wall_slack_s(5.0)
        absent = DockingFailed(failed, "navigate_to_pose is not available")
        self.wait_for(slot, lambda _: self.client.ready(), patience_s, absent, failed)
        for attempt in (1, 2):  # Nav2 tries once more when navigation ends with any error code
            inner = self.client.start(NavigateToPose.Goal(pose=pose))
            try:
                timeout_s = float(slot.request.max_staging_time)
                late = DockingFailed(failed, "Failed to reach the staging pose in time")
                self.wait_for(slot, partial(_done, inner), timeout_s, late, failed)
            except (DockingFailed, DockingCanceled):
                inner.cancel()
                raise
            if inner.succeeded and inner.result.error_code == 0:
                return
            if attempt == 2:
                raise DockingFailed(failed, "Navigation request to the staging pose failed")

    def _perceive(self, slot: Slot, dock: Dock) -> Dock:
        """Phase 2: see the dock."""
        self._state = DockRobot.Feedback.INITIAL_PERCEPTION
        since_s = self.clock.now_s
        missing = DockingFailed(
            DockRobot.Result.FAILED_TO_DETECT_DOCK, "Failed initial dock detection: Timeout exceeded"
        )
        self.wait_for(
            slot,
            lambda now_s: now_s - since_s >= PERCEPTION_S and self._seen(dock) is not None,
            PERCEPTION_TIMEOUT_S,
            missing,
        )
        return self._seen(dock) or dock

    def _approach(self, slot: Slot, dock: Dock) -> None:
        """Phase 3: drive in."""
        self._state = DockRobot.Feedback.CONTROLLING
        base = self.world.base
        path = Path.through([(base.x_m, base.y_m), (dock.pose.x_m, dock.pose.y_m)])
        motion = FollowPath(path, dock.pose.yaw_rad, speed=APPROACH_SPEED, xy_tolerance_m=0.015)
        self.move(motion)

        def arrived(_: float) -> bool:
            if self._seen(dock) is None:
                raise DockingFailed(DockRobot.Result.FAILED_TO_DETECT_DOCK, "Failed dock detection")
            return motion.done and self.world.docked_at is not None

        late = DockingFailed(
            DockRobot.Result.FAILED_TO_CONTROL, "Timed out approaching the dock; dock not reached"
        )
        try:
            self.wait_for(slot, arrived, APPROACH_TIMEOUT_S, late)
        finally:
            self.world.base.stop(motion)

    def _charge(self, slot: Slot) -> None:
        """Phase 4: current flows (a full battery counts as well)."""
        self._state = DockRobot.Feedback.WAIT_FOR_CHARGE
        since_s = self.clock.now_s

        def charging(now_s: float) -> bool:
            battery = self.world.battery
            flows = battery.charging or (battery.full and not self.world.faults.no_charge)
            return now_s - since_s >= CHARGE_S and flows

        late = DockingFailed(
            DockRobot.Result.FAILED_TO_CHARGE, "Timed out waiting for the battery to start charging"
        )
        self.wait_for(slot, charging, CHARGE_TIMEOUT_S, late)

    def _back_off(self, slot: Slot, dock: Dock) -> None:
        """Before a retry: back to the staging pose. Feedback says INITIAL_PERCEPTION; RETRY is never
        published.
        """
        self._state = DockRobot.Feedback.INITIAL_PERCEPTION
        base, staging = self.world.base, dock.staging
        way = math.hypot(base.x_m - staging.x_m, base.y_m - staging.y_m)
        motion = self.move(Straight(-way, APPROACH_SPEED))
        late = DockingFailed(DockRobot.Result.FAILED_TO_CONTROL, "Timed out backing off from the dock")
        self.wait_for(slot, lambda _: motion.done, APPROACH_TIMEOUT_S, late)


class UndockRobotServer(_DockingServer):
    """``undock_robot``: backwards to the staging pose. Off the dock it aborts with ``success`` still true."""

    def __init__(self, sim: RobotSim) -> None:
        super().__init__(sim, "undock_robot", UndockRobot)

    def work(self, slot: Slot) -> Any:
        self.dock_type(slot.request.dock_type)
        dock = self.world.docked_at
        if dock is None:
            # Nav2 returns here without ending the goal; its wrapper then aborts with a default-constructed
            # result.
            self.log.info("the robot is not in the dock, no need to undock")
            return None
        base, staging = self.world.base, dock.staging
        way = math.hypot(base.x_m - staging.x_m, base.y_m - staging.y_m)
        motion = self.move(Straight(-way, APPROACH_SPEED))
        late = DockingFailed(
            UndockRobot.Result.FAILED_TO_CONTROL, "Undocking timed out; the robot is not at the staging pose"
        )
        self.wait_for(slot, lambda _: motion.done, float(slot.request.max_undocking_time), late)
        return self.result()
