"""Feedback and result of any action, read along the field paths of its YAML entry."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from robot_mcp_kit.models import TaskFailure
from robot_mcp_kit.skills.base import FeedbackReader, Sample
from robot_mcp_kit.skills.config.generic import Condition, GenericSection, ProgressSection, Reading
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.generic.plan import Fault
from robot_mcp_kit.skills.goal_schema import (
    CONSTANTS,
    DURATION,
    EACH,
    ROS_TYPE,
    JsonSchema,
    NoSuchField,
    field_at,
    segments_of,
)
from robot_mcp_kit.skills.message_json import MessageConverter
from robot_mcp_kit.skills.messages import dig, duration_s, number, pose_2d
from robot_mcp_kit.skills.text import clean_text, did_you_mean
from robot_mcp_kit.skills.triggers import pose_payload

POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
_NUMERIC = frozenset({"number", "integer"})
_SCALAR = _NUMERIC | {"boolean", "string"}


class GenericReader(FeedbackReader):
    """Feedback of one goal.

    Payload: ``feedback`` with the message's own fields, and of ``percent``, ``eta_s``, ``distance_m``,
    ``pose`` what the entry's ``progress`` names; unknown is ``None``.
    """

    def __init__(self, progress: ProgressSection, schema: JsonSchema, converter: MessageConverter) -> None:
        self._progress = progress
        self._converter = converter
        readings = (progress.percent, progress.eta_s, progress.distance_m)
        self._durations = {
            reading.field
            for reading in readings
            if reading and field_at(schema, segments_of(reading.field))[ROS_TYPE] == DURATION
        }
        self._percent: float | None = None
        self._started_s: float | None = None

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        if self._started_s is None:
            self._started_s = now_s
        progress = self._progress
        payload: dict[str, Any] = {}
        eta_s = distance_m = percent = pose = None
        if progress.eta_s is not None:
            eta_s = _not_negative(self._number(feedback, progress.eta_s))
            payload["eta_s"] = _rounded(eta_s, 1)
        if progress.distance_m is not None:
            distance_m = _not_negative(self._number(feedback, progress.distance_m))
            payload["distance_m"] = _rounded(distance_m, 3)
        if progress.percent is not None:
            percent = self._forward(self._number(feedback, progress.percent))
            payload["percent"] = _rounded(percent, 1)
        if progress.pose is not None:
            pose = pose_2d(feedback, progress.pose)
            payload["pose"] = pose_payload(pose)
        payload["feedback"] = self._converter.convert(feedback)
        return Sample(
            payload=payload,
            time_s=now_s - self._started_s,
            eta_s=eta_s,
            distance_m=distance_m,
            percent=percent,
            pose=pose,
        )

    def _number(self, feedback: Any, reading: Reading) -> float | None:
        read = duration_s if reading.field in self._durations else number
        value = read(feedback, reading.field)
        if value is None or value == reading.unknown:
            return None
        return value * reading.scale + reading.offset

    def _forward(self, percent: float | None) -> float | None:
        """Never back, and 100 only at the end."""
        if percent is not None:
            self._percent = max(self._percent or 0.0, min(99.0, max(0.0, percent)))
        return self._percent


def _not_negative(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


class ResultReader:
    """What a result says about success, as the entry's paths tell.

    Args:
        section: the YAML's entry; checked by :func:`reading_faults`.
        schema: the result's.
    """

    def __init__(self, section: GenericSection, schema: JsonSchema) -> None:
        self._section = section
        self._schema = schema
        self._constants: dict[str, Any] = {}
        if section.error_code_field is not None:
            self._constants = _constants_at(schema, section.error_code_field)
        self._none = self._constants.get(str(section.none_value), section.none_value)
        self.prefix = section.error_prefix or _shouted(section.type.rsplit("/", 1)[-1])

    def code(self, result: Any) -> int | str | None:
        """The native error code, or ``None`` when there is none."""
        path = self._section.error_code_field
        if path is None:
            return None
        value = dig(result, path)
        if isinstance(value, bytes) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            real = number(result, path) if not isinstance(value, int) else value
            if real is None:
                return None
            value = int(real)
        return None if value == self._none else value

    def text(self, result: Any) -> str:
        """The server's own words."""
        path = self._section.error_text_field
        return "" if path is None else clean_text(dig(result, path))

    def unmet(self, result: Any) -> str:
        """What of ``success_when`` does not hold, in words; empty when all of it does."""
        for path, condition in self._section.success_when.items():
            value = dig(result, path)
            if not _holds(condition, value, _constants_at(self._schema, path)):
                return f"{path} is {clean_text(_word(value), 60)} and not {condition}"
        return ""

    def words(self, code: int | str, text: str) -> str:
        """``error code -5 (GOAL_TOLERANCE_VIOLATED): too far``."""
        name = self._name(code)
        named = f" ({name})" if name else ""
        return f"error code {clean_text(str(code), 60)}{named}" + (f": {text}" if text else "")

    def failure(self, code: int | str, text: str, claim: str) -> TaskFailure:
        """The failure that carries a native code."""
        name = self._name(code) or f"ERROR_{code}".replace("-", "MINUS_")
        name = re.sub(r"[^A-Z0-9]+", "_", str(name).upper()).strip("_")[:60] or "ERROR"
        return TaskFailure(
            error_code=f"{self.prefix}_{name}",
            message=f"{claim}: {self.words(code, text)}.",
            suggestions=["get_task", "ask_person"],
        )

    def _name(self, code: int | str) -> str:
        return next((name for name, value in self._constants.items() if value == code), "")


