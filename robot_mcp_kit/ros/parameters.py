"""Node parameters: declared with type, description and range, read when the node is configured (B35)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from robot_mcp_kit.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter: ``low``/``high`` bound numbers, inclusive."""

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None


def declare_parameters(node: Any, specs: Iterable[ParameterSpec]) -> None:
    """Declare ``specs`` on ``node``; values given on the command line or in a file are checked now.

    Raises:
        ConfigError: a value has the wrong type or is out of range; names the parameter.
    """
    for spec in specs:
        descriptor = ParameterDescriptor(description=spec.description)
        if spec.low is not None and spec.high is not None:
            if isinstance(spec.default, float):
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=spec.low, to_value=spec.high)
                ]
            else:
                whole = IntegerRange(from_value=int(spec.low), to_value=int(spec.high), step=1)
                descriptor.integer_range = [whole]
        try:
            node.declare_parameter(spec.name, spec.default, descriptor)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            wanted = type(spec.default).__name__
            bounds = "" if spec.low is None else f" from {spec.low} to {spec.high}"
            raise ConfigError(
                f"parameter {spec.name}: wants a {wanted}{bounds} ({spec.description}): {error}"
            ) from error


def parameter_values(node: Any, specs: Iterable[ParameterSpec]) -> dict[str, Any]:
    """The present values by name."""
    values = {spec.name: node.get_parameter(spec.name).value for spec in specs}
    return {
        name: list(value) if not isinstance(value, (str, bytes)) and hasattr(value, "__iter__") else value
        for name, value in values.items()
    }


def hold_parameters(node: Any, specs: Iterable[ParameterSpec], held: Callable[[], bool]) -> None:
    """Refuse changes of ``specs`` while ``held()``: they are read when the node is configured."""
    names = {spec.name for spec in specs}

    def judge(parameters: list[Any]) -> SetParametersResult:
        wanted = sorted(p.name for p in parameters if p.name in names)
        if wanted and held():
            return SetParametersResult(
                successful=False,
                reason=f"{', '.join(wanted)}: read at configure; deactivate and clean the node up first",
            )
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(judge)
