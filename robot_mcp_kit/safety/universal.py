"""What every goal must satisfy, whatever its action type and whatever the file says.

These checks read the tree that will be sent. They need no configuration and cannot be switched off: numbers
are finite, rotations are rotations, frames and behavior trees are known ones, and no field asks the robot to
ignore obstacles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from robot_mcp_kit.safety.goal_tree import is_list, real, walk
from robot_mcp_kit.safety.situation import Violation

NORM_TOLERANCE = 0.01
_POSITIONAL = frozenset(
    {
        "pose",
        "point",
        "position",
        "orientation",
        "vector",
        "polygon",
        "constraint_region",
        "transform",
        "twist",
    }
)
"""Beside a header, these mean something only in a frame."""
_ROTATIONS = frozenset({"orientation", "rotation"})
_SWITCHES_OFF = {"disable_collision_checks": "false: the robot checks for collisions"}
_MUST_BE_EMPTY = {
    "allowed_collision_matrix": "no collision may be declared allowed",
    "allowed_contacts": "no contact may be declared allowed",
}


def check_any_goal(
    fields: Mapping[str, Any], frames: frozenset[str], trees: frozenset[str]
) -> Iterator[Violation]:
    """Violations of what holds for every goal.

    Args:
        fields: the goal as it will be sent.
        frames: TF frames that may be named.
        trees: behavior trees that may be named; an empty name is the server's default and always allowed.
    """
    for path, value in walk(fields):
        name = path.rsplit(".", 1)[-1]
        if type(value) is dict or isinstance(value, Mapping):
            yield from _check_message(path, name, value)
        elif _is_not_finite(value):
            yield Violation("finite", path, value, "finite numbers")
        elif name == "behavior_tree":
            if value and value not in trees:
                yield Violation("behavior_trees", path, value, _listed(trees, "the server's default"))
        elif name == "frame_id" or name.endswith("_frame"):
            if value and value not in frames:
                yield Violation("frames", path, value, _listed(frames, "none"))
        elif name in _SWITCHES_OFF and value is not False:
            yield Violation(name, path, value, _SWITCHES_OFF[name])


def _check_message(path: str, name: str, value: Mapping[str, Any]) -> Iterator[Violation]:
    header = value.get("header")
    if isinstance(header, Mapping) and not header.get("frame_id") and _POSITIONAL & value.keys():
        at = f"{path}.header.frame_id" if path else "header.frame_id"
        yield Violation("frames", at, header.get("frame_id", ""), "a frame: where are these metres?")
    if name in _ROTATIONS or (value.keys() == {"x", "y", "z", "w"}):
        parts = [real(value.get(axis, 1.0 if axis == "w" else 0.0)) for axis in "xyzw"]
        if any(part is None for part in parts):
            yield Violation("rotation", path, dict(value), "four numbers")
        else:
            norm = math.sqrt(sum(part**2 for part in parts if part is not None))
            if not abs(norm - 1.0) <= NORM_TOLERANCE:
                yield Violation("rotation", path, norm, "a unit quaternion", "its length")
    for key, allowed in _MUST_BE_EMPTY.items():
        if _has_content(value.get(key)):
            yield Violation(key, f"{path}.{key}" if path else key, "something", allowed)


def _has_content(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_content(inner) for inner in value.values())
    if is_list(value):
        return len(value) > 0
    return bool(value)


def _is_not_finite(value: Any) -> bool:
    if type(value) is float:
        return not math.isfinite(value)
    if isinstance(value, str | bytes | bool | int) or value is None or is_list(value):
        return False
    number = real(value)
    return number is not None and not math.isfinite(number)


def _listed(names: frozenset[str], otherwise: str) -> str:
    return " or ".join(sorted(names)) or otherwise
