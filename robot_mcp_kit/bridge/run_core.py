"""What a run is told from outside, what it hears from the server, and how it writes down its steps.

The flow itself is in :mod:`robot_mcp_kit.bridge.run`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from robot_mcp_kit.bridge.base import ActionPort, GoalWatch
from robot_mcp_kit.bridge.cancelling import Canceller
from robot_mcp_kit.bridge.feedback import FeedbackLane
from robot_mcp_kit.bridge.ledger import Change, LedgerError
from robot_mcp_kit.bridge.outcomes import NOTHING_SENT_STOP, RunFailed, RunStopped, Stop
from robot_mcp_kit.bridge.server_side import ResultQuestion, ServerWatch, Takeover
from robot_mcp_kit.bridge.states import NOTHING_SENT, Ending, RunState, check_transition
from robot_mcp_kit.bridge.surroundings import Surroundings
from robot_mcp_kit.bridge.waiting import finish_now
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalSpec, GoalStatus, Skill
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.triggers import TriggerSet
from robot_mcp_kit.tasks import TaskContext

logger = logging.getLogger(__name__)

MAKE_WAY = "another task takes over"
"""The cancel reason of a goal that is stopped for another task's sake."""
ASK_AGAIN_S = 2.0
"""After an ungraceful end of the bridge before, a first request or its answer can be lost for seconds."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a run goes on from whose bridge has ended."""

    task_id: str
    goal_id: UUID
    maybe_accepted: bool
    """The server had not said yet whether it takes the goal."""
    cancel_reason: str | None = None
    taken_over_by: str | None = None


