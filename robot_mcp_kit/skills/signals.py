"""The skill that sets an output of the robot, and the values of signals as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.signals import GROUP_TYPE, SetOutputSection, Signal, SignalAddress
from robot_mcp_kit.skills.configured import ConfiguredSkill
from robot_mcp_kit.skills.goal_pose import WhereIsRobot
from robot_mcp_kit.skills.messages import finite, items
from robot_mcp_kit.skills.results import SkillResult
from robot_mcp_kit.skills.text import did_you_mean, nearest_first

NOT_CONFIRMED = "IO_NOT_CONFIRMED"


class SetOutputArguments(SkillArguments):
    """One output and its value."""

    signal: str = Field(max_length=80, description="Name of the output.")
    value: Number = Field(
        description="0 or 1 for a digital output; 0.0 to 1.0 of full scale for an analog one."
    )


@dataclass(frozen=True, slots=True)
class OutputResult:
    """What the node says of one command."""

    value: float | None
    """The output's own state at the end; ``None``: not known."""
    detail: str = ""


class OutputFacts(SkillResult):
    """What became of an output."""

    signal: str
    value: float = Field(description="As asked for.")
    state: float | None = Field(description="What the output's own state said at the end.")
    measured: bool = Field(description="Whether that state is known.")


class SetOutput(ConfiguredSkill[SetOutputSection]):
    """Set an output, and see that it follows.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: for the outputs.
        where: not used; every skill is built alike.
    """

    title = "Set an output"
    arguments = SetOutputArguments
    results = OutputFacts
    trigger_types = frozenset()
    resources = frozenset({"outputs"})
    effects = ("the output's own state is the value that was asked for",)

    def __init__(
        self,
        name: str,
        section: SetOutputSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__(name, section, config)
        self._outputs = outputs_of(config)
        listed = ", ".join(f"{name} ({one.kind.split('_')[0]})" for name, one in self._outputs.items())
        self.description = (
            "Set one output of the robot. Answers at once with a task, which succeeds when the output's own "
            f"state follows, and fails without that within {section.confirm_s:g} s. Digital outputs take 0 "
            "or 1, analog ones 0.0 to 1.0 of full scale. Something may start, open or let go: use it only "
            "when you know what hangs on the output, and never to get around a safety function. Setting the "
            "same value again is safe to retry; with an idempotency_key a repeated call starts nothing new. "
            f"Outputs: {listed}."
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, SetOutputArguments):
            raise TypeError(f"{self.name} takes SetOutputArguments, got {type(arguments).__name__}")
        output = self._outputs.get(arguments.signal)
        if output is None:
            known = nearest_first(arguments.signal, self._outputs)
            message = f"there is no such output.{did_you_mean(arguments.signal, self._outputs)}"
            raise ArgumentError("signal", message, allowed=known)
        value = arguments.value
        if output.is_digital and value not in (0.0, 1.0):
            raise ArgumentError("value", f"{arguments.signal} is digital: 0 or 1, got {value:g}")
        if not 0.0 <= value <= 1.0:
            raise ArgumentError("value", f"must be 0.0 to 1.0 of full scale, got {value:g}")
        return GoalSpec(
            fields={"signal": arguments.signal, "value": value},
            summary=f"set the output {arguments.signal} to {value:g}",
            context={"signal": arguments.signal, "value": value},
        )

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        return _NoFeedback()

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        reads = getattr(result, "value", None)
        told = {**spec.context, "state": reads, "measured": reads is not None}
        if status == GoalStatus.SUCCEEDED:
            return Outcome("succeeded", told)
        state = "is not known" if reads is None else f"is {reads:g}"
        detail = str(getattr(result, "detail", "") or "")
        failure = TaskFailure(
            error_code=NOT_CONFIRMED,
            message=(
                f"The output {spec.context['signal']} was commanded to {spec.context['value']:g}, but its "
                f"state {state}. {detail}"
            ).rstrip(),
            recoverable=True,
            suggestions=["get_task", "ask_person"],
        )
        return Outcome("failed", failure=failure)


class _NoFeedback(FeedbackReader):
    """An output is set in a moment."""

    def read(self, feedback: Any, now_s: float) -> Sample | None:  # noqa: ARG002
        return None


def outputs_of(config: RobotConfig) -> dict[str, Signal]:
    """The signals that can be set, by name."""
    return {name: signal for name, signal in config.io.items() if signal.command is not None}


def grouped_value(message: Any, group: str, interface: str) -> float | None:
    """The value of one interface in a control_msgs/msg/DynamicInterfaceGroupValues."""
    for name, values in zip(
        items(message, "interface_groups"), items(message, "interface_values"), strict=False
    ):
        if name == group:
            for key, value in zip(items(values, "interface_names"), items(values, "values"), strict=False):
                if key == interface:
                    return finite(value)
    return None


def command_fields(address: SignalAddress, raw: float, *, whole: bool, boolean: bool) -> dict[str, Any]:
    """The fields of the message that sets an output.

    Args:
        address: where.
        raw: the message's number.
        whole: the field is an integer.
        boolean: the field is true or false.
    """
    if address.type == GROUP_TYPE:
        values = {"interface_names": [address.interface], "values": [raw]}
        return {"interface_groups": [address.group], "interface_values": [values]}
    value: Any = bool(raw) if boolean else round(raw) if whole else raw
    for part in reversed(address.path.split(".")):
        value = {part: value}
    fields: dict[str, Any] = value
    return fields
