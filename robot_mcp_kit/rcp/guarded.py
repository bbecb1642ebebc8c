"""An adapter behind the safety layer: the only way from a request to an adapter's methods.

Reading and the SAFE actions go through at once. Every other action is admitted by the guard, waits for a
person (or a standing approval), passes the interlocks, is written down, and only then is the adapter called.
``stop`` waits for nothing.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
import secrets
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from robot_mcp_kit.clock import Clock, WallClock
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.rcp.actions import ACTIONS, Action
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.declared import Facts, rules_of
from robot_mcp_kit.rcp.diff import diff
from robot_mcp_kit.rcp.errors import (
    AdapterBusyError,
    NotSupportedError,
    ParameterError,
    RCPError,
    RCPErrorCode,
)
from robot_mcp_kit.rcp.failures import failed, refused, said
from robot_mcp_kit.rcp.models import UploadResult
from robot_mcp_kit.rcp.parameters import Parameters, Resource, Upload, parse_parameters
from robot_mcp_kit.rcp.prompt import MAX_NAME_CHARS
from robot_mcp_kit.rcp.reading import RobotReader
from robot_mcp_kit.rcp.running import OverdueError, Running, StoppedError
from robot_mcp_kit.rcp.timing import Timeouts, bounded
from robot_mcp_kit.safety.approvals import Pending
from robot_mcp_kit.safety.clearance import Clearance
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Finding
from robot_mcp_kit.safety.order import Order
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import SafetyRefused
from robot_mcp_kit.safety.risk import RiskLevel, UnknownActionError, action_named
from robot_mcp_kit.skills.text import clean_text, did_you_mean

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Executed:
    """An action that was done."""

    action: str
    risk: RiskLevel
    result: Any
    """What the adapter answered, JSON-able."""
    audit_id: str = ""
    """The request's id in the audit trail (R37); empty for SAFE actions, which have no entry."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """An action that waits for a person."""

    token: str = field(repr=False)
    """For whoever asked: it takes the request back, it does not approve."""
    action: str
    risk: RiskLevel
    audit_id: str
    pending: Pending
    """The desk's half, for operators."""
    outcome: asyncio.Task[Executed] = field(repr=False)
    """Ends when the action was executed; raises :class:`RCPError` when it was not."""


