"""``home`` and ``handover``: the arm at a named position, measured."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.world import ManipulationSection
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.routines.manipulation import (
    HOLDING,
    Manipulation,
    NoArguments,
    gripper_words,
    where,
)
from robot_mcp_kit.skills.routines.routine import Steps, fail


class HomeResult(SkillResult):
    """Where the arm is."""

    message: str = Field(description="The same in words.")
    target: str
    joints_rad: dict[str, float] = Field(description="Turning joints, as measured.")
    joints_m: dict[str, float] = Field(description="Sliding joints, as measured.")


class HandoverResult(SkillResult):
    """What is held out."""

    message: str = Field(description="The same in words.")
    target: str
    held_object: str | None = Field(description="null: something, and it is not known what.")
    gap_m: float = Field(description="Between the fingers.")


class Home(Manipulation):
    """Fold the arm."""

    name = "home"
    title = "Bring the arm home"
    arguments = NoArguments
    results = HomeResult
    resources = frozenset({"arm"})

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.needs = (section.arm,)
        self.effects = (f"the arm is at its position {section.home_target}", "what is held is still held")
        self.description = (
            f"Bring the arm to its position {section.home_target}, avoiding what is known to be in the way, "
            "and measure that every joint is there. Keeps holding what is held. Takes 5 to 20 seconds. For "
            "before a long drive, and after work with the arm. Not a stop: use stop for that. Absolute, so "
            "a retry is safe."
        )

    def check(self, arguments: SkillArguments) -> str:  # noqa: ARG002
        return f"bring the arm to {self._section.home_target}"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:  # noqa: ARG002
        section = self._section
        await steps.do(section.arm, {"target": section.home_target})
        await steps.tell("measuring")
        world = await self._fresh(steps)
        wanted = self._joints(section.home_target)
        if world.arm is None:
            fail(
                "HOME_NOT_CONFIRMED",
                "The arm's joints are not told, so where it is, is not known.",
                "ask_person",
            )
        at = world.arm.positions
        off = {joint: at[joint] - value for joint, value in wanted.items() if joint in at}
        worst = max(off, key=lambda joint: abs(off[joint]), default=None)
        if worst is None or abs(off[worst]) > section.joint_tolerance_rad or len(off) < len(wanted):
            detail = "" if worst is None else f" {worst} is {off[worst]:.3f} rad off."
            fail(
                "HOME_MISSED", f"The arm is not at {section.home_target}.{detail}", section.arm, "ask_person"
            )
        return {
            "message": f"The arm is at {section.home_target}; {gripper_words(world)}.",
            "target": section.home_target,
            "joints_rad": {joint: round(value, 4) for joint, value in world.arm.joints_rad.items()},
            "joints_m": {joint: round(value, 4) for joint, value in world.arm.joints_m.items()},
        }

    def _joints(self, target: str) -> dict[str, float]:
        skill = self._config.skills[self._section.arm]
        arm = self._config.arms[getattr(skill, "arm", "")]
        return arm.named_targets[target].positions


class Handover(Manipulation):
    """Hold the object out to a person."""

    name = "handover"
    title = "Hold something out to a person"
    arguments = NoArguments
    results = HandoverResult
    resources = frozenset({"arm", "gripper", "base"})
    preconditions = (HOLDING,)

    def __init__(self, section: ManipulationSection, config: RobotConfig) -> None:
        super().__init__(section, config)
        self.needs = (section.arm,)
        target = section.handover_target or section.home_target
        self._target = target
        self.effects = (
            f"the arm is at its position {target}",
            "the object is still held; nothing was let go",
        )
        self.description = (
            f"Bring what the gripper holds to the arm's position {target}, where a person can take it, and "
            f"measure that it is still held. Lets nothing go: open the gripper with {section.gripper} only "
            "when the person has taken hold of it and said so. Takes 5 to 20 seconds. Before: the gripper "
            "holds something. Not for putting things down: that is place. Absolute, so a retry is safe."
        )

    def check(self, arguments: SkillArguments) -> str:  # noqa: ARG002
        return f"hold out what is held at {self._target}"

    async def run(self, arguments: SkillArguments, steps: Steps) -> dict[str, Any]:  # noqa: ARG002
        await steps.do(self._section.arm, {"target": self._target})
        await steps.tell("measuring")
        world = await self._fresh(steps)
        gripper = world.gripper
        if gripper is None or not gripper.holds_something:
            seen = "; ".join(where(each) for each in world.objects or ()) or "no objects are seen"
            fail("OBJECT_LOST", f"It was lost on the way: {gripper_words(world)}; {seen}.", "look", "pick")
        return {
            "message": f"The arm is at {self._target}; {gripper_words(world)}.",
            "target": self._target,
            "held_object": gripper.held_object,
            "gap_m": gripper.gap_m,
        }
