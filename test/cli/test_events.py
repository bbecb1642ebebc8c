"""``robot-mcp-kit events`` over real HTTP, as a process of its own (K170, K171)."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import sign

SECRET = "a shared secret"
ENV = {"RVC_EVENT_SECRET": SECRET}


def event(seq: int, type: str = "progress", **payload: Any) -> TaskEvent:
    return TaskEvent(
        event_id=f"00000000-0000-4000-8000-{seq:012d}",
        task_id="navi-7f3a2b",
        server="navigation",
        tool="navigate_to",
        type=type,
        seq=seq,
        ts="2026-06-12T14:03:00.123Z",
        payload=payload,
    )


class Sender:
    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(trust_env=False, timeout=10)

    def post(self, item: TaskEvent, *, secret: str = SECRET, age_s: int = 0) -> httpx.Response:
        body = item.model_dump_json().encode()
        at = int(time.time()) - age_s
        headers = {
            "Content-Type": "application/json",
            "X-RVC-Server": item.server,
            "X-RVC-Timestamp": str(at),
            "X-RVC-Signature": "sha256=" + sign(secret, at, body),
        }
        return self.http.post(self.url, content=body, headers=headers)


StartCli = Callable[..., Any]


@pytest.fixture
def listener(start_cli: StartCli) -> Any:
    return start_cli("events", "--listen", "127.0.0.1:0", "--json", env=ENV)


@pytest.fixture
def sender(listener: Any) -> Iterator[Sender]:
    sender = Sender(json.loads(listener.line())["listening"])
    yield sender
    sender.http.close()


def test_verified_events_are_printed_as_json_lines(listener: Any, sender: Sender) -> None:
    assert sender.post(event(1, eta_s=22.4)).status_code == 200
    line = json.loads(listener.line())
    assert line["verified"] is True
    assert line["event"]["payload"] == {"eta_s": 22.4}
    assert line["missing_seq"] == []


def test_a_forged_event_is_401_and_the_reason_is_on_the_screen(listener: Any, sender: Sender) -> None:
    assert sender.post(event(1), secret="another").status_code == 401
    line = json.loads(listener.line())
    assert line["verified"] is False
    assert "signature does not match" in line["reason"]


@pytest.mark.parametrize("age_s", [400, -400])
def test_a_clock_that_is_off_either_way_is_401_and_said_to_be_the_clock(
    listener: Any, sender: Sender, age_s: int
) -> None:
    assert sender.post(event(1), age_s=age_s).status_code == 401
    assert "300 s allowed" in json.loads(listener.line())["reason"]


def test_a_repeated_event_is_acknowledged_but_marked(listener: Any, sender: Sender) -> None:
    sender.post(event(1))
    assert sender.post(event(1)).status_code == 200
    assert [json.loads(listener.line())["duplicate"] for _ in range(2)] == [False, True]


def test_a_gap_is_reported_and_the_summary_says_what_is_missing(listener: Any, sender: Sender) -> None:
    sender.post(event(1))
    sender.post(event(4, "task_done", result={}))
    sender.post(event(5), secret="another")
    listener.line()
    assert json.loads(listener.line())["missing_seq"] == [2, 3]
    assert listener.interrupt() == 0
    summary = json.loads(listener.rest()[-1])["summary"]
    assert (summary["accepted"], summary["duplicates"], summary["refused"]) == (2, 0, 1)
    assert summary["tasks"][0]["missing_seq"] == [2, 3]
    assert summary["tasks"][0]["ended"] is True
    assert listener.errors == []


def test_only_posts_to_the_events_path_are_taken(listener: Any, sender: Sender) -> None:
    base = sender.url.removesuffix("/api/agent/events")
    assert sender.http.post(f"{base}/other", content=b"{}").status_code == 404
    assert sender.http.get(sender.url).status_code == 405
    assert sender.http.post(sender.url, content=b"{}").status_code == 401


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(listener: Any, sender: Sender) -> None:
    url = httpx.URL(sender.url)
    connection = http.client.HTTPConnection(url.host, url.port, timeout=10)
    connection.putrequest("POST", url.path)
    connection.putheader("Content-Length", str(10**9))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_when_nobody_reads_its_output_the_event_is_not_acknowledged_and_it_ends() -> None:
    listener = subprocess.Popen(
        [sys.executable, "-m", "robot_mcp_kit", "events", "--listen", "127.0.0.1:0", "--json"],
        env={**os.environ, **ENV, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert listener.stdout is not None
        sender = Sender(json.loads(listener.stdout.readline())["listening"])
        listener.stdout.close()
        assert sender.post(event(1)).status_code == 500
        assert listener.wait(timeout=30) == 0
        sender.http.close()
    finally:
        listener.kill()
        listener.wait()


def test_the_secret_is_demanded_by_name(start_cli: StartCli) -> None:
    child = start_cli("events", "--secret-env", "NO_SUCH_SECRET")
    assert child.process.wait(timeout=30) == 2
    assert "NO_SUCH_SECRET" in child.errors[0]


def test_a_taken_address_is_said(start_cli: StartCli, sender: Sender) -> None:
    port = sender.http.build_request("POST", sender.url).url.port
    child = start_cli("events", "--listen", f"127.0.0.1:{port}", env=ENV)
    assert child.process.wait(timeout=30) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in child.errors[0]


def test_the_view_for_people_shows_percent_time_left_trigger_and_end(start_cli: StartCli) -> None:
    pytest.importorskip("rich")
    child = start_cli("events", "--listen", "127.0.0.1:0", env=ENV | {"COLUMNS": "200"})
    sender = Sender(child.line().removeprefix("listening at "))
    sender.post(event(1, percent=61.5, eta_s=12.0, distance_m=4.1, recoveries=1))
    sender.post(event(2, "trigger_fired", trigger={"type": "eta_below", "seconds": 10}, eta_s=9.4))
    sender.post(
        event(3, "task_failed", error_code="NAV2_NO_PATH", message="No route\x1b[2J.", suggestions=[])
    )
    sender.post(event(4), secret="another")
    assert "62 %, about 12 s left, 4.10 m, 1 recovery" in child.line()
    assert "eta_below" in child.line()
    failed = child.line()
    assert "NAV2_NO_PATH: No route" in failed
    assert "\x1b" not in failed
    assert "refused 401" in child.line()
    assert child.interrupt() == 0
    assert "3 events accepted, 0 duplicates, 1 refused" in "\n".join(child.rest())
    sender.http.close()
