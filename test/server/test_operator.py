"""The operator's HTTP API over real HTTP: who is believed, what is decided, what is told (R18-R34)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from robot_mcp_kit.skills.base import GoalStatus

from .operator_rig import KEY, SECRET, OperatorRig, client_of, operated


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OperatorRig]:
    async with operated(tmp_path) as rig:
        yield rig


@pytest.fixture
async def client(rig: OperatorRig) -> AsyncIterator[Client]:
    async with client_of(rig) as client:
        yield client


async def test_what_waits_is_listed_with_all_that_a_person_needs_to_decide(
    rig: OperatorRig, client: Client
) -> None:
    """R18, R34: the goal in words, its hash, who asks, how long still."""
    task_id, shown = await rig.ask(client)
    assert shown["task_id"] == task_id
    assert "10.0" in shown["goal"]
    assert len(shown["goal_sha256"]) == 64
    assert shown["risk"] == "RESTRICTED"
    assert 0 < shown["expires_in_s"] <= 300
    assert shown["requester"]["surface"] == "mcp"
    assert rig.port.goals == []


async def test_an_approval_lets_exactly_the_stored_goal_go(rig: OperatorRig, client: Client) -> None:
    """R19: what comes along with the approval changes nothing."""
    task_id, shown = await rig.ask(client)
    answer = await rig.decide(shown["token"], goal={"x_m": 99.0}, arguments={"place": "office"})
    assert answer.json() == {"task_id": task_id, "decision": "approve", "approver": "operator:ann"}
    goal = await rig.port.next_goal()
    assert goal.fields["pose"]["pose"]["position"]["x"] == 10.0
    decided = [one for one in rig.trail() if one["event"] == "decided"]
    assert decided[0]["approval"]["approver"] == "operator:ann"
    assert decided[0]["goal_sha256"] == shown["goal_sha256"]


async def test_a_rejection_is_told_with_its_reason_and_nothing_goes(rig: OperatorRig, client: Client) -> None:
    """R29."""
    task_id, shown = await rig.ask(client)
    answer = await rig.decide(shown["token"], "reject", reason="people in the\x1b[31m corridor")
    assert answer.status_code == 200
    info = await rig.manager.wait(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "SAFETY_REJECTED"
    assert "people in the" in info.failure.message
    assert "\x1b" not in info.failure.message
    assert rig.port.goals == []


async def test_a_token_is_used_once(rig: OperatorRig, client: Client) -> None:
    """R20, R22: one after the other, and twenty at once."""
    _, shown = await rig.ask(client)
    answers = await asyncio.gather(*(rig.decide(shown["token"]) for _ in range(20)))
    assert sorted(one.status_code for one in answers) == [200] + [409] * 19
    assert rig.error_of(await rig.decide(shown["token"])) == (409, "UNKNOWN_TOKEN")
    await rig.port.next_goal()
    assert len(rig.port.goals) == 1


async def test_an_unknown_token_is_refused_and_the_attempt_written_down(
    rig: OperatorRig, client: Client
) -> None:
    """R20, R34."""
    _, shown = await rig.ask(client)
    for token in ("x", "0" * 43, shown["approval_id"], shown["token"][:-1], "\ud83d\ude00"):
        assert rig.error_of(await rig.decide(token)) == (409, "UNKNOWN_TOKEN")
    refused = [one for one in rig.trail() if one["event"] == "approval_refused"]
    assert len(refused) == 5
    assert refused[0]["approver"] == "operator:ann"
    assert len(await rig.waiting()) == 1, "it waits still"


async def test_a_token_lives_299_seconds_and_not_301(rig: OperatorRig, client: Client) -> None:
    """R21: on the monotonic clock."""
    task_id, shown = await rig.ask(client)
    await rig.clock.advance(299.9)
    (still,) = await rig.waiting()
    assert still["expires_in_s"] == 0.1
    await rig.clock.advance(0.2)
    assert rig.error_of(await rig.decide(shown["token"])) == (409, "UNKNOWN_TOKEN")
    info = await rig.manager.wait(task_id)
    assert info.failure is not None
    assert info.failure.error_code == "SAFETY_APPROVAL_EXPIRED"


@pytest.mark.parametrize("key", [None, "-", "x", KEY[:-1], KEY.upper(), KEY + "x", SECRET])
async def test_nothing_opens_without_the_operators_key(
    rig: OperatorRig, client: Client, key: str | None
) -> None:
    """R32."""
    _, shown = await rig.ask(client)
    wanted = {"action": "approve", "token": shown["token"], "approver": "ann"}
    rig.guard.latch("a test", "test")
    calls = [("GET", "/api/approvals", None), ("POST", "/api/approvals", wanted)]
    for method, path, content in (*calls, ("POST", "/api/estop/reset", {"approver": "ann"})):
        answer = await rig.api(method, path, content, key=key)
        assert rig.error_of(answer) == (401, "UNAUTHORIZED")
        assert shown["token"] not in answer.text
        assert KEY not in answer.text
    assert rig.guard.estop.latched
    assert rig.port.goals == []


async def test_no_mcp_session_and_no_web_page_decides_even_with_the_key(
    rig: OperatorRig, client: Client
) -> None:
    """R32."""
    _, shown = await rig.ask(client)
    wanted = {"action": "approve", "token": shown["token"], "approver": "ann"}
    for headers, status in (
        ({"mcp_session_id": "x"}, (403, "REQUESTER")),
        ({"origin": "http://evil.example"}, (403, "WRONG_ORIGIN")),
        ({"host": "evil.example"}, (421, "WRONG_HOST")),
    ):
        assert rig.error_of(await rig.api("POST", "/api/approvals", wanted, **headers)) == status
    assert rig.port.goals == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "JSON object"),
        (b"[]", "JSON object"),
        (b"{", "JSON object"),
        (b"\xff", "JSON object"),
        ({"action": "approve", "token": "x"}, "approver"),
        ({"action": "approve", "token": "x", "approver": "\u200b"}, "approver"),
        ({"action": "approve", "token": "x", "approver": 5}, "approver"),
        ({"action": "allow", "token": "x", "approver": "ann"}, "action"),
        ({"action": "approve", "approver": "ann"}, "token"),
        ({"action": "approve", "token": ["x"], "approver": "ann"}, "token"),
    ],
)
async def test_a_call_that_is_none_is_refused_by_the_name_of_its_fault(
    rig: OperatorRig, body: Any, words: str
) -> None:
    answer = await rig.api("POST", "/api/approvals", body)
    assert rig.error_of(answer) == (400, "BAD_REQUEST")
    assert words in answer.json()["error"]["message"]


async def test_a_body_beyond_the_bound_is_not_read_to_its_end(rig: OperatorRig) -> None:
    assert rig.error_of(await rig.api("POST", "/api/approvals", b"x" * 20_000)) == (413, "TOO_LARGE")


async def test_the_chat_app_decides_with_its_signature_once(rig: OperatorRig, client: Client) -> None:
    """R32: each signature counts once."""
    task_id, shown = await rig.ask(client)
    wanted = {"action": "approve", "token": shown["token"], "approver": "Bo"}
    assert rig.error_of(await rig.signed(wanted, secret="another")) == (401, "UNAUTHORIZED")
    for jump_s in (-400.0, 400.0):
        answer = await rig.signed(wanted, at_s=time.time() + jump_s)
        assert rig.error_of(answer) == (401, "UNAUTHORIZED")
    now_s = time.time()
    first = await rig.signed(wanted, at_s=now_s)
    assert first.json() == {"task_id": task_id, "decision": "approve", "approver": "chat:Bo"}
    assert rig.error_of(await rig.signed(wanted, at_s=now_s)) == (401, "REPLAYED")
    await rig.port.next_goal()


async def test_the_chat_app_can_list_but_not_reset_and_needs_a_secret_that_is_set(
    tmp_path: Path,
) -> None:
    async with operated(tmp_path / "with") as rig:
        listed = await rig.signed({"action": "list", "approver": "Bo"})
        assert listed.json()["approvals"] == []
        rig.guard.latch("a test", "test")
        content = json.dumps({"approver": "Bo"}).encode()
        assert (await rig.http.post("/api/estop/reset", content=content)).status_code == 401
    async with operated(tmp_path / "without", secret=None) as rig:
        answer = await rig.signed({"action": "list", "approver": "Bo"})
        assert rig.error_of(answer) == (401, "UNAUTHORIZED")
        assert "ROBOT_MCP_APPROVAL_SECRET" in answer.json()["error"]["message"]


async def test_anybody_may_stop_and_only_the_operator_takes_it_back(rig: OperatorRig, client: Client) -> None:
    """R28: no key, no body needed; what waited is withdrawn, what runs is stopped."""
    _, shown = await rig.ask(client)
    await rig.decide(shown["token"])
    goal = await rig.port.next_goal()
    waits, other = await rig.ask(client, x_m=3.0, y_m=4.0)
    assert not goal.result.done(), "what only waits does not touch what runs"
    answer = await rig.api("POST", "/api/estop", b"no json", key=None)
    assert answer.json() == {"latched": True, "reason": "the emergency stop was called (http)"}
    assert (await goal.result).status == GoalStatus.CANCELED
    assert rig.error_of(await rig.decide(other["token"])) == (409, "UNKNOWN_TOKEN")
    info = await rig.manager.wait(waits)
    assert info.failure is not None
    assert info.failure.error_code == "SAFETY_ESTOP_LATCHED"
    refused = await client.call_tool("navigate_to", {"place": "kitchen"})
    assert refused.structured_content["error"]["error_code"] == "SAFETY_ESTOP_LATCHED"
    reset = await rig.api("POST", "/api/estop/reset", {"approver": "ann"})
    assert reset.json() == {"latched": False, "was": "the emergency stop was called (http)"}
    again = await rig.api("POST", "/api/estop/reset", {"approver": "ann"})
    assert again.json() == {"latched": False, "was": None}
    assert [one["event"] for one in rig.trail() if one["event"].startswith("estop")] == [
        "estop_latched",
        "estop_reset",
    ]


@pytest.mark.parametrize("path", ["/api/estop", "/api/estop/reset", "/api/approvals"])
async def test_other_methods_are_not_allowed(rig: OperatorRig, path: str) -> None:
    assert (await rig.api("DELETE", path)).status_code == 405


async def test_a_client_that_ends_its_session_takes_its_requests_along(rig: OperatorRig) -> None:
    """R33."""
    async with client_of(rig, mode="legacy") as client:
        task_id, shown = await rig.ask(client)
        async with client_of(rig, mode="legacy") as other:
            await other.call_tool("list_tasks")
        assert [one["task_id"] for one in await rig.waiting()] == [task_id], "another's end is not its own"
        session = shown["requester"]["session"]
        assert (await rig.http.delete("/mcp", headers={"mcp-session-id": session})).status_code == 200
        info = await rig.manager.wait(task_id)
        assert info.failure is not None
        assert info.failure.error_code == "SAFETY_APPROVAL_WITHDRAWN"
        assert rig.error_of(await rig.decide(shown["token"])) == (409, "UNKNOWN_TOKEN")


async def test_clients_without_a_session_are_told_apart_by_their_connections(rig: OperatorRig) -> None:
    """R32, R33, R34: the newer protocol has no sessions; whoever looks at the trail sees who asked."""
    async with client_of(rig, mode="2026-07-28") as client, client_of(rig, mode="2026-07-28") as other:
        _, shown = await rig.ask(client)
        _, shown_too = await rig.ask(other, x_m=3.0, y_m=4.0)
    sessions = [one["requester"]["session"] for one in (shown, shown_too)]
    assert all(one.startswith("connection 127.0.0.1:") for one in sessions), sessions
    assert sessions[0] != sessions[1]
    asked = [one["requester"]["session"] for one in rig.trail() if one["event"] == "requested"]
    assert asked == sessions
