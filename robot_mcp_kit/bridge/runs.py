"""The goal runs of one bridge: what runs, stopping all of it, keeping two of them from one robot."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from typing import Any

from robot_mcp_kit.bridge.careful import carefully
from robot_mcp_kit.bridge.checking import Checks, collide
from robot_mcp_kit.bridge.hunting import Hunt
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.run_core import RunCore
from robot_mcp_kit.bridge.settings import BridgeSettings
from robot_mcp_kit.bridge.states import NOTHING_SENT, RunState
from robot_mcp_kit.bridge.stop_report import (
    StopReport,
    stop_words,
    stopped_hunt,
    stopped_routine,
    stopped_run,
)
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import ESTOP, safety_failure
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

_NAVIGATORS = ("/NavigateToPose", "/NavigateThroughPoses")
LAST_WORDS_S = 2.0
"""How long the end waits for the tasks to fail once ROS is gone; a few turns of the loop."""
LAST_ASK_S = 0.2
"""How long the end waits for answers to the last cancels; an idle server takes 1 to 2 ms."""


def _stop(run: GoalRun, reason: str) -> None:
    if run.cancel_requested:
        run.repeat_cancel()
    else:
        run.request_cancel(reason)


class Runs(Checks):
    """The part of a bridge that holds what runs. See :class:`robot_mcp_kit.bridge.bridge.Bridge`."""

    settings: BridgeSettings
    _manager: TaskManager
    _clock: Clock
    _runs: dict[str, GoalRun]
    _hunts: dict[str, Hunt]
    """By task: goals that nobody follows any more and that may still run."""
    _background: set[asyncio.Task[Any]]
    _requesters: dict[str, Requester]

    # -- stopping ---------------------------------------------------------------------------------

    async def stop(self, reason: str) -> StopReport:
        """Cancel everything this bridge runs, whoever started it.

        Every cancel request is on its way before anything is awaited; then the confirmations are waited for,
        about as long as the contract's grace. Takes no lock, needs no approval, may be repeated: unfinished
        stops are asked for again (B22).
        """
        routines = self._routines.halt()
        runs, hunts = self._live_runs(), dict(self._hunts)
        logger.warning("stop (%s): %d running", reason, len(runs) + len(hunts))
        for run in runs:
            carefully(run.task_id, functools.partial(_stop, run, reason))
        for hunt in hunts.values():
            hunt.ask()
        await asyncio.sleep(0)  # the requests are on the wire; files may take their time now
        self.guard.stopped(reason, [*(run.task_id for run in runs), *hunts])
        stopping = [*(run.task_id for run in runs), *routines]
        answers = await asyncio.gather(
            *(self._manager.cancel(task_id) for task_id in stopping),
            self._all_ended(
                [
                    *(run.ended for run in runs),
                    *(hunt.over for hunt in hunts.values() if hunt.is_reachable()),
                ]
            ),
            return_exceptions=True,
        )
        for task_id, answer in zip(stopping, answers[:-1], strict=True):
            if isinstance(answer, BaseException):
                logger.error("task %s: cancelling the task failed: %r", task_id, answer)
        self._sweep()
        get = self._manager.get
        tasks = [
            *(stopped_run(run, get(run.task_id)) for run in runs),
            *(stopped_hunt(hunt, task_id, get(task_id)) for task_id, hunt in hunts.items()),
            *(stopped_routine(task_id, get(task_id)) for task_id in routines),
        ]
        confirmed = all(task.stop_confirmed for task in tasks)
        return StopReport(reason=reason, tasks=tasks, all_confirmed=confirmed, message=stop_words(tasks))

    async def _all_ended(self, goals: Sequence[asyncio.Future[Any]]) -> None:
        """Wait for these ends within the grace of a cancel, whether or not the goals' tasks have ended."""
        if goals:
            ends = asyncio.ensure_future(asyncio.wait(set(goals)))
            await first_of(self._clock, ends, timeout_s=self.settings.cancel_grace_s)
            ends.cancel()

    def _on_estop(self, reason: str) -> None:
        """Stop whatever runs, at once; the tasks fail as stopped for safety."""
        failure = safety_failure(ESTOP, f"It was latched for: {reason}.")
        self._routines.halt()
        for run in self._live_runs():
            carefully(run.task_id, functools.partial(run.halt, failure))
        for hunt in self._hunts.values():
            hunt.ask()

    def _hunting(self, run: RunCore, hunt: Hunt) -> None:
        self._hunts[run.task_id] = hunt
        hunt.over.add_done_callback(lambda _: self._hunts.pop(run.task_id, None))

    async def lose_ros(self, error_code: str, message: str) -> None:
        """Fail every running task: the connection to the robot is gone, nothing can be followed. Each goal
        gets a last cancel, and stays open in the ledger, so that the bridge after this one ends it.

        Returns when the tasks have failed, so that nobody calls them cancelled instead.
        """
        failure = TaskFailure(
            error_code=error_code, message=message, recoverable=False, suggestions=["ask_person"]
        )
        self.refusing = failure
        tasks = [*self.running(), *self._routines.halt()]
        for run in self._live_runs():
            run.fail(failure)
        ends = [asyncio.ensure_future(self._manager.wait(task_id)) for task_id in tasks]
        if ends:
            _, late = await asyncio.wait(ends, timeout=LAST_WORDS_S)
            for end in late:
                end.cancel()

    async def aclose(self) -> None:
        """Drop what is still followed after its task ended. Cancel the tasks first (``manager.aclose``).

        A goal of which nobody knows whether it was taken, or whether its cancel arrived, gets a last one.
        """
        asked = [task for run in self._live_runs() if (task := run.let_go()) is not None]
        asked.extend(hunt.ask() for hunt in self._hunts.values())
        if asked:
            logger.warning("%d goals have not confirmed their end; asked them once more", len(asked))
            await asyncio.wait(asked, timeout=LAST_ASK_S)
        for task in tuple(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    # -- the runs ---------------------------------------------------------------------------------

    def running(self) -> list[str]:
        """Ids of the tasks whose goal has not ended, oldest first; also cancelled ones that still stop."""
        return [run.task_id for run in self._live_runs()]

    def glance(self) -> list[str]:
        """As :meth:`running`, from any thread: what has ended is left out, and stays where it is."""
        # A goal of before a restart may move until it was found and has ended, whatever became of its task.
        return [
            task_id
            for task_id, run in list(self._runs.items())
            if run.state is not RunState.ENDED
            and not (run.state is RunState.PREPARED and self._ended_unbegun(run))
        ]

    def _ended_unbegun(self, run: GoalRun) -> bool:
        """Whether the run's task ended before its body began."""
        if run.state not in (RunState.PREPARED, RunState.RESUMING):
            return False
        info = self._manager.get(run.task_id)
        return info is None or info.state != "running"

    def _live_runs(self) -> list[GoalRun]:
        self._sweep()
        return list(self._runs.values())

    def _sweep(self) -> None:
        for task_id in self._requesters.keys() - set(self._routines.running()):
            del self._requesters[task_id]
        for task_id, run in list(self._runs.items()):
            if self._ended_unbegun(run):
                carefully(run.task_id, run.abandon)
            if run.state is RunState.ENDED:
                del self._runs[task_id]

    def _clear_way(self, run: GoalRun) -> list[GoalRun]:
        """Stop older runs that move the same part, and wait for those that stop already; one that has not
        left does not leave. Only a server that replaces its goals itself gets the new one at once.

        A goal that queues stops nobody: it waits for all of them.
        """
        in_the_way = []
        for older in list(self._runs.values()):
            if older is run:
                break
            if older.state is RunState.ENDED or not collide(run.skill, run.port, older):
                continue
            if not run.queues:
                if older.supersede(run.task_id):
                    continue
                if older.port is run.port and run.skill.server_replaces and not older.cancel_requested:
                    continue
                older.preempt(run.task_id)
            in_the_way.append(older)
        return in_the_way

    def _on_sending(self, run: GoalRun) -> None:
        """From here on a server that takes one goal at a time ends the older ones for this one."""
        for older in self._runs.values():
            if older is run:
                break
            if older.port is run.port and older.state is not RunState.ENDED:
                older.taken_over(run.task_id)

    def _on_refused(self, run: RunCore) -> None:
        for older in self._runs.values():
            older.not_taken_over(run.task_id)

    def _other_navigation(self, run: GoalRun) -> str | None:
        if not run.port.type_name.endswith(_NAVIGATORS):
            return None
        for other in self._runs.values():
            moving = other.state not in NOTHING_SENT and other.state is not RunState.ENDED
            if moving and other.port is not run.port and other.port.type_name.endswith(_NAVIGATORS):
                return other.task_id
        return None

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._background.add(task)
        task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.debug("%s ended with %r", task.get_name(), task.exception())
