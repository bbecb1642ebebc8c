"""What is done and said at a run's end, and after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from robot_mcp_kit.bridge.careful import carefully
from robot_mcp_kit.bridge.guarding import GuardedRun
from robot_mcp_kit.bridge.hunting import FOUND, Hunt
from robot_mcp_kit.bridge.ledger import Change
from robot_mcp_kit.bridge.outcomes import Stop
from robot_mcp_kit.bridge.states import NOTHING_SENT, Ending, RunState
from robot_mcp_kit.bridge.waiting import finish_now
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.text import nearest
from robot_mcp_kit.tasks import TaskContext

logger = logging.getLogger(__name__)

PREEMPTED = "ROS_PREEMPTED"
BROKEN = "The bridge failed while it followed the goal; do not assume a stop."


class EndingRun(GuardedRun):
    """The end of a run is always reached, whatever breaks on the way: others wait for it."""

    _result: dict[str, Any] | None = None
    _failure: TaskFailure | None = None
    _error: Exception | None = None
    _error_code: str | None = None
    _forgotten = False
    """Its server had the goal and does not know it any more."""

    def _end(self, ending: Ending, error_code: str | None = None) -> None:
        self._carefully(lambda: self._lane.close(self._clock.now()))
        self._carefully(self._describe_world)
        self.ending, self._error_code = ending, error_code
        # Written down as ended when that is known, by this bridge or the next one.
        self._stays_open = self.may_run and not self._forgotten
        self._to(RunState.ENDED, error_code or ending.value, ending=ending, error_code=error_code)
        if not self.ended.done():
            self.ended.set_result(None)
        self._carefully(lambda: self._write_end(ending, error_code))
        if self.goal_id is not None and not self.was_accepted:
            self._carefully(lambda: self._around.on_refused(self))
        if self._stays_open:
            self._carefully(self._hunt)
        if self.stop is not None and self._ctx is None:
            # The body's grace was over before the robot's goal: polling learns it now (B21).
            told = self.stop.payload(ended=True)
            self._carefully(lambda: self._around.annotate(self.task_id, told))

    def _hunt(self) -> None:
        """Nobody follows the goal any more, and it must not run on with that."""
        if self.goal_id is None:
            return
        hunt = Hunt(
            self.port,
            self.goal_id,
            self._clock,
            self._around.keep,
            seen=self.was_accepted or self._goal_seen.done(),
            is_certain=lambda: self._server.all_know(),
            on_over=self._hunt_is_over,
        )
        self._around.hunting(self, hunt)
        hunt.begin()

    def _hunt_is_over(self, known: bool) -> None:
        how = "has ended" if known else "is known by nobody any more"
        logger.warning("task %s: its goal %s", self.task_id, how, extra={"task_id": self.task_id})
        self._note(Change(state=RunState.ENDED, ending=self.ending, error_code=self._error_code))
        if known:
            self.may_run = False
            if self.stop is not None:
                self.stop = Stop(True, FOUND)
                self._around.annotate(self.task_id, self.stop.payload(ended=True))

    def let_go(self) -> asyncio.Task[None] | None:
        """Nobody will follow the goal any more: say that its end is not known, and ask for it once more,
        unless its server has answered or nothing was sent. Also while the acceptance is still awaited. The
        request, which ends with its answer.
        """
        if self.goal_id is None or self.state in NOTHING_SENT | {RunState.ENDED}:
            return None
        told = self._unconfirmed().payload(ended=False)
        self._carefully(lambda: self._around.annotate(self.task_id, told))
        return None if self._canceller.answered else self._canceller.send(self.goal_id)

    def _unconfirmed(self) -> Stop:
        said = self._refusal.get("note") or self._bridge_failure("ROS_CANCEL_UNCONFIRMED").message
        return Stop(False, str(said))

    def _carefully(self, step: Callable[[], object]) -> None:
        carefully(self.task_id, step)

    def _describe_world(self) -> None:
        """What is known of the world at the end goes with the task, so that a replay tells that world (L4,
        L12).
        """
        facts = self._around.world.snapshot().facts()
        if facts:
            self._around.annotate(self.task_id, {"world": facts})

    def _halt_failure(self, note: str) -> TaskFailure:
        assert self.halted is not None  # noqa: S101 - the caller looked
        return self.halted.model_copy(update={"message": f"{self.halted.message} {note}"})

    def _report_stop(self, ctx: TaskContext) -> None:
        ended = self.state is RunState.ENDED
        if not ended:
            self.stop = self._unconfirmed()
            logger.error(
                "task %s: the stop is not confirmed by %s; still waiting for it",
                self.task_id,
                self.port.name,
                extra={"task_id": self.task_id},
            )
        replaced = self.was_accepted and self._failure is not None and self._failure.error_code == PREEMPTED
        if self.stop is None and (self.may_run or replaced):
            self.stop = Stop(False, BROKEN if self._failure is None else self._failure.message)
        if self.stop is None:
            # The goal had ended on its own before the cancel came.
            self.stop = Stop(True, "The goal had already ended.")
        told = {} if ended else self._refusal
        finish_now(ctx.progress({**self._lane.last_payload, **told, **self.stop.payload(ended=ended)}))

    def _late_answer(self, sending: asyncio.Task[Any], goal_id: UUID) -> None:
        """An acceptance that comes after a cancel that found no goal. After the end the hunt has it."""
        if sending.cancelled() or sending.exception() is not None or not sending.result().accepted:
            return
        if self.state is RunState.CANCELLING and not self.was_accepted and not self._canceller.answered:
            self.was_accepted = True
            self._canceller.begin(goal_id)

    def _what_there_is(self) -> str:
        waited, names = f"Waited {self._settings.server_wait_s:g} s", self._around.action_names()
        if not names:
            return f"{waited}; no action of any name is visible, so the robot may be off."
        if self.port.servers():  # the name alone would also be there because we listen to it
            return f"{waited}; that name is there, but not whole, or not with the type {self.port.type_name}."
        close = nearest(self.port.name, names) or sorted(names)[:3]
        return f"{waited}; nearest existing actions: {', '.join(close)}."
