"""A goal's plan as JSON, for the process that adopts it: words and context, not the message itself.

The fields of the goal are left out on purpose: an adopted goal is never sent again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.skills.base import GoalSpec, Pose2D
from robot_mcp_kit.skills.goal_pose import GoalPose

_TYPES: dict[str, type[Any]] = {"GoalPose": GoalPose, "Pose2D": Pose2D}
_MARK = "$type"


def plan_to_json(spec: GoalSpec) -> dict[str, Any] | None:
    """What :func:`plan_from_json` reads, or ``None`` when the context holds something that JSON cannot.

    Then an adopting process plans anew from the arguments.
    """
    try:
        context = _encode(spec.context)
    except TypeError:
        return None
    return {"summary": spec.summary, "est_duration_s": spec.est_duration_s, "context": context}


def plan_from_json(data: Mapping[str, Any]) -> GoalSpec:
    """The plan again, without the goal's fields.

    Raises:
        ValueError: written by other software.
    """
    try:
        return GoalSpec({}, data["summary"], data["est_duration_s"], _decode(data["context"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"the plan was written by other software: {error!r}") from error


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if isinstance(value, dict) and _MARK not in value and all(isinstance(key, str) for key in value):
        return {key: _encode(item) for key, item in value.items()}
    if _TYPES.get(type(value).__name__) is type(value):
        fields = {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {_MARK: type(value).__name__, **fields}
    raise TypeError(f"no JSON for {type(value).__name__}")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _decode(item) for key, item in value.items() if key != _MARK}
    return _TYPES[value[_MARK]](**fields) if _MARK in value else fields
