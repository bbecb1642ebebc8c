"""The attack suite: real bridge, real action servers, actuations counted at the robot. Prints its table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_mcp_kit.sim.process import SimProcess

from .catalogue import ATTACKS
from .rig import STRICT, Bridge, Probe, Rig, Session, cli, code_of, skills_file

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(900)]

REAL_TIME_FACTOR = 3.0


@pytest.fixture(scope="module")
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    with SimProcess(domain_id=ros_domain_id, real_time_factor=REAL_TIME_FACTOR) as process:
        yield process


@pytest.fixture(scope="module")
def probe(ros_domain_id: int, sim: SimProcess) -> Iterator[Probe]:
    probe = Probe(ros_domain_id)
    yield probe
    probe.close()


async def test_no_attack_moves_the_robot(ros_domain_id: int, probe: Probe, tmp_path: Path) -> None:
    """Every attack of the catalogue; the only motions are those that a person approved."""
    bridge = Bridge(ros_domain_id, tmp_path, skills_file(tmp_path, STRICT))
    session = await Session.open(bridge.url)
    rig = Rig(bridge, probe, session)
    rows: list[tuple[str, str, int, int]] = []
    try:
        for name, run in ATTACKS.items():
            await rig.clean()
            before, rig.approved = probe.actuations(), 0
            try:
                answer = await run(rig)
            except Exception as error:
                answer = f"BROKE: {error!r}"
            await rig.clean()
            rows.append((name, answer, probe.actuations() - before, rig.approved))
        chain = cli(bridge, "audit", "verify")
        assert chain.returncode == 0, chain.stdout + chain.stderr
        shown = cli(bridge, "audit", "show", "--json").stdout
    finally:
        for one in (session, *rig.sessions):
            await one.close()
        code = bridge.end()
    _print_table(rows)
    assert code == 0, bridge.log.read_text()
    assert "Traceback" not in bridge.log.read_text()
    assert len(rows) >= 60
    assert [row for row in rows if row[1].startswith("BROKE")] == []
    unapproved = [row for row in rows if row[2] != row[3]]
    assert unapproved == []
    records = [json.loads(line) for line in shown.splitlines()]
    started = [record for record in records if record["event"] == "started"]
    # One chain: what moved was asked for, decided by a person, and has an end, under one request.
    assert len(started) == sum(moved for _, _, moved, _ in rows)
    for record in started:
        chain_of_it = [one for one in records if one.get("request") == record["request"]]
        assert [one["event"] for one in chain_of_it] == ["requested", "decided", "started", "finished"]
        assert chain_of_it[1]["approval"]["approver"].startswith(("operator:", "chat:"))
        assert chain_of_it[0]["requester"]["session"]
        assert len({one["goal_sha256"] for one in chain_of_it[:3]}) == 1
    assert sum(record["event"] == "prohibited" for record in records) == 8


def _print_table(rows: list[tuple[str, str, int, int]]) -> None:
    wide = max(len(name) for name, *_ in rows)
    lines = [f"{'attack':{wide}}  moved  approved  answer"]
    lines += [
        f"{name:{wide}}  {moved:5}  {approved:8}  {answer[:60]}" for name, answer, moved, approved in rows
    ]
    unapproved = sum(moved - approved for _, _, moved, approved in rows)
    lines.append(f"{len(rows)} attacks, unapproved actuations: {unapproved}")
    print("\n" + "\n".join(lines), file=sys.stderr)


async def test_an_approved_motion_does_happen(ros_domain_id: int, probe: Probe, tmp_path: Path) -> None:
    """Or the suite above would prove nothing."""
    bridge = Bridge(ros_domain_id, tmp_path, skills_file(tmp_path, STRICT))
    session = await Session.open(bridge.url)
    rig = Rig(bridge, probe, session)
    try:
        await rig.clean()
        before = probe.actuations()
        task_id, _ = await rig.ask("spin", angle_rad=0.5)
        progress = (await session.task(task_id))["progress"]
        assert progress["phase"] == "awaiting_approval"
        assert 0 < progress["expires_in_s"] <= 20.0
        assert "You cannot approve it" in progress["note"]
        listed = cli(bridge, "approve")
        assert "spin" in listed.stdout, listed.stderr
        done = cli(bridge, "approve", progress["approval_id"], "--as", "ann")
        assert done.returncode == 0, done.stderr
        assert (await rig.ended(task_id))["state"] == "succeeded"
        assert probe.actuations() - before == 1
        told = cli(bridge, "audit", "show", "--task", task_id).stdout
        assert [line.split()[3] for line in told.splitlines()] == [
            "requested",
            "decided",
            "started",
            "finished",
        ]
        task_id, _ = await rig.ask("spin", angle_rad=0.5)
        shown = (await session.task(task_id))["progress"]["approval_id"]
        assert cli(bridge, "reject", shown, "--reason", "not now").returncode == 0
        failure = (await rig.ended(task_id))["failure"]
        assert failure["error_code"] == "SAFETY_REJECTED"
        assert "not now" in failure["message"]
        assert code_of(await session.call("wait", duration_s=0.2)) == "task"
        assert cli(bridge, "estop", "engage", "--reason", "a test").returncode == 0
        assert cli(bridge, "estop", "status").stdout == "latched: a test (http)\n"
        assert code_of(await session.call("spin", angle_rad=0.5)) == "SAFETY_ESTOP_LATCHED"
        assert cli(bridge, "estop", "reset", "--as", "ann").returncode == 0
    finally:
        await session.close()
        bridge.end()
