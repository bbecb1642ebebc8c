"""What holds for each skill of one robot: risk, approval, limits, rate. Built once, at the start."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.safety.by_type import LimitBuilder, moves_base
from robot_mcp_kit.safety.geofence import Fence
from robot_mcp_kit.safety.goal_tree import real, value_at
from robot_mcp_kit.safety.limits import GoalPoses, LimitSet
from robot_mcp_kit.safety.rates import RateLimiter
from robot_mcp_kit.safety.risk import ACTION_OF_TYPE, OTHER_TYPES, RiskLevel, risk_of_action, risk_of_skill
from robot_mcp_kit.safety.situation import LimitViolation, Situation
from robot_mcp_kit.safety.universal import check_any_goal
from robot_mcp_kit.skills.base import Pose2D, Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import Approval
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.geometry import Point
from robot_mcp_kit.skills.text import did_you_mean


@dataclass(slots=True)
class SkillRules:
    """Everything the guard needs to know of one skill."""

    risk: RiskLevel
    approval: Approval
    limits: LimitSet
    frames: frozenset[str]
    trees: frozenset[str]
    rate: RateLimiter
    moves_base: bool
    poses: GoalPoses | None
    is_straight: bool

    def check(self, fields: Mapping[str, Any], at: Situation) -> None:
        """
        Raises:
            LimitViolation: with everything that is wrong.
        """
        found = list(check_any_goal(fields, self.frames, self.trees))
        try:
            self.limits.check(fields, at)
        except LimitViolation as error:
            found += error.violations
        if found:
            raise LimitViolation(found)

    def points(self, fields: Mapping[str, Any], at: Situation) -> list[tuple[str, Point] | None] | None:
        """Where the goal's poses are on the map; ``None`` for goals that have none."""
        return self.poses.points(fields, at) if self.poses is not None else None

    def distance_m(self, fields: Mapping[str, Any], at: Situation) -> float:
        """About how far the goal moves the base: straight pieces; 0 where that cannot be told."""
        if self.is_straight:
            return abs(real(value_at(fields, "target.x")) or 0.0)
        length, last = 0.0, None if at.here is None else (at.here.frame, (at.here.x_m, at.here.y_m))
        for placed in self.points(fields, at) or []:
            if placed is None:
                continue
            if last is not None and last[0] == placed[0]:
                length += math.dist(last[1], placed[1])
            last = placed
        return length

    @property
    def checked(self) -> list[str]:
        """Names of what is checked, for the audit trail."""
        return ["behavior_trees", "finite", "frames", "rotation", *self.limits.names]


class Rulebook:
    """The rules of every skill.

    Args:
        config: the checked file.
        skills: by tool name.

    Raises:
        ConfigError: the ``safety`` section contradicts itself or the skills; each with file, line and key.
    """

    def __init__(self, config: RobotConfig, skills: Mapping[str, Skill]) -> None:
        self.config = config
        self.fence = _fence(config)
        complaints = [
            config.complaint(path, message) for path, message in _faults(config, skills, self.fence)
        ]
        if complaints:
            raise ConfigError("\n".join(complaints))
        self._builder = LimitBuilder(config, self.fence)
        self._rules = {name: self._of(name, skill) for name, skill in skills.items()}

    def add(self, skill: Skill) -> SkillRules:
        """The rules of a skill, made now for one that came later; by its action type, never fewer."""
        if skill.name not in self._rules:
            self._rules[skill.name] = self._of(skill.name, skill)
        return self._rules[skill.name]

    def put(self, name: str, rules: SkillRules) -> None:
        """The rules of what is no skill, or those of a skill again."""
        self._rules[name] = rules

    def of(self, skill: str) -> SkillRules:
        """Raises KeyError for a skill that nobody has added."""
        return self._rules[skill]

    def get(self, skill: str) -> SkillRules | None:
        """``None`` for a skill of an earlier configuration."""
        return self._rules.get(skill)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def _of(self, name: str, skill: Skill) -> SkillRules:
        builder = self._builder
        rules, section = self.config.safety.skill(name), self.config.skills.get(name)
        return SkillRules(
            risk=risk_of_skill(name, skill.action_name, skill.action_type, rules.risk),
            approval=rules.approval or self.config.safety.approval,
            limits=builder.build(name, skill.action_type, section),
            frames=frozenset(rules.frames) if rules.frames else builder.frames(),
            trees=builder.trees(name, section),
            rate=RateLimiter(rules.rate, rules.cooldown_s),
            moves_base=moves_base(skill.action_type, skill.resources),
            poses=builder.poses_of(skill.action_type),
            is_straight=skill.action_type.endswith(("/BackUp", "/DriveOnHeading")),
        )

    def escaped(self, here: Pose2D | None, floor: str | None) -> str | None:
        """Why the robot is outside its fence, where that is watched; ``None`` also while nobody knows."""
        if self.fence is None or not self.fence.watched or here is None:
            return None
        return self.fence.escaped(here, floor)


def _fence(config: RobotConfig) -> Fence | None:
    if config.safety.geofence is None:
        return None
    try:
        return Fence(config.safety.geofence)
    except ImportError as error:
        message = f"needs the Python package shapely, which is not installed ({error})"
        raise ConfigError(config.complaint(("safety", "geofence"), message)) from error


def _faults(
    config: RobotConfig, skills: Mapping[str, Skill], fence: Fence | None
) -> Iterator[tuple[KeyPath, str]]:
    safety, known = config.safety, config.skills
    for name, skill in skills.items():
        if risk_of_skill(name, skill.action_name, skill.action_type) is RiskLevel.PROHIBITED:
            yield ("skills", name), "the name of the skill or of its action is that of a prohibited action"
    for name, rules in safety.skills.items():
        if name not in known:
            yield ("safety", "skills", name), f"there is no such skill.{did_you_mean(name, known)}"
        elif rules.risk is not None:
            section = known[name]
            fixed = risk_of_action(ACTION_OF_TYPE.get(section.type, OTHER_TYPES))
            if RiskLevel(rules.risk).rank < fixed.rank:
                yield (
                    ("safety", "skills", name, "risk"),
                    f"{section.type} is {fixed.value}; a level can be raised, never lowered",
                )
    for name, lock in safety.interlocks.items():
        for index, skill_name in enumerate(lock.skills or []):
            if skill_name not in known:
                where: KeyPath = ("safety", "interlocks", name, "skills", index)
                yield where, f'there is no skill "{skill_name}".{did_you_mean(skill_name, known)}'
    for index, approval in enumerate(safety.standing_approvals):
        for skill_name in approval.skills:
            if skill_name not in known:
                where = ("safety", "standing_approvals", index, "skills")
                yield where, f'there is no skill "{skill_name}".{did_you_mean(skill_name, known)}'
    if fence is not None and safety.geofence is not None and safety.geofence.floor_from is None:
        for name, place in config.places.items():
            for violation in fence.check("place", place.frame, [(place.x_m, place.y_m)], Situation()):
                yield ("places", name), f"a robot may not be sent there: {violation}"
