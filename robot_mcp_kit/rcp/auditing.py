"""The audit trail as the protocol shows it: one entry for each request that was decided (R34, R36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from robot_mcp_kit.rcp.models import AuditEntry
from robot_mcp_kit.safety.risk import RiskLevel

PREFIX = "rcp."
_RESULTS = {"success": "success", "refused": "rejected"}


def audit_entries(records: Iterable[Mapping[str, Any]]) -> list[AuditEntry]:
    """Entries in the order of their decisions; what is not decided yet has none.

    Args:
        records: the trail's, oldest first (:func:`robot_mcp_kit.safety.audit_verify.records`). Requests of
            other surfaces are left out.
    """
    asked: dict[str, Mapping[str, Any]] = {}
    found: dict[str, AuditEntry] = {}
    for record in records:
        request, event = record.get("request"), record["event"]
        if event == "requested" and request and str(record.get("skill", "")).startswith(PREFIX):
            asked[request] = record
        elif event == "decided" and request in asked:
            found[request] = _decided(asked[request], record)
        elif event == "finished" and request in found:
            found[request].result = _RESULTS.get(record["result"], "failed")
    return list(found.values())


def _decided(asked: Mapping[str, Any], decided: Mapping[str, Any]) -> AuditEntry:
    arguments, approval = asked.get("arguments"), decided.get("approval") or {}
    params = dict(arguments) if isinstance(arguments, Mapping) else {}
    return AuditEntry(
        id=asked["request"],
        timestamp=decided["ts"],
        action=asked["action"],
        risk_level=RiskLevel(asked["risk"]),
        approved_by=approval.get("approver") or "",
        robot=asked["robot"],
        params=params,
        # Allowed and not finished: it runs, or nobody knows how it ended (R40).
        result="" if decided["decision"] == "allowed" else "rejected",
        diff_summary=str(params.get("diff_summary", "")),
    )
