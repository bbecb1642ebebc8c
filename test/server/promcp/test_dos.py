"""What a ``do_`` answers: whole, measured on both sides, undone by its own hint, never a lie."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import jsonschema
import pytest

from robot_mcp_kit.bridge.ledger import LedgerError, MemoryLedger
from robot_mcp_kit.errors import TaskError
from robot_mcp_kit.skills.base import GoalStatus, Pose2D
from robot_mcp_kit.testing.clock import settle
from test.server.promcp.rig import Flat, Rig, a_person, rigged

KITCHEN = {"place": "kitchen"}
_NUMBER = re.compile(r"(?<![\w.#-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w-])")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


async def test_every_answer_is_whole_and_fits_its_schema_in_words_and_data(rig: Rig) -> None:
    """P6 P16: success, partial, failed, refused, in progress, stop."""
    flat = rig.flat
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("move", "do_navigate_to", {**KITCHEN, "idempotency_key": "1"}),
        ("move", "do_spin", {"angle_rad": 1.0, "idempotency_key": "2"}),
        ("move", "do_dock", {"idempotency_key": "3"}),
        ("move", "do_navigate_to", {"place": "nowhere", "idempotency_key": "4"}),
        ("manipulate", "do_pick", {"object": "cup", "idempotency_key": "5"}),
        ("manipulate", "do_pick", {"object": "pen", "idempotency_key": "6"}),
        ("tidy", "do_handover", {"idempotency_key": "7"}),
        ("manipulate", "do_place", {"spot": "tray", "idempotency_key": "8"}),
        ("manipulate", "do_gripper", {"command": "close", "idempotency_key": "9"}),
        ("manipulate", "do_move_arm", {"target": "out", "idempotency_key": "10"}),
        ("tidy", "do_home", {"idempotency_key": "11"}),
        ("observe", "do_stop", {"idempotency_key": "12"}),
    ]
    statuses = {}
    for profile, tool, arguments in calls:
        statuses[arguments["idempotency_key"]] = await _whole(rig, profile, tool, arguments)
    assert {key for key, status in statuses.items() if status != "success"} == {"4", "6"}
    flat.fails_half_way = True
    assert await _whole(rig, "move", "do_navigate_to", {**KITCHEN, "idempotency_key": "13"}) == "partial"
    flat.close_gates()
    waiting = {**KITCHEN, "idempotency_key": "14", "wait_s": 0}
    assert await _whole(rig, "move", "do_navigate_to", waiting) == "partial"


async def _whole(rig: Rig, profile: str, tool: str, arguments: dict[str, Any]) -> str:
    result = await rig.call(profile, tool, **arguments)
    data = result.structured_content
    schema = await rig.schema(profile, tool)
    jsonschema.validate(data, schema)
    words = result.content[1].text
    invented = set(_NUMBER.findall(words)) - set(_NUMBER.findall(json.dumps(data)))
    assert not invented, f"numbers that the data do not have: {invented}\n{words}"
    for part in (data["status"], (data["detail"] or "").rstrip("."), data["compensation_hint"] or ""):
        assert part in words
    told = data.get("result") or {}
    declared = schema["properties"].get("result", {}).get("anyOf", [{"properties": {}}])[0]
    assert told.keys() <= declared["properties"].keys()
    assert set(data) >= {
        *("status", "idempotency_key", "applied_value", "previous_value", "side_effects"),
        *("compensable", "compensation_hint", "timestamp"),
    }
    assert data["idempotency_key"] == arguments["idempotency_key"]
    assert datetime.fromisoformat(data["timestamp"]).tzinfo is not None
    assert result.is_error is (data["status"] != "success" and not data.get("in_progress"))
    status: str = data["status"]
    return status


# -- what is measured ---------------------------------------------------------------------------------------


async def test_values_are_measured_before_and_after_and_not_copied_from_the_request(rig: Rig) -> None:
    """P27: the robot comes to rest a centimetre off, and that is what is told."""
    before = await rig.data("move", "read_robot_pose")
    answer = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    after = await rig.data("move", "read_robot_pose")
    assert answer["previous_value"]["robot"]["x_m"] == before["value"]["x_m"] == 0.0
    assert answer["applied_value"]["robot"]["x_m"] == after["value"]["x_m"] == 10.01
    times = [answer[name]["robot"]["measured_at"] for name in ("previous_value", "applied_value")]
    began = (await rig.data("observe", "read_motion_progress", task_id=answer["task_id"]))["value"][0][
        "began_at"
    ]
    assert times[0] <= began <= times[1]


async def test_what_is_not_measured_is_null_and_not_guessed(rig: Rig) -> None:
    """P27."""
    rig.flat.silent |= {"gripper"}
    answer = await rig.data("manipulate", "do_gripper", command="close", idempotency_key="a")
    assert answer["status"] == "success"
    assert answer["previous_value"]["gripper"] is None
    assert answer["applied_value"]["gripper"] is None
    assert (answer["compensable"], answer["compensation_hint"]) == (False, None)


# -- the way back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "tool", "arguments", "part", "tolerance"),
    [
        ("move", "do_navigate_to", KITCHEN, "robot", 0.2),
        ("move", "do_spin", {"angle_rad": 1.0}, "robot", 0.2),
        ("manipulate", "do_gripper", {"command": "close"}, "gripper", 0.01),
        ("manipulate", "do_move_arm", {"target": "out"}, "arm", 0.05),
        ("manipulate", "do_pick", {"object": "cup"}, "object", 0.08),
    ],
)
async def test_a_hint_names_a_tool_of_this_profile_and_executing_it_brings_the_value_back(
    profile: str, tool: str, arguments: dict[str, Any], part: str, tolerance: float, rig: Rig
) -> None:
    """P23."""
    answer = await rig.data(profile, tool, **arguments, idempotency_key="a")
    assert (answer["status"], answer["compensable"]) == ("success", True)
    assert _distance(answer["previous_value"][part], answer["applied_value"][part]) > tolerance / 4
    hint = answer["compensation_hint"]
    assert hint.split()[0] in {t["name"] for t in await rig.tools(profile)}
    undone = await rig.undo(profile, hint)
    assert undone["status"] == "success", undone
    back = await rig.data(profile, tool, **arguments, idempotency_key="a")
    assert back["replayed"]  # the hint's motion had a key of its own
    now = undone["applied_value"][part]
    assert _distance(answer["previous_value"][part], now) <= tolerance


async def test_a_place_is_undone_by_picking_the_object_up_again(rig: Rig) -> None:
    """P23: previous_value: the gripper holds it."""
    await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
    placed = await rig.data("manipulate", "do_place", spot="tray", idempotency_key="b")
    assert placed["previous_value"]["gripper"]["held_object"] == "cup"
    assert placed["compensation_hint"] == 'do_pick object="cup"'
    undone = await rig.undo("manipulate", placed["compensation_hint"])
    assert undone["applied_value"]["gripper"]["held_object"] == "cup"


def _distance(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Largest difference of any number that is in both."""
    found = [0.0]
    for name, value in a.items():
        if isinstance(value, dict):
            found.append(_distance(value, b[name]))
        elif isinstance(value, float) and isinstance(b.get(name), float):
            off = value - b[name]
            found.append(abs(math.remainder(off, math.tau) if name == "yaw_rad" else off))
    return max(found)


