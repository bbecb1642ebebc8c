"""The protocol over real sockets: methods, codes, approvals by another person, events, hostile clients."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

pytest.importorskip("websockets")

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.rcp import AdapterCapabilities, RCPAdapter, RCPErrorCode
from robot_mcp_kit.rcp.server import DEFAULT_PORT, RCPServer, RCPServerSettings
from robot_mcp_kit.rcp.server.connection import Connection
from robot_mcp_kit.rcp.server.jsonrpc import InvalidMessageError, parse
from robot_mcp_kit.rcp.simulated import SimulatedAdapter
from robot_mcp_kit.safety.audit_verify import records
from robot_mcp_kit.testing import FakeClock, assert_eventually

from .probe import GOOD, SIX, Probe, Rig, rig_of
from .wire import Client, WireError, client_of

OPERATOR = "the operator's key of a test"


class Cell:
    """A served robot, and ways to come to it."""

    def __init__(self, rig: Rig, server: RCPServer, stack: AsyncExitStack) -> None:
        self.rig, self.server, self._stack = rig, server, stack

    async def client(self, bearer: str | None = None, **headers: str) -> Client:
        return await self._stack.enter_async_context(client_of(self.server.url, bearer, **headers))

    async def operator(self) -> Client:
        return await self.client(OPERATOR)

    async def approve(self, asked: dict[str, Any]) -> Any:
        operator = await self.operator()
        return await operator.call("rcp.action.approve", token=asked["token"], approver="ann")


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes served robots."""
    async with AsyncExitStack() as stack:

        async def make(
            adapter: RCPAdapter | None = None, clock: FakeClock | None = None, **settings: Any
        ) -> Cell:
            rig = rig_of(tmp_path, adapter, clock=clock)
            stack.push_async_callback(rig.close)
            given = {"port": 0, "operator_key": OPERATOR, **settings}
            server = RCPServer(rig.robot, RCPServerSettings.model_validate(given))
            await stack.enter_async_context(server.running())
            return Cell(rig, server, stack)

        yield make


@pytest.fixture
async def cell(cells: Callable[..., Any]) -> Cell:
    made: Cell = await cells()
    return made


# -- methods ------------------------------------------------------------------------------------------------


async def test_a_client_learns_who_the_robot_is_and_what_it_can(cell: Cell) -> None:
    """R45: context as data and as the prompt block."""
    client = await cell.client()
    assert (await client.call("rcp.discover"))["model"] == "IRB 6700"
    assert (await client.call("rcp.capabilities"))["execute"] is True
    context = await client.call("rcp.context")
    assert context["identity"]["serial"] == "12345"
    assert context["missing"] == {}
    assert context["prompt_block"] == (await cell.rig.adapter.get_context()).to_prompt_block()


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("identity", lambda data: data["manufacturer"] == "ABB"),
        ("joints", lambda data: data[0]["position_deg"] == 10.0),
        ("tcp", lambda data: data == {"x": 1.0, "y": 2.0, "z": 3.0, "rx": 4.0, "ry": 5.0, "rz": 6.0}),
        ("io", lambda data: len(data["signals"]) == 4),
        ("programs", lambda data: data[0]["loaded"] is True),
        ("tools", lambda data: data[0]["name"] == "torch"),
        ("context", lambda data: data["tcp"]["x"] == 1.0),
        ("conventions", lambda data: data["rotation"]["kind"] == "opaque" and "milli" in str(data["units"])),
    ],
)
async def test_every_resource_can_be_read(name: str, check: Callable[[Any], bool], cell: Cell) -> None:
    """R16: and what its numbers mean."""
    client = await cell.client()
    assert check(await client.call("rcp.read", uri=f"robot://{name}"))
    assert check(await client.act("read", {"uri": f"robot://{name}"}))


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("robot://nothing", RCPErrorCode.RESOURCE_NOT_FOUND),
        ("robot://Joints", RCPErrorCode.RESOURCE_NOT_FOUND),
        ("file:///etc/passwd", RCPErrorCode.INVALID_RESOURCE_URI),
        ("", RCPErrorCode.INVALID_RESOURCE_URI),
        (7, RCPErrorCode.INVALID_RESOURCE_URI),
    ],
)
async def test_a_resource_that_there_is_not_has_a_code(uri: Any, code: RCPErrorCode, cell: Cell) -> None:
    """R4."""
    client = await cell.client()
    with pytest.raises(WireError) as caught:
        await client.call("rcp.read", uri=uri)
    assert caught.value.code == code
    assert "robot://joints" in str(caught.value.data)


