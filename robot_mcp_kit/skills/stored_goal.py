"""A goal as text and back.

Whoever adopts a running goal after a restart has to read its feedback and result exactly as the one who sent
it (B24). Building it anew from the arguments would not do: limits, places and the robot's position may
have changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from robot_mcp_kit.skills.base import GoalSpec, Pose2D
from robot_mcp_kit.skills.goal_pose import GoalPose

_VERSION = 1
_KIND = "$kind"
_POSE, _GOAL_POSE = "Pose2D", "GoalPose"


def goal_to_json(spec: GoalSpec) -> str:
    """The whole goal as JSON text.

    Raises:
        TypeError: the context holds something that is not plain data, ``Pose2D`` or ``GoalPose``.
    """
    told = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return json.dumps({"version": _VERSION, **_plain(told)}, allow_nan=False, separators=(",", ":"))


def goal_from_json(text: str) -> GoalSpec:
    """The goal that :func:`goal_to_json` wrote.

    Raises:
        ValueError: not such a text, or one of another version.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or data.pop("version", None) != _VERSION:
        raise ValueError("not a stored goal of this version")
    told = {name: _restored(value) for name, value in data.items()}
    told["other_forms"] = tuple(told.get("other_forms", ()))
    try:
        return GoalSpec(**told)
    except TypeError as error:
        raise ValueError(f"not a stored goal: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Pose2D):
        return {_KIND: _POSE, **asdict(value)}
    if isinstance(value, GoalPose):
        return {
            _KIND: _GOAL_POSE,
            "pose": _plain(value.pose),
            "place": value.place,
            "heading_chosen": value.heading_chosen,
        }
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _restored(item) for name, item in value.items()}
    kind = inner.pop(_KIND, None)
    if kind == _POSE:
        return Pose2D(**inner)
    return GoalPose(**inner) if kind == _GOAL_POSE else inner
