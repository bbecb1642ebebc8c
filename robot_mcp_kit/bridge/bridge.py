"""The bridge: skills in, tasks out. Starts runs, stops them all, keeps two of them from one robot."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.bridge.adopting import Adoption
from robot_mcp_kit.bridge.base import ActionPorts
from robot_mcp_kit.bridge.checking import Checks, collide
from robot_mcp_kit.bridge.ledger import Ledger, LedgerError, LedgerRow, MemoryLedger, hash_arguments
from robot_mcp_kit.bridge.outcomes import task_error
from robot_mcp_kit.bridge.plan import plan_to_json
from robot_mcp_kit.bridge.routines import Routines
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.run_core import RunCore
from robot_mcp_kit.bridge.settings import BridgeSettings, RunSettings
from robot_mcp_kit.bridge.states import NOTHING_SENT, RunState
from robot_mcp_kit.bridge.stop_report import (
    StoppedTask,
    StopReport,
    stop_words,
    stopped_routine,
    stopped_run,
)
from robot_mcp_kit.bridge.surroundings import Surroundings
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.failures import failure_from
from robot_mcp_kit.models import TaskFailure, TaskInfo
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.safety.refusals import ESTOP, safety_failure
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Skill, SkillArguments
from robot_mcp_kit.skills.bridge_codes import bridge_failure
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.nav2.navigation import WhereIsRobot
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.skills.triggers import TriggerSet, check_triggers
from robot_mcp_kit.skills.world import NoWorld, World
from robot_mcp_kit.tasks import TaskManager

__all__ = ["Bridge", "BridgeSettings", "Started", "StopReport", "StoppedTask"]

logger = logging.getLogger(__name__)

MAX_KEY_CHARS = 200
LAST_WORDS_S = 2.0
LAST_ASK_S = 0.2
"""How long the end waits for answers to the last cancels; an idle server takes 1 to 2 ms."""
_NAVIGATORS = ("/NavigateToPose", "/NavigateThroughPoses")


@dataclass(frozen=True, slots=True)
class Started:
    """Answer to :meth:`Bridge.begin`."""

    info: TaskInfo
    summary: str
    """What the robot was told, in words."""
    replaces: tuple[str, ...] = ()
    """Running tasks this one takes over from."""
    existing: bool = False
    """The task is an earlier one with the same idempotency key; nothing new was sent."""
    audit_id: str = ""
    """The request's id in the audit trail; empty for routines, whose steps have their own, and old tasks."""


def _stop(run: GoalRun, reason: str) -> None:
    if run.cancel_requested:
        run.repeat_cancel()
    else:
        run.request_cancel(reason)


def _carefully(run: GoalRun, step: Callable[[], object]) -> None:
    """One run that breaks must not keep a stop from the others."""
    try:
        step()
    except Exception:
        logger.exception("task %s: broke", run.task_id, extra={"task_id": run.task_id})


