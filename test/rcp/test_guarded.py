"""Nothing reaches an adapter that was not declared, judged, agreed to and written down."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.rcp import (
    AdapterCapabilities,
    AdapterDisconnectedError,
    NotSupportedError,
    RCPAdapter,
    RCPError,
    RCPErrorCode,
)
from robot_mcp_kit.rcp.actions import ACTIONS
from robot_mcp_kit.rcp.guarded import Executed
from robot_mcp_kit.safety import audit
from robot_mcp_kit.safety.approvals import ApprovalError
from robot_mcp_kit.safety.assemble import build_guard, plain_parts
from robot_mcp_kit.safety.audit_verify import audit_key, records, verify
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.risk import ACTION_RISK, PROHIBITED_ACTIONS, RiskLevel
from robot_mcp_kit.safety.standing import sign
from robot_mcp_kit.skills.config.safety import StandingApprovalSection
from robot_mcp_kit.testing.clock import settle

from .probe import ANN, GOOD, KEY, MODEL, OTHER, RESTRICTED, SIX, Probe, Rig, rig_of

GUARDED = [name for name in GOOD if name not in RESTRICTED]


def code(caught: pytest.ExceptionInfo[RCPError]) -> RCPErrorCode:
    return caught.value.code


# -- what there is ------------------------------------------------------------------------------------------


def test_every_action_of_the_table_can_be_carried_out() -> None:
    """R1: none is listed without a method; reading is a resource's."""
    assert set(ACTIONS) | {"read"} == set(ACTION_RISK)
    for action in ACTIONS.values():
        assert callable(getattr(RCPAdapter, action.method))
        assert action.risk is ACTION_RISK[action.name]
    assert set(GOOD) == {name for name, level in ACTION_RISK.items() if level is not RiskLevel.SAFE}
    assert set(RESTRICTED) == {name for name, level in ACTION_RISK.items() if level is RiskLevel.RESTRICTED}


@pytest.mark.parametrize("action", list(GOOD))
async def test_a_guarded_action_waits_for_a_person_and_is_then_carried_out_once(
    action: str, rig: Rig
) -> None:
    """R18, R34, R37: request, decision, start and end are in the trail under the id that is answered."""
    waiting = await rig.ask(action)
    await settle()
    assert rig.adapter.calls == []
    assert waiting.risk is ACTION_RISK[action]
    rig.approve(waiting)
    done = await waiting.outcome
    assert len(rig.adapter.calls) == 1
    assert rig.adapter.calls[0][0] == ACTIONS[action].method
    chain = [record["event"] for record in rig.trail() if record.get("request") == done.audit_id]
    assert chain == ["requested", "decided", "started", "finished"]
    (entry,) = rig.entries()
    assert (entry.id, entry.action, entry.result) == (done.audit_id, action, "success")
    assert entry.approved_by == "operator:ann"
    assert entry.risk_level is ACTION_RISK[action]


@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("stop", {}),
        ("capture_position", {}),
        ("diff_program", {"module": "weld", "local_code": "MoveJ p1"}),
        ("validate", {"code": "x"}),
        ("validate_program", {"code": "x"}),
        ("disable_freedrive", {}),
        ("read", {"uri": "robot://joints"}),
    ],
)
async def test_a_safe_action_is_done_at_once_and_leaves_no_entry(
    action: str, params: dict[str, Any], rig: Rig
) -> None:
    """R17."""
    done = await rig.robot.request(action, params, MODEL)
    assert isinstance(done, Executed)
    assert done.audit_id == ""
    assert rig.events() == ["opened"]


@pytest.mark.parametrize("name", ["Move-To", " move_to ", "MOVE_TO", "moveTo"])
async def test_how_a_name_is_written_does_not_change_its_level(name: str, rig: Rig) -> None:
    """R5."""
    waiting = await rig.ask(name, **SIX)
    assert (waiting.action, waiting.risk) == ("move_to", RiskLevel.RESTRICTED)


