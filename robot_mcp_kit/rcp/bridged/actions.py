"""The protocol's actions as calls of skills: parameters checked, units converted, nothing started.

Whoever starts such a call starts it through the bridge, whose guard judges the goal like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from robot_mcp_kit.rcp import parameters as given
from robot_mcp_kit.rcp.bridged.joints import JointTable
from robot_mcp_kit.rcp.bridged.programs import Programs
from robot_mcp_kit.rcp.bridged.units import metres, product, quaternion_of, rotated
from robot_mcp_kit.rcp.declared import DeclaredLimit, Facts
from robot_mcp_kit.rcp.errors import AdapterError, NotSupportedError, ParameterError, RCPErrorCode
from robot_mcp_kit.rcp.limits import CARTESIAN_AXES, FULL_TURN, JOINT_AXES, MotionLimits, Range
from robot_mcp_kit.safety.situation import Situation, Violation
from robot_mcp_kit.skills.config import RobotConfig, SkillSection
from robot_mcp_kit.skills.config.arm import FollowJointTrajectorySection, MoveArmSection
from robot_mcp_kit.skills.config.rcp import RcpSection, enabled_skill, jog_skill, move_skill
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.geometry import Quaternion
from robot_mcp_kit.skills.readings import NotKnown, RobotReadings
from robot_mcp_kit.skills.signals import outputs_of

_HALF_CIRCLE_RAD: Range = (-2 * math.pi, 2 * math.pi)


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One action as the skill that carries it out."""

    action: str
    """The protocol's."""
    skill: str
    arguments: dict[str, Any] = field(default_factory=dict)
    """The skill's own, in SI units."""
    program: str = ""
    """The name that was asked for, of ``start_program``."""


