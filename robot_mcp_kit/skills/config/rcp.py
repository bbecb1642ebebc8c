"""What the Robot Context Protocol tells of this robot, and which skills carry out its actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from robot_mcp_kit.skills.config.arm import (
    Arm,
    ArmSection,
    FollowJointTrajectorySection,
    MoveArmSection,
)
from robot_mcp_kit.skills.config.types import (
    ActionName,
    Frame,
    Name,
    NotNegative,
    Positive,
    Real,
    Section,
    SkillSection,
)
from robot_mcp_kit.skills.text import did_you_mean

Words = Annotated[str, Field(max_length=200)]
Rotation = Literal["roll_pitch_yaw_deg", "euler_zyx_deg", "rotation_vector_rad"]
StepTime = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0.05, le=5.0)]


class RcpTcpSection(Section):
    """Where the pose of the tool centre point is read from, and how it is told."""

    source: Literal["topic", "tf"] = "topic"
    """``tf`` needs tf2_ros."""
    topic: ActionName = "tool_pose"
    """geometry_msgs/msg/PoseStamped in ``frame``, for ``source: topic``."""
    frame: Frame = "base_link"
    """TF frame that positions are told and asked for in."""
    link: Frame = "tool0"
    """TF frame of the tool, for ``source: tf``."""
    max_age_s: Positive = 2.0
    rotation: Rotation = "roll_pitch_yaw_deg"
    """What rx, ry and rz are: turns about the fixed axes x, y, z; Euler angles about z, y, x (A, B, C); or
    axis times angle, in radians.
    """


class RcpToolSection(Section):
    """An end effector: the offset of its centre point from the flange, and its mass."""

    tcp_x_mm: Real = 0.0
    tcp_y_mm: Real = 0.0
    tcp_z_mm: Real = 0.0
    mass_kg: NotNegative = 0.0


class RcpProgramSection(Section):
    """A program: a skill with arguments that are written here and cannot be changed by a caller."""

    skill: Name
    arguments: dict[Name, Any] = Field(default_factory=dict)


class RcpJogSection(Section):
    """Small steps of one joint or along one axis. Each call is one step of ``speed`` times ``step_s``."""

    skill: Name | None = None
    """An arm skill. With follow_joint_trajectory a joint's step takes ``step_s``; MoveIt chooses the time
    itself. Default: the file's first of the two that is enabled, MoveIt first.
    """
    step_s: StepTime = 0.5
    max_joint_deg_s: Positive = 10.0
    max_linear_mm_s: Positive = 50.0
    max_angular_deg_s: Positive = 10.0


class RcpSection(Section):
    """The robot in the words of the Robot Context Protocol: degrees and millimetres."""

    enabled: bool = True
    manufacturer: Words = ""
    model: Words = ""
    """Default: the name in the robot description, else ``robot.name``."""
    controller: Words = ""
    firmware: Words = ""
    serial: Words = ""
    payload_kg: NotNegative = 0.0
    reach_mm: NotNegative = 0.0
    """Farthest tool from the origin of ``tcp.frame``; 0: not known. ``move_to`` needs it, or a workspace."""
    robot_description: ActionName | None = "robot_description"
    """Latched topic (std_msgs/String) with the URDF: name and joint limits."""
    arm: Name | None = None
    """Which of ``arms``: joints in the controller's order. Default: the file's only one."""
    joints: ActionName = "joint_states"
    """Topic of sensor_msgs/msg/JointState."""
    joints_max_age_s: Positive = 2.0
    tcp: RcpTcpSection | None = RcpTcpSection()
    """``null``: the tool's pose is not told."""
    tools: dict[Name, RcpToolSection] = Field(default_factory=dict)
    move: Name | None = None
    """The skill (moveit_msgs/action/MoveGroup) for ``move_to`` and ``home``. Default: the first enabled."""
    home_target: Name = "home"
    """Named target of the arm for ``home``."""
    jog: RcpJogSection = RcpJogSection()
    programs: dict[Name, RcpProgramSection] = Field(default_factory=dict)
    """Beside the skills, what ``start_program`` can start."""


