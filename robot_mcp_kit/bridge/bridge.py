"""The bridge: skills in, tasks out. What runs, and how all of it is stopped, is in :mod:`.runs`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.bridge.adopting import Adoption
from robot_mcp_kit.bridge.base import ActionPorts
from robot_mcp_kit.bridge.hunting import Hunt
from robot_mcp_kit.bridge.ledger import Ledger, LedgerError, LedgerRow, MemoryLedger, hash_arguments
from robot_mcp_kit.bridge.outcomes import task_error
from robot_mcp_kit.bridge.plan import plan_to_json
from robot_mcp_kit.bridge.routines import Routines
from robot_mcp_kit.bridge.run import GoalRun
from robot_mcp_kit.bridge.runs import Runs
from robot_mcp_kit.bridge.settings import BridgeSettings, RunSettings
from robot_mcp_kit.bridge.stop_report import StoppedTask, StopReport
from robot_mcp_kit.bridge.surroundings import Surroundings
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.failures import failure_from
from robot_mcp_kit.models import TaskFailure, TaskInfo
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.principals import Requester
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


class Bridge(Runs):
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
        self._hunts: dict[str, Hunt] = {}
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
            hunting=self._hunting,
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


def _check_key(key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS:
        raise ArgumentError("idempotency_key", f"expected text of 1 to {MAX_KEY_CHARS} characters")
    return key
