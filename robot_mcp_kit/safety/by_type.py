"""Which limits a skill gets: those of its own entry, those of the ``safety`` section, and the fixed ones.

The table goes by action type, so an entry that describes a known type by hand (``generic: true``) gets the
same limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robot_mcp_kit.safety.geofence import Fence
from robot_mcp_kit.safety.limits import (
    FieldRule,
    GoalPoses,
    JointTargets,
    Limit,
    LimitSet,
    MapPoses,
    Positive,
    StraightMotion,
    ToolPoses,
    Trajectory,
)
from robot_mcp_kit.safety.situation import JointLimit
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import FieldLimit, SkillSafety
from robot_mcp_kit.skills.config.types import NavigationLimits, SkillSection

_POSE_PATHS: Mapping[str, tuple[str, ...]] = {
    "nav2_msgs/action/NavigateToPose": ("pose",),
    # A list of poses, or since Kilted a message with a list in it.
    "nav2_msgs/action/NavigateThroughPoses": ("poses[]", "poses.goals[]"),
    "nav2_msgs/action/FollowWaypoints": ("poses[]",),
    "nav2_msgs/action/DockRobot": ("dock_pose",),
}
_MOVES_BASE = frozenset(
    {
        *_POSE_PATHS,
        "nav2_msgs/action/Spin",
        "nav2_msgs/action/BackUp",
        "nav2_msgs/action/DriveOnHeading",
        "nav2_msgs/action/UndockRobot",
    }
)


def moves_base(action_type: str, resources: frozenset[str] = frozenset()) -> bool:
    """Whether a goal of that type moves the robot's base."""
    return action_type in _MOVES_BASE or "base" in resources


