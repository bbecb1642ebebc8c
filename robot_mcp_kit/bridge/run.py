"""One run of one goal, from the written-down plan (or the restart of the bridge) to the known end.

The run is an asyncio task of its own, apart from the task's body: a body ends at the latest five seconds
after a cancel, but somebody has to keep looking until the robot's goal has really ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from robot_mcp_kit.bridge.base import GoalResult
from robot_mcp_kit.bridge.ending import BROKEN, PREEMPTED, EndingRun
from robot_mcp_kit.bridge.guarding import OVERTIME
from robot_mcp_kit.bridge.outcomes import (
    NOTHING_SENT_STOP,
    REFUSED_STOP,
    RunFailed,
    RunStopped,
    Stop,
    stop_by_status,
    task_error,
)
from robot_mcp_kit.bridge.run_core import Resumption
from robot_mcp_kit.bridge.states import Ending, RunState
from robot_mcp_kit.bridge.waiting import error_of, first_of
from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import GoalStatus
from robot_mcp_kit.skills.world import WorldSnapshot, utc_now
from robot_mcp_kit.tasks import TaskContext

logger = logging.getLogger(__name__)

MEASURE_BOUND_S = 2.0
"""How long to wait for a fresh reading after a goal's end; below the grace of a cancel."""
SEEN, RESULT_THERE = "seen at the server", "its result is there"
FAULT_WINDOW_S = 1.0


