"""What the trail says after a kill, with a full disk, after somebody touched it; and standing approvals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from robot_mcp_kit.safety.assemble import STANDING_FOLDER, write_standing
from robot_mcp_kit.safety.standing import DEMO_KEY, sign
from robot_mcp_kit.skills.config.safety import StandingApprovalSection
from robot_mcp_kit.testing import assert_eventually

from .conftest import Attacked
from .rig import (
    BOUND_S,
    OPERATOR_KEY,
    STRICT,
    Bridge,
    Probe,
    Rig,
    attacking,
    audit_file,
    cli,
    code_of,
    skills_file,
)

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
OPEN = STRICT.replace("approval: required", "approval: standing")


def events_of(bridge: Bridge) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli(bridge, "audit", "show", "--json").stdout.splitlines()]


async def test_killed_between_the_audit_record_and_the_goal(attacked: Attacked, probe: Probe) -> None:
    """R38, R40: the chain verifies, says that the goal may have left, and nothing moved."""
    before = probe.actuations()
    async with attacked(command=(str(HERE / "dying_bridge.py"),)) as rig:
        _, token = await rig.ask()
        with contextlib.suppress(httpx.TransportError):  # it may die before it has answered
            await rig.decide(token)
        bridge = rig.bridge
        assert bridge.process.wait(BOUND_S) == -signal.SIGKILL
    found = cli(bridge, "audit", "verify")
    assert found.returncode == 0, found.stdout
    assert "may or may not have reached its server" in found.stdout
    assert [one["event"] for one in events_of(bridge)][-3:] == ["requested", "decided", "started"]
    async with attacked() as rig:
        assert events_of(rig.bridge)[-1]["event"] == "interrupted"
        assert "ask the action server" in events_of(rig.bridge)[-1]["known"]
    assert cli(bridge, "audit", "verify").returncode == 0
    assert probe.actuations() == before


@pytest.mark.parametrize("ledger", [False, True])
async def test_killed_between_the_goal_and_its_result(
    attacked: Attacked, probe: Probe, tmp_path: Path, ledger: bool
) -> None:
    """R40: with a ledger the goal is followed and its end written under the same request; without,
    it is open.
    """
    options = ("--ros-args", "-p", f"ledger_file:={tmp_path / 'ledger.db'}") if ledger else ()

    async def stands() -> bool:
        return abs(probe.truth()["speed"]) < 0.01

    before = probe.actuations()
    async with attacked(options=options) as rig:
        # Two places: the robot of this module must have a way to go each time.
        task_id, token = await rig.ask("navigate_to", place="office" if ledger else "kitchen")
        await rig.decide(token)

        async def runs() -> bool:
            return bool((await rig.session.task(task_id))["progress"].get("distance_m"))

        await rig.until(runs)
        rig.bridge.kill()
        bridge = rig.bridge
    found = cli(bridge, "audit", "verify")
    assert found.returncode == 0, found.stdout
    assert f"task {task_id}" in found.stdout
    assert "may or may not" in found.stdout
    async with attacked(options=options) as rig:
        if ledger:
            ended = await rig.ended(task_id)
            assert ended["state"] == "succeeded", ended
        else:
            await rig.session.call("stop")
            await rig.until(stands)
        bridge = rig.bridge
    chain = [one for one in events_of(bridge) if one.get("task_id") == task_id]
    assert [one["event"] for one in chain if one["event"] != "requested"] == [
        "decided",
        "started",
        "interrupted",
        *(["finished"] if ledger else []),
    ]
    found = cli(bridge, "audit", "verify")
    assert found.returncode == 0, found.stdout
    assert ("open: request" in found.stdout) is not ledger
    assert probe.actuations() - before == 1


async def test_a_full_disk_moves_nothing(attacked: Attacked, probe: Probe) -> None:
    """R38: the trail's file cannot grow any more, at every step."""
    before = probe.actuations()
    async with attacked(file_limit=20_000) as rig:
        codes = set()
        for _ in range(40):
            codes.add(code_of(await rig.session.call("navigate_to", x_m=6.0, y_m=3.2)))
        assert codes == {"SAFETY_LIMIT", "SAFETY_AUDIT_UNAVAILABLE"}
        assert code_of(await rig.session.call("spin", angle_rad=0.3)) == "SAFETY_AUDIT_UNAVAILABLE"
        assert code_of(await rig.session.call("stop")) == "answered"
        assert code_of(await rig.session.call("wait", duration_s=0.2)) == "task"
        await assert_eventually(lambda: probe.actuations() == before + 1)
        bridge = rig.bridge
    assert cli(bridge, "audit", "verify").returncode == 0
    async with attacked() as rig:
        assert cli(rig.bridge, "audit", "verify").returncode == 0
    moved = probe.actuations() - before
    assert moved == 1  # the wait


