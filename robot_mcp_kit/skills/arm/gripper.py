"""The ``gripper`` skill: open, close, or go to a gap (``GripperCommand`` and ``ParallelGripperCommand``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.conditions import Precondition
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.arm import GripperSection
from robot_mcp_kit.skills.configured import ConfiguredSkill
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import dig, first_number, number
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.world import WorldSnapshot

STALLED_CODE = "GRIPPER_STALLED"
EMPTY_CODE = "GRIPPER_EMPTY"
MISSED_CODE = "GRIPPER_POSTCONDITION_GAP"
SHUT_CODE = "GRIPPER_SHUT"
PARALLEL = "control_msgs/action/ParallelGripperCommand"


class GripperArguments(SkillArguments):
    """Either ``command`` or ``position_m``."""

    command: Literal["open", "close"] | None = Field(
        None, description="open or close, instead of position_m. close is how to grasp."
    )
    position_m: Number | None = Field(
        None, description="Gap between the fingers in metres, instead of command; 0 is shut."
    )
    max_effort_n: Number | None = Field(
        None, description="Largest force in newtons. Left out: the robot's own."
    )
    expect_object: bool = Field(
        False, description="Set it when closing to grasp: a gripper that ends up empty is then a failure."
    )


class GripperResult(SkillResult):
    """Where the fingers are."""

    target_m: float = Field(description="The gap asked for.")
    position_m: float | None = Field(description="The gap as the gripper's driver told it; null: it did not.")
    measured: bool = Field(description="Whether the gap at the end is known.")
    reached_goal: bool = Field(description="As the driver says.")
    stalled: bool = Field(description="The fingers stopped before the gap asked for, as the driver says.")
    holding: Literal["probably", "probably not", "unknown"]
    gap_m: float | None = Field(description="The gap by its own sensor after the end; null: no sensor.")
    holds_something: bool | None = Field(
        description="By that sensor: the fingers stand neither open nor shut; null: no sensor."
    )


class Gripper(ConfiguredSkill[GripperSection]):
    """Move the fingers.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: whether the fingers are measured.
        where: not used; every skill is built alike.
    """

    title = "Open or close the gripper"
    arguments = GripperArguments
    resources = frozenset({"gripper"})
    server_replaces = True
    results = GripperResult

    def __init__(
        self,
        name: str,
        section: GripperSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__(name, section, config)
        self.effects = ("the fingers are at the gap asked for, or stopped on something before it",)
        if _has_the_sensor(name, config):
            self.measures = frozenset({"gripper"})
            self.preconditions = (
                Precondition(
                    SHUT_CODE, "to grasp (expect_object), the fingers are not shut", self._shut, (name,)
                ),
            )
            self.effects = (*self.effects, "with expect_object, something is between the fingers")
        second = {
            "replace": "takes over from the first",
            "refuse": "while the fingers move is refused",
            "queue": "while the fingers move waits until they have stopped",
        }[section.policy]
        self.description = (
            "Open or close the gripper, or set the gap between its fingers to position_m metres "
            f"({section.closed_gap_m:g} shut to {section.open_gap_m:g} open), with at most max_effort_n "
            f"newtons (usually {section.effort_n:g}, up to {section.max_effort_n:g}). Answers at once with "
            "a task of a few seconds, often without progress. Fingers that stop early when closing have "
            "probably grasped something; depending on the robot that is a success or the failure "
            f"{STALLED_CODE}, whose text says so. Opening drops what is held: be sure where it falls. "
            "Absolute, so a retry is safe; with an idempotency_key a repeated call starts nothing new. A "
            f"second call {second}. It does not move the arm."
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, GripperArguments):
            raise TypeError(f"{self.name} takes GripperArguments, got {type(arguments).__name__}")
        gap_m, words = self._gap(arguments)
        effort = self._effort(arguments.max_effort_n)
        if arguments.expect_object and arguments.command == "open":
            raise ArgumentError("expect_object", "only when closing: an open gripper holds nothing")
        command = self._section.command_of(gap_m)
        return GoalSpec(
            fields={"command": self._command(command, effort)},
            summary=f"{words}, at most {effort:g} N",
            est_duration_s=self._section.typical_duration_s,
            context={
                "target_m": gap_m,
                "command": arguments.command,
                "expect_object": arguments.expect_object,
            },
        )

    def _gap(self, arguments: GripperArguments) -> tuple[float, str]:
        section = self._section
        if arguments.position_m is None:
            if arguments.command is None:
                raise ArgumentError(
                    "command", "is missing; give command or position_m", allowed=["open", "close"]
                )
            gap_m = section.open_gap_m if arguments.command == "open" else section.closed_gap_m
            return gap_m, f"{arguments.command} the gripper"
        if arguments.command is not None:
            raise ArgumentError("position_m", "give either command or position_m, not both")
        gap_m = arguments.position_m
        if not section.closed_gap_m <= gap_m <= section.open_gap_m:
            raise ArgumentError(
                "position_m",
                f"{gap_m:g} is outside {section.closed_gap_m:g} .. {section.open_gap_m:g} (a gap in metres)",
            )
        return gap_m, f"set the gripper's gap to {gap_m:.3f} m"

    def _effort(self, given: float | None) -> float:
        section = self._section
        # 0 would be the driver's own force, which nobody here chose.
        if given is None or given == 0:
            return section.effort_n
        if not 0 < given <= section.max_effort_n:
            raise ArgumentError(
                "max_effort_n", f"must be above 0 and at most {section.max_effort_n:g}, got {given:g}"
            )
        return given

    def _command(self, position: float, effort: float) -> dict[str, Any]:
        if self.action_type != PARALLEL:
            return {"position": position, "max_effort": effort}
        joint = self._section.joint
        # sensor_msgs/JointState; the controller refuses anything but exactly one position.
        return {"name": [joint] if joint else [], "position": [position], "effort": [effort]}

    def reader(self, spec: GoalSpec) -> FeedbackReader:
        return GripperReader(self._section, spec.context["target_m"])

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        reached, stalled = dig(result, "reached_goal") is True, dig(result, "stalled") is True
        if status == GoalStatus.SUCCEEDED:
            return self._succeeded(result, reached, stalled, spec)
        if status == GoalStatus.ABORTED and stalled and not reached:
            return Outcome("failed", failure=self._stalled(result, spec))
        # A default result: its position 0.0 is no measurement.
        return Outcome("failed", failure=unsuccessful(status, self.action_name))

    def _succeeded(self, result: Any, reached: bool, stalled: bool, spec: GoalSpec) -> Outcome:
        measured = reached or stalled
        gap_m = gap_of(result, self._section) if measured else None
        held = stalled and not reached and spec.context["command"] != "open"
        told: dict[str, Any] = {
            "target_m": spec.context["target_m"],
            "position_m": None if gap_m is None else round(gap_m, 4),
            "measured": gap_m is not None,
            "reached_goal": reached,
            "stalled": stalled,
            "holding": "probably" if held else "probably not" if reached else "unknown",
            "gap_m": None,
            "holds_something": None,
        }
        if held:
            told["note"] = f"The fingers stopped on something{_at(gap_m)}; it is probably held."
        elif stalled and not reached:
            told["note"] = f"The fingers stopped{_at(gap_m)} before they were open; something may block them."
        elif not reached:
            told["note"] = (
                "The gripper says neither that it reached the goal nor that it stopped on something."
            )
        if spec.context["expect_object"] and reached:
            return Outcome("failed", failure=self._empty(gap_m))
        return Outcome("succeeded", told)

    def _shut(self, world: WorldSnapshot, arguments: SkillArguments) -> str | None:
        """Closing what is shut already grasps nothing."""
        reading = world.gripper
        if reading is None or not getattr(arguments, "expect_object", False):
            return None
        if reading.is_open or reading.holds_something:
            return None
        return f"The fingers are shut already (gap_m {reading.gap_m:g}), so nothing can come between them."

    def measured(self, outcome: Outcome, spec: GoalSpec, world: WorldSnapshot) -> Outcome:
        """The driver's word against the sensor's."""
        reading = world.gripper
        if not self.measures or outcome.result is None or reading is None:
            return outcome
        told = {
            **outcome.result,
            "measured": True,
            "gap_m": reading.gap_m,
            "holds_something": reading.holds_something,
        }
        if spec.context["expect_object"] and not reading.holds_something:
            return Outcome("failed", failure=self._empty(reading.gap_m))
        off_m = abs(reading.gap_m - spec.context["target_m"])
        if told["reached_goal"] and off_m > self._section.gap_tolerance_m:
            return Outcome("failed", failure=self._missed(reading.gap_m, spec))
        if not reading.holds_something and told["holding"] == "probably":
            told |= {"holding": "probably not", "note": f"The fingers stopped{_at(reading.gap_m)}; empty."}
        return replace(outcome, result=told)

    def _missed(self, gap_m: float, spec: GoalSpec) -> TaskFailure:
        return TaskFailure(
            error_code=MISSED_CODE,
            message=(
                f"The gripper reported that it reached {spec.context['target_m']:.3f} m, but its sensor "
                f"reads {gap_m:.3f} m."
            ),
            recoverable=True,
            suggestions=[self.name, "get_task", "ask_person"],
        )

    def _stalled(self, result: Any, spec: GoalSpec) -> TaskFailure:
        gap_m = gap_of(result, self._section)
        target_m: float = spec.context["target_m"]
        if spec.context["command"] == "open":
            meaning = "Something may block the fingers, or what they hold is stuck."
        else:
            meaning = "If you were closing on an object, it is probably held."
        return TaskFailure(
            error_code=STALLED_CODE,
            message=f"The fingers stopped{_at(gap_m)} before reaching {target_m:.3f} m. {meaning}",
            recoverable=True,
            suggestions=[self.name, "get_task", "ask_person"],
        )

    def _empty(self, gap_m: float | None) -> TaskFailure:
        return TaskFailure(
            error_code=EMPTY_CODE,
            message=(
                f"The gripper closed all the way{_at(gap_m)} and nothing stopped it, so it probably holds "
                "nothing. Look where the object is, open, and try again."
            ),
            recoverable=True,
            suggestions=[self.name, "ask_person"],
        )


def _has_the_sensor(name: str, config: RobotConfig) -> bool:
    """Whether ``sensors.gripper`` reads this skill's fingers: the file has one such sensor."""
    if config.sensors.gripper is None:
        return False
    if config.manipulation is not None:
        return config.manipulation.gripper == name
    grippers = [n for n, s in config.skills.items() if s.enabled and isinstance(s, GripperSection)]
    return grippers == [name]


