"""What ``can_do`` answers: whether, by which tool, why not, until when; and that asking changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.promcp.contracts import PERMISSIONS
from robot_mcp_kit.server.promcp.capability import PHYSICAL_S, STATIC_S, Capability
from robot_mcp_kit.testing.clock import settle
from test.server.promcp.rig import PROFILES, Rig, entry_of, rigged, seconds_until

KITCHEN = {"place": "kitchen"}
HERE = {"x_m": 1.0, "y_m": 1.0}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


# -- the intent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "intent",
    [
        None,
        {},
        {"semantic_tags": []},
        {"semantic_tags": ["", "  "]},
        {"semantic_tags": "drive"},
        {"semantic_tags": [7]},
        {"semantic_tags": ["drive"], "parameters": "kitchen"},
        "drive to the kitchen",
        ["drive"],
        7,
    ],
)
async def test_an_intent_that_says_nothing_usable_is_malformed_and_no_crash(intent: Any, rig: Rig) -> None:
    """P29 P32 P6: a normal answer in its schema."""
    arguments = {} if intent is None else {"intent": intent}
    result = await rig.call("move", "can_do", **arguments)
    assert not result.is_error
    report = result.structured_content
    (schema,) = [t["responseSchema"] for t in await rig.tools("move") if t["name"] == "can_do"]
    jsonschema.validate(report, schema)
    assert not report["feasible"]
    (unroutable,) = report["unroutable"]
    assert unroutable["reason"] == "malformed_request"
    assert unroutable["detail"]


async def test_every_answer_has_an_id_of_its_own(rig: Rig) -> None:
    """P30."""
    ids = {(await rig.can_do("move", "drive"))["query_id"] for _ in range(5)}
    assert len(ids) == 5
    assert {UUID(each).version for each in ids} == {4}


@pytest.mark.parametrize(
    ("tags", "profile", "tool"),
    [
        (["drive"], "move", "do_navigate_to"),
        (["go", "kitchen"], "move", "do_navigate_to"),
        (["navigation"], "move", "do_navigate_to"),
        (["do_navigate_to"], "move", "do_navigate_to"),
        (["turn"], "move", "do_spin"),
        (["charge"], "move", "do_dock"),
        (["halt"], "observe", "do_stop"),
        (["grasp", "object"], "manipulate", "do_pick"),
        (["open", "gripper"], "manipulate", "do_gripper"),
        (["move-arm"], "manipulate", "do_move_arm"),
        (["fold", "arm"], "tidy", "do_home"),
    ],
)
async def test_usual_words_find_the_tool_that_does_it(
    tags: list[str], profile: str, tool: str, rig: Rig
) -> None:
    """P34 P40: the best match comes first, and is sure enough to be used."""
    report = await rig.can_do(profile, *tags)
    entries = [*report["candidates"], *report["blocked"]]
    best = max(entries, key=lambda entry: entry["confidence"])
    assert best["capability"] == tool
    assert 0.7 <= best["confidence"] <= 1.0


async def test_a_word_that_only_a_description_has_is_less_sure_than_may_be_used_unasked(rig: Rig) -> None:
    """P34: below 0.7 a person is asked first."""
    report = await rig.can_do("move", "obstacles")
    assert 0 < entry_of(report)["confidence"] < 0.7


async def test_what_no_tool_of_this_profile_does_is_told_with_what_it_has(rig: Rig) -> None:
    """P32 P33: no_producer."""
    report = await rig.can_do("move", "sing", "opera")
    assert not report["feasible"]
    (unroutable,) = report["unroutable"]
    assert unroutable["reason"] == "no_producer"
    assert "do_navigate_to" in unroutable["detail"]


async def test_parameters_that_no_matching_tool_takes_or_that_are_missing_say_which(rig: Rig) -> None:
    """P32 P33: malformed_request and requirements_unmet, and nothing is feasible."""
    foreign = await rig.can_do("move", "drive", parameters={"plaice": "kitchen"})
    assert not foreign["feasible"]
    assert "malformed_request" in {each["reason"] for each in foreign["unroutable"]}
    assert any('"place"' in each["detail"] or "place" in each["detail"] for each in foreign["unroutable"])
    half = await rig.can_do("move", "drive", parameters={"x_m": 1.0})
    assert {each["reason"] for each in half["unroutable"]} == {"requirements_unmet"}
    assert not half["feasible"]


async def test_unroutable_is_empty_as_soon_as_something_is_feasible(rig: Rig) -> None:
    """P33: the tools that the parameters do not fit are not reported beside one that they fit."""
    report = await rig.can_do("move", "base", parameters=KITCHEN)
    assert report["feasible"]
    assert report["unroutable"] == []


# -- candidates ---------------------------------------------------------------------------------------------


async def test_a_candidate_says_all_that_is_needed_to_use_it(rig: Rig) -> None:
    """P34: an existing tool, bounds with units, what it does besides, what is measured now."""
    for profile in PROFILES:
        names = {tool["name"] for tool in await rig.tools(profile)}
        for tags in (["drive"], ["turn"], ["dock"], ["arm"], ["gripper"], ["pick"], ["home"], ["stop"]):
            report = await rig.can_do(profile, *tags)
            for candidate in report["candidates"]:
                assert candidate["capability"] in names
                assert candidate["source"]
                assert 0 <= candidate["confidence"] <= 1
                assert candidate["permission"] in ("allowed", "requires_human_approval")
                assert candidate["side_effects"]
                for bounds in (candidate["constraints"] or {"arguments": []})["arguments"]:
                    numbers = bounds["min"] is not None or bounds["max"] is not None
                    assert (bounds["unit"] is not None) is numbers, bounds
    drive = entry_of(await rig.can_do("move", "drive", parameters=KITCHEN))
    bounds = {each["argument"]: each for each in drive["constraints"]["arguments"]}
    assert (bounds["x_m"]["min"], bounds["x_m"]["max"], bounds["x_m"]["unit"]) == (-1.0, 12.0, "m")
    assert bounds["place"]["enum_values"] == ["kitchen"]
    assert drive["current_state"]["value"]["robot"]["x_m"] == 0.0
    assert drive["goal"] == "drive to kitchen (10.00, 6.50) in map"


async def test_candidates_come_surest_first(rig: Rig) -> None:
    """P40."""
    report = await rig.can_do("move", "base")
    sure = [candidate["confidence"] for candidate in report["candidates"]]
    assert len(sure) >= 3
    assert sure == sorted(sure, reverse=True)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (["do_spin"], {"do_spin"}),
        (["SPIN"], {"do_spin"}),
        (["do_spin", "nobody"], {"do_spin"}),
        (["navigate_to_pose", "dock_robot"], {"do_navigate_to", "do_dock"}),
        (["desk_robot"], {"do_navigate_to", "do_spin", "do_dock"}),
        (["other_robot"], set()),
        ([], set()),
    ],
)
async def test_a_scope_lets_only_its_own_through(scope: list[str], found: set[str], rig: Rig) -> None:
    """P39: tools, their sources, or this robot; from an unknown entry comes nothing."""
    report = await rig.can_do("move", "base", scope=scope)
    assert {candidate["capability"] for candidate in report["candidates"]} == found
    assert report["feasible"] is bool(found)
    if not found:
        assert report["unroutable"][0]["reason"] == "no_producer"


# -- validity, and that asking changes nothing --------------------------------------------------------------


async def test_an_answer_holds_for_seconds_where_the_robots_state_decides_and_longer_where_the_file_does(
    rig: Rig,
) -> None:
    """P37."""
    drive = entry_of(await rig.can_do("move", "drive", parameters=KITCHEN))
    assert 0 < seconds_until(drive) <= PHYSICAL_S <= 10
    stop = entry_of(await rig.can_do("move", "stop"), "do_stop")
    assert PHYSICAL_S < seconds_until(stop) <= STATIC_S
    outside = entry_of(await rig.can_do("move", "drive", parameters={"x_m": 99.0, "y_m": 0.0}))
    assert PHYSICAL_S < seconds_until(outside) <= STATIC_S
    rig.flat.navigate.die()
    assert 0 < seconds_until(entry_of(await rig.can_do("move", "drive"))) <= PHYSICAL_S


async def test_an_answer_does_not_outlive_the_approval_that_it_rests_on(rig: Rig) -> None:
    """P37."""
    book = rig.guard._standing
    soon = datetime.now(UTC) + timedelta(seconds=2)
    book.valid[0] = book.valid[0].model_copy(update={"not_after": soon})
    entry = entry_of(await rig.can_do("move", "drive", parameters=KITCHEN))
    assert entry["permission"] == "allowed"
    assert seconds_until(entry) <= 2


async def test_asking_sends_nothing_counts_nothing_and_writes_nothing_down(rig: Rig) -> None:
    """P13 P38: no request to any server, no task, no line in the trail, no use of an approval, no motion
    that is taken over from."""
    rig.flat.close_gates()
    await rig.data("move", "do_navigate_to", **HERE, idempotency_key="a", wait_s=0)
    await rig.flat.navigate.next_goal()
    await settle()
    before = _footprint(rig)
    for tags in (["drive"], ["turn"], ["dock"], ["stop"]):
        await rig.can_do("move", *tags, parameters=KITCHEN if tags == ["drive"] else {})
    for tags in (["pick"], ["gripper"]):
        await rig.can_do("manipulate", *tags)
    assert _footprint(rig) == before
    drive = entry_of(await rig.can_do("move", "drive", parameters=KITCHEN))
    assert drive["would_end"] == rig.bridge.running()


def _footprint(rig: Rig) -> Any:
    return (
        rig.flat.requests,
        len(rig.guard.trail.records),
        dict(rig.guard._standing.uses),
        rig.guard.desk.pending(),
        [info.task_id for info in rig.manager.list()],
        rig.bridge.running(),
    )


@given(
    latched=st.booleans(),
    dead=st.booleans(),
    inactive=st.booleans(),
    approve=st.booleans(),
    x_m=st.sampled_from([1.0, 99.0]),
    tags=st.lists(st.sampled_from(["drive", "turn", "sing", "base", "stop"]), max_size=2),
    given_parameters=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_feasible_is_true_exactly_when_a_candidate_is_allowed_and_false_always_has_a_reason(
    latched: bool,
    dead: bool,
    inactive: bool,
    approve: bool,
    x_m: float,
    tags: list[str],
    given_parameters: bool,
) -> None:
    """P31 P32 P33 P40, in any state of the robot."""

    async def ask() -> dict[str, Any]:
        async with rigged(approve=approve, connect=False) as rig:
            if latched:
                rig.guard.latch("a test", "a test")
            if dead:
                for port in rig.flat.ports.ports:
                    port.die()
            if inactive:
                rig.bridge.refusing = TaskFailure(error_code="BRIDGE_INACTIVE", message="Not active.")
            (profile,) = [p for p in rig.surface.profiles if p.name == "move"]
            parameters = {"x_m": x_m, "y_m": 1.0} if given_parameters else {}
            intent = {"semantic_tags": tags, "parameters": parameters}
            report = await Capability(profile, rig.surface.doing).report(intent)
            return report.model_dump(mode="json")

    report = asyncio.run(ask())
    allowed = [c for c in report["candidates"] if c["permission"] == "allowed"]
    assert report["feasible"] is bool(allowed)
    if report["feasible"]:
        assert report["unroutable"] == []
    else:
        assert report["blocked"] or report["unroutable"]
        assert all(entry["reason"] for entry in report["blocked"])
    sure = [c["confidence"] for c in report["candidates"]]
    assert sure == sorted(sure, reverse=True)
    assert {e["permission"] for e in (*report["candidates"], *report["blocked"])} <= set(PERMISSIONS)
