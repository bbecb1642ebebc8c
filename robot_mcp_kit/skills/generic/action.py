"""Any action as a skill: arguments from its goal's schema and the YAML, progress and outcome from its own
fields.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from robot_mcp_kit.jsonsafe import copy_json, to_jsonable
from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Sample,
    Skill,
    SkillArguments,
)
from robot_mcp_kit.skills.config.generic import GenericSection
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.generic.facts import facts_schema
from robot_mcp_kit.skills.generic.plan import Fault, GoalPlanner
from robot_mcp_kit.skills.generic.reading import GenericReader, ResultReader, reading_faults
from robot_mcp_kit.skills.generic.shape import GoalPlan
from robot_mcp_kit.skills.goal_schema import GoalSchema, JsonSchema
from robot_mcp_kit.skills.message_json import MessageConverter
from robot_mcp_kit.skills.text import clean_text

logger = logging.getLogger(__name__)

MAX_BYTES = 1024
"""Longest binary value in what is told of feedback and result."""
MAX_CHARS = 2000
LARGE_SCHEMA_CHARS = 20_000
"""A tool's schema beyond this fills a planner's context for little."""


class GenericFaults(Exception):
    """What in a generic entry does not fit the action type; each with its key."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


class GenericArguments(SkillArguments):
    """Arguments that a plan has read. Made per skill by :func:`arguments_of`; validates what a caller wrote
    and holds the goal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: ClassVar[GoalPlan]
    goal: dict[str, Any]
    """The goal's fields by name."""
    given: dict[str, Any] = Field(exclude=True)
    """As the caller wrote them; not part of what makes two calls the same."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any) -> Any:
        # Raises ArgumentError, which parse_arguments hands on as it is.
        return {"goal": cls.plan.read(data), "given": dict(data) if isinstance(data, Mapping) else {}}

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JsonSchema:  # noqa: ARG003 - pydantic's signature
        """What a caller may write, which is not what this model holds."""
        return dict(copy_json(cls.plan.schema()))


def arguments_of(name: str, plan: GoalPlan) -> type[GenericArguments]:
    """The arguments model of one skill."""
    words = "".join(part.capitalize() for part in re.split(r"\W|_", name) if part)
    return type(f"{words or 'Generic'}Arguments", (GenericArguments,), {"plan": plan, "__module__": __name__})


class GenericSkill(Skill):
    """One action of any type.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        types: what the action type looks like.
        frames: what a ``frame_id`` in a header may be.
        map_frame: what it is when left out.

    Raises:
        GenericFaults: the entry does not fit the type (or the type is not installed).
    """

    def __init__(
        self,
        name: str,
        section: GenericSection,
        types: GoalSchema,
        *,
        frames: tuple[str, ...] = ("map",),
        map_frame: str = "map",
    ) -> None:
        where: KeyPath = ("skills", name)
        try:
            goal, feedback, result = (
                read(section.type) for read in (types.goal, types.feedback, types.result)
            )
        except LookupError as error:
            raise GenericFaults([((*where, "type"), str(error))]) from error
        planner = GoalPlanner(goal, section, where, frames=frames, map_frame=map_frame)
        plan = planner.plan()
        faults = planner.faults + reading_faults(section, feedback, result, where)
        if faults:
            raise GenericFaults(faults)
        for warning in planner.warnings:
            logger.warning("skills.%s: %s", name, warning)
        self.name = name
        self.action_name = section.action
        self.action_type = section.type
        self.title = section.title or name.replace("_", " ").strip().capitalize()
        self.arguments = arguments_of(name, plan)
        self.resources = frozenset(section.resources)
        self.trigger_types = _trigger_types(section)
        self.description = _describe(section, goal)
        self.effects = ("the action itself reports success; nothing here measures it",)
        self._section = section
        self._result = result
        self._feedback = feedback
        self._result_reader = ResultReader(section, result)
        self._feedback_json = self._converter(feedback)
        self._result_json = self._converter(result)
        size = len(json.dumps(plan.schema()))
        if size > LARGE_SCHEMA_CHARS:
            logger.warning(
                "skills.%s: the arguments' schema has %d characters; hide fields that no caller needs "
                "(others: hidden shows only those that are named)",
                name,
                size,
            )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, GenericArguments) or not isinstance(arguments, self.arguments):
            raise TypeError(f"{self.name} takes its own arguments, got {type(arguments).__name__}")
        given = json.dumps(to_jsonable(arguments.given), ensure_ascii=False)
        said = clean_text(given, 160) if arguments.given else ""
        return GoalSpec(
            fields=copy_json(arguments.goal),
            summary=f"{self.title}: {said}" if said else self.title,
            est_duration_s=self._section.est_duration_s,
        )

    def result_schema(self) -> JsonSchema:
        return facts_schema(self._result)

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002 - feedback says it all
        return GenericReader(self._section.progress, self._feedback, self._feedback_json)

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        if status not in (GoalStatus.SUCCEEDED, GoalStatus.ABORTED):
            # The results of the others are default-constructed: their fields are no reason.
            return Outcome("failed", failure=unsuccessful(status, self.action_name))
        read = self._result_reader
        code, text = read.code(result), read.text(result)
        told = self._result_json.convert(result)
        if status == GoalStatus.ABORTED:
            if code is not None:
                return Outcome("failed", failure=read.failure(code, text, f"{self.action_name} gave up"))
            detail = text or _worth_telling(told)
            return Outcome("failed", failure=unsuccessful(status, self.action_name, detail))
        unmet = read.unmet(result)
        if unmet:
            claim = f"{self.action_name} reported success, but {unmet}"
            if code is not None:
                return Outcome("failed", failure=read.failure(code, text, claim))
            return Outcome(
                "failed",
                failure=TaskFailure(
                    error_code=f"{read.prefix}_NOT_SUCCESSFUL",
                    message=f"{claim}. {text}".strip() if text else f"{claim}.",
                    suggestions=["get_task", "ask_person"],
                ),
            )
        if code is not None:
            told = {"note": f"It succeeded, and its result still says {read.words(code, text)}.", **told}
        return Outcome("succeeded", result=told)

    def _converter(self, schema: JsonSchema) -> MessageConverter:
        return MessageConverter(
            schema, max_items=self._section.max_list_items, max_bytes=MAX_BYTES, max_chars=MAX_CHARS
        )


def _trigger_types(section: GenericSection) -> frozenset[str]:
    progress = section.progress
    found = {
        "eta_below": progress.eta_s,
        "distance_below": progress.distance_m,
        "progress_above": progress.percent,
        "zone_entered": progress.pose,
        # Standing still can only be seen where something moves.
        "stalled": progress.distance_m or progress.percent or progress.pose,
    }
    return frozenset(name for name, source in found.items() if source is not None)


def _describe(section: GenericSection, goal: JsonSchema) -> str:
    own = section.description or goal.get("description") or f"Run the ROS 2 action {section.action}"
    second = {
        "replace": "A second call while one runs takes over and ends the first one.",
        "refuse": "A second call while one runs is refused.",
        "queue": "A second call while one runs waits until the first has ended.",
    }[section.policy]
    return (
        f"{own.strip().rstrip('.')}. Answers at once with a task; follow it with get_task and end it with "
        f"cancel_task. {second} With an idempotency_key a repeated call starts nothing new."
    )


def _worth_telling(told: dict[str, Any]) -> str:
    """The result in one line, unless it is as empty as a default-constructed one."""
    if not any(told.values()):
        return ""
    return f"Its result: {clean_text(json.dumps(told, ensure_ascii=False), 200)}"
