"""Who may use which server: approvals that match exactly, and the record of every decision. No secrets in
either.
"""

from __future__ import annotations

import abc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from robot_mcp_kit.client.database import Database, MemoryDatabase
from robot_mcp_kit.client.refusals import Refusal, RefusedError
from robot_mcp_kit.client.sources import Tier

_SCHEMA = """
CREATE TABLE IF NOT EXISTS approval (identity TEXT PRIMARY KEY, server TEXT NOT NULL, approver TEXT NOT NULL,
    at_s REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY, at_s REAL NOT NULL, entry TEXT NOT NULL) STRICT
"""
KEPT_AUDIT = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """Exactly what is approved. Each part must be the same when the server is used (A12)."""

    server: str
    tier: str
    origin: str
    """The file or plugin that defines it."""
    fingerprint: str
    security: str
    """Under whose authority this chat app runs, as the host names it."""
    repository: str = ""
    """Of the workspace; compared for all tiers but managed and user."""
    generation: str = ""
    """Of the workspace's trust; likewise."""

    def matched(self) -> Identity:
        """Only what is compared for its tier."""
        if self.tier in (Tier.MANAGED.name, Tier.USER.name):
            return Identity(self.server, self.tier, self.origin, self.fingerprint, self.security)
        return self

    def differences(self, other: Identity) -> list[str]:
        """Names of the parts in which two differ."""
        one, two = asdict(self.matched()), asdict(other.matched())
        return [field.name for field in fields(self) if one[field.name] != two[field.name]]


@dataclass(frozen=True, slots=True)
class Approver:
    """Who approves: a person at the host, or the tier that a definition came from."""

    name: str
    tier: Tier | None = None
    """``None`` for a person; a source that speaks for itself otherwise."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One decision."""

    at_s: float
    event: str
    """``approved``, ``revoked``, ``admitted`` or ``denied``."""
    server: str
    fingerprint: str
    endpoint: str
    """Masked."""
    who: str = ""
    code: str = ""


class ApprovalStore(abc.ABC):
    """Keeps approvals and the audit trail; replaceable."""

    @abc.abstractmethod
    def approve(self, identity: Identity, approver: Approver, *, endpoint: str = "") -> None:
        """From now on this identity is approved.

        Raises:
            RefusedError: ``self_approval``: project and plugin sources do not approve, least of all
            themselves.
        """

    @abc.abstractmethod
    def revoke(self, server: str, who: str) -> int:
        """No approval of this server stands any more; how many there were."""

    @abc.abstractmethod
    def approved(self, server: str) -> list[Identity]:
        """The identities of this server that are approved."""

    @abc.abstractmethod
    def record(self, entry: AuditEntry) -> None:
        """Add to the audit trail."""

    @abc.abstractmethod
    def audit(self) -> list[AuditEntry]:
        """The trail, oldest first (the last 10,000)."""


class SqliteApprovals(ApprovalStore):
    """In a database, such as the task book's.

    Args:
        database: in memory by default.
        wall_clock: Unix seconds.
    """

    def __init__(
        self, database: Database | None = None, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database if database is not None else MemoryDatabase()
        self._wall_clock = wall_clock
        self._database.migrate("approvals", 1, _SCHEMA)

    def approve(self, identity: Identity, approver: Approver, *, endpoint: str = "") -> None:
        if approver.tier in (Tier.PROJECT, Tier.PLUGIN):
            raise RefusedError(
                Refusal(
                    "self_approval",
                    f"a {approver.tier.name.lower()} source approves nothing; a person has to",
                    identity.server,
                )
            )
        with self._database.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO approval VALUES (?, ?, ?, ?)",
                (_text(asdict(identity.matched())), identity.server, approver.name, self._wall_clock()),
            )
            self._add("approved", identity, endpoint, approver.name)

    def revoke(self, server: str, who: str) -> int:
        with self._database.transaction() as db:
            count = db.execute("DELETE FROM approval WHERE server = ?", (server,)).rowcount
            self.record(AuditEntry(self._wall_clock(), "revoked", server, "", "", who))
        return int(count)

    def approved(self, server: str) -> list[Identity]:
        with self._database.transaction() as db:
            rows = db.execute("SELECT identity FROM approval WHERE server = ?", (server,)).fetchall()
        return [Identity(**json.loads(row[0])) for row in rows]

    def _add(self, event: str, identity: Identity, endpoint: str, who: str) -> None:
        self.record(
            AuditEntry(self._wall_clock(), event, identity.server, identity.fingerprint, endpoint, who)
        )

    def record(self, entry: AuditEntry) -> None:
        with self._database.transaction() as db:
            db.execute("INSERT INTO audit (at_s, entry) VALUES (?, ?)", (entry.at_s, _text(asdict(entry))))
            db.execute("DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - ?", (KEPT_AUDIT,))

    def audit(self) -> list[AuditEntry]:
        with self._database.transaction() as db:
            rows = db.execute("SELECT entry FROM audit ORDER BY number").fetchall()
        return [AuditEntry(**json.loads(row[0])) for row in rows]


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)
