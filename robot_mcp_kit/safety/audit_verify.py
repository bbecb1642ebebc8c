"""Reading a trail that is not (or no longer) being written: verify it, and show what happened."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from robot_mcp_kit.safety.audit import AuditError, head_mac, known_of, read_head
from robot_mcp_kit.safety.audit_records import FILE_PATTERN, ChainReader, Fault, Record


@dataclass(slots=True)
class Verification:
    """What a check of a trail found."""

    files: list[str]
    records: int = 0
    first_seq: int | None = None
    last_seq: int = 0
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    open: dict[str, Record] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.faults

    def lines(self) -> list[str]:
        """For a terminal."""
        said = [f"{self.records} records in {len(self.files)} files, {self.first_seq} to {self.last_seq}"]
        said += [f"note: {note}" for note in self.notes]
        said += [f"FAULT: {fault}" for fault in self.faults]
        for request, entry in self.open.items():
            said.append(
                f"open: request {request}, task {entry.get('task_id')}, skill {entry.get('skill')}, goal "
                f"{entry.get('goal_id')}: {known_of(entry)}"
            )
        said.append("the chain is whole" if self.ok else "THE CHAIN IS BROKEN")
        return said


def verify(folder: Path, key: bytes | None = None) -> Verification:
    """Check every file, the chain across them, and the end against the head.

    Args:
        folder: the trail's.
        key: the operator's, derived; without it the head is compared but not authenticated.

    Raises:
        AuditError: there is no trail.
    """
    files = sorted(folder.glob(FILE_PATTERN))
    found = Verification([file.name for file in files])
    if not files:
        if (folder / "head.json").exists():
            found.faults.append(Fault("head.json", 1, "the head is there and the trail is gone"))
            return found
        raise AuditError(f"{folder}: there is no audit trail")
    reader = ChainReader(first_may_continue=True)
    hashes: dict[int, str] = {}
    for file in files:
        for record in reader.read(file.name, file.read_bytes()):
            hashes[record["seq"]] = record["hash"]
    reader.end()
    found.records, found.first_seq, found.last_seq = reader.records, reader.first_seq, reader.state.seq
    found.faults += reader.faults
    found.open = reader.state.open
    if reader.torn_tail is not None:
        name, line = reader.torn_tail
        found.notes.append(f"{name}, line {line}: not finished; the process died, or still writes")
    if found.first_seq not in (None, 1):
        found.notes.append(f"begins at record {found.first_seq}: the files before it are elsewhere")
    _compare_head(found, folder, hashes, key)
    return found


def _compare_head(found: Verification, folder: Path, hashes: dict[int, str], key: bytes | None) -> None:
    try:
        head = read_head(folder, key) if key is not None else _head_unchecked(folder)
    except AuditError as error:
        found.faults.append(Fault("head.json", 1, str(error)))
        return
    if head is None:
        if found.records > 1:
            found.faults.append(Fault("head.json", 1, "it was removed, so the end cannot be checked"))
        return
    if key is None:
        found.notes.append("the head's authenticity was not checked: the operator key is not at hand")
    if head["seq"] > found.last_seq:
        message = f"the trail was cut off: record {head['seq']} was synced, the last is {found.last_seq}"
        found.faults.append(Fault(found.files[-1], 0, message))
    elif hashes.get(head["seq"], head["hash"]) != head["hash"]:
        found.faults.append(Fault(found.files[-1], 0, f"record {head['seq']} is not the one that was synced"))


def _head_unchecked(folder: Path) -> Record | None:
    try:
        return dict(json.loads((folder / "head.json").read_bytes()))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise AuditError(f"it cannot be read: {error}") from error


def records(folder: Path) -> Iterator[Record]:
    """Every readable record, oldest first, checked or not."""
    reader = ChainReader(first_may_continue=True)
    for file in sorted(folder.glob(FILE_PATTERN)):
        yield from reader.read(file.name, file.read_bytes())


def audit_key(operator_key: str) -> bytes:
    """The key that authenticates heads, derived from the operator's."""
    return hmac.new(operator_key.encode(), b"robot-mcp-kit audit head", hashlib.sha256).digest()


def one_line(record: Record) -> str:
    """A record for a terminal."""
    skip = {"seq", "id", "ts", "wall_s", "mono_s", "event", "prev", "hash", "request"}
    rest = " ".join(
        f"{key}={value}" for key, value in record.items() if key not in skip and value is not None
    )
    request = str(record.get("request", "-"))[:8]
    return f"{record['seq']:>6} {record['ts']} {request:<8} {record['event']:<12} {rest}"


__all__ = ["Verification", "audit_key", "head_mac", "one_line", "records", "verify"]