async def test_the_context_answers_without_a_connection_and_says_what_is_missing(cell: Cell) -> None:
    """R11, R13."""
    client = await cell.client()
    cell.rig.adapter.connected = False
    context = await client.call("rcp.context")
    assert context["identity"] is None
    assert set(context["missing"]) == {"identity", "joints", "tcp", "io", "programs", "tools"}
    assert "not connected" in context["prompt_block"]
    with pytest.raises(WireError) as caught:
        await client.call("rcp.discover")
    assert caught.value.code == RCPErrorCode.ADAPTER_DISCONNECTED


async def test_an_unknown_method_is_named_with_the_nearest(cell: Cell) -> None:
    """R4."""
    client = await cell.client()
    with pytest.raises(WireError, match="Did you mean") as caught:
        await client.call("rcp.discovr")
    assert caught.value.code == RCPErrorCode.METHOD_NOT_FOUND


# -- approval -----------------------------------------------------------------------------------------------


async def test_a_guarded_action_is_carried_out_after_an_operator_agreed(cell: Cell) -> None:
    """R18, R37, R44: the one that asked is told, and the id is the trail's."""
    client = await cell.client()
    asked = await client.act("upload_program", GOOD["upload_program"])
    assert asked["status"] == "approval_required"
    assert asked["risk_level"] == "GUARDED"
    assert asked["expires_in_seconds"] == 300
    assert cell.rig.adapter.calls == []
    done = await cell.approve(asked)
    assert done["status"] == "executed"
    assert done["result"]["audit_id"] == done["audit_id"] == asked["audit_id"]
    told = await client.notified("rcp.action_result")
    assert (told["token"], told["status"], told["audit_id"]) == (asked["token"], "executed", done["audit_id"])
    (entry,) = cell.rig.entries()
    assert (entry.id, entry.approved_by, entry.result) == (done["audit_id"], "operator:ann", "success")


@pytest.mark.parametrize("method", ["rcp.action.approve", "rcp.action.reject"])
async def test_neither_the_one_that_asked_nor_another_client_decides(method: str, cell: Cell) -> None:
    """R32: and the attempt is remembered."""
    client, other = await cell.client(), await cell.client()
    asked = await client.act("move_to", SIX)
    for one in (client, other):
        with pytest.raises(WireError, match="operator") as caught:
            await one.call(method, token=asked["token"], approver="ann", reason="it is fine")
        assert caught.value.code == RCPErrorCode.APPROVAL_REQUIRED
    assert cell.rig.adapter.calls == []
    attempts = [record for record in cell.rig.trail() if record["event"] == "approval_refused"]
    assert len(attempts) == 2
    assert (await cell.approve(asked))["status"] == "executed"


async def test_an_operators_connection_asks_for_nothing_that_must_be_decided(cell: Cell) -> None:
    """R32: it could agree to its own request."""
    operator = await cell.operator()
    with pytest.raises(WireError, match="another connection"):
        await operator.act("move_to", SIX)
    assert (await operator.act("stop"))["stopped"] is True
    assert cell.rig.guard.desk.pending() == []


