"""The arguments of a generic skill, and how they become a goal: objects whose fields may be renamed, moved
up, fixed or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.jsonsafe import copy_json
from robot_mcp_kit.skills.generic.kinds import Kind, object_of
from robot_mcp_kit.skills.geometry import Quaternion
from robot_mcp_kit.skills.goal_schema import EACH, QUATERNION, ROS_TYPE, JsonSchema, Segments
from robot_mcp_kit.skills.text import did_you_mean

MISSING: Any = object()
NORM_TOLERANCE = 0.01
"""How far from 1 the length of a quaternion may be; it is then normalised."""
_AXES = ("x", "y", "z", "w")


@dataclass(slots=True)
class Argument:
    """One thing a caller may write."""

    name: str
    path: Segments
    """Where its value goes, below the object that it is written in."""
    kind: Kind
    required: bool
    default: Any = MISSING
    """The goal's value when it is left out; ``MISSING``: the message's own default."""
    about: JsonSchema = field(default_factory=dict)
    """Description and default, for its schema."""
    default_fits: bool = True
    """Whether the message's own default is a value a caller may give."""
    at: Segments = ()
    """The field in the goal, for faults."""

    def schema(self) -> JsonSchema:
        return self.kind.schema() | self.about


@dataclass(slots=True)
class Fields(Kind):
    """A message, or the goal itself."""

    ros_type: str
    arguments: dict[str, Argument] = field(default_factory=dict)
    fixed: list[tuple[Segments, Any]] = field(default_factory=list)
    """Always sent; paths below this object."""
    not_yours: set[str] = field(default_factory=set)
    """Fields that the configuration decides."""

    def read(self, value: Any, where: str) -> dict[str, Any]:
        given = object_of(value, where or "arguments")
        self._refuse_unknown(given, where)
        out: dict[str, Any] = {}
        for path, fixed in self.fixed:
            _put(out, path, copy_json(fixed))
        for argument in self.arguments.values():
            name = f"{where}.{argument.name}" if where else argument.name
            written = given.get(argument.name)
            if written is not None:  # null is how models say "left out"
                _put(out, argument.path, argument.kind.read(written, name))
                continue
            if argument.required:
                raise ArgumentError(name, "must be given")
            default = _left_out(argument)
            if default is not MISSING:
                _put(out, argument.path, default)
        return out

    def defaults(self) -> dict[str, Any]:
        """What is sent when the whole object is left out."""
        out: dict[str, Any] = {}
        for argument in self.arguments.values():
            default = _left_out(argument)
            if default is not MISSING:
                _put(out, argument.path, default)
        return out

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {
            "type": "object",
            "properties": {name: argument.schema() for name, argument in self.arguments.items()},
            "additionalProperties": False,
        }
        required = [name for name, argument in self.arguments.items() if argument.required]
        return schema | ({"required": required} if required else {})

    def _refuse_unknown(self, given: Mapping[str, Any], where: str) -> None:
        for name in given:
            if name in self.arguments:
                continue
            field_name = f"{where}.{name}" if where else str(name)
            if name in self.not_yours:
                raise ArgumentError(field_name, "is decided by this robot's configuration; leave it out")
            known = list(self.arguments)
            hint = did_you_mean(str(name), known)
            raise ArgumentError(field_name, f"there is no such argument.{hint}", allowed=known)


def _left_out(argument: Argument) -> Any:
    if argument.default is not MISSING:
        return copy_json(argument.default)
    if isinstance(argument.kind, Fields):
        return argument.kind.defaults() or MISSING
    return MISSING


def _put(goal: dict[str, Any], path: Segments, value: Any) -> None:
    """Set a value below nested dictionaries; objects are put together, not replaced."""
    here = goal
    for part in path[:-1]:
        here = here.setdefault(part, {})
    last = path[-1]
    if isinstance(value, dict) and isinstance(here.get(last), dict):
        for name, item in value.items():
            _put(here[last], (name,), item)
    else:
        here[last] = value


@dataclass(frozen=True, slots=True)
class GoalPlan:
    """From a caller's arguments to the goal."""

    fields: Fields
    goal_schema: JsonSchema
    map_frame: str
    frames: tuple[Segments, ...] = ()
    """``frame_id`` fields that are the map frame wherever their owner is given and they are not."""

    def read(self, arguments: Any) -> dict[str, Any]:
        """The goal's fields by name.

        Raises:
            ArgumentError: names the argument as the caller knows it.
        """
        goal = self.fields.read(arguments, "")
        for path in self.frames:
            for owner in _objects_at(goal, path[:-2]):
                owner.setdefault(path[-2], {}).setdefault(path[-1], self.map_frame)
        _normalise_rotations(goal, self.goal_schema, "")
        return goal

    def schema(self) -> JsonSchema:
        """The JSON Schema of the arguments."""
        return self.fields.schema()


def _objects_at(value: Any, path: Segments) -> Iterator[dict[str, Any]]:
    if not path:
        if isinstance(value, dict):
            yield value
    elif path[0] == EACH:
        for item in value if isinstance(value, list) else ():
            yield from _objects_at(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _objects_at(value[path[0]], path[1:])


def _normalise_rotations(value: Any, schema: JsonSchema, where: str) -> None:
    """Every rotation in the goal has length 1; one far from it was not meant as a rotation (case A1)."""
    if isinstance(value, list):
        if schema["items"]["type"] == "object":
            for index, item in enumerate(value):
                _normalise_rotations(item, schema["items"], f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        return
    if schema[ROS_TYPE] == QUATERNION and value:
        q = Quaternion(*(float(value.get(axis, 1.0 if axis == "w" else 0.0)) for axis in _AXES))
        if q.norm < 1e-6:
            raise ArgumentError(where, "all zero is no rotation; leave it out for none, or write w: 1")
        if abs(q.norm - 1.0) > NORM_TOLERANCE:
            raise ArgumentError(where, f"the length of the quaternion is {q.norm:.3f}, not 1")
        value.update(zip(_AXES, (part / q.norm for part in q), strict=True))
        return
    for name, item in value.items():
        _normalise_rotations(item, schema["properties"][name], f"{where}.{name}" if where else name)