def _at(gap_m: float | None) -> str:
    return "" if gap_m is None else f" at {gap_m:.3f} m"


def gap_of(message: Any, section: GripperSection) -> float | None:
    """The gap in a result or feedback: ``position`` (GripperCommand) or ``state.position[0]`` (parallel).

    ``None`` where there is none: a cancelled parallel goal's arrays are empty.
    """
    command = number(message, "position")
    if command is None:
        command = first_number(message, "state.position")
    return None if command is None else section.gap_of(command)


def _effort_of(message: Any) -> float | None:
    effort = number(message, "effort")
    if effort is None:
        effort = first_number(message, "state.effort")
    return effort


class GripperReader(FeedbackReader):
    """Vendor drivers send feedback, the controllers of ros2_controllers do not.

    Payload: ``position_m`` (gap), ``effort_n``, ``stalled``, ``percent`` of the way; no ETA.
    """

    def __init__(self, section: GripperSection, target_m: float) -> None:
        self._section = section
        self._target_m = target_m
        self._from_m: float | None = None
        self._started_s: float | None = None
        self._percent: float | None = None
        self._stalled = False

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        gap_m = gap_of(feedback, self._section)
        if gap_m is None:
            return None
        if self._from_m is None or self._started_s is None:
            self._from_m, self._started_s = gap_m, now_s
        way_m = abs(self._target_m - self._from_m)
        if way_m > 1e-6:
            percent = min(99.0, 100.0 * abs(gap_m - self._from_m) / way_m)
            self._percent = percent if self._percent is None else max(self._percent, percent)
        stalled = dig(feedback, "stalled") is True
        news, self._stalled = stalled and not self._stalled, stalled
        effort = _effort_of(feedback)
        return Sample(
            payload={
                "eta_s": None,
                "percent": None if self._percent is None else round(self._percent, 1),
                "position_m": round(gap_m, 4),
                "effort_n": None if effort is None else round(effort, 1),
                "stalled": stalled,
            },
            time_s=now_s - self._started_s,
            percent=self._percent,
            milestone=news,
        )
