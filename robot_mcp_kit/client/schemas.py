"""Checks a tool's arguments against what its server declares, as far as that can be expressed here.

What cannot be (a foreign dialect, a reference to elsewhere, a pattern that is no Python one) accepts
anything instead of refusing everything, is said once, and never makes a required argument optional (A39).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from robot_mcp_kit.client.narrowing import Narrowing, unsendable
from robot_mcp_kit.client.schema_budget import TooMuch, budget

MAX_PROBLEMS = 10


class ArgumentChecker:
    """Checks arguments.

    Args:
        schema: the tool's input schema, as the server gave it.

    Attributes:
        dropped: JSON paths of the parts that accept anything.
    """

    def __init__(self, schema: Any) -> None:
        narrowing = Narrowing(schema)
        self.schema: dict[str, Any] = narrowing.schema
        self.dropped: list[str] = narrowing.dropped
        self._validator = narrowing.validator

    @property
    def properties(self) -> set[str]:
        """Names of the declared arguments."""
        properties = self.schema.get("properties")
        return set(properties) if isinstance(properties, dict) else set()

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong, each with the place; at most ten, without quoting values."""
        found = list(itertools.islice(unsendable(arguments), MAX_PROBLEMS))
        if found:  # validators fail on them
            return found
        with contextlib.suppress(TooMuch), budget():
            for error in self._validator.iter_errors(dict(arguments)):
                where = error.json_path.removeprefix("$.").removeprefix("$") or "arguments"
                found.append(f"{where}: {_words(error)}")
                if len(found) == MAX_PROBLEMS:
                    break
        return found


def _words(error: Any) -> str:
    keyword, wanted = error.validator, error.validator_value
    if keyword == "required" and isinstance(wanted, list):
        missing = [name for name in wanted if name not in error.instance]
        return f"missing: {', '.join(missing)}"
    if keyword == "additionalProperties":
        known = error.schema.get("properties", {})
        extra = [str(name)[:60] for name in error.instance if name not in known]
        return f"unknown: {', '.join(extra[:20])}; there are {', '.join(known)}"
    if keyword in ("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return f"{keyword} must be {str(wanted)[:120]}"
    return f"does not fit {keyword}"
