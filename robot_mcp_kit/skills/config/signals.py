"""Inputs and outputs of the robot in the configuration file, and the skill that sets outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from robot_mcp_kit.skills.config.safety import MessageField, MessageType
from robot_mcp_kit.skills.config.types import (
    ActionName,
    Name,
    NotNegative,
    Policy,
    Positive,
    Range,
    Section,
    SkillSection,
)

SignalKind = Literal["digital_input", "digital_output", "analog_input", "analog_output"]
GROUP_TYPE = "control_msgs/msg/DynamicInterfaceGroupValues"
"""What ros2_control's GPIO controllers speak: values by group and interface name."""
SET_OUTPUT_TYPE = "robot_mcp_kit/action/SetOutput"
"""No action server's type: the node itself publishes the command and reads the state back."""


class SignalAddress(Section):
    """Where a signal's value stands: a field of a message, or an interface of a GPIO controller."""

    topic: ActionName
    type: MessageType = "std_msgs/msg/Bool"
    field: MessageField | None = None
    """Path of the value. Default: ``data``."""
    group: Name | None = None
    """For control_msgs/msg/DynamicInterfaceGroupValues: the interface group,"""
    interface: Name | None = None
    """and the interface in it."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        grouped = self.group is not None and self.interface is not None
        if self.type == GROUP_TYPE and (not grouped or self.field is not None):
            raise ValueError(f"{GROUP_TYPE} needs group and interface, and no field")
        if self.type != GROUP_TYPE and (self.group is not None or self.interface is not None):
            raise ValueError(f"group and interface are for {GROUP_TYPE}; other types have field")
        return self

    @property
    def path(self) -> str:
        """The field's path, for messages that are not grouped."""
        return self.field or "data"


class SignalCommand(Section):
    """Where an output is commanded. What is left out is as for its state."""

    topic: ActionName
    type: MessageType | None = None
    field: MessageField | None = None
    group: Name | None = None
    interface: Name | None = None

    def address(self, state: SignalAddress) -> SignalAddress:
        """The full address.

        Raises:
            ValueError: it does not fit its type.
        """
        same = self.type is None or self.type == state.type
        return SignalAddress(
            topic=self.topic,
            type=self.type or state.type,
            field=self.field or (state.field if same else None),
            group=self.group or (state.group if same else None),
            interface=self.interface or (state.interface if same else None),
        )


class Signal(SignalAddress):
    """One signal. Digital ones are 0 or 1, analog ones 0.0 to 1.0 of ``range``."""

    kind: SignalKind
    range: Range | None = None
    """Analog: the message's numbers for 0 and 1. Default: [0, 1]."""
    inverted: bool = False
    """Digital: the message's true is 0."""
    mode: Literal["voltage", "current"] | None = None
    """What carries an analog signal, if known."""
    max_age_s: Positive = 2.0
    """Older counts as unknown; for latched topics any age will do, so set it high."""
    latched: bool = False
    """The publisher is transient-local; also hear what was published before."""
    command: SignalCommand | None = None
    """Outputs: where it is set. Left out: it can only be read."""

    @property
    def is_digital(self) -> bool:
        return self.kind.startswith("digital_")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.range is not None and self.is_digital:
            raise ValueError("range is for analog signals")
        if self.inverted and not self.is_digital:
            raise ValueError("inverted is for digital signals; turn range round by another scale instead")
        if self.mode is not None and self.is_digital:
            raise ValueError("mode is for analog signals")
        if self.command is not None:
            if self.kind.endswith("_input"):
                raise ValueError("an input cannot be commanded")
            self.command.address(self)
        return self

    def value_of(self, raw: float) -> float | None:
        """The signal's value for the message's number; analog ones are held within 0 and 1.

        ``None``: a digital signal that is neither 0 nor 1.
        """
        if self.is_digital:
            if raw not in (0.0, 1.0):
                return None
            return 1.0 - raw if self.inverted else raw
        low, high = (0.0, 1.0) if self.range is None else (self.range.min, self.range.max)
        return min(1.0, max(0.0, (raw - low) / (high - low)))

    def raw_of(self, value: float) -> float:
        """The message's number for a value."""
        if self.is_digital:
            return 1.0 - value if self.inverted else value
        low, high = (0.0, 1.0) if self.range is None else (self.range.min, self.range.max)
        return low + value * (high - low)


class SetOutputSection(SkillSection):
    """Setting outputs (those of ``io`` that have a ``command``). No action server: this node publishes the
    command and succeeds when the output's own state says so.
    """

    action: ActionName = "set_output"
    """Only a name, for logs and the ledger."""
    policy: Policy = "queue"
    feedback_timeout_s: NotNegative | None = 0.0
    confirm_s: Positive = 2.0
    """How long the output's state may take to follow; later is a failure."""
    tolerance: Positive = Field(default=0.02, le=0.5)
    """How far an analog output's state may be from what was asked, in parts of 1."""


SIGNAL_SECTIONS: dict[str, type[SkillSection]] = {SET_OUTPUT_TYPE: SetOutputSection}


def signal_faults(
    io: Mapping[str, Signal], skills: Mapping[str, SkillSection]
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What is wrong between the signals and the skill that sets them, with its place in the file."""
    for name, section in skills.items():
        if isinstance(section, SetOutputSection) and not any(one.command for one in io.values()):
            yield ("skills", name), "there is no output with a command in io, so there is nothing to set"
