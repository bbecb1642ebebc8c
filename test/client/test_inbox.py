"""The receiver's judgement (K170, K171, C28, C29), with a clock that the test owns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robot_mcp_kit.client.inbox import Inbox, Receipt
from robot_mcp_kit.client.verifying import Refused
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.signing import sign

SECRET = "s3cret"
NOW = 1_800_000_000


class Sender:
    """Signs as a server does."""

    def __init__(self, secret: str = SECRET, server: str = "navigation") -> None:
        self.secret = secret
        self.server = server

    def request(
        self, seq: int = 1, *, event_id: str | None = None, at: int = NOW, **changes: Any
    ) -> tuple[dict[str, str], bytes]:
        event = {
            "schema_version": 1,
            "event_id": event_id or f"00000000-0000-4000-8000-{seq:012d}",
            "task_id": "navi-7f3a2b",
            "server": self.server,
            "tool": "navigate_to",
            "type": "progress",
            "seq": seq,
            "ts": "2026-06-12T14:03:00.123Z",
            "payload": {"eta_s": 22.4},
        } | changes
        return self.signed(json.dumps(event).encode(), at=at)

    def signed(self, body: bytes, *, at: int = NOW) -> tuple[dict[str, str], bytes]:
        headers = {
            "X-RVC-Server": self.server,
            "X-RVC-Timestamp": str(at),
            "X-RVC-Signature": "sha256=" + sign(self.secret, at, body),
        }
        return headers, body


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(SECRET, wall_clock=lambda: NOW + 0.9)


def track_of(inbox: Inbox) -> Any:
    track = inbox.task("navi-7f3a2b")
    assert track is not None
    return track


def send(inbox: Inbox, *args: Any, **kwargs: Any) -> Receipt:
    return inbox.receive(*Sender().request(*args, **kwargs))


def test_a_signed_event_is_accepted(inbox: Inbox) -> None:
    receipt = send(inbox)
    assert receipt.accepted
    assert receipt.event is not None
    assert receipt.event.payload == {"eta_s": 22.4}


def test_header_names_are_compared_without_case(inbox: Inbox) -> None:
    headers, body = Sender().request()
    assert inbox.receive({name.lower(): value for name, value in headers.items()}, body).accepted


@pytest.mark.parametrize("name", ["X-RVC-Server", "X-RVC-Timestamp", "X-RVC-Signature"])
def test_a_missing_header_is_refused_by_name(inbox: Inbox, name: str) -> None:
    headers, body = Sender().request()
    del headers[name]
    receipt = inbox.receive(headers, body)
    assert receipt.status == 401
    assert name in receipt.reason


def test_another_secret_is_refused(inbox: Inbox) -> None:
    receipt = inbox.receive(*Sender("other").request())
    assert receipt.status == 401
    assert "does not match" in receipt.reason
    assert SECRET not in receipt.reason


def test_a_changed_body_is_refused(inbox: Inbox) -> None:
    headers, body = Sender().request()
    assert inbox.receive(headers, body.replace(b"22.4", b"22.5")).status == 401


@pytest.mark.parametrize(("age_s", "accepted"), [(300, True), (301, False), (-300, True), (-301, False)])
def test_the_clock_may_be_off_by_300_s_in_either_direction(inbox: Inbox, age_s: int, accepted: bool) -> None:
    receipt = send(inbox, at=NOW - age_s)
    assert receipt.accepted is accepted
    if not accepted:
        assert receipt.status == 401
        assert "301 s" in receipt.reason
        assert ("ahead" in receipt.reason) == (age_s < 0)


@pytest.mark.parametrize("stamp", ["", "now", "1_0", "-5", "1" * 40, "²", "1.5"])
def test_a_timestamp_that_is_not_whole_seconds_is_refused(inbox: Inbox, stamp: str) -> None:
    headers, body = Sender().request()
    receipt = inbox.receive(headers | {"X-RVC-Timestamp": stamp}, body)
    assert receipt.status == 401
    assert "X-RVC-Timestamp" in receipt.reason


def test_one_server_cannot_speak_for_another(inbox: Inbox) -> None:
    headers, body = Sender().request(server="arm")
    receipt = inbox.receive(headers, body)
    assert receipt.status == 401
    assert "'navigation'" in receipt.reason
    assert "'arm'" in receipt.reason


def test_a_server_without_a_secret_here_is_refused() -> None:
    inbox = Inbox({"arm": SECRET}, wall_clock=lambda: NOW)
    receipt = inbox.receive(*Sender().request())
    assert receipt.status == 401
    assert "'navigation' is not known" in receipt.reason


def test_a_strangers_text_cannot_move_the_cursor() -> None:
    inbox = Inbox({"arm": SECRET}, wall_clock=lambda: NOW)
    receipt = inbox.receive(*Sender(server="\x1b[2Jnav").request())
    assert receipt.reason.isprintable()


def test_a_signed_body_that_is_no_event_is_400_and_names_the_field(inbox: Inbox) -> None:
    receipt = send(inbox, type="gossip")
    assert receipt.status == 400
    assert "type" in receipt.reason


def test_a_repeated_event_is_acknowledged_and_applied_once(inbox: Inbox) -> None:
    assert send(inbox, 1).accepted
    again = send(inbox, 1, at=NOW + 5)
    assert (again.status, again.duplicate, again.accepted) == (200, True, False)


def test_a_missing_sequence_number_is_reported_until_it_arrives(inbox: Inbox) -> None:
    """K171."""
    send(inbox, 1)
    receipt = send(inbox, 4)
    assert receipt.gap == (2, 3)
    assert track_of(inbox).missing == [2, 3]
    late = send(inbox, 2)
    assert late.late
    assert late.accepted
    send(inbox, 3)
    assert track_of(inbox).contiguous


def test_joining_a_running_task_reports_what_came_before(inbox: Inbox) -> None:
    assert send(inbox, 3).gap == (1, 2)


def test_tasks_do_not_share_sequence_numbers(inbox: Inbox) -> None:
    send(inbox, 1)
    other = send(inbox, 1, task_id="navi-000000", event_id="00000000-0000-4000-8000-999999999999")
    assert other.accepted
    assert other.gap == ()


def test_an_enormous_jump_does_not_take_the_memory(inbox: Inbox) -> None:
    receipt = send(inbox, 2**53)
    assert receipt.accepted
    assert len(receipt.gap) <= 10_000


@pytest.mark.parametrize("secret", ["", "  "])
def test_an_empty_secret_is_refused_at_construction(secret: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        Inbox(secret)


def test_the_secret_is_not_in_the_repr(inbox: Inbox) -> None:
    assert SECRET not in repr(inbox)


def test_a_header_that_comes_twice_is_refused(inbox: Inbox) -> None:
    """K170: which of the two was meant is nobody's guess."""
    headers, body = Sender().request()
    for name in headers:
        receipt = inbox.receive([*headers.items(), (name.lower(), headers[name])], body)
        assert (receipt.status, receipt.refused) == (401, Refused.REPEATED_HEADER)


