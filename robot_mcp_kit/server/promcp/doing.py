"""A ``do_`` call from its key to its response: begun once, waited for, measured on both sides, remembered.

The bridge's ledger is what keeps a key from moving the robot twice, over restarts too. Above it a memory
joins calls that come while the motion runs, and remembers refusals and responses as they were given.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robot_mcp_kit.bridge.bridge import Bridge, Started
from robot_mcp_kit.bridge.ledger import MAX_AGE_S, MAX_ENDED_RETAINED, LedgerError
from robot_mcp_kit.clock import Clock, WallClock
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.models import TaskInfo, UtcTime
from robot_mcp_kit.promcp.contracts import DoStatus
from robot_mcp_kit.promcp.memory import KeyConflictError, KeyMemory
from robot_mcp_kit.safety.principals import Requester
from robot_mcp_kit.server.promcp.measuring import (
    OUTPUT_CHANGES,
    Measured,
    handled_object,
    measure_after,
    measured_in,
    parts_of,
    side_effects_of,
    unmoved,
)
from robot_mcp_kit.server.promcp.undoing import Undo, undo_of
from robot_mcp_kit.server.waiting import ProgressTeller, while_telling
from robot_mcp_kit.skills.arguments import parse_arguments
from robot_mcp_kit.skills.base import Skill, SkillArguments
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.tasks import TaskManager

logger = logging.getLogger(__name__)

RESPONSE = "promcp"
"""Key in a task's progress: the response as it was given, for a retry after a restart."""
NEVER_MOVED = frozenset({"ROS_GOAL_REJECTED", "ROS_SERVER_UNAVAILABLE", "NAV2_NAVIGATOR_BUSY"})
"""Codes with which a goal may have left and nothing moved."""
KEPT_WORDS = (
    f"A key is remembered for {MAX_AGE_S / 86400:g} days after the end (the newest {MAX_ENDED_RETAINED} "
    "motions); afterwards it counts as new."
)


class Done(BaseModel):
    """How a call ended, the same for every profile; the way back is named by the profile."""

    model_config = ConfigDict(frozen=True)

    status: DoStatus
    detail: str | None
    timestamp: UtcTime
    applied_value: Measured | None = None
    previous_value: Measured | None = None
    side_effects: list[str] = Field(default_factory=list)
    undo: Undo | None = None
    task_id: str | None = None
    error_code: str | None = None
    suggestions: list[str] = Field(default_factory=list)
    result: dict[str, Any] | None = None
    in_progress: bool = False
    replayed: bool = False


