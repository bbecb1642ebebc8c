"""Parameters that are missing, odd or out of range never reach a person, let alone the robot."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_mcp_kit.rcp import AdapterError, MotionLimits, ParameterError, RCPError, RCPErrorCode
from robot_mcp_kit.rcp.declared import DeclaredLimit, Facts
from robot_mcp_kit.rcp.limits import JOG_AXES
from robot_mcp_kit.rcp.parameters import Jog, MoveTo, parse_parameters
from robot_mcp_kit.safety.situation import Situation

from .probe import GOOD, MODEL, SIX, Rig

ODD: list[Any] = [
    None,
    True,
    False,
    "1",
    "100.0",
    "",
    math.nan,
    math.inf,
    -math.inf,
    [1.0],
    {"value": 1.0},
    10**400,
]
NUMBERS = {
    "move_to": ["x", "y", "z", "rx", "ry", "rz"],
    "jog": ["speed"],
    "set_io": ["value"],
    "test_device": ["pulse_ms"],
}


async def refused(rig: Rig, action: str, params: Any) -> RCPError:
    with pytest.raises(RCPError) as caught:
        await rig.robot.request(action, params, MODEL)
    assert rig.guard.desk.pending() == []
    assert rig.adapter.calls == []
    return caught.value


@pytest.mark.parametrize(
    ("action", "field"), [(action, field) for action, fields in NUMBERS.items() for field in fields]
)
async def test_what_is_no_finite_number_is_refused(action: str, field: str, rig: Rig) -> None:
    """R30, R31: nor text, true or false that would count as one; the field is named."""
    for odd in ODD:
        error = await refused(rig, action, {**GOOD[action], field: odd})
        assert isinstance(error, ParameterError)
        assert error.parameter == field
    assert rig.events() == ["opened"]


@pytest.mark.parametrize("action", [action for action in GOOD if GOOD[action]])
async def test_nothing_has_a_default_that_moves(action: str, rig: Rig) -> None:
    """R30, R31: the protocol's own SDK would drive to 0."""
    for name in GOOD[action]:
        if name == "read_back":
            continue
        error = await refused(rig, action, {key: one for key, one in GOOD[action].items() if key != name})
        assert isinstance(error, ParameterError)
        assert error.parameter == name


@pytest.mark.parametrize("field", ["tcp_x", "tcp_y", "tcp_z", "mass_kg", "name"])
async def test_a_tool_is_overwritten_with_all_of_it_or_not_at_all(field: str, rig: Rig) -> None:
    """R30."""
    tool = {key: one for key, one in GOOD["modify_tool_data"]["tool"].items() if key != field}
    error = await refused(rig, "modify_tool_data", {"tool": tool})
    assert f"tool.{field}" in str(error)


@pytest.mark.parametrize("action", list(GOOD))
@pytest.mark.parametrize("params", [[], "x", 7, {"unheard_of": 1}])
async def test_parameters_that_are_none_or_unknown_are_refused(action: str, params: Any, rig: Rig) -> None:
    """R30."""
    given_ = {**GOOD[action], **params} if isinstance(params, dict) else params
    assert isinstance(await refused(rig, action, given_), ParameterError)


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({"x": 2651.0, "z": 0.0}, "reach_mm"),
        ({"x": -2000.0, "y": 2000.0}, "reach_mm"),
        ({"x": 1e300}, "reach_mm"),
        ({"rx": 360.5}, "rotation"),
        ({"rz": -1e9}, "rotation"),
    ],
)
async def test_a_place_out_of_reach_is_refused_with_the_limit(
    change: dict[str, float], limit: str, rig: Rig
) -> None:
    """R30, R34, R37: before anybody is asked, and it is in the trail under the id that is told."""
    error = await refused(rig, "move_to", {**SIX, **change})
    assert error.code is RCPErrorCode.SAFETY_VIOLATION
    assert error.data["violations"][0]["limit"] == limit
    assert rig.trail()[-1]["decision"] == "refused"
    (entry,) = rig.entries()
    assert (entry.id, entry.result) == (error.data["audit_id"], "rejected")


