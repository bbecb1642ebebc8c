"""Node parameters: declared with type, description and range, read once at start (B35)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from robot_mcp_kit.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter: ``low``/``high`` bound numbers, inclusive. All are read-only after start."""

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None


def read_parameters(node: Any, specs: Iterable[ParameterSpec]) -> dict[str, Any]:
    """Declare ``specs`` on ``node`` and return their values.

    Raises:
        ConfigError: a value has the wrong type or is out of range; names the parameter.
    """
    values: dict[str, Any] = {}
    for spec in specs:
        descriptor = ParameterDescriptor(description=spec.description, read_only=True)
        if spec.low is not None and spec.high is not None:
            if isinstance(spec.default, float):
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=spec.low, to_value=spec.high)
                ]
            else:
                descriptor.integer_range = [
                    IntegerRange(from_value=int(spec.low), to_value=int(spec.high), step=1)
                ]
        try:
            node.declare_parameter(spec.name, spec.default, descriptor)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            wanted = type(spec.default).__name__
            bounds = "" if spec.low is None else f" from {spec.low} to {spec.high}"
            raise ConfigError(
                f"parameter {spec.name}: wants a {wanted}{bounds} ({spec.description}): {error}"
            ) from error
        value = node.get_parameter(spec.name).value
        values[spec.name] = list(value) if isinstance(spec.default, list) and value is not None else value
    return values