class Doing:
    """Carries out ``do_`` calls for all profiles of one robot. Lives on one event loop.

    Args:
        bridge: begins the motions.
        manager: its tasks.
        config: the checked file.
        clock: monotonic.
        wall_clock: Unix seconds.
        key_window_s: how long keys are remembered after the end.
    """

    def __init__(
        self,
        bridge: Bridge,
        manager: TaskManager,
        config: RobotConfig,
        *,
        clock: Clock,
        wall_clock: WallClock,
        key_window_s: float = MAX_AGE_S,
    ) -> None:
        self.bridge, self.manager, self.config = bridge, manager, config
        self._clock, self._wall_clock = clock, wall_clock
        self._memory: KeyMemory[Done] = KeyMemory(key_window_s, max_keys=MAX_ENDED_RETAINED, clock=clock)
        self._tasks: dict[str, str] = {}
        """Key -> task, of the calls that run."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock(), UTC)

    async def aclose(self) -> None:
        """Wait for nobody any more; the motions themselves are the bridge's."""
        await self._memory.aclose()

    def parts(self, skill: Skill) -> frozenset[str]:
        return parts_of(skill, self.bridge.skills)

    def side_effects(self, skill: Skill) -> list[str]:
        """Everything that a call may bring about besides."""
        section = self.config.skills.get(skill.name)
        takes_over = section is not None and section.policy == "replace"
        return self._effects(skill, self.parts(skill), takes_over=takes_over)

    def _effects(self, skill: Skill, parts: frozenset[str], *, takes_over: bool) -> list[str]:
        if isinstance(self.config.skills.get(skill.name), SetOutputSection):
            return [OUTPUT_CHANGES]
        return side_effects_of(parts, takes_over=takes_over)

    def refused(self, why: str, code: str | None = None, suggestions: list[str] | None = None) -> Done:
        """Nothing was done."""
        return Done(
            status="failed",
            detail=f"Refused, nothing was done. {why}",
            timestamp=self.now(),
            error_code=code,
            suggestions=suggestions or [],
        )

    # -- one call -------------------------------------------------------------------------------------------

    async def do(
        self,
        skill: Skill,
        raw: Mapping[str, Any],
        key: str,
        *,
        requester: Requester,
        wait_s: float,
        tell: ProgressTeller | None = None,
    ) -> Done:
        """Begin a motion, or find the one of this key, and wait for its end at most ``wait_s``.

        A caller that goes away does not end the motion.

        Args:
            skill: which.
            raw: its arguments as a model wrote them.
            key: not blank.
            requester: who asks.
            wait_s: real seconds.
            tell: is told of progress meanwhile.
        """
        try:
            arguments = parse_arguments(skill.arguments, raw)
            if not self._knows(key):  # a remembered call is answered whatever has become of the robot
                skill.goal(arguments)
        except ArgumentError as error:
            return self.refused(f"{error.field}: {error.message}", "INVALID_ARGUMENT")
        except Exception as error:  # a fault of the skill; nothing has begun
            logger.exception("%s: its goal cannot be built", skill.name)
            return self.refused(f"{type(error).__name__}: {error}", "INTERNAL")
        plain = {"skill": skill.name, **arguments.model_dump(mode="json", exclude_none=True)}
        joining = asyncio.ensure_future(
            self._memory.once(key, plain, lambda: self._carry_out(skill, arguments, key, requester))
        )
        try:
            # It begins at once, in a task of its own; a few turns of the loop.
            while not joining.done() and key not in self._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await while_telling(
                self.manager, lambda info: info.task_id == self._tasks.get(key), joining, wait_s, tell=tell
            )
            if not joining.done():
                return self._in_progress(skill, key)
            done, replayed = joining.result()
        except KeyConflictError:
            return self.refused(
                "idempotency_key: this key was used with other arguments or another tool; take a new key for "
                "a new request.",
                "INVALID_ARGUMENT",
            )
        finally:
            joining.cancel()
        return done.model_copy(update={"replayed": done.replayed or replayed})

    def _knows(self, key: str) -> bool:
        try:
            return self._memory.knows(key) or self.bridge.ledger.by_key(key) is not None
        except LedgerError:
            return False

    def _in_progress(self, skill: Skill, key: str) -> Done:
        task_id = self._tasks.get(key)
        info = None if task_id is None else self.manager.get(task_id)
        progress = {} if info is None else info.progress or {}
        waits = progress.get("phase") == "awaiting_approval"
        if waits:
            said = "It waits for a person to approve it; nothing has moved yet. You cannot approve it."
        else:
            said = f"{skill.name} still runs, so the robot may be moving."
        return Done(
            status="partial",
            detail=f"{said} Call again with the same key and arguments to go on waiting.",
            timestamp=self.now(),
            side_effects=[] if waits else self.side_effects(skill),
            task_id=task_id,
            in_progress=True,
        )

    async def _carry_out(
        self, skill: Skill, arguments: SkillArguments, key: str, requester: Requester
    ) -> Done:
        """Once for each key, in a task that belongs to nobody's request."""
        parts = self.parts(skill)
        world = self.bridge.world.snapshot()
        name = handled_object(skill, arguments, world)
        before: Measured | None = measured_in(world, parts, name)
        try:
            begun = self.bridge.begin(skill.name, arguments, idempotency_key=key, requester=requester)
        except ArgumentError as error:
            return self.refused(f"{error.field}: {error.message}", "INVALID_ARGUMENT")
        except TaskError as error:
            return self.refused(error.message, error.error_code, error.suggestions)
        except Exception as error:
            logger.exception("%s was not begun", skill.name)
            return self.refused(f"{type(error).__name__}: {error}", "INTERNAL")
        if begun.existing:
            before = None  # what was measured now was not measured before that motion
        self._tasks[key] = begun.info.task_id
        try:
            return await self._follow(skill, begun, before, parts, name)
        finally:
            self._tasks.pop(key, None)

    async def _follow(
        self, skill: Skill, begun: Started, before: Measured | None, parts: frozenset[str], name: str | None
    ) -> Done:
        info = await self.manager.wait(begun.info.task_id) or begun.info
        saved = _saved(info)
        if saved is not None:
            return saved.model_copy(update={"replayed": True})
        after: Measured | None = None
        if not begun.existing or begun.info.state == "running":
            try:
                after = await measure_after(self.bridge.world, parts, name, clock=self._clock)
            except Exception:  # what the motion did is still told
                logger.exception("task %s: nothing could be measured after it", info.task_id)
        done = self._judge(skill, info, before, after, takes_over=bool(begun.replaces))
        with contextlib.suppress(RuntimeError):  # the manager has closed
            self.manager.annotate(info.task_id, {RESPONSE: done.model_dump(mode="json")})
        return done.model_copy(update={"replayed": begun.existing})

    # -- what it came to ------------------------------------------------------------------------------------

    def _judge(
        self,
        skill: Skill,
        info: TaskInfo,
        before: Measured | None,
        after: Measured | None,
        *,
        takes_over: bool,
    ) -> Done:
        parts = self.parts(skill)
        still = frozenset[str]()
        if before is not None and after is not None:
            still = unmoved(before, after, info.created_at)
        succeeded = info.state == "succeeded"
        committed = succeeded or (self._may_have_moved(skill, info) and not (parts and still >= parts))
        told = {
            "timestamp": self.now(),
            "detail": _words(skill, info),
            "task_id": info.task_id,
            "previous_value": before,
            "error_code": None if info.failure is None else info.failure.error_code,
            "suggestions": [] if info.failure is None else info.failure.suggestions,
            "result": info.result,
        }
        if not committed:
            return Done(status="failed", **told)
        moved = parts if succeeded else parts - still
        undo = None
        if before is not None and not (parts and still >= parts):
            undo = undo_of(skill, before, after or Measured(), self.bridge.skills, self.config)
        return Done(
            status="success" if succeeded else "partial",
            applied_value=after,
            side_effects=self._effects(skill, moved, takes_over=takes_over),
            undo=undo,
            **told,
        )

    def _may_have_moved(self, skill: Skill, info: TaskInfo) -> bool:
        """Whether a goal of this task may have reached the robot."""
        code = None if info.failure is None else info.failure.error_code
        if isinstance(skill, Routine):
            return (info.progress or {}).get("moved") is not False
        if code in NEVER_MOVED:
            return False
        try:
            row = self.bridge.ledger.get(info.task_id)
        except LedgerError:
            return True
        return row is None or row.goal_id is not None


def _saved(info: TaskInfo) -> Done | None:
    """The response that was given for this task before."""
    kept = (info.progress or {}).get(RESPONSE)
    if not isinstance(kept, Mapping):
        return None
    try:
        return Done.model_validate(kept)
    except ValidationError:
        logger.warning("task %s: its kept response is of another version", info.task_id)
        return None


def _words(skill: Skill, info: TaskInfo) -> str | None:
    if info.state == "succeeded":
        note = (info.result or {}).get("message") or (info.result or {}).get("note")
        return str(note) if note else None
    if info.state == "cancelled":
        note = (info.progress or {}).get("note")
        return f"{skill.name} was cancelled. {note or ''}".strip()
    if info.failure is None:
        return f"{skill.name} ended as {info.state}."
    return info.failure.message
