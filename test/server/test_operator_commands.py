"""approve, reject, estop and audit, each a process of its own, against a running node's API (R19-R35)."""

from __future__ import annotations

import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from robot_mcp_kit.safety.assemble import AUDIT_FOLDER
from robot_mcp_kit.safety.state_dir import withdraw

from .operator_rig import KEY, OperatorRig, client_of, operated


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OperatorRig]:
    async with operated(tmp_path) as rig:
        yield rig


@pytest.fixture
async def client(rig: OperatorRig) -> AsyncIterator[Client]:
    async with client_of(rig) as client:
        yield client


async def test_a_person_sees_what_waits_and_approves_it_by_its_id(rig: OperatorRig, client: Client) -> None:
    """R19, R34: the token itself is never shown."""
    task_id, shown = await rig.ask(client)
    listed = await rig.cli("approve")
    assert listed.code == 0, listed.err
    assert shown["approval_id"] in listed.out
    assert task_id in listed.out
    assert "10.0" in listed.out
    assert shown["token"] not in listed.out + listed.err
    done = await rig.cli("approve", shown["approval_id"], "--as", "Ann, shift lead", "--reason", "seen")
    assert done.code == 0, done.err
    assert done.out == f"approve: task {task_id}, by operator:Ann, shift lead\n"
    await rig.port.next_goal()
    decided = next(one for one in rig.trail() if one["event"] == "decided")
    assert decided["approval"]["approver"] == "operator:Ann, shift lead"
    assert decided["approval"]["reason"] == "seen"


async def test_what_cannot_be_decided_ends_with_1_and_a_sentence(rig: OperatorRig, client: Client) -> None:
    """R20, R21: used, unknown, expired."""
    _, shown = await rig.ask(client)
    nobody = await rig.cli("approve", "ffff0000ffff")
    assert (nobody.code, nobody.out) == (1, "")
    assert f"no request ffff0000ffff waits for a person ({shown['approval_id']})" in nobody.err
    await rig.clock.advance(301.0)
    late = await rig.cli("reject", shown["approval_id"])
    assert late.code == 1
    assert "nothing waits" in late.err
    assert "Traceback" not in nobody.err + late.err
    assert rig.port.goals == []


async def test_reject_says_why_to_the_one_that_asked(rig: OperatorRig, client: Client) -> None:
    """R29: in the name of whoever is logged in, unless said otherwise."""
    task_id, shown = await rig.ask(client)
    said = await rig.cli("reject", shown["approval_id"][:4], "--reason", "people in the corridor")
    assert said.code == 0, said.err
    assert said.out == f"reject: task {task_id}, by operator:{getpass.getuser()}\n"
    info = await rig.manager.wait(task_id)
    assert info.failure is not None
    assert "people in the corridor" in info.failure.message


async def test_without_the_right_key_or_a_node_nothing_is_decided(rig: OperatorRig, client: Client) -> None:
    """R32."""
    _, shown = await rig.ask(client)
    wrong = await rig.cli("approve", shown["approval_id"], ROBOT_MCP_OPERATOR_KEY="some-other-long-key")
    assert wrong.code == 1
    assert "the operator's key is needed" in wrong.err
    short = await rig.cli("approve", shown["approval_id"], ROBOT_MCP_OPERATOR_KEY="short")
    assert short.code == 2
    assert "16 at least" in short.err
    none = await rig.cli("approve", ROBOT_MCP_OPERATOR_KEY="")
    assert none.code == 2
    assert "there is no operator's key" in none.err
    withdraw(rig.state_dir)
    away = await rig.cli("approve")
    assert away.code == 1
    assert "no node runs on" in away.err
    still = await rig.cli("approve", "--url", rig.url)
    assert shown["approval_id"] in still.out
    for said in (wrong, short, none, away, still):
        assert KEY not in said.out + said.err
    assert rig.port.goals == []


async def test_the_emergency_stop_is_engaged_looked_at_and_reset(rig: OperatorRig) -> None:
    """R28."""
    assert (await rig.cli("estop", "status")).out == "not latched\n"
    said = await rig.cli("estop", "engage", "--reason", "a child on the stairs")
    assert (said.code, said.out) == (0, "latched: a child on the stairs (http)\n")
    assert (await rig.cli("estop", "status")).out == "latched: a child on the stairs (http)\n"
    assert "EMERGENCY STOP latched" in (await rig.cli("approve")).out
    reset = await rig.cli("estop", "reset", "--as", "Ann")
    assert (reset.code, reset.out) == (0, "reset; it was latched for: a child on the stairs (http)\n")
    again = await rig.cli("estop", "reset", "--as", "Ann")
    assert (again.code, again.out) == (0, "it was not latched\n")
    record = next(one for one in rig.trail() if one["event"] == "estop_reset")
    assert record["approver"] == "operator:Ann"
    assert (await rig.cli("estop", "press")).code == 2


async def test_audit_shows_a_task_in_lines_and_json_and_verifies(rig: OperatorRig, client: Client) -> None:
    """R34, R35, R37: with and without a running node."""
    task_id, shown = await rig.ask(client)
    await rig.decide(shown["token"], "reject")
    await rig.manager.wait(task_id)
    await rig.ask(client, x_m=3.0, y_m=4.0)
    lines = (await rig.cli("audit", "show", "--task", task_id)).out.splitlines()
    assert [line.split()[3] for line in lines][:2] == ["requested", "decided"]
    shown_json = await rig.cli("audit", "show", "--json")
    found = [json.loads(line) for line in shown_json.out.splitlines()]
    assert {one["event"] for one in found} >= {"requested", "decided"}
    last = await rig.cli("audit", "show", "--json", "--last", "1")
    assert [json.loads(line) for line in last.out.splitlines()] == found[-1:]
    verdict = await rig.cli("audit", "verify", "--json")
    told = json.loads(verdict.out)
    assert verdict.code == 0
    assert (told["ok"], told["faults"]) == (True, [])
    assert told["records"] == len(found)


async def test_audit_finds_what_was_touched(tmp_path: Path) -> None:
    """R35."""
    async with operated(tmp_path) as rig, client_of(rig) as client:
        await rig.ask(client)
    (file,) = (tmp_path / AUDIT_FOLDER).glob("*.jsonl")
    assert (await rig.cli("audit", "verify")).code == 0
    file.write_bytes(file.read_bytes().replace(b"kitchen", b"kitchfn").replace(b"10.0", b"11.0"))
    touched = await rig.cli("audit", "verify", "--json")
    assert touched.code == 1
    assert json.loads(touched.out)["ok"] is False
    assert json.loads(touched.out)["faults"]
    empty = await rig.cli("audit", "show", "--state-dir", str(tmp_path / "nothing"))
    assert (empty.code, "there is no audit trail" in empty.err) == (1, True)
