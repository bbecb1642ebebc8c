"""From the schema of a goal and the settings in the YAML to the arguments that a caller sees.

Whatever does not fit is collected as a fault with its key, so that the start can tell all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.config.generic import FieldSettings, GenericSection
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.generic.kinds import (
    Boolean,
    Choice,
    Integer,
    Kind,
    ListOf,
    Number,
    Seconds,
    Text,
    Yaw,
    plain_kind,
)
from robot_mcp_kit.skills.generic.shape import MISSING, Argument, Fields, GoalPlan
from robot_mcp_kit.skills.goal_schema import (
    CONSTANTS,
    DURATION,
    EACH,
    EXPLICIT_DEFAULT,
    HEADER,
    QUATERNION,
    ROS_TYPE,
    TIME,
    UNIT,
    JsonSchema,
    NoSuchField,
    Segments,
    field_at,
    segments_of,
    written,
)
from robot_mcp_kit.skills.text import did_you_mean

Fault = tuple[KeyPath, str]

RESERVED = frozenset({"triggers", "idempotency_key"})
"""Arguments that every skill's tool has."""

_ALWAYS = {"as", "required", "description", "hidden"}
_FITTING = {
    "number": _ALWAYS | {"default", "min", "max", "choices", "unit"},
    "integer": _ALWAYS | {"default", "min", "max", "choices", "unit"},
    "boolean": _ALWAYS | {"default"},
    "string": _ALWAYS | {"default", "choices", "max_length"},
    "array": _ALWAYS | {"default", "min_items", "max_items", "unit"},
    "object": _ALWAYS,
    "form": _ALWAYS | {"default", "min", "max", "unit", "form"},
}
_FORMS = {"seconds": DURATION, "yaw": QUATERNION}
_NONE = FieldSettings()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the walk a field is met."""

    at: Segments
    """From the goal."""
    below: Segments
    """From the level: the goal, or the element of a list."""
    level: Fields
    here: Fields
    """The object that has the field."""
    parent_type: str
    hidden: bool
    every_field: bool
    """Also what has settings is taken as it is, and nothing is required (for fixed values)."""


class GoalPlanner:
    """Plans one skill's arguments.

    Args:
        schema: the goal's.
        section: the YAML's entry.
        where: its key path, for faults.
        frames: what a ``frame_id`` in a header may be.
        map_frame: what it is when left out.
    """

    def __init__(
        self,
        schema: JsonSchema,
        section: GenericSection,
        where: KeyPath,
        *,
        frames: Iterable[str] = ("map",),
        map_frame: str = "map",
    ) -> None:
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self._schema = schema
        self._section = section
        self._where = where
        self._frame_choices = {frame: frame for frame in frames}
        self._map_frame = map_frame
        self._settings: dict[Segments, FieldSettings] = {}
        self._keys: dict[Segments, str] = {}
        self._frames: list[Segments] = []
        self._headers: list[Segments] = []
        self._sent: set[Segments] = set()

    def plan(self) -> GoalPlan:
        """The plan; only to be used when :attr:`faults` stayed empty."""
        for key, settings in self._section.fields.items():
            self._take(key, settings)
        root = Fields(self._schema[ROS_TYPE])
        for name, schema in self._schema["properties"].items():
            hidden = self._section.others == "hidden"
            self._field(name, schema, _Place((name,), (name,), root, root, root.ros_type, hidden, False))
        for name in RESERVED & set(root.arguments):
            message = f'every tool has an argument "{name}"; give this one another name: as'
            self._fault(root.arguments[name].at, "", message)
        self._warn_of_empty_frames()
        return GoalPlan(root, self._schema, self._map_frame, tuple(self._frames))

    # -- settings ---------------------------------------------------------------------------------

    def _take(self, key: str, settings: FieldSettings) -> None:
        path = segments_of(key)
        try:
            field_at(self._schema, path)
        except NoSuchField as error:
            path = path[1:] if path[0] == "goal" else ()
            if not path or not self._exists(path):
                self.faults.append(((*self._where, "fields", key), str(error)))
                return
        if path in self._keys:
            message = f'the same field as "{self._keys[path]}"; remove one of them'
            self.faults.append(((*self._where, "fields", key), message))
            return
        self._settings[path], self._keys[path] = settings, key

    def _exists(self, path: Segments) -> bool:
        try:
            field_at(self._schema, path)
        except NoSuchField:
            return False
        return True

    def _fault(self, at: Segments, key: str, message: str) -> None:
        path: KeyPath = (*self._where, "fields")
        if at in self._keys:
            path = (*path, self._keys[at], *([key] if key else []))
        self.faults.append((path, message))

    def _below(self, at: Segments) -> list[Segments]:
        return [path for path in self._settings if len(path) > len(at) and path[: len(at)] == at]

    def _check_fitting(self, at: Segments, settings: FieldSettings, schema: JsonSchema, kind: str) -> None:
        for key in sorted(settings.given - _FITTING[kind] - {"fixed"}):
            fitting = ", ".join(sorted(_FITTING[kind] - {"hidden"}))
            message = f"{key} does not fit {written(at)}, which is {schema[ROS_TYPE]}; what fits: {fitting}"
            if key == "form":
                message = "form is for " + " and ".join(f"{t} ({word})" for word, t in _FORMS.items())
            self._fault(at, key, message)

    # -- the walk ---------------------------------------------------------------------------------

    def _field(self, name: str, schema: JsonSchema, place: _Place) -> None:
        at = place.at
        settings = _NONE if place.every_field else self._settings.get(at, _NONE)
        below = [] if place.every_field else self._below(at)
        if schema[ROS_TYPE] == HEADER:
            self._headers.append(at)
        if "fixed" in settings.given:
            self._fix(name, schema, settings, place, below)
            return
        hidden = settings.hidden if at in self._settings else place.hidden
        if hidden and not below:
            place.here.not_yours.add(name)
            return
        argument = self._argument(name, schema, settings, place, hidden)
        if argument is None:
            if not any(self._settings[path].rename for path in below):
                place.here.not_yours.add(name)
            return
        target = place.here
        if settings.rename is not None:
            target, argument.path = place.level, place.below
        argument.at = at
        other = target.arguments.get(argument.name)
        if other is not None:
            renamed = at if settings.rename is not None else other.at
            message = f'there are two arguments called "{argument.name}"; give one another name'
            self._fault(renamed, "as", message)
            return
        target.arguments[argument.name] = argument
        self._sent.add(at)

    def _argument(
        self, name: str, schema: JsonSchema, settings: FieldSettings, place: _Place, hidden: bool
    ) -> Argument | None:
        """``None`` when nothing of the field is left to choose."""
        kind: Kind | None
        if schema["type"] == "object" and settings.form is None:
            return self._message(name, schema, settings, place, hidden)
        if schema["type"] == "array":
            if hidden:
                for path in self._below(place.at):
                    self._fault(path, "", f"has no effect: {written(place.at)} is hidden as a whole")
                return None
            self._check_fitting(place.at, settings, schema, "array")
            kind = self._list(schema, settings, place)
        else:
            for path in self._below(place.at):
                self._fault(path, "", f"has no effect: {written(place.at)} is shown as {settings.form}")
            kind = self._scalar(schema, settings, place.at, place.parent_type, name)
        if kind is None:
            return None
        return self._with_default(name, schema, settings, place, kind)

    def _message(
        self, name: str, schema: JsonSchema, settings: FieldSettings, place: _Place, hidden: bool
    ) -> Argument | None:
        self._check_fitting(place.at, settings, schema, "object")
        inside = Fields(schema[ROS_TYPE])
        for part, part_schema in schema["properties"].items():
            at, below = (*place.at, part), (*place.below, part)
            inner = _Place(at, below, place.level, inside, inside.ros_type, hidden, place.every_field)
            self._field(part, part_schema, inner)
        if not inside.arguments:
            return None
        needed = [one for one in inside.arguments.values() if one.required]
        required = bool(needed) if settings.required is None else settings.required
        if settings.required is False:
            for one in needed:
                if not one.default_fits:
                    message = f"left out, {one.name} would be sent as a value that no caller may give"
                    self._fault(place.at, "required", message)
        fits = all(one.default_fits for one in inside.arguments.values())
        about = self._about(schema, settings)
        return Argument(settings.rename or name, (name,), inside, required, about=about, default_fits=fits)

    def _list(self, schema: JsonSchema, settings: FieldSettings, place: _Place) -> Kind | None:
        items, each = schema["items"], (*place.at, EACH)
        item: Kind | None
        if items["type"] == "object":
            if each in self._settings and not place.every_field:
                self._fault(each, "", f"write {written(each)}.name for a field of the elements")
            item = Fields(items[ROS_TYPE])
            for part, part_schema in items["properties"].items():
                inner = _Place((*each, part), (part,), item, item, item.ros_type, False, place.every_field)
                self._field(part, part_schema, inner)
        else:
            element = _NONE if place.every_field else self._settings.get(each, _NONE)
            for key in sorted(
                element.given & {"fixed", "hidden", "as", "required", "default", "description"}
            ):
                self._fault(each, key, f"{key} is for the list {written(place.at)}, not for its elements")
            item = self._scalar(items, element, each, "", "")
        low, high = schema.get("minItems"), schema.get("maxItems")
        for key in ("min_items", "max_items"):
            wanted = getattr(settings, key)
            if wanted is None:
                continue
            if (low is not None and wanted < low) or (high is not None and wanted > high):
                fit = f"exactly {low}" if low == high else f"at most {high}"
                self._fault(place.at, key, f"{schema[ROS_TYPE]} holds {fit} entries")
            elif key == "min_items":
                low = wanted
            else:
                high = wanted
        return None if item is None else ListOf(item, schema[ROS_TYPE], low, high)

    def _scalar(
        self, schema: JsonSchema, settings: FieldSettings, at: Segments, parent_type: str, name: str
    ) -> Kind | None:
        if settings.form is not None:
            return self._formed(schema, settings, at)
        self._check_fitting(at, settings, schema, schema["type"])
        plain = plain_kind(schema)
        if settings.choices is not None and plain is not None:
            return self._choice(schema, settings, at, plain)
        is_frame = parent_type == HEADER and name == "frame_id" and at not in self._frames
        if is_frame and not settings.given & {"default", "required", "max_length"}:
            self._frames.append(at)
            return Choice(self._frame_choices)
        low, high, unit = settings.min, settings.max, settings.unit or schema.get(UNIT)
        match plain:
            case Number(ros_type=ros_type):
                return Number(ros_type, low, high, unit)
            case Integer(ros_type=ros_type, least=least, most=most):
                self._check_integer_ends(at, settings, ros_type, least, most)
                return Integer(ros_type, least, most, low, high, unit)
            case Text(max_length=bound):
                if settings.max_length is not None and bound is not None and settings.max_length > bound:
                    self._fault(at, "max_length", f"only {bound} characters fit into {schema[ROS_TYPE]}")
                return Text(bound if settings.max_length is None else settings.max_length)
        return plain if isinstance(plain, Boolean) else None

    def _check_integer_ends(
        self, at: Segments, settings: FieldSettings, ros_type: str, least: int, most: int
    ) -> None:
        for key in ("min", "max"):
            end = getattr(settings, key)
            if end is not None and not least <= end <= most:
                self._fault(at, key, f"{end:g} is outside what {ros_type} holds ({least} .. {most})")
        low, high = settings.min, settings.max
        if low is not None and high is not None and math.ceil(low) > math.floor(high):
            self._fault(at, "min", f"there is no whole number in {low:g} .. {high:g}")

    def _formed(self, schema: JsonSchema, settings: FieldSettings, at: Segments) -> Kind | None:
        wanted = _FORMS[str(settings.form)]
        if schema[ROS_TYPE] != wanted:
            message = f"{settings.form} is for {wanted}; {written(at)} is {schema[ROS_TYPE]}"
            self._fault(at, "form", message)
            return None
        self._check_fitting(at, settings, schema, "form")
        return (Seconds if settings.form == "seconds" else Yaw)(settings.min, settings.max)

    def _choice(self, schema: JsonSchema, settings: FieldSettings, at: Segments, plain: Kind) -> Kind | None:
        choices = settings.choices
        named = choices if isinstance(choices, dict) else {str(value): value for value in choices or ()}
        if len({word.casefold() for word in named}) < len(choices or ()):
            self._fault(at, "choices", "two of them read the same")
        values: dict[str, Any] = {}
        for word, value in named.items():
            try:
                values[word] = plain.read(self._constant(schema, value), word)
            except ArgumentError as error:
                self._fault(at, "choices", str(error))
        raw = list(values.values()) == list(choices or ()) and isinstance(choices, list)
        return Choice(values, tuple(values.values()) if raw else None)

    def _constant(self, schema: JsonSchema, value: Any) -> Any:
        """The value of a constant that the interface names, or the value itself."""
        if schema["type"] != "integer" or not isinstance(value, str):
            return value
        constants = schema.get(CONSTANTS, {})
        if value not in constants:
            known = f" It has: {', '.join(constants)}" if constants else ""
            hint = did_you_mean(value, constants)
            raise ArgumentError(value, f"is no number, and no constant of the interface.{hint}{known}")
        return constants[value]

    # -- values -----------------------------------------------------------------------------------

    def _fix(
        self, name: str, schema: JsonSchema, settings: FieldSettings, place: _Place, below: list[Segments]
    ) -> None:
        for path in below:
            self._fault(path, "", f"has no effect: {written(place.at)} is fixed as a whole")
        place.here.not_yours.add(name)
        kind = self._whole(name, schema, place)
        if schema[ROS_TYPE] == DURATION and not isinstance(settings.fixed, dict):
            kind = Seconds()
        try:
            value = kind.read(self._constant(schema, settings.fixed), written(place.at))
        except ArgumentError as error:
            self._fault(place.at, "fixed" if len(settings.given) else "", str(error))
            return
        place.level.fixed.append((place.below, value))
        self._sent.add(place.at)

    def _whole(self, name: str, schema: JsonSchema, place: _Place) -> Kind:
        """The kind of a field as its type has it, all of it."""
        box = Fields("")
        headers, frames, sent = list(self._headers), list(self._frames), set(self._sent)
        inner = _Place(place.at, place.below, box, box, "", hidden=False, every_field=True)
        self._field(name, schema, inner)
        self._headers, self._frames, self._sent = headers, frames, sent
        return box.arguments[name].kind

    def _with_default(
        self, name: str, schema: JsonSchema, settings: FieldSettings, place: _Place, kind: Kind
    ) -> Argument:
        about = self._about(schema, settings)
        argument = Argument(settings.rename or name, (name,), kind, False, about=about)
        if place.at in self._frames and not place.every_field:
            about["default"] = self._map_frame
            return argument
        if "default" in settings.given:
            try:
                raw = (
                    settings.default if isinstance(kind, Choice) else self._constant(schema, settings.default)
                )
                argument.default = kind.read(raw, written(place.at))
                about["default"] = raw
            except ArgumentError as error:
                self._fault(place.at, "default", str(error))
            return argument
        explicit = bool(schema.get(EXPLICIT_DEFAULT))
        own = _own_default(schema)
        if own is None and explicit:  # NaN, which stands for "none" and is no value to write
            return argument
        shown, complaint = _as_argument(kind, own)
        argument.default_fits = not complaint
        if place.every_field:
            return argument
        is_number = _is_number(schema) or settings.form is not None
        needed = is_number and not explicit and not _means_nothing_at_zero(name, place.parent_type)
        argument.required = (needed or bool(complaint)) if settings.required is None else settings.required
        if settings.required is False and complaint:
            message = f"left out, it would be sent as {own!r}, and {complaint}; write a default"
            self._fault(place.at, "required", message)
        if not argument.required and shown is not MISSING:
            about["default"] = shown
        return argument

    def _about(self, schema: JsonSchema, settings: FieldSettings) -> JsonSchema:
        own = schema.get("description", "") if settings.description is None else settings.description
        text = own.strip()
        parts = [text if text[-1] in ".!?" else f"{text}."] if text else []
        unit = settings.unit or schema.get(UNIT)
        if settings.form is not None:
            unit = settings.unit or {"seconds": "s", "yaw": "rad"}[settings.form]
            parts = parts if settings.description is not None else []
        if unit:
            parts.append(f"Unit: {unit}.")
        if CONSTANTS in schema and settings.choices is None:
            known = ", ".join(f"{name} = {value}" for name, value in schema[CONSTANTS].items())
            parts.append(f"Values: {known}.")
        return {"description": " ".join(parts)} if parts else {}

    def _warn_of_empty_frames(self) -> None:
        for header in self._headers:
            frame, owner = (*header, "frame_id"), header[:-1]
            if frame in self._sent or frame in self._frames or self._settings.get(header, _NONE).fixed:
                continue
            beside = (path for path in self._sent if path[: len(owner)] == owner and len(path) > len(owner))
            if any(path[: len(header)] != header for path in beside):
                self.warnings.append(
                    f"{written(frame)} is hidden and so sent empty, which most servers refuse; "
                    f"fix it, for example {written(frame)}: {self._map_frame}"
                )


def _is_number(schema: JsonSchema) -> bool:
    return schema["type"] in ("number", "integer") or schema[ROS_TYPE] == DURATION


def _means_nothing_at_zero(name: str, parent_type: str) -> bool:
    """A zero stamp is "now" by convention, and whole seconds need no nanoseconds."""
    return parent_type == TIME or (parent_type == DURATION and name == "nanosec")


def _own_default(schema: JsonSchema) -> Any:
    if schema["type"] == "object":
        return {part: _own_default(inner) for part, inner in schema["properties"].items()}
    return schema.get("default")


def _as_argument(kind: Kind, own: Any) -> tuple[Any, str]:
    """The message's own default as a caller would write it, and what is wrong with it as an argument."""
    match kind:
        case Choice(values=values, raw=raw):
            words = [word for word, value in values.items() if value == own]
            if not words:
                return MISSING, "that is none of the choices"
            return (own if raw is not None else words[0]), ""
        case Seconds():
            own = own["sec"] + own["nanosec"] * 1e-9
        case Yaw():
            own = 0.0
        case ListOf(item=Fields()) if own:
            return own, ""
    try:
        kind.read(own, "it")
    except ArgumentError as error:
        return own, str(error).removeprefix("it: ")
    return own, ""
