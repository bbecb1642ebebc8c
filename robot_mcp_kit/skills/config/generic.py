"""The entry of an action that has no skill of its own: which of its goal's fields a caller sees, and how.

Field paths are those of ``ros2 interface show``, dotted: ``pose.header.frame_id``. ``[]`` stands for each
element of a list: ``poses[].header.frame_id``. A leading ``goal.`` may be written.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from robot_mcp_kit.skills.config.types import Name, NotNegative, Policy, Positive, Real, Section, SkillSection

Argument = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
FieldPath = Annotated[
    str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*(\[\])?(\.[A-Za-z][A-Za-z0-9_]*(\[\])?)*$", max_length=200)
]
Length = Annotated[int, Field(strict=True, ge=0)]
Scalar = bool | int | float | str


def _only_field(value: Any) -> Any:
    return {"field": value} if isinstance(value, str) else value


class FieldSettings(Section):
    """What is done with one field of the goal. ``path: value`` is short for ``path: {fixed: value}``."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    fixed: Any = None
    """Always sent; no caller sees it. For integers also the name of one of the interface's constants."""
    hidden: bool = False
    """Not shown, sent as the message's own default; does not hold for what other entries name below it."""
    rename: Argument | None = Field(default=None, alias="as")
    """The argument's name. It moves to the top of the arguments (of the list's element, inside a list)."""
    required: bool | None = None
    """Default: numbers that have no default must be given, everything else may be left out."""
    default: Any = None
    """Sent when the caller leaves it out."""
    min: Real | None = None
    max: Real | None = None
    """Both ends are allowed values. For numbers."""
    choices: list[Scalar] | dict[Name, Scalar] | None = None
    """The only values allowed; as a mapping: words for the caller, and the value sent for each."""
    min_items: Length | None = None
    max_items: Length | None = None
    max_length: Length | None = None
    """Longest text, in characters."""
    form: Literal["seconds", "yaw"] | None = None
    """``seconds``: a Duration as one number; ``yaw``: a Quaternion as one angle about +z, radians."""
    unit: Annotated[str, Field(min_length=1, max_length=20)] | None = None
    description: str | None = None

    @property
    def given(self) -> set[str]:
        """The keys that were written, as in the file."""
        return {"as" if name == "rename" else name for name in self.model_fields_set}

    @model_validator(mode="before")
    @classmethod
    def _from_value(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("write a value to fix it, settings, or {} to show it as it is; null is neither")
        return value if isinstance(value, dict) else {"fixed": value}

    @model_validator(mode="after")
    def _no_contradictions(self) -> FieldSettings:
        given = self.given
        for key, on in (("fixed", "fixed" in given), ("hidden", self.hidden)):
            others = sorted(given - {key})
            if on and others:
                raise ValueError(
                    f"{key} and {', '.join(others)} contradict each other: nobody sees a {key} field"
                )
        for key in ("fixed", "default"):
            if key in given and getattr(self, key) is None:
                raise ValueError(f"{key} needs a value; a ROS field cannot be null")
        if "default" in given and self.required:
            raise ValueError("default and required contradict each other; drop one of them")
        for low, high in (("min", "max"), ("min_items", "max_items")):
            bottom, top = getattr(self, low), getattr(self, high)
            if bottom is not None and top is not None and bottom > top:
                raise ValueError(f"{low} ({bottom:g}) is more than {high} ({top:g})")
        if self.choices is not None:
            self._check_choices(given)
        return self

    def _check_choices(self, given: set[str]) -> None:
        limits = sorted(given & {"min", "max", "max_length", "form"})
        if limits:
            raise ValueError(f"choices and {', '.join(limits)} contradict each other: choices say it all")
        if not self.choices:
            raise ValueError("choices is empty, so nothing could be given; write hidden: true to hide it")


class Reading(Section):
    """A number read from the feedback: value * scale + offset."""

    field: FieldPath
    scale: Real = 1.0
    offset: Real = 0.0
    unknown: Real | None = None
    """A value of the field that means "not known yet"."""

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return _only_field(value)

    @model_validator(mode="after")
    def _scaled(self) -> Reading:
        if self.scale == 0.0:
            raise ValueError("scale is 0, so the value would always be the same")
        return self


class ProgressSection(Section):
    """What of the feedback is progress, time left and distance left. A Duration counts in seconds."""

    percent: Reading | None = None
    """0 to 100 after scaling."""
    eta_s: Reading | None = None
    distance_m: Reading | None = None
    pose: FieldPath | None = None
    """A ``geometry_msgs/msg/PoseStamped``: where the robot is."""


class Condition(Section):
    """What a field of the result must be: a value, one of a list, or within ``min`` and ``max``."""

    any_of: Annotated[list[Scalar], Field(min_length=1)] | None = None
    min: Real | None = None
    max: Real | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_value(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {"any_of": value}
        return value if isinstance(value, dict) else {"any_of": [value]}

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if self.any_of is None and self.min is None and self.max is None:
            raise ValueError("write the value that means success, a list of such values, or min and max")
        if self.any_of is not None and (self.min is not None or self.max is not None):
            raise ValueError("write either any_of, or min and max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min ({self.min:g}) is more than max ({self.max:g})")
        return self

    def __str__(self) -> str:
        if self.any_of is not None:
            return " or ".join(_shown(value) for value in self.any_of)
        ends = (("at least", self.min), ("at most", self.max))
        return " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)


def _shown(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class GenericSection(SkillSection):
    """Any action type."""

    generic: Literal[True] = True
    """Needed only for a type that also has a skill of its own."""
    policy: Policy = "refuse"
    """What a second goal does to the first is the server's own affair, so it is not sent by default."""
    title: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    description: str | None = None
    """Read by the planner: what it does, when not to use it, whether a retry is safe."""
    resources: list[Name] = Field(default_factory=list)
    """Parts of the robot that it moves (``base``, ``arm``, ``gripper``); skills that share one take turns."""
    others: Literal["exposed", "hidden"] = "exposed"
    """Fields of the goal that ``fields`` does not name."""
    fields: dict[FieldPath, FieldSettings] = Field(default_factory=dict)
    progress: ProgressSection = ProgressSection()
    success_when: dict[FieldPath, Condition] = Field(default_factory=dict)
    """A SUCCEEDED goal is believed only if its result says all of this."""
    error_code_field: FieldPath | None = None
    none_value: int | str = 0
    """The value of ``error_code_field`` that means no error."""
    error_text_field: FieldPath | None = None
    error_prefix: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=40)] | None = None
    """Begins the codes of failed tasks. Default: the type's name, ``FOLLOW_JOINT_TRAJECTORY``."""
    est_duration_s: Positive | None = None
    """Typical duration, told to callers at the start."""
    max_list_items: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 100
    """Longest list in what is told of feedback and result."""
    feedback_timeout_s: NotNegative | None = None

    @model_validator(mode="after")
    def _none_value_has_a_field(self) -> GenericSection:
        if "none_value" in self.model_fields_set and self.error_code_field is None:
            raise ValueError("none_value says nothing without error_code_field")
        return self