async def test_what_cannot_be_undone_has_no_hint(rig: Rig) -> None:
    """P24: a dock, what was let fall, an arm whose own mover is in another profile, a motion of nothing."""
    docked = await rig.data("move", "do_dock", idempotency_key="a")
    await rig.data("manipulate", "do_pick", object="cup", idempotency_key="b")
    dropped = await rig.data("manipulate", "do_gripper", command="open", idempotency_key="c")
    await rig.data("manipulate", "do_move_arm", target="out", idempotency_key="away")
    home = await rig.data("tidy", "do_home", idempotency_key="d")
    assert home["applied_value"]["arm"] != home["previous_value"]["arm"]
    still = await rig.data("manipulate", "do_move_arm", target="home", idempotency_key="e")
    for answer in (docked, dropped, home, still):
        assert answer["status"] == "success"
        assert (answer["compensable"], answer["compensation_hint"]) == (False, None)


async def test_a_way_back_that_the_limits_forbid_is_no_way_back() -> None:
    """P23 P24: the robot stood outside of where a drive may end."""
    async with rigged() as rig:
        rig.flat.at = Pose2D(-1.5, 0.0, 0.0)
        answer = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
        assert (answer["status"], answer["compensable"]) == ("success", False)


# -- how it went wrong --------------------------------------------------------------------------------------


async def test_failed_means_that_nothing_was_committed(rig: Rig) -> None:
    """P25: refused before it was sent, refused by the server, and sent without any effect."""
    rig.flat.navigate.acceptance.extend(["reject"] * 3)
    rejected = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert (rejected["status"], rejected["error_code"]) == ("failed", "ROS_GOAL_REJECTED")
    rig.flat.close_gates()
    call = asyncio.create_task(rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="b"))
    goal = await rig.flat.turn.next_goal()
    await settle()
    goal.finish(GoalStatus.ABORTED)
    unmoved = await call
    empty = await rig.data("manipulate", "do_place", spot="tray", idempotency_key="c")
    assert empty["error_code"] == "NOTHING_HELD"
    for answer in (rejected, unmoved, empty):
        assert answer["status"] == "failed"
        assert answer["applied_value"] is None
        assert answer["side_effects"] == []
        assert not answer["compensable"]
        assert answer["detail"]