async def test_a_box_is_kept(rig: Rig) -> None:
    """R30."""
    rig.adapter.limits = MotionLimits(box_mm={"z": (50.0, 1000.0)})
    error = await refused(rig, "move_to", {**SIX, "z": 49.0})
    assert "box_mm.z: z is 49; allowed: 50 .. 1000" in str(error)
    assert await rig.ask("move_to", **{**SIX, "z": 50.0})


async def test_a_robot_that_tells_no_limits_is_not_moved_anywhere(rig: Rig) -> None:
    """R30."""
    rig.adapter.identity.reach_mm = 0.0
    assert "neither reach_mm nor a box_mm" in str(await refused(rig, "move_to", SIX))
    rig.adapter.limits = MotionLimits(box_mm=dict.fromkeys("xyz", (-500.0, 500.0)))
    assert await rig.ask("move_to")


async def test_every_pose_of_a_calibration_is_judged(rig: Rig) -> None:
    """R30."""
    error = await refused(rig, "vision.calibrate_hand_eye", {"poses": [SIX, {**SIX, "x": 9999.0}]})
    assert "poses[1]" in str(error)
    assert isinstance(await refused(rig, "vision.calibrate_hand_eye", {"poses": []}), ParameterError)


async def test_limits_that_changed_after_the_request_count(rig: Rig) -> None:
    """R30."""
    waiting = await rig.ask("move_to")
    rig.adapter.limits = MotionLimits(reach_mm=100.0)
    rig.approve(waiting)
    with pytest.raises(RCPError, match="reach_mm"):
        await waiting.outcome
    assert rig.adapter.calls == []


@pytest.mark.parametrize("axis", ["J0", "J7", "j1", "W", "", "J1 ", "XYZ", None, 1, ["J1"], "J1\n"])
async def test_a_jog_of_another_axis_is_refused(axis: Any, rig: Rig) -> None:
    """R31."""
    await refused(rig, "jog", {**GOOD["jog"], "axis": axis})


@pytest.mark.parametrize("axis", ["J1", "J2", "J3", "J4", "J5", "J6", "X", "Y", "Z", "RX", "RY", "RZ"])
@pytest.mark.parametrize("direction", [1, -1])
async def test_a_jog_of_a_listed_axis_is_let_through(axis: str, direction: int, rig: Rig) -> None:
    """R31."""
    await rig.do("jog", axis=axis, direction=direction, speed=1.0)
    assert rig.adapter.calls == [("jog", axis, direction, 1.0)]


async def test_an_adapter_can_allow_fewer_axes_and_less_speed(rig: Rig) -> None:
    """R31."""
    rig.adapter.limits = MotionLimits(jog_axes=("J1",), jog_speed_max=0.2)
    assert "jog_axes" in str(await refused(rig, "jog", {"axis": "Z", "direction": 1, "speed": 0.1}))
    assert "jog_speed_max" in str(await refused(rig, "jog", {"axis": "J1", "direction": 1, "speed": 0.3}))
    assert await rig.ask("jog", axis="J1", direction=1, speed=0.2)


@pytest.mark.parametrize("direction", [0, 2, -2, 1.0, -1.0, True, "1", "+", None, math.nan])
async def test_a_jog_goes_one_way_or_the_other(direction: Any, rig: Rig) -> None:
    """R31."""
    await refused(rig, "jog", {**GOOD["jog"], "direction": direction})


@pytest.mark.parametrize("speed", [0.0, -0.5, 1.0001, 1e308])
async def test_a_jog_has_a_speed_above_0_and_within_the_limit(speed: float, rig: Rig) -> None:
    """R31."""
    await refused(rig, "jog", {**GOOD["jog"], "speed": speed})


