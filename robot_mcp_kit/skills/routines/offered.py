"""From configuration to routines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import GripperSection, MoveArmSection
from robot_mcp_kit.skills.config.nav2 import NavigateSection
from robot_mcp_kit.skills.config.world import FollowSection, ManipulationSection
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.routines.arm_poses import Handover, Home
from robot_mcp_kit.skills.routines.following import Follow
from robot_mcp_kit.skills.routines.grasping import Pick, Place
from robot_mcp_kit.skills.routines.looking import Inspect, Look
from robot_mcp_kit.skills.routines.routine import Routine

NAMES = ("look", "pick", "place", "handover", "home", "inspect")
"""Of ``manipulation``."""


def build_routines(config: RobotConfig) -> dict[str, Routine]:
    """The routines of ``manipulation`` and ``following`` by tool name; none without those sections.

    Raises:
        ConfigError: they do not fit the rest of the file, with file, line and key.
    """
    section, following = config.manipulation, config.following
    faults = [
        *([] if section is None else _faults(config, section)),
        *([] if following is None else _follow_faults(config, following)),
    ]
    if faults:
        raise ConfigError("\n".join(config.complaint(path, message) for path, message in faults))
    offered: list[Routine] = [] if section is None else _manipulation(config, section)
    if following is not None:
        offered.append(Follow(following, config))
    return {routine.name: routine for routine in offered}


def _manipulation(config: RobotConfig, section: ManipulationSection) -> list[Routine]:
    kinds: list[Callable[[ManipulationSection, RobotConfig], Routine]] = [Look, Pick, Place, Home, Inspect]
    if section.handover_target is not None:
        kinds.append(Handover)
    return [kind(section, config) for kind in kinds]


def _follow_faults(config: RobotConfig, section: FollowSection) -> Iterator[tuple[KeyPath, str]]:
    skill = config.skills.get(section.navigate)
    here = ("following", "navigate")
    if skill is None or not skill.enabled or not isinstance(skill, NavigateSection):
        fitting = [n for n, s in config.skills.items() if isinstance(s, NavigateSection) and s.enabled]
        yield here, f'"{section.navigate}" is no enabled skill that drives ({", ".join(fitting) or "none"})'
    elif skill.policy != "replace":
        yield here, f'"{section.navigate}" must have the policy replace: the robot is sent on while it drives'
    if config.sensors.perception is None:
        yield ("following",), "needs sensors.perception: what is followed has to be seen"
    if "follow" in config.skills:
        yield ("skills", "follow"), "the name follow belongs to following; call this skill otherwise"


def _faults(config: RobotConfig, section: ManipulationSection) -> Iterator[tuple[KeyPath, str]]:
    here = "manipulation"
    for key, kind in (("arm", MoveArmSection), ("gripper", GripperSection), ("navigate", NavigateSection)):
        name = getattr(section, key)
        if name is None:
            continue
        skill = config.skills.get(name)
        if skill is None or not skill.enabled or not isinstance(skill, kind):
            fitting = [n for n, s in config.skills.items() if isinstance(s, kind) and s.enabled]
            yield (
                (here, key),
                f'"{name}" is no enabled skill of the right type ({", ".join(fitting) or "none"})',
            )
    for sensor in ("perception", "gripper"):
        if getattr(config.sensors, sensor) is None:
            yield (here,), f"needs sensors.{sensor}: what was done has to be measured"
    for name in NAMES:
        if name in config.skills:
            yield ("skills", name), f"the name {name} belongs to manipulation; call this skill otherwise"
    arm_skill = config.skills.get(section.arm)
    if isinstance(arm_skill, MoveArmSection):
        targets = config.arms[arm_skill.arm].named_targets
        for key in ("home_target", "handover_target"):
            target = getattr(section, key)
            if target is not None and target not in targets:
                yield (here, key), f'"{target}" is none of the arm\'s named_targets ({", ".join(targets)})'
        if config.robot.map_frame not in arm_skill.frames:
            yield (
                (here, "arm"),
                f"skills.{section.arm}.frames must hold the map frame: objects are told in it",
            )
    for name, spot in section.spots.items():
        if spot.frame != config.robot.map_frame:
            yield (here, "spots", name, "frame"), f"must be the map frame {config.robot.map_frame}"
