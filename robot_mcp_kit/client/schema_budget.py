"""Bounds what one check may cost, whatever the schema: circles, parts that double at each step, depth."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from jsonschema import validators  # type: ignore[import-untyped]

MAX_STEPS = 100_000
"""Keywords looked at in one check."""
MAX_NESTED = 80
"""Keywords within one another."""


class TooMuch(Exception):
    """The budget is used up: what the rest of the schema would have said is not known."""


class _Budget:
    def __init__(self) -> None:
        self.steps = self.nested = 0


_budget: ContextVar[_Budget] = ContextVar("budget of a schema check")


@contextlib.contextmanager
def budget() -> Iterator[None]:
    """One check's budget; validators of :func:`limited` classes need one."""
    token = _budget.set(_Budget())
    try:
        yield
    finally:
        _budget.reset(token)


@functools.cache
def limited(dialect: Any) -> Any:
    """The validator class, with each keyword on the budget. Its schemas must not name a ``$schema``: the
    library would go on with a class of its own.
    """
    keywords = {name: _counted(function) for name, function in dialect.VALIDATORS.items()}
    return validators.extend(dialect, keywords)


def _counted(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        spent = _budget.get()
        spent.steps += 1
        if spent.steps > MAX_STEPS or spent.nested >= MAX_NESTED:
            raise TooMuch
        spent.nested += 1
        try:
            yield from function(validator, value, instance, schema) or ()
        finally:
            spent.nested -= 1

    return check