def enabled_skill(
    skills: Mapping[str, SkillSection], *kinds: type[SkillSection], arm: str | None = None
) -> str | None:
    """The first enabled skill of the first kind that there is one of; only for that arm, if one is named."""
    for kind in kinds:
        for name, section in skills.items():
            if not isinstance(section, kind) or not section.enabled:
                continue
            if arm is None or getattr(section, "arm", arm) == arm:
                return name
    return None


def move_skill(rcp: RcpSection, skills: Mapping[str, SkillSection]) -> str | None:
    """The skill for ``move_to`` and ``home``."""
    return rcp.move or enabled_skill(skills, MoveArmSection, arm=rcp.arm)


def jog_skill(rcp: RcpSection, skills: Mapping[str, SkillSection]) -> str | None:
    """The skill for ``jog``."""
    kinds = (MoveArmSection, FollowJointTrajectorySection)
    return rcp.jog.skill or rcp.move or enabled_skill(skills, *kinds, arm=rcp.arm)


def rcp_arm(rcp: RcpSection, arms: Mapping[str, Arm]) -> str | None:
    """The arm whose joints are told; ``None``: those of the topic."""
    return rcp.arm or (next(iter(arms)) if len(arms) == 1 else None)


def rcp_faults(
    rcp: RcpSection, skills: Mapping[str, SkillSection], arms: Mapping[str, Arm]
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What is wrong between this section and the rest, with its place in the file."""
    if rcp.arm is not None and rcp.arm not in arms:
        yield ("rcp", "arm"), f'"{rcp.arm}" is not one of arms ({", ".join(arms) or "the file has none"})'
        return
    arm, jogs = rcp_arm(rcp, arms), (MoveArmSection, FollowJointTrajectorySection)
    if rcp.move is not None:
        yield from _skill_faults(("rcp", "move"), rcp.move, (MoveArmSection,), skills, arm)
    if rcp.jog.skill is not None:
        yield from _skill_faults(("rcp", "jog", "skill"), rcp.jog.skill, jogs, skills, arm)
    move = skills.get(move_skill(rcp, skills) or "")
    if isinstance(move, MoveArmSection):
        if rcp.tcp is not None and rcp.tcp.frame not in move.frames:
            yield (
                ("rcp", "tcp", "frame"),
                f'"{rcp.tcp.frame}" is not one of the frames that the arm may be sent in '
                f"({', '.join(move.frames)})",
            )
        targets = arms[move.arm].named_targets if move.arm in arms else {}
        if "home_target" in rcp.model_fields_set and rcp.home_target not in targets:
            yield ("rcp", "home_target"), f"there is no such target.{did_you_mean(rcp.home_target, targets)}"
    for name, program in rcp.programs.items():
        known = skills.get(program.skill)
        if known is None or not known.enabled:
            wrong = "is disabled" if known is not None else "is not there"
            hint = did_you_mean(program.skill, skills)
            yield ("rcp", "programs", name, "skill"), f'the skill "{program.skill}" {wrong}.{hint}'


def _skill_faults(
    path: tuple[str, ...],
    name: str,
    kinds: tuple[type[ArmSection], ...],
    skills: Mapping[str, SkillSection],
    arm: str | None,
) -> Iterator[tuple[tuple[Any, ...], str]]:
    section = skills.get(name)
    if section is None:
        yield path, f"there is no such skill.{did_you_mean(name, skills)}"
    elif not isinstance(section, kinds):
        yield path, f"{section.type} cannot do that"
    elif not section.enabled:
        yield path, "that skill is disabled"
    elif arm is not None and section.arm != arm:
        yield path, f'that skill moves the arm "{section.arm}", not "{arm}"'


def effective_rcp(rcp: RcpSection | None, arms: Mapping[str, Arm]) -> RcpSection | None:
    """The file's section, or the defaults for a robot with arms; ``None``: nothing is told."""
    if rcp is not None:
        return rcp if rcp.enabled else None
    return RcpSection() if arms else None