@pytest.mark.parametrize("how", ["truncated", "removed", "replaced"])
async def test_a_trail_touched_under_the_running_bridge_moves_nothing(
    attacked: Attacked, probe: Probe, ros_domain_id: int, tmp_path: Path, how: str
) -> None:
    """R35, R38; and no bridge starts on a trail that was changed."""
    before = probe.actuations()
    async with attacked() as rig:
        _, token = await rig.ask()
        file = audit_file(rig.bridge)
        content = file.read_bytes()
        if how == "truncated":
            file.write_bytes(content[:-200])
        else:
            file.unlink()
            if how == "replaced":
                file.write_bytes(content)
        await rig.decide(token)
        await asyncio.sleep(0.5)
        assert code_of(await rig.session.call("spin", angle_rad=0.3)) == "SAFETY_AUDIT_UNAVAILABLE"
        bridge = rig.bridge
    assert probe.actuations() == before
    if how == "removed":  # cut off after the last sync, nothing but a torn line tells
        assert cli(bridge, "audit", "verify").returncode == 1
    if how == "replaced":
        _does_not_start_on_a_changed_trail(bridge, ros_domain_id, tmp_path)


def _does_not_start_on_a_changed_trail(bridge: Bridge, domain: int, folder: Path) -> None:
    file = audit_file(bridge)
    file.write_bytes(file.read_bytes().replace(b"spin", b"spun"))
    assert cli(bridge, "audit", "verify").returncode == 1
    again = Bridge(domain, folder, folder / "skills.yaml", ready=False)
    assert again.process.wait(BOUND_S) == 2
    again.close()
    assert "nothing starts on a broken trail" in again.log.read_text()


def put_standing(folder: Path, ident: str, skill: str, key: str = OPERATOR_KEY, **more: Any) -> Path:
    """A standing approval in a node's state directory, signed."""
    words = {"id": ident, "operator": "ann", "robot": "demo_robot", "skills": [skill], **more}
    approval = sign(StandingApprovalSection.model_validate(words), key)
    file = folder / "state" / STANDING_FOLDER / f"{ident}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_standing(approval, file)
    return file


async def test_standing_approvals_count_over_restarts_and_new_ones_hold_after_the_next(
    attacked: Attacked, probe: Probe, tmp_path: Path
) -> None:
    """R18, R34: one was put there before the first start,
    another is signed on the command line while that runs.
    """
    put_standing(tmp_path, "a", "spin", max_count=3)
    wish = tmp_path / "tour.yaml"
    wish.write_text("id: tour\noperator: Ann\nrobot: demo_robot\nskills: [gripper]\nmax_count: 1\n")
    before = probe.actuations()
    async with attacked(safety=OPEN) as rig:
        for _ in range(2):
            assert await happened(rig, "spin", angle_rad=0.2)
        assert not await happened(rig, "gripper", command="open")
        signed = cli(rig.bridge, "approve", "--standing", str(wish))
        assert signed.returncode == 0, signed.stderr
    async with attacked(safety=OPEN) as rig:
        assert await happened(rig, "spin", angle_rad=0.2)
        assert not await happened(rig, "spin", angle_rad=0.2)
        assert await happened(rig, "gripper", command="open")
        assert not await happened(rig, "gripper", command="close")
        bridge = rig.bridge
    assert probe.actuations() - before == 4
    used = [one["approval"]["standing"] for one in events_of(bridge) if one.get("decision") == "allowed"]
    assert [(one["id"], one["operator"], one["use"], one["of"]) for one in used] == [
        *(("a", "ann", number, 3) for number in (1, 2, 3)),
        ("tour", "Ann", 1, 1),
    ]


