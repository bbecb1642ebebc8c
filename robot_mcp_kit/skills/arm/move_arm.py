"""The ``move_arm`` skill: to joint positions, a named target or a pose, by MoveIt's MoveGroup."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.arm.arrival import ArmFacts, ArmWatch
from robot_mcp_kit.skills.arm.goal import (
    ArmPose,
    ArmPoseArguments,
    joint_constraints,
    pose_constraints,
    resolve_pose,
)
from robot_mcp_kit.skills.arm.joints import JOINTS_M, JOINTS_RAD, JointChecker
from robot_mcp_kit.skills.arm.moveit_codes import SUCCESS, moveit_failure
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import SECOND_MOTION, MoveArmSection
from robot_mcp_kit.skills.configured import ConfiguredSkill
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import dig, duration_s, integer, items, number
from robot_mcp_kit.skills.text import clean_text
from robot_mcp_kit.skills.world import WorldSnapshot

PHASES = {"PLANNING": "planning", "MONITOR": "moving", "LOOK": "looking"}
"""MoveIt's words to ours. ``IDLE`` comes after the end and says nothing."""
AFTER_STOP = "The arm may take a moment to come to rest."


class MoveArmArguments(SkillArguments):
    """Exactly one of ``target``, ``joints_rad`` (with ``joints_m``) and ``pose``."""

    target: str | None = Field(None, max_length=200, description="Name of a known position of the arm: home.")
    joints_rad: dict[str, Number] | None = JOINTS_RAD
    joints_m: dict[str, Number] | None = JOINTS_M
    pose: ArmPoseArguments | None = Field(None, description="Where the tool should go.")
    velocity_scaling: Number | None = Field(
        None,
        description="Share of the arm's full speed, above 0 and at most 1. Left out: the robot's own.",
    )
    acceleration_scaling: Number | None = Field(
        None,
        description="Share of the arm's full acceleration, above 0 and at most 1. Left out: the robot's own.",
    )
    plan_only: bool = Field(False, description="Only find out whether there is a way; nothing moves.")


class MoveArmResult(ArmFacts):
    """Where the arm went."""

    goal: str = Field(description="In words.")
    plan_only: bool = Field(description="true: there is a way, and nothing moved.")
    trajectory_duration_s: float | None = Field(description="How long the motion takes; null: not told.")
    planning_time_s: float | None = Field(None, description="With plan_only.")