async def test_operators_see_what_waits_and_are_told_of_what_comes(cell: Cell) -> None:
    """R18."""
    operator, client = await cell.operator(), await cell.client()
    asked = await client.act("jog", GOOD["jog"])
    told = await operator.notified("rcp.approval_required")
    assert told["goal"] == "jog J1 + at speed 0.5"
    (waiting,) = (await operator.call("rcp.approvals"))["approvals"]
    assert waiting["approval_id"] == asked["approval_id"]
    assert waiting["token"] != asked["token"]
    answer = await operator.call(
        "rcp.action.reject", token=waiting["token"], approver="ann", reason="not now"
    )
    assert answer["status"] == "rejected"
    told = await client.notified("rcp.action_result")
    assert told["status"] == "rejected"
    assert told["error"]["code"] == RCPErrorCode.APPROVAL_REJECTED
    with pytest.raises(WireError):
        await client.call("rcp.approvals")


async def test_a_decision_needs_a_name(cell: Cell) -> None:
    """R34."""
    client, operator = await cell.client(), await cell.operator()
    asked = await client.act("home")
    with pytest.raises(WireError, match="approver"):
        await operator.call("rcp.action.approve", token=asked["token"])
    assert cell.rig.adapter.calls == []


async def test_a_token_works_once_and_a_guess_never(cell: Cell) -> None:
    """R20, R22."""
    client, operator = await cell.client(), await cell.operator()
    asked = await client.act("home")
    tries = [operator.begin("rcp.action.approve", token=asked["token"], approver="ann") for _ in range(5)]
    got = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(not isinstance(one, WireError) for one in got) == 1
    assert {one.code for one in got if isinstance(one, WireError)} == {RCPErrorCode.APPROVAL_EXPIRED}
    for guess in ("", "x", asked["approval_id"], "0" * 43, "é"):
        with pytest.raises(WireError):
            await operator.call("rcp.action.approve", token=guess, approver="ann")
    assert [call[0] for call in cell.rig.adapter.calls] == ["home"]


async def test_parameters_sent_with_the_approval_change_nothing(cell: Cell) -> None:
    """R19."""
    client, operator = await cell.client(), await cell.operator()
    asked = await client.act("move_to", SIX)
    await operator.call(
        "rcp.action.approve", token=asked["token"], approver="ann", params={**SIX, "x": 2000.0}, action="home"
    )
    ((name, position),) = cell.rig.adapter.calls
    assert (name, position.x) == ("move_to", 100.0)


async def test_what_a_client_asked_for_dies_with_its_connection(cell: Cell) -> None:
    """R33."""
    staying, leaving = await cell.client(), await cell.client()
    kept = await staying.act("jog", GOOD["jog"])
    asked = await leaving.act("move_to", SIX)
    await leaving.aclose()
    await assert_eventually(lambda: len(cell.rig.guard.desk.pending()) == 1)
    with pytest.raises(WireError) as caught:
        await cell.approve(asked)
    assert caught.value.code == RCPErrorCode.APPROVAL_EXPIRED
    assert (await cell.approve(kept))["status"] == "executed"
    assert [call[0] for call in cell.rig.adapter.calls] == ["jog"]