class GuardedRobot(RobotReader):
    """One adapter and the guard over it. Lives on one event loop; serves any number of clients.

    Args:
        adapter: the controller's.
        guard: the safety layer's; it may guard other things of this robot too. It is not closed here.
        clock: monotonic.
        wall: Unix seconds, for events without a stamp.
        timeouts: how long the adapter may take.
        raised: risk levels above those of the protocol, by action. Lower ones have no effect (R3).
    """

    def __init__(
        self,
        adapter: RCPAdapter,
        guard: Guard,
        *,
        clock: Clock | None = None,
        wall: WallClock = time.time,
        timeouts: Timeouts | None = None,
        raised: Mapping[str, RiskLevel] | None = None,
    ) -> None:
        super().__init__(adapter, clock=clock, wall=wall, timeouts=timeouts)
        self.guard = guard
        self._facts: dict[str, Facts] = {}
        self._running: set[Running] = set()
        self._waiting: dict[str, Waiting] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._stops = 0
        self._rules = {}
        for name, action in ACTIONS.items():
            risk = max(action.risk, (raised or {}).get(name, action.risk), key=lambda level: level.rank)
            facts = functools.partial(self._facts.__getitem__, name)
            self._rules[name] = rules_of(name, risk, guard.config.safety.approval, facts)
        guard.latch_listeners.append(self._latched)

    async def disconnect(self) -> None:
        """Stop what runs and leave the controller. Harmless when repeated (R11)."""
        if self._running:
            try:
                await self.stop("the adapter disconnects")
            except RCPError as error:
                logger.error("before disconnecting, the robot did not take a stop: %s", error)
        await super().disconnect()

    async def aclose(self) -> None:
        """End everything that waits or runs, and disconnect. Harmless when repeated."""
        for waiting in list(self._waiting.values()):
            self.guard.desk.withdraw(waiting.pending, "the robot's adapter ends")
        try:
            await self.disconnect()
        finally:
            if self._latched in self.guard.latch_listeners:
                self.guard.latch_listeners.remove(self._latched)
            outcomes = [waiting.outcome for waiting in self._waiting.values()]
            await asyncio.gather(*self._background, *outcomes, return_exceptions=True)

    # -- actions --------------------------------------------------------------------------------------------

    async def request(
        self, action: str, params: Mapping[str, Any] | None, requester: Requester
    ) -> Executed | Waiting:
        """Ask for an action.

        Args:
            action: its name; how it is written does not matter (R5).
            params: see :mod:`robot_mcp_kit.rcp.parameters`.
            requester: who asks.

        Returns:
            what was executed, for SAFE actions and those that a standing approval covers; else what waits.

        Raises:
            RCPError: refused, or the adapter failed; nothing was executed in the first case.
        """
        known = self._known(action, requester)
        params = {} if params is None else params
        if known is None:
            return Executed("read", RiskLevel.SAFE, await self.read(parse_parameters(Resource, params).uri))
        given = parse_parameters(known.parameters, params)
        if known.name == "stop":
            return Executed("stop", RiskLevel.SAFE, await self.stop(f"asked for by {requester.principal}"))
        self._check_connected()
        known.check_supported(self.adapter)
        if self._rules[known.name].risk is not RiskLevel.SAFE:
            return await self._request_guarded(known, given, requester)
        try:
            answer = await bounded(self._called(known, given), self._timeouts.action_s, self._clock)
        except Exception as error:
            raise failed(error) from error
        return Executed(known.name, RiskLevel.SAFE, to_jsonable(answer))

    async def stop(
        self, reason: str = "asked for", *, code: RCPErrorCode = RCPErrorCode.ADAPTER_ERROR
    ) -> dict[str, Any]:
        """Stop every motion now, withdraw what waits, end what runs (R28). Asks nobody, waits for nothing.

        Args:
            reason: for whoever waits for the motion, and for the trail.
            code: of the error that a running action ends with.

        Raises:
            RCPError: the adapter did not take the stop. What ran was abandoned all the same.
        """
        self._stops += 1
        stopping = asyncio.create_task(self._stop_adapter())
        await asyncio.sleep(0)  # the adapter is called before anything is written
        ended = [running.action for running in self._running]
        for running in list(self._running):
            running.stop(reason, code)
        self.guard.stopped(f"rcp: {reason}", ended, note=False)
        try:
            await bounded(stopping, self._timeouts.stop_s, self._clock)
        except Exception as error:
            raise failed(error) from error
        return {"stopped": True, "ended": ended}

    async def _stop_adapter(self) -> None:
        await self.adapter.stop()

    def find(self, token: str) -> Waiting | None:
        """What waits under a requester's token or the desk's. Compared in constant time."""
        wanted = token.encode("utf-8", "replace")
        for own, waiting in self._waiting.items():
            mine = hmac.compare_digest(own.encode(), wanted)
            if hmac.compare_digest(waiting.pending.token.encode(), wanted) or mine:
                return waiting
        return None

    def withdraw(self, token: str, requester: Requester) -> bool:
        """Take back a request of this requester's own session; whether there was one."""
        waiting = self._waiting.get(token)
        if waiting is None or waiting.pending.requester.session != requester.session:
            return False
        self.guard.desk.withdraw(waiting.pending, "the one that asked took it back")
        return True

    # -- the way of one guarded action ----------------------------------------------------------------------

    async def _request_guarded(
        self, action: Action, given: Parameters, requester: Requester
    ) -> Executed | Waiting:
        await self._learn(action)
        arguments, more = await self._for_the_trail(given)
        order = Order(
            name=f"rcp.{action.name}",
            action=action.name,
            type=f"rcp/{action.name}",
            summary=action.summary(given) + more,
            fields=given.model_dump(),
            robot=await self._label(),
        )
        rules = self._rules[action.name]
        try:
            clearance = self.guard.admit_order(order, rules, requester=requester, arguments=arguments)
            pending = self.guard.ask(clearance, f"rcp-{clearance.request_id[:8]}")
        except SafetyRefused as error:
            raise refused(error) from error
        stops = self._stops
        if pending is None:
            return await self._execute(action, clearance, stops)
        waiting = Waiting(
            token=secrets.token_urlsafe(32),
            action=action.name,
            risk=clearance.risk,
            audit_id=clearance.request_id,
            pending=pending,
            outcome=asyncio.create_task(
                self._after_decision(action, clearance, pending, stops), name=order.summary[:80]
            ),
        )
        self._waiting[waiting.token] = waiting
        waiting.outcome.add_done_callback(lambda done: self._decided(waiting.token, done))
        return waiting

    def _decided(self, token: str, done: asyncio.Task[Executed]) -> None:
        self._waiting.pop(token, None)
        if not done.cancelled() and done.exception() is not None:
            logger.info("%s: %s", done.get_name(), done.exception())

    async def _after_decision(
        self, action: Action, clearance: Clearance, pending: Pending, stops: int
    ) -> Executed:
        try:
            await self.guard.decided(clearance, pending)
        except SafetyRefused as error:
            raise refused(error, clearance.request_id) from error
        return await self._execute(action, clearance, stops)

    async def _execute(self, action: Action, clearance: Clearance, stops: int) -> Executed:
        """Everything is asked once more; then the adapter is called, once, unless it was stopped since."""
        audit_id = clearance.request_id
        try:
            self._check_connected()
            action.check_supported(self.adapter)
            self._check_free(action, stops)
            await self._learn(action)
            permit = await self.guard.permit(clearance, uuid4(), self._own_interlock)
            # From here to the call nothing is waited for.
            self._check_free(action, stops)
        except SafetyRefused as error:
            raise refused(error, audit_id) from error
        except RCPError as error:
            self.guard.finished(
                clearance, result="refused", code=error.code.name, sent=False, said=error.message
            )
            raise failed(error, audit_id) from error
        given = action.parameters.model_validate(dict(permit.spend()))
        running = Running(action.name, self._called(action, given), self._clock, moves=action.moves)
        self._running.add(running)
        hold = self.guard.hold(clearance.skill, self._broken) if action.moves else None
        try:
            answer = await running.result(
                self._timeouts.action_s,
                self._timeouts.stop_grace_s,
                hold.tick if hold is not None else lambda: None,
            )
        except BaseException as error:
            self._end_badly(action, clearance, error)
            if isinstance(error, Exception):
                raise failed(error, audit_id) from error
            raise
        finally:
            self._running.discard(running)
            if hold is not None:
                hold.close()
        return self._end_well(action, clearance, answer)

    async def _called(self, action: Action, given: Parameters) -> Any:
        return await action.call(self.adapter, given)

    def _end_well(self, action: Action, clearance: Clearance, answer: Any) -> Executed:
        if isinstance(answer, UploadResult):
            answer.audit_id = clearance.request_id  # R44
        result = to_jsonable(answer)
        told = result if isinstance(result, dict) else {}
        self.guard.finished(
            clearance,
            result="failed" if told.get("success") is False else "success",
            said=clean_text(told.get("message"), 300),
        )
        return Executed(action.name, clearance.risk, result, clearance.request_id)

    def _end_badly(self, action: Action, clearance: Clearance, error: BaseException) -> None:
        stopped = isinstance(error, StoppedError | asyncio.CancelledError)
        self.guard.finished(
            clearance,
            result="cancelled" if stopped else "failed",
            code=error.code.name if isinstance(error, RCPError) else type(error).__name__,
            said=said(error),
        )
        given_up = isinstance(error, StoppedError) and error.data.get("abandoned")
        if action.moves and (given_up or isinstance(error, OverdueError | asyncio.CancelledError)):
            # What it may still have sent after the first stop ends too.
            self._stop_soon(f"{action.name} was given up")

    async def _own_interlock(self) -> Finding:
        """The adapter's own word, never later than it may take (R24)."""
        try:
            answer = await bounded(self.adapter.verify_interlocks(), self._timeouts.interlock_s, self._clock)
        except Exception as error:
            return Finding("adapter", False, f"it cannot be asked: {said(error)}")
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool)):
            return Finding("adapter", False, f"not (bool, reason), but {clean_text(repr(answer), 80)}")
        good, reason = answer
        return Finding("adapter", good, clean_text(reason, 300) or ("ok" if good else "it gives no reason"))

    def _broken(self, reason: str) -> None:
        self._stop_soon(f"a safety condition broke: {reason}", RCPErrorCode.INTERLOCKS_FAILED)

    def _latched(self, reason: str) -> None:
        self._stop_soon(f"emergency stop: {reason}", RCPErrorCode.SAFETY_VIOLATION)

    def _stop_soon(self, reason: str, code: RCPErrorCode = RCPErrorCode.ADAPTER_ERROR) -> None:
        stopping: Coroutine[Any, Any, Any] = self.stop(reason, code=code)
        task = asyncio.get_running_loop().create_task(stopping, name="rcp stop")
        self._background.add(task)
        task.add_done_callback(self._stop_ended)

    def _stop_ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("THE ROBOT DID NOT TAKE A STOP: %s", task.exception())

    # -- what is asked of the adapter -----------------------------------------------------------------------

    def _known(self, name: object, requester: Requester) -> Action | None:
        """The action; ``None`` for ``read``.

        Raises:
            RCPError: prohibited (3004) or unknown (2001).
        """
        if not isinstance(name, str) or len(name) > MAX_NAME_CHARS:
            raise ParameterError(
                "action", f"must be the name of an action, at most {MAX_NAME_CHARS} characters"
            )
        try:
            self.guard.unknown_skill(name, requester)
            return ACTIONS.get(action_named(name))
        except SafetyRefused as error:
            raise refused(error) from error
        except UnknownActionError as error:
            raise NotSupportedError(
                f"action: {error}.{did_you_mean(name[:80], ACTIONS)}", data={"actions": sorted(ACTIONS)}
            ) from None

    async def _learn(self, action: Action) -> None:
        """What the limits of an action are measured against, asked now."""
        limits, name = self.adapter.motion_limits(), action.name
        facts = Facts(limits)
        if name in ("move_to", "vision.calibrate_hand_eye"):
            reach_mm = limits.reach_mm if limits.reach_mm is not None else (await self._who()).reach_mm
            facts = Facts(limits, reach_mm)
        elif name in ("set_io", "test_device"):
            signals = (await self._ask("io")).signals
            facts = Facts(limits, signals={signal.name: signal for signal in signals})
        elif name == "start_program":
            facts = Facts(limits, programs=frozenset(program.name for program in await self._ask("programs")))
        self._facts[name] = facts

    async def _label(self) -> str:
        """The robot for the trail (R36)."""
        try:
            return clean_text((await self._who()).label, 200)
        except RCPError:
            return self.guard.config.robot.name

    async def _for_the_trail(self, given: Parameters) -> tuple[dict[str, Any], str]:
        """The parameters as they may be written down (R39), and what a person is told besides."""
        if not isinstance(given, Upload):
            return given.model_dump(exclude_none=True), ""
        try:
            there = await bounded(
                self.adapter.get_program_code(given.module), self._timeouts.source_s, self._clock
            )
            summary = (await asyncio.to_thread(diff, given.code, there)).summary()
        except Exception as error:
            logger.warning("program %s could not be compared before its upload: %r", given.module, error)
            summary = "not compared"
        told = {"module": given.module, "code_chars": len(given.code), "diff_summary": summary}
        return told, f": {summary}"

    def _check_free(self, action: Action, stops: int) -> None:
        """Nothing was stopped since ``stops``, and a motion does not begin while another runs."""
        if stops != self._stops:
            raise AdapterBusyError("the robot was stopped meanwhile; ask again if it shall still move")
        moving = [running.action for running in self._running if running.moves]
        if action.moves and moving:
            raise AdapterBusyError(f"{', '.join(moving)} still runs; wait for its end, or stop it first")
