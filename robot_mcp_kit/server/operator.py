"""The operator's HTTP API: what waits for a person, approve, reject, emergency stop.

Apart from the MCP endpoint: no MCP session and no client's token opens it. Two channels prove a person:

* ``Authorization: Bearer <operator key>``: the operator's own tools.
* a signed POST of the chat app, ``X-RVC-Timestamp`` and ``X-RVC-Signature: sha256=...`` over the exact body,
  as events are signed, with a secret of its own. Each signature counts once.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from robot_mcp_kit.exposure import host_names as host_names
from robot_mcp_kit.safety.approvals import ApprovalError
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Approver
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.server.listening import APPROVAL_SECRET_VARIABLE
from robot_mcp_kit.server.requesters import SESSION_HEADER
from robot_mcp_kit.signing import DEFAULT_MAX_SKEW_S, parse_timestamp, verify
from robot_mcp_kit.skills.text import clean_text

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 16_384
_REMEMBERED_SIGNATURES = 10_000


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class OperatorAccess:
    """Who is believed to be a person."""

    operator_key: SecretStr
    approval_secret: SecretStr | None = None
    """Shared with the chat app; ``None``: it cannot approve."""
    hosts: frozenset[str] = frozenset()
    """Host headers that are answered; empty: all."""


class OperatorApi:
    """The routes, over one guard.

    Args:
        guard: asked and told.
        access: who may.
    """

    def __init__(self, guard: Guard, access: OperatorAccess) -> None:
        self._guard, self._access = guard, access
        self._seen: OrderedDict[str, float] = OrderedDict()
        """Signatures that were used, with their time."""

    def routes(self) -> list[Route]:
        return [
            Route("/api/approvals", self._answering(self._list), methods=["GET"]),
            Route("/api/approvals", self._answering(self._decide), methods=["POST"]),
            Route("/api/estop", self._answering(self._latch), methods=["POST"]),
            Route("/api/estop/reset", self._answering(self._reset), methods=["POST"]),
        ]

    # -- the routes -----------------------------------------------------------------------------------------

    async def _list(self, request: Request) -> dict[str, Any]:
        """GET /api/approvals: what waits, with tokens, and the state of the emergency stop."""
        self._operator(request)
        return self._state()

    async def _decide(self, request: Request) -> dict[str, Any]:
        """POST /api/approvals: ``action`` approve, reject or list; ``token``, ``approver``, ``reason``."""
        body = await self._body(request)
        approver, data = self._person(request, body)
        action = data.get("action")
        if action == "list":
            return self._state()
        if action not in ("approve", "reject"):
            raise Refused(400, "BAD_REQUEST", "action: must be approve, reject or list")
        token, reason = data.get("token"), data.get("reason", "")
        if not isinstance(token, str) or not token:
            raise Refused(400, "BAD_REQUEST", "token: is missing")
        try:
            pending = self._guard.decide(token, action == "approve", approver, clean_text(reason, 300))
        except ApprovalError as error:
            raise Refused(409, error.code, error.message) from error
        logger.warning("%s: %s by %s", pending.task_id, action, approver.principal)
        return {"task_id": pending.task_id, "decision": action, "approver": approver.principal}

    async def _latch(self, request: Request) -> dict[str, Any]:
        """POST /api/estop: stop everything and latch. Needs no key: anybody may stop a robot."""
        self._check_origin(request)
        try:
            data = json.loads(await self._body(request) or b"{}")
        except ValueError:
            data = {}
        reason = clean_text(data.get("reason"), 200) if isinstance(data, dict) else ""
        self._guard.latch(reason or "the emergency stop was called", "http")
        return {"latched": True, "reason": self._guard.estop.reason}

    async def _reset(self, request: Request) -> dict[str, Any]:
        """POST /api/estop/reset: the operator alone."""
        body = await self._body(request)
        name = self._name(_json_object(body) if body else {})
        self._operator(request)
        try:
            was = self._guard.reset_estop(Approver(name, "operator"))
        except SafetyRefused as error:
            raise Refused(409, error.error_code, error.message) from error
        except OSError as error:
            raise Refused(
                503, "STATE_NOT_WRITTEN", f"the latch's state cannot be written: {error}"
            ) from error
        return {"latched": False, "was": was}

    def _state(self) -> dict[str, Any]:
        now_s = self._guard.desk.now()
        return {
            "approvals": [pending.public(now_s) for pending in self._guard.desk.pending()],
            "estop": {"latched": self._guard.estop.latched, "reason": self._guard.estop.reason},
            "interlocks": [finding.record() for finding in self._guard.conditions()],
        }

    # -- who ------------------------------------------------------------------------------------------------

    def _person(self, request: Request, body: bytes) -> tuple[Approver, dict[str, Any]]:
        """Who decides, proven by one of the channels."""
        if "authorization" in request.headers:
            self._operator(request)
            data = _json_object(body)
            return Approver(self._name(data), "operator"), data
        self._check_origin(request)
        self._signed(request, body)
        data = _json_object(body)
        return Approver(self._name(data), "chat"), data

    def _operator(self, request: Request) -> None:
        self._check_origin(request)
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        good = self._access.operator_key.get_secret_value()
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), good.encode()):
            logger.warning("a call of %s without the operator's key was refused", request.url.path)
            raise Refused(401, "UNAUTHORIZED", "the operator's key is needed: Authorization: Bearer <key>")

    def _signed(self, request: Request, body: bytes) -> None:
        secret = self._access.approval_secret
        if secret is None:
            raise Refused(
                401,
                "UNAUTHORIZED",
                f"signed calls are off: {APPROVAL_SECRET_VARIABLE} is not set on the robot",
            )
        timestamp = parse_timestamp(request.headers.get("x-rvc-timestamp", ""))
        signature = request.headers.get("x-rvc-signature", "")
        if timestamp is None or not verify(secret.get_secret_value(), timestamp, body, signature):
            logger.warning("a call of %s with a wrong signature was refused", request.url.path)
            raise Refused(401, "UNAUTHORIZED", "the signature is missing, wrong, or too old")
        now_s = time.monotonic()
        while self._seen and (
            len(self._seen) > _REMEMBERED_SIGNATURES
            or now_s - next(iter(self._seen.values())) > 2 * DEFAULT_MAX_SKEW_S + 60
        ):
            self._seen.popitem(last=False)
        if signature.lower() in self._seen:
            raise Refused(401, "REPLAYED", "this signature was used already; sign again")
        self._seen[signature.lower()] = now_s

    def _check_origin(self, request: Request) -> None:
        """No MCP session, and no page in somebody's browser."""
        if SESSION_HEADER in request.headers:
            raise Refused(403, "REQUESTER", "an MCP session cannot approve, reject or reset anything")
        hosts = self._access.hosts
        if hosts and request.headers.get("host", "") not in hosts:
            raise Refused(421, "WRONG_HOST", "this host name is not answered; see allowed_hosts")
        origin = request.headers.get("origin")
        if origin is not None and hosts and origin.partition("://")[2] not in hosts:
            raise Refused(403, "WRONG_ORIGIN", "this origin is not allowed")

    @staticmethod
    def _name(data: dict[str, Any]) -> str:
        name = clean_text(data.get("approver"), 80)
        if not name:
            raise Refused(400, "BAD_REQUEST", "approver: who decides? A name is needed for the audit trail")
        return name

    @staticmethod
    async def _body(request: Request) -> bytes:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise Refused(413, "TOO_LARGE", f"at most {MAX_BODY_BYTES} bytes")
        return body

    def _answering(
        self, handler: Callable[[Request], Awaitable[dict[str, Any]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            headers = {"cache-control": "no-store"}
            try:
                return JSONResponse(await handler(request), headers=headers)
            except Refused as error:
                content = {"error": {"code": error.code, "message": error.message}}
                return JSONResponse(content, status_code=error.status, headers=headers)

        return answer


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except ValueError as error:
        raise Refused(400, "BAD_REQUEST", "the body must be a JSON object") from error
    if not isinstance(data, dict):
        raise Refused(400, "BAD_REQUEST", "the body must be a JSON object")
    return data
