"""A bridge's robot for clients of the protocol: its actions are guarded as goals, once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.bridge.bridge import Started
from robot_mcp_kit.clock import Clock
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.models import TaskInfo
from robot_mcp_kit.rcp.actions import Action
from robot_mcp_kit.rcp.bridged.adapter import BridgeAdapter
from robot_mcp_kit.rcp.context import ContextReport
from robot_mcp_kit.rcp.failures import refused
from robot_mcp_kit.rcp.guarded import Executed, GuardedRobot, Waiting
from robot_mcp_kit.rcp.parameters import Parameters
from robot_mcp_kit.rcp.timing import Timeouts
from robot_mcp_kit.safety.approvals import Pending
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import SafetyRefused, is_safety_code
from robot_mcp_kit.tasks import TaskManager

_BEFORE_APPROVAL = (None,)
"""A task has no phase before its goal is asked about."""


class BridgedRobot(GuardedRobot):
    """As :class:`GuardedRobot`, for an adapter that starts goals of a bridge with the same guard.

    An action is asked for once, as the goal that carries it out; its approval, its interlocks and its line in
    the audit trail are the goal's. Whether a person approves the goal in the operator's list or
    the protocol's request is the same.

    Args:
        adapter: over the bridge.
        guard: the bridge's.
        manager: the bridge's tasks.
        clock: monotonic.
        timeouts: how long sources may take.
    """

    def __init__(
        self,
        adapter: BridgeAdapter,
        guard: Guard,
        manager: TaskManager,
        *,
        clock: Clock | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        super().__init__(adapter, guard, clock=clock, timeouts=timeouts)
        self.bridged, self._manager = adapter, manager

    async def context(self) -> ContextReport:
        """Also tells which signals are not known."""
        report = await super().context()
        if "io" not in report.missing:
            silent = self.bridged.silent_signals()
            report.missing.update({f"io.{name}": why for name, why in silent.items()})
        return report

    def silent_signals(self) -> dict[str, str]:
        """Signals that are not known now, each with the reason."""
        return self.bridged.silent_signals()

    async def aclose(self) -> None:
        for waiting in list(self._waiting.values()):
            waiting.outcome.cancel()
        await super().aclose()

    async def _request_guarded(
        self, action: Action, given: Parameters, requester: Requester
    ) -> Executed | Waiting:
        parameters: Mapping[str, Any] = given.model_dump(exclude_none=True)
        started = self.bridged.begin_action(action.name, parameters, requester)
        name = f"{action.name} as {started.info.task_id}"
        outcome = asyncio.create_task(self._outcome(action, started), name=name)
        try:
            pending = await self._pending(started.info.task_id, outcome)
            if pending is None:
                return await outcome
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        waiting = Waiting(
            token=secrets.token_urlsafe(32),
            action=action.name,
            risk=action.risk,
            audit_id=started.audit_id,
            pending=pending,
            outcome=outcome,
        )
        self._waiting[waiting.token] = waiting
        outcome.add_done_callback(lambda done: self._decided(waiting.token, done))
        return waiting

    async def _pending(self, task_id: str, outcome: asyncio.Task[Executed]) -> Pending | None:
        """What waits for a person; ``None``: nothing has to, or the task ended before."""
        news = asyncio.Event()
        loop = asyncio.get_running_loop()

        def changed(info: TaskInfo) -> None:
            if info.task_id == task_id:
                loop.call_soon_threadsafe(news.set)

        remove = self._manager.add_change_listener(changed)
        try:
            while True:
                news.clear()
                waiting = [one for one in self.guard.desk.pending() if one.task_id == task_id]
                if waiting:
                    return waiting[0]
                info = self._manager.get(task_id)
                phase = None if info is None else (info.progress or {}).get("phase")
                if info is None or info.state != "running" or phase not in _BEFORE_APPROVAL:
                    return None
                hearing = asyncio.ensure_future(news.wait())
                try:
                    await asyncio.wait({hearing, outcome}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hearing.cancel()
                if outcome.done():
                    return None
        finally:
            remove()

    async def _outcome(self, action: Action, started: Started) -> Executed:
        told = await self.bridged.ended(started.info.task_id)
        code = str(told.get("error_code") or "")
        if is_safety_code(code):
            error = refused(SafetyRefused(code), started.audit_id)
            error.message = str(told["message"])
            error.data["task_id"] = started.info.task_id
            raise error
        return Executed(action.name, action.risk, to_jsonable(told), started.audit_id)
