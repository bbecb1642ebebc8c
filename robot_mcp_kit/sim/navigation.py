"""NavigateToPose and NavigateThroughPoses: what the BT navigator, planner and controller do together."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import NavigateToPose

from robot_mcp_kit.sim import messages
from robot_mcp_kit.sim.actions import End, SimActionServer, Slot
from robot_mcp_kit.sim.drive import FollowPath
from robot_mcp_kit.sim.floorplan import ClearanceMap, Pose
from robot_mcp_kit.sim.planner import Path, PlanError, Planner
from robot_mcp_kit.sim.recovery import Progress, Recoveries

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

PLANNING_S = 0.3
REPLAN_PERIOD_S = 1.0
TF_PATIENCE_S = 5.0
OFF_PATH_M = 0.3
CONTROLLER_TF_ERROR = 102
FAILED_TO_MAKE_PROGRESS = 105
# Codes a recovery can help against (Nav2: WouldAControllerRecoveryHelp, WouldAPlannerRecoveryHelp).
RECOVERABLE = frozenset({100, 104, 105, 106, 200, 207, 208, 300, 307, 308})


class Muxer:
    """Only one navigator may run at a time; another one's goal is accepted and then aborted at once."""

    def __init__(self) -> None:
        self.owner: object | None = None

    def take(self, who: object) -> bool:
        if self.owner is not None and self.owner is not who:
            return False
        self.owner = who
        return True

    def release(self, who: object) -> None:
        if self.owner is who:
            self.owner = None


class Phase(Enum):
    PLANNING = "planning"
    FOLLOWING = "following"
    RECOVERING = "recovering"


