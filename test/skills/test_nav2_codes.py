"""Nav2's numbers: every row of every family, keyed by action, and nothing that raises."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.skills.bridge_codes import BRIDGE_CODES, bridge_failure
from robot_mcp_kit.skills.nav2.code_table import FAMILIES, PASS_ON, ROWS, Nav2Code
from robot_mcp_kit.skills.nav2.codes import nav2_code, nav2_failure, nav2_note

TOOLS = {"navigate_to", "get_task", "list_tasks", "cancel_task", "stop", "ask_person"}
SUGGESTION = re.compile(r"wait_s:\d+")

# (action, number): constant and stable code, from the action definitions.
KNOWN = {
    ("FollowPath", 100): ("UNKNOWN", "NAV2_CONTROLLER_UNKNOWN"),
    ("FollowPath", 104): ("PATIENCE_EXCEEDED", "NAV2_CONTROLLER_PATIENCE"),
    ("FollowPath", 105): ("FAILED_TO_MAKE_PROGRESS", "NAV2_STUCK"),
    ("FollowPath", 106): ("NO_VALID_CONTROL", "NAV2_CONTROLLER_NO_CONTROL"),
    ("ComputePathToPose", 203): ("START_OUTSIDE_MAP", "NAV2_START_OUTSIDE_MAP"),
    ("ComputePathToPose", 204): ("GOAL_OUTSIDE_MAP", "NAV2_GOAL_OUTSIDE_MAP"),
    ("ComputePathToPose", 206): ("GOAL_OCCUPIED", "NAV2_GOAL_OCCUPIED"),
    ("ComputePathThroughPoses", 308): ("NO_VALID_PATH", "NAV2_NO_PATH"),
    ("ComputePathThroughPoses", 309): ("NO_VIAPOINTS_GIVEN", "NAV2_NO_VIAPOINTS"),
    ("ComputeRoute", 405): ("NO_VALID_ROUTE", "NAV2_ROUTE_NO_VALID_ROUTE"),
    ("SmoothPath", 503): ("SMOOTHED_PATH_IN_COLLISION", "NAV2_SMOOTHER_SMOOTHED_PATH_IN_COLLISION"),
    ("FollowWaypoints", 603): ("STOP_ON_MISSED_WAYPOINT", "NAV2_WAYPOINT_MISSED"),
    ("Spin", 703): ("COLLISION_AHEAD", "NAV2_COLLISION_AHEAD"),
    ("BackUp", 713): ("INVALID_INPUT", "NAV2_INVALID_INPUT"),
    ("BackUp", 714): ("COLLISION_AHEAD", "NAV2_COLLISION_AHEAD"),
    ("DriveOnHeading", 723): ("COLLISION_AHEAD", "NAV2_COLLISION_AHEAD"),
    ("DriveOnHeading", 724): ("INVALID_INPUT", "NAV2_INVALID_INPUT"),
    ("AssistedTeleop", 732): ("TF_ERROR", "NAV2_TELEOP_TF"),
    ("Wait", 741): ("TIMEOUT", "NAV2_WAIT_TIMEOUT"),
    ("DockRobot", 901): ("DOCK_NOT_IN_DB", "NAV2_DOCK_UNKNOWN"),
    ("UndockRobot", 905): ("FAILED_TO_CONTROL", "NAV2_DOCK_CONTROL_FAILED"),
    ("DockRobot", 999): ("UNKNOWN", "NAV2_DOCK_UNKNOWN_ERROR"),
    ("NavigateToPose", 9002): ("TF_ERROR", "NAV2_GOAL_TF"),
    ("NavigateThroughPoses", 9101): ("FAILED_TO_LOAD_BEHAVIOR_TREE", "NAV2_BT_LOAD_FAILED"),
    ("NavigateToPose", 105): ("FAILED_TO_MAKE_PROGRESS", "NAV2_STUCK"),
    ("NavigateToPose", 208): ("NO_VALID_PATH", "NAV2_NO_PATH"),
    ("NavigateThroughPoses", 306): ("GOAL_OCCUPIED", "NAV2_GOAL_OCCUPIED"),
    ("Spin", 1): ("GOAL_REJECTED", "NAV2_SUBGOAL_REJECTED"),
}
NUMBERS = {
    *(1, 2),
    *range(100, 109),
    *range(200, 209),
    *range(300, 310),
    *range(400, 408),
    *range(500, 506),
    *range(600, 604),
    *(700, 701, 702, 703, 710, 711, 712, 713, 714, 720, 721, 722, 723, 724, 730, 731, 732, 740, 741),
    *range(901, 908),
    999,
    *range(9000, 9004),
    *range(9100, 9104),
}


@pytest.mark.parametrize(("key", "wanted"), KNOWN.items(), ids=str)
def test_a_code_is_found_by_action_and_number(key: tuple[str, int], wanted: tuple[str, str]) -> None:
    """B15, C31: BackUp and DriveOnHeading number collision and bad input the other way round."""
    for action in (key[0], f"nav2_msgs/action/{key[0]}"):
        row = nav2_code(action, key[1])
        assert row is not None
        assert (row.constant, row.error_code) == wanted


def test_the_table_has_every_number_once() -> None:
    assert sorted(row.code for row in ROWS) == sorted(NUMBERS)
    assert {family for families in FAMILIES.values() for family in families} | {
        "any",
        "waypoints",
        "navigate_to_pose",
        "navigate_through_poses",
    } == {row.family for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.family}-{row.code}")
def test_every_row_is_a_sentence_with_a_way_out(row: Nav2Code) -> None:
    """B19: suggestions name tools that exist."""
    assert row.sentence.endswith(".")
    assert len(row.sentence.split()) > 4
    assert row.error_code.startswith("NAV2_")
    assert all(s in TOOLS or SUGGESTION.fullmatch(s) for s in row.suggestions)
    assert row.recoverable or not row.retry
    failure = nav2_failure("NavigateToPose", row.code, "because")
    assert failure.error_code == row.error_code
    assert f"({row.constant}, Nav2 code {row.code}.)" in failure.message
    assert failure.message.endswith('Nav2 says: "because"')


@pytest.mark.parametrize("action", sorted(PASS_ON))
@pytest.mark.parametrize("number", sorted(NUMBERS))
def test_navigators_pass_on_every_code_from_below(action: str, number: int) -> None:
    assert nav2_code(action, number) is not None


def test_an_action_knows_only_its_own_numbers() -> None:
    assert nav2_code("Spin", 713) is None
    assert nav2_code("FollowObject", 901) is None
    assert nav2_failure("Spin", 713).error_code == "NAV2_CODE_713"


@given(st.integers(-(2**40), 2**40), st.text(max_size=50), st.sampled_from(["NavigateToPose", "X", ""]))
def test_no_number_and_no_text_raises(code: int, text: str, action: str) -> None:
    """C30."""
    failure = nav2_failure(action, code, text)
    assert re.fullmatch(r"[A-Z0-9_]+", failure.error_code)
    nav2_note(action, code, text)


def test_an_unknown_code_without_a_message_has_no_dangling_colon() -> None:
    """C30."""
    failure = nav2_failure("NavigateToPose", 4242, "")
    assert failure.error_code == "NAV2_CODE_4242"
    assert failure.message.endswith("does not know.")


def test_the_servers_words_are_cleaned_and_cut() -> None:
    """C30: 20 kB, newline, ANSI colour."""
    failure = nav2_failure("NavigateToPose", 208, "\x1b[31mno\npath\x1b[0m " + "x" * 20_000)
    assert '"no path xxx' in failure.message
    assert len(failure.message) < 600


def test_a_code_left_over_on_success_is_a_note() -> None:
    """B17: a recovery that failed on the way."""
    note = nav2_note("NavigateToPose", 703)
    assert note is not None
    assert "COLLISION_AHEAD" in note
    assert nav2_note("NavigateToPose", 0) is None


@pytest.mark.parametrize("code", sorted(BRIDGE_CODES))
def test_every_bridge_code_is_a_sentence_with_a_way_out(code: str) -> None:
    row = BRIDGE_CODES[code]
    failure = bridge_failure(code, action="/go", seconds=3, other="t-1", count=2, detail="More\n.")
    assert "{" not in failure.message
    assert failure.message.endswith("More .")
    assert all(s in TOOLS or SUGGESTION.fullmatch(s) for s in row.suggestions)
    assert failure.recoverable is row.recoverable