async def test_a_motion_that_moved_and_then_failed_is_partial_and_lists_what_happened(rig: Rig) -> None:
    """P23 P25: and the way back is told."""
    rig.flat.fails_half_way = True
    answer = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert (answer["status"], answer["side_effects"]) == ("partial", ["the robot's base moves"])
    assert answer["applied_value"]["robot"]["x_m"] == 1.0
    rig.flat.fails_half_way = False
    undone = await rig.undo("move", answer["compensation_hint"])
    assert abs(undone["applied_value"]["robot"]["x_m"]) < 0.2


async def test_of_a_routine_that_fails_on_the_way_only_what_has_moved_is_told(rig: Rig) -> None:
    """P25: the fingers opened, the arm's server refused; arm and object are measured where they were."""
    rig.flat.gap_m = 0.0
    rig.flat.arm.acceptance.extend(["reject"] * 3)
    answer = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
    assert (answer["status"], answer["error_code"]) == ("partial", "ROS_GOAL_REJECTED")
    assert answer["side_effects"] == ["the fingers move"]


async def test_a_failure_whose_effect_nobody_measured_is_partial(rig: Rig) -> None:
    """P25: not known is not nothing."""
    rig.flat.fails_half_way = True
    rig.flat.silent.add("robot")
    answer = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
    assert answer["status"] == "partial"


async def test_a_grasp_that_slips_is_partial_and_says_where_the_object_is() -> None:
    """P25 P27: the arm's own server called it a success."""
    async with rigged(flat=Flat(3, slips=1.0)) as rig:
        answer = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
        assert (answer["status"], answer["error_code"]) == ("partial", "GRASP_FAILED")
        assert answer["applied_value"]["object"]["z_m"] < -0.5
        assert not answer["applied_value"]["gripper"]["holds_something"]


async def test_side_effects_are_of_those_that_can_do_announced(rig: Rig) -> None:
    """P26: also when it takes over from another motion."""
    announced = {}
    for profile, tag in (("move", "drive"), ("manipulate", "pick"), ("manipulate", "gripper")):
        for candidate in (await rig.can_do(profile, tag))["candidates"]:
            announced[candidate["capability"]] = set(candidate["side_effects"])
    rig.flat.close_gates()
    first = await rig.data("move", "do_navigate_to", x_m=3.0, y_m=1.0, idempotency_key="0", wait_s=0)
    await rig.flat.navigate.next_goal()
    await settle()
    rig.flat.open_gates()
    rig.flat.navigate.gate.clear()
    taking = asyncio.create_task(rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="1"))
    await rig.flat.navigate.next_goal(2)
    rig.flat.open_gates()
    drive = await taking
    pick = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="2")
    grip = await rig.data("manipulate", "do_gripper", command="open", idempotency_key="3")
    for tool, answer in (("do_navigate_to", drive), ("do_pick", pick), ("do_gripper", grip)):
        assert answer["status"] == "success", answer
        assert answer["side_effects"]
        assert set(answer["side_effects"]) <= announced[tool]
    assert first["in_progress"]
    assert "a running motion of the same part ends" in drive["side_effects"]


