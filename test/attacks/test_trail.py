"""What the trail says after a kill, with a full disk, after somebody touched it; and standing approvals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from robot_mcp_kit.safety.assemble import STANDING_FOLDER, write_standing
from robot_mcp_kit.safety.standing import DEMO_KEY, sign
from robot_mcp_kit.sim.process import SimProcess
from robot_mcp_kit.skills.config.safety import StandingApprovalSection

from .rig import OPERATOR_KEY, STRICT, Bridge, Probe, Rig, Session, audit_file, cli, code_of, skills_file

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
OPEN = STRICT.replace("approval: required", "approval: standing")


@pytest.fixture(scope="module")
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    with SimProcess(domain_id=ros_domain_id, real_time_factor=3.0) as process:
        yield process


@pytest.fixture(scope="module")
def probe(ros_domain_id: int, sim: SimProcess) -> Iterator[Probe]:
    probe = Probe(ros_domain_id)
    yield probe
    probe.close()


Attacked = Callable[..., Any]


@pytest.fixture
def attacked(ros_domain_id: int, probe: Probe, tmp_path: Path) -> Attacked:
    """A bridge with a client and its operator, ended with the block."""

    @asynccontextmanager
    async def open_one(*, safety: str = STRICT, **more: Any) -> AsyncIterator[Rig]:
        bridge = Bridge(ros_domain_id, tmp_path, skills_file(tmp_path, safety), **more)
        try:
            session = await Session.open(bridge.url)
            try:
                rig = Rig(bridge, probe, session)
                await rig.settled()
                yield rig
            finally:
                await session.close()
        finally:
            if bridge.process.poll() is None:
                bridge.end()
            bridge.close()

    return open_one


def events_of(bridge: Bridge) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli(bridge, "audit", "show", "--json").stdout.splitlines()]


async def test_killed_between_the_audit_record_and_the_goal(attacked: Attacked, probe: Probe) -> None:
    """The chain verifies, says that the goal may have left, and nothing moved."""
    before = probe.actuations()
    async with attacked(command=(str(HERE / "dying_bridge.py"),)) as rig:
        _, token = await rig.ask()
        with contextlib.suppress(httpx.TransportError):  # it may die before it has answered
            await rig.decide(token)
        bridge = rig.bridge
        assert bridge.process.wait(20) == -signal.SIGKILL
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
    """With a ledger the goal is followed and its end written under the same request; without, it is open."""
    options = ("--ros-args", "-p", f"ledger_file:={tmp_path / 'ledger.db'}") if ledger else ()
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

    async def stands() -> bool:
        return abs(probe.truth()["speed"]) < 0.01

    async with attacked() as rig:
        await rig.session.call("stop")
        await rig.until(stands)


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
        bridge = rig.bridge
    assert cli(bridge, "audit", "verify").returncode == 0
    async with attacked() as rig:
        assert cli(rig.bridge, "audit", "verify").returncode == 0
    moved = probe.actuations() - before
    assert moved == 1  # the wait


@pytest.mark.parametrize("how", ["truncated", "removed", "replaced"])
async def test_a_trail_touched_under_the_running_bridge_moves_nothing(
    attacked: Attacked, probe: Probe, how: str
) -> None:
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


async def test_a_bridge_does_not_start_on_a_trail_that_was_changed(
    attacked: Attacked, ros_domain_id: int, tmp_path: Path
) -> None:
    async with attacked() as rig:
        await rig.ask()
        bridge = rig.bridge
    file = audit_file(bridge)
    file.write_bytes(file.read_bytes().replace(b"spin", b"spun"))
    assert cli(bridge, "audit", "verify").returncode == 1
    again = Bridge(ros_domain_id, tmp_path, tmp_path / "skills.yaml", ready=False)
    assert again.process.wait(30) == 2
    again.close()
    assert "nothing starts on a broken trail" in again.log.read_text()


def put_standing(folder: Path, key: str = OPERATOR_KEY, **more: Any) -> StandingApprovalSection:
    approval = sign(
        StandingApprovalSection.model_validate(
            {"id": "a", "operator": "ann", "robot": "demo_robot", "skills": ["spin", "navigate_to"], **more}
        ),
        key,
    )
    (folder / "state" / STANDING_FOLDER).mkdir(parents=True, exist_ok=True)
    write_standing(approval, folder / "state" / STANDING_FOLDER / "a.yaml")
    return approval


async def test_a_standing_approval_is_used_as_often_as_it_says_over_restarts(
    attacked: Attacked, probe: Probe, tmp_path: Path
) -> None:
    put_standing(tmp_path, max_count=3)
    before = probe.actuations()
    for _ in range(2):
        async with attacked(safety=OPEN) as rig:
            for _ in range(3):
                answer = await rig.session.call("spin", angle_rad=0.2)
                task_id = answer["result"]["structuredContent"]["task_id"]
                task = await rig.session.task(task_id)
                async with asyncio.timeout(20):
                    while task["state"] == "running":
                        if (task["progress"] or {}).get("phase") == "awaiting_approval":
                            await rig.session.call("cancel_task", task_id=task_id)
                        task = await rig.session.task(task_id)
            bridge = rig.bridge
    assert probe.actuations() - before == 3
    used = [one["approval"]["standing"] for one in events_of(bridge) if one.get("decision") == "allowed"]
    assert [(one["id"], one["operator"], one["use"], one["of"]) for one in used] == [
        ("a", "ann", number, 3) for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "forgery",
    ["another key", "the demo key", "widened", "another robot", "outside its place", "used up by the clock"],
)
async def test_a_standing_approval_that_does_not_cover_the_motion_moves_nothing(
    attacked: Attacked, probe: Probe, tmp_path: Path, forgery: str
) -> None:
    if forgery == "another key":
        put_standing(tmp_path, key="somebody else's key")
    elif forgery == "the demo key":
        put_standing(tmp_path, key=DEMO_KEY)
    elif forgery == "widened":
        put_standing(tmp_path, skills=["navigate_to"])
        file = tmp_path / "state" / STANDING_FOLDER / "a.yaml"
        file.write_text(file.read_text().replace('"navigate_to"', '"navigate_to", "spin"'))
    elif forgery == "another robot":
        put_standing(tmp_path, robot="robot7")
    elif forgery == "outside its place":
        put_standing(tmp_path, place={"polygon_m": [[9.0, 0.0], [12.0, 0.0], [12.0, 3.0]]})
    else:
        put_standing(tmp_path, not_after="2020-01-01T00:00:00Z")
    before = probe.actuations()
    async with attacked(safety=OPEN) as rig:
        task_id, _ = await rig.ask("spin", angle_rad=0.2)
        await rig.session.call("cancel_task", task_id=task_id)
    assert probe.actuations() == before


async def test_many_small_motions_are_one_large_motion(
    attacked: Attacked, probe: Probe, tmp_path: Path
) -> None:
    put_standing(tmp_path, skills=["back_up"])
    before = probe.truth()["travelled_m"]
    async with attacked(safety=OPEN) as rig:
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


async def test_what_the_operator_signs_on_the_command_line_holds_after_a_restart(
    attacked: Attacked, probe: Probe, tmp_path: Path
) -> None:
    wish = tmp_path / "tour.yaml"
    wish.write_text("id: tour\noperator: Ann\nrobot: demo_robot\nskills: [spin]\nmax_count: 1\n")
    async with attacked(safety=OPEN) as rig:
        signed = cli(rig.bridge, "approve", "--standing", str(wish))
        assert signed.returncode == 0, signed.stderr
    before = probe.actuations()
    async with attacked(safety=OPEN) as rig:
        answer = await rig.session.call("spin", angle_rad=0.2)
        assert (await rig.ended(answer["result"]["structuredContent"]["task_id"]))["state"] == "succeeded"
    assert probe.actuations() - before == 1
