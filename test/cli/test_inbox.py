"""The receiver's judgement (K170, K171, C28, C29), with a clock that the test owns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from robot_mcp_kit.client.inbox import Inbox, Receipt
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
        body = json.dumps(event).encode()
        headers = {
            "X-RVC-Server": self.server,
            "X-RVC-Timestamp": str(at),
            "X-RVC-Signature": "sha256=" + sign(self.secret, at, body),
        }
        return headers, body


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(SECRET, wall_clock=lambda: NOW + 0.9, monotonic=lambda: 0.0)


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


def test_an_event_is_remembered_longer_than_a_sender_retries() -> None:
    now_s = 0.0
    inbox = Inbox(SECRET, wall_clock=lambda: NOW, monotonic=lambda: now_s)
    assert send(inbox, 1).accepted
    now_s = 600.0 + 300.0
    assert send(inbox, 2).accepted
    assert send(inbox, 1).duplicate
    now_s = 3000.0
    assert send(inbox, 3).accepted
    assert not send(inbox, 1).duplicate, "memory of events is bounded in time"


def test_a_missing_sequence_number_is_reported_until_it_arrives(inbox: Inbox) -> None:
    send(inbox, 1)
    receipt = send(inbox, 4)
    assert receipt.gap == (2, 3)
    track = inbox.task("navi-7f3a2b")
    assert track is not None
    assert not track.contiguous
    late = send(inbox, 2)
    assert late.late
    assert late.accepted
    send(inbox, 3)
    assert track.contiguous


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


def test_an_event_whose_callback_failed_is_accepted_again(inbox: Inbox) -> None:
    receipt = send(inbox, 1)
    assert receipt.event is not None
    inbox.forget(receipt.event)
    track = inbox.task("navi-7f3a2b")
    assert track is not None
    assert not track.contiguous
    assert send(inbox, 1).accepted
    assert track.contiguous


@pytest.mark.parametrize("secret", ["", "  "])
def test_an_empty_secret_is_refused_at_construction(secret: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        Inbox(secret)


def test_the_secret_is_not_in_the_repr(inbox: Inbox) -> None:
    assert SECRET not in repr(inbox)
