"""The output schemas of the tools that begin and await motions: every answer they give, with its own facts.

A schema describes the answer about a motion and, as the other form, a refusal: clients that validate flagged
results too must not stumble over "nothing moved" (L6).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.server.answers import MotionAnswer
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.results import Facts, PoseFacts
from robot_mcp_kit.skills.world import WorldSnapshot

JsonSchema = dict[str, Any]


class MotionProgress(Facts):
    """The last progress of a motion; what a skill does not know it leaves out or sends as null."""

    phase: str | None = Field(None, description="What it is doing, in a word or two.")
    goal: str | None = Field(None, description="The goal in words.")
    percent: float | None = Field(None, ge=0, le=100)
    eta_s: float | None = Field(None, description="Time to go; null: not known, never guessed.")
    distance_m: float | None = Field(None, description="Way to go.")
    elapsed_s: float | None = None
    pose: PoseFacts | None = Field(None, description="Where the robot is.")
    stop_confirmed: bool | None = Field(
        None, description="After a cancel: whether the action server said that the motion has ended."
    )
    note: str | None = None
    moved: bool | None = Field(
        None,
        description="Of an ended routine: whether a step was begun, so something may have moved.",
    )
    world: WorldSnapshot | None = Field(
        None, description="The robot and its objects as last measured when the motion ended."
    )


class Refusal(BaseModel):
    """Why a call was refused: nothing moved."""

    model_config = ConfigDict(extra="allow")

    error_code: str
    message: str
    field: str | None = Field(None, description="The argument that is wrong.")
    allowed: list[Any] | None = Field(None, description="What it may be.")
    recoverable: bool | None = None
    suggestions: list[str] | None = None


def motion_schema(skill: Skill) -> JsonSchema:
    """What the tool of a skill answers."""
    return _answer(skill.result_schema(), f"Facts of {skill.name}; null until it has succeeded.")


def await_schema() -> JsonSchema:
    """What ``await_task`` answers, whichever tool began the motion."""
    any_facts = {"type": "object", "additionalProperties": True}
    return _answer(any_facts, "As in the outputSchema of the tool that began the motion.")


def _answer(facts: JsonSchema, words: str) -> JsonSchema:
    schema = MotionAnswer.model_json_schema(mode="serialization")
    required = schema.pop("required")
    shared: JsonSchema = schema.pop("$defs", {})
    properties = schema["properties"]
    properties["result"] = {
        "anyOf": [_hoisted(facts, shared), {"type": "null"}],
        "description": words,
    }
    progress = _hoisted(MotionProgress.model_json_schema(), shared)
    properties["progress"] = {
        "anyOf": [progress, {"type": "null"}],
        "description": "The last progress of the motion.",
    }
    properties["error"] = _hoisted(Refusal.model_json_schema(), shared)
    return {
        **schema,
        "anyOf": [{"required": required}, {"required": ["error"]}],
        "$defs": shared,
    }


def _hoisted(schema: JsonSchema, shared: JsonSchema) -> JsonSchema:
    """The schema without its own definitions, which go to the shared ones."""
    own = dict(schema)
    for name, definition in own.pop("$defs", {}).items():
        if shared.setdefault(name, definition) != definition:
            raise ValueError(f"two models of the name {name} are told of in one answer")
    return own