@pytest.mark.parametrize("name", ["fly", "", "move_to_2", "___", "connect", "_act", "x" * 1_000_000, 7, None])
async def test_an_unknown_action_is_refused_before_anybody_is_asked(name: Any, rig: Rig) -> None:
    """R4: the protocol's own SDK would issue a token."""
    with pytest.raises(RCPError) as caught:
        await rig.robot.request(name, {}, MODEL)
    assert code(caught) in (RCPErrorCode.ACTION_NOT_SUPPORTED, RCPErrorCode.INVALID_PARAMS)
    assert rig.guard.desk.pending() == []
    assert rig.events() == ["opened"]


@pytest.mark.parametrize(
    "name",
    [
        *sorted(PROHIBITED_ACTIONS),
        "Override_Safety",
        " disable_estop ",
        "оverride_safety",
        "override\u200b_safety",
        "modify-safety-config",
    ],
)
async def test_a_prohibited_action_is_refused_and_remembered_though_the_adapter_has_it(
    name: str, rig: Rig
) -> None:
    """R2, R5, R27, R34."""
    with pytest.raises(RCPError) as caught:
        await rig.robot.request(name, {}, MODEL)
    assert code(caught) is RCPErrorCode.ACTION_PROHIBITED
    assert rig.adapter.calls == []
    assert rig.guard.desk.pending() == []
    (record,) = [record for record in rig.trail() if record["event"] == "prohibited"]
    assert record["requester"]["session"] == MODEL.session


async def test_an_adapter_or_a_configuration_cannot_lower_a_level(rigs: Callable[..., Rig]) -> None:
    """R3: raising works."""

    class Sly(Probe):
        ACTION_RISK = {"move_to": "SAFE"}  # noqa: RUF012
        risk_levels = ACTION_RISK

        def risk_of(self, action: str) -> str:
            return "SAFE"

    lower = dict.fromkeys(GOOD, RiskLevel.SAFE)
    rig = rigs(adapter=Sly(), raised=lower)
    for action in GOOD:
        assert (await rig.ask(action)).risk is ACTION_RISK[action]
    assert rig.adapter.calls == []
    with pytest.raises(TypeError):
        ACTION_RISK["move_to"] = RiskLevel.SAFE  # type: ignore[index]
    higher = rigs(raised={"validate": RiskLevel.GUARDED, "home": RiskLevel.PROHIBITED})
    assert (await higher.ask("validate", code="x")).risk is RiskLevel.GUARDED
    with pytest.raises(RCPError) as caught:
        await higher.robot.request("home", {}, MODEL)
    assert code(caught) is RCPErrorCode.ACTION_PROHIBITED


# -- capabilities and connection ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "action"),
    [
        ("read", "capture_position"),
        ("read", "diff_program"),
        ("read", "read"),
        ("validate", "validate"),
        ("validate", "validate_program"),
        ("deploy", "upload_program"),
        ("deploy", "modify_tool_data"),
        ("execute", "set_io"),
        ("execute", "test_device"),
        ("execute", "enable_freedrive"),
        *(("execute", action) for action in RESTRICTED),
    ],
)
async def test_what_is_not_declared_is_refused(capability: str, action: str, rig: Rig) -> None:
    """R12: before a person is asked."""
    rig.adapter.can = AdapterCapabilities(
        **{name: name != capability for name in ("read", "validate", "deploy", "execute")}
    )
    params = {
        "read": {"uri": "robot://tcp"},
        "diff_program": {"module": "a", "local_code": ""},
        "validate": {"code": ""},
        "validate_program": {"code": ""},
        "capture_position": {},
    }
    with pytest.raises(NotSupportedError, match=capability):
        await rig.robot.request(action, GOOD.get(action, params.get(action)), MODEL)
    assert rig.adapter.calls == []
    assert rig.guard.desk.pending() == []


async def test_a_capability_that_is_taken_back_after_the_request_counts(rig: Rig) -> None:
    """R12."""
    waiting = await rig.ask("move_to")
    rig.adapter.can.execute = False
    rig.approve(waiting)
    with pytest.raises(NotSupportedError):
        await waiting.outcome
    assert rig.adapter.calls == []
    assert rig.entries()[0].result == "rejected"