def reading_faults(
    section: GenericSection, feedback: JsonSchema, result: JsonSchema, where: KeyPath
) -> list[Fault]:
    """What in ``progress``, ``success_when`` and the error fields does not fit the action type."""
    return [
        *_progress_faults(section.progress, feedback, (*where, "progress")),
        *_result_faults(section, result, where),
    ]


def _progress_faults(progress: ProgressSection, feedback: JsonSchema, where: KeyPath) -> Iterator[Fault]:
    for key in ("percent", "eta_s", "distance_m"):
        reading: Reading | None = getattr(progress, key)
        if reading is None:
            continue
        schema, fault = _found(feedback, reading.field, "feedback")
        if not fault and schema["type"] not in _NUMERIC and schema[ROS_TYPE] != DURATION:
            fault = f"{reading.field} is {schema[ROS_TYPE]}; a number or a Duration is needed"
        if fault:
            yield (*where, key), fault
    if progress.pose is not None:
        schema, fault = _found(feedback, progress.pose, "feedback")
        if not fault and schema[ROS_TYPE] != POSE_STAMPED:
            fault = f"{progress.pose} is {schema[ROS_TYPE]}; a {POSE_STAMPED} is needed"
        if fault:
            yield (*where, "pose"), fault


def _result_faults(section: GenericSection, result: JsonSchema, where: KeyPath) -> Iterator[Fault]:
    for path, condition in section.success_when.items():
        schema, fault = _found(result, path, "result")
        if not fault:
            fault = _condition_fault(condition, schema, path)
        if fault:
            yield (*where, "success_when", path), fault
    for key, kinds, word in (
        ("error_code_field", {"integer", "string"}, "a whole number or text"),
        ("error_text_field", {"string"}, "text"),
    ):
        path = getattr(section, key)
        if path is None:
            continue
        schema, fault = _found(result, path, "result")
        if not fault and schema["type"] not in kinds:
            fault = f"{path} is {schema[ROS_TYPE]}; {word} is needed"
        if not fault and key == "error_code_field":
            none_fault = _value_fault(section.none_value, schema, path)
            if none_fault and "none_value" in section.model_fields_set:
                yield (*where, "none_value"), none_fault
            elif none_fault:
                fault = f"{path} is {schema[ROS_TYPE]}; none_value must say which text means no error"
        if fault:
            yield (*where, key), fault


def _found(schema: JsonSchema, path: str, part: str) -> tuple[JsonSchema, str]:
    """The field and an empty text, or what is wrong with the path."""
    segments = segments_of(path)
    if EACH in segments:
        return {}, f"{path}: a list has no single value"
    try:
        return field_at(schema, segments), ""
    except NoSuchField as error:
        return {}, f"in the {part}, {error}"


def _condition_fault(condition: Condition, schema: JsonSchema, path: str) -> str:
    if schema["type"] not in _SCALAR:
        return f"{path} is {schema[ROS_TYPE]}; a single value is needed"
    if condition.any_of is None:
        needs_number = schema["type"] not in _NUMERIC
        return f"min and max are for numbers; {path} is {schema[ROS_TYPE]}" if needs_number else ""
    return next(filter(None, (_value_fault(value, schema, path) for value in condition.any_of)), "")


def _value_fault(value: Any, schema: JsonSchema, path: str) -> str:
    """What is wrong with a value that a result's field is compared with."""
    wanted = schema["type"]
    if wanted == "integer" and isinstance(value, str):
        constants = schema.get(CONSTANTS, {})
        if value in constants:
            return ""
        known = f" It has: {', '.join(constants)}" if constants else ""
        return f"{value} is no constant of the interface.{did_you_mean(value, constants)}{known}"
    fits = {
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
    }[wanted]
    return "" if fits else f"{path} is {schema[ROS_TYPE]} and is never {_word(value)}"


def _constants_at(schema: JsonSchema, path: str) -> dict[str, Any]:
    try:
        return dict(field_at(schema, segments_of(path)).get(CONSTANTS, {}))
    except NoSuchField:
        return {}


def _holds(condition: Condition, value: Any, constants: dict[str, Any]) -> bool:
    if isinstance(value, bytes) and len(value) == 1:
        value = value[0]
    if condition.any_of is not None:
        wanted = [constants.get(one, one) if isinstance(one, str) else one for one in condition.any_of]
        return any(_same(value, one) for one in wanted)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return (condition.min is None or value >= condition.min) and (
        condition.max is None or value <= condition.max
    )


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) != isinstance(wanted, bool):
        return False
    if isinstance(value, float) and isinstance(wanted, int | float):
        return math.isclose(value, wanted, rel_tol=1e-6)  # a float32 is not exactly what the file says
    return bool(value == wanted)


def _word(value: Any) -> str:
    if value is None:
        return "missing"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shouted(name: str) -> str:
    """``FollowJointTrajectory`` → ``FOLLOW_JOINT_TRAJECTORY``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()
