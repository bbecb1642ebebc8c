"""The parameters of every action, checked before anything else happens (R30, R31).

Numbers are numbers: text, true and false are none, nor are NaN and infinity. Nothing has a default that
moves: what is missing is refused, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.rcp.errors import ParameterError
from robot_mcp_kit.rcp.models import TCPPosition, ToolData
from robot_mcp_kit.rcp.prompt import plain_name
from robot_mcp_kit.skills.arguments import not_a_boolean, parse_arguments
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config.types import NotNegative, Positive, Real


def _printable(value: str) -> str:
    if plain_name(value) != value or not value.strip():
        raise ValueError("must be a name of printable characters, without line ends")
    return value


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError("must be 1 or -1")
    return value


Name = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_printable)]
Millimetres = Annotated[Real, Field(description="millimetres in the controller's base frame")]
Rotation = Annotated[Real, Field(description="by the adapter's rotation convention")]


class Parameters(SkillArguments):
    """Base of every action's parameters; this one is for actions that take none."""

    model_config = ConfigDict(strict=True)


class MoveTo(Parameters):
    """All six, every time."""

    x: Millimetres
    y: Millimetres
    z: Millimetres
    rx: Rotation
    ry: Rotation
    rz: Rotation

    def position(self) -> TCPPosition:
        return TCPPosition(self.x, self.y, self.z, self.rx, self.ry, self.rz)


class Jog(Parameters):
    axis: Name
    """``J1`` to ``J6``, ``X``, ``Y``, ``Z``, ``RX``, ``RY``, ``RZ``, or what the adapter allows instead."""
    direction: Annotated[Literal[1, -1], BeforeValidator(_whole)]
    speed: Positive
    """At most the adapter's ``jog_speed_max``."""


class ProgramName(Parameters):
    module: Name


class ProgramCode(Parameters):
    code: str


class ProgramDiff(Parameters):
    module: Name
    local_code: str


class Upload(Parameters):
    module: Name
    code: str


class SetIO(Parameters):
    signal: Name
    value: Annotated[Real, BeforeValidator(not_a_boolean)]
    """0 or 1 for a digital output, 0.0 to 1.0 for an analog one."""


class DevicePulse(Parameters):
    output: Name
    pulse_ms: Positive
    read_back: Name | None = None


class Tool(Parameters):
    """All of it: an offset that was left out would be overwritten with 0."""

    name: Name
    tcp_x: Millimetres
    tcp_y: Millimetres
    tcp_z: Millimetres
    mass_kg: NotNegative


class ModifyTool(Parameters):
    tool: Tool

    def data(self) -> ToolData:
        return ToolData(**self.tool.model_dump())


class Calibrate(Parameters):
    poses: Annotated[list[MoveTo], Field(min_length=1, max_length=50)]


class Resource(Parameters):
    uri: Annotated[str, Field(max_length=256)]


P = TypeVar("P", bound=Parameters)


def parse_parameters(model: type[P], params: object) -> P:
    """Check parameters as they came over the wire.

    Raises:
        ParameterError: names the first wrong one and what would be right.
    """
    if not isinstance(params, Mapping):
        raise ParameterError("params", "must be an object of named parameters")
    try:
        return parse_arguments(model, params)
    except ArgumentError as error:
        raise ParameterError(error.field, error.message) from None
    except (OverflowError, RecursionError) as error:
        raise ParameterError("params", f"cannot be read: {error}") from None