class Navigator(SimActionServer):
    """A BT navigator. One loop with three phases: plan, follow (replanning at 1 Hz), recover."""

    UNKNOWN_TREE = 9001
    TF_ERROR = 9002
    PLANNER_OFFSET = 0

    def __init__(self, sim: RobotSim, name: str, action_type: Any, muxer: Muxer) -> None:
        self.muxer = muxer
        self.rate_hz = sim.feedback_hz
        # Kilted keeps the last path on the blackboard when a new goal begins: the first feedback of the next
        # goal
        # is computed from it until the planner has answered.
        self.path: Path | None = None
        self.codes: dict[str, tuple[int, str]] = {}
        self.targets: list[Pose] = []
        self.recoveries = 0
        self._motion: FollowPath | None = None
        self._needs_plan = True
        self._planned_on: ClearanceMap | None = None
        self._blind_since_s: float | None = None
        self._start_s = self._plan_due_s = 0.0
        super().__init__(sim, name, action_type)

    # -- differences between the two navigators ----------------------------------------------------

    def goal_poses(self, request: Any) -> list[Any]:
        return [request.pose]

    def on_start(self, request: Any) -> None:
        """The goal's poses are known."""

    def on_tick(self) -> None:
        """Called in every loop while localized."""

    def send_feedback(self, slot: Slot, now_s: float) -> None:
        feedback = NavigateToPose.Feedback()
        self.fill(feedback, now_s)
        slot.feedback(feedback)

    def final_result(self, code: int, text: str, *, success: bool) -> Any:  # noqa: ARG002
        return self.result(code, text)

    def forget(self) -> None:
        self.path = None

    # -- one goal ----------------------------------------------------------------------------------

    def run(self, slot: Slot) -> None:
        if not self.muxer.take(self):
            self.log.warning("another navigator is busy: goal aborted")
            slot.end("aborted")
            return
        try:
            self._navigate(slot)
        finally:
            self.world.base.stop(self._motion)
            self.muxer.release(self)

    def _tree_of(self, slot: Slot) -> str:
        return str(slot.request.behavior_tree) or self.sim.behavior_trees[0]

    def _initialize(self, slot: Slot) -> str:
        """Take over the goal's poses in ``map``; returns why not, or an empty string."""
        with self.world.lock:
            if not self.world.localized:
                return "Initial robot pose is not available."
            targets = []
            for pose in self.goal_poses(slot.request):
                target = self.world.to_map(pose.header.frame_id, messages.planar(pose))
                if target is None:
                    return (
                        f"Failed to transform a goal pose provided with frame_id '{pose.header.frame_id}' "
                        "to the global frame 'map'."
                    )
                targets.append(target)
        self.targets = targets
        self._start_s = self.clock.now_s
        self._plan_due_s = self._start_s + PLANNING_S
        self._needs_plan = True
        self.recoveries = 0
        self.on_start(slot.request)
        return ""

    def _navigate(self, slot: Slot) -> None:
        self.codes = {}
        self._motion = None
        tree = self._tree_of(slot)
        if tree not in self.sim.behavior_trees:
            text = f"Error loading XML file: {tree}. Navigation canceled."
            slot.end("aborted", self.result(self.UNKNOWN_TREE, text))
            return
        problem = self._initialize(slot)
        if problem:
            slot.end("aborted", self.result(self.TF_ERROR, problem))
            return
        self._recovery = Recoveries(self.world, self.codes)
        self._progress = Progress(self.world.base, self.clock.now_s)
        self._phase = Phase.PLANNING
        self._blind_since_s = None
        for now_s in self.ticks():
            if self._cancelled() or self.forced_abort(self._running):
                return
            if self.pending is not None:
                self._preempt(tree)
            if self.world.localized:
                self.on_tick()
                self.send_feedback(self._running, now_s)
            self._advance(now_s)
            if self._running.finished.is_set():
                return

    @property
    def _running(self) -> Slot:
        if self.current is None:
            raise RuntimeError("no goal is running")
        return self.current

    def _cancelled(self) -> bool:
        """Nav2 looks at the pending goal alone while there is one: a cancel of the old one is then not
        seen.
        """
        pending = self.pending
        if not (pending if pending is not None else self._running).cancel_requested:
            return False
        self.world.base.stop(self._motion)
        self._recovery.halt()
        self._running.end("canceled", self.final_result(0, "", success=False))
        if pending is not None:
            self.drop_pending()
        return True

    def _preempt(self, tree: str) -> None:
        if self.pending is not None and self._tree_of(self.pending) != tree:
            self.log.warning("preemption refused: the new goal asks for another behavior tree")
            self.drop_pending()
            return
        problem = self._initialize(self.take_pending())
        if problem:
            # As Nav2 does: the old handle has already been aborted, so the new one goes on towards the old
            # pose.
            self.log.warning(f"{problem} Continuing to the last goal.")
            self.codes["goal"] = (self.TF_ERROR, problem)
            return
        if self._phase is Phase.RECOVERING:
            self._recovery.halt()
            self._phase = Phase.PLANNING
        self._recovery.attempts = 0
        self._progress.reset(self.clock.now_s)

    def _end(self, how: End) -> None:
        """End with the smallest code that any part left behind (Nav2's rule, on success too)."""
        code, text = min(self.codes.values(), default=(0, ""))
        self._running.end(how, self.final_result(code, text, success=how == "succeeded"))

    def _advance(self, now_s: float) -> None:
        """One tick of the tree; may end the goal."""
        if not self._can_see(now_s):
            return
        if self._phase is Phase.RECOVERING:
            if self._recovery.finished(now_s):
                self._phase = Phase.PLANNING
                self._needs_plan = True
                self._plan_due_s = now_s + PLANNING_S
            return
        if now_s >= self._plan_due_s and not self._plan(now_s):
            return
        if self._motion is None or self._needs_plan:
            return
        if self._motion.done:
            self.codes.pop("follow_path", None)
            self._end("succeeded")
        elif not self._progress.made(now_s):
            self._fail("follow_path", FAILED_TO_MAKE_PROGRESS, "Failed to make progress", now_s)

    def _can_see(self, now_s: float) -> bool:
        """Without a transform the controller cannot work: it stands still, and gives up after a while."""
        if self.world.localized:
            self._blind_since_s = None
            return True
        self.world.base.stop(self._motion)
        if self._blind_since_s is None:
            self._blind_since_s = now_s
        elif now_s - self._blind_since_s > TF_PATIENCE_S:
            text = (
                "Could not transform the global plan to the robot's frame: no transform from map to base_link"
            )
            self.codes["follow_path"] = (CONTROLLER_TF_ERROR, text)
            self._end("aborted")
        return False

    def _plan(self, now_s: float) -> bool:
        """The planner answers, now. ``False`` when it found nothing."""
        base = self.world.base
        with self.world.lock:
            here, planner = (base.x_m, base.y_m), self.world.planner
            clearance = planner.clearance
        # On an unchanged map the planner would find the rest of the same path again.
        rest = None
        if self._motion is not None and not self._needs_plan and self._planned_on is clearance:
            rest = self._motion.rest(*here, within_m=OFF_PATH_M)
        unchanged = rest is not None
        try:
            new = rest or self.find_path(planner, here)
        except PlanError as error:
            self._fail("compute_path", error.code + self.PLANNER_OFFSET, str(error), now_s)
            return False
        self.codes.pop("compute_path", None)
        self.path, self._planned_on = new, clearance
        self._needs_plan = False
        self._plan_due_s = now_s + REPLAN_PERIOD_S
        yaw_rad = self.targets[-1].yaw_rad
        with self.world.lock:
            motion = self._motion
            if motion is None or motion.done:
                if motion is None or not unchanged:
                    motion = FollowPath(new, yaw_rad)
            elif not unchanged:
                motion.set_path(new, yaw_rad)
            self._motion = motion
            if not motion.done:
                base.motion = motion  # also takes the wheels back from whoever had them meanwhile
        if self._phase is Phase.PLANNING:
            self._phase = Phase.FOLLOWING
            self._progress.reset(now_s)
        return True

    def find_path(self, planner: Planner, here: tuple[float, float]) -> Path:
        """A path through all targets. Raises PlanError."""
        legs = []
        for target in self.targets:
            leg = planner.path(here, (target.x_m, target.y_m))
            legs.append(leg)
            here = leg.end
        return legs[0] if len(legs) == 1 else Path.joined(legs)

    def _fail(self, part: str, code: int, text: str, now_s: float) -> None:
        """A part of the tree failed: try a recovery, or give up."""
        self.log.info(f"{text} (code {code})")
        self.codes[part] = (code, text)
        self.world.base.stop(self._motion)
        self._motion = None
        if code not in RECOVERABLE or self._recovery.attempts >= self.sim.recovery_retries:
            self._end("aborted")
            return
        self._phase = Phase.RECOVERING
        self.recoveries += 1
        self._recovery.begin(now_s)

    def fill(self, feedback: Any, now_s: float) -> None:
        """The fields both navigators report."""
        with self.world.lock:
            base = self.world.base
            pose, speed = base.pose, base.smoothed_speed
        distance = self.path.remaining_m(pose.x_m, pose.y_m) if self.path is not None else 0.0
        known = speed > 0.01 and distance > 0.1
        feedback.current_pose = messages.pose_stamped(pose, "map", self.clock.stamp_s())
        feedback.navigation_time = messages.duration(now_s - self._start_s)
        feedback.estimated_time_remaining = messages.duration(distance / speed if known else 0.0)
        feedback.number_of_recoveries = self.recoveries
        feedback.distance_remaining = distance


class NavigateToPoseServer(Navigator):
    """``navigate_to_pose``."""

    def __init__(self, sim: RobotSim, muxer: Muxer) -> None:
        super().__init__(sim, "navigate_to_pose", NavigateToPose, muxer)