async def test_only_its_own_client_takes_a_request_back(cell: Cell) -> None:
    """R33."""
    client, other = await cell.client(), await cell.client()
    asked = await client.act("home")
    assert (await other.call("rcp.action.cancel", token=asked["token"])) == {"cancelled": False}
    assert (await client.call("rcp.action.cancel", token=asked["token"])) == {"cancelled": True}
    assert (await client.call("rcp.action.cancel", token=asked["token"])) == {"cancelled": False}
    assert cell.rig.guard.desk.pending() == []


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("override_safety", {}, RCPErrorCode.ACTION_PROHIBITED),
        ("Disable-EStop", {}, RCPErrorCode.ACTION_PROHIBITED),
        ("fly", {}, RCPErrorCode.ACTION_NOT_SUPPORTED),
        ("move_to", {"x": 1.0}, RCPErrorCode.INVALID_PARAMS),
        ("move_to", {**SIX, "x": "100"}, RCPErrorCode.INVALID_PARAMS),
        ("move_to", {**SIX, "x": True}, RCPErrorCode.INVALID_PARAMS),
        ("move_to", {**SIX, "x": 99_999.0}, RCPErrorCode.SAFETY_VIOLATION),
        ("jog", {"axis": "J1", "direction": 1}, RCPErrorCode.INVALID_PARAMS),
        ("set_io", {"signal": "DI_1", "value": 1}, RCPErrorCode.SAFETY_VIOLATION),
        ("move_to", [1, 2, 3], RCPErrorCode.INVALID_PARAMS),
    ],
)
async def test_a_refusal_has_its_code_and_nothing_waits(
    action: str, params: Any, code: RCPErrorCode, cell: Cell
) -> None:
    """R4, R5, R27, R30, R31."""
    client = await cell.client()
    with pytest.raises(WireError) as caught:
        await client.call("rcp.action.request", action=action, params=params)
    assert caught.value.code == code
    assert cell.rig.guard.desk.pending() == []
    assert cell.rig.adapter.calls == []


async def test_interlocks_are_told_with_their_code(cell: Cell) -> None:
    """R23."""

    async def open_gate() -> tuple[bool, str]:
        return False, "gate 2 is open"

    cell.rig.adapter.interlocks = open_gate
    client = await cell.client()
    with pytest.raises(WireError, match="gate 2") as caught:
        await cell.approve(await client.act("home"))
    assert caught.value.code == RCPErrorCode.INTERLOCKS_FAILED


# -- stop ---------------------------------------------------------------------------------------------------


async def test_any_client_stops_a_motion_while_others_wait_for_it(cell: Cell) -> None:
    """R28: also the one whose own request is still being carried out."""
    cell.rig.adapter.doing = asyncio.Event().wait
    client, other, operator = await cell.client(), await cell.client(), await cell.operator()
    asked = await client.act("move_to", SIX)
    approving = operator.begin("rcp.action.approve", token=asked["token"], approver="ann")
    await assert_eventually(lambda: bool(cell.rig.adapter.calls))
    assert (await other.act("stop"))["ended"] == ["move_to"]
    await cell.rig.clock.advance(2.5)
    with pytest.raises(WireError, match="stopped"):
        await approving
    assert (await client.notified("rcp.action_result"))["status"] == "failed"


async def test_a_stop_is_taken_as_a_notification_and_nothing_else_is_begun_by_one(cell: Cell) -> None:
    """R28."""
    client = await cell.client()
    for action in ("home", "stop"):
        message = {"jsonrpc": "2.0", "method": "rcp.action.request", "params": {"action": action}}
        await client.socket.send(json.dumps(message))
    await assert_eventually(lambda: cell.rig.adapter.stops == 1)
    assert cell.rig.guard.desk.pending() == []


async def test_a_stop_passes_every_limit(cells: Callable[..., Any]) -> None:
    """R28: of a client that has used up its rate and its open requests."""
    cell: Cell = await cells(messages_per_s=0.001, burst=2, max_in_flight=1)
    client = await cell.client()
    await client.call("rcp.capabilities")
    await client.call("rcp.capabilities")
    with pytest.raises(WireError) as caught:
        await client.call("rcp.capabilities")
    assert caught.value.code == RCPErrorCode.TOO_MANY_REQUESTS
    assert (await client.act("stop"))["stopped"] is True
    assert cell.rig.adapter.stops == 1
    assert (await client.call("rcp.estop", reason="smoke"))["latched"] is True
    with pytest.raises(WireError):
        await client.call("rcp.estop.reset", approver="me")
    operator = await cell.operator()
    assert "smoke" in (await operator.call("rcp.estop.reset", approver="ann"))["was"]


