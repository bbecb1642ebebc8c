"""The slipping gripper at the bridge's ports: no false success, and no motion for a retry.

``examples/slipping_gripper.py`` is the same as a script; over real ROS it is ``test/node/test_lesson.py``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from robot_mcp_kit.testing import held
from robot_mcp_kit.testing.clock import settle
from robot_mcp_kit.testing.desk import Desk

EXAMPLE = Path(__file__).parents[2] / "examples" / "slipping_gripper.py"
SEEDS = 200
MOTIONS_OF_A_PICK = 5
"""Open, above, down, close, up."""


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slipping_gripper", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


example = _load()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[Any]:
    async with held(example.bridge_over(desk)) as connected:
        yield connected


async def test_of_200_slipping_grasps_none_is_called_a_success_and_no_retry_moves() -> None:
    """L1 L2 L11 L12: the driver's word is false for a third of them; the answer is measured, and replayed."""
    tally = await example.grasps(SEEDS)
    assert tally.runs == SEEDS
    assert tally.claimed == SEEDS
    assert tally.false_claims > SEEDS / 5
    assert tally.false_successes == 0
    assert tally.false_failures == 0
    assert tally.successes == SEEDS - tally.false_claims
    assert tally.motions == SEEDS * MOTIONS_OF_A_PICK
    assert tally.grasps == SEEDS
    assert tally.replay_motions == 0
    assert tally.replays_that_differ == 0


async def test_a_retry_without_a_key_hurts_in_the_two_known_ways() -> None:
    """L11, the other way round: what the key is for. A success is denied, or the arm moves twice."""
    first, second, grasps = await example.retries(0, key=None)
    assert "Holding cup" in first
    assert "already holds cup" in second
    assert grasps == 1
    first, second, grasps = await example.retries(1, key=None)
    assert "grasp failed" in first
    assert grasps == 2
    for seed in (0, 1):
        first, second, grasps = await example.retries(seed, key="mine")
        assert (second, grasps) == (first, 1)


@pytest.mark.parametrize("slips", [0.0, 1.0])
@pytest.mark.parametrize("motion", range(1, MOTIONS_OF_A_PICK + 1))
async def test_a_reply_that_is_lost_in_any_motion_costs_no_motion(
    motion: int, slips: float, desk: Desk, client: Any
) -> None:
    """L14 L24: the client goes away while the arm moves, comes back with the same key, and hears how it
    ended; success and failure alike.
    """
    desk._slips = slips
    arguments = {"object": "cup", "idempotency_key": "mine", "wait_s": 30}
    ports = (desk.arm, desk.gripper)

    async def lose_the_reply() -> None:
        call = asyncio.create_task(client.call_tool("pick", arguments))
        while sum(len(port.goals) for port in ports) < motion:
            for port in ports:
                port.gate.set() if desk.motions + 1 < motion else port.gate.clear()
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await settle()

    async with asyncio.timeout(20):
        await lose_the_reply()
        assert desk.motions == motion - 1
        again = asyncio.create_task(client.call_tool("pick", arguments))
        await settle()
        for port in ports:
            port.gate.set()
        answer = await again
    assert answer.is_error is (slips == 1.0)
    assert answer.structured_content["started_now"] is False
    assert desk.motions == MOTIONS_OF_A_PICK
    assert desk.grasps == 1


async def test_a_replayed_answer_is_about_the_attempt_and_says_when_it_was_measured(
    desk: Desk, client: Any
) -> None:
    """L12: the cup was carried away since; the answer still tells where it was then, and the time."""
    arguments = {"object": "cup", "idempotency_key": "mine", "wait_s": 30}
    first = (await client.call_tool("pick", arguments)).structured_content
    desk.objects["cup"] = (9.0, 9.0, 0.0)
    desk.held, desk.gap_m = None, 0.085
    again = await client.call_tool("pick", arguments)
    assert again.structured_content["result"] == first["result"]
    assert again.structured_content["progress"]["world"] == first["progress"]["world"]
    measured_at = first["result"]["object"]["measured_at"]
    assert measured_at in again.content[0].text
    assert "started earlier" in again.content[0].text


async def test_a_failure_tells_where_the_object_the_gripper_and_the_robot_are(
    desk: Desk, client: Any
) -> None:
    """L4: in the text, not only in the data."""
    desk._slips = 1.0
    result = await client.call_tool("pick", {"object": "cup", "wait_s": 30})
    assert result.is_error
    text = result.content[0].text
    x_m, y_m, z_m = desk.objects["cup"]
    assert f"cup is at x_m {x_m:g}, y_m {y_m:g}, z_m {z_m:g} in map" in text
    assert "the gripper is shut and empty (gap_m 0)" in text
    assert "robot.x_m 0" in text
    assert "gripper.gap_m 0" in text


async def _moves_nothing(desk: Desk, client: Any, tool: str, code: str, **arguments: Any) -> str:
    before = desk.motions
    result = await client.call_tool(tool, {**arguments, "wait_s": 30})
    assert result.is_error
    assert result.structured_content["error"]["error_code"] == code
    assert desk.motions == before
    assert "nothing moved" in result.content[0].text.lower()
    return str(result.content[0].text)


async def test_what_must_hold_before_is_checked_before_anything_moves(desk: Desk, client: Any) -> None:
    """L3 L38."""
    text = await _moves_nothing(desk, client, "place", "NOTHING_HELD", spot="tray")
    assert "holds nothing" in text
    text = await _moves_nothing(desk, client, "pick", "OBJECT_NOT_SEEN", object="cap")
    assert 'Did you mean "cup"' in text
    await _moves_nothing(desk, client, "handover", "NOTHING_HELD")
    assert not (await client.call_tool("pick", {"object": "cup", "wait_s": 30})).is_error
    text = await _moves_nothing(desk, client, "pick", "GRIPPER_NOT_EMPTY", object="pen")
    assert "already holds cup" in text


async def test_pick_tells_the_position_too_and_place_measures_where_it_came_to_rest(
    desk: Desk, client: Any
) -> None:
    """L2 L38: an object that rolls away after the release is a failure, though every action succeeded."""
    picked = (await client.call_tool("pick", {"object": "cup", "wait_s": 30})).structured_content["result"]
    assert picked["held_object"] == "cup"
    assert (picked["object"]["x_m"], picked["object"]["z_m"], picked["object"]["frame"]) == (0.5, 0.1, "map")
    placed = await client.call_tool("place", {"spot": "tray", "wait_s": 30})
    assert not placed.is_error, placed.content[0].text
    assert placed.structured_content["result"]["distance_m"] == 0.0

    await client.call_tool("pick", {"object": "cup", "wait_s": 30})
    let_go = desk.move_fingers

    def rolls(to_m: float) -> bool:
        stopped = let_go(to_m)
        desk.objects["cup"] = (0.9, 0.5, -0.7)
        return stopped

    desk.move_fingers = rolls  # type: ignore[method-assign]
    missed = await client.call_tool("place", {"spot": "tray", "wait_s": 30})
    assert missed.is_error
    assert missed.structured_content["failure"]["error_code"] == "PLACE_MISSED"
    assert "x_m 0.9" in missed.content[0].text


async def test_the_example_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    await example.main(20)
    said = capsys.readouterr().out
    assert "pick claimed" in said
    assert ", 0 of them false" in said
    assert "0 further motions, 0 answers that differ" in said
    assert "seed 1, no key: 2 grasps" in said
    assert "seed 1, a key: 1 grasps" in said
