"""The building stones of the configuration: numbers, names, ranges, and what every skill's entry has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

TWO_PI = math.tau


def _frame(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError('a frame name must not be empty; "map" is usual')
    if value.startswith("/"):
        raise ValueError(f'TF2 frame names have no leading slash; write "{value.lstrip("/")}"')
    return value


def _yaw(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > TWO_PI:
        raise ValueError(
            f"more than a full turn; yaw is in radians (are these degrees? {value:g} degrees are "
            f"{math.radians(value):.4f} rad)"
        )
    return value


Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
NotNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
Yaw = Annotated[Real, BeforeValidator(_yaw)]
Frame = Annotated[str, BeforeValidator(_frame)]
Name = Annotated[str, Field(min_length=1, max_length=80)]
ActionType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*/action/[A-Z][A-Za-z0-9]*$")]
ActionName = Annotated[str, Field(pattern=r"^[~/]?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")]


class Section(BaseModel):
    """Base of every section: unknown keys are refused, values do not change after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(Section):
    """Both ends are allowed values."""

    min: Real
    max: Real

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        if isinstance(value, list):
            if len(value) != 2:
                raise ValueError("write two numbers: [min, max]")
            return {"min": value[0], "max": value[1]}
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Range:
        if not self.min < self.max:
            raise ValueError(f"the first number must be the smaller one, got [{self.min:g}, {self.max:g}]")
        return self

    def __contains__(self, value: float) -> bool:
        return self.min <= value <= self.max

    def __str__(self) -> str:
        return f"{self.min:g} .. {self.max:g}"


class NavigationLimits(Section):
    """Where a drive may end, in ``map_frame``. Goals in other frames are refused while ``x_m`` or ``y_m``
    is set.
    """

    x_m: Range | None = None
    y_m: Range | None = None
    max_distance_m: Positive | None = None
    """Straight line from where the robot is now; goals are refused while its position is unknown."""


Policy = Literal["replace", "refuse", "queue"]


class SkillSection(Section):
    """What every skill has, whatever its action."""

    action: ActionName
    """As in ``ros2 action list``. Relative names are resolved in the node's namespace; a remap does not
    work.
    """
    type: ActionType
    enabled: bool = True
    policy: Policy = "replace"
    """A second goal while one runs: it takes over, it is refused, or it waits until the first has ended."""
    server_wait_s: NotNegative | None = None
    acceptance_timeout_s: Positive | None = None
    feedback_timeout_s: NotNegative | None = None
    """Silence after which the task is marked stalled; 0: never, for actions without feedback.

    Left out (or ``null``), these three are the node's parameters of the same names.
    """
    result_timeout_s: Positive | None = None
    """Longest a goal may take, wall clock; then it is cancelled and fails. ``null``: no limit, as in Nav2."""


def keys_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys a model knows at a place inside it; empty where there are none.

    ``keys_at(RobotConfig, ("places", "kitchen"))`` are the fields of a place.
    """
    inside: Any = model
    for part in path:
        inside = _part_of(inside, part)
    if not _is_model(inside):
        return []
    return [field.alias or name for name, field in inside.model_fields.items()]


def _part_of(annotation: Any, part: str | int) -> Any:
    """The type of a field, of a dictionary's values or of a list's items."""
    if _is_model(annotation):
        field = annotation.model_fields.get(part)
        return None if field is None else _plain(field.annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (dict, list) and inner:
        return _plain(inner[-1])
    return None


def _plain(annotation: Any) -> Any:
    """Without ``Annotated`` and ``None``."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next((_plain(a) for a in get_args(annotation) if a is not type(None)), None)
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
