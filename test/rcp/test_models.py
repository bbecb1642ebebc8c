"""The data of the protocol: fields, types and defaults as its SDK has them."""

from __future__ import annotations

import dataclasses
import typing
from types import ModuleType
from typing import Any

import pytest

from robot_mcp_kit import rcp
from robot_mcp_kit.rcp import models
from robot_mcp_kit.rcp.rotation import FANUC_WPR_DEG, KUKA_ABC_DEG, OPAQUE, UR_ROTATION_VECTOR_RAD

MISSING = dataclasses.MISSING
FIELDS: dict[str, list[tuple[str, str, Any]]] = {
    "RobotIdentity": [
        ("manufacturer", "str", MISSING),
        ("model", "str", MISSING),
        ("controller", "str", MISSING),
        ("firmware", "str", MISSING),
        ("serial", "str", MISSING),
        ("joint_count", "int", 6),
        ("joint_limits", "list[JointState]", []),
        ("payload_kg", "float", 0.0),
        ("reach_mm", "float", 0.0),
    ],
    "JointState": [
        ("name", "str", MISSING),
        ("position_deg", "float", MISSING),
        ("min_deg", "float", -360.0),
        ("max_deg", "float", 360.0),
        ("max_speed_deg_s", "float", 180.0),
    ],
    "TCPPosition": [(name, "float", MISSING) for name in ("x", "y", "z", "rx", "ry", "rz")],
    "IOSignal": [
        ("name", "str", MISSING),
        ("signal_type", "Literal", MISSING),
        ("value", "float", MISSING),
        ("mode", "Literal | None", None),
    ],
    "IOState": [("signals", "list[IOSignal]", [])],
    "ProgramInfo": [
        ("name", "str", MISSING),
        ("loaded", "bool", False),
        ("running", "bool", False),
        ("paused", "bool", False),
    ],
    "ToolData": [
        ("name", "str", MISSING),
        ("tcp_x", "float", 0.0),
        ("tcp_y", "float", 0.0),
        ("tcp_z", "float", 0.0),
        ("mass_kg", "float", 0.0),
    ],
    "AdapterCapabilities": [
        ("read", "bool", True),
        ("validate", "bool", False),
        ("deploy", "bool", False),
        ("execute", "bool", False),
        ("events", "list[str]", []),
        ("streaming", "bool", False),
    ],
    "RobotContext": [
        ("identity", "RobotIdentity | None", None),
        ("tcp", "TCPPosition | None", None),
        ("joints", "list[JointState]", []),
        ("io", "IOState", models.IOState()),
        ("programs", "list[ProgramInfo]", []),
        ("tools", "list[ToolData]", []),
    ],
    "RCPEvent": [("channel", "str", MISSING), ("data", "dict", {}), ("timestamp", "float", 0.0)],
    "UploadResult": [("success", "bool", MISSING), ("message", "str", ""), ("audit_id", "str", "")],
    "DiffResult": [
        ("local_code", "str", MISSING),
        ("controller_code", "str", MISSING),
        ("added", "int", 0),
        ("removed", "int", 0),
        ("changed", "int", 0),
    ],
    "AuditEntry": [
        ("id", "str", MISSING),
        ("timestamp", "str", MISSING),
        ("action", "str", MISSING),
        ("risk_level", "RiskLevel", MISSING),
        ("approved_by", "str", MISSING),
        ("robot", "str", MISSING),
        ("params", "dict", {}),
        ("result", "str", ""),
        ("diff_summary", "str", ""),
    ],
}
_SHORT = {"SignalType": "Literal", "SignalMode | None": "Literal | None", "dict[str, Any]": "dict"}