async def test_an_action_that_the_adapter_has_not_written_is_refused_before_anybody_is_asked(
    rigs: Callable[..., Rig],
) -> None:
    """R10: the protocol's own SDK fails after the approval."""

    class Little(Probe):
        jog = RCPAdapter.jog
        upload_program = RCPAdapter.upload_program

    rig = rigs(adapter=Little())
    for action in ("jog", "upload_program"):
        with pytest.raises(NotSupportedError, match=action):
            await rig.robot.request(action, GOOD[action], MODEL)


async def test_a_robot_that_cannot_be_stopped_is_not_moved(rigs: Callable[..., Rig]) -> None:
    """R28."""

    class Endless(Probe):
        stop = RCPAdapter.stop

    rig = rigs(adapter=Endless())
    for action in RESTRICTED:
        with pytest.raises(NotSupportedError, match="stop"):
            await rig.robot.request(action, GOOD[action], MODEL)
    assert await rig.ask("set_io")


@pytest.mark.parametrize("action", [*GOOD, "capture_position", "read"])
async def test_without_a_connection_nothing_is_done_and_nobody_asked(action: str, rig: Rig) -> None:
    """R11."""
    await rig.robot.disconnect()
    await rig.robot.disconnect()
    with pytest.raises(AdapterDisconnectedError) as caught:
        await rig.robot.request(
            action, GOOD.get(action, {"uri": "robot://io"} if action == "read" else {}), MODEL
        )
    assert code(caught) is RCPErrorCode.ADAPTER_DISCONNECTED
    assert rig.guard.desk.pending() == []


async def test_a_connection_that_is_lost_before_the_approval_is_found_out(rig: Rig) -> None:
    """R11."""
    waiting = await rig.ask("move_to")
    rig.adapter.connected = False
    rig.approve(waiting)
    with pytest.raises(AdapterDisconnectedError):
        await waiting.outcome
    assert rig.adapter.calls == []


async def test_connecting_twice_is_harmless_and_a_failure_says_why(rig: Rig) -> None:
    """R11."""
    await rig.robot.connect()
    await rig.robot.disconnect()

    async def refuses(config: dict[str, Any]) -> None:
        raise OSError("no route to 10.0.0.5")

    rig.adapter.connect = refuses
    with pytest.raises(RCPError, match="no route") as caught:
        await rig.robot.connect({"host": "10.0.0.5"})
    assert code(caught) is RCPErrorCode.CONNECTION_FAILED

    async def lies(config: dict[str, Any]) -> None:
        return

    rig.adapter.connect = lies
    with pytest.raises(RCPError, match="is_connected"):
        await rig.robot.connect()


