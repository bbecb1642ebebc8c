"""The key of a ``do_``: one motion for each, whatever is lost, repeated or restarted."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from robot_mcp_kit.bridge.ledger import MAX_AGE_S, MemoryLedger
from robot_mcp_kit.bridge.ledger_sqlite import SqliteLedger
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.sqlite_file import SqliteFile
from robot_mcp_kit.testing.clock import FakeClock, settle
from test.server.promcp.rig import CONFIG, Flat, Rig, a_person, rigged

KITCHEN = {"place": "kitchen"}
_NUMBER = re.compile(r"(?<![\w.#-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w-])")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


@pytest.mark.parametrize("key", [None, "", "   ", "\t", 7, "x" * 201])
async def test_a_missing_or_blank_key_is_refused_before_anything_moves(key: Any, rig: Rig) -> None:
    """P15 P16: with a whole response."""
    arguments = {**KITCHEN} if key is None else {**KITCHEN, "idempotency_key": key}
    result = await rig.call("move", "do_navigate_to", **arguments)
    assert result.is_error
    data = result.structured_content
    jsonschema.validate(data, await rig.schema("move", "do_navigate_to"))
    assert data["status"] == "failed"
    assert "idempotency_key" in data["detail"]
    assert rig.flat.requests == 0


async def test_the_same_key_again_answers_the_same_and_moves_nothing(rig: Rig) -> None:
    """P17."""
    first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    again = [await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a") for _ in range(3)]
    assert first["status"] == "success"
    assert not first["replayed"]
    for replay in again:
        assert replay == {**first, "replayed": True}
    assert len(rig.flat.goals) == 1


async def test_a_replay_is_answered_whatever_has_become_of_the_robot(rig: Rig) -> None:
    """P17: also where the same goal would be refused by now."""
    first = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
    rig.guard.latch("somebody fell", "a test")
    replay = await rig.data("manipulate", "do_pick", object="cup", idempotency_key="a")
    assert replay == {**first, "replayed": True}


async def test_a_replay_is_not_judged_by_where_the_robot_is_now() -> None:
    """P17: the goal is too far away by now; what was done was done."""
    text = CONFIG.replace("y_m: [-1.0, 8.0]}", "y_m: [-1.0, 8.0], max_distance_m: 12.0}")
    async with rigged(text) as rig:
        first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
        rig.flat.at = Pose2D(-1.0, -1.0, 0.0)
        assert (await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")) == {
            **first,
            "replayed": True,
        }
        anew = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="b")
        assert (anew["status"], anew["error_code"]) == ("failed", "INVALID_ARGUMENT")


async def test_the_same_key_while_the_first_runs_joins_it(rig: Rig) -> None:
    """P18: three callers, one motion, one answer."""
    rig.flat.close_gates()
    calls = [
        asyncio.create_task(rig.call("move", "do_navigate_to", **KITCHEN, idempotency_key="a"))
        for _ in range(3)
    ]
    await rig.flat.navigate.next_goal()
    await settle()
    rig.flat.open_gates()
    answers = [(await call).structured_content for call in calls]
    assert {answer["status"] for answer in answers} == {"success"}
    assert len({answer["task_id"] for answer in answers}) == 1
    assert sorted(answer["replayed"] for answer in answers) == [False, True, True]
    assert len(rig.flat.goals) == 1


async def test_a_caller_that_goes_away_does_not_end_the_motion_and_its_retry_joins_it(rig: Rig) -> None:
    """P17 P18: a lost reply."""
    rig.flat.close_gates()
    lost = asyncio.create_task(rig.call("move", "do_navigate_to", **KITCHEN, idempotency_key="a"))
    await rig.flat.navigate.next_goal()
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    await settle()
    rig.flat.open_gates()
    answer = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert (answer["status"], answer["replayed"]) == ("success", True)
    assert len(rig.flat.goals) == 1
    assert rig.flat.navigate.requests("cancel") == []


@pytest.mark.parametrize(
    ("profile", "tool", "arguments"),
    [
        ("move", "do_navigate_to", {"x_m": 1.0, "y_m": 1.0}),
        ("move", "do_spin", {"angle_rad": 1.0}),
        ("manipulate", "do_gripper", {"command": "close"}),
    ],
)
async def test_the_same_key_with_other_arguments_or_another_tool_is_refused(
    profile: str, tool: str, arguments: dict[str, Any], rig: Rig
) -> None:
    """P19: over all profiles; nothing moves, and the first answer stays."""
    first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    refused = await rig.call(profile, tool, **arguments, idempotency_key="a")
    assert refused.is_error
    assert refused.structured_content["status"] == "failed"
    assert "new key" in refused.structured_content["detail"]
    assert len(rig.flat.goals) == 1
    replay = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert replay["task_id"] == first["task_id"]


async def test_different_keys_with_the_same_arguments_are_two_motions(rig: Rig) -> None:
    """P20."""
    first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    second = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="b")
    assert first["task_id"] != second["task_id"]
    assert len(rig.flat.goals) == 2


async def test_a_key_is_kept_for_the_window_that_the_description_states_and_is_new_afterwards() -> None:
    """P21: at the end of the window the old answer, a moment later a new motion."""
    clock = FakeClock(1000.0)
    ledger = MemoryLedger(wall_clock=clock.wall)
    async with rigged(ledger=ledger, clock=clock) as rig:
        (text,) = [t["description"] for t in await rig.tools("move") if t["name"] == "do_spin"]
        days = float(re.search(r"remembered for ([\d.]+) days after the end", text)[1])  # type: ignore[index]
        assert days * 86400 == MAX_AGE_S
        call = {"angle_rad": 1.0, "idempotency_key": "a"}
        first = await rig.data("move", "do_spin", **call)
        await clock.advance(MAX_AGE_S)
        assert (await rig.data("move", "do_spin", **call)) == {**first, "replayed": True}
        assert len(rig.flat.goals) == 1
        await clock.advance(1.0)
        later = await rig.data("move", "do_spin", **call)
        assert (later["status"], later["replayed"]) == ("success", False)
        assert len(rig.flat.goals) == 2


async def test_a_failed_attempt_replays_as_failed_and_is_no_new_try(rig: Rig) -> None:
    """P22: also when it would work by now."""
    rig.flat.fails_half_way = True
    first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    rig.flat.fails_half_way = False
    again = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert first["status"] == "partial"
    assert again == {**first, "replayed": True}
    assert len(rig.flat.goals) == 1


async def test_a_refused_attempt_replays_as_refused_until_a_new_key_is_taken(rig: Rig) -> None:
    """P22: the truth about that attempt."""
    rig.guard.latch("a test", "a test")
    first = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
    assert (first["status"], first["error_code"]) == ("failed", "SAFETY_ESTOP_LATCHED")
    rig.guard.estop.reset(a_person())
    again = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
    assert again == {**first, "replayed": True}
    assert rig.flat.goals == []
    anew = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="b")
    assert anew["status"] == "success"


async def test_wrong_arguments_do_not_use_the_key_up(rig: Rig) -> None:
    """P19: nothing was begun, so the corrected call is the first."""
    wrong = await rig.data("move", "do_navigate_to", place="kitchne", idempotency_key="a")
    assert (wrong["status"], wrong["error_code"]) == ("failed", "INVALID_ARGUMENT")
    assert "kitchen" in wrong["detail"]
    right = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert (right["status"], right["replayed"]) == ("success", False)


async def test_a_restarted_surface_answers_the_old_key_from_the_ledger(rig: Rig) -> None:
    """P17 P21: another memory, the same ledger and tasks: the response as it was given."""
    first = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    rig.surface.doing._memory._ended.clear()
    again = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert again == {**first, "replayed": True}
    other = await rig.data("move", "do_navigate_to", x_m=1.0, y_m=1.0, idempotency_key="a")
    assert other["status"] == "failed"
    assert len(rig.flat.goals) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_after_a_restart_the_old_key_answers_as_before_and_nothing_moves(
    fails: bool, tmp_path: Path
) -> None:
    """P17 P21 P22: the ledger and the tasks on disk, everything else new."""
    call = {**KITCHEN, "idempotency_key": "a"}
    first: dict[str, Any] = {}
    for life in (1, 2):
        file = SqliteFile(tmp_path / "robot.db", owner="a test")
        flat = Flat()
        flat.fails_half_way = fails
        async with rigged(flat=flat, ledger=SqliteLedger(file)) as rig:
            answer = await rig.data("move", "do_navigate_to", **call)
            if life == 1:
                first = answer
                assert answer["status"] == ("partial" if fails else "success")
                assert len(flat.goals) == 1
            else:
                assert answer == {**first, "replayed": True}
                assert flat.goals == []
                other = await rig.data("move", "do_navigate_to", x_m=1.0, y_m=1.0, idempotency_key="a")
                assert other["status"] == "failed"
        file.close()


async def test_a_motion_of_before_a_crash_is_joined_and_its_former_value_is_not_made_up(
    tmp_path: Path,
) -> None:
    """P17 P18 P27: the second process finds the ledger as the first one left it."""
    call = {**KITCHEN, "idempotency_key": "a"}
    flat, file = Flat(), SqliteFile(tmp_path / "robot.db", owner="a test")
    async with rigged(flat=flat, ledger=SqliteLedger(file)) as dead:
        flat.close_gates()
        begun = await dead.data("move", "do_navigate_to", **call, wait_s=0)
        await flat.navigate.next_goal()
        await settle()
        with file.lock, contextlib.closing(sqlite3.connect(tmp_path / "after.db")) as copy:
            file.connection.backup(copy)
        left = SqliteFile(tmp_path / "after.db", owner="a test")
        async with rigged(flat=flat, ledger=SqliteLedger(left)) as rig:
            joining = asyncio.create_task(rig.data("move", "do_navigate_to", **call))
            await settle()
            flat.open_gates()
            answer = await joining
        left.close()
    file.close()
    assert (answer["status"], answer["replayed"], answer["task_id"]) == ("success", True, begun["task_id"])
    assert answer["applied_value"]["robot"]["x_m"] == 10.01
    assert (answer["previous_value"], answer["compensable"]) == (None, False)
    assert len(flat.goals) == 1