def default_of(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


@pytest.mark.parametrize("name", list(FIELDS))
def test_every_field_has_the_protocols_name_type_and_default(name: str) -> None:
    """R6."""
    ours = getattr(rcp, name)
    told = [
        (one.name, _SHORT.get(str(one.type), str(one.type)), default_of(one))
        for one in dataclasses.fields(ours)
    ]
    assert told == FIELDS[name]


@pytest.mark.parametrize("name", list(FIELDS))
def test_the_fields_are_those_of_the_protocols_own_sdk(name: str, sdk: ModuleType) -> None:
    """R6: an object made by either is the same data."""
    ours, theirs = getattr(rcp, name), getattr(sdk, name)
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]
    for mine, other in zip(dataclasses.fields(ours), dataclasses.fields(theirs), strict=True):
        left, right = default_of(mine), default_of(other)
        assert dataclasses.asdict(left) == dataclasses.asdict(right) if name_is_io(mine) else left == right


def name_is_io(field: dataclasses.Field[Any]) -> bool:
    return field.name == "io"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: rcp.RobotIdentity("a", "b", "c", "d", "e"), "joint_limits"),
        (lambda: rcp.IOState(), "signals"),
        (lambda: rcp.AdapterCapabilities(), "events"),
        (lambda: rcp.RobotContext(), "joints"),
        (lambda: rcp.RobotContext(), "io"),
        (lambda: rcp.RobotContext(), "programs"),
        (lambda: rcp.RobotContext(), "tools"),
        (lambda: rcp.RCPEvent("io_changed"), "data"),
        (lambda: rcp.AuditEntry("i", "t", "a", rcp.RiskLevel.GUARDED, "p", "r"), "params"),
    ],
)
def test_two_objects_do_not_share_a_default(make: Any, field: str) -> None:
    """R6."""
    assert getattr(make(), field) is not getattr(make(), field)


@pytest.mark.parametrize("level", ["SAFE", "GUARDED", "RESTRICTED", "PROHIBITED"])
def test_a_risk_level_is_one_of_four_and_equals_its_name(level: str) -> None:
    """R7."""
    assert rcp.RiskLevel(level) == level
    assert rcp.AuditEntry("i", "t", "a", typing.cast(Any, level), "p", "r").to_dict()["risk_level"] == level


@pytest.mark.parametrize("level", ["safe", "", "NONE", "GUARDED ", None, 1])
def test_any_other_risk_level_is_refused(level: Any) -> None:
    """R7."""
    with pytest.raises(ValueError):
        rcp.RiskLevel(level)
    with pytest.raises(ValueError):
        rcp.AuditEntry("i", "t", "a", level, "p", "r")


@pytest.mark.parametrize("kind", ["digital_input", "digital_output", "analog_input", "analog_output"])
def test_a_signal_is_one_of_four_kinds(kind: Any) -> None:
    """R8."""
    signal = rcp.IOSignal("DI_01", kind, 1.0)
    assert signal.is_output is kind.endswith("output")
    assert signal.is_digital is kind.startswith("digital")


@pytest.mark.parametrize("kind", ["digital", "Digital_Input", "", None, "group_input", "digital_input "])
def test_any_other_kind_of_signal_is_refused(kind: Any) -> None:
    """R8."""
    with pytest.raises(ValueError, match="signal_type"):
        rcp.IOSignal("DI_01", kind, 1.0)


def test_a_robot_is_named_as_the_audit_trail_has_it() -> None:
    """R36."""
    identity = rcp.RobotIdentity("ABB", "IRB 6700", "IRC5", "6.1", "12345")
    assert identity.label == "ABB IRB 6700 (SN: 12345)"


def test_rotation_conventions_say_what_the_three_numbers_are() -> None:
    """R16."""
    assert OPAQUE.kind == "opaque"
    assert KUKA_ABC_DEG.to_dict()["order"] == "ZYX"
    assert FANUC_WPR_DEG.unit == "deg"
    assert UR_ROTATION_VECTOR_RAD.to_dict() == {
        "kind": "rotation_vector",
        "unit": "rad",
        "order": "",
        "fields": "rx ry rz = axis times angle",
    }