def test_both_secrets_count_while_one_is_being_replaced_and_then_only_the_new_one() -> None:
    """G66."""
    inbox = Inbox({"navigation": "old secret"}, wall_clock=lambda: NOW)
    assert inbox.receive(*Sender("new secret").request(1)).status == 401
    inbox.secrets.add("navigation", "new secret")
    assert inbox.receive(*Sender("new secret").request(1)).accepted
    assert inbox.receive(*Sender("old secret").request(2)).accepted
    inbox.secrets.retire("navigation", "old secret")
    assert inbox.receive(*Sender("old secret").request(3)).status == 401
    assert inbox.receive(*Sender("new secret").request(3)).accepted
    with pytest.raises(ConfigError, match="without one"):
        inbox.secrets.retire("navigation", "new secret")


def test_a_secret_of_one_server_does_not_open_another_ones_door() -> None:
    """K170, C28."""
    inbox = Inbox({"navigation": "a", "arm": "b"}, wall_clock=lambda: NOW)
    assert inbox.receive(*Sender("b", "arm").request(1)).accepted
    assert inbox.receive(*Sender("b", "navigation").request(1)).refused is Refused.BAD_SIGNATURE


def test_one_server_cannot_use_up_the_event_ids_of_another() -> None:
    inbox = Inbox({"navigation": "a", "arm": "b"}, wall_clock=lambda: NOW)
    assert inbox.receive(*Sender("b", "arm").request(1, event_id="shared")).accepted
    assert inbox.receive(*Sender("a", "navigation").request(1, event_id="shared")).accepted


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"{" * 5000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
)
def test_a_signed_body_that_is_no_json_object_is_400(inbox: Inbox, body: bytes) -> None:
    receipt = inbox.receive(*Sender().signed(body))
    assert (receipt.status, receipt.refused) == (400, Refused.NOT_AN_EVENT)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(inbox: Inbox, value: str) -> None:
    """K48."""
    _, body = Sender().request()
    assert inbox.receive(*Sender().signed(body.replace(b"22.4", value.encode()))).status == 400
    inside_text = inbox.receive(*Sender().request(payload={"say": value}))
    assert inside_text.accepted


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 0},
        {"seq": -1},
        {"seq": 2**53 + 1},
        {"seq": 10**400},
        {"seq": "x"},
        {"task_id": ""},
        {"task_id": "x" * 257},
        {"tool": "x" * 257},
        {"event_id": ""},
        {"ts": "yesterday"},
        {"ts": "2026-06-12T14:03:00"},
        {"payload": None},
        {"payload": []},
    ],
)
def test_a_signed_event_with_a_bad_field_is_400_and_names_it(inbox: Inbox, changes: dict[str, Any]) -> None:
    _, body = Sender().request()
    event = json.loads(body) | changes
    receipt = inbox.receive(*Sender().signed(json.dumps(event).encode()))
    assert receipt.status == 400
    assert next(iter(changes)) in receipt.reason


def test_unknown_keys_and_a_newer_schema_version_are_let_through(inbox: Inbox) -> None:
    """K10."""
    assert send(inbox, 1, schema_version=7, colour="blue").accepted


def test_a_sequence_number_counts_once_whatever_id_it_comes_under(inbox: Inbox) -> None:
    """C29: also when ids have been forgotten, a task's event is not applied twice."""
    assert send(inbox, 1).accepted
    again = send(inbox, 1, event_id="another")
    assert (again.status, again.duplicate) == (200, True)