async def test_a_client_that_leaves_does_not_stop_what_was_agreed_to(cell: Cell) -> None:
    """R33: a motion belongs to the robot, not to the connection."""
    gate = asyncio.Event()

    async def slowly() -> dict[str, Any]:
        await gate.wait()
        return {"success": True}

    cell.rig.adapter.doing = slowly
    client, operator = await cell.client(), await cell.operator()
    asked = await client.act("home")
    approving = operator.begin("rcp.action.approve", token=asked["token"], approver="ann")
    await assert_eventually(lambda: bool(cell.rig.adapter.calls))
    await client.aclose()
    await operator.aclose()
    gate.set()
    await assert_eventually(lambda: [entry.result for entry in cell.rig.entries()] == ["success"])
    approving.cancel()


# -- events -------------------------------------------------------------------------------------------------


@pytest.fixture
async def simulated(cells: Callable[..., Any]) -> Cell:
    clock = FakeClock(1000.0)
    adapter = SimulatedAdapter(clock=clock, wall=clock.wall)
    await adapter.connect({})
    made: Cell = await cells(adapter, clock)
    return made


async def test_events_come_from_the_asked_channels_in_unix_milliseconds(simulated: Cell) -> None:
    """R47, R48, R49: asked for by the short name, told by the protocol's."""
    client = await simulated.client()
    answer = await client.call("rcp.subscribe", channels=["io"])
    assert answer == {"subscribed": ["io_changed"], "streaming": True}
    robot = simulated.rig.adapter
    await assert_eventually(lambda: bool(robot._listeners))
    robot._tell("position_changed", {})
    robot.set_input("part_present", 1)
    event = await client.notified("rcp.event")
    assert event["channel"] == "io_changed"
    assert event["data"] == {"signal": "part_present", "value": 1}
    assert event["timestamp"] == pytest.approx(1_765_532_000_000.0, abs=1.0)
    assert client.notifications.empty()


async def test_subscriptions_add_up_and_end(simulated: Cell) -> None:
    """R47."""
    client, robot = await simulated.client(), simulated.rig.adapter
    await client.call("rcp.subscribe", channels=["io_changed"])
    both = await client.call("rcp.subscribe", channels=["program"])
    assert both["subscribed"] == ["io_changed", "program_state"]
    await assert_eventually(lambda: len(robot._listeners) == 1)
    robot._tell("program_state", {"name": "pick", "running": True})
    assert (await client.notified("rcp.event"))["channel"] == "program_state"
    left = await client.call("rcp.unsubscribe", channels=["io", "program"])
    assert left == {"subscribed": [], "streaming": False}
    await assert_eventually(lambda: robot._listeners == [])


async def test_the_stream_ends_with_the_client(simulated: Cell) -> None:
    """R47."""
    client, robot = await simulated.client(), simulated.rig.adapter
    await client.call("rcp.subscribe", channels=["*"])
    await assert_eventually(lambda: len(robot._listeners) == 1)
    await client.aclose()
    await assert_eventually(lambda: robot._listeners == [])


async def test_no_stream_is_no_error_and_an_unknown_channel_is(cell: Cell) -> None:
    """R47."""
    client = await cell.client()
    assert (await client.call("rcp.subscribe", channels=["io"]))["streaming"] is False
    with pytest.raises(WireError, match="io_changed") as caught:
        await client.call("rcp.subscribe", channels=["cycle"])
    assert caught.value.code == RCPErrorCode.SUBSCRIPTION_FAILED
    for odd in (None, [], "io", [7], [""], ["a\nb"], ["x"] * 65):
        with pytest.raises(WireError) as caught:
            await client.call("rcp.subscribe", channels=odd)
        assert caught.value.code == RCPErrorCode.INVALID_PARAMS