class LimitBuilder:
    """Builds the limits of every skill of one robot.

    Args:
        config: the checked file.
        fence: the geofence, if one is configured.
    """

    def __init__(self, config: RobotConfig, fence: Fence | None) -> None:
        self._config, self._fence = config, fence
        self._poses = MapPoses(config.robot.map_frame, config.robot.base_frame)

    def build(self, name: str, action_type: str, section: SkillSection | None) -> LimitSet:
        """The limits of one skill."""
        rules = self._config.safety.skill(name)
        limits = list(self._of_type(action_type, section, rules))
        limits += [FieldRule(_bare(path), rule) for path, rule in rules.fields.items()]
        return LimitSet(limits)

    def frames(self) -> frozenset[str]:
        """TF frames that goals may name."""
        configured = self._config.safety.frames
        if configured is not None:
            return frozenset(configured)
        frames = {*self._config.robot.goal_frames}
        for section in self._config.skills.values():
            frames |= set(getattr(section, "frames", None) or ())
        return frozenset(frames)

    def trees(self, name: str, section: SkillSection | None) -> frozenset[str]:
        """Behavior trees that the skill's goals may name."""
        own = getattr(section, "behavior_tree", "")
        return frozenset({*self._config.safety.skill(name).behavior_trees, *([own] if own else [])})

    def joints(self, section: SkillSection | None) -> dict[str, JointLimit]:
        """Joint limits of the file: of the skill's arm, or of every arm."""
        arm = getattr(section, "arm", None)
        arms = [self._config.arms[arm]] if arm in self._config.arms else list(self._config.arms.values())
        return {
            name: JointLimit(joint.range.min, joint.range.max, joint.max_speed)
            for one in arms
            for name, joint in one.joints.items()
        }

    def poses_of(self, action_type: str) -> GoalPoses | None:
        """Reads the base's poses from a goal; ``None`` for types that have none."""
        paths = _POSE_PATHS.get(action_type)
        return None if paths is None else GoalPoses(paths, self._poses, optional=True)

    def _of_type(self, action_type: str, section: SkillSection | None, rules: SkillSafety) -> Iterator[Limit]:
        short = action_type.rsplit("/", 1)[-1]
        if action_type in _POSE_PATHS:
            yield self._goal_poses(action_type, section, rules)
        if short in ("BackUp", "DriveOnHeading"):
            yield StraightMotion(
                always_backwards=short == "BackUp",
                max_distance_m=_least(getattr(section, "max_distance_m", None), rules.max_distance_m),
                max_speed_mps=_least(getattr(section, "max_speed_mps", None), rules.max_speed_mps),
                fence=self._fence,
            )
        if short in ("BackUp", "DriveOnHeading", "Spin"):
            most = _least(getattr(section, "max_time_allowance_s", None), rules.max_time_allowance_s)
            yield Positive("max_time_allowance_s", "time_allowance", most)
        if short == "Spin":
            most = getattr(section, "max_angle_rad", None)
            rule = FieldLimit(max_abs=6.2832 if most is None else most + 1e-6)
            yield FieldRule("target_yaw", rule, "max_angle_rad")
        if short == "Wait":
            yield Positive("max_duration_s", "time", getattr(section, "max_duration_s", None))
        if short == "DockRobot":
            most = _least(getattr(section, "max_staging_time_s", None), rules.max_time_allowance_s)
            yield Positive("max_staging_time_s", "max_staging_time", most)
        if short == "UndockRobot":
            most = _least(getattr(section, "max_undocking_time_s", None), rules.max_time_allowance_s)
            yield Positive("max_undocking_time_s", "max_undocking_time", most)
        if short in ("GripperCommand", "ParallelGripperCommand"):
            most = _least(getattr(section, "max_effort_n", None), rules.max_effort)
            path = "command.max_effort" if short == "GripperCommand" else "command.effort[]"
            yield Positive("max_effort", path, most)
            yield FieldRule(
                "command.position" if short == "GripperCommand" else "command.position[]",
                FieldLimit(min=-1e6, max=1e6),
                "position",
            )
        yield from self._of_arm(short, section, rules)

    def _goal_poses(self, action_type: str, section: SkillSection | None, rules: SkillSafety) -> GoalPoses:
        own = getattr(section, "limits", None)
        own = own if isinstance(own, NavigationLimits) else NavigationLimits()
        box = {axis: getattr(own, axis) for axis in ("x_m", "y_m") if getattr(own, axis) is not None}
        return GoalPoses(
            _POSE_PATHS[action_type],
            self._poses,
            fence=self._fence,
            max_distance_m=_least(own.max_distance_m, rules.max_distance_m),
            box=box,
            optional=action_type.endswith("/DockRobot"),
        )

    def _of_arm(self, short: str, section: SkillSection | None, rules: SkillSafety) -> Iterator[Limit]:
        if short == "MoveGroup":
            for what in ("velocity", "acceleration"):
                most = _least(
                    getattr(section, f"max_{what}_scaling", None), getattr(rules, f"max_{what}_scaling"), 1.0
                )
                yield Positive(f"max_{what}_scaling", f"request.max_{what}_scaling_factor", most)
            yield Positive("planning_time", "request.allowed_planning_time")
            constraints = "request.goal_constraints[]"
            yield JointTargets(f"{constraints}.joint_constraints[]", self.joints(section))
            for box, frame in self._workspaces(section, rules):
                yield ToolPoses(f"{constraints}.position_constraints[]", box, frame)
        elif short in ("ExecuteTrajectory", "FollowJointTrajectory"):
            path = "trajectory.joint_trajectory" if short == "ExecuteTrajectory" else "trajectory"
            yield Trajectory(path, self.joints(section), rules.max_joint_acceleration)
            if short == "FollowJointTrajectory":
                yield Positive("goal_time_tolerance", "goal_time_tolerance")

    def _workspaces(self, section: SkillSection | None, rules: SkillSafety) -> Iterator[tuple[Any, str]]:
        own = getattr(section, "workspace", None)
        if own is not None:
            box = {axis: allowed for axis, allowed in own.axes().items() if allowed is not None}
            if box:
                yield box, section.frames[0]  # type: ignore[union-attr]
        if rules.workspace is not None and rules.workspace_frame is not None:
            yield dict(rules.workspace), rules.workspace_frame


def _least(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _bare(path: str) -> str:
    return path.removeprefix("goal.")