class RunCore:
    """The state of one run and everything that reaches it from outside its flow. One event loop; build it
    there.

    Args:
        skill: reads feedback and results.
        spec: the validated goal.
        port: the action server.
        triggers: the caller's conditions.
        around: the bridge's side.
        replaces: tasks this one takes over from, for the first progress.
        resumes: the goal was sent by a bridge that has ended; the run begins in RESUMING.
    """

    def __init__(
        self,
        skill: Skill,
        spec: GoalSpec,
        port: ActionPort,
        triggers: TriggerSet,
        around: Surroundings,
        replaces: tuple[str, ...] = (),
        *,
        resumes: Resumption | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.skill, self.spec, self.port = skill, spec, port
        self.task_id = "?"
        self.state = RunState.PREPARED
        self.ending: Ending | None = None
        self.goal_id: UUID | None = None
        self.replaces = replaces
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when the state is ENDED."""
        self.stop: Stop | None = None
        """After a cancel: what is known of the goal's end."""
        self.may_run = resumes is not None
        """The goal has left, and nobody has said that it was refused or has ended."""
        self.was_accepted = False
        self._around, self._clock = around, around.clock
        self._settings = around.settings
        self._triggers = triggers
        self._lane = FeedbackLane(
            skill.reader(spec), triggers, around.settings.bridge.progress_period_s, self._emit, self._fire
        )
        self._canceller = Canceller(
            port,
            around.clock,
            around.keep,
            self._cancel_refused,
            on_unknown=lambda: self._question.ask_again(),
        )
        self._stays_open = False
        """The ledger is not told of the end: the next bridge has to look for the goal."""
        self._refusal: dict[str, Any] = {}
        """The server's last answer to a cancel, when it does not stop the goal (B23)."""
        self._ctx: TaskContext | None = None
        self._preempted = False
        """Cancelled for another task's sake, and not by its own caller."""
        # Set once, from outside the flow.
        self._cancel_asked: asyncio.Future[None] = loop.create_future()
        self._fault: asyncio.Future[TaskFailure] = loop.create_future()
        self._goal_seen: asyncio.Future[None] = loop.create_future()
        self._watch: GoalWatch | None = None
        self._question = ResultQuestion(
            port,
            around.clock,
            around.keep,
            is_certain=lambda: self._server.all_know(),
            was_seen=self._goal_seen.done,
        )
        self._takeover = Takeover(around.clock)
        self._server = ServerWatch(
            port,
            around.settings.bridge.server_lost_timeout_s,
            on_back=self._question.ask_again,
            on_lost=lambda: self.fail(self._bridge_failure("ROS_SERVER_LOST")),
        )
        self._resumes = resumes
        self._server_found = resumes is None
        """Its absence counts from when it was there; before that, a resumed run waits for it."""
        self._asked_again_s = around.clock.now()
        if resumes is not None:
            self._go_on_from(resumes)

    def _go_on_from(self, resumes: Resumption) -> None:
        self.state = RunState.RESUMING
        self.task_id, self.goal_id = resumes.task_id, resumes.goal_id
        self._takeover.by = resumes.taken_over_by or None
        if resumes.cancel_reason is not None:
            self._cancel_asked.set_result(None)
            self._preempted = resumes.cancel_reason == MAKE_WAY

    @property
    def queues(self) -> bool:
        """Whether the goal waits for its turn instead of taking it."""
        return self._settings.queues

    # -- told from outside ------------------------------------------------------------------------

    @property
    def cancel_requested(self) -> bool:
        return self._cancel_asked.done()

    def request_cancel(self, reason: str) -> None:
        """Ask for the goal's end; asking again does nothing.

        With a goal at the server the request is on the wire in the next loop turn; while the goal's
        acceptance is awaited it is remembered and sent right after it, and once before if that is late.
        """
        was_preempted, self._preempted = self._preempted, False
        if self.state is RunState.ENDED:
            return
        if not self.cancel_requested:
            self._cancel(reason)
        elif was_preempted:
            self._note(Change(cancel_reason=reason))

    def _cancel(self, reason: str) -> None:
        logger.info("task %s: cancel requested: %s", self.task_id, reason, extra={"task_id": self.task_id})
        self._cancel_asked.set_result(None)
        # Without a server in sight a resumed run sends it as soon as there is one.
        found = self.state is RunState.RESUMING and self.port.server_ready()
        if found or self.state in (RunState.EXECUTING, RunState.SEARCHING):
            self._begin_cancelling()
        # Behind the request itself: a stop does not wait for a disk.
        self._note(Change(cancel_reason=reason))

    def repeat_cancel(self) -> None:
        """Send the cancel of an unfinished stop once more."""
        if self.state in (RunState.CANCELLING, RunState.SENDING) and self.goal_id is not None:
            self._canceller.send(self.goal_id)

    def fail(self, failure: TaskFailure) -> None:
        """End the run as failed from outside."""
        if not self._fault.done():
            self._fault.set_result(failure)

    def supersede(self, by: str) -> bool:
        """A newer task wants the robot: a goal that has not left yet will not leave. Whether that was so."""
        if self.state not in NOTHING_SENT:
            return False
        if not self._fault.done():
            logger.info("task %s: replaced by %s before it was sent", self.task_id, by)
        detail = f"The task {by} took over before this goal was sent."
        self.fail(self._bridge_failure("ROS_PREEMPTED", detail))
        return True

    def taken_over(self, by: str) -> None:
        """A newer goal leaves for the same server, which ends this one for it."""
        self._takeover.by = by
        self._note(Change(taken_over_by=by))

    def not_taken_over(self, by: str) -> None:
        """The server refused that newer goal."""
        if self._takeover.by == by:
            self._takeover.by = None
            self._note(Change(taken_over_by=""))

    def preempt(self, by: str) -> None:
        """Make way for a task that moves the same part of the robot through another action server.

        ROS 2 does not do that by itself: this goal is cancelled, and its task fails as replaced.
        """
        if self.supersede(by) or self.state is RunState.ENDED or self.cancel_requested:
            return
        self._takeover.by = by
        self._preempted = True
        self._note(Change(taken_over_by=by))
        self._cancel(MAKE_WAY)

    # -- cancelling -------------------------------------------------------------------------------

    def _begin_cancelling(self) -> None:
        assert self.goal_id is not None  # noqa: S101 - these states have a goal
        self._to(RunState.CANCELLING)
        self._lane.phase = "cancelling"
        self._canceller.begin(self.goal_id)

    def _cancel_refused(self, code: int, words: str) -> None:
        if self.state is not RunState.CANCELLING:
            return
        told = self._refusal = {"cancel_code": code, "cancel_error": "ROS_CANCEL_REJECTED", "note": words}
        if self._ctx is None:
            self._around.annotate(self.task_id, told)
        else:
            stopping = {"phase": "cancelling", "stop_confirmed": False}
            finish_now(self._ctx.progress({**self._lane.last_payload, **stopping, **told}))

    # -- heard from the server --------------------------------------------------------------------

    def _open_watch(self, goal_id: UUID) -> None:
        self._watch = self.port.watch(
            goal_id,
            on_feedback=self._on_feedback,
            on_status=self._on_status,
            on_other_goal_executing=self._takeover.other_goal_started,
        )

    def _close_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _on_feedback(self, feedback: Any) -> None:
        if not self._goal_seen.done():
            self._goal_seen.set_result(None)
        self._lane.take(feedback, self._clock.now())

    def _on_status(self, status: int) -> None:
        if status != GoalStatus.UNKNOWN and not self._goal_seen.done():
            self._goal_seen.set_result(None)

    def _emit(self, payload: dict[str, Any]) -> None:
        if self._ctx is not None:
            finish_now(self._ctx.progress(payload))

    def _fire(self, trigger: dict[str, Any], extra: dict[str, Any]) -> None:
        if self._ctx is not None:
            finish_now(self._ctx.fire_trigger(trigger, extra))

    # -- watching over ----------------------------------------------------------------------------

    async def _watch_over(self) -> None:
        looks = (
            self._look_after_safety,
            self._look_after_cancel,
            self._look_at_server,
            self._look_at_feedback,
            self._look_for_goal,
        )
        while True:
            await self._clock.sleep(self._settings.bridge.watch_period_s)
            for look in looks:
                try:
                    look()
                except Exception:
                    logger.exception("task %s: the watchdog stumbled", self.task_id)

    def _look_after_safety(self) -> None:
        """Told by the run that knows the guard."""

    def _look_after_cancel(self) -> None:
        if self.goal_id is None or not self.cancel_requested:
            return
        if self.state is RunState.CANCELLING:
            after_s = self._settings.bridge.cancel_reply_timeout_s
            self._canceller.repeat_if_unanswered(self.goal_id, after_s)
        elif self.state is RunState.SENDING:
            # The goal may run while its acceptance is late or lost. A cancel too early does no harm.
            self._canceller.send_early(self.goal_id)

    def _look_at_server(self) -> None:
        if self._server_found and self.state not in NOTHING_SENT | {RunState.ENDED}:
            self._server.look(self._clock.now())

    def _look_at_feedback(self) -> None:
        now_s, limit_s = self._clock.now(), self._settings.feedback_timeout_s
        self._lane.tick(now_s)
        if self.state is RunState.EXECUTING and limit_s is not None:
            self._lane.watch_silence(now_s, limit_s, self._silence_note)

    def _look_for_goal(self) -> None:
        now_s = self._clock.now()
        unsure = self._resumes is not None and not self._goal_seen.done()
        if unsure and now_s - self._asked_again_s >= ASK_AGAIN_S:
            self._asked_again_s = now_s
            self._question.ask_again()

    def _silence_note(self, silent_s: float) -> str:
        logger.warning("task %s: no feedback for %.1f s", self.task_id, silent_s)
        return self._bridge_failure("ROS_FEEDBACK_TIMEOUT", seconds=f"{silent_s:.0f}").message

    # -- steps ------------------------------------------------------------------------------------

    def _check_interrupts(self) -> None:
        """Before anything leaves: a fault or a cancel that arrived meanwhile comes first."""
        if self._fault.done():
            raise RunFailed(self._fault.result())
        if self.cancel_requested:
            raise RunStopped(NOTHING_SENT_STOP)

    def _write_down_sending(self, goal_id: UUID) -> None:
        try:
            self._around.ledger.update(self.task_id, Change(state=RunState.SENDING, goal_id=str(goal_id)))
        except LedgerError as error:
            self._fail("BRIDGE_LEDGER_UNAVAILABLE", f"{error}.")

    def _note(self, change: Change) -> None:
        try:
            self._around.ledger.note(self.task_id, change)
        except Exception:  # a step that is not written down must not keep the next one from being taken
            logger.exception("task %s: the ledger missed a step", self.task_id)

    def _to(
        self, new: RunState, why: str = "", *, ending: Ending | None = None, error_code: str | None = None
    ) -> None:
        check_transition(self.state, new)
        reason = f" ({why})" if why else ""
        logger.info(
            "task %s: %s -> %s%s",
            self.task_id,
            self.state.value,
            new.value,
            reason,
            extra={"task_id": self.task_id},
        )
        self.state = new
        # What runs goes on, written down or not: losing sight of a moving robot would be worse than a row
        # that is behind. SENDING is written before this, and waited for.
        if new is not RunState.SENDING and not (new is RunState.ENDED and self._stays_open):
            self._note(Change(state=new, ending=ending, error_code=error_code))

    def _bridge_failure(self, error_code: str, detail: str = "", **values: Any) -> TaskFailure:
        return bridge_failure(error_code, action=self.port.name, detail=detail, **values)

    def _fail(self, error_code: str, detail: str = "", **values: Any) -> NoReturn:
        raise RunFailed(self._bridge_failure(error_code, detail, **values))