class MoveArm(ConfiguredSkill[MoveArmSection]):
    """Plan around obstacles and move the arm.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: for the arm's joints and named targets.
        where: not used; every skill is built alike.
    """

    title = "Move the arm"
    arguments = MoveArmArguments
    resources = frozenset({"arm"})
    results = MoveArmResult
    after_stop = AFTER_STOP

    def __init__(
        self,
        name: str,
        section: MoveArmSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__(name, section, config)
        self._joints = JointChecker(config.arms[section.arm])
        self._watch = ArmWatch(name, section, config)
        self.measures = self._watch.measures
        self.preconditions = self._watch.in_range()
        self.effects = (
            self._watch.effect("unless plan_only was set, the arm is at the target or joint positions"),
            "for a pose, the tool is there as MoveIt says; nothing here measures it",
            "what the gripper holds is still held",
        )
        space = section.workspace
        area = "".join(
            f" {axis} in {allowed}." for axis, allowed in space.axes().items() if allowed is not None
        )
        self.description = (
            "Move the arm, avoiding what MoveIt knows of, so that one of these is met: a named target; "
            f"all joint positions (joints_rad, radians); or a pose of {section.end_effector_link} (x_m, "
            "y_m, z_m in metres, turned by roll_rad, pitch_rad, yaw_rad or a quaternion; without either "
            "any orientation will do). Speed: velocity_scaling is a share of full speed, usually "
            f"{section.velocity_scaling:g}, at most {section.max_velocity_scaling:g}. Answers at once with "
            "a task; planning and moving take seconds and report phases, no percentage. A second call "
            f"while the arm moves {SECOND_MOTION[section.policy]}. The goal is absolute, so a retry after a "
            "failure is safe once you know why it failed; with an idempotency_key a repeated call starts "
            "nothing new. With plan_only nothing moves. It does not open or close the gripper. Targets: "
            f"{self._joints.target_words()}. Joints: {self._joints.words()}. Frames: "
            f"{', '.join(section.frames)}.{area}"
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, MoveArmArguments):
            raise TypeError(f"{self.name} takes MoveArmArguments, got {type(arguments).__name__}")
        constraints, words, joints = self._constraints(arguments)
        section = self._section
        velocity = _scaling("velocity_scaling", arguments.velocity_scaling, section)
        acceleration = _scaling("acceleration_scaling", arguments.acceleration_scaling, section)
        nothing_known = {"is_diff": True}
        request: dict[str, Any] = {
            # Empty, and a difference: "as the robot is now". Without is_diff it would drop attached objects.
            "start_state": nothing_known,
            "goal_constraints": [constraints],
            "pipeline_id": section.pipeline_id,
            "planner_id": section.planner_id,
            "group_name": section.group,
            "num_planning_attempts": section.planning_attempts,
            "allowed_planning_time": section.planning_time_s,
            # 0 would be read as full speed (case A10).
            "max_velocity_scaling_factor": velocity,
            "max_acceleration_scaling_factor": acceleration,
        }
        options: dict[str, Any] = {
            "planning_scene_diff": {"is_diff": True, "robot_state": nothing_known},
            "plan_only": arguments.plan_only,
            "look_around": False,
            "replan": section.replan,
            "replan_attempts": section.replan_attempts if section.replan else 0,
        }
        verb = "plan (without moving) the arm" if arguments.plan_only else "move the arm"
        return GoalSpec(
            fields={"request": request, "planning_options": options},
            summary=f"{verb} to {words} at {velocity:g} of full speed",
            est_duration_s=None if arguments.plan_only else section.typical_duration_s,
            context={"plan_only": arguments.plan_only, "goal": words, "joints": joints},
        )

    def _constraints(
        self, arguments: MoveArmArguments
    ) -> tuple[dict[str, Any], str, dict[str, float] | None]:
        """Goal constraints, words for them, and the joint positions that they ask for."""
        joints = arguments.joints_rad is not None or arguments.joints_m is not None
        ways = {
            "target": arguments.target is not None,
            "joints_rad": joints,
            "pose": arguments.pose is not None,
        }
        given = [name for name, there in ways.items() if there]
        if not given:
            raise ArgumentError("target", "is missing; give one of target, joints_rad and pose")
        if len(given) > 1:
            raise ArgumentError(
                given[1], f"give only one of target, joints_rad and pose, not {' and '.join(given)}"
            )
        section = self._section
        if arguments.pose is not None:
            pose: ArmPose = resolve_pose(arguments.pose, section)
            return pose_constraints(pose, section), str(pose), None
        if arguments.target is not None:
            name, entry = self._joints.target(arguments.target)
            positions, words = self._joints.positions(entry.joints_rad, entry.joints_m), f'"{name}"'
        else:
            positions = self._joints.positions(arguments.joints_rad, arguments.joints_m)
            words = "joints " + ", ".join(f"{value:.2f}" for value in positions.values())
        tolerances = {
            name: section.joint_tolerance_m if self._joints.slides(name) else section.joint_tolerance_rad
            for name in positions
        }
        return joint_constraints(positions, tolerances), words, positions

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        section = self._section
        tries = section.replan_attempts if section.replan else 1
        return MoveItReader(planning_at_most_s=section.planning_time_s * tries)

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        if status != GoalStatus.SUCCEEDED:
            failure = moveit_unsuccessful(status, result, self.action_name, self.name)
            return Outcome("failed", failure=self._tools.fit(failure))
        plan_only: bool = spec.context["plan_only"]
        code, message = integer(result, "error_code.val"), dig(result, "error_code.message")
        planned = _duration_of(result, "planned_trajectory")
        executed = _duration_of(result, "executed_trajectory")
        told: dict[str, Any] = {
            "goal": spec.context["goal"],
            "plan_only": plan_only,
            "trajectory_duration_s": planned if executed is None else executed,
            # MoveIt says so; whether somebody looks where the arm is comes later.
            "measured": False,
        }
        if plan_only:
            planning_s = number(result, "planning_time")
            told["planning_time_s"] = None if planning_s is None else round(planning_s, 2)
        notes = []
        if code != SUCCESS:
            notes.append(f"The action succeeded, though its result carries the code {code}.")
        if planned is None and executed is None:
            notes.append("The arm was there already; it did not move.")
        if clean_text(message):
            notes.append(f'MoveIt says: "{clean_text(message)}"')
        if notes:
            told["note"] = " ".join(notes)
        return Outcome("succeeded", told)

    def measured(self, outcome: Outcome, spec: GoalSpec, world: WorldSnapshot) -> Outcome:
        wanted = None if spec.context["plan_only"] else spec.context.get("joints")
        return self._watch.judge(outcome, wanted, world)


def _scaling(field: str, given: float | None, section: MoveArmSection) -> float:
    """The share to send: never 0.

    Raises:
        ArgumentError: negative, or more than the robot allows.
    """
    most: float = getattr(section, f"max_{field}")
    if given is None or given == 0:
        usual: float = getattr(section, field)
        return usual
    if 0 < given <= most:
        return given
    hint = f"; it is a share, so {given:g} percent are {given / 100:g}" if 1 < given <= 100 else ""
    raise ArgumentError(field, f"must be above 0 and at most {most:g}, got {given:g}{hint}")


def _duration_of(result: Any, trajectory: str) -> float | None:
    """How long a trajectory of the result takes; ``None`` if it is empty. The points stay here."""
    points = items(result, f"{trajectory}.joint_trajectory.points")
    seconds = duration_s(points[-1], "time_from_start") if points else None
    return None if seconds is None else round(seconds, 2)


def moveit_unsuccessful(status: int, result: Any, action: str, tool: str) -> TaskFailure:
    """The failure of a MoveIt action that did not succeed. 0 is a reason here: "undefined" (case C28)."""
    code = integer(result, "error_code.val")
    if status != GoalStatus.ABORTED or code is None or code == SUCCESS:
        return unsuccessful(status, action, dig(result, "error_code.message"))
    said, source = dig(result, "error_code.message"), dig(result, "error_code.source")
    return moveit_failure(code, said, source, tool=tool)


class MoveItReader(FeedbackReader):
    """Phases of MoveIt's actions. There is no percentage in them, and no time but our own.

    Payload: ``phase``, ``percent`` and ``eta_s`` (from ``duration_s`` where that is known, else ``None``),
    ``planning_at_most_s`` while planning.
    """

    def __init__(self, *, planning_at_most_s: float | None = None, duration_s: float | None = None) -> None:
        self._planning_at_most_s = planning_at_most_s
        self._duration_s = duration_s
        self._started_s: float | None = None
        self._moving_since_s: float | None = None
        self._phase: str | None = None

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        state = clean_text(dig(feedback, "state"), 60)
        if not state or state == "IDLE":
            return None
        phase = PHASES.get(state, state.lower())
        if self._started_s is None:
            self._started_s = now_s
        if phase == PHASES["MONITOR"] and self._moving_since_s is None:
            self._moving_since_s = now_s
        changed, self._phase = phase != self._phase, phase
        eta_s: float | None = None
        percent: float | None = None
        if self._duration_s and self._moving_since_s is not None:
            moved_s = now_s - self._moving_since_s
            eta_s = max(0.0, self._duration_s - moved_s)
            percent = min(99.0, 100.0 * moved_s / self._duration_s)
        payload: dict[str, Any] = {
            "phase": phase,
            "eta_s": None if eta_s is None else round(eta_s, 1),
            "percent": None if percent is None else round(percent, 1),
            "elapsed_s": round(now_s - self._started_s, 1),
        }
        if phase == PHASES["PLANNING"] and self._planning_at_most_s is not None:
            payload["planning_at_most_s"] = round(self._planning_at_most_s, 1)
        return Sample(
            payload=payload,
            time_s=now_s - self._started_s,
            eta_s=eta_s,
            percent=percent,
            milestone=changed,
        )
