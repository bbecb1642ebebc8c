"""Look, pick, place, hand over and go home with the simulated robot: real actions, measured outcomes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]
WAIT = {"wait_s": 50}


async def _do(talk: Any, tool: str, **arguments: Any) -> Any:
    """The outcome, over as many waits as it takes."""
    result = await talk.call(tool, **WAIT, **arguments)
    while result.structured_content.get("state") == "running":
        result = await talk.call("await_task", handle=result.structured_content["handle"])
    return result


async def _at_the_counter(talk: Any) -> None:
    result = await _do(talk, "navigate_to", place="kitchen")
    assert not result.is_error, result.content[0].text


@pytest.fixture(autouse=True)
def _healthy(hand: Any) -> None:
    hand.call("reset_faults")


async def test_a_cup_is_found_picked_put_down_and_found_again(talk: Any, hand: Any) -> None:
    """L1 L2 L4 L5 L38: each step measured; the simulator's own truth agrees."""
    await _at_the_counter(talk)
    look = await _do(talk, "look")
    objects = {each["name"]: each for each in look.structured_content["result"]["objects"]}
    assert {"red_cup", "blue_box"} <= set(objects)

    picked = await _do(talk, "pick", object="red_cup")
    assert not picked.is_error, picked.content[0].text
    result = picked.structured_content["result"]
    assert result["held_object"] == "red_cup"
    assert result["object"]["z_m"] > result["object_before"]["z_m"] + 0.05
    assert "red_cup is at x_m" in picked.content[0].text
    truth = hand.state()
    assert truth["gripper"]["holding"] == "red_cup"

    again = await _do(talk, "pick", object="blue_box")
    assert again.is_error
    assert again.structured_content["error"]["error_code"] == "GRIPPER_NOT_EMPTY"

    placed = await _do(talk, "place", spot="counter")
    assert not placed.is_error, placed.content[0].text
    truth = hand.state()
    assert truth["gripper"]["holding"] is None
    x_m, y_m, _ = truth["objects"]["red_cup"]
    seen = placed.structured_content["result"]["object"]
    assert (abs(x_m - 9.85) < 0.08, abs(y_m - 7.25) < 0.08) == (True, True)
    assert abs(seen["x_m"] - x_m) < 0.01
    world = placed.structured_content["progress"]["world"]
    assert world["gripper"]["is_open"] is True

    empty = await _do(talk, "place", spot="counter")
    assert empty.structured_content["error"]["error_code"] == "NOTHING_HELD"
    assert "Nothing moved" in empty.content[0].text

    home = await _do(talk, "home")
    assert not home.is_error, home.content[0].text


async def test_a_grasp_that_slips_is_a_failure_that_says_where_the_object_is(talk: Any, hand: Any) -> None:
    """L1: and the same key answers with the same failure, without another motion."""
    await _at_the_counter(talk)
    hand.faults(slip_percent=100.0)
    failed = await _do(talk, "pick", object="blue_box", idempotency_key="slip-1")
    assert failed.is_error
    structured = failed.structured_content
    assert structured["failure"]["error_code"] == "GRASP_FAILED"
    assert "blue_box is at x_m" in failed.content[0].text
    assert hand.state()["gripper"]["holding"] is None
    goals = hand.state()["goals"]
    replayed = await _do(talk, "pick", object="blue_box", idempotency_key="slip-1")
    assert replayed.structured_content["failure"] == structured["failure"]
    assert replayed.structured_content["handle"] == structured["handle"]
    assert hand.state()["goals"] == goals


async def test_what_is_held_is_held_out_and_still_held(talk: Any, hand: Any) -> None:
    await _at_the_counter(talk)
    picked = await _do(talk, "pick", object="blue_box")
    assert not picked.is_error, picked.content[0].text
    out = await _do(talk, "handover")
    assert not out.is_error, out.content[0].text
    assert hand.state()["gripper"]["holding"] == "blue_box"
    hand.faults(drop_object=True)
    lost = await _do(talk, "handover")
    assert lost.is_error


async def test_nothing_is_reported_where_perception_is_silent(talk: Any, hand: Any) -> None:
    """L2: an old look is no look."""
    hand.faults(blind=True)
    result = await _do(talk, "look")
    assert result.is_error
    assert result.structured_content["failure"]["error_code"] == "PERCEPTION_SILENT"


async def test_inspect_drives_somewhere_and_tells_what_is_there(talk: Any) -> None:
    result = await _do(talk, "inspect", place="workshop", object="toolbox")
    assert not result.is_error, result.content[0].text
    assert result.structured_content["result"]["objects"][0]["name"] == "toolbox"
    missing = await _do(talk, "inspect", object="red_cup")
    assert missing.is_error


async def test_a_stop_ends_a_routine_and_its_present_step(talk: Any, hand: Any) -> None:
    """L32: no further step is begun."""
    await _at_the_counter(talk)
    hand.faults(arm_stuck=True)
    begun = await talk.call("home")
    stopped = await talk.call("stop")
    hand.faults(arm_stuck=False)
    assert {t["tool"] for t in stopped.structured_content["tasks"]} >= {"home"}
    outcome = await talk.call("await_task", handle=begun.structured_content["handle"])
    assert outcome.structured_content["state"] == "cancelled"
    running = await talk.call("list_tasks", states=["running"])
    assert json.loads(running.content[0].text)["tasks"] == []


async def test_while_a_routine_runs_nobody_else_moves_its_arm(talk: Any, hand: Any) -> None:
    await _at_the_counter(talk)
    hand.faults(arm_stuck=True)
    begun = await talk.call("home")
    refused = await talk.call("move_arm", target="ready")
    hand.faults(arm_stuck=False)
    assert refused.is_error
    assert refused.structured_content["error"]["error_code"] == "ROS_BUSY"
    await talk.call("await_task", handle=begun.structured_content["handle"])


async def test_a_thing_that_is_carried_away_is_followed_until_it_is_lost(talk: Any, hand: Any) -> None:
    """L1 L2: the robot is sent on, and stands where the simulator sees it stand."""
    await _do(talk, "navigate_to", place="workshop")
    begun = await talk.call("follow", object="toolbox", duration_s=12.0)
    assert not begun.is_error, begun.content[0].text
    hand.faults(move_object="toolbox 3.5 1.5")
    outcome = await talk.call("await_task", handle=begun.structured_content["handle"])
    assert not outcome.is_error, outcome.content[0].text
    result = outcome.structured_content["result"]
    assert result["drives"] >= 1
    away_m = math.dist(hand.state()["pose"][:2], (3.5, 1.5))
    assert abs(away_m - result["distance_m"]) < 0.1
    assert away_m < 1.8
    begun = await talk.call("follow", object="toolbox", duration_s=60.0)
    hand.faults(blind=True)
    lost = await talk.call("await_task", handle=begun.structured_content["handle"])
    assert lost.structured_content["failure"]["error_code"] == "OBJECT_LOST"
    assert "Seen last: toolbox is at x_m 3.5" in lost.content[0].text