async def test_a_stream_that_breaks_is_told(cell: Cell) -> None:
    """R47."""

    async def breaks() -> AsyncIterator[Any]:
        raise OSError("cable")
        yield

    cell.rig.adapter.can = AdapterCapabilities(events=["safety"], streaming=True)
    cell.rig.adapter.subscribe = lambda channels: breaks()
    client = await cell.client()
    await client.call("rcp.subscribe", channels=["safety"])
    event = await client.notified("rcp.event")
    assert event["channel"] == "error"
    assert "cable" in event["data"]["message"]
    assert event["timestamp"] > 1e12


async def test_subscriptions_at_once_do_not_lose_each_other(simulated: Cell) -> None:
    """R47."""
    client, robot = await simulated.client(), simulated.rig.adapter
    names = ["io", "program", "position", "error"]
    answers = await asyncio.gather(*(client.begin("rcp.subscribe", channels=[name]) for name in names))
    assert max(len(answer["subscribed"]) for answer in answers) == 4
    await assert_eventually(lambda: len(robot._listeners) == 1)
    assert len(robot._listeners[0].channels) == 4


async def test_a_flood_of_events_drops_events_and_no_results(rig: Rig) -> None:
    """R37, R47: of a client that does not read."""
    gate, sent = asyncio.Event(), list[dict[str, Any]]()

    class Slow:
        async def send(self, message: str, /) -> None:
            await gate.wait()
            sent.append(json.loads(message))

        async def close(self, code: int = 1000, reason: str = "") -> None:
            return

    settings = RCPServerSettings(max_queued_events=2)
    connection = Connection(
        rig.robot, Slow(), settings, rig.clock, is_operator=False, client="", all_operators=set()
    )
    connection.tell("rcp.event", {"n": 0})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for number in range(3):
        connection.tell("rcp.action_result", {"n": number})
    for number in range(1, 100):
        connection.tell("rcp.event", {"n": number})
    gate.set()
    await assert_eventually(lambda: len(sent) == 6)
    told = [(message["method"].removeprefix("rcp."), message["params"]["n"]) for message in sent]
    results = [("action_result", number) for number in range(3)]
    assert told == [("event", 0), *results, ("event", 98), ("event", 99)]
    await connection.ended()


async def test_a_whole_motion_of_the_simulated_robot(simulated: Cell) -> None:
    """R14, R28: asked, agreed to, carried out, read."""
    client, operator = await simulated.client(), await simulated.operator()
    place = {"x": 600.0, "y": 0.0, "z": 300.0, "rx": 180.0, "ry": 0.0, "rz": 0.0}
    asked = await client.act("move_to", place)
    approving = operator.begin("rcp.action.approve", token=asked["token"], approver="ann")
    await assert_eventually(lambda: simulated.rig.adapter._motion.moving)
    await simulated.rig.clock.advance(5.0)
    assert (await approving)["result"]["success"] is True
    tcp = await client.call("rcp.read", uri="robot://tcp")
    assert tcp["x"] == pytest.approx(600.0, abs=1e-6)
    assert tcp["z"] == pytest.approx(300.0, abs=1e-6)


