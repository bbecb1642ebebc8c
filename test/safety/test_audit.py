"""The trail: append-only, chained, synced; survives crashes, full disks and rotation, and shows tampering."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.safety import audit
from robot_mcp_kit.safety.audit import AuditError, AuditTrail, read_head
from robot_mcp_kit.safety.audit_records import scrub
from robot_mcp_kit.safety.audit_verify import Verification, one_line, records, verify

KEY = b"the operator's"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def trail(folder: Path, **more: Any) -> AuditTrail:
    return AuditTrail(folder, key=KEY, **more)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.jsonl")
    return file


def run_one(one: AuditTrail, request: str, *, until: str = "finished") -> None:
    steps: dict[str, dict[str, Any]] = {
        "requested": {"skill": "navigate_to", "task_id": None},
        "decided": {"decision": "allowed", "task_id": f"task-{request}"},
        "started": {"goal_id": f"goal-{request}", "task_id": f"task-{request}"},
        "finished": {"result": "success"},
    }
    for event, data in steps.items():
        one.append(event, request=request, **data)
        if event == until:
            break
    one.sync()


def events(folder: Path) -> list[str]:
    return [record["event"] for record in records(folder)]


# -- writing ------------------------------------------------------------------------------------------------


def test_a_trail_verifies_and_tells_what_happened_in_order(folder: Path) -> None:
    """R34."""
    one = trail(folder)
    run_one(one, "a")
    one.close()
    assert events(folder) == ["opened", "requested", "decided", "started", "finished", "closed"]
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    assert found.open == {}


def test_earlier_bytes_never_change_and_reopening_appends(folder: Path) -> None:
    """R35."""
    one = trail(folder)
    run_one(one, "a")
    one.close()
    before = only_file(folder).read_bytes()
    again = trail(folder)
    run_one(again, "b")
    again.close()
    after = only_file(folder).read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    assert verify(folder, KEY).ok


def test_ids_are_unique_and_times_are_utc(folder: Path) -> None:
    """R36."""
    one = trail(folder)
    for name in "abc":
        run_one(one, name)
    one.close()
    written = list(records(folder))
    assert len({record["id"] for record in written}) == len(written)
    assert all(record["ts"].endswith("Z") for record in written)


def test_concurrent_records_never_interleave(folder: Path) -> None:
    """R41."""
    one = trail(folder)
    threads = [
        threading.Thread(
            target=lambda n=number: [one.append("decided", n=n, text="x" * 400) for _ in range(40)]
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    assert found.records == 322


def test_two_processes_cannot_write_one_trail(folder: Path) -> None:
    """R41."""
    one = trail(folder)
    with pytest.raises(AuditError, match="another bridge"):
        trail(folder)
    one.close()
    trail(folder).close()


def test_only_the_owner_may_read_it(folder: Path) -> None:
    """R39."""
    trail(folder).close()
    assert folder.stat().st_mode & 0o077 == 0
    assert only_file(folder).stat().st_mode & 0o077 == 0


def test_secrets_and_programs_are_not_written(folder: Path) -> None:
    """R39."""
    one = trail(folder, secrets=["hunter2-of-the-operator"])
    arguments = {
        "x_m": 1.0,
        "api_token": "swordfish",
        "nested": [{"Password": "swordfish"}],
        "note": "it is hunter2-of-the-operator, really",
        "program": "movej(...)\n" * 200,
    }
    one.append("requested", request="a", arguments=arguments)
    one.close()
    text = only_file(folder).read_text()
    assert "swordfish" not in text
    assert "hunter2" not in text
    assert "movej" not in text
    assert '"x_m":1.0' in text


def test_a_huge_argument_leaves_its_hash_and_the_records_keys_survive(folder: Path) -> None:
    """R39."""
    one = trail(folder)
    record = one.append("requested", request="a", arguments={str(n): "y" * 400 for n in range(100)})
    one.close()
    assert record["request"] == "a"
    assert set(record["arguments"]) == {"sha256", "bytes"}


def test_text_from_outside_cannot_begin_a_line_of_its_own(folder: Path) -> None:
    """R41."""
    one = trail(folder)
    evil = 'kitchen"}\n{"event":"estop_reset","seq":9}\u2028\r\x00'
    one.append("requested", request="a", arguments={"place": evil})
    one.close()
    assert events(folder) == ["opened", "requested", "closed"]
    assert verify(folder, KEY).ok


def test_scrub_keeps_plain_values() -> None:
    assert scrub({"a": [1, 2.5, None, True, "x"]}) == {"a": [1, 2.5, None, True, "x"]}


# -- rotation -----------------------------------------------------------------------------------------------


def test_rotation_does_not_break_the_chain(folder: Path) -> None:
    """R35."""
    one = trail(folder, max_file_bytes=1500)
    for number in range(12):
        run_one(one, str(number))
    one.close()
    assert len(list(folder.glob("*.jsonl"))) > 3
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    again = trail(folder, max_file_bytes=1500)
    assert again.state.open == {}
    again.close()


def test_a_new_file_carries_open_requests_and_counts(folder: Path) -> None:
    one = trail(folder, max_file_bytes=1200)
    run_one(one, "open", until="started")
    one.append("requested", request="s", skill="spin")
    one.append("decided", request="s", decision="allowed", approval={"standing": {"id": "flat", "use": 3}})
    for number in range(8):
        run_one(one, str(number))
    one.close()
    again = trail(folder)
    assert again.state.uses == {"flat": 3}
    assert again.state.open["open"]["goal_id"] == "goal-open"
    again.close()


def test_archiving_old_files_is_noted_and_no_fault(folder: Path) -> None:
    one = trail(folder, max_file_bytes=1000)
    for number in range(9):
        run_one(one, str(number))
    one.close()
    first, second, *_ = sorted(folder.glob("*.jsonl"))
    first.unlink()
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    assert any("elsewhere" in note for note in found.notes)
    second.unlink()
    third = sorted(folder.glob("*.jsonl"))[0]
    assert verify(folder, KEY).ok
    last = sorted(folder.glob("*.jsonl"))[1]
    assert last != third
    last.unlink()
    assert not verify(folder, KEY).ok


def test_a_crash_while_a_new_file_was_begun_is_survived(folder: Path) -> None:
    """R40."""
    one = trail(folder)
    run_one(one, "a", until="started")
    os.close(os.open(folder / "audit-00000002.jsonl", os.O_CREAT | os.O_WRONLY, 0o600))
    one._release()
    again = trail(folder)
    assert again.state.open["a"]["step"] == "started"
    again.close()
    assert verify(folder, KEY).ok, verify(folder, KEY).lines()


# -- failing to write ---------------------------------------------------------------------------------------


class Disk:
    """Stands in for ``os.write``: full after so many bytes."""

    def __init__(self, free: int) -> None:
        self.free = free
        self._real = os.write

    def write(self, fd: int, data: bytes) -> int:
        if self.free <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._real(fd, data[: self.free])
        self.free -= written
        return written


@pytest.mark.parametrize("free", [0, 1, 50, 200])
def test_a_full_disk_raises_and_a_torn_line_is_owned_up_to_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    """R38."""
    one = trail(folder)
    disk = Disk(free)
    monkeypatch.setattr(audit.os, "write", disk.write)
    for _ in range(3):
        with pytest.raises(AuditError, match="No space left"):
            one.append("started", request="a", text="x" * 300)
    disk.free = 10**9
    run_one(one, "b")
    one.close()
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    assert events(folder)[-1] == "closed"
    assert ("recovered" in events(folder)) is (free > 0)


def test_a_failed_sync_is_final(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: after a failed fsync the kernel may forget what it could not write: a second one may lie."""
    one = trail(folder)
    real = os.fsync

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    one.append("started", request="a")
    monkeypatch.setattr(audit.os, "fsync", fails)
    with pytest.raises(AuditError):
        one.sync()
    monkeypatch.setattr(audit.os, "fsync", real)
    with pytest.raises(AuditError, match="did not take it"):
        one.append("started", request="b")


