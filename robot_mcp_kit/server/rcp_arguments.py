"""Arguments of the Robot Context Protocol's tools: units in the names, nothing guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import SkillArguments

Part = Literal["context", "identity", "joints", "tcp", "io", "programs", "tools", "conventions"]
SPEEDS = ("speed_deg_s", "speed_mm_s")


def _one_way(value: Any) -> Any:
    if type(value) is not int or value not in (1, -1):
        raise ValueError("must be the number 1 or -1")
    return value


class NoArguments(SkillArguments):
    """Takes none."""


class ReadArguments(SkillArguments):
    """Which part."""

    part: Part = Field("context", description="What to read.")


class _Place(SkillArguments):
    x_mm: Number = Field(description="Position along x, in millimetres.")
    y_mm: Number = Field(description="Position along y, in millimetres.")
    z_mm: Number = Field(description="Position along z (up), in millimetres.")
    frame: str | None = Field(None, description="TF frame of the coordinates; there is only this one.")


class PlaceInDegrees(_Place):
    """A place of the tool, turned by three angles."""

    rx_deg: Number = Field(description="First rotation number, in degrees.")
    ry_deg: Number = Field(description="Second rotation number, in degrees.")
    rz_deg: Number = Field(description="Third rotation number, in degrees.")


class PlaceInRadians(_Place):
    """A place of the tool, turned by a rotation vector."""

    rx_rad: Number = Field(description="Rotation vector along x: axis times angle, in radians.")
    ry_rad: Number = Field(description="Rotation vector along y, in radians.")
    rz_rad: Number = Field(description="Rotation vector along z, in radians.")


class JogArguments(SkillArguments):
    """One step of one axis."""

    axis: str = Field(max_length=8, description="Which axis.")
    direction: Annotated[Literal[1, -1], BeforeValidator(_one_way)] = Field(
        description="1 towards larger values, -1 towards smaller ones."
    )
    speed_deg_s: Number | None = Field(
        None, description="For joints and rotations: degrees a second, above 0."
    )
    speed_mm_s: Number | None = Field(None, description="For X, Y and Z: millimetres a second, above 0.")


class ProgramArguments(SkillArguments):
    """Which program."""

    module: str = Field(min_length=1, max_length=200, description="Name of the program.")


def place_arguments(unit: str) -> type[SkillArguments]:
    """The arguments of ``move_to`` for a convention in degrees, or else in radians."""
    return PlaceInDegrees if unit == "deg" else PlaceInRadians


def place_parameters(given: SkillArguments, frame: str) -> dict[str, float]:
    """The protocol's six numbers.

    Raises:
        ArgumentError: they are in another frame.
    """
    numbers = given.model_dump()
    named = numbers.pop("frame")
    if named not in (None, frame):
        raise ArgumentError("frame", f"positions are in {frame} here, not in {named!r}", allowed=[frame])
    return {name.split("_")[0]: value for name, value in numbers.items()}


def jog_parameters(
    given: JogArguments, axes: Sequence[str], highest: Callable[[str], float]
) -> dict[str, Any]:
    """The protocol's parameters; the speed becomes a part of the axis's highest.

    Raises:
        ArgumentError: no such axis, or not the one speed of its unit, above 0 and not too fast.
    """
    if given.axis not in axes:
        raise ArgumentError("axis", "there is no such axis", allowed=list(axes))
    wanted, other = SPEEDS[::-1] if given.axis in ("X", "Y", "Z") else SPEEDS
    if getattr(given, other) is not None:
        raise ArgumentError(other, f"{given.axis} takes {wanted}, not {other}")
    speed = getattr(given, wanted)
    if speed is None:
        raise ArgumentError(wanted, f"is missing; {given.axis} needs it")
    most = highest(given.axis)
    if not 0 < speed <= most:
        raise ArgumentError(wanted, f"must be above 0 and at most {most:g}, got {speed:g}")
    return {"axis": given.axis, "direction": given.direction, "speed": min(1.0, speed / most)}