# -- odd messages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", RCPErrorCode.PARSE_ERROR),
        ("{", RCPErrorCode.PARSE_ERROR),
        ("nonsense", RCPErrorCode.PARSE_ERROR),
        (
            '{"jsonrpc": "2.0", "method": "rcp.context", "params": {"x": NaN}, "id": 9}',
            RCPErrorCode.PARSE_ERROR,
        ),
        ('{"jsonrpc": "2.0", "method": "a", "method": "b", "id": 9}', RCPErrorCode.PARSE_ERROR),
        ("[" * 100_000, RCPErrorCode.PARSE_ERROR),
        ('{"id": ' + "9" * 10_000 + "}", RCPErrorCode.PARSE_ERROR),
        ("[]", RCPErrorCode.INVALID_REQUEST),
        ('[{"jsonrpc": "2.0", "method": "rcp.context", "id": 9}]', RCPErrorCode.INVALID_REQUEST),
        ("null", RCPErrorCode.INVALID_REQUEST),
        ("7", RCPErrorCode.INVALID_REQUEST),
        ("{}", RCPErrorCode.INVALID_REQUEST),
        ('{"jsonrpc": "1.0", "method": "rcp.context", "id": "a"}', RCPErrorCode.INVALID_REQUEST),
        ('{"jsonrpc": "2.0", "method": 7, "id": "a"}', RCPErrorCode.INVALID_REQUEST),
        ('{"jsonrpc": "2.0", "method": "rcp.context", "id": null}', RCPErrorCode.INVALID_REQUEST),
        ('{"jsonrpc": "2.0", "method": "rcp.context", "id": true}', RCPErrorCode.INVALID_REQUEST),
        ('{"jsonrpc": "2.0", "method": "rcp.context", "id": {}}', RCPErrorCode.INVALID_REQUEST),
        (
            '{"jsonrpc": "2.0", "method": "rcp.context", "params": [1], "id": "a"}',
            RCPErrorCode.INVALID_PARAMS,
        ),
        (b'{"jsonrpc": "2.0", "method": "rcp.context", "id": 9}', RCPErrorCode.INVALID_REQUEST),
    ],
    ids=range(19),
)
async def test_what_is_no_message_is_answered_and_the_connection_lives(
    text: str | bytes, code: RCPErrorCode, cell: Cell
) -> None:
    """R4."""
    client = await cell.client()
    answer = await client.raw(text)
    assert answer["error"]["code"] == code
    assert answer["id"] in (None, "a")
    assert (await client.call("rcp.capabilities"))["read"] is True


async def test_an_adapter_that_breaks_is_no_broken_server(cell: Cell) -> None:
    """R13."""

    def breaks() -> Any:
        raise RuntimeError("secret inside")

    client = await cell.client()
    cell.rig.adapter.capabilities = breaks
    with pytest.raises(WireError) as caught:
        await client.call("rcp.capabilities")
    assert caught.value.code == RCPErrorCode.INTERNAL_ERROR
    assert "secret" not in str(caught.value)
    assert (await client.call("rcp.discover"))["model"] == "IRB 6700"


KEYS = st.sampled_from(["jsonrpc", "id", "params", "method"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=60), st.binary(max_size=20), JSON.map(json.dumps)))
def test_whatever_is_sent_is_a_message_or_is_refused(text: str | bytes) -> None:
    """R4: by one kind of error."""
    try:
        message = parse(text)
    except InvalidMessageError as error:
        code = error.error.code
    else:
        code = None
        assert isinstance(message.params, dict)
    assert code in (None, -32700, -32600, -32602)


# -- who may come -------------------------------------------------------------------------------------------


