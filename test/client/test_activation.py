"""Approvals: exactly what was approved, by whoever may, on the record (A9, A10, A12, A13, A14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.activation import ApprovalAdmission, Workspace
from robot_mcp_kit.client.approvals import Approver, SqliteApprovals
from robot_mcp_kit.client.database import open_database
from robot_mcp_kit.client.materializing import Materialized, materialize
from robot_mcp_kit.client.refusals import RefusedError
from robot_mcp_kit.client.sources import Tier

from .hostile import resolution


class Asked:
    """An admission over real approvals, with a workspace that the test changes."""

    def __init__(self) -> None:
        self.workspace = Workspace(security="me", repository="repo-1", generation="1", trusted=True)
        self.approvals = SqliteApprovals()
        self.admission = ApprovalAdmission(self.approvals, lambda: self.workspace)

    def server(self, environment: dict[str, str] | None = None, **entry: Any) -> Materialized:
        whole = {"command": "python", "args": ["a.py"], "env": {"TOKEN": "${TOKEN}"}} | entry
        definition = resolution(arm=whole).servers["arm"].definition
        assert definition is not None
        return materialize(definition, environment or {"TOKEN": "pl4nt3d"})

    def admit(
        self, server: Materialized | None = None, *, tier: Tier = Tier.PROJECT, origin: str = "mcp.yaml"
    ) -> str:
        refused = self.admission.admit(server or self.server(), tier, origin)
        return "" if refused is None else refused.code

    def approve(self, tier: Tier = Tier.PROJECT, by: Approver = Approver("ann")) -> None:  # noqa: B008
        self.approvals.approve(self.admission.identity(self.server(), tier, "mcp.yaml"), by)


@pytest.mark.parametrize("tier", list(Tier))
def test_what_nobody_has_approved_is_not_used(tier: Tier) -> None:
    asked = Asked()
    assert asked.admit(tier=tier) == "not_approved"
    asked.approve(tier)
    assert asked.admit(tier=tier) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"command": "python3"},
        {"args": ["b.py"]},
        {"env": {"TOKEN": "${TOKEN}", "MORE": "1"}},
        {"timeouts": {"call_s": 5}},
        {"cwd": "x"},
    ],
)
def test_a_changed_definition_needs_a_new_approval(change: dict[str, Any]) -> None:
    """A9."""
    asked = Asked()
    asked.approve()
    assert asked.admit(asked.server(**change)) == "approval_stale"


def test_a_rotated_credential_does_not() -> None:
    """A10."""
    asked = Asked()
    asked.approve()
    assert asked.admit(asked.server({"TOKEN": "another"})) == ""


@pytest.mark.parametrize("tier", [Tier.PROJECT, Tier.PLUGIN, Tier.LOCAL, Tier.USER, Tier.MANAGED])
@pytest.mark.parametrize("part", ["security", "repository", "generation", "origin", "tier"])
def test_an_approval_is_of_exactly_what_was_approved(tier: Tier, part: str) -> None:
    """A12: repository and generation count for all tiers but managed and user."""
    asked = Asked()
    asked.approve(tier)
    origin, used = "mcp.yaml", tier
    if part == "origin":
        origin = "other.yaml"
    elif part == "tier":
        used = Tier.LOCAL if tier is not Tier.LOCAL else Tier.PROJECT
    else:
        values = {
            "security": asked.workspace.security,
            "repository": asked.workspace.repository,
            "generation": asked.workspace.generation,
        }
        asked.workspace = Workspace(**{**values, part: "changed"}, trusted=True)
    of_no_workspace = tier in (Tier.MANAGED, Tier.USER) and part in ("repository", "generation")
    assert asked.admit(tier=used, origin=origin) == ("" if of_no_workspace else "approval_stale")


@pytest.mark.parametrize("tier", [Tier.PROJECT, Tier.PLUGIN])
def test_a_project_or_a_plugin_approves_nothing(tier: Tier) -> None:
    """A13."""
    asked = Asked()
    with pytest.raises(RefusedError) as caught:
        asked.approve(tier, Approver("itself", tier))
    assert caught.value.refusal.code == "self_approval"
    assert asked.admit(tier=tier) == "not_approved"
    with pytest.raises(ValueError, match="cannot approve themselves"):
        ApprovalAdmission(asked.approvals, implicit=frozenset({tier}))


@pytest.mark.parametrize("trusted", [False, None])
def test_without_trust_nothing_that_came_with_the_workspace_runs_whatever_it_says(
    trusted: bool | None,
) -> None:
    """A13: denied by default, and not up to the definition."""
    asked = Asked()
    asked.approve()
    asked.workspace = Workspace("me", "repo-1", "1", trusted)
    assert asked.admit() == "workspace_untrusted"
    assert asked.admit(asked.server(requires_trusted_workspace=False)) == "workspace_untrusted"
    asked.approve(Tier.USER)
    assert asked.admit(tier=Tier.USER) == ""
    assert asked.admit(asked.server(requires_trusted_workspace=True), tier=Tier.USER) == "workspace_untrusted"


def test_an_approval_that_is_revoked_counts_no_more_and_all_of_it_is_in_the_audit_trail() -> None:
    """A14: and the trail holds no secret."""
    asked = Asked()
    asked.admit()
    asked.approve()
    asked.admit()
    assert asked.approvals.revoke("arm", "ann") == 1
    assert asked.admit() == "not_approved"
    trail = asked.approvals.audit()
    assert [entry.event for entry in trail] == ["denied", "approved", "admitted", "revoked", "denied"]
    assert [entry.code for entry in trail] == ["not_approved", "", "", "", "not_approved"]
    assert "pl4nt3d" not in repr(trail)
    assert trail[2].endpoint == "python a.py"


def test_approvals_outlive_the_process(tmp_path: Path) -> None:
    first = open_database(tmp_path / "chat.db")
    asked = Asked()
    SqliteApprovals(first).approve(
        asked.admission.identity(asked.server(), Tier.USER, "mcp.yaml"), Approver("ann")
    )
    first.close()
    second = open_database(tmp_path / "chat.db")
    admission = ApprovalAdmission(SqliteApprovals(second), lambda: asked.workspace)
    assert admission.admit(asked.server(), Tier.USER, "mcp.yaml") is None
    second.close()