async def happened(rig: Rig, tool: str, **arguments: Any) -> bool:
    """Whether the motion happened; one that waits for a person is cancelled."""
    async with asyncio.timeout(20):
        while "position is known" in str(answer := await rig.session.call(tool, **arguments)):
            await asyncio.sleep(0.1)  # a bridge that has just begun has not heard it yet
    assert code_of(answer) == "task", answer
    task_id = answer["result"]["structuredContent"]["task_id"]
    task = await rig.session.task(task_id)
    async with asyncio.timeout(20):
        while task["state"] == "running":
            if (task["progress"] or {}).get("phase") == "awaiting_approval":
                await rig.session.call("cancel_task", task_id=task_id)
            task = await rig.session.task(task_id)
    return bool(task["state"] == "succeeded")


FORGERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "another key": ("spin", {"angle_rad": 0.2}),
    "the demo key": ("drive_on_heading", {"distance_m": 0.2}),
    "widened": ("gripper", {"command": "open"}),
    "another robot": ("move_arm", {"target": "home"}),
    "outside its place": ("navigate_to", {"place": "kitchen"}),
    "out of its time": ("dock", {}),
}
"""What is wrong with a standing approval -> the motion that it would allow."""


@pytest.fixture(scope="module")
def forged(ros_domain_id: int, probe: Probe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A bridge with six standing approvals that do not cover what they seem to, and one good one."""
    folder = tmp_path_factory.mktemp("forged")
    put_standing(folder, "good", "back_up")
    put_standing(folder, "key", "spin", key="somebody else's key")
    put_standing(folder, "demo", "drive_on_heading", key=DEMO_KEY)
    file = put_standing(folder, "widened", "wait")
    file.write_text(file.read_text().replace('"wait"', '"wait", "gripper"'))
    assert "gripper" in file.read_text()
    put_standing(folder, "robot", "move_arm", robot="robot7")
    corner = [[9.0, 0.0], [12.0, 0.0], [12.0, 3.0]]
    put_standing(folder, "place", "navigate_to", place={"polygon_m": corner})
    put_standing(folder, "time", "dock", not_after="2020-01-01T00:00:00Z")
    bridge = Bridge(ros_domain_id, folder, skills_file(folder, OPEN))
    yield bridge
    bridge.end()


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_standing_approval_that_does_not_cover_the_motion_moves_nothing(
    forged: Bridge, probe: Probe, forgery: str
) -> None:
    """R18, R32."""
    tool, arguments = FORGERIES[forgery]
    before = probe.actuations()
    async with attacking(forged, probe) as rig:
        assert not await happened(rig, tool, **arguments)
    assert probe.actuations() == before


async def test_many_small_motions_are_one_large_motion(forged: Bridge, probe: Probe) -> None:
    """R30."""
    before = probe.truth()["travelled_m"]
    async with attacking(forged, probe) as rig:
        codes: list[str] = []
        while len(codes) < 10:
            answer = await rig.session.call("back_up", distance_m=0.1)
            if not codes and code_of(answer) == "SAFETY_LIMIT":
                await asyncio.sleep(0.1)  # the fence does not judge before the robot's position is known
                continue
            codes.append(code_of(answer))
            if codes[-1] == "task":
                await rig.ended(answer["result"]["structuredContent"]["task_id"])
        assert codes.count("SAFETY_RATE") == 5
    assert probe.truth()["travelled_m"] - before < 0.7
