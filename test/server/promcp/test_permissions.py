"""Every permission that ``can_do`` tells, from the robot's real state, and the call that bears it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.promcp.contracts import PERMISSIONS
from robot_mcp_kit.safety.interlocks import Interlock, Reader
from robot_mcp_kit.skills.config.safety import InterlockSection
from robot_mcp_kit.testing.clock import settle
from test.server.promcp.rig import CONFIG, Rig, entry_of, rigged, seconds_until

KITCHEN = {"place": "kitchen"}
HERE = {"x_m": 1.0, "y_m": 1.0}


def _with_safety(text: str) -> str:
    return f"{CONFIG}\nsafety:\n{text}\n"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


async def test_allowed_is_told_and_the_call_does_it(rig: Rig) -> None:
    """P35."""
    assert entry_of(await rig.can_do("move", "drive", parameters=KITCHEN))["permission"] == "allowed"
    done = await rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a")
    assert done["status"] == "success"


async def test_approval_needed_is_told_and_the_call_waits_for_a_person() -> None:
    """P35 P36."""
    async with rigged(approve=False) as rig:
        report = await rig.can_do("move", "drive", parameters=KITCHEN)
        assert entry_of(report)["permission"] == "requires_human_approval"
        assert not report["feasible"]
        (reason,) = [entry["reason"] for entry in report["blocked"]]
        assert "person" in reason
        assert rig.guard.desk.pending() == []
        begun = asyncio.create_task(rig.data("move", "do_navigate_to", **KITCHEN, idempotency_key="a"))
        while not rig.guard.desk.pending():
            await asyncio.sleep(0)
        await rig.data("move", "do_stop", idempotency_key="s")
        assert (await begun)["status"] == "failed"


async def test_a_standing_approval_that_is_used_up_means_a_person_again() -> None:
    """P35 P38: asking does not use it, doing does."""
    async with rigged() as rig:
        book = rig.guard._standing
        book.valid[0] = book.valid[0].model_copy(update={"max_count": 1})
        for parameters in ({"angle_rad": 1.0}, {}, {"angle_rad": 1.0}):
            entry = entry_of(await rig.can_do("move", "turn", parameters=parameters), "do_spin")
            assert entry["permission"] == "allowed"
            assert entry["parameters_checked"] is bool(parameters)
        await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
        for parameters in ({"angle_rad": 1.0}, {}):
            entry = entry_of(await rig.can_do("move", "turn", parameters=parameters), "do_spin")
            assert entry["permission"] == "requires_human_approval"


@pytest.mark.parametrize("how", ["latched", "prohibited", "interlock", "busy", "precondition"])
async def test_policy_denied_is_told_where_the_call_is_refused(how: str) -> None:
    """P35: a latch, a risk, an interlock, a motion that may not be disturbed, an empty gripper."""
    text, more, profile, tool, tags, parameters = CONFIG, {}, "move", "do_spin", "turn", {"angle_rad": 1.0}
    if how == "prohibited":
        text = _with_safety("  skills: {spin: {risk: PROHIBITED}}")
    elif how == "interlock":
        more = {"interlocks": _battery_interlock}
    elif how == "precondition":
        profile, tool, tags, parameters = "manipulate", "do_place", "place", {"spot": "tray"}
    async with rigged(text, guard_with=more) as rig:
        if how == "latched":
            rig.guard.latch("somebody fell", "a test")
        elif how == "busy":
            rig.flat.close_gates()
            await rig.data("move", "do_spin", angle_rad=0.5, idempotency_key="first", wait_s=0)
            await rig.flat.turn.next_goal()
            await settle()
        before = len(rig.flat.goals)
        report = await rig.can_do(profile, tags, parameters=parameters)
        entry = entry_of(report, tool)
        assert entry["permission"] == "policy_denied"
        assert entry["reason"]
        assert not report["feasible"]
        refused = await rig.data(profile, tool, **parameters, idempotency_key="a")
        assert refused["status"] == "failed"
        assert refused["error_code"] == entry["error_code"]
        assert len(rig.flat.goals) == before


class Silent(Reader):
    """A topic that nobody publishes."""

    tells = True

    async def read(self) -> None:
        return None


def _battery_interlock(clock: Any) -> list[Interlock]:
    section = InterlockSection.model_validate(
        {
            "topic": "battery",
            "type": "sensor_msgs/msg/BatteryState",
            "field": "percentage",
            "ok": {"min": 0.1},
            "max_age_s": 10.0,
        }
    )
    return [Interlock("battery", section, Silent(), clock)]


async def test_too_many_starts_are_rate_limited_until_the_window_ends() -> None:
    """P35 P37 P38: asking is not counted; the answer holds until the next start is free."""
    async with rigged(_with_safety("  skills: {spin: {rate: {count: 1, per_s: 60.0}}}")) as rig:
        for _ in range(3):
            entry = entry_of(await rig.can_do("move", "turn", parameters={"angle_rad": 1.0}), "do_spin")
            assert entry["permission"] == "allowed"
        await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
        entry = entry_of(await rig.can_do("move", "turn"), "do_spin")
        assert entry["permission"] == "rate_limited"
        assert "1 in 60 s" in entry["details"]
        assert 50 < seconds_until(entry) <= 60
        refused = await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="b")
        assert refused["error_code"] == entry["error_code"] == "SAFETY_RATE"
        await rig.clock.advance(61.0)
        assert entry_of(await rig.can_do("move", "turn"), "do_spin")["permission"] == "allowed"


async def test_a_full_desk_of_approvals_is_rate_limited() -> None:
    """P35."""
    text = _with_safety("  max_pending: 1")
    async with rigged(text, approve=False) as rig:
        await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a", wait_s=0)
        while not rig.guard.desk.pending():
            await asyncio.sleep(0)
        entry = entry_of(await rig.can_do("manipulate", "gripper"), "do_gripper")
        assert (entry["permission"], entry["error_code"]) == ("rate_limited", "SAFETY_TOO_MANY_PENDING")


async def test_a_cooldown_is_told_with_its_end() -> None:
    """P35 P37."""
    async with rigged(_with_safety("  skills: {spin: {cooldown_s: 8.0}}")) as rig:
        await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
        await rig.clock.advance(2.0)
        entry = entry_of(await rig.can_do("move", "turn", parameters={"angle_rad": 1.0}), "do_spin")
        assert entry["permission"] == "cooldown_active"
        assert 5 < seconds_until(entry) <= 6
        await rig.clock.advance(6.0)
        assert entry_of(await rig.can_do("move", "turn"), "do_spin")["permission"] == "allowed"


@pytest.mark.parametrize(
    ("profile", "tool", "tags", "parameters", "bounds"),
    [
        ("move", "do_navigate_to", "drive", {"x_m": 99.0, "y_m": 1.0}, "-1 .. 12"),
        ("move", "do_navigate_to", "drive", {"place": "moon"}, "kitchen"),
        ("move", "do_spin", "turn", {"angle_rad": 99.0}, "6.283"),
        ("manipulate", "do_gripper", "gripper", {"position_m": 0.5}, "0 .. 0.085"),
        ("manipulate", "do_pick", "pick", {"object": "cup"}, "reaches 0.4 m"),
    ],
)
async def test_a_value_outside_its_bounds_is_out_of_range_with_the_bounds(
    profile: str, tool: str, tags: str, parameters: dict[str, Any], bounds: str
) -> None:
    """P35 P36: by the skill's own limits, and by the arm's reach."""
    text = CONFIG.replace("  gripper: gripper\n", "  gripper: gripper\n  reach_m: 0.4\n")
    async with rigged(text) as rig:
        report = await rig.can_do(profile, tags, parameters=parameters)
        entry = entry_of(report, tool)
        assert entry["permission"] == "out_of_range"
        assert bounds in f"{entry['reason']} {entry['details']}"
        assert not report["feasible"]
        assert entry["constraints"] is not None
        refused = await rig.data(profile, tool, **parameters, idempotency_key="a")
        assert refused["status"] == "failed"
        assert rig.flat.goals == []


async def test_a_goal_outside_the_fence_is_out_of_range_by_the_guards_own_words() -> None:
    """P36."""
    fence = "  geofence: {floors: {flat: {keep_in: {room: [[-1, -1], [5, -1], [5, 5], [-1, 5]]}}}}"
    text = _with_safety(fence).replace("x_m: 10.0, y_m: 6.5", "x_m: 2.0, y_m: 2.0")
    async with rigged(text, guard_with={"situation": lambda: _here(0.0)}) as rig:
        entry = entry_of(await rig.can_do("move", "drive", parameters={"x_m": 8.0, "y_m": 2.0}))
        assert (entry["permission"], entry["error_code"]) == ("out_of_range", "SAFETY_LIMIT")
        assert "allowed:" in entry["details"]
        assert entry_of(await rig.can_do("move", "drive", parameters=HERE))["permission"] == "allowed"


def _here(x_m: float) -> Any:
    from robot_mcp_kit.safety.situation import Situation
    from robot_mcp_kit.skills.base import Pose2D

    return Situation(here=Pose2D(x_m, 0.0, 0.0))


@pytest.mark.parametrize("how", ["server", "node", "step"])
async def test_what_cannot_be_reached_is_told(how: str, rig: Rig) -> None:
    """P35 P36: no action server, a node that is not active, a routine whose step has no server."""
    profile, tool, tags = "move", "do_navigate_to", "drive"
    if how == "server":
        rig.flat.navigate.die()
    elif how == "node":
        rig.bridge.refusing = TaskFailure(error_code="BRIDGE_INACTIVE", message="The node is not active.")
    else:
        rig.flat.gripper.die()
        profile, tool, tags = "manipulate", "do_pick", "pick"
    report = await rig.can_do(profile, tags)
    assert entry_of(report, tool)["permission"] == "source_unreachable"
    assert not report["feasible"]
    if how == "server":
        rig.flat.navigate.come_back()
        assert (await rig.can_do(profile, tags))["feasible"]


def test_the_permission_of_distributed_quorums_is_declared_and_never_told() -> None:
    """P35: one robot has no quorum; all others are reached by the tests above and over HTTP."""
    from robot_mcp_kit.server.promcp.capability import _PERMISSION, _WEIGHT

    told = {*_PERMISSION.values(), *_WEIGHT, "allowed", "requires_human_approval"}
    assert set(PERMISSIONS) - told == {"partition_no_quorum"}


async def test_of_several_reasons_the_gravest_is_the_permission_and_the_others_are_told_too() -> None:
    """P36."""
    async with rigged(_with_safety("  skills: {spin: {cooldown_s: 8.0}}")) as rig:
        await rig.data("move", "do_spin", angle_rad=1.0, idempotency_key="a")
        rig.flat.turn.die()
        rig.guard.latch("a test", "a test")
        entry = entry_of(await rig.can_do("move", "turn"), "do_spin")
        assert entry["permission"] == "policy_denied"
        assert "ROS_SERVER_UNAVAILABLE" in entry["details"]
        assert "SAFETY_RATE" in entry["details"]
