"""The trail's records: how one is written as a line, chained, and what a series of them means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.jsonsafe import to_jsonable

GENESIS = "0" * 64
FILE_PATTERN = "audit-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9].jsonl"
HEAD_FILE = "head.json"
MAX_TEXT = 500
MAX_DATA_BYTES = 16_384
_SECRET_WORDS = ("token", "secret", "password", "passwd", "api_key", "apikey", "credential", "authorization")

Record = dict[str, Any]


def canonical(record: Mapping[str, Any]) -> str:
    """The text that is hashed: every key but ``hash``, sorted, without spaces, ASCII only."""
    data = {key: value for key, value in record.items() if key != "hash"}
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(record).encode()).hexdigest()


def line_of(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """One line with its hash as the last key, and the hash."""
    text = canonical(record)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"hash":"{digest}"}}\n'.encode(), digest


def scrub(data: Any, secrets: Iterable[str] = ()) -> Any:
    """Arguments as they may be written down: no secrets, no programs, nothing endless (R39)."""
    if data is None or type(data) in (bool, int):
        return data
    known = [secret for secret in secrets if secret]
    if type(data) is str and data.isascii():
        return _scrub(data, known)
    clean = _scrub(to_jsonable(data, max_list_items=200), known)
    text = json.dumps(clean, ensure_ascii=True)
    if len(text) <= MAX_DATA_BYTES:
        return clean
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}


def _scrub(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            key[:MAX_TEXT]: "[redacted]" if _is_secret(key) else _scrub(inner, secrets)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_scrub(inner, secrets) for inner in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "[redacted]")
        if len(value) > MAX_TEXT:
            return {"sha256": hashlib.sha256(value.encode()).hexdigest(), "chars": len(value)}
    return value


def _is_secret(key: str) -> bool:
    folded = key.casefold().replace("-", "_")
    return any(word in folded for word in _SECRET_WORDS)


@dataclass(slots=True)
class TrailState:
    """What a series of records adds up to."""

    seq: int = 0
    last_hash: str = GENESIS
    last_wall_s: float | None = None
    open: dict[str, Record] = field(default_factory=dict)
    """Requests without a known end, by request id: ``task_id``, ``skill``, ``goal_id``, ``step``."""
    uses: dict[str, int] = field(default_factory=dict)
    """Of standing approvals, by id."""

    def apply(self, record: Record) -> None:
        """One more record, already checked."""
        self.seq, self.last_hash = record["seq"], record["hash"]
        self.last_wall_s = max(self.last_wall_s or 0.0, float(record["wall_s"]))
        event, request = record["event"], record.get("request")
        if event == "continued":
            self.open = {key: dict(value) for key, value in record.get("open", {}).items()}
            self.uses = {key: int(value) for key, value in record.get("uses", {}).items()}
        elif event == "requested" and request:
            self.open[request] = {
                "task_id": record.get("task_id"),
                "skill": record.get("skill"),
                "goal_id": None,
                "step": "requested",
            }
        elif request in self.open:
            self._step(event, request, record)
        standing = (record.get("approval") or {}).get("standing") if event == "decided" else None
        if isinstance(standing, dict):
            self.uses[standing["id"]] = max(self.uses.get(standing["id"], 0), int(standing["use"]))

    def _step(self, event: str, request: str, record: Record) -> None:
        entry = self.open[request]
        if record.get("task_id"):
            entry["task_id"] = record["task_id"]
        if event == "finished" or (event == "decided" and record.get("decision") != "allowed"):
            del self.open[request]
        elif event in ("decided", "started", "interrupted"):
            if event == "interrupted" and entry["step"] != "started":
                del self.open[request]
                return
            if event == "interrupted":
                entry["told"] = True
            else:
                entry["step"] = event
            entry["goal_id"] = record.get("goal_id") or entry["goal_id"]

    def snapshot(self) -> dict[str, Any]:
        """What the next file begins with, so that it can be read alone."""
        return {"open": {key: dict(value) for key, value in self.open.items()}, "uses": dict(self.uses)}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the trail that does not add up."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"


class ChainReader:
    """Reads lines in order and checks the chain.

    Args:
        first_may_continue: the first record may have a predecessor that is not here (archived files).
    """

    def __init__(self, *, first_may_continue: bool = False) -> None:
        self.state = TrailState()
        self.faults: list[Fault] = []
        self.records = 0
        self.first_seq: int | None = None
        self.torn_tail: tuple[str, int] | None = None
        """File and line of a last line that was not finished."""
        self._may_continue = first_may_continue
        self._torn: list[tuple[str, int, str]] = []

    def read(self, file: str, content: bytes) -> Iterator[Record]:
        """The good records of one file; faults go to :attr:`faults`."""
        for number, line in enumerate(content.splitlines(keepends=True), start=1):
            record = self._parse(line)
            if record is None:
                self._torn.append((file, number, hashlib.sha256(line.rstrip(b"\n")).hexdigest()))
                continue
            self._settle_torn(file, number, record)
            if self._check(file, number, record):
                yield record

    def end(self) -> None:
        """No more lines."""
        if len(self._torn) == 1:
            self.torn_tail = self._torn[0][:2]
        else:
            self._blame_torn()
        self._torn = []

    def _settle_torn(self, file: str, number: int, record: Record) -> None:
        if record["event"] == "recovered":
            told = record.get("torn", [])
            if told != [digest for _, _, digest in self._torn]:
                self.faults.append(Fault(file, number, "it tells of other torn lines than there are"))
                self._blame_torn()
        elif self._torn:
            self._blame_torn()
        self._torn = []

    def _blame_torn(self) -> None:
        self.faults += [Fault(file, number, "not a record of this trail") for file, number, _ in self._torn]

    def _check(self, file: str, number: int, record: Record) -> bool:
        state, first = self.state, self.first_seq is None
        if record["hash"] != hash_of(record):
            self.faults.append(
                Fault(file, number, f"record {record['seq']} was changed: its hash does not fit")
            )
            return False
        if first and self._may_continue and record["event"] == "continued":
            state.seq, state.last_hash = record["seq"] - 1, record["prev"]
        if record["prev"] != state.last_hash or record["seq"] != state.seq + 1:
            self.faults.append(
                Fault(
                    file,
                    number,
                    f"record {record['seq']} does not follow record {state.seq}: something between them was "
                    "removed, added or changed",
                )
            )
        if first:
            self.first_seq = record["seq"]
        self.records += 1
        state.apply(record)
        return True

    @staticmethod
    def _parse(line: bytes) -> Record | None:
        if not line.endswith(b"\n"):
            return None
        try:
            record = json.loads(line)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        kinds = {"seq": int, "event": str, "prev": str, "hash": str, "wall_s": int | float}
        good = all(isinstance(record.get(key), kind) for key, kind in kinds.items())
        return record if good else None
