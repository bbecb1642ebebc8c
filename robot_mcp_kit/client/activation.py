"""Whether a definition may be used. The port, and its implementation over approvals and the host's trust."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from dataclasses import dataclass

from robot_mcp_kit.client.approvals import ApprovalStore, AuditEntry, Identity
from robot_mcp_kit.client.fingerprint import fingerprint
from robot_mcp_kit.client.materializing import Materialized
from robot_mcp_kit.client.projection import endpoint
from robot_mcp_kit.client.refusals import Refusal
from robot_mcp_kit.client.sources import Tier


@dataclass(frozen=True, slots=True)
class Workspace:
    """What the host says of where it runs."""

    security: str = "local"
    """Under whose authority it runs."""
    repository: str = ""
    generation: str = ""
    """Changes whenever its trust was given anew."""
    trusted: bool | None = None
    """Only a plain yes is one."""


class Admission(abc.ABC):
    """Decides, before anything is connected or started, and again just before a process is."""

    @abc.abstractmethod
    def admit(self, server: Materialized, tier: Tier, origin: str) -> Refusal | None:
        """``None``: it may be used now."""


class ApprovalAdmission(Admission):
    """Every server needs an approval of exactly what it is; what comes with a workspace needs its trust as
    well.

    Args:
        approvals: what has been approved, and the audit trail.
        workspace: asked at every decision, so that a trust that is taken back counts at once.
        implicit: tiers whose definitions count as approved by being written there, such as ``{Tier.USER}``
        where
            the chat app's own operator writes that file. None by default; project and plugin cannot be among
            them.
        wall_clock: Unix seconds.

    Raises:
        ValueError: project or plugin is among ``implicit``.
    """

    def __init__(
        self,
        approvals: ApprovalStore,
        workspace: Callable[[], Workspace] = Workspace,
        *,
        implicit: frozenset[Tier] = frozenset(),
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if implicit & {Tier.PROJECT, Tier.PLUGIN}:
            raise ValueError("implicit: project and plugin sources cannot approve themselves")
        self._approvals = approvals
        self._workspace = workspace
        self._implicit = implicit
        self._wall_clock = wall_clock

    def identity(self, server: Materialized, tier: Tier, origin: str) -> Identity:
        """What would have to be approved."""
        workspace = self._workspace()
        return Identity(
            server=server.name,
            tier=tier.name,
            origin=origin,
            fingerprint=fingerprint(server),
            security=workspace.security,
            repository=workspace.repository,
            generation=workspace.generation,
        )

    def admit(self, server: Materialized, tier: Tier, origin: str) -> Refusal | None:
        identity = self.identity(server, tier, origin)
        refusal = self._judge(server, tier, identity)
        self._approvals.record(
            AuditEntry(
                at_s=self._wall_clock(),
                event="admitted" if refusal is None else "denied",
                server=server.name,
                fingerprint=identity.fingerprint,
                endpoint=endpoint(server),
                code="" if refusal is None else refusal.code,
            )
        )
        return refusal

    def _judge(self, server: Materialized, tier: Tier, identity: Identity) -> Refusal | None:
        needs_trust = server.definition.requires_trusted_workspace
        if tier in (Tier.PROJECT, Tier.PLUGIN):
            needs_trust = True  # what came with the workspace does not decide whether it needs its trust
        if needs_trust and self._workspace().trusted is not True:
            return Refusal(
                "workspace_untrusted", "needs a trusted workspace, and this one is not trusted", server.name
            )
        if tier in self._implicit:
            return None
        known = self._approvals.approved(server.name)
        differences = [identity.differences(one) for one in known]
        if [] in differences:
            return None
        if not known:
            return Refusal("not_approved", "has not been approved", server.name)
        closest = min(differences, key=len)
        return Refusal(
            "approval_stale",
            f"was approved, but differs since then in: {', '.join(closest)}; approve it again",
            server.name,
        )