@pytest.mark.parametrize(
    ("signal", "value", "good"),
    [
        ("DO_1", 0, True),
        ("DO_1", 1.0, True),
        ("DO_1", 0.5, False),
        ("DO_1", 2, False),
        ("DO_1", -1, False),
        ("AO_1", 0.0, True),
        ("AO_1", 0.73, True),
        ("AO_1", 1.0, True),
        ("AO_1", 1.01, False),
        ("AO_1", -0.01, False),
        ("DI_1", 1, False),
        ("AI_1", 0.5, False),
        ("DO_2", 1, False),
        ("do_1", 1, False),
    ],
)
async def test_only_outputs_are_set_and_only_to_what_they_can_be(
    signal: str, value: float, good: bool, rig: Rig
) -> None:
    """R8."""
    if good:
        await rig.do("set_io", signal=signal, value=value)
        assert rig.adapter.calls == [("set_io", signal, value)]
    else:
        error = await refused(rig, "set_io", {"signal": signal, "value": value})
        assert error.code is RCPErrorCode.SAFETY_VIOLATION


async def test_an_output_is_not_set_while_the_signals_cannot_be_read(rig: Rig) -> None:
    """R8."""

    async def fails() -> Any:
        raise AdapterError("fieldbus")

    rig.adapter.get_io = fails
    assert "fieldbus" in str(await refused(rig, "set_io", GOOD["set_io"]))


@pytest.mark.parametrize(
    "change",
    [
        {"output": "DI_1"},
        {"output": "AO_1"},
        {"read_back": "DO_1"},
        {"read_back": "AI_1"},
        {"pulse_ms": 10_001.0},
    ],
)
async def test_a_device_is_tested_by_a_short_pulse_of_a_digital_output(
    change: dict[str, Any], rig: Rig
) -> None:
    """R8."""
    await refused(rig, "test_device", {**GOOD["test_device"], **change})


async def test_only_a_program_that_is_there_is_started(rig: Rig) -> None:
    """R30."""
    error = await refused(rig, "start_program", {"module": "wedl"})
    assert 'Did you mean "weld"?' in str(error)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.floats(), max_size=2),
    st.binary(max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(params=st.fixed_dictionaries({}, optional=dict.fromkeys((*SIX, "speed"), ANYTHING)))
def test_whatever_passes_for_a_position_is_six_finite_numbers(params: dict[str, Any]) -> None:
    """R30."""
    try:
        parsed = parse_parameters(MoveTo, params)
    except ParameterError:
        return
    assert set(params) == set(SIX)
    for name, value in params.items():
        assert type(value) in (int, float)
        assert math.isfinite(value)
        assert getattr(parsed, name) == value


@settings(max_examples=150, deadline=None)
@given(axis=ANYTHING, direction=ANYTHING, speed=ANYTHING)
def test_whatever_passes_for_a_jog_is_one(axis: Any, direction: Any, speed: Any) -> None:
    """R31."""
    try:
        parsed = parse_parameters(Jog, {"axis": axis, "direction": direction, "speed": speed})
    except ParameterError:
        return
    assert type(direction) is int
    assert parsed.direction in (1, -1)
    assert type(speed) in (int, float)
    assert 0 < speed < math.inf
    assert isinstance(axis, str)


LOOKED_AT = ("axis", "direction", "speed", "signal", "value", "output")


@settings(max_examples=150, deadline=None)
@given(
    action=st.sampled_from(sorted(GOOD)),
    fields=st.dictionaries(st.sampled_from([*SIX, *LOOKED_AT]), ANYTHING),
)
def test_limits_judge_whatever_they_are_given(action: str, fields: dict[str, Any]) -> None:
    """R30, R31: and never fail on it; a position that is not six finite numbers within reach breaks one."""
    broken = list(DeclaredLimit(action, lambda: Facts(reach_mm=1000.0)).check(fields, Situation()))
    if action == "move_to" and not broken:
        assert all(math.isfinite(fields[name]) for name in SIX)
        assert math.hypot(fields["x"], fields["y"], fields["z"]) <= 1000.0 + 1e-6
    if action == "jog" and not broken:
        assert (fields["direction"], fields["axis"]) in {(way, axis) for way in (1, -1) for axis in JOG_AXES}
