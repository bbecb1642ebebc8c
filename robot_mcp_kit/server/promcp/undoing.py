"""How a motion is undone: which skill, with which arguments, brings back what was measured before.

A way back is only told when its call would be accepted as it stands. What cannot be brought back (what was
let fall, a robot that is charging in its dock) is not compensable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.promcp.hints import write_hint
from robot_mcp_kit.server.promcp.measuring import ARM, BASE, GRIPPER, Measured, parts_of
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.arm.gripper import Gripper
from robot_mcp_kit.skills.arm.move_arm import MoveArm
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import GripperSection
from robot_mcp_kit.skills.nav2.docking import Dock, Undock
from robot_mcp_kit.skills.nav2.navigation import NavigateTo
from robot_mcp_kit.skills.routines.grasping import Pick, Place


class Undo(BaseModel):
    """A call that brings the previous value back."""

    model_config = ConfigDict(frozen=True)

    skill: str
    arguments: dict[str, Any]

    def hint(self, tool: str) -> str:
        """``tool param=value …``, values as JSON."""
        return write_hint(tool, self.arguments)


def undo_of(
    skill: Skill, before: Measured, after: Measured, skills: Mapping[str, Skill], config: RobotConfig
) -> Undo | None:
    """The way back after a motion, or ``None``."""
    parts = parts_of(skill, skills)
    if isinstance(skill, Dock | Undock):
        return None
    if isinstance(skill, Pick):
        found = _put_back(before, skills)
    elif isinstance(skill, Place):
        found = _pick_again(before, after, skills)
    elif parts == {BASE}:
        found = _drive_back(before, skills)
    elif parts == {ARM}:
        found = _arm_back(skill, before, skills)
    elif parts == {GRIPPER}:
        found = _fingers_back(before, skills, config)
    else:
        found = None
    return found if found is not None and _would_fit(found, skills) else None


def _would_fit(undo: Undo, skills: Mapping[str, Skill]) -> bool:
    skill = skills[undo.skill]
    try:
        skill.goal(parse_arguments(skill.arguments, undo.arguments))
    except ArgumentError:
        return False
    return True


def _first(skills: Mapping[str, Skill], fits: Callable[[Skill], bool]) -> str | None:
    return next((name for name, skill in skills.items() if fits(skill)), None)


def _drive_back(before: Measured, skills: Mapping[str, Skill]) -> Undo | None:
    drive = _first(skills, lambda skill: type(skill) is NavigateTo)
    pose = before.robot
    if drive is None or pose is None:
        return None
    arguments = {"x_m": pose.x_m, "y_m": pose.y_m, "yaw_rad": pose.yaw_rad, "frame": pose.frame}
    return Undo(skill=drive, arguments=arguments)


def _arm_back(skill: Skill, before: Measured, skills: Mapping[str, Skill]) -> Undo | None:
    needs = getattr(skill, "needs", ())
    mover = next((name for name in needs if isinstance(skills[name], MoveArm)), None)
    if mover is None:
        mover = skill.name if isinstance(skill, MoveArm) else None
    if mover is None or before.arm is None:
        return None
    arguments = {"joints_rad": before.arm.joints_rad, "joints_m": before.arm.joints_m}
    return Undo(skill=mover, arguments={name: joints for name, joints in arguments.items() if joints})


def _fingers_back(before: Measured, skills: Mapping[str, Skill], config: RobotConfig) -> Undo | None:
    mover = _first(skills, lambda skill: isinstance(skill, Gripper))
    gripper = before.gripper
    # What was held has fallen; the same gap does not bring it back.
    if mover is None or gripper is None or gripper.holds_something:
        return None
    section = config.skills[mover]
    if not isinstance(section, GripperSection):
        return None
    # A sensor tells a little more than open and a little less than shut.
    gap_m = min(max(gripper.gap_m, section.closed_gap_m), section.open_gap_m)
    return Undo(skill=mover, arguments={"position_m": gap_m})


def _put_back(before: Measured, skills: Mapping[str, Skill]) -> Undo | None:
    placer = _first(skills, lambda skill: isinstance(skill, Place))
    seen = before.object
    if placer is None or seen is None:
        return None
    arguments = {"x_m": seen.x_m, "y_m": seen.y_m, "z_m": seen.z_m, "frame": seen.frame}
    return Undo(skill=placer, arguments=arguments)


def _pick_again(before: Measured, after: Measured, skills: Mapping[str, Skill]) -> Undo | None:
    picker = _first(skills, lambda skill: isinstance(skill, Pick))
    seen = after.object
    held = None if before.gripper is None else before.gripper.held_object
    # Only what was seen to lie there can be picked up again.
    if picker is None or seen is None or held is None:
        return None
    return Undo(skill=picker, arguments={"object": seen.name})
