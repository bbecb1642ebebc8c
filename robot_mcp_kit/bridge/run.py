"""One run of one goal, from the written-down plan to the known end.

The run is an asyncio task of its own, apart from the task's body: a body ends at the latest five seconds
after a cancel, but somebody has to keep looking until the robot's goal has really ended.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NoReturn
from uuid import UUID, uuid4

from robot_mcp_kit.bridge.base import ActionPort, GoalResult, GoalWatch
from robot_mcp_kit.bridge.cancelling import Canceller
from robot_mcp_kit.bridge.feedback import FeedbackLane
from robot_mcp_kit.bridge.ledger import LedgerError
from robot_mcp_kit.bridge.outcomes import (
    NOTHING_SENT_STOP,
    REFUSED_STOP,
    RunFailed,
    RunStopped,
    Stop,
    stop_by_status,
    task_error,
)
from robot_mcp_kit.bridge.server_side import ResultQuestion, ServerWatch, Takeover
from robot_mcp_kit.bridge.states import NOTHING_SENT, Ending, RunState, check_transition
from robot_mcp_kit.bridge.surroundings import Surroundings
from robot_mcp_kit.bridge.waiting import error_of, finish_now, first_of
from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalSpec, GoalStatus, Skill
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.text import nearest
from robot_mcp_kit.skills.triggers import TriggerSet
from robot_mcp_kit.tasks import TaskContext

logger = logging.getLogger(__name__)

ORPHAN_WAIT_S = 60.0
FAULT_WINDOW_S = 1.0


class GoalRun:
    """The state machine. Everything happens on one event loop; build it there.

    Args:
        skill: reads feedback and results.
        spec: the validated goal.
        port: the action server.
        triggers: the caller's conditions.
        around: the bridge's side.
        replaces: tasks this one takes over from, for the first progress.
    """

    def __init__(
        self,
        skill: Skill,
        spec: GoalSpec,
        port: ActionPort,
        triggers: TriggerSet,
        around: Surroundings,
        replaces: tuple[str, ...] = (),
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
        self._around, self._clock = around, around.clock
        self._settings = around.settings
        self._triggers = triggers
        self._lane = FeedbackLane(
            skill.reader(spec), triggers, around.settings.bridge.progress_period_s, self._emit, self._fire
        )
        self._canceller = Canceller(port, around.clock, around.keep, self._cancel_refused)
        self._ctx: TaskContext | None = None
        self._result: dict[str, Any] | None = None
        self._failure: TaskFailure | None = None
        self._error: Exception | None = None
        self._preempted = False
        """Cancelled for another task's sake, and not by its own caller."""
        # Set once, from outside the flow.
        self._cancel_asked: asyncio.Future[None] = loop.create_future()
        self._fault: asyncio.Future[TaskFailure] = loop.create_future()
        self._goal_seen: asyncio.Future[None] = loop.create_future()
        self._watch: GoalWatch | None = None
        self._question = ResultQuestion(port, around.keep)
        self._takeover = Takeover(around.clock)
        self._server = ServerWatch(
            port,
            around.settings.bridge.server_lost_timeout_s,
            on_back=self._question.ask_again,
            on_lost=lambda: self.fail(self._bridge_failure("ROS_SERVER_LOST")),
        )

    # -- the outside ------------------------------------------------------------------------------

    async def body(self, ctx: TaskContext) -> dict[str, Any]:
        """What the task manager runs. A cancel goes out at once and is waited for within the contract's
        grace.
        """
        self._ctx = ctx
        self.task_id = ctx.task_id
        work = asyncio.create_task(self._run(), name=f"goal of {self.task_id}")
        self._around.keep(work)
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            self.request_cancel("the task was cancelled")
            await first_of(self._clock, work, timeout_s=self._settings.bridge.cancel_grace_s)
            self._report_stop(ctx)
            raise
        finally:
            self._ctx = None
        work.result()
        if self._error is not None:
            raise self._error
        if self._failure is not None:
            raise task_error(self._failure)
        if self._result is None:
            raise asyncio.CancelledError
        return self._result

    @property
    def cancel_requested(self) -> bool:
        return self._cancel_asked.done()

    def request_cancel(self, reason: str) -> None:
        """Ask for the goal's end; asking again does nothing.

        With a goal at the server the request is on the wire in the next loop turn; while the goal's
        acceptance is awaited it is remembered and sent right after it.
        """
        self._preempted = False
        if self.state is RunState.ENDED or self.cancel_requested:
            return
        logger.info("task %s: cancel requested: %s", self.task_id, reason, extra={"task_id": self.task_id})
        self._cancel_asked.set_result(None)
        if self.state in (RunState.EXECUTING, RunState.SEARCHING):
            self._begin_cancelling()

    def repeat_cancel(self) -> None:
        """Send the cancel of an unfinished stop once more."""
        if self.state is RunState.CANCELLING and self.goal_id is not None:
            self._canceller.send(self.goal_id)

    def fail(self, failure: TaskFailure) -> None:
        """End the run as failed from outside (the connection to ROS died)."""
        if not self._fault.done():
            self._fault.set_result(failure)

    def supersede(self, by: str) -> bool:
        """A newer task wants the robot: a goal that has not left yet will not leave. Whether that was so."""
        if self.state not in NOTHING_SENT:
            return False
        detail = f"The task {by} took over before this goal was sent."
        self.fail(self._bridge_failure("ROS_PREEMPTED", detail))
        return True

    def taken_over(self, by: str) -> None:
        """A newer goal leaves for the same server, which ends this one for it."""
        self._takeover.by = by

    def not_taken_over(self, by: str) -> None:
        """The server refused that newer goal."""
        if self._takeover.by == by:
            self._takeover.by = None

    def preempt(self, by: str) -> None:
        """Make way for a task that moves the same part of the robot through another action server.

        ROS 2 does not do that by itself: this goal is cancelled, and its task fails as replaced.
        """
        if self.supersede(by) or self.state is RunState.ENDED or self.cancel_requested:
            return
        self._takeover.by = by
        self.request_cancel(f"the task {by} takes over")
        self._preempted = True

    def abandon(self) -> None:
        """The task ended before its body began; nothing was or will be sent."""
        if self.state is RunState.PREPARED and self._ctx is None:
            if not self.cancel_requested:
                self._cancel_asked.set_result(None)
            self.stop = NOTHING_SENT_STOP
            self._end(Ending.CANCELLED)

    # -- the flow ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        watching = asyncio.create_task(self._watch_over(), name=f"watchdog of {self.task_id}")
        try:
            await self._find_server()
            await self._wait_for_turn()
            await self._send()
            self._result = await self._execute()
            self._end(Ending.SUCCEEDED)
        except RunStopped as stopped:
            self.stop = stopped.stop
            if self._preempted:
                detail = f"The task {self._takeover.by} took over. {stopped.stop.note}"
                self._failure = self._bridge_failure("ROS_PREEMPTED", detail)
                self._end(Ending.FAILED, "ROS_PREEMPTED")
            else:
                self._end(Ending.CANCELLED)
        except RunFailed as failed:
            self._failure = failed.failure
            if self.cancel_requested:
                self.stop = Stop(False, failed.failure.message)
            self._end(Ending.FAILED, failed.failure.error_code)
        except Exception as error:
            # A fault of the bridge or of a skill must not leave a goal running that nobody follows.
            logger.exception("task %s: the run broke", self.task_id, extra={"task_id": self.task_id})
            self._error = error
            if self.goal_id is not None and self.state not in NOTHING_SENT:
                self._canceller.send(self.goal_id)
            if self.cancel_requested:
                self.stop = Stop(False, "The bridge failed while stopping; do not assume a stop.")
            if self.state is not RunState.ENDED:
                self._end(Ending.FAILED, "INTERNAL")
        finally:
            watching.cancel()
            self._question.close()
            self._close_watch()

    async def _find_server(self) -> None:
        self._check_interrupts()
        self._to(RunState.WAITING_FOR_SERVER)
        ready = asyncio.ensure_future(self.port.wait_for_server(self._settings.server_wait_s))
        try:
            await first_of(self._clock, ready, self._fault, self._cancel_asked)
        finally:
            ready.cancel()
        self._check_interrupts()
        if not ready.result():
            self._fail("ROS_SERVER_UNAVAILABLE", self._what_there_is())
        nodes = self.port.server_nodes()
        if len(nodes) > 1:
            self._fail("ROS_SERVER_AMBIGUOUS", f"The nodes are {', '.join(sorted(nodes))}.", count=len(nodes))

    async def _wait_for_turn(self) -> None:
        """Two goals must not move one part of the robot, whatever their action servers think of it."""
        self._to(RunState.WAITING_FOR_TURN)
        in_the_way = self._around.clear_way(self)
        if not in_the_way:
            return
        free = asyncio.ensure_future(asyncio.wait({run.ended for run in in_the_way}))
        limit_s = self._settings.bridge.cancel_grace_s
        await first_of(self._clock, free, self._fault, self._cancel_asked, timeout_s=limit_s)
        free.cancel()
        self._check_interrupts()
        still = [run.task_id for run in in_the_way if run.state is not RunState.ENDED]
        if still:
            detail = f"It was told to stop and has not confirmed it within {limit_s:g} s."
            self._fail("ROS_BUSY", detail, other=still[0])

    async def _send(self) -> None:
        """Send the goal; once more, under a new id, only after a definite refusal (A6)."""
        if await self._send_once():
            return
        self._to(RunState.BACKING_OFF)
        delay_s = self._settings.bridge.reject_retry_delay_s
        await first_of(self._clock, self._fault, self._cancel_asked, timeout_s=delay_s)
        self._check_interrupts()
        if not self.port.server_ready() or not await self._send_once():
            self._fail("ROS_GOAL_REJECTED")

    async def _send_once(self) -> bool:
        """Send under a fresh id; ``False`` when the server refused."""
        goal_id = uuid4()
        self._write_down_sending(goal_id)
        self.goal_id = goal_id
        self._to(RunState.SENDING)
        self._around.on_sending(self)
        self._open_watch(goal_id)
        sending = asyncio.create_task(self.port.send_goal(goal_id, self.spec.fields))
        self._around.keep(sending)
        sending.add_done_callback(lambda _: self._late_answer(sending, goal_id))
        # Not interrupted by a cancel: whether there is a goal to cancel has to be known first.
        limit_s = self._settings.acceptance_timeout_s
        got = await first_of(self._clock, sending, self._fault, timeout_s=limit_s)
        if got is self._fault:
            raise RunFailed(self._fault.result())
        if got is None:
            await self._search(goal_id, sending, "no answer came")
            return True
        error = error_of(sending)
        if isinstance(error, GoalFieldError):
            self._fail("ROS_INVALID_GOAL", f"{error}.")
        if error is not None:
            await self._search(goal_id, None, f"sending failed: {error!r}")
            return True
        if sending.result().accepted:
            self._accepted("accepted")
            return True
        self._close_watch()
        self._around.on_refused(self)
        if self.cancel_requested:
            raise RunStopped(REFUSED_STOP)
        return False

    async def _search(self, goal_id: UUID, sending: asyncio.Task[Any] | None, why: str) -> None:
        """The acceptance was lost. Look for our own goal id; a second send could run the goal twice (B3)."""
        self._to(RunState.SEARCHING, why)
        asking = self._question.ask(goal_id)
        if self.cancel_requested:
            self._begin_cancelling()
            return
        late = [] if sending is None else [sending]
        waiting = [self._goal_seen, *late, asking, self._fault, self._cancel_asked]
        got = await first_of(self._clock, *waiting, timeout_s=self._settings.bridge.search_timeout_s)
        if self.cancel_requested:
            return
        if got is self._fault:
            raise RunFailed(self._fault.result())
        if got is not None and error_of(got) is None:
            if got is self._goal_seen:
                self._accepted("seen at the server")
                return
            if got is asking and asking.result().status != GoalStatus.UNKNOWN:
                self._accepted("its result is there")
                return
            if sending is not None and got is sending:
                if not sending.result().accepted:
                    self._fail("ROS_GOAL_REJECTED")
                self._accepted("accepted late")
                return
        # Perhaps lost on the way, perhaps still to arrive. A cancel does no harm, and a late acceptance is
        # cancelled as well.
        self._canceller.send(goal_id)
        self._fail("ROS_GOAL_RESPONSE_TIMEOUT")

    def _accepted(self, how: str) -> None:
        self._to(RunState.EXECUTING, how)
        if self.cancel_requested:
            self._begin_cancelling()
        accepted: dict[str, Any] = {
            "phase": "accepted",
            "goal": self.spec.summary,
            "goal_id": str(self.goal_id),
        }
        if self.replaces:
            accepted["replaces"] = list(self.replaces)
        self._lane.open(accepted, self._clock.now())

    async def _execute(self) -> dict[str, Any]:
        goal_id = self.goal_id
        assert goal_id is not None  # noqa: S101 - a goal was sent
        asking = self._question.ask(goal_id)
        limit_s = None if self.cancel_requested else self._settings.result_timeout_s
        got = await first_of(self._clock, asking, self._fault, self._cancel_asked, timeout_s=limit_s)
        if self.cancel_requested:
            got = await first_of(self._clock, asking, self._fault)
        if got is None:
            await first_of(self._clock, self._canceller.send(goal_id), timeout_s=2.0)
            self._fail("ROS_RESULT_TIMEOUT", seconds=f"{limit_s:g}")
        if got is self._fault:
            raise RunFailed(self._fault.result())
        error = error_of(asking)
        if error is not None:
            # The connection may have died; whoever notices that says it better.
            await first_of(self._clock, self._fault, timeout_s=FAULT_WINDOW_S)
            if self._fault.done():
                raise RunFailed(self._fault.result())
            raise error
        result = asking.result()
        if self._preempted and result.status == GoalStatus.SUCCEEDED:
            return await self._conclude(result)
        if self.cancel_requested:
            by_other = self._takeover.happened and not self._preempted
            stop = stop_by_status(result.status, taken_over=by_other, after_stop=self.skill.after_stop)
            raise RunStopped(stop)
        return await self._conclude(result)

    async def _conclude(self, result: GoalResult) -> dict[str, Any]:
        """Status first; only SUCCEEDED and ABORTED carry result fields that mean something."""
        status = result.status
        if status == GoalStatus.CANCELED:
            self._fail("ROS_CANCELLED_EXTERNALLY")
        if status == GoalStatus.UNKNOWN:
            self._fail("ROS_RESULT_EXPIRED")
        if status not in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED):
            self._fail("ROS_BAD_STATUS", f"The status was {status}.")
        outcome = self.skill.outcome(status, result.result, self.spec, self._lane.last)
        if outcome.state != "succeeded":
            failure = outcome.failure or self._bridge_failure("ROS_ABORTED_NO_REASON")
            if failure.error_code == "ROS_ABORTED_NO_REASON":
                failure = await self._why_aborted(failure)
            raise RunFailed(failure)
        self._lane.complete(self._clock.now())
        unfired = self._triggers.unfired()
        return {**(outcome.result or {}), **({"triggers_not_fired": unfired} if unfired else {})}

    async def _why_aborted(self, failure: TaskFailure) -> TaskFailure:
        """ROS 2 has no PREEMPTED: an abort without a reason, while another goal starts, means replaced
        (C22).
        """
        if await self._takeover.happens_within(self._settings.bridge.preemption_window_s):
            return self._bridge_failure("ROS_PREEMPTED", self._takeover.words())
        if self._lane.last is None:
            rival = self._around.other_navigation(self)
            if rival is not None:
                return self._bridge_failure("NAV2_NAVIGATOR_BUSY", f"It is the task {rival}.")
        return failure

    # -- the end ----------------------------------------------------------------------------------

    def _end(self, ending: Ending, error_code: str | None = None) -> None:
        self._lane.close(self._clock.now())
        self.ending = ending
        self._to(RunState.ENDED, error_code or ending.value, ending=ending, error_code=error_code)
        if not self.ended.done():
            self.ended.set_result(None)
        if error_code == "ROS_SERVER_LOST":
            self._around.keep(asyncio.create_task(self._cancel_when_back()))
        if self.stop is not None and self._ctx is None:
            # The body's grace was over before the robot's goal: polling learns it now (B21).
            self._around.annotate(self.task_id, self.stop.payload(ended=True))

    def _report_stop(self, ctx: TaskContext) -> None:
        ended = self.state is RunState.ENDED
        if not ended:
            self.stop = Stop(False, self._bridge_failure("ROS_CANCEL_UNCONFIRMED").message)
            logger.error(
                "task %s: the stop is not confirmed by %s; still waiting for it",
                self.task_id,
                self.port.name,
                extra={"task_id": self.task_id},
            )
        if self.stop is None:
            # The goal had ended on its own before the cancel came.
            self.stop = Stop(True, "The goal had already ended.")
        finish_now(ctx.progress({**self._lane.last_payload, **self.stop.payload(ended=ended)}))

    def _begin_cancelling(self) -> None:
        assert self.goal_id is not None  # noqa: S101 - these states have a goal
        self._to(RunState.CANCELLING)
        self._lane.phase = "cancelling"
        self._canceller.send(self.goal_id)

    def _cancel_refused(self, code: int, words: str) -> None:
        if self.state is not RunState.CANCELLING:
            return
        told = {"cancel_code": code, "cancel_error": "ROS_CANCEL_REJECTED", "note": words}
        if self._ctx is None:
            self._around.annotate(self.task_id, told)
        else:
            stopping = {"phase": "cancelling", "stop_confirmed": False}
            finish_now(self._ctx.progress({**self._lane.last_payload, **stopping, **told}))

    async def _cancel_when_back(self) -> None:
        """A server that was only out of sight may still drive a goal that was reported as failed."""
        if self.goal_id is not None and await self.port.wait_for_server(ORPHAN_WAIT_S):
            await self._canceller.ask(self.goal_id)

    def _late_answer(self, sending: asyncio.Task[Any], goal_id: UUID) -> None:
        """An acceptance that comes after the run gave up: the goal must not run with nobody to follow it."""
        if self.state is not RunState.ENDED or sending.cancelled() or sending.exception() is not None:
            return
        if sending.result().accepted:
            logger.warning("task %s: accepted after its end; cancelling the goal", self.task_id)
            self._canceller.send(goal_id)

    # -- what comes from the server ---------------------------------------------------------------

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
        bridge = self._settings.bridge
        while True:
            await self._clock.sleep(bridge.watch_period_s)
            try:
                now_s = self._clock.now()
                if self.state not in NOTHING_SENT and self.state is not RunState.ENDED:
                    self._server.look(now_s)
                self._lane.tick(now_s)
                limit_s = self._settings.feedback_timeout_s
                if self.state is RunState.EXECUTING and limit_s is not None:
                    self._lane.watch_silence(now_s, limit_s, self._silence_note)
                if self.state is RunState.CANCELLING and self.goal_id is not None:
                    self._canceller.repeat_if_unanswered(self.goal_id, bridge.cancel_reply_timeout_s)
            except Exception:
                logger.exception("task %s: the watchdog stumbled", self.task_id)

    def _silence_note(self, silent_s: float) -> str:
        logger.warning("task %s: no feedback for %.1f s", self.task_id, silent_s)
        return self._bridge_failure("ROS_FEEDBACK_TIMEOUT", seconds=f"{silent_s:.0f}").message

    # -- small things -----------------------------------------------------------------------------

    def _check_interrupts(self) -> None:
        """Before anything leaves: a fault or a cancel that arrived meanwhile comes first."""
        if self._fault.done():
            raise RunFailed(self._fault.result())
        if self.cancel_requested:
            raise RunStopped(NOTHING_SENT_STOP)

    def _write_down_sending(self, goal_id: UUID) -> None:
        try:
            self._around.ledger.update(self.task_id, state=RunState.SENDING, goal_id=str(goal_id))
        except LedgerError as error:
            self._fail("BRIDGE_LEDGER_UNAVAILABLE", f"{error}.")

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
        try:
            self._around.ledger.update(self.task_id, state=new, ending=ending, error_code=error_code)
        except LedgerError:
            # What runs goes on: losing sight of a moving robot would be worse than a row that is behind.
            logger.exception("task %s: the ledger missed a step", self.task_id)

    def _bridge_failure(self, error_code: str, detail: str = "", **values: Any) -> TaskFailure:
        return bridge_failure(error_code, action=self.port.name, detail=detail, **values)

    def _fail(self, error_code: str, detail: str = "", **values: Any) -> NoReturn:
        raise RunFailed(self._bridge_failure(error_code, detail, **values))

    def _what_there_is(self) -> str:
        waited, names = f"Waited {self._settings.server_wait_s:g} s", self._around.action_names()
        if not names:
            return f"{waited}; no action of any name is visible, so the robot may be off."
        close = nearest(self.port.name, names) or sorted(names)[:3]
        return f"{waited}; nearest existing actions: {', '.join(close)}."