async def test_a_controller_that_keeps_silent_is_given_up_and_a_password_is_not_repeated(rig: Rig) -> None:
    """R11, R39."""
    await rig.robot.disconnect()

    async def silent(config: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    rig.adapter.connect = silent
    connecting = asyncio.ensure_future(rig.robot.connect())
    await rig.clock.advance(30.1)
    with pytest.raises(RCPError, match="30 s") as caught:
        await connecting
    assert code(caught) is RCPErrorCode.CONNECTION_TIMEOUT

    async def talks(config: dict[str, Any]) -> None:
        raise OSError(f"login of {config['user']} with {config['password']} refused")

    rig.adapter.connect = talks
    with pytest.raises(RCPError, match="login of ann") as caught:
        await rig.robot.connect({"user": "ann", "password": "hunter2", "port": 7})
    assert "hunter2" not in str(caught.value)


# -- approval -----------------------------------------------------------------------------------------------


async def test_what_was_asked_for_is_what_is_carried_out(rig: Rig) -> None:
    """R19: whatever becomes of the caller's object."""
    params = {**SIX}
    waiting = await rig.ask("move_to", **params)
    given = await rig.robot.request("jog", (jog := dict(GOOD["jog"])), MODEL)
    params["x"], jog["axis"] = 2000.0, "J6"
    rig.approve(waiting)
    await waiting.outcome
    assert rig.adapter.calls[0][1].x == 100.0
    rig.approve(given)  # type: ignore[arg-type]
    await given.outcome  # type: ignore[union-attr]
    assert rig.adapter.calls[1][1] == "J1"


async def test_a_second_approval_carries_nothing_out(rig: Rig) -> None:
    """R20."""
    waiting = await rig.ask("move_to")
    rig.approve(waiting)
    await waiting.outcome
    with pytest.raises(ApprovalError):
        rig.approve(waiting)
    await settle()
    assert len(rig.adapter.calls) == 1


async def test_tokens_cannot_be_guessed_and_give_no_power(rig: Rig) -> None:
    """R20, R32: the requester's token is another than the one that decides, and both are long."""
    found = [await rig.ask("set_io") for _ in range(10)]
    tokens = {one.token for one in found} | {one.pending.token for one in found}
    assert len(tokens) == 20
    assert all(len(token) >= 43 for token in tokens)
    assert found[0].token not in repr(found[0])
    with pytest.raises(ApprovalError):
        rig.guard.decide(found[0].token, True, ANN)
    assert rig.adapter.calls == []


@pytest.mark.parametrize(("after_s", "good"), [(299.9, True), (300.1, False)])
async def test_a_request_lives_for_300_seconds_whatever_the_wall_clock_does(
    after_s: float, good: bool, rig: Rig
) -> None:
    """R21."""
    waiting = await rig.ask("set_io")
    rig.clock.step_wall(-100_000.0)
    await rig.clock.advance(after_s)
    if good:
        rig.approve(waiting)
        assert (await waiting.outcome).audit_id
    else:
        with pytest.raises(ApprovalError):
            rig.approve(waiting)
        with pytest.raises(RCPError) as caught:
            await waiting.outcome
        assert code(caught) is RCPErrorCode.APPROVAL_EXPIRED
    assert len(rig.adapter.calls) == good


async def test_of_two_approvals_at_once_one_counts(rig: Rig) -> None:
    """R22."""
    waiting = await rig.ask("move_to")

    async def approve() -> bool:
        await asyncio.sleep(0)
        try:
            rig.approve(waiting)
        except ApprovalError:
            return False
        return True

    assert sum(await asyncio.gather(*(approve() for _ in range(20)))) == 1
    await waiting.outcome
    assert len(rig.adapter.calls) == 1


async def test_a_refusal_is_told_as_rejected(rig: Rig) -> None:
    """R29, R34."""
    waiting = await rig.ask("move_to")
    rig.guard.decide(waiting.pending.token, False, ANN, "people in the cell")
    with pytest.raises(RCPError, match="people in the cell") as caught:
        await waiting.outcome
    assert code(caught) is RCPErrorCode.APPROVAL_REJECTED
    assert caught.value.data["result"] == "rejected"
    assert rig.adapter.calls == []
    (entry,) = rig.entries()
    assert (entry.id, entry.result, entry.approved_by) == (waiting.audit_id, "rejected", "operator:ann")


@pytest.mark.parametrize("approver", [Approver("connection-1", "rcp"), Approver("connection-2", "rcp")])
async def test_no_connection_of_the_protocol_can_approve(approver: Approver, rig: Rig) -> None:
    """R32."""
    waiting = await rig.ask("move_to")
    with pytest.raises(ApprovalError) as caught:
        rig.approve(waiting, approver)
    assert caught.value.code == "SELF_APPROVAL"
    assert rig.adapter.calls == []


async def test_a_request_dies_with_the_connection_that_asked(rig: Rig) -> None:
    """R33."""
    mine, others = await rig.ask("move_to"), await rig.ask("jog", OTHER)
    rig.guard.end_session(MODEL.session)
    with pytest.raises(RCPError) as caught:
        await mine.outcome
    assert code(caught) is RCPErrorCode.APPROVAL_EXPIRED
    rig.approve(others)
    await others.outcome
    assert [call[0] for call in rig.adapter.calls] == ["jog"]


async def test_only_the_one_that_asked_can_take_a_request_back(rig: Rig) -> None:
    """R33."""
    waiting = await rig.ask("move_to")
    assert not rig.robot.withdraw(waiting.token, OTHER)
    assert not rig.robot.withdraw("guess", MODEL)
    assert rig.robot.withdraw(waiting.token, MODEL)
    with pytest.raises(RCPError):
        await waiting.outcome
    with pytest.raises(ApprovalError):
        rig.approve(waiting)


# -- interlocks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", RESTRICTED)
async def test_interlocks_are_asked_after_the_approval_and_a_no_ends_it(action: str, rig: Rig) -> None:
    """R23, R25: with the reason; the approval is spent."""

    async def gate_open() -> tuple[bool, str]:
        return False, "gate 2 is open"

    waiting = await rig.ask(action)
    assert rig.adapter.asked_interlocks == 0
    rig.adapter.interlocks = gate_open
    rig.approve(waiting)
    with pytest.raises(RCPError, match="gate 2 is open") as caught:
        await waiting.outcome
    assert code(caught) is RCPErrorCode.INTERLOCKS_FAILED
    assert rig.adapter.asked_interlocks == 1
    assert rig.adapter.calls == []
    with pytest.raises(ApprovalError):
        rig.approve(waiting)
    assert rig.entries()[0].result == "rejected"


async def _raises() -> Any:
    raise RuntimeError("bus off")


async def _never() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("answer", [None, True, (1, ""), ("yes", ""), (True,), [True, ""], {"ok": True}])
async def test_an_interlock_that_does_not_clearly_say_yes_says_no(answer: Any, rig: Rig) -> None:
    """R24."""

    async def says() -> Any:
        return answer

    rig.adapter.interlocks = says
    with pytest.raises(RCPError) as caught:
        await rig.do("move_to")
    assert code(caught) is RCPErrorCode.INTERLOCKS_FAILED
    assert rig.adapter.calls == []


async def test_an_interlock_check_that_raises_or_hangs_counts_as_failed(rig: Rig) -> None:
    """R24."""
    rig.adapter.interlocks = _raises
    with pytest.raises(RCPError, match="bus off"):
        await rig.do("move_to")
    rig.adapter.interlocks = _never
    waiting = await rig.ask("move_to")
    rig.approve(waiting)
    await rig.clock.advance(1.1)
    with pytest.raises(RCPError, match="no answer within 1 s"):
        await waiting.outcome
    assert rig.adapter.calls == []


@pytest.mark.parametrize("action", GUARDED)
async def test_guarded_actions_do_not_ask_the_interlocks(action: str, rig: Rig) -> None:
    """R26."""
    rig.adapter.interlocks = _raises
    await rig.do(action)
    assert rig.adapter.asked_interlocks == 0


# -- stop ---------------------------------------------------------------------------------------------------


async def test_a_stop_ends_a_running_motion_and_whatever_waits(rig: Rig) -> None:
    """R28."""
    running, waiting = await rig.begin(), await rig.ask("jog", OTHER)
    answer = await rig.robot.request("stop", {}, OTHER)
    assert isinstance(answer, Executed)
    assert answer.result == {"stopped": True, "ended": ["move_to"]}
    assert rig.adapter.stops == 1
    await rig.clock.advance(2.1)
    with pytest.raises(RCPError, match="stopped") as caught:
        await running.outcome
    assert caught.value.data["stopped"] is True
    with pytest.raises(RCPError):
        await waiting.outcome
    assert [call[0] for call in rig.adapter.calls] == ["move_to"]
    assert {entry.action: entry.result for entry in rig.entries()} == {"move_to": "failed", "jog": "rejected"}


async def test_a_motion_that_ignores_the_stop_is_given_up_and_stopped_again(rig: Rig) -> None:
    """R28: within a bounded time."""
    running = await rig.begin()
    await rig.robot.stop()
    await rig.clock.advance(1.9)
    assert not running.outcome.done()
    await rig.clock.advance(0.2)
    with pytest.raises(RCPError) as caught:
        await running.outcome
    assert caught.value.data["abandoned"] is True
    await settle()
    assert rig.adapter.stops == 2


async def test_a_stop_right_after_the_approval_wins(rig: Rig) -> None:
    """R28: nothing begins that was approved before a stop."""
    waiting = await rig.ask("move_to")
    rig.approve(waiting)
    await rig.robot.stop()
    with pytest.raises(RCPError, match="stopped"):
        await waiting.outcome
    assert rig.adapter.calls == []


async def test_a_stop_while_the_interlocks_are_asked_wins(rig: Rig) -> None:
    """R28."""
    gate = asyncio.Event()

    async def slow() -> tuple[bool, str]:
        await gate.wait()
        return True, ""

    rig.adapter.interlocks = slow
    waiting = await rig.ask("move_to")
    rig.approve(waiting)
    await settle()
    await rig.robot.stop()
    gate.set()
    with pytest.raises(RCPError, match="stopped"):
        await waiting.outcome
    assert rig.adapter.calls == []


async def test_a_stop_works_without_connection_or_capability_and_says_when_it_was_not_taken(rig: Rig) -> None:
    """R28."""
    rig.adapter.can = AdapterCapabilities(read=False)
    rig.adapter.connected = False
    assert (await rig.robot.stop())["stopped"] is True

    async def broken() -> None:
        raise OSError("cable")

    rig.adapter.stop = broken
    with pytest.raises(RCPError, match="cable"):
        await rig.robot.request("stop", {}, MODEL)
    rig.adapter.stop = asyncio.Event().wait
    stopping = asyncio.ensure_future(rig.robot.stop())
    await rig.clock.advance(5.1)
    with pytest.raises(RCPError, match="5 s"):
        await stopping


async def test_a_motion_does_not_begin_while_another_runs(rig: Rig) -> None:
    """R28: the busy robot is still stopped at once."""
    await rig.begin()
    second = await rig.ask("jog")
    rig.approve(second)
    with pytest.raises(RCPError, match="move_to still runs") as caught:
        await second.outcome
    assert code(caught) is RCPErrorCode.ADAPTER_BUSY
    set_io = await rig.ask("set_io")
    assert set_io
    await rig.robot.stop()
    assert rig.adapter.stops == 1


async def test_the_emergency_stop_stops_a_motion_and_nothing_starts_until_it_is_reset(rig: Rig) -> None:
    """R28."""
    running = await rig.begin()
    rig.guard.latch("button", "ann")
    await rig.clock.advance(2.1)
    with pytest.raises(RCPError, match="button") as caught:
        await running.outcome
    assert code(caught) is RCPErrorCode.SAFETY_VIOLATION
    assert rig.adapter.stops >= 1
    with pytest.raises(RCPError, match="emergency stop"):
        await rig.robot.request("home", {}, MODEL)
    rig.guard.reset_estop(ANN)
    assert await rig.ask("home")


async def test_a_motion_that_takes_for_ever_is_stopped(rig: Rig) -> None:
    """R28."""
    running = await rig.begin()
    await rig.clock.advance(600.3)
    with pytest.raises(RCPError, match="longer than 600 s"):
        await running.outcome
    await settle()
    assert rig.adapter.stops == 1
    assert rig.trail()[-1]["result"] == "failed"


# -- what the adapter answers -------------------------------------------------------------------------------


async def test_a_failure_of_the_adapter_is_written_down_and_keeps_its_code(rig: Rig) -> None:
    """R34."""

    async def fails() -> Any:
        raise RCPError("overload in axis 2", code=RCPErrorCode.HARDWARE_ERROR)

    async def says_no() -> Any:
        return {"success": False, "message": "not today"}

    rig.adapter.doing = fails
    with pytest.raises(RCPError, match="axis 2") as caught:
        await rig.do("move_to")
    assert code(caught) is RCPErrorCode.HARDWARE_ERROR
    rig.adapter.doing = says_no
    assert (await rig.do("home")).result["success"] is False
    rig.adapter.doing = _raises
    with pytest.raises(RCPError, match="bus off") as caught:
        await rig.do("jog")
    assert code(caught) is RCPErrorCode.ADAPTER_ERROR
    assert [entry.result for entry in rig.entries()] == ["failed", "failed", "failed"]


async def test_an_upload_answers_with_the_audit_id_and_its_difference_is_written_down(rig: Rig) -> None:
    """R39, R44: the program's text is not."""
    code_text = "MoveJ p1\nMoveL p2\nSet secret_door"
    done = await rig.do("upload_program", module="weld", code=code_text)
    assert done.result["audit_id"] == done.audit_id
    (entry,) = rig.entries()
    assert entry.diff_summary == "+1 -0 ~1 lines"
    assert entry.params["module"] == "weld"
    written = b"".join(path.read_bytes() for path in (rig.folder / "audit").iterdir())
    assert b"secret_door" not in written
    assert b"MoveL" not in written


async def test_the_person_sees_what_an_upload_would_change(rig: Rig) -> None:
    """R39."""
    waiting = await rig.ask("upload_program")
    assert waiting.pending.summary == "put program weld on the controller (2 lines): +0 -0 ~1 lines"


# -- the trail ----------------------------------------------------------------------------------------------


async def test_the_trail_names_the_robot_and_is_only_added_to(rig: Rig) -> None:
    """R35, R36."""
    await rig.do("set_io")
    file = rig.folder / "audit" / "audit-00000001.jsonl"
    before = file.read_bytes()
    await rig.do("move_to")
    after = file.read_bytes()
    assert hashlib.sha256(after[: len(before)]).digest() == hashlib.sha256(before).digest()
    entries = rig.entries()
    assert {entry.robot for entry in entries} == {"ABB IRB 6700 (SN: 12345)"}
    assert len({entry.id for entry in entries}) == 2
    assert all(entry.timestamp.endswith("Z") for entry in entries)
    assert verify(rig.folder / "audit", audit_key(KEY)).ok


async def test_what_cannot_be_written_down_is_not_carried_out(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R38."""
    waiting = await rig.ask("move_to")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit.os, "write", full)
    rig.approve(waiting)
    with pytest.raises(RCPError, match="audit trail") as caught:
        await waiting.outcome
    assert code(caught) is RCPErrorCode.SAFETY_VIOLATION
    with pytest.raises(RCPError, match="audit trail"):
        await rig.robot.request("set_io", GOOD["set_io"], MODEL)
    assert rig.adapter.calls == []
    monkeypatch.undo()


async def test_a_crash_while_it_runs_leaves_started_and_unknown(rig: Rig) -> None:
    """R40."""
    await rig.begin()
    copy = rig.folder.parent / "after-the-crash"
    copy.mkdir()
    (copy / "audit").mkdir()
    for file in (rig.folder / "audit").iterdir():
        (copy / "audit" / file.name).write_bytes(file.read_bytes())
    config = rig.guard.config
    guard = build_guard(config, {}, plain_parts(copy, clock=rig.clock, wall=rig.clock.wall, key=KEY))
    await guard.aclose()
    (told,) = [record for record in records(copy / "audit") if record["event"] == "interrupted"]
    assert told["skill"] == "rcp.move_to"
    assert told["known"].startswith("started, the end is not written")


async def test_requests_at_once_leave_whole_lines(rig: Rig) -> None:
    """R41."""
    await asyncio.gather(*(rig.do("set_io") for _ in range(8)))
    found = verify(rig.folder / "audit", audit_key(KEY))
    assert found.ok, found.lines()
    assert [entry.result for entry in rig.entries()] == ["success"] * 8


async def test_a_standing_approval_covers_an_action_within_its_bounds(tmp_path: Any) -> None:
    """R18, R32: a person agreed in advance, over another channel."""
    section = StandingApprovalSection.model_validate(
        {
            "id": "lamp",
            "operator": "ann",
            "robot": "cell",
            "skills": ["rcp.set_io"],
            "bounds": {"signal": {"choices": ["DO_1"]}},
        }
    )
    rig = rig_of(tmp_path, standing=[sign(section, KEY)])
    done = await rig.robot.request("set_io", {"signal": "DO_1", "value": 1}, MODEL)
    assert isinstance(done, Executed)
    assert rig.entries()[0].approved_by == "standing:ann"
    assert await rig.ask("set_io", signal="AO_1", value=0.5)
    await rig.close()


async def test_the_requester_is_in_the_trail(rig: Rig) -> None:
    """R32, R34."""
    await rig.robot.request("set_io", GOOD["set_io"], Requester("c9", "rcp", "assistant 1.0"))
    (record,) = [record for record in rig.trail() if record["event"] == "requested"]
    assert record["requester"] == {"session": "c9", "surface": "rcp", "client": "assistant 1.0"}
    assert record["arguments"] == {"signal": "DO_1", "value": 1.0}