class Bridge(Checks):
    """Runs goals as tasks. Lives on one event loop: every method is called there.

    Args:
        manager: owns the tasks.
        ports: finds action servers.
        config: the checked YAML.
        guard: asked at every step of every goal; built for the same skills.
        settings: times.
        skills: instead of those built from ``config``.
        routines: skills made of these; their steps are guarded, they themselves move nothing.
        world: what conditions are checked on and routines measure with; nothing is known by default.
        where: where the robot is now in the map frame, if somebody knows.
        ledger: where starts are written down before a goal leaves; in memory by default.
        clock: monotonic time.
    """

    def __init__(
        self,
        manager: TaskManager,
        ports: ActionPorts,
        config: RobotConfig,
        *,
        guard: Guard,
        settings: BridgeSettings | None = None,
        skills: Mapping[str, Skill] | None = None,
        routines: Mapping[str, Routine] | None = None,
        world: World | None = None,
        where: WhereIsRobot | None = None,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.skills: dict[str, Skill] = dict(build_skills(config, where) if skills is None else skills)
        self.skills.update(routines or {})
        self.world: World = world if world is not None else NoWorld()
        self.settings = settings if settings is not None else BridgeSettings()
        self.ledger: Ledger = ledger if ledger is not None else MemoryLedger()
        self.refusing: TaskFailure | None = None
        """Why nothing new is started now; what runs is not touched."""
        self.guard = guard
        guard.on_estop = self._on_estop
        self._manager = manager
        manager.avoid_ids(self.ledger.knows)
        self._ports = ports
        self._config = config
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._runs: dict[str, GoalRun] = {}
        self._routines = Routines(manager, self.ledger, self._begin_step, self._clock)
        self._background: set[asyncio.Task[Any]] = set()
        self._requesters: dict[str, Requester] = {}
        """Who asked for the routines that run; their steps are asked for by the same."""

    # -- starting ---------------------------------------------------------------------------------

    async def start(
        self,
        skill_name: str,
        arguments: Mapping[str, Any] | SkillArguments,
        *,
        triggers: Any = None,
        idempotency_key: Any = None,
        requester: Requester | None = None,
    ) -> TaskInfo:
        """As :meth:`begin`; only the task."""
        return self.begin(
            skill_name,
            arguments,
            triggers=triggers,
            idempotency_key=idempotency_key,
            requester=requester,
        ).info

    def begin(
        self,
        skill_name: str,
        arguments: Mapping[str, Any] | SkillArguments,
        *,
        triggers: Any = None,
        idempotency_key: Any = None,
        requester: Requester | None = None,
        part_of: str | None = None,
    ) -> Started:
        """Validate, write down, start the task, and return without waiting for the action server (B1).

        Args:
            skill_name: key of :attr:`skills`.
            arguments: as a model wrote them, or the skill's own arguments.
            triggers: list of trigger objects.
            idempotency_key: text; the same key with the same arguments answers with the same task, running or
                ended, as long as the ledger keeps it, and moves nothing again. Also while nothing new may
                start, and after a restart with a ledger on disk.
            requester: who asks, for approvals and the audit trail.
            part_of: the routine's task that this is a step of.

        Raises:
            ArgumentError: names the argument (or ``triggers[i].field``, ``idempotency_key``); nothing moved.
            TaskError: refused for another reason, with code and suggestions (``ROS_BUSY``,
                ``ROS_TYPE_UNAVAILABLE``, ``BRIDGE_LEDGER_UNAVAILABLE``, ``SAFETY_...``); nothing moved.
        """
        requester = requester or Requester()
        skill = self._skill(skill_name, requester)
        parsed = parse_arguments(skill.arguments, arguments)
        attached = check_triggers(triggers)
        watching = TriggerSet(attached, self._config.zones, skill.trigger_types)
        key = _check_key(idempotency_key)
        plain = parsed.model_dump(mode="json", exclude_none=True)
        fingerprint = hash_arguments(skill.name, plain)
        if key is not None:
            known = self._known_by_key(key, skill, fingerprint)
            if known is not None:
                return known
        if self.refusing is not None:
            raise task_error(self.refusing)
        spec = skill.goal(parsed)
        self._routines.check_free(skill.action_name or skill.name, skill.resources, part_of)
        self._check_conditions(skill, parsed)
        if isinstance(skill, Routine):
            self._check_idle(skill)
            info = self._routines.start(
                skill, parsed, self.world, fingerprint=fingerprint, key=key, plain=plain
            )
            self._requesters[info.task_id] = requester
            return Started(info, spec.summary)
        port, spec = self._port(skill, spec)
        replaces = self._take_turn(skill, port)
        clearance = self.guard.admit(skill, spec, port.name, requester=requester, arguments=plain)
        run = GoalRun(
            skill, spec, port, watching, self._around(skill, parsed), tuple(r.task_id for r in replaces)
        )
        run.clearance = clearance
        try:
            info = self._manager.start(
                skill.name, run.body, triggers=attached or None, est_duration_s=spec.est_duration_s
            )
        except BaseException:
            self.guard.finished(clearance, result="failed", code="NOT_STARTED", sent=False)
            raise
        run.task_id = clearance.task_id = info.task_id
        try:
            # The body has not begun: the row is there before the goal's first step (B2).
            row = LedgerRow(
                info.task_id,
                skill.name,
                port.name,
                fingerprint,
                key,
                action_type=port.type_name,
                arguments=plain,
                plan=plan_to_json(spec),
            )
            self._write_down(row)
            self._runs[info.task_id] = run
            if replaces and not self.guard.needs_person(clearance):  # otherwise it may never go
                for older in replaces:
                    older.supersede(info.task_id)
        except Exception as error:
            # The caller hears an error: the goal must not leave all the same.
            run.fail(failure_from(error))
            raise
        logger.info(
            "task %s: %s%s",
            info.task_id,
            spec.summary,
            f", replaces {', '.join(run.replaces)}" if replaces else "",
            extra={"task_id": info.task_id},
        )
        return Started(info, spec.summary, run.replaces, audit_id=clearance.request_id)

    def _begin_step(self, skill: str, arguments: dict[str, Any], task_id: str) -> GoalRun:
        started = self.begin(skill, arguments, requester=self._requesters.get(task_id), part_of=task_id)
        return self._runs[started.info.task_id]

    def _skill(self, name: str, requester: Requester) -> Skill:
        try:
            return self.skills[name]
        except KeyError:
            self.guard.unknown_skill(name, requester)
            message = f'there is no skill "{name}".{did_you_mean(name, self.skills)}'
            raise ArgumentError("skill", message, allowed=nearest_first(name, self.skills)) from None

    def _known_by_key(self, key: str, skill: Skill, fingerprint: str) -> Started | None:
        try:
            row = self.ledger.by_key(key)
            saved = None if row is None else self.ledger.saved_task(row.task_id)
        except LedgerError as error:
            failure = bridge_failure(
                "BRIDGE_LEDGER_UNAVAILABLE", action=skill.action_name, detail=f"{error}."
            )
            raise task_error(failure) from error
        if row is None:
            return None
        if row.arguments_hash != fingerprint:
            raise ArgumentError(
                "idempotency_key",
                f"this key already started the task {row.task_id} with other arguments ({row.skill}); "
                "use a new key for a new request",
            )
        info = self._manager.get(row.task_id)
        if info is None and saved is not None:
            info = saved.info  # no longer retained in memory
        if info is None:
            raise ArgumentError(
                "idempotency_key",
                f"the task {row.task_id} of this key has ended and its record is gone; it is not run again. "
                "Use a new key for a new request",
            )
        return Started(info, f"the task of this idempotency key ({skill.name})", existing=True)

    def _write_down(self, row: LedgerRow) -> None:
        try:
            self.ledger.record(row)
        except LedgerError as error:
            failure = bridge_failure("BRIDGE_LEDGER_UNAVAILABLE", action=row.action, detail=f"{error}.")
            raise task_error(failure) from error

    def _around(self, skill: Skill, arguments: SkillArguments | None = None) -> Surroundings:
        """``arguments``: of a goal that may still have to be sent."""

        def broken_condition() -> TaskFailure | None:
            return None if arguments is None else next(iter(self._broken_conditions(skill, arguments)), None)

        return Surroundings(
            guard=self.guard,
            ledger=self.ledger,
            clock=self._clock,
            settings=RunSettings.of(self.settings, self._config.skills.get(skill.name)),
            action_names=self._ports.action_names,
            annotate=self._manager.annotate,
            keep=self._keep,
            clear_way=self._clear_way,
            on_sending=self._on_sending,
            on_refused=self._on_refused,
            broken_condition=broken_condition,
            world=self.world,
            other_navigation=self._other_navigation,
        )

    # -- after a restart --------------------------------------------------------------------------

    async def adopt(self) -> list[str]:
        """Take over what an earlier bridge left in the ledger; before anything new is started (B24).

        Finished tasks can be read again. Running ones go on under their ids: a goal that had not left ends
        as ``ROS_BRIDGE_RESTARTED``, one that may have left is looked for by its UUID and followed.

        Returns:
            ids of the tasks whose goals are followed.

        Raises:
            LedgerError: the ledger cannot be read.
        """

        def add(run: GoalRun) -> None:
            self._runs[run.task_id] = run

        zones = self._config.zones
        adoption = Adoption(self.ledger, self._manager, self._ports, self.skills, zones, self._around, add)
        return await adoption.run()

    # -- stopping ---------------------------------------------------------------------------------

    async def stop(self, reason: str) -> StopReport:
        """Cancel everything this bridge runs, whoever started it.

        Every cancel request is on its way before anything is awaited; then the confirmations are waited for,
        about as long as the contract's grace. Takes no lock, needs no approval, may be repeated: unfinished
        stops are asked for again (B22).
        """
        routines = self._routines.halt()
        runs = self._live_runs()
        logger.warning("stop (%s): %d running", reason, len(runs))
        for run in runs:
            _carefully(run, functools.partial(_stop, run, reason))
        await asyncio.sleep(0)  # the requests are on the wire; files may take their time now
        self.guard.stopped(reason, [run.task_id for run in runs])
        stopping = [*(run.task_id for run in runs), *routines]
        answers = await asyncio.gather(
            *(self._manager.cancel(task_id) for task_id in stopping),
            self._all_ended(runs),  # also those whose tasks have ended before
            return_exceptions=True,
        )
        for task_id, answer in zip(stopping, answers[:-1], strict=True):
            if isinstance(answer, BaseException):
                logger.error("task %s: cancelling the task failed: %r", task_id, answer)
        self._sweep()
        get = self._manager.get
        tasks = [
            *(stopped_run(run, get(run.task_id)) for run in runs),
            *(stopped_routine(task_id, get(task_id)) for task_id in routines),
        ]
        confirmed = all(task.stop_confirmed for task in tasks)
        return StopReport(reason=reason, tasks=tasks, all_confirmed=confirmed, message=stop_words(tasks))

    async def _all_ended(self, runs: list[GoalRun]) -> None:
        """Wait for the ends of these goals, within the grace of a cancel."""
        if runs:
            ends = asyncio.ensure_future(asyncio.wait({run.ended for run in runs}))
            await first_of(self._clock, ends, timeout_s=self.settings.cancel_grace_s)
            ends.cancel()

    def _on_estop(self, reason: str) -> None:
        """Stop whatever runs, at once; the tasks fail as stopped for safety."""
        failure = safety_failure(ESTOP, f"It was latched for: {reason}.")
        self._routines.halt()
        for run in self._live_runs():
            _carefully(run, functools.partial(run.halt, failure))

    async def lose_ros(self, error_code: str, message: str) -> None:
        """Fail every running task: the connection to the robot is gone, nothing can be followed. Each goal
        gets a last cancel, and stays open in the ledger, so that the bridge after this one ends it.

        Returns when the tasks have failed, so that nobody calls them cancelled instead.
        """
        failure = TaskFailure(
            error_code=error_code, message=message, recoverable=False, suggestions=["ask_person"]
        )
        tasks = [*self.running(), *self._routines.halt()]
        for run in self._live_runs():
            _carefully(run, functools.partial(run.lose_ros, failure))
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
                _carefully(run, run.abandon)
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


def _check_key(key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS:
        raise ArgumentError("idempotency_key", f"expected text of 1 to {MAX_KEY_CHARS} characters")
    return key