async def status_of(url: str, **headers: str) -> int:
    try:
        async with connect(url, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as error:
        return error.response.status_code


async def test_pages_of_browsers_and_other_host_names_are_turned_away(cells: Callable[..., Any]) -> None:
    """R32: a page that somebody has open must not drive the robot."""
    cell: Cell = await cells(allowed_origins=["https://cell.example"])
    url = cell.server.url
    assert await status_of(url) == 101
    assert await status_of(url, Origin="https://evil.example") == 403
    assert await status_of(url, Origin="null") == 403
    assert await status_of(url, Origin="http://127.0.0.1:9796") == 403
    assert await status_of(url, Origin="https://cell.example") == 101
    assert await status_of(url + "/elsewhere") == 404
    async with connect(url, proxy=None, additional_headers={}) as socket:
        assert socket.response is not None
    port = cell.server.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: rebound.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b" 421 " in await asyncio.wait_for(reader.readline(), 10.0)
    writer.close()


async def test_a_token_is_asked_of_clients_and_the_operators_key_is_another(
    cells: Callable[..., Any],
) -> None:
    """R32."""
    cell: Cell = await cells(token="the token of clients")
    url = cell.server.url
    assert await status_of(url) == 401
    assert await status_of(url, Authorization="Bearer wrong") == 401
    assert await status_of(url, Authorization="Basic the token of clients") == 401
    client = await cell.client("the token of clients")
    asked = await client.act("home")
    with pytest.raises(WireError):
        await client.call("rcp.action.approve", token=asked["token"], approver="ann")
    assert (await cell.approve(asked))["status"] == "executed"


async def test_a_wrong_key_is_no_client_either(cell: Cell) -> None:
    """R32: who tries to be an operator is not let in as something else."""
    assert await status_of(cell.server.url, Authorization="Bearer wrong") == 401


async def test_clients_are_limited_and_do_not_keep_the_operator_out(cells: Callable[..., Any]) -> None:
    """R28, R33."""
    cell: Cell = await cells(max_connections=2, max_operators=1)
    first = await cell.client()
    await cell.client()
    assert await status_of(cell.server.url) == 503
    await cell.operator()
    assert await status_of(cell.server.url, Authorization=f"Bearer {OPERATOR}") == 503
    await first.aclose()

    async def free() -> bool:
        return await status_of(cell.server.url) == 101

    await assert_eventually(free)


async def test_a_message_that_is_too_long_ends_the_connection(cells: Callable[..., Any]) -> None:
    """R39."""
    cell: Cell = await cells(max_message_bytes=2048)
    client = await cell.client()
    await client.socket.send(" " * 3000)
    await client.socket.wait_closed()
    assert client.socket.close_code == 1009
    assert (await (await cell.client()).call("rcp.capabilities"))["read"] is True


async def test_requests_that_are_not_answered_are_limited(cells: Callable[..., Any]) -> None:
    """R28."""
    gate = asyncio.Event()

    class Slow(Probe):
        async def discover(self) -> Any:
            await gate.wait()
            return await super().discover()

    cell: Cell = await cells(Slow(), max_in_flight=2)
    client = await cell.client()
    slow = [client.begin("rcp.discover") for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(WireError) as caught:
        await client.call("rcp.capabilities")
    assert caught.value.code == RCPErrorCode.ADAPTER_BUSY
    gate.set()
    await asyncio.gather(*slow)


def test_it_is_off_loopback_only_with_a_token(tmp_path: Path) -> None:
    """R32."""
    assert RCPServerSettings().host == "127.0.0.1"
    assert RCPServerSettings().port == DEFAULT_PORT == 9796

    async def made() -> None:
        rig = rig_of(tmp_path)
        with pytest.raises(ConfigError, match="ROBOT_MCP_RCP_TOKEN"):
            RCPServer(rig.robot, RCPServerSettings(host="0.0.0.0"))
        with pytest.raises(ConfigError, match="differ"):
            RCPServer(rig.robot, RCPServerSettings(token=SecretStr("one"), operator_key=SecretStr("one")))
        await rig.close()

    asyncio.run(made())


async def test_a_port_that_is_taken_is_named(cell: Cell) -> None:
    """R4."""
    another = RCPServer(cell.rig.robot, RCPServerSettings(port=cell.server.port))
    with pytest.raises(ConfigError, match=str(cell.server.port)):
        async with another.running():
            pass


async def test_secrets_stay_out_of_the_trail_and_the_log(
    cells: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """R39: at any level of the log."""
    caplog.set_level(logging.DEBUG)
    cell: Cell = await cells(token="the token of clients")
    client = await cell.client("the token of clients", **{"User-Agent": "assistant 1.0"})
    await cell.approve(await client.act("home"))
    written = list(records(cell.rig.folder / "audit"))
    assert "assistant 1.0" in str(written)
    for secret in (OPERATOR, "the token of clients"):
        assert secret not in str(written)
        ours = [record for record in caplog.records if record.name != "websockets.client"]
        assert ours
        assert not [record for record in ours if secret in record.getMessage()]