class GoalRun(EndingRun):
    """The state machine. See :class:`RunCore` for how it is built and what can be told to it."""

    _work: asyncio.Task[None] | None = None

    # -- the outside ------------------------------------------------------------------------------

    async def body(self, ctx: TaskContext) -> dict[str, Any]:
        """What the task manager runs. A cancel goes out at once and is waited for within the contract's
        grace.
        """
        self._ctx = ctx
        self.task_id = ctx.task_id
        if self.state is RunState.RESUMING:
            note = "The bridge restarted and looks for the goal."
            self._emit({"phase": "resuming", "goal": self.spec.summary, "note": note})
        work = self.follow()
        try:
            await asyncio.wait({work, self._be_overdue()}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self.halted is not None:
                self._report_stop(ctx)
                raise task_error(self._halt_failure(self._bridge_failure("ROS_CANCEL_UNCONFIRMED").message))
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

    def follow(self) -> asyncio.Task[None]:
        """Run without a body: the task has ended already, its goal has not."""
        self._work = asyncio.create_task(self._run(), name=f"goal of {self.task_id}")
        self._around.keep(self._work)
        return self._work

    def abandon(self) -> None:
        """The task ended before its body began: nothing will be sent, and a goal of before is stopped."""
        if self._work is not None:
            return
        if not self.cancel_requested:
            self._cancel_asked.set_result(None)
        if self.state is RunState.PREPARED:
            self.stop = NOTHING_SENT_STOP
            self._end(Ending.CANCELLED)
        elif self.state is RunState.RESUMING:
            self.follow()

    # -- the flow ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        watching = asyncio.create_task(self._watch_over(), name=f"watchdog of {self.task_id}")
        try:
            if self._resumes is not None:
                await self._resume(self._resumes)
            else:
                await self._find_server()
                await self._get_approval()
                await self._wait_for_turn()
                await self._send()
            self._result = await self._execute()
            self._end(Ending.SUCCEEDED)
        except RunStopped as stopped:
            self.stop = stopped.stop
            if self.halted is not None:
                self._failure = self._halt_failure(stopped.stop.note)
                self._end(Ending.FAILED, self._failure.error_code)
            elif self._preempted:
                detail = f"The task {self._takeover.by} took over. {stopped.stop.note}"
                self._failure = self._bridge_failure(PREEMPTED, detail)
                self._end(Ending.FAILED, PREEMPTED)
            else:
                self._end(Ending.CANCELLED)
        except RunFailed as failed:
            self._failure = failed.failure
            if self.cancel_requested:
                self.stop = Stop(not self.may_run, failed.failure.message)
            self._end(Ending.FAILED, failed.failure.error_code)
        except Exception as error:
            logger.exception("task %s: the run broke", self.task_id, extra={"task_id": self.task_id})
            self._error = error
            if self.cancel_requested:
                self.stop = Stop(not self.may_run, BROKEN)
            if self.state is not RunState.ENDED:
                self._end(Ending.FAILED, "INTERNAL")
        finally:
            watching.cancel()
            self._question.close()
            self._close_watch()

    async def _find_server(self) -> None:
        self._check_interrupts()
        self._to(RunState.WAITING_FOR_SERVER)
        self._has_waited = not self.port.server_ready()
        ready = asyncio.ensure_future(self.port.wait_for_server(self._settings.server_wait_s))
        try:
            await first_of(self._clock, ready, self._fault, self._cancel_asked)
        finally:
            ready.cancel()
        self._check_interrupts()
        if not ready.result():
            self._fail("ROS_SERVER_UNAVAILABLE", self._what_there_is())
        self._check_server()

    def _check_server(self) -> Iterable[bytes]:
        """The server is still there, and alone: a goal for two of one name would be run by both (B5)."""
        if not self.port.server_ready():
            self._fail("ROS_SERVER_UNAVAILABLE", "It left before the goal did; nothing was sent.")
        found = self.port.servers()
        if len(found) > 1:
            nodes = ", ".join(sorted(found.values()))
            self._fail("ROS_SERVER_AMBIGUOUS", f"The nodes are {nodes}.", count=len(found))
        return found

    def _check_conditions(self) -> None:
        """What held when the task began need not hold any more after a wait (L3)."""
        failure = self._around.broken_condition() if self._has_waited else None
        if failure is not None:
            raise RunFailed(failure)

    async def _wait_for_turn(self) -> None:
        """Two goals must not move one part of the robot, whatever their action servers think of it."""
        self._to(RunState.WAITING_FOR_TURN)
        in_the_way = self._around.clear_way(self)
        if not in_the_way:
            return
        self._has_waited = True
        if self.queues:
            waits_for = [run.task_id for run in in_the_way]
            self._emit({"phase": "queued", "goal": self.spec.summary, "waits_for": waits_for})
        free = asyncio.ensure_future(asyncio.wait({run.ended for run in in_the_way}))
        limit_s = None if self.queues else self._settings.bridge.cancel_grace_s
        await first_of(self._clock, free, self._fault, self._cancel_asked, timeout_s=limit_s)
        free.cancel()
        self._check_interrupts()
        still = [run.task_id for run in in_the_way if run.state is not RunState.ENDED]
        if still:
            detail = f"It was told to stop and has not confirmed it within {limit_s:g} s."
            self._fail("ROS_BUSY", detail, other=still[0])

    async def _send(self) -> None:
        """Send the goal; once more, under a new id, only after a definite refusal (case A6)."""
        if await self._send_once():
            return
        self._has_waited = True
        self._to(RunState.BACKING_OFF)
        delay_s = self._settings.bridge.reject_retry_delay_s
        await first_of(self._clock, self._fault, self._cancel_asked, timeout_s=delay_s)
        self._check_interrupts()
        if not self.port.server_ready() or not await self._send_once():
            self._fail("ROS_GOAL_REJECTED")

    async def _get_place(self) -> None:
        """Wait for what would hold the goal up on its way, before anything is decided: a goal that may leave
        leaves at once (B22, R23).
        """
        if self.port.has_place():  # as nearly always: costs no turn of the loop
            await self.port.reserve()
            return
        self._has_waited = True
        asking = asyncio.ensure_future(self.port.reserve())
        limit_s = self._settings.acceptance_timeout_s
        try:
            await first_of(self._clock, asking, self._fault, self._cancel_asked, timeout_s=limit_s)
            has_place = asking.done()
        finally:
            asking.cancel()
        try:
            self._check_interrupts()
        except BaseException:
            if has_place:
                self.port.give_back()
            raise
        if not has_place:
            self._fail("ROS_SERVER_UNAVAILABLE", "It has not answered the goals before; nothing was sent.")

    async def _send_once(self) -> bool:
        """Send under a fresh id; ``False`` when the server refused."""
        goal_id = uuid4()
        await self._get_place()
        try:
            permit = await self._get_permit(goal_id)
            # No waiting from here to the sending: what the guard has just seen must still hold.
            servers = self._check_server()
            self._check_conditions()
            self._write_down_sending(goal_id)
        except BaseException:
            self.port.give_back()
            raise
        self.goal_id, self.may_run = goal_id, True
        self._to(RunState.SENDING)
        self._around.on_sending(self)
        self._server.goal_leaves(servers)
        self._open_watch(goal_id)
        self._begin_hold()
        self.skill.leaves(self.spec)
        sending = asyncio.create_task(self.port.send_goal(permit.goal_id, permit.spend()))
        self._around.keep(sending)
        sending.add_done_callback(lambda _: self._late_answer(sending, goal_id))
        # Not interrupted by a cancel: whether there is a goal to cancel has to be known first. A goal that is
        # seen to be there was accepted, whatever became of the answer.
        limit_s = self._settings.acceptance_timeout_s
        got = await first_of(self._clock, sending, self._fault, self._goal_seen, timeout_s=limit_s)
        if got is self._fault:
            raise RunFailed(self._fault.result())
        if got is self._goal_seen:
            self._accepted(SEEN)
            return True
        if got is None:
            await self._search(goal_id, sending, "no answer came")
            return True
        error = error_of(sending)
        if isinstance(error, GoalFieldError):
            self.may_run = False  # it could not even be built
            self._fail("ROS_INVALID_GOAL", f"{error}.")
        if error is not None:
            await self._search(goal_id, None, f"sending failed: {error!r}")
            return True
        if sending.result().accepted:
            self._accepted("accepted")
            return True
        self._refused()
        if self.cancel_requested:
            raise RunStopped(REFUSED_STOP)
        return False

    def _refused(self) -> None:
        """The server has definitely not taken the goal."""
        self.may_run = False
        self._close_watch()
        self._around.on_refused(self)
        self._around.guard.not_taken(self._cleared())

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
                self._accepted(SEEN)
                return
            if got is asking and asking.result().status != GoalStatus.UNKNOWN:
                self._accepted(RESULT_THERE)
                return
            if sending is not None and got is sending:
                if not sending.result().accepted:
                    self._refused()
                    self._fail("ROS_GOAL_REJECTED")
                self._accepted("accepted late")
                return
        # Perhaps lost on the way, perhaps still to arrive: it is hunted from here on.
        self._fail("ROS_GOAL_RESPONSE_TIMEOUT")

    async def _resume(self, resumes: Resumption) -> None:
        """Find the goal that the bridge before this one sent or was about to send; send nothing (B24)."""
        goal_id, bridge = resumes.goal_id, self._settings.bridge
        self.clearance = self._around.guard.adopt(self.task_id, self.skill.name, str(goal_id))
        self._open_watch(goal_id)
        self._begin_hold()
        wait_s = max(self._settings.server_wait_s, bridge.server_lost_timeout_s)
        ready = asyncio.ensure_future(self.port.wait_for_server(wait_s))
        try:
            await first_of(self._clock, ready, self._fault)
        finally:
            ready.cancel()
        if self._fault.done():
            raise RunFailed(self._fault.result())
        if not ready.result():
            self._fail("ROS_SERVER_LOST", f"The bridge restarted and has not seen it for {wait_s:g} s.")
        self._server_found = True
        give_up_s = self._clock.now() + self._settings.acceptance_timeout_s
        while True:
            asking = self._question.ask(goal_id)
            await first_of(self._clock, self._cancel_asked, self._goal_seen, asking, self._fault)
            if self.cancel_requested:
                if self.state is RunState.RESUMING:
                    self._begin_cancelling()
                return
            if self._fault.done():
                raise RunFailed(self._fault.result())
            if self._goal_seen.done():
                self._accepted(SEEN)
                return
            # The status topic may be late, for seconds: that a goal is not in it says nothing.
            if error_of(asking) is None:
                if asking.result().status != GoalStatus.UNKNOWN:
                    self._accepted(RESULT_THERE)
                    return
                if not resumes.maybe_accepted:
                    self._fail("ROS_RESULT_EXPIRED", "The bridge had restarted meanwhile.")
            if self._clock.now() >= give_up_s:
                self._fail("ROS_GOAL_RESPONSE_TIMEOUT", "The bridge restarted while it sent the goal.")
            self._question.forget()
            waiting = (self._goal_seen, self._fault, self._cancel_asked)
            await first_of(self._clock, *waiting, timeout_s=bridge.watch_period_s)

    def _accepted(self, how: str) -> None:
        self.was_accepted = True
        if how != RESULT_THERE:
            # Asked before the server had the goal, its answer may be that it does not know it.
            self._question.forget()
        self._to(RunState.EXECUTING, how)
        if self.cancel_requested:
            self._begin_cancelling()
        accepted: dict[str, Any] = {
            "phase": "accepted" if self._resumes is None else "resumed",
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
            # The task fails within the grace; the goal is followed until it has ended, so that no other one
            # moves the same part before.
            self.halt(self._bridge_failure(OVERTIME, seconds=f"{limit_s:g}"))
            got = await first_of(self._clock, asking, self._fault)
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
        self.may_run = result.status not in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED, GoalStatus.CANCELED)
        self._forgotten = result.status == GoalStatus.UNKNOWN and self.was_accepted
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
        if outcome.state == "succeeded":
            outcome = self.skill.measured(outcome, self.spec, await self._look())
        if outcome.state != "succeeded":
            failure = outcome.failure or self._bridge_failure("ROS_ABORTED_NO_REASON")
            if failure.error_code == "ROS_ABORTED_NO_REASON":
                failure = await self._why_aborted(failure)
            raise RunFailed(failure)
        self._lane.complete(self._clock.now())
        unfired = self._triggers.unfired()
        return {**(outcome.result or {}), **({"triggers_not_fired": unfired} if unfired else {})}

    async def _look(self) -> WorldSnapshot:
        """The world after the end: what the skill measures is read anew, or not known (L2)."""
        world, parts = self._around.world, self.skill.measures
        try:
            if not parts:
                return world.snapshot()
            asked = utc_now()
            return (await world.after(asked, MEASURE_BOUND_S, parts)).since(asked)
        except Exception:
            logger.exception("task %s: the sensors cannot be read", self.task_id)
            return WorldSnapshot()

    async def _why_aborted(self, failure: TaskFailure) -> TaskFailure:
        """ROS 2 has no PREEMPTED: an abort without a reason, while another goal starts, means replaced
        (C22).
        """
        if await self._takeover.happens_within(self._settings.bridge.preemption_window_s):
            return self._bridge_failure(PREEMPTED, self._takeover.words())
        if self._lane.last is None:
            rival = self._around.other_navigation(self)
            if rival is not None:
                return self._bridge_failure("NAV2_NAVIGATOR_BUSY", f"It is the task {rival}.")
        return failure