class BridgedActions:
    """What one robot offers of the protocol's actions.

    Args:
        config: the checked file.
        rcp: its section.
        readings: for jogs, which begin where the robot is.
        joints: the robot's.
        programs: what can be started.
    """

    def __init__(
        self,
        config: RobotConfig,
        rcp: RcpSection,
        readings: RobotReadings,
        joints: JointTable,
        programs: Programs,
    ) -> None:
        self._config, self._rcp, self._readings, self._joints = config, rcp, readings, joints
        self._programs = programs
        self._move = move_skill(rcp, config.skills)
        self._jog = jog_skill(rcp, config.skills)
        self._set_io = enabled_skill(config.skills, SetOutputSection)
        # What is judged is what the file says; signals and programs are looked up where they are used.
        self._rules = {
            name: DeclaredLimit(name, lambda: Facts(self.limits, rcp.reach_mm)) for name in ("move_to", "jog")
        }

    @property
    def offered(self) -> frozenset[str]:
        """Actions that can be carried out here, besides those that only read."""
        offered = {"stop"}
        if self._move is not None:
            if self._rcp.tcp is not None:
                offered.add("move_to")
            if self._rcp.home_target in self._targets():
                offered.add("home")
        if self.jog_axes:
            offered.add("jog")
        if self._programs.startable:
            offered.add("start_program")
        if self._set_io is not None:
            offered.add("set_io")
        return frozenset(offered)

    @property
    def skills(self) -> dict[str, str]:
        """The skill behind each offered action that always has the same one."""
        behind = {"move_to": self._move, "home": self._move, "jog": self._jog, "set_io": self._set_io}
        return {
            action: skill for action, skill in behind.items() if skill is not None and action in self.offered
        }

    @property
    def startable(self) -> list[str]:
        """Programs that need nothing more than their name."""
        return self._programs.startable

    @property
    def jog_axes(self) -> tuple[str, ...]:
        """Axes that can be jogged: joints by number, and where MoveIt moves the arm the tool's axes too."""
        section = self._section(self._jog)
        if not isinstance(section, MoveArmSection | FollowJointTrajectorySection):
            return ()
        arm = self._config.arms[section.arm]
        turning = [
            axis for axis, joint in zip(JOINT_AXES, arm.joints.values(), strict=False) if not joint.slides
        ]
        if isinstance(section, MoveArmSection) and self._rcp.tcp is not None:
            return (*turning, *CARTESIAN_AXES)
        return tuple(turning)

    @property
    def limits(self) -> MotionLimits:
        """What motions may ask for; jog speeds are parts of the axis's highest."""
        box: dict[str, Range] = {}
        section = self._section(self._move)
        tcp = self._rcp.tcp
        if isinstance(section, MoveArmSection) and tcp is not None and tcp.frame == section.frames[0]:
            for axis, allowed in section.workspace.axes().items():
                if allowed is not None:
                    box[axis.removesuffix("_m")] = (allowed.min * 1000.0, allowed.max * 1000.0)
        in_radians = tcp is not None and tcp.rotation == "rotation_vector_rad"
        return MotionLimits(
            box_mm=MappingProxyType(box),
            reach_mm=self._rcp.reach_mm or None,
            rotation=_HALF_CIRCLE_RAD if in_radians else FULL_TURN,
            jog_axes=self.jog_axes,
            jog_speed_max=1.0,
        )

    def highest_speed(self, axis: str) -> float:
        """Of a jog: degrees a second, for X, Y and Z millimetres a second."""
        jog = self._rcp.jog
        if axis in JOINT_AXES:
            return jog.max_joint_deg_s
        return jog.max_linear_mm_s if axis in ("X", "Y", "Z") else jog.max_angular_deg_s

    def call(self, action: str, parameters: Mapping[str, Any]) -> SkillCall:
        """What carries an action out.

        Args:
            action: ``move_to``, ``jog``, ``home``, ``start_program`` or ``set_io``.
            parameters: as the protocol has them.

        Raises:
            ParameterError: one is missing, not finite, out of range, or not exactly what it must be.
            NotSupportedError: this robot does not offer the action.
            AdapterError: a jog needs a reading that is not there.
        """
        if action not in self.offered:
            raise NotSupportedError(
                f"this robot does not offer {action}; it offers {', '.join(sorted(self.offered))}",
                data={"action": action},
            )
        match action:
            case "move_to":
                return self._move_to(given.parse_parameters(given.MoveTo, parameters))
            case "jog":
                return self._jogged(given.parse_parameters(given.Jog, parameters))
            case "home":
                given.parse_parameters(given.Parameters, parameters)
                return SkillCall("home", self._move or "", {"target": self._rcp.home_target})
            case "start_program":
                module = given.parse_parameters(given.ProgramName, parameters).module
                return SkillCall("start_program", *self._programs.start(module), program=module)
            case "set_io":
                return self._output(given.parse_parameters(given.SetIO, parameters))
        raise NotSupportedError(f"{action} starts nothing", data={"action": action})

    # -- each -----------------------------------------------------------------------------------------------

    def _move_to(self, to: given.MoveTo) -> SkillCall:
        self._check("move_to", to)
        tcp = self._rcp.tcp
        assert tcp is not None  # noqa: S101 - move_to is not offered without
        q = quaternion_of(to.rx, to.ry, to.rz, tcp.rotation)
        return SkillCall("move_to", self._move or "", _pose((to.x, to.y, to.z), q, tcp.frame))

    def _jogged(self, jog: given.Jog) -> SkillCall:
        self._check("jog", jog)
        section = self._section(self._jog)
        step = jog.direction * jog.speed * self.highest_speed(jog.axis) * self._rcp.jog.step_s
        try:
            if jog.axis in JOINT_AXES:
                return self._joint_step(jog, math.radians(step), section)
            return self._tool_step(jog, step, section)
        except NotKnown as error:
            raise AdapterError(
                f"a jog begins where the robot is, and that is not known: {error}",
                data={"action": "jog", "missing": str(error)},
            ) from error

    def _joint_step(self, jog: given.Jog, step_rad: float, section: SkillSection | None) -> SkillCall:
        index = JOINT_AXES.index(jog.axis)
        positions = self._joints.positions()
        if isinstance(section, MoveArmSection | FollowJointTrajectorySection):
            positions = {name: positions[name] for name in self._config.arms[section.arm].joints}
        name = list(positions)[index]
        facts = self._joints.facts(name)
        target = positions[name] + step_rad
        outside = (facts.lower is not None and target < facts.lower) or (
            facts.upper is not None and target > facts.upper
        )
        if outside:
            raise ParameterError(
                "axis",
                f"{name} is at {math.degrees(positions[name]):.2f} deg, and this step would leave its range "
                f"{_degrees(facts.lower)} .. {_degrees(facts.upper)}",
            )
        positions[name] = target
        turning = {key: value for key, value in positions.items() if not self._joints.facts(key).slides}
        sliding = {key: value for key, value in positions.items() if key not in turning}
        joints: dict[str, Any] = {"joints_rad": turning, **({"joints_m": sliding} if sliding else {})}
        if isinstance(section, FollowJointTrajectorySection):
            point = {"time_from_start_s": self._rcp.jog.step_s, **joints}
            return SkillCall("jog", self._jog or "", {"points": [point]})
        assert isinstance(section, MoveArmSection)  # noqa: S101 - one of the two
        _check_large_enough(abs(step_rad), section.joint_tolerance_rad, "rad")
        speed_rad_s = abs(step_rad) / self._rcp.jog.step_s
        share = section.velocity_scaling * jog.speed if facts.speed is None else speed_rad_s / facts.speed
        scaling = min(section.max_velocity_scaling, share)
        return SkillCall("jog", self._jog or "", {**joints, "velocity_scaling": scaling})

    def _tool_step(self, jog: given.Jog, step: float, section: SkillSection | None) -> SkillCall:
        assert isinstance(section, MoveArmSection)  # noqa: S101 - only MoveIt is asked for these axes
        pose, rotation = self._readings.tool(), self._readings.tool().rotation
        at = [value * 1000.0 for value in pose.position_m]
        if jog.axis in ("X", "Y", "Z"):
            _check_large_enough(abs(step) / 1000.0, section.position_tolerance_m, "m")
            at["XYZ".index(jog.axis)] += step
        else:
            _check_large_enough(math.radians(abs(step)), section.orientation_tolerance_rad, "rad")
            turn = [0.0, 0.0, 0.0]
            turn["XYZ".index(jog.axis[1])] = math.radians(step)
            rotation = product(rotated(*turn), rotation)
        arguments = _pose((at[0], at[1], at[2]), rotation, pose.frame)
        return SkillCall(
            "jog", self._jog or "", {**arguments, "velocity_scaling": section.velocity_scaling * jog.speed}
        )

    def _output(self, output: given.SetIO) -> SkillCall:
        known = outputs_of(self._config)
        if output.signal not in known:
            raise ParameterError("signal", f"must be one of {', '.join(known)}")
        digital = known[output.signal].is_digital
        if not 0.0 <= output.value <= 1.0 or (digital and output.value not in (0.0, 1.0)):
            wanted = "0 or 1 for a digital output" if digital else "0.0 to 1.0 for an analog output"
            raise ParameterError("value", f"must be {wanted}, got {output.value:g}")
        return SkillCall("set_io", self._set_io or "", {"signal": output.signal, "value": output.value})

    def _check(self, action: str, parameters: given.Parameters) -> None:
        """
        Raises:
            ParameterError: outside of :attr:`limits`.
        """
        violations: list[Violation] = list(self._rules[action].check(parameters.model_dump(), Situation()))
        if violations:
            first = violations[0]
            error = ParameterError(first.field, f"is {first.value}; allowed: {first.allowed}")
            error.code = RCPErrorCode.SAFETY_VIOLATION
            error.data["violations"] = [one.record() for one in violations]
            raise error

    def _section(self, skill: str | None) -> SkillSection | None:
        return None if skill is None else self._config.skills[skill]

    def _targets(self) -> frozenset[str]:
        section = self._section(self._move)
        arm = self._config.arms.get(section.arm) if isinstance(section, MoveArmSection) else None
        return frozenset() if arm is None else frozenset(arm.named_targets)


def _pose(at_mm: tuple[float, float, float], q: Quaternion, frame: str) -> dict[str, Any]:
    x_m, y_m, z_m = (metres(value) for value in at_mm)
    turned = {"x": q.x, "y": q.y, "z": q.z, "w": q.w}
    return {"pose": {"x_m": x_m, "y_m": y_m, "z_m": z_m, "orientation": turned, "frame": frame}}


def _check_large_enough(step: float, tolerance: float, unit: str) -> None:
    """MoveIt does not move for a goal that is met already, and says that it succeeded."""
    if step <= tolerance:
        raise ParameterError(
            "speed",
            f"this step is {step:.4g} {unit}, within the arm's own tolerance of {tolerance:g} {unit}, so "
            "nothing would move; jog faster, or raise rcp.jog.step_s in the skills file",
        )


def _degrees(value: float | None) -> str:
    return "no limit" if value is None else f"{math.degrees(value):.2f} deg"
