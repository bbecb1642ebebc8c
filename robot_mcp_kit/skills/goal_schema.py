"""What an installed action type looks like, as data: the port through which generic skills see interfaces.

A type is described by JSON Schema with a few keys of our own, so that a skill can be built from any
interface without importing it:

``x-ros-type``  ``float32``, ``string``, ``uint8[]``, ``geometry_msgs/msg/Pose``
``x-unit``  unit found in the interface's comments, ``m/s``
``x-constants``  named values that the interface defines for this field
``x-explicit-default``  ``true``: ``default`` is written in the definition, and not just an empty value
"""

from __future__ import annotations

import abc
from typing import Any

from robot_mcp_kit.skills.text import did_you_mean

JsonSchema = dict[str, Any]
Segments = tuple[str, ...]
"""A field's path, cut at the dots; ``[]`` (each element of a list) is a segment of its own."""

ROS_TYPE = "x-ros-type"
UNIT = "x-unit"
CONSTANTS = "x-constants"
EXPLICIT_DEFAULT = "x-explicit-default"
EACH = "[]"

DURATION = "builtin_interfaces/msg/Duration"
TIME = "builtin_interfaces/msg/Time"
HEADER = "std_msgs/msg/Header"
QUATERNION = "geometry_msgs/msg/Quaternion"


class GoalSchema(abc.ABC):
    """Schemas of the goal, feedback and result of action types. The dictionaries belong to the port: read
    only.

    Every method raises LookupError when the type is not installed, naming what is missing.
    """

    @abc.abstractmethod
    def goal(self, action_type: str) -> JsonSchema:
        """The goal of ``pkg/action/Name``."""

    @abc.abstractmethod
    def feedback(self, action_type: str) -> JsonSchema:
        """Its feedback."""

    @abc.abstractmethod
    def result(self, action_type: str) -> JsonSchema:
        """Its result."""


class NoSuchField(LookupError):
    """A path that leads nowhere; the text says what there is instead."""


def segments_of(path: str) -> Segments:
    """``poses[].header.frame_id`` → ``("poses", "[]", "header", "frame_id")``."""
    parts: list[str] = []
    for word in path.split("."):
        name = word.removesuffix(EACH)
        parts.append(name)
        if name != word:
            parts.append(EACH)
    return tuple(parts)


def written(path: Segments) -> str:
    """The opposite of :func:`segments_of`."""
    text = ""
    for part in path:
        text += part if part == EACH or not text else f".{part}"
    return text


def field_at(schema: JsonSchema, path: Segments) -> JsonSchema:
    """The schema of one field.

    Raises:
        NoSuchField: says where the path ends and what is there.
    """
    here = schema
    for index, part in enumerate(path):
        before = written(path[:index]) or "it"
        if here["type"] == "array":
            if part != EACH:
                raise NoSuchField(f"{before} is a list; write {before}[].{part} for each of its elements")
            here = here["items"]
            continue
        if part == EACH:
            raise NoSuchField(f"{before} is {here[ROS_TYPE]}, not a list")
        properties = here.get("properties")
        if properties is None:
            raise NoSuchField(f"{before} is {here[ROS_TYPE]} and has no fields")
        if part not in properties:
            known = ", ".join(properties) or "no fields at all"
            inside = f"{before} ({here[ROS_TYPE]})" if index else str(here[ROS_TYPE])
            raise NoSuchField(
                f'{inside} has no field "{part}".{did_you_mean(part, properties)} It has: {known}'
            )
        here = properties[part]
    return here