def test_a_file_that_is_full_while_it_is_synced_is_synced_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R38: the next file begins while another thread waits for the disk; the old one is closed under it."""
    one = trail(folder, max_file_bytes=1500)
    one.append("started", request="a")
    real, slow = os.fsync, threading.get_ident()

    def meanwhile(fd: int) -> None:
        if threading.get_ident() == slow:
            writer = threading.Thread(
                target=lambda: [run_one(one, str(n), until="decided") for n in range(8)]
            )
            writer.start()
            writer.join(30)
            assert not writer.is_alive()
        real(fd)

    monkeypatch.setattr(audit.os, "fsync", meanwhile)
    one.sync()
    monkeypatch.setattr(audit.os, "fsync", real)
    assert one.fault is None
    one.close()
    assert len(list(folder.glob("*.jsonl"))) > 2
    found = verify(folder, KEY)
    assert found.ok, found.lines()


def test_a_sync_that_was_overtaken_does_not_turn_the_head_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R37: a head older than one that was there would hide what is cut off after it."""
    one = trail(folder)
    one.append("note", number=1)
    real, slow = os.fsync, threading.get_ident()

    def meanwhile(fd: int) -> None:
        if threading.get_ident() == slow:
            quick = threading.Thread(target=lambda: (one.append("note", number=2), one.sync()))
            quick.start()
            quick.join(30)
            assert not quick.is_alive()
        real(fd)

    monkeypatch.setattr(audit.os, "fsync", meanwhile)
    one.sync()
    head = read_head(folder, KEY)
    last = list(records(folder))[-1]
    assert head is not None
    assert (head["seq"], head["hash"]) == (last["seq"], last["hash"])
    assert last["number"] == 2


def test_a_trail_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file")
    with pytest.raises(AuditError, match="cannot be opened"):
        trail(tmp_path / "audit")


# -- tampering ----------------------------------------------------------------------------------------------


def edit(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        file = only_file(folder)
        file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))

    return tamper


