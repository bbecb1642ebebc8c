"""Failures of the safety layer and of adapters as the protocol's errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from robot_mcp_kit.rcp.errors import (
    AdapterDisconnectedError,
    AdapterError,
    NotSupportedError,
    RCPError,
    RCPErrorCode,
)
from robot_mcp_kit.safety import refusals
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.skills.text import clean_text

_CODES: Mapping[str, RCPErrorCode] = MappingProxyType(
    {
        refusals.PROHIBITED: RCPErrorCode.ACTION_PROHIBITED,
        refusals.INTERLOCK: RCPErrorCode.INTERLOCKS_FAILED,
        refusals.HELD: RCPErrorCode.INTERLOCKS_FAILED,
        refusals.REJECTED: RCPErrorCode.APPROVAL_REJECTED,
        refusals.EXPIRED: RCPErrorCode.APPROVAL_EXPIRED,
        refusals.WITHDRAWN: RCPErrorCode.APPROVAL_EXPIRED,
    }
)
"""Every other refusal is a SAFETY_VIOLATION."""


def refused(error: SafetyRefused, audit_id: str = "") -> RCPError:
    """A refusal of the guard, with its code, details and the request's id in the trail (R37)."""
    data = {"reason": error.error_code, **error.details}
    if error.error_code == refusals.REJECTED:
        data["result"] = "rejected"  # R29
    audit_id = audit_id or error.request_id
    if audit_id:
        data["audit_id"] = audit_id
    return RCPError(
        error.message, code=_CODES.get(error.error_code, RCPErrorCode.SAFETY_VIOLATION), data=data
    )


def failed(error: Exception, audit_id: str = "") -> RCPError:
    """What an adapter raised."""
    if isinstance(error, RCPError):
        found = error
    elif isinstance(error, NotImplementedError):
        found = NotSupportedError(said(error))
    elif isinstance(error, ConnectionError):
        found = AdapterDisconnectedError(f"the controller was lost: {said(error)}")
    else:
        found = AdapterError(f"the adapter failed: {said(error)}")
    if audit_id:
        found.data["audit_id"] = audit_id
    return found


def said(error: BaseException) -> str:
    """What an exception says, in one short line."""
    return clean_text(str(error), 300) or type(error).__name__