@pytest.mark.parametrize("where", ["goal", "begin", "measure"])
async def test_an_exception_never_becomes_a_success_and_its_words_arrive(
    where: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P28."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("the left bearing is on fire")

    skill = rig.bridge.skills["spin"]
    if where == "goal":
        monkeypatch.setattr(skill, "goal", broken)
    elif where == "begin":
        monkeypatch.setattr(rig.bridge, "begin", broken)
    else:
        monkeypatch.setattr(skill, "outcome", broken)
    answer = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
    assert answer["status"] in ("failed", "partial")
    assert (answer["status"] == "failed") is (where != "measure")
    assert "the left bearing is on fire" in answer["detail"]


async def test_a_task_error_in_a_routine_is_told_with_its_code_and_this_profiles_tools(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P28: suggestions name tools that are there."""

    async def broken(*_: Any) -> Any:
        raise TaskError(
            "ARM_TIRED", "The arm is tired.", suggestions=["look", "navigate_to", "ask_person", "stop"]
        )

    monkeypatch.setattr(rig.bridge.skills["pick"], "run", broken)
    answer = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
    assert (answer["status"], answer["error_code"]) == ("failed", "ARM_TIRED")
    assert answer["suggestions"] == ["read_visible_objects", "ask_person", "do_stop"]


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), RuntimeError("a fault of ours")])
async def test_a_routine_whose_start_breaks_makes_no_step(error: Exception) -> None:
    """B2, B28: the caller heard an error, so nothing moves behind its back."""

    class Broken(MemoryLedger):
        def record(self, row: Any) -> None:
            raise error

    async with rigged(ledger=Broken(), connect=False) as rig:
        with pytest.raises((TaskError, RuntimeError), match=str(error)):
            rig.bridge.begin("pick", {"object": "cup"})
        (info,) = rig.manager.list()
        await rig.manager.wait(info.task_id, timeout_s=30)
        assert rig.flat.goals == []
        ended = rig.manager.get(info.task_id)
        assert ended is not None
        assert ended.state == "failed"


# -- long motions, and the stop -----------------------------------------------------------------------------


async def test_a_motion_longer_than_the_wait_says_so_and_the_same_call_goes_on_waiting(rig: Rig) -> None:
    """P17 P18: no second motion, and the end is told as it was."""
    rig.flat.close_gates()
    call = {**KITCHEN, "idempotency_key": "a"}
    waiting = await rig.call("move", "do_navigate_to", **call, wait_s=0)
    assert not waiting.is_error
    data = waiting.structured_content
    assert (data["status"], data["in_progress"], data["applied_value"]) == ("partial", True, None)
    assert "same key" in data["detail"]
    rig.flat.open_gates()
    ended = await rig.data("move", "do_navigate_to", **call)
    assert (ended["status"], ended["in_progress"], ended["task_id"]) == ("success", False, data["task_id"])
    assert len(rig.flat.goals) == 1


async def test_a_motion_that_waits_for_a_person_has_moved_nothing_and_goes_on_when_approved() -> None:
    """P16 P36: the answer says who is waited for; the caller cannot approve."""
    async with rigged(approve=False) as rig:
        call = {**KITCHEN, "idempotency_key": "a"}
        begun = asyncio.create_task(rig.data("move", "do_navigate_to", **call))
        while not rig.guard.desk.pending():
            await asyncio.sleep(0)
        waiting = await rig.data("move", "do_navigate_to", **call, wait_s=0)
        assert waiting["in_progress"]
        assert waiting["side_effects"] == []
        assert "waits for a person" in waiting["detail"]
        assert rig.flat.goals == []
        (pending,) = rig.guard.desk.pending()
        rig.guard.decide(pending.token, True, a_person())
        assert (await begun)["status"] == "success"


async def test_a_stop_ends_what_runs_and_every_further_stop_stops_again(rig: Rig) -> None:
    """P1 P15: no deduplication where that would leave a robot moving; a missing key stops too."""
    rig.flat.close_gates()
    for number, key in enumerate(("s", "s", None)):
        call = asyncio.create_task(rig.data("move", "do_spin", angle_rad=1.0, idempotency_key=f"a{number}"))
        await rig.flat.turn.next_goal(number + 1)
        await settle()
        arguments = {} if key is None else {"idempotency_key": key}
        stopped = await rig.data("observe", "do_stop", **arguments)
        assert stopped["status"] == "success"
        assert len(stopped["previous_value"]["running_motions"]) == 1
        assert stopped["applied_value"]["running_motions"] == []
        assert stopped["idempotency_key"]
        ended = await call
        assert ended["status"] != "success"
        assert "cancelled" in ended["detail"]
    assert len(rig.flat.turn.requests("cancel")) == 3


async def test_a_stop_that_is_not_confirmed_is_partial(rig: Rig) -> None:
    """P25."""
    rig.flat.close_gates()
    rig.flat.turn.cancel_policy = "reject"
    call = asyncio.create_task(rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a"))
    await rig.flat.turn.next_goal()
    await settle()
    stopped = await rig.call("move", "do_stop", idempotency_key="s")
    assert stopped.is_error
    assert stopped.structured_content["status"] == "partial"
    rig.flat.open_gates()
    await call


async def test_both_surfaces_share_one_engine_and_one_set_of_keys(rig: Rig) -> None:
    """P17: a motion that another surface began under this key is found, and nothing is measured backwards."""
    begun = rig.bridge.begin("navigate_to", KITCHEN, idempotency_key="a")
    await rig.manager.wait(begun.info.task_id)
    answer = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert (answer["status"], answer["replayed"]) == ("success", True)
    assert answer["task_id"] == begun.info.task_id
    assert (answer["previous_value"], answer["compensable"]) == (None, False)
    assert len(rig.flat.goals) == 1