def rehash(lines: list[bytes]) -> list[bytes]:
    """Change a result and make its own hash fit again, as somebody who knows the format would."""
    record = json.loads(lines[4])
    record["result"] = "failed"
    record["hash"] = audit_hash(record)
    return [*lines[:4], json.dumps(record, sort_keys=True).encode() + b"\n", *lines[5:]]


def audit_hash(record: dict[str, Any]) -> str:
    from robot_mcp_kit.safety.audit_records import hash_of

    return hash_of(record)


TAMPERING: dict[str, Callable[[Path], None]] = {
    "a word changed": edit(lambda lines: [line.replace(b"navigate_to", b"navigate_ta") for line in lines]),
    "a record changed and its hash made to fit": edit(rehash),
    "a record removed": edit(lambda lines: lines[:3] + lines[4:]),
    "two records swapped": edit(lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
    "a record repeated": edit(lambda lines: [*lines[:3], lines[2], *lines[3:]]),
    "the end cut off": edit(lambda lines: lines[:-2]),
    "the end cut inside a line": edit(lambda lines: [*lines[:-2], lines[-2][:40]]),
    "everything cut off": edit(lambda lines: []),
    "a line of somebody else's": edit(lambda lines: [*lines[:3], b"hello\n", *lines[3:]]),
    "the file removed": lambda folder: only_file(folder).unlink(),
    "the head removed": lambda folder: (folder / "head.json").unlink(),
    "the head rewritten without the key": lambda folder: (folder / "head.json").write_text(
        json.dumps({"seq": 1, "hash": "0" * 64, "mac": "0" * 64})
    ),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_found_and_nothing_starts_on_it(folder: Path, how: str) -> None:
    """R35."""
    one = trail(folder)
    run_one(one, "a")
    run_one(one, "b")
    one.close()
    assert verify(folder, KEY).ok
    TAMPERING[how](folder)
    assert not verify(folder, KEY).ok, how
    with pytest.raises(AuditError):
        trail(folder)


def test_a_trail_of_another_operator_is_not_continued(folder: Path) -> None:
    trail(folder).close()
    with pytest.raises(AuditError, match="operator key"):
        AuditTrail(folder, key=b"another")
    assert not verify(folder, b"another").ok
    assert verify(folder).ok


@pytest.mark.parametrize(
    "change",
    [
        lambda file: os.truncate(file, file.stat().st_size - 10),
        lambda file: file.write_bytes(file.read_bytes() + b"more\n"),
        lambda file: file.unlink(),
        lambda file: (file.rename(file.with_suffix(".bak")), file.write_bytes(b"")),
    ],
)
def test_a_file_changed_under_a_running_node_stops_everything(
    folder: Path, change: Callable[[Path], Any]
) -> None:
    """R35, R38."""
    one = trail(folder)
    run_one(one, "a")
    change(only_file(folder))
    for _ in range(2):
        with pytest.raises(AuditError):
            one.append("started", request="b")
    assert one.fault is not None


# -- crashes ------------------------------------------------------------------------------------------------

CHILD = """
    import os, signal, sys
    from pathlib import Path
    from robot_mcp_kit.safety.audit import AuditTrail
    trail = AuditTrail(Path(sys.argv[1]), key=b"the operator's")
    trail.append("requested", request="a", skill="navigate_to")
    trail.append("decided", request="a", decision="allowed", task_id="t1")
    if sys.argv[2] != "decided":
        trail.append("started", request="a", goal_id="g1", task_id="t1")
        trail.sync()
    if sys.argv[2] == "torn":
        os.write(trail._fd, b'{"event":"finished","req')
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("moment", "known"),
    [("decided", "nothing was sent"), ("started", "may or may not"), ("torn", "may or may not")],
)
def test_after_a_kill_the_chain_verifies_and_says_what_is_known(
    folder: Path, moment: str, known: str
) -> None:
    """R40."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(folder), moment],
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == -signal.SIGKILL
    found = verify(folder, KEY)
    assert found.ok, found.lines()
    assert any(known in line for line in found.lines())
    again = trail(folder)
    told = [record for record in records(folder) if record["event"] == "interrupted"]
    assert len(told) == 1
    assert known in told[0]["known"]
    assert told[0]["task_id"] == "t1"
    assert ("a" in again.state.open) is (moment != "decided")
    again.close()
    trail(folder).close()
    assert events(folder).count("interrupted") == 1
    found = verify(folder, KEY)
    assert found.ok, found.lines()


def test_show_puts_a_record_on_one_line(folder: Path) -> None:
    one = trail(folder)
    run_one(one, "abcdefgh-1")
    one.close()
    lines = [one_line(record) for record in records(folder)]
    assert "requested" in lines[1]
    assert "skill=navigate_to" in lines[1]
    assert all("\n" not in line for line in lines)


def test_a_folder_without_a_trail_is_no_trail(folder: Path) -> None:
    folder.mkdir()
    with pytest.raises(AuditError, match="no audit trail"):
        verify(folder)
    assert isinstance(Verification([]).lines(), list)
