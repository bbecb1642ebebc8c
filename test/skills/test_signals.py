"""Inputs and outputs: the entries of the file, the values of messages, and the skill that sets one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.errors import ArgumentError, ConfigError
from robot_mcp_kit.safety.risk import RiskLevel, risk_of_skill
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import GoalStatus, Skill
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.signals import OutputResult, command_fields, grouped_value, outputs_of

FILE = """
io:
  DI_door: {kind: digital_input, topic: door}
  DO_lamp: {kind: digital_output, topic: lamp/state, command: {topic: lamp/command}}
  AO_fan:
    kind: analog_output
    topic: fan/state
    type: std_msgs/msg/Float64
    range: [0.0, 10.0]
    command: {topic: fan/command}
  AO_flange:
    kind: analog_output
    topic: gpio/states
    type: control_msgs/msg/DynamicInterfaceGroupValues
    group: flange
    interface: analog_out_1
    command: {topic: gpio/commands}
skills:
  set_io: {type: robot_mcp_kit/action/SetOutput}
"""


@pytest.fixture
def skill() -> Skill:
    return build_skills(parse_config(FILE))["set_io"]


def _goal(skill: Skill, **arguments: Any) -> Any:
    return skill.goal(parse_arguments(skill.arguments, arguments))


def test_setting_an_output_is_the_protocols_set_io(skill: Skill) -> None:
    """R1 R6: GUARDED, whatever its entry is called."""
    assert risk_of_skill("lights", skill.action_name, skill.action_type) is RiskLevel.GUARDED


def test_an_output_gets_its_value(skill: Skill) -> None:
    """R8."""
    assert _goal(skill, signal="DO_lamp", value=1).fields == {"signal": "DO_lamp", "value": 1.0}
    assert _goal(skill, signal="AO_fan", value=0.25).fields == {"signal": "AO_fan", "value": 0.25}


@pytest.mark.parametrize(
    ("arguments", "field", "words"),
    [
        ({"signal": "DO_lamp", "value": 0.5}, "value", "0 or 1"),
        ({"signal": "DO_lamp", "value": True}, "value", "number"),
        ({"signal": "AO_fan", "value": 1.01}, "value", "0.0 to 1.0"),
        ({"signal": "AO_fan", "value": -0.01}, "value", "0.0 to 1.0"),
        ({"signal": "AO_fan", "value": float("nan")}, "value", "finite"),
        ({"signal": "AO_fan", "value": float("inf")}, "value", "finite"),
        ({"signal": "AO_fan"}, "value", "required"),
        ({"signal": "DI_door", "value": 1}, "signal", "no such output"),
        ({"signal": "do_lamp", "value": 1}, "signal", "DO_lamp"),
        ({"signal": "DO_lаmp", "value": 1}, "signal", "no such output"),
        ({"signal": "DO_lamp", "value": 1, "force": True}, "force", "no such argument"),
    ],
)
def test_a_value_that_is_none_is_refused(skill: Skill, arguments: Any, field: str, words: str) -> None:
    """R8: missing, NaN, out of range, disguised."""
    with pytest.raises(ArgumentError) as caught:
        _goal(skill, **arguments)
    assert caught.value.field == field
    assert words in f"{caught.value.message} {caught.value.allowed}"


def test_an_output_whose_state_does_not_follow_is_a_failure(skill: Skill) -> None:
    spec = _goal(skill, signal="DO_lamp", value=1)
    done = skill.outcome(GoalStatus.SUCCEEDED, OutputResult(1.0), spec, None)
    assert done.result == {"signal": "DO_lamp", "value": 1.0, "state": 1.0, "measured": True}
    stuck = skill.outcome(GoalStatus.ABORTED, OutputResult(0.0), spec, None)
    assert stuck.failure is not None
    assert stuck.failure.error_code == "IO_NOT_CONFIRMED"
    assert "its state is 0" in stuck.failure.message
    unheard = skill.outcome(GoalStatus.ABORTED, OutputResult(None), spec, None)
    assert unheard.failure is not None
    assert "its state is not known" in unheard.failure.message


def test_values_are_scaled_and_turned_round() -> None:
    """R8: what the protocol sees is 0 or 1, or a part of full scale."""
    fan = parse_config(FILE).io["AO_fan"]
    assert (fan.value_of(2.5), fan.raw_of(0.25), fan.value_of(11.0)) == (0.25, 2.5, 1.0)
    door = parse_config(FILE.replace("topic: door", "topic: door, inverted: true")).io["DI_door"]
    assert (door.value_of(1.0), door.value_of(0.0), door.value_of(0.5)) == (0.0, 1.0, None)


def test_a_gpio_controllers_interface_is_found_by_group_and_name() -> None:
    message = SimpleNamespace(
        interface_groups=["base", "flange"],
        interface_values=[
            SimpleNamespace(interface_names=["analog_out_1"], values=[9.0]),
            SimpleNamespace(interface_names=["vacuum", "analog_out_1"], values=[1.0, 0.5]),
        ],
    )
    assert grouped_value(message, "flange", "analog_out_1") == 0.5
    assert grouped_value(message, "flange", "analog_out_9") is None
    assert grouped_value(SimpleNamespace(), "flange", "analog_out_1") is None


def test_a_command_names_only_its_own_interface() -> None:
    outputs = outputs_of(parse_config(FILE))
    flange, fan = outputs["AO_flange"], outputs["AO_fan"]
    assert flange.command is not None
    assert fan.command is not None
    assert command_fields(flange.command.address(flange), 0.5, whole=False, boolean=False) == {
        "interface_groups": ["flange"],
        "interface_values": [{"interface_names": ["analog_out_1"], "values": [0.5]}],
    }
    assert command_fields(fan.command.address(fan), 2.5, whole=False, boolean=False) == {"data": 2.5}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("DI: {kind: digital_input, topic: t, command: {topic: c}}", "an input cannot be commanded"),
        ("DI: {kind: digital_input, topic: t, range: [0.0, 1.0]}", "range is for analog"),
        ("AI: {kind: analog_input, topic: t, inverted: true}", "inverted is for digital"),
        ("DI: {kind: digital, topic: t}", "kind"),
        ("DI: {kind: digital_input, topic: t, group: g, interface: i}", "group and interface are for"),
        (
            "DI: {kind: digital_input, topic: t, type: control_msgs/msg/DynamicInterfaceGroupValues}",
            "needs group and interface",
        ),
    ],
)
def test_an_entry_that_contradicts_itself_stops_the_start(entry: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(f"io:\n  {entry}\n")


def test_a_skill_without_outputs_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"skills\.set_io: there is no output with a command in io"):
        parse_config("skills:\n  set_io: {type: robot_mcp_kit/action/SetOutput}\n")
