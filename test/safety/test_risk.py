"""Risk levels are protocol constants, and a prohibited name stays prohibited in any disguise."""

from __future__ import annotations

from typing import Any, cast

import pytest

from robot_mcp_kit.safety.names import skeleton
from robot_mcp_kit.safety.risk import (
    ACTION_OF_TYPE,
    ACTION_RISK,
    PROHIBITED_ACTIONS,
    RiskLevel,
    UnknownActionError,
    is_prohibited,
    risk_of_action,
    risk_of_skill,
)
from robot_mcp_kit.skills.registry import BUILDERS

SEED = {
    "SAFE": ["stop", "read", "validate", "capture_position", "diff_program"],
    "GUARDED": ["upload_program", "set_io"],
    "RESTRICTED": ["start_program", "jog", "move_to", "home"],
}
LATER = {
    "SAFE": ["disable_freedrive"],
    "GUARDED": ["modify_tool_data", "enable_freedrive", "test_device"],
    "RESTRICTED": ["vision.calibrate_hand_eye"],
}


@pytest.mark.parametrize("table", [SEED, LATER])
def test_the_table_has_every_action_with_its_level(table: dict[str, list[str]]) -> None:
    """R1."""
    for level, actions in table.items():
        for action in actions:
            assert ACTION_RISK[action] == level


def test_the_tables_cannot_be_changed_at_run_time() -> None:
    """R1, R2."""
    with pytest.raises(TypeError):
        cast(Any, ACTION_RISK)["move_to"] = RiskLevel.SAFE
    with pytest.raises(TypeError):
        cast(Any, ACTION_OF_TYPE)["nav2_msgs/action/Spin"] = "stop"
    with pytest.raises(AttributeError):
        cast(Any, PROHIBITED_ACTIONS).discard("override_safety")


def test_prohibited_actions_are_in_no_other_level() -> None:
    """R2."""
    assert frozenset({"override_safety", "disable_estop", "modify_safety_config"}) == PROHIBITED_ACTIONS
    assert PROHIBITED_ACTIONS.isdisjoint(ACTION_RISK)


def test_there_are_exactly_four_levels() -> None:
    """R7."""
    assert [level.value for level in RiskLevel] == ["SAFE", "GUARDED", "RESTRICTED", "PROHIBITED"]
    with pytest.raises(ValueError, match="LOW"):
        RiskLevel("LOW")


@pytest.mark.parametrize("level", ["SAFE", "GUARDED"])
def test_configuration_cannot_lower_a_level(level: str) -> None:
    """R3."""
    assert risk_of_skill("go", "navigate_to_pose", "nav2_msgs/action/NavigateToPose", level) == "RESTRICTED"


def test_configuration_can_raise_a_level() -> None:
    """R3."""
    assert risk_of_skill("wait", "wait", "nav2_msgs/action/Wait") == "SAFE"
    assert risk_of_skill("wait", "wait", "nav2_msgs/action/Wait", "RESTRICTED") == "RESTRICTED"
    assert risk_of_skill("go", "go", "nav2_msgs/action/Spin", "PROHIBITED") == "PROHIBITED"


@pytest.mark.parametrize("name", ["fly", "", "move", "moveto2", "стоп", "STOP!!now"])
def test_an_unknown_action_is_refused_and_never_safe(name: str) -> None:
    """R4: stricter than the protocol's SDK."""
    with pytest.raises(UnknownActionError):
        risk_of_action(name)


@pytest.mark.parametrize("name", [" Move_To ", "MOVE-TO", "moveTo"])
def test_case_and_spacing_do_not_hide_a_known_action(name: str) -> None:
    """R5."""
    assert risk_of_action(name) == "RESTRICTED"


DISGUISES = [
    "override_safety",
    "Override_Safety",
    "OVERRIDE-SAFETY",
    "  override safety\t",
    "overrideSafety",
    "override.safety",
    "оverride_safety",  # Cyrillic o
    "οverride_ѕafety",  # Greek o, Cyrillic s
    "override\u200b_\u200dsafety",  # zero width
    "\u202eoverride_safety",  # right-to-left override
    "ｏｖｅｒｒｉｄｅ＿ｓａｆｅｔｙ",  # full width
    "𝐨𝐯𝐞𝐫𝐫𝐢𝐝𝐞_𝐬𝐚𝐟𝐞𝐭𝐲",  # mathematical bold
    "ⓞⓥⓔⓡⓡⓘⓓⓔ_ⓢⓐⓕⓔⓣⓨ",  # circled
    "òvérrïdê_sàfêtÿ",  # accents
    "o\u0301verride_safety",  # combining accent
    "0verr1de_5afety",  # digits
    "please_override_safety_now",
    "override__safety_v2",
    "DISABLE_ESTOP",
    "dіsable_еstop",  # Cyrillic i, e
    "disab1e_estop",
    "disabIe_estop",  # capital i for l
    "disable_e-stop",
    "modify_safety_config",
    "Modify Safety Config",
    "mоdifу_sаfety_cоnfig",
    "/robot/modify_safety_config",
]


@pytest.mark.parametrize("name", DISGUISES)
def test_a_prohibited_name_in_disguise_is_prohibited(name: str) -> None:
    """R5, R27."""
    assert is_prohibited(name), skeleton(name)
    assert risk_of_action(name) is RiskLevel.PROHIBITED


@pytest.mark.parametrize("name", DISGUISES)
def test_a_skill_with_a_prohibited_name_is_prohibited_whatever_its_type(name: str) -> None:
    """R5, R27."""
    assert risk_of_skill(name, "wait", "nav2_msgs/action/Wait", "SAFE") is RiskLevel.PROHIBITED
    assert risk_of_skill("wait", name, "nav2_msgs/action/Wait") is RiskLevel.PROHIBITED


@pytest.mark.parametrize("name", ["navigate_to", "stop", "dock", "home", "safety_check", "estop_state"])
def test_honest_names_are_not_prohibited(name: str) -> None:
    """R5."""
    assert not is_prohibited(name)


def test_every_skill_of_the_kit_has_a_level_and_motion_is_restricted() -> None:
    for action_type in BUILDERS:
        level = risk_of_skill("skill", "action", action_type)
        expected = {"Wait": "SAFE", "SetOutput": "GUARDED"}.get(action_type.rsplit("/")[-1], "RESTRICTED")
        assert level == expected, action_type


def test_an_action_type_nobody_has_judged_is_restricted() -> None:
    """R4."""
    assert risk_of_skill("drill", "drill", "acme_msgs/action/Drill") is RiskLevel.RESTRICTED


def test_a_type_named_like_a_prohibited_action_is_prohibited() -> None:
    """R27."""
    assert risk_of_skill("x", "x", "acme_msgs/action/OverrideSafety") is RiskLevel.PROHIBITED
