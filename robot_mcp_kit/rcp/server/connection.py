"""One client: its messages in, answers and events out, and what ends with it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.rcp.errors import AdapterBusyError, ParameterError, RCPError, RCPErrorCode
from robot_mcp_kit.rcp.events import CHANNELS, EventStream, canonical_channel, wanted_channels
from robot_mcp_kit.rcp.failures import failed, refused, said
from robot_mcp_kit.rcp.guarded import Executed, GuardedRobot, Waiting
from robot_mcp_kit.rcp.server.budget import Budget
from robot_mcp_kit.rcp.server.jsonrpc import (
    InvalidMessageError,
    Message,
    error_text,
    notification_text,
    parse,
    result_text,
)
from robot_mcp_kit.rcp.server.settings import RCPServerSettings
from robot_mcp_kit.safety.approvals import ApprovalError, Pending
from robot_mcp_kit.safety.principals import Approver, Requester
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.safety.risk import RiskLevel
from robot_mcp_kit.skills.text import clean_text, did_you_mean

logger = logging.getLogger(__name__)

MAX_REFUSED_IN_A_ROW = 1000
"""So many messages over its rate end a connection."""
POLICY_VIOLATION = 1008


class Socket(Protocol):
    """What a connection needs of a WebSocket."""

    async def send(self, message: str, /) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class Connection:
    """Serves one client until its socket ends.

    Args:
        robot: what it is about.
        socket: to the client.
        settings: limits.
        clock: monotonic.
        is_operator: it brought the operator's key: it decides, and asks for nothing that must be decided.
        client: what it calls itself.
        all_operators: the operators' connections of the server, to be told what waits.
    """

    def __init__(
        self,
        robot: GuardedRobot,
        socket: Socket,
        settings: RCPServerSettings,
        clock: Clock,
        *,
        is_operator: bool,
        client: str,
        all_operators: set[Connection],
    ) -> None:
        self._robot, self._socket, self._settings = robot, socket, settings
        self._is_operator, self._operators = is_operator, all_operators
        self.requester = Requester(str(uuid.uuid4()), "rcp", clean_text(client, 80))
        self._budget = Budget(clock, settings.messages_per_s, settings.burst)
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._ended = False
        self._channels: set[str] = set()
        self._listening = asyncio.Lock()
        self._results: deque[str] = deque()
        """What was asked for: as many as requests, and none is dropped."""
        self._events: deque[str] = deque(maxlen=settings.max_queued_events)
        self._event_came = asyncio.Event()
        self._stream: asyncio.Task[None] | None = None
        self._source: EventStream | None = None
        self._sender: asyncio.Task[None] | None = None
        self._methods: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "rcp.discover": self._discover,
            "rcp.context": self._context,
            "rcp.capabilities": self._capabilities,
            "rcp.read": self._read,
            "rcp.subscribe": self._subscribe,
            "rcp.unsubscribe": self._unsubscribe,
            "rcp.action.request": self._request,
            "rcp.action.approve": self._approve,
            "rcp.action.reject": self._reject,
            "rcp.action.cancel": self._cancel,
            "rcp.approvals": self._approvals,
            "rcp.estop": self._estop,
            "rcp.estop.reset": self._reset_estop,
        }

    async def received(self, raw: str | bytes) -> None:
        """One frame. Answers come on their own: a long motion does not hold up the stop behind it."""
        try:
            message = parse(raw)
        except InvalidMessageError as invalid:
            if self._budget.take():
                await self._send(error_text(invalid.id, invalid.error))
            else:
                await self._over_budget(None)
            return
        is_stop = _is_stop(message)
        if not is_stop and not self._budget.take():
            await self._over_budget(message)
            return
        if not is_stop and self._in_flight >= self._settings.max_in_flight:
            error = AdapterBusyError(f"{self._in_flight} requests are not answered yet; wait for those first")
            await self._answer(message, error_text(message.id, error))
            return
        if message.is_notification and not is_stop:
            # Nobody would hear the answer, so nothing is begun.
            logger.debug("the notification %s of a client was dropped", message.method)
            return
        task = asyncio.create_task(self._handle(message), name=f"rcp {message.method}")
        self._in_flight += 1
        self._tasks.add(task)
        task.add_done_callback(self._handled)

    async def ended(self) -> None:
        """The client is gone: what it asked for and nobody has decided goes too (R33)."""
        self._ended = True
        self._operators.discard(self)
        self._robot.guard.end_session(self.requester.session)
        if self._sender is not None:
            self._sender.cancel()
        # What runs at the robot runs on; only nobody waits for the answer here any more.
        for task in list(self._tasks):
            task.cancel()
        waiting = [task for task in (self._sender, *self._tasks) if task is not None]
        await asyncio.gather(*waiting, return_exceptions=True)
        await self._end_stream()

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Queue a notification; of events, whoever reads too slowly misses the oldest."""
        queue = self._events if method == "rcp.event" else self._results
        queue.append(notification_text(method, params))
        self._event_came.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_events(), name="rcp events")

    # -- the methods ----------------------------------------------------------------------------------------

    async def _discover(self, _params: Mapping[str, Any]) -> Any:
        return await self._robot.discover()

    async def _context(self, _params: Mapping[str, Any]) -> Any:
        report = await self._robot.context()
        told = dataclasses.asdict(report.context)
        return {**told, "missing": report.missing, "prompt_block": report.to_prompt_block()}

    async def _capabilities(self, _params: Mapping[str, Any]) -> Any:
        return self._robot.adapter.capabilities()

    async def _read(self, params: Mapping[str, Any]) -> Any:
        return await self._robot.read(params.get("uri", ""))

    async def _subscribe(self, params: Mapping[str, Any]) -> Any:
        wanted = wanted_channels(self._robot.adapter, params.get("channels"))
        async with self._listening:
            return await self._listen(self._channels | set(wanted))

    async def _unsubscribe(self, params: Mapping[str, Any]) -> Any:
        channels = params.get("channels")
        if not isinstance(channels, list):
            raise ParameterError("channels", f"must be a list of channel names, of {CHANNELS}")
        gone = {canonical_channel(name) for name in channels}
        async with self._listening:
            return await self._listen(self._channels - gone)

    async def _request(self, params: Mapping[str, Any]) -> Any:
        action, given = params.get("action"), params.get("params", {})
        got = await self._ask_robot(action, given)
        if isinstance(got, Executed):
            if got.risk is RiskLevel.SAFE:
                return got.result
            return _executed(got)
        got.outcome.add_done_callback(lambda done: self._outcome(got, done))
        pending = got.pending
        now_s = self._robot.guard.desk.now()
        for operator in self._operators:
            operator.tell("rcp.approval_required", pending.public(now_s))
        return {
            "status": "approval_required",
            "risk_level": got.risk.value,
            "action": got.action,
            "token": got.token,
            "expires_in_seconds": max(0, round(pending.expires_s - now_s)),
            "summary": pending.summary,
            "approval_id": pending.approval_id,
            "audit_id": got.audit_id,
        }

    async def _ask_robot(self, action: Any, given: Any) -> Executed | Waiting:
        if self._is_operator and not _is_harmless(action):
            raise RCPError(
                "an operator's connection decides about requests and makes none; ask over another connection",
                code=RCPErrorCode.SAFETY_VIOLATION,
            )
        # Shielded: a client that goes away while a motion with a standing approval runs does not end it.
        asking = asyncio.ensure_future(self._robot.request(action, given, self.requester))
        asking.add_done_callback(self._asked)
        return await asyncio.shield(asking)

    def _asked(self, done: asyncio.Future[Executed | Waiting]) -> None:
        """A request that began to wait when its client had gone waits for nobody (R33)."""
        if not self._ended or done.cancelled() or done.exception() is not None:
            return
        got = done.result()
        if isinstance(got, Waiting):
            self._robot.withdraw(got.token, self.requester)

    async def _approve(self, params: Mapping[str, Any]) -> Any:
        waiting = self._decide("approve", params)
        if isinstance(waiting, Pending) or params.get("wait") is False:
            pending = waiting if isinstance(waiting, Pending) else waiting.pending
            return {"status": "approved", "task_id": pending.task_id}
        return _executed(await asyncio.shield(waiting.outcome))

    async def _reject(self, params: Mapping[str, Any]) -> Any:
        waiting = self._decide("reject", params)
        pending = waiting if isinstance(waiting, Pending) else waiting.pending
        return {"status": "rejected", "task_id": pending.task_id}

    async def _cancel(self, params: Mapping[str, Any]) -> Any:
        token = params.get("token")
        if not isinstance(token, str):
            raise ParameterError("token", "must be the token of a request")
        return {"cancelled": self._robot.withdraw(token, self.requester)}

    async def _approvals(self, _params: Mapping[str, Any]) -> Any:
        self._check_operator("list", "")
        guard = self._robot.guard
        now_s = guard.desk.now()
        return {
            "approvals": [pending.public(now_s) for pending in guard.desk.pending()],
            "estop": {"latched": guard.estop.latched, "reason": guard.estop.reason},
        }

    async def _estop(self, params: Mapping[str, Any]) -> Any:
        """Anybody may stop a robot."""
        guard = self._robot.guard
        reason = clean_text(params.get("reason"), 200) or "the emergency stop was called"
        guard.latch(reason, self.requester.principal)
        return {"latched": True, "reason": guard.estop.reason}

    async def _reset_estop(self, params: Mapping[str, Any]) -> Any:
        self._check_operator("reset", "")
        approver = Approver(self._name(params), "operator")
        try:
            was = self._robot.guard.reset_estop(approver)
        except SafetyRefused as error:
            raise refused(error) from error
        return {"latched": False, "was": was}

    # -- deciding -------------------------------------------------------------------------------------------

    def _check_operator(self, what: str, token: str) -> None:
        """R32: whoever asked cannot agree to it."""
        if self._is_operator:
            return
        if token:
            self._robot.guard.note(
                "approval_refused", code="SELF_APPROVAL", approver=self.requester.principal, attempt=what
            )
        raise RCPError(
            f"only a person can {what}: over a connection with the operator's key, or with "
            "`robot-mcp-kit approve`; the one that asks cannot",
            code=RCPErrorCode.APPROVAL_REQUIRED,
        )

    def _decide(self, verdict: Literal["approve", "reject"], params: Mapping[str, Any]) -> Waiting | Pending:
        """Decide about the request of a token; one of another surface has no outcome here."""
        token, guard = params.get("token"), self._robot.guard
        if not isinstance(token, str):
            raise ParameterError("token", "must be the token of a request")
        waiting = self._robot.find(token)
        try:
            found = waiting if waiting is not None else guard.desk.find(token)
            self._check_operator(verdict, token)
            name = self._name(params)
            desk_token = found.token if isinstance(found, Pending) else found.pending.token
            reason = clean_text(params.get("reason", ""), 300)
            guard.decide(desk_token, verdict == "approve", Approver(name, "operator"), reason)
        except ApprovalError as error:
            raise RCPError(error.message, code=RCPErrorCode.APPROVAL_EXPIRED) from error
        return found

    @staticmethod
    def _name(params: Mapping[str, Any]) -> str:
        name = clean_text(params.get("approver"), 80)
        if not name:
            raise ParameterError("approver", "who decides? A name is needed for the audit trail")
        return name

    def _outcome(self, waiting: Waiting, done: asyncio.Task[Executed]) -> None:
        """Tell the one that asked how it ended."""
        told: dict[str, Any] = {
            "token": waiting.token,
            "action": waiting.action,
            "audit_id": waiting.audit_id,
        }
        error = None if done.cancelled() else done.exception()
        if done.cancelled():
            told["status"] = "cancelled"
        elif error is None:
            told |= _executed(done.result())
        else:
            found = failed(error) if isinstance(error, Exception) else RCPError(said(error))
            rejected = found.code is RCPErrorCode.APPROVAL_REJECTED
            told["status"] = "rejected" if rejected else "failed"
            told["error"] = {"code": int(found.code), "message": found.message, "data": found.data}
        self.tell("rcp.action_result", told)

    # -- events ---------------------------------------------------------------------------------------------

    async def _listen(self, channels: set[str]) -> dict[str, Any]:
        """One stream of the adapter for all channels of this client."""
        await self._end_stream()
        self._channels = channels
        source = self._source = self._robot.events(sorted(channels)) if channels else None
        if source is not None:
            self._stream = asyncio.create_task(self._forward(source), name="rcp stream")
        return {"subscribed": sorted(channels), "streaming": source is not None}

    async def _end_stream(self) -> None:
        """Also where the task had not begun to read."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
        if self._source is not None:
            await self._source.aclose()
        self._stream = self._source = None

    async def _forward(self, source: EventStream) -> None:
        try:
            async for event in source:
                self.tell("rcp.event", event.to_dict())
        except Exception as error:
            logger.exception("the adapter's event stream ended in an error")
            message = f"the event stream ended: {said(error)}; subscribe again"
            now_ms = self._robot.wall() * 1000.0
            self.tell("rcp.event", {"channel": "error", "data": {"message": message}, "timestamp": now_ms})

    async def _send_events(self) -> None:
        while True:
            await self._event_came.wait()
            self._event_came.clear()
            while self._results or self._events:
                await self._send((self._results or self._events).popleft())

    # -- inside ---------------------------------------------------------------------------------------------

    async def _handle(self, message: Message) -> None:
        handler = self._methods.get(message.method)
        try:
            if handler is None:
                raise RCPError(
                    f"there is no method {message.method}.{did_you_mean(message.method, self._methods)}",
                    code=RCPErrorCode.METHOD_NOT_FOUND,
                    data={"methods": sorted(self._methods)},
                )
            text = result_text(message.id, await handler(message.params))
        except RCPError as error:
            text = error_text(message.id, error)
        except Exception:
            logger.exception("%s failed unexpectedly", message.method)
            wrong = RCPError("something went wrong here; see the log", code=RCPErrorCode.INTERNAL_ERROR)
            text = error_text(message.id, wrong)
        await self._answer(message, text)

    def _handled(self, task: asyncio.Task[None]) -> None:
        self._in_flight -= 1
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.debug("an answer was not sent: %r", task.exception())

    async def _answer(self, message: Message, text: str) -> None:
        if not message.is_notification:
            await self._send(text)

    async def _send(self, text: str) -> None:
        await self._socket.send(text)

    async def _over_budget(self, message: Message | None) -> None:
        if self._budget.refused_in_a_row > MAX_REFUSED_IN_A_ROW:
            await self._socket.close(POLICY_VIOLATION, "too many messages")
            return
        error = AdapterBusyError(
            f"more than {self._settings.messages_per_s:g} messages a second; slow down",
            code=RCPErrorCode.TOO_MANY_REQUESTS,
        )
        if message is not None:
            await self._answer(message, error_text(message.id, error))


def _executed(done: Executed) -> dict[str, Any]:
    return {"status": "executed", "action": done.action, "result": done.result, "audit_id": done.audit_id}


def _is_stop(message: Message) -> bool:
    asks = message.method == "rcp.action.request"
    return message.method == "rcp.estop" or (asks and _named(message.params.get("action")) == "stop")


def _is_harmless(action: object) -> bool:
    return _named(action) in ("stop", "read", "capture_position")


def _named(action: object) -> str:
    return action.strip().casefold() if isinstance(action, str) else ""
