"""The attack suite: real bridge, real action servers, actuations counted at the robot. Prints its table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from .catalogue import ATTACKS
from .rig import (
    APPROVAL_SECRET,
    OPERATOR_KEY,
    STRICT,
    Bridge,
    Probe,
    attacking,
    audit_file,
    cli,
    code_of,
    leaks,
    skills_file,
)

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def bridge(ros_domain_id: int, probe: Probe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """One strict bridge for all; it must live through everything and end in order."""
    folder = tmp_path_factory.mktemp("strict")
    bridge = Bridge(ros_domain_id, folder, skills_file(folder, STRICT))
    try:
        yield bridge
        assert bridge.end() == 0, bridge.log.read_text()
        assert "Traceback" not in bridge.log.read_text()
    finally:
        bridge.close()


async def test_no_attack_moves_the_robot(bridge: Bridge, probe: Probe) -> None:
    """R5, R18, R19, R20, R22, R23, R24, R25, R27, R28, R30, R32, R33: every attack of the catalogue; the only
    motions are those that a person approved.
    """
    rows: list[tuple[str, str, int, int]] = []
    async with attacking(bridge, probe) as rig:
        earlier = len(audit_file(bridge).read_bytes().splitlines())
        for name, run in ATTACKS.items():
            await rig.clean()
            before, rig.approved = probe.actuations(), 0
            try:
                answer = await run(rig)
            except Exception as error:
                answer = f"BROKE: {error!r}"
            await rig.clean()
            rows.append((name, answer, probe.actuations() - before, rig.approved))
    # R39: one attack gives the operator's key as an argument.
    assert len(set(rig.tokens)) > 20
    assert leaks(bridge, [OPERATOR_KEY, APPROVAL_SECRET, *rig.tokens]) == []
    chain = cli(bridge, "audit", "verify")
    assert chain.returncode == 0, chain.stdout + chain.stderr
    _print_table(rows)
    assert len(rows) >= 60
    assert [row for row in rows if row[1].startswith("BROKE")] == []
    unapproved = [row for row in rows if row[2] != row[3]]
    assert unapproved == []
    _one_chain(audit_file(bridge).read_text().splitlines()[earlier:], sum(moved for _, _, moved, _ in rows))


def _one_chain(lines: list[str], moved: int) -> None:
    """What moved was asked for, decided by a person, and has an end, under one request."""
    records = [json.loads(line) for line in lines]
    started = [record for record in records if record["event"] == "started"]
    assert len(started) == moved
    for record in started:
        chain = [one for one in records if one.get("request") == record["request"]]
        assert [one["event"] for one in chain] == ["requested", "decided", "started", "finished"]
        assert chain[1]["approval"]["approver"].startswith(("operator:", "chat:"))
        assert chain[0]["requester"]["session"]
        assert len({one["goal_sha256"] for one in chain[:3]}) == 1
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


async def test_an_approved_motion_does_happen(bridge: Bridge, probe: Probe) -> None:
    """R18, R29, R34: or the suite above would prove nothing."""
    async with attacking(bridge, probe) as rig:
        session = rig.session
        await rig.clean()
        before = probe.actuations()
        task_id, _ = await rig.ask("spin", angle_rad=0.5)
        progress = (await session.task(task_id))["progress"]
        assert progress["phase"] == "awaiting_approval"
        assert 0 < progress["expires_in_s"] <= 12.0
        assert "You cannot approve it" in progress["note"]
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
        task_id, token = await rig.ask("spin", angle_rad=0.5)
        assert (await rig.decide(token, "reject", reason="not now")).status_code == 200
        failure = (await rig.ended(task_id))["failure"]
        assert failure["error_code"] == "SAFETY_REJECTED"
        assert "not now" in failure["message"]
        assert code_of(await session.call("wait", duration_s=0.2)) == "task"
        assert (await rig.api("POST", "/api/estop", {"reason": "a test"})).status_code == 200
        assert code_of(await session.call("spin", angle_rad=0.5)) == "SAFETY_ESTOP_LATCHED"
        assert (await rig.api("POST", "/api/estop/reset", {"approver": "ann"})).status_code == 200
