"""From what a model wrote to a skill's typed arguments, with errors a model can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ValidationError

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.base import SkillArguments
from robot_mcp_kit.skills.config.types import keys_at
from robot_mcp_kit.skills.config.yaml_tree import dotted
from robot_mcp_kit.skills.text import clean_text, did_you_mean

A = TypeVar("A", bound=SkillArguments)


def not_a_boolean(value: Any) -> Any:
    """For numbers: true and false are none, though Python and pydantic count with them."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


Number = Annotated[float, BeforeValidator(not_a_boolean)]
"""A finite number. Text that is exactly a number (``"1.5"``) counts, true and false do not."""


def parse_arguments(model: type[A], arguments: Mapping[str, Any] | SkillArguments) -> A:
    """Check raw arguments against a skill's model.

    Raises:
        ArgumentError: names the first wrong argument (nested: ``poses[1].orientation.w``), what is wrong with
            it, and for an unknown name the nearest known ones.
    """
    if isinstance(arguments, model):
        return arguments
    raw = arguments.model_dump() if isinstance(arguments, SkillArguments) else arguments
    if not isinstance(raw, Mapping):
        raise ArgumentError("arguments", "expected an object of named arguments")
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        own = first.get("ctx", {}).get("error")
        if isinstance(own, ArgumentError):  # a model that reads by itself has said it already
            raise own from None
        field = dotted(tuple(first["loc"])) if first["loc"] else "arguments"
        if first["type"] == "extra_forbidden":
            known = keys_at(model, first["loc"][:-1])
            last = str(first["loc"][-1])
            raise ArgumentError(
                field, f"there is no such argument.{did_you_mean(last, known)}", allowed=known
            ) from None
        message = first["msg"].removeprefix("Value error, ")
        got = first["input"]
        shown = f" (got {clean_text(repr(got), 60)})" if isinstance(got, str | int | float) else ""
        raise ArgumentError(field, message[:1].lower() + message[1:] + shown) from None
