"""JSON-RPC 2.0 as this server takes it: one message a text frame, strict JSON, no batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.rcp.errors import RCPError, RCPErrorCode

MessageId = str | int | None
MAX_METHOD_CHARS = 100


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification when ``is_notification``."""

    method: str
    params: Mapping[str, Any]
    id: MessageId = None
    is_notification: bool = False


@dataclass(slots=True)
class InvalidMessageError(Exception):
    """What cannot be taken; answered under the message's id where that could be read."""

    error: RCPError
    id: MessageId = field(default=None)


def parse(raw: str | bytes) -> Message:
    """One message.

    Raises:
        InvalidMessageError: not text, not JSON (-32700), or not a single JSON-RPC 2.0 request (-32600).
    """
    if isinstance(raw, bytes):
        raise _invalid("binary frames are not taken; send JSON as text")
    try:
        data = json.loads(raw, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        message = f"this is no JSON: {str(error)[:200]}"
        raise InvalidMessageError(RCPError(message, code=RCPErrorCode.PARSE_ERROR)) from None
    if isinstance(data, list):
        raise _invalid("batches are not taken; send one message a frame")
    if not isinstance(data, dict):
        raise _invalid("a message must be a JSON object")
    known = data.get("id")
    ident: MessageId = known if isinstance(known, str | int) and not isinstance(known, bool) else None
    if "id" in data and ident is None:
        raise _invalid("id: must be text or a whole number; leave it out for a notification")
    if isinstance(ident, str) and len(ident) > MAX_METHOD_CHARS:
        raise _invalid(f"id: at most {MAX_METHOD_CHARS} characters")
    if data.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc: must be "2.0"', ident)
    method, params = data.get("method"), data.get("params", {})
    if not isinstance(method, str) or not method or len(method) > MAX_METHOD_CHARS:
        raise _invalid("method: must be the name of a method", ident)
    if not isinstance(params, dict):
        raise InvalidMessageError(
            RCPError("params: must be an object of named parameters", code=RCPErrorCode.INVALID_PARAMS), ident
        )
    return Message(method, params, ident, "id" not in data)


def result_text(ident: MessageId, result: Any) -> str:
    """The answer to a request."""
    return _text({"jsonrpc": "2.0", "result": to_jsonable(result), "id": ident})


def error_text(ident: MessageId, error: RCPError) -> str:
    """The answer to a request that was refused or failed."""
    told: dict[str, Any] = {"code": int(error.code), "message": error.message}
    if error.data:
        told["data"] = to_jsonable(error.data)
    return _text({"jsonrpc": "2.0", "error": told, "id": ident})


def notification_text(method: str, params: Mapping[str, Any]) -> str:
    """What nobody asked for at that moment."""
    return _text({"jsonrpc": "2.0", "method": method, "params": to_jsonable(params)})


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _invalid(message: str, ident: MessageId = None) -> InvalidMessageError:
    return InvalidMessageError(RCPError(message, code=RCPErrorCode.INVALID_REQUEST), ident)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two keys with one name readers may take either: what was approved must be what everybody read."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
